"""ORDER BY with LIMIT.

    top_k(R)(b) = the first k rows of R(b) in the given order, ties by all columns

Computed anew at the ticks at which the input changes. What leaves the first k rows is withdrawn, what enters them is
added, so the output is strict. The state is the live input and the rows shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.keyed import Keyed, gone_rows
from windrow.operators.layouts.live import ENTER, LEAVE, Lives, lives
from windrow.operators.layouts.steps import Outcome, StateTable, TickBatch
from windrow.operators.tables.edges import COUNT, TICK, Edge, netted
from windrow.operators.tables.kernel import naive, types_of
from windrow.operators.tables.rows import appended, longs, taken
from windrow.operators.ticks import DueTicks, Points
from windrow.plan.algebra.nodes import TopRows

SHOWN = "/shown"
"""The path of the rows shown, after the operator's own."""

MOST_PAIRS = 1 << 22
"""The most (row, tick) pairs that are in memory at once, unless a single tick has more."""


def top_rows(node: TopRows, edge: Edge, path: str, state: StateTable, shown: Keyed, batch: TickBatch) -> Outcome:
    """What enters and leaves the first rows at all due ticks."""
    due, names = batch.due, edge.names
    found = lives(edge, path, state, due, keep_forever=True)
    ticks = _changed(found, due)
    top = _first(node, found, ticks, batch)
    # Each evaluation replaces the one before it; the first one those that the state shows.
    before = shown.rows(top.schema.remove(top.schema.get_field_index(TICK)))
    number = np.searchsorted(ticks, longs(top.column(TICK)))
    replaced = taken(top, number < ticks.size - 1)
    later = ticks[np.searchsorted(ticks, longs(replaced.column(TICK))) + 1]
    outgoing = [_negative(replaced, later, names)]
    if ticks.size:
        outgoing.append(_negative(before, np.full(before.num_rows, ticks[0]), names))
    changes = netted(pa.concat_tables([top.select([TICK, COUNT, *names]), *outgoing]), names)
    tables, parts = dict(found.tables), list(found.parts)
    if ticks.size:
        now = netted(taken(top, number == ticks.size - 1), names).select([COUNT, *names])
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


def _negative(rows: pa.Table, ticks: Points, names: list[str]) -> pa.Table:
    counts = pa.array(-longs(rows.column(COUNT)))
    return appended(rows.select(names), **{TICK: ticks, COUNT: counts}).select([TICK, COUNT, *names])


def _first(node: TopRows, found: Lives, ticks: Points, batch: TickBatch) -> pa.Table:
    """The first rows of every tick that is asked for: TICK, COUNT, values."""
    names = [column.sql for column in node.schema]
    rows = found.rows
    if not ticks.size or not node.limit:
        empty = rows.slice(0, 0).select([COUNT, *names])
        return appended(empty, **{TICK: np.zeros(0, np.int64)}).select([TICK, COUNT, *names])
    order = _order(node, rows, batch)
    enter, leave, count = (longs(rows.column(name))[order] for name in (ENTER, LEAVE, COUNT))
    spans = _Spans(enter, leave, count, node.limit)
    parts = [part for some in _runs(ticks, rows.num_rows) for part in spans.first(some)]
    at, tick, counts = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    top = taken(rows.select(names), order[at])
    return appended(top, **{TICK: tick, COUNT: counts}).select([TICK, COUNT, *names])


def _order(node: TopRows, rows: pa.Table, batch: TickBatch) -> Points:
    """The rows in the given order, ties by all columns."""
    types = types_of(node.schema)
    by = [
        f"{batch.kernel.final(one.expression, types).sql} {'DESC' if one.descending else 'ASC'} "
        f"NULLS {'FIRST' if one.nulls_first else 'LAST'}"
        for one in node.order
    ]
    by += [f'"{column.sql}" ASC NULLS FIRST' for column in node.schema]
    columns = {column.sql: naive(rows.column(column.sql)) for column in node.schema}
    live = pa.table(columns | {"r": np.arange(rows.num_rows)})
    return longs(batch.kernel.query(f"SELECT r FROM live ORDER BY {', '.join(by)}, r", live=live).column("r"))


def _runs(ticks: Points, rows: int) -> list[Points]:
    """The ticks in runs. The shorter a run, the fewer rows come and go in it; but each costs a look at all rows."""
    return np.array_split(ticks, -(-ticks.size // max(1, math.isqrt(rows))))


@dataclass(frozen=True)
class _Spans:
    """The ticks at which rows are there, and how often, in the order of the rows; of these the first `limit` count."""

    enter: Points
    leave: Points
    count: Points
    limit: int

    def first(self, ticks: Points) -> Iterator[tuple[Points, Points, Points]]:
        """The first rows at each of these ticks: which, the tick, and how many of each.

        Of the rows that are there at all the ticks, only the first can be among the first at any. So few rows are
        compared at every tick: those, and the ones that come or go."""
        there = (self.enter <= ticks[-1]) & (self.leave > ticks[0])
        always = np.flatnonzero(there & (self.enter <= ticks[0]) & (self.leave > ticks[-1]))
        there[always[self._before(self.count[always]) >= self.limit]] = False
        at = np.flatnonzero(there)
        if ticks.size > 1 and at.size * ticks.size > MOST_PAIRS:
            half = ticks.size // 2
            yield from self.first(ticks[:half])
            yield from self.first(ticks[half:])
            return
        alive = (self.enter[at, None] <= ticks) & (ticks < self.leave[at, None])
        counts = np.where(alive, self.count[at, None], 0)
        left = np.minimum(counts, self.limit - self._before(counts))
        row, tick = np.nonzero(left > 0)
        yield at[row], ticks[tick], left[row, tick]

    @staticmethod
    def _before(counts: Points) -> Points:
        """How many rows stand before each."""
        return np.asarray(np.cumsum(counts, axis=0) - counts, np.int64)
