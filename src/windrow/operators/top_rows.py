"""ORDER BY with LIMIT.

    top_k(R)(b) = the first k rows of R(b) in the given order, ties by all columns

They change only at ticks at which the input does. What leaves the first k rows is withdrawn, what enters them is added,
so the output is strict. The state is the live input and the rows shown.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windrow.cql.final.sql import ordered_by
from windrow.operators.layouts.keyed import Keyed, gone_rows
from windrow.operators.layouts.live import ENTER, LEAVE, Lives, folded, intervals
from windrow.operators.layouts.steps import Outcome, StateTable, TickBatch
from windrow.operators.tables.edges import COUNT, Edge, made_at, netted, strict_schema
from windrow.operators.tables.kernel import Kernel, naive, types_of
from windrow.operators.tables.ranking import NOTHING, Ranked, differences, first_rows, joined
from windrow.operators.tables.rows import appended, longs, taken
from windrow.operators.ticks import DueTicks, Points
from windrow.plan.algebra.nodes import TopRows

SHOWN = "/shown"
"""The path of the rows shown, after the operator's own."""

LISTED = 1 << 20
"""About so many rows are listed at a time: the first k of as many ticks."""


def top_rows(node: TopRows, edge: Edge, path: str, state: StateTable, shown: Keyed, batch: TickBatch) -> Outcome:
    """What enters and leaves the first rows at all due ticks."""
    due, names = batch.due, edge.names
    found = intervals(edge, path, state, due)
    ticks = _changed(found, due)
    if not ticks.size:
        nothing = strict_schema(node.schema).empty_table()
        return Outcome(Edge(nothing, node.schema, is_strict=True), found.tables, found.parts)
    rows = _ordered(node, found.rows, batch.kernel)
    changes, last = _listed(node, rows, ticks)
    came = made_at(taken(rows.select(names), changes.row), ticks[changes.tick], changes.count)
    # What the state shows may have left meanwhile, so it is compared by value.
    before = shown.rows(pa.schema([rows.schema.field(name) for name in (COUNT, *names)]))
    went = made_at(before.select(names), np.full(before.num_rows, ticks[0]), -longs(before.column(COUNT)))
    made = netted(pa.concat_tables([came, went]), names)
    now = folded(names, appended(taken(rows.select(names), last.row), **{COUNT: last.count})).select([COUNT, *names])
    at = shown.find([before.column(name) for name in names], before.num_rows)
    again = shown.find([now.column(name) for name in names], now.num_rows)
    left = taken(before.select([COUNT, *names]), ~np.isin(at, again))
    parts = (*found.parts, *shown.cut(path + SHOWN, gone_rows(now, left), due.before, due.upto))
    return Outcome(Edge(made, node.schema, is_strict=True), {**found.tables, path + SHOWN: shown.put(now, at)}, parts)


def _changed(found: Lives, due: DueTicks) -> Points:
    """The due ticks at which a row comes or goes."""
    enter, leave = longs(found.rows.column(ENTER)), longs(found.rows.column(LEAVE))
    return np.unique(np.concatenate([enter[enter > due.before], leave[leave <= due.upto]]))


def _listed(node: TopRows, rows: pa.Table, ticks: Points) -> tuple[Ranked, Ranked]:
    """What changes from tick to tick in the first rows, and the first rows of the last tick. Rows stand in order."""
    low = np.searchsorted(ticks, longs(rows.column(ENTER)))
    high = np.searchsorted(ticks, longs(rows.column(LEAVE)))
    counts, before, found = longs(rows.column(COUNT)), NOTHING, [NOTHING]
    step = max(1, LISTED // max(1, node.limit))
    for first in range(0, ticks.size if node.limit else 0, step):
        size = min(step, ticks.size - first)
        near = np.flatnonzero((low < first + size) & (high > first))
        starts, stops = np.maximum(low[near] - first, 0), np.minimum(high[near] - first, size)
        listed = first_rows(starts, stops, counts[near], size, node.limit).of(near)
        found.append(differences(listed, before, size).moved(first))
        before = listed.at(size - 1)
    return joined(found), before


def first_of(node: TopRows, rows: pa.Table, kernel: Kernel) -> pa.Table:
    """The first of these rows, in their order; all if there are no more."""
    return rows if rows.num_rows <= node.limit else _ordered(node, rows, kernel, f" LIMIT {node.limit}")


def _ordered(node: TopRows, rows: pa.Table, kernel: Kernel, limit: str = "") -> pa.Table:
    """The rows in the order of the query, ties by all columns."""
    types = types_of(node.schema)
    order = [ordered_by(kernel.final(one.expression, types).sql, one.descending, one.nulls_first) for one in node.order]
    by = ", ".join([*order, *(f'"{column.sql}" ASC NULLS FIRST' for column in node.schema), "r"])
    columns = {column.sql: naive(rows.column(column.sql)) for column in node.schema}
    numbered = pa.table(columns | {"r": np.arange(rows.num_rows)})
    return taken(rows, longs(kernel.query(f"SELECT r FROM live ORDER BY {by}{limit}", live=numbered).column("r")))
