"""What flows between operators: the new rows of all due ticks, as lifetimes or as strict changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.operators.tables.rows import longs, numbered, taken
from windrow.operators.ticks import EXP, NEVER, TS, UNTIL, DueTicks, Points
from windrow.plan.algebra.nodes import PlanColumn
from windrow.synopses.cells.arrays import Mask, run_starts

TICK, COUNT = "__tick", "__n"
"""Columns of strict changes: the tick, and how many equal rows come (or, below zero, are withdrawn) at it."""

STRICT = (TICK, COUNT, TS, EXP)
"""All columns of strict changes before the values."""


@dataclass(frozen=True)
class Edge:
    """New rows of a node with the columns of its schema, in one of two forms.

    Lifetimes: TS, EXP and, if the plan has INTERNAL windows, UNTIL; ts is in [before, upto). Nothing is withdrawn.

    Strict: signed changes with TICK, COUNT, TS and EXP. COUNT > 0: so many equal rows come at TICK, and are to expire
    at EXP (NEVER: nothing is predicted). COUNT < 0: so many rows with these values and this EXP are withdrawn at TICK,
    before their EXP. A row that reaches its EXP goes without a word. TS is the birth, whose first tick is TICK; that of
    a withdrawal is TICK − 1. Equal (TICK, values, EXP) with opposite signs cancel (`netted`).

        R(b) = the rows with TICK ≤ b ≤ EXP that are not withdrawn at or before b
    """

    rows: pa.Table
    schema: tuple[PlanColumn, ...]
    is_strict: bool = False
    overflows: int = 0
    """How many values that its node computed are NULL because they do not fit."""

    @property
    def values(self) -> list[pa.ChunkedArray]:
        return [self.rows.column(column.sql) for column in self.schema]

    @property
    def names(self) -> list[str]:
        return [column.sql for column in self.schema]

    def ticks(self, due: DueTicks) -> tuple[Points, Points]:
        """The ticks at which lifetimes enter the answer and are gone from it."""
        return due.first_above(longs(self.rows.column(TS))), due.first_above(
            longs(self.rows.column(shown_end(self.rows)))
        )

    def seen(self, due: DueTicks) -> tuple[Points, Mask]:
        """The ticks at which lifetimes that are born in the due time enter the answer, and which of them some tick
        sees."""
        births, ends = longs(self.rows.column(TS)), longs(self.rows.column(shown_end(self.rows)))
        if due.count == 1:
            return np.full(births.size, due.upto), ends >= due.upto
        enter = due.first_above(births)
        return enter, enter < due.first_above(ends)


def shown_end(rows: pa.Table) -> str:
    """The column that says when a row leaves the output."""
    return UNTIL if UNTIL in rows.column_names else EXP


def forever(rows: pa.Table, ticks: Points, schema: Sequence[PlanColumn], with_until: bool) -> pa.Table:
    """Rows that appear at ticks and never expire, as lifetimes: a stream of what an operator reported."""
    ends = pa.array(np.full(ticks.size, NEVER))
    lifetime = {TS: pa.array(ticks - 1), EXP: ends} | ({UNTIL: ends} if with_until else {})
    return pa.table(lifetime | {column.sql: rows.column(column.sql) for column in schema})


def strict_schema(schema: Sequence[PlanColumn]) -> pa.Schema:
    """The columns of strict changes with these columns."""
    return pa.schema([*((name, pa.int64()) for name in STRICT), *((c.sql, c.type.arrow) for c in schema)])


def made_at(values: pa.Table, ticks: Points, counts: Points) -> pa.Table:
    """Strict changes that an operator makes at ticks, without a predicted end."""
    head = {TICK: ticks, COUNT: counts, TS: ticks - 1, EXP: np.full(ticks.size, NEVER)}
    return pa.table({**head, **{name: values.column(name) for name in values.column_names}})


def as_strict(edge: Edge, due: DueTicks) -> Edge:
    """The edge as strict changes: a lifetime comes at its first tick, and is to expire when it leaves the output. One
    that no tick sees is left out. Lifetimes may have been born before the due ticks."""
    if edge.is_strict:
        return edge
    enter, leave = edge.ticks(due)
    seen = enter < leave
    rows = taken(edge.rows, seen)
    ones = np.ones(rows.num_rows, np.int64)
    head = {TICK: enter[seen], COUNT: ones, TS: rows.column(TS), EXP: rows.column(shown_end(rows))}
    columns = {**head, **{name: rows.column(name) for name in edge.names}}
    return Edge(pa.table(columns, schema=strict_schema(edge.schema)), edge.schema, is_strict=True)


def netted(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Strict changes with one row per tick, values, EXP and birth, and without those that cancel: what is withdrawn at
    a tick cancels what was born first."""
    rows = rows.select([*STRICT, *names])
    ids, firsts = numbered([rows.column(name) for name in (TICK, EXP, *names)], rows.num_rows)
    if firsts.size == rows.num_rows:
        return rows
    counts, births = longs(rows.column(COUNT)), longs(rows.column(TS))
    net = np.zeros(firsts.size, np.int64)
    np.add.at(net, ids, counts)
    comes = np.flatnonzero((counts > 0) & (net[ids] > 0))
    comes = comes[np.lexsort((-births[comes], ids[comes]))]  # the last born of each first
    of, come = ids[comes], counts[comes]
    upto = running_sums(come, of)
    left = np.clip(net[of] - (upto - come), 0, come)
    born = births[comes]
    starts = np.flatnonzero(np.append(True, (of[1:] != of[:-1]) | (born[1:] != born[:-1])))[: of.size]
    sums = np.add.reduceat(left, starts) if starts.size else left
    kept, goes = sums > 0, np.flatnonzero(net < 0)
    at = np.concatenate([firsts[goes], comes[starts[kept]]])
    out = taken(rows, at)
    ts = np.concatenate([longs(rows.column(TICK))[firsts[goes]] - 1, births[comes[starts[kept]]]])
    return _with(out, **{COUNT: np.concatenate([net[goes], sums[kept]]), TS: ts})


def _with(rows: pa.Table, **columns: Points) -> pa.Table:
    """The rows with other numbers in some columns."""
    for name, column in columns.items():
        rows = rows.set_column(rows.column_names.index(name), name, pa.array(column))
    return rows


def running_sums(numbers: Points, ids: Points) -> Points:
    """The sum of an id's numbers up to each; equal ids stand together."""
    total, starts = np.cumsum(numbers), run_starts(ids)
    before = total[starts] - numbers[starts]
    return np.asarray(total - np.repeat(before, np.diff(np.append(starts, ids.size))))


def repeated(rows: pa.Table, counts: Points) -> pa.Table:
    """Each row as many times as its count says."""
    if (counts == 1).all():
        return rows
    return taken(rows, np.repeat(np.arange(counts.size), counts))
