"""Merge-union: UNION ALL.

    R₁ ∪ … ∪ Rₙ as multisets, with the same lifetimes

If an input is strict the output is: lifetimes become changes that are never withdrawn. It needs no state.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from windrow.operators.tables.edges import Edge, as_strict
from windrow.operators.ticks import DueTicks
from windrow.plan.algebra.nodes import MergeUnion


def merge_union(node: MergeUnion, edges: Sequence[Edge], due: DueTicks) -> Edge:
    """The new rows of all inputs under the names of the union's columns."""
    names = [column.sql for column in node.columns]
    is_strict = any(edge.is_strict for edge in edges)
    tables = []
    for edge in (as_strict(edge, due) for edge in edges) if is_strict else edges:
        hidden = [name for name in edge.rows.column_names if name.startswith("__")]
        tables.append(edge.rows.select([*hidden, *edge.names]).rename_columns([*hidden, *names]))
    return Edge(pa.concat_tables(tables), node.schema, is_strict)
