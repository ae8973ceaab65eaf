"""A table as strict changes.

    T(b) = the rows of the table after the last statement that took effect at or before tick b

A statement takes effect at the first tick that is not committed when it is executed. So all statements since the last
batch take effect at the first due tick. Their changes come without a predicted end; a row that goes is withdrawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.keyed import Keyed
from windrow.operators.tables.edges import COUNT, Edge, made_at, strict_schema
from windrow.operators.tables.rows import appended, longs, numbered, taken
from windrow.operators.ticks import DueTicks
from windrow.plan.algebra.nodes import TableScan


@dataclass(frozen=True)
class TableRows:
    """What a plan reads of a table in a batch, under the table's own names: the changes that take effect at the first
    due tick, with COUNT; and the rows by key from then on."""

    changes: pa.Table
    rows: Keyed


def scan_table(node: TableScan, table: TableRows | None, due: DueTicks) -> Edge:
    """The changes of all due ticks."""
    if table is None or not table.changes.num_rows:
        return Edge(strict_schema(node.schema).empty_table(), node.schema, is_strict=True)
    values = renamed(node, table.changes)
    ticks = np.full(table.changes.num_rows, due.before + due.step)
    return Edge(made_at(values, ticks, longs(table.changes.column(COUNT))), node.schema, is_strict=True)


def after_change(rows: Keyed, change: pa.Table) -> Keyed:
    """The rows of a table after a change: without those that it removes (COUNT −1), with those that it adds (1)."""
    adds = longs(change.column(COUNT)) > 0
    old, new = taken(change, ~adds), taken(change, adds).drop_columns([COUNT])
    return rows.put(new, rows.find([old.column(name) for name in rows.keys], old.num_rows))


def netted_change(change: pa.Table) -> pa.Table:
    """Changes, one after another, as one: rows that come and go again cancel."""
    names = [name for name in change.column_names if name != COUNT]
    ids, firsts = numbered([change.column(name) for name in names], change.num_rows)
    counts = np.zeros(firsts.size, np.int64)
    np.add.at(counts, ids, longs(change.column(COUNT)))
    kept = np.flatnonzero(counts)
    rows = taken(change.select(names), firsts[kept])
    return appended(rows, **{COUNT: counts[kept]}).select([COUNT, *names]).combine_chunks()


def renamed(node: TableScan, rows: pa.Table) -> pa.Table:
    """Rows of the table with the columns of the node."""
    return pa.table({one.column.sql: rows.column(one.name) for one in node.columns})
