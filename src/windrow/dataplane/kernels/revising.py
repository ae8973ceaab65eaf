"""The kernel of corrections: which answers late cells change, bucket by bucket (LATE REVISE).

As in the driver home, the windows are looked up without the late cells of the bucket and with them. All rows of a group
are in one bucket, so unchanged rows need not leave it. Only with LIMIT are the first rows of all buckets needed to find
the changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windrow.dataplane.answers.finishing import Finisher
from windrow.dataplane.answers.revisions import bag_difference
from windrow.dataplane.kernels.answering import (
    QueryTask,
    WindowRequest,
    accumulators_read,
    bucket_lookup,
    cells_between,
    packed,
    unpacked,
)
from windrow.dataplane.kernels.loading import Buckets, StoredCells
from windrow.dataplane.kernels.worker_process import settle
from windrow.errors import first_line
from windrow.synopses import BasicIntervalSynopsis, LookupAnswer
from windrow.synopses.answering.deriving import kept_lookups, with_derived
from windrow.synopses.lookups import merged
from windrow.types import POINT_MAX

Mask = npt.NDArray[np.bool_]

CORRECTION_SCHEMA = pa.schema(
    [("query", pa.int32()), ("was", pa.binary()), ("now", pa.binary()), ("error", pa.string())]
)
"""One row per bucket and query with changes: two Arrow streams, or the error."""


@dataclass(frozen=True)
class RevisedWindows:
    """Windows of a query that late cells may change. `before`: answered already; `after`: to be answered."""

    asked: WindowRequest
    before: Mask
    after: Mask


@dataclass(frozen=True)
class Revision:
    """The work of a job: look up the windows of these queries without the late cells and with them."""

    stored: StoredCells
    late: StoredCells
    revised: tuple[RevisedWindows, ...]

    @property
    def bounds(self) -> tuple[int, int]:
        """All windows lie between these points."""
        asked = [one.asked for one in self.revised]
        return min(int(one.starts.min()) for one in asked), max(int(one.ends.max()) for one in asked)


@dataclass(frozen=True)
class BucketCorrection:
    """One bucket's parts of a query's answers, as `Finisher.part` returns them. Without LIMIT, rows that occur in both
    are removed from both."""

    query: int
    was: pa.Table | None
    now: pa.Table | None
    error: str | None = None

    def row(self) -> dict[str, object]:
        return {"query": self.query, "was": packed(self.was), "now": packed(self.now), "error": self.error}

    @classmethod
    def of(cls, row: dict[str, object]) -> BucketCorrection:
        error = row["error"]
        reason = None if error is None else str(error)
        return cls(int(str(row["query"])), unpacked(row["was"]), unpacked(row["now"]), reason)


def revise_buckets(
    queries: Sequence[QueryTask], revision: Revision, buckets: Iterable[int], max_value_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The corrections of these buckets, in batches of CORRECTION_SCHEMA."""
    settle()
    wanted = accumulators_read([queries[one.asked.query] for one in revision.revised])
    held, late = Buckets(revision.stored, wanted), Buckets(revision.late, wanted)
    finisher = Finisher(lambda: max_value_bytes)
    try:
        for bucket in buckets:
            rows = [one.row() for one in _revise(queries, revision, held, late, bucket, finisher)]
            if rows:
                yield pa.RecordBatch.from_pylist(rows, schema=CORRECTION_SCHEMA)
    finally:
        finisher.close()


def _revise(
    queries: Sequence[QueryTask], revision: Revision, held: Buckets, late: Buckets, bucket: int, finisher: Finisher
) -> Iterator[BucketCorrection]:
    synopsis = revision.stored.synopsis()
    low, high = revision.bounds
    for cells in cells_between(late, bucket, synopsis.groups, low, high):
        synopsis.hold_late(cells)
    left = [one for one in revision.revised if synopsis.has_late or _needs_all(queries[one.asked.query], one)]
    if not left:
        return
    for cells in cells_between(held, bucket, synopsis.groups, low, high):
        synopsis.deposit(cells)
    synopsis.close(POINT_MAX)
    if synopsis.groups.count == 1 and revision.stored.bucketed_by:
        return
    alone = synopsis.late_alone()
    for one in left:
        part = _part(queries[one.asked.query], one, synopsis, alone, finisher)
        if any(one is not None for one in (part.was, part.now, part.error)):
            yield part


def _needs_all(task: QueryTask, revised: RevisedWindows) -> bool:
    """Whether buckets without late cells matter: with LIMIT, or if some windows had no answer before."""
    return task.plan.limit is not None or not np.array_equal(revised.before, revised.after)


def _part(
    task: QueryTask,
    revised: RevisedWindows,
    synopsis: BasicIntervalSynopsis,
    alone: BasicIntervalSynopsis,
    finisher: Finisher,
) -> BucketCorrection:
    query, lookup = revised.asked.query, bucket_lookup(task.plan, revised.asked)
    derived = {lookup.query: task.derived}
    kept = kept_lookups([lookup], derived)
    was = next(with_derived(synopsis.answer(kept), [lookup], derived))
    now = merged(was, next(with_derived(alone.answer(kept), [lookup], derived)))

    def rows(looked: LookupAnswer, there: Mask) -> pa.Table:
        table, _ = finisher.part(task.plan, looked, synopsis.groups)
        return table.filter(pa.array(there[table.column("w").to_numpy()]))

    try:
        old, new = rows(was, revised.before), rows(now, revised.after)
    except Exception as error:
        return BucketCorrection(query, None, None, first_line(error))
    if task.plan.limit is None:
        gone, come = bag_difference(old, new)
        old, new = old.take(gone), new.take(come)
    return BucketCorrection(query, old if old.num_rows else None, new if new.num_rows else None)
