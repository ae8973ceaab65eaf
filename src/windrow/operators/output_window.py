"""A window over the output of a sub-query that is MONOTONIC (Golab's dissertation, section 3.3.3).

    W(R) = {r with lifetime [r.ts + d, r.ts + d + T) : r ∈ R}

With OFFSET d, a row waits until it is born; the state is the queue of those.
"""

from __future__ import annotations

import pyarrow as pa

from windrow.operators.layouts.queue import RowQueue
from windrow.operators.layouts.steps import Outcome, TickBatch
from windrow.operators.scan import added, lifetime_columns
from windrow.operators.tables.edges import Edge
from windrow.operators.tables.rows import longs, taken
from windrow.operators.ticks import TS
from windrow.plan.algebra.nodes import OutputWindow


def output_window(node: OutputWindow, edge: Edge, path: str, queue: RowQueue, batch: TickBatch) -> Outcome:
    """The new rows with lifetimes by the window."""
    births = added(longs(edge.rows.column(TS)), node.lifetime.offset)
    columns = lifetime_columns(births, node.lifetime, batch.has_until)
    rows = pa.table(columns | {name: edge.rows.column(name) for name in edge.names})
    if not node.lifetime.offset:
        return Outcome(Edge(rows, node.schema))
    upto = batch.due.upto
    waiting = taken(rows, births >= upto)
    born = pa.concat_tables([queue.born(upto, rows.schema), taken(rows, births < upto)])
    return Outcome(
        Edge(born, node.schema),
        {path: queue.appended(waiting).settled(upto)},
        tuple(queue.cut(path, waiting)),
    )
