"""What flows between operators: the new rows of all due ticks, as lifetimes or as strict changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.operators.tables.rows import longs, numbered, taken
from windrow.operators.ticks import EXP, NEVER, TS, UNTIL, DueTicks, Points
from windrow.plan.algebra.nodes import PlanColumn

TICK, COUNT = "__tick", "__n"
"""Columns of strict changes: the tick, and how many equal rows come (or, below zero, go) at it."""


@dataclass(frozen=True)
class Edge:
    """New rows of a node with the columns of its schema.

    Lifetimes: TS, EXP and, if the plan has INTERNAL windows, UNTIL; ts is in [before, upto). Strict: TICK and COUNT.
    """

    rows: pa.Table
    schema: tuple[PlanColumn, ...]
    is_strict: bool = False

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


def shown_end(rows: pa.Table) -> str:
    """The column that says when a row leaves the output."""
    return UNTIL if UNTIL in rows.column_names else EXP


def forever(rows: pa.Table, ticks: Points, schema: Sequence[PlanColumn], with_until: bool) -> pa.Table:
    """Rows that appear at ticks and never expire, as lifetimes: a stream of what an operator reported."""
    ends = pa.array(np.full(ticks.size, NEVER))
    lifetime = {TS: pa.array(ticks - 1), EXP: ends} | ({UNTIL: ends} if with_until else {})
    return pa.table(lifetime | {column.sql: rows.column(column.sql) for column in schema})


def netted(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Strict changes with one row per tick and values, and without those that cancel."""
    columns = [rows.column(TICK), *(rows.column(name) for name in names)]
    ids, firsts = numbered(columns, rows.num_rows)
    counts = np.zeros(firsts.size, np.int64)
    np.add.at(counts, ids, longs(rows.column(COUNT)))
    kept = np.flatnonzero(counts)
    out = taken(rows.select([TICK, *names]), firsts[kept])
    return out.append_column(COUNT, pa.array(counts[kept]))


def repeated(rows: pa.Table, counts: Points) -> pa.Table:
    """Each row as many times as its count says."""
    if (counts == 1).all():
        return rows
    return taken(rows, np.repeat(np.arange(counts.size), counts))
