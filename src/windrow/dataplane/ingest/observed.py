"""The lateness of the tuples of a micro-batch, from the table that its job returns.

For rows grouped by Spark, only the group's least point is known. Their lateness is then an upper bound, at most a pane
too great.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.catalog.definitions import StreamDef
from windrow.dataplane.ingest.admission import LATE
from windrow.dataplane.ingest.grouping import Grouping, progress_columns
from windrow.dataplane.ingest.grouping_sets import set_ids
from windrow.windows import Points
from windrow.windows.lateness import Lateness


def lateness_after(
    table: pa.Table,
    stream: StreamDef,
    groupings: Sequence[Grouping],
    mode: str,
    before: Mapping[str, int | None],
    known: Mapping[str, Lateness],
) -> dict[str, Lateness]:
    """The histograms including this micro-batch; `before` has the greatest points before it."""
    counted = pc.or_kleene(pc.is_null(table.column("__reason")), pc.equal(table.column("__reason"), LATE))
    mask = np.asarray(pc.fill_null(counted, False).to_numpy(), dtype=bool)
    ids = set_ids(groupings, len(progress_columns(stream)))
    if mode != "driver" and len(ids) > 1:
        mask &= table.column("__set").to_numpy() == ids[0]
    found = {}
    for i, punctuated in enumerate(stream.punctuated):
        points, counts = _points(table, mode, i)
        top = before[punctuated.column]
        late = np.zeros(points.size, np.int64) if top is None else np.maximum(top - points, 0)
        had = known.get(punctuated.column, Lateness())
        found[punctuated.column] = had.after(late[mask], counts[mask])
    return found


def _points(table: pa.Table, mode: str, i: int) -> tuple[Points, Points]:
    if mode == "driver":
        points = pc.fill_null(table.column(f"__t{i}"), 0).to_numpy()
        return points, np.ones(points.size, np.int64)
    return pc.fill_null(table.column(f"__least__t{i}"), 0).to_numpy(), table.column("__n").to_numpy()
