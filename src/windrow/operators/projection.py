"""Projection.

    π_e(R) = {e(r) with the lifetime of r : r ∈ R}, duplicates included

It needs no state.
"""

from __future__ import annotations

import pyarrow as pa

from windrow.operators.tables.edges import Edge
from windrow.operators.tables.kernel import Kernel, typed, types_of
from windrow.plan.algebra.nodes import Project


def project(node: Project, edge: Edge, kernel: Kernel) -> Edge:
    """The new rows with the computed columns."""
    rows = edge.rows
    found = kernel.evaluate([one.expression for one in node.columns], types_of(node.input.schema), rows)
    columns = {name: rows.column(name) for name in rows.column_names if name.startswith("__")}
    columns |= {one.column.sql: typed(column, one.column.type) for one, column in zip(node.columns, found, strict=True)}
    return Edge(pa.table(columns), node.schema, edge.is_strict)
