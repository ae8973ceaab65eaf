"""The last results of a sub-query that is MONOTONIC (Golab's dissertation, section 3.3.3).

    W(R)(b) = the last n rows of R with ts < b, by (ts, then all columns ascending, NULL first)

The order is that of values alone, so results that are born together leave in the same order whatever the batches,
homes and rules. The rest is a count-based window: see `rows_window.py`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.keyed import Keyed
from windrow.operators.layouts.steps import Outcome, TickBatch
from windrow.operators.negation.rows_window import rows_window
from windrow.operators.scan import ARRIVED, POINT
from windrow.operators.tables.edges import Edge
from windrow.operators.tables.kernel import naive
from windrow.operators.tables.rows import longs
from windrow.operators.ticks import TS
from windrow.plan.algebra.nodes import OutputRows


def output_rows(node: OutputRows, edge: Edge, path: str, ring: Keyed, counted: Keyed, batch: TickBatch) -> Outcome:
    """What enters and leaves the last rows at all due ticks."""
    births = longs(edge.rows.column(TS))
    columns = {name: edge.rows.column(name) for name in edge.names}
    stored = pa.table({POINT: births, ARRIVED: _places(edge, batch), **columns})
    return rows_window(node, stored, path, ring, counted, batch)


def _places(edge: Edge, batch: TickBatch) -> np.ndarray:
    """The place of each row by all columns."""
    rows = edge.rows.num_rows
    if rows < 2:
        return np.arange(rows)
    values = {name: naive(edge.rows.column(name)) for name in edge.names}
    by = ", ".join([*(f'"{name}" ASC NULLS FIRST' for name in edge.names), "r"])
    order = batch.kernel.query(f"SELECT r FROM live ORDER BY {by}", live=pa.table(values | {"r": np.arange(rows)}))
    places = np.empty(rows, np.int64)
    places[longs(order.column("r"))] = np.arange(rows)
    return places
