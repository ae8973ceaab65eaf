"""Merge-union: UNION ALL.

    R₁ ∪ … ∪ Rₙ as multisets, with the same lifetimes

It needs no state.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from windrow.operators.tables.edges import Edge
from windrow.plan.algebra.nodes import MergeUnion


def merge_union(node: MergeUnion, edges: Sequence[Edge]) -> Edge:
    """The new rows of all inputs under the names of the union's columns."""
    names = [column.sql for column in node.columns]
    tables = []
    for edge in edges:
        hidden = [name for name in edge.rows.column_names if name.startswith("__")]
        tables.append(edge.rows.select([*hidden, *edge.names]).rename_columns([*hidden, *names]))
    return Edge(pa.concat_tables(tables), node.schema)
