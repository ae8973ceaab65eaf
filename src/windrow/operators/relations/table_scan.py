"""A table as strict changes.

    T(b) = the rows of the table after the last change that took effect at or before tick b

A statement takes effect at the first tick that is not committed when it is executed. So all statements since the last
batch take effect at the first due tick. A change that a stream brings takes effect at the first tick above its point.
Changes come without a predicted end; a row that goes is withdrawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.keyed import Keyed
from windrow.operators.relations.changelog import FROM
from windrow.operators.tables.edges import COUNT, Edge, made_at, netted, strict_schema
from windrow.operators.tables.rows import longs
from windrow.operators.ticks import TS, DueTicks
from windrow.plan.algebra.nodes import TableScan


@dataclass(frozen=True)
class TableRows:
    """What a plan reads of a table in a batch, under the table's own names: `changes`, with COUNT, and `rows` by key.

    Of a table that statements change: the changes that take effect at the first due tick, and the rows from then on. Of
    one that a stream feeds, changes have FROM; rows are those after all changes. They are the changes of the due ticks,
    or, where rows are looked up as of a point, all changes since some time before.
    """

    changes: pa.Table
    rows: Keyed

    @property
    def is_fed(self) -> bool:
        """Whether a stream feeds the table."""
        return FROM in self.changes.column_names


def scan_table(node: TableScan, table: TableRows | None, due: DueTicks) -> Edge:
    """The changes of all due ticks."""
    if table is None or not table.changes.num_rows:
        return Edge(strict_schema(node.schema).empty_table(), node.schema, is_strict=True)
    values, counts = renamed(node, table.changes), longs(table.changes.column(COUNT))
    first = due.before + due.step
    if not table.is_fed:
        ticks = np.full(table.changes.num_rows, first)
        return Edge(made_at(values, ticks, counts), node.schema, is_strict=True)
    points = longs(table.changes.column(FROM))
    ticks = np.maximum(due.first_above(points), first)
    rows = made_at(values, ticks, counts)
    born = np.where((counts > 0) & (points >= ticks - due.step), points, ticks - 1)
    rows = rows.set_column(rows.column_names.index(TS), TS, pa.array(born))
    return Edge(netted(rows, [column.sql for column in node.schema]), node.schema, is_strict=True)


def renamed(node: TableScan, rows: pa.Table) -> pa.Table:
    """Rows of the table with the columns of the node."""
    return pa.table({one.column.sql: rows.column(one.name) for one in node.columns})
