"""Selection.

    σ_p(R) = {r ∈ R : p(r) is true}, with the same lifetimes

It needs no state. Over a strict input it selects from what comes and from what goes alike.
"""

from __future__ import annotations

from dataclasses import replace

from windrow.operators.tables.edges import Edge
from windrow.operators.tables.kernel import Kernel, types_of
from windrow.plan.algebra.nodes import Filter


def select(node: Filter, edge: Edge, kernel: Kernel) -> Edge:
    """The new rows for which the predicate is true."""
    if not edge.rows.num_rows:
        return edge
    kept = kernel.is_true(node.predicate, types_of(node.schema), edge.rows)
    return replace(edge, rows=edge.rows.filter(kept))
