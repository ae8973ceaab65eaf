"""ORDER BY with LIMIT.

    top_k(R)(b) = the first k rows of R(b) in the given order, ties by all columns

Computed anew at the ticks at which the input changes. What leaves the first k rows is withdrawn, what enters them is
added, so the output is strict. The state is the live input and the rows shown.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.keyed import Keyed, gone_rows
from windrow.operators.layouts.live import ENTER, LEAVE, Lives, folded, intervals
from windrow.operators.layouts.steps import Outcome, StateTable, TickBatch
from windrow.operators.tables.edges import COUNT, TICK, Edge, made_at, netted
from windrow.operators.tables.kernel import naive, types_of
from windrow.operators.tables.rows import appended, longs, taken
from windrow.operators.ticks import DueTicks, Points
from windrow.plan.algebra.nodes import TopRows

SHOWN = "/shown"
"""The path of the rows shown, after the operator's own."""


def top_rows(node: TopRows, edge: Edge, path: str, state: StateTable, shown: Keyed, batch: TickBatch) -> Outcome:
    """What enters and leaves the first rows at all due ticks."""
    due, names = batch.due, edge.names
    found = intervals(edge, path, state, due)
    ticks = _changed(found, due)
    top = _first(node, found, ticks, batch)
    # Each evaluation replaces the one before it; the first one those that the state shows.
    before = shown.rows(top.schema.remove(top.schema.get_field_index(TICK)))
    number = np.searchsorted(ticks, longs(top.column(TICK)))
    replaced = taken(top, number < ticks.size - 1)
    later = ticks[np.searchsorted(ticks, longs(replaced.column(TICK))) + 1]
    made = [_at(top, longs(top.column(TICK)), 1, names), _at(replaced, later, -1, names)]
    if ticks.size:
        made.append(_at(before, np.full(before.num_rows, ticks[0]), -1, names))
    changes = netted(pa.concat_tables(made), names)
    tables, parts = dict(found.tables), list(found.parts)
    if ticks.size:
        now = folded(names, taken(top, number == ticks.size - 1)).select([COUNT, *names])
        at = shown.find([before.column(name) for name in names], before.num_rows)
        again = shown.find([now.column(name) for name in names], now.num_rows)
        gone = taken(before.select([COUNT, *names]), ~np.isin(at, again))
        tables[path + SHOWN] = shown.put(now, at)
        parts += shown.cut(path + SHOWN, gone_rows(now, gone), due.before, due.upto)
    return Outcome(Edge(changes, node.schema, is_strict=True), tables, tuple(parts))


def _changed(found: Lives, due: DueTicks) -> Points:
    """The due ticks at which a row comes or goes."""
    enter, leave = longs(found.rows.column(ENTER)), longs(found.rows.column(LEAVE))
    return np.unique(np.concatenate([enter[enter > due.before], leave[leave <= due.upto]]))


def _at(rows: pa.Table, ticks: Points, sign: int, names: list[str]) -> pa.Table:
    return made_at(rows.select(names), ticks, sign * longs(rows.column(COUNT)))


def _first(node: TopRows, found: Lives, ticks: Points, batch: TickBatch) -> pa.Table:
    """The first rows of every tick that is asked for: TICK, COUNT, values."""
    names = [column.sql for column in node.schema]
    rows = found.rows
    if not ticks.size or not node.limit:
        empty = rows.slice(0, 0).select([COUNT, *names])
        return appended(empty, **{TICK: np.zeros(0, np.int64)}).select([TICK, COUNT, *names])
    columns = {name: naive(rows.column(name)) for name in (ENTER, LEAVE, COUNT, *names)}
    live = pa.table(columns | {"r": np.arange(rows.num_rows)})
    sql = _sql(node, batch)
    done = batch.kernel.query(sql, live=live, ticks=pa.table({"b": ticks}))
    top = taken(rows.select(names), longs(done.column("r")))
    return appended(top, **{TICK: longs(done.column("b")), COUNT: longs(done.column("n"))}).select(
        [TICK, COUNT, *names]
    )


def _sql(node: TopRows, batch: TickBatch) -> str:
    """A row counts as often as COUNT says; `before` is how many rows stand before it."""
    types = types_of(node.schema)
    order = [
        f"{batch.kernel.final(one.expression, types).sql} {'DESC' if one.descending else 'ASC'} "
        f"NULLS {'FIRST' if one.nulls_first else 'LAST'}"
        for one in node.order
    ]
    by = ", ".join([*order, *(f'"{column.sql}" ASC NULLS FIRST' for column in node.schema), "r"])
    before = f"sum({COUNT}) OVER (PARTITION BY b ORDER BY {by} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    inner = (
        f"SELECT b, r, {COUNT} AS n, CAST({before} AS BIGINT) - {COUNT} AS before "
        f"FROM ticks JOIN live ON {ENTER} <= b AND b < {LEAVE}"
    )
    return f"SELECT b, r, least(n, {node.limit} - before) AS n FROM ({inner}) WHERE before < {node.limit}"
