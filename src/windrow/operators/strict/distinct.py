"""Duplicate elimination over strict input: the counting version (Golab's dissertation, section 3.5.2).

    δ(R)(b) = {v : count of v in R(b) > 0}

δ* remembers the youngest tuple of a value, which may be withdrawn; so the rows with each value are counted. A value
comes when its count leaves zero and is withdrawn when it is zero again; nothing is predicted. The state is the counts
and, if rows may also expire, those that are alive.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.keyed import Keyed, gone_rows
from windrow.operators.layouts.live import counts_at, turnover
from windrow.operators.layouts.steps import Outcome, StateTable, TickBatch
from windrow.operators.tables.edges import COUNT, TICK, Edge, made_at
from windrow.operators.tables.rows import appended, longs, normal, numbered, run_lasts, taken
from windrow.plan.algebra.nodes import Distinct
from windrow.synopses.cells.arrays import run_starts

LIVE = "/live"
"""The path of the rows that are alive, after the operator's own, which is that of the counts."""


def counting_distinct(
    node: Distinct, edge: Edge, path: str, counts: Keyed, live: StateTable | None, batch: TickBatch
) -> Outcome:
    """The values that come and go at the due ticks. `live` None: no row has a predicted end."""
    due, names = batch.due, edge.names
    flow = turnover(edge, path + LIVE, live, due)
    tables, parts = dict(flow.tables), list(flow.parts)
    columns = [normal(flow.changes.column(name)) for name in names]
    ids, firsts = numbered(columns, flow.changes.num_rows)
    values = pa.table([column.take(pa.array(firsts)) for column in columns], names)
    at = counts.find(values.columns, firsts.size)
    held = np.flatnonzero(at >= 0)
    schema = pa.schema([(COUNT, pa.int64()), *((column.sql, column.type.arrow) for column in node.schema)])
    base = np.zeros(firsts.size, np.int64)
    base[held] = longs(counts.take(at[held], schema).column(COUNT))
    ticks, deltas = longs(flow.changes.column(TICK)), longs(flow.changes.column(COUNT))
    order = np.lexsort((ticks, ids))
    ids, ticks, deltas = ids[order], ticks[order], deltas[order]
    now = counts_at(deltas, ids, base)
    before = now - deltas
    turns = np.flatnonzero((now > 0) != (before > 0))
    made = made_at(taken(values, ids[turns]), ticks[turns], np.where(now[turns] > 0, 1, -1))
    last = run_lasts(run_starts(ids), ids.size)
    after = appended(taken(values, ids[last]), **{COUNT: now[last]}).select(schema.names)
    stays, at = now[last] > 0, at[ids[last]]
    goes = ~stays & (at >= 0)
    kept, gone = taken(after, stays), taken(after, goes)
    tables[path] = counts.updated(kept, at[stays], at[goes])
    parts += counts.cut(path, gone_rows(kept, gone), due.before, due.upto)
    return Outcome(Edge(made, node.schema, is_strict=True), tables, tuple(parts))
