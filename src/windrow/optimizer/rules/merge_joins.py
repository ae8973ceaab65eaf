"""Merge joins: joins on the same key become one multi-way join (Golab's dissertation, sections 2.2.2 and 5.1).

Of the inputs and conditions of a tree of joins (`join_tree.py`), repeatedly the inputs that the largest class
of equal terms connects become one join, on every class that all of them share; an equality between some of them becomes
a condition. What no equality connects is a product, made last. The order of the output's columns is kept by a
projection. `nest_joins` may nest joins on different keys in another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from windrow.optimizer.facts import Facts
from windrow.optimizer.rules.join_tree import JoinBuilder, JoinedPart, flattened, is_of_joins, restored
from windrow.plan.algebra.nodes import ContinuousPlan, Join, Node, walk
from windrow.plan.algebra.rewriting import with_inputs


def merge_joins(plan: ContinuousPlan, facts: Facts) -> tuple[ContinuousPlan, str | None]:
    root = _merged(plan.root)
    if root == plan.root:
        return plan, None
    before, after = (sum(isinstance(node, Join) for node in walk(one)) for one in (plan.root, root))
    reason = (
        f"{before} joins become {after}: inputs with equal keys are joined at once"
        if after < before
        else "equalities in conditions become join keys"
    )
    return replace(plan, root=root), reason


def _merged(node: Node) -> Node:
    if not is_of_joins(node):
        return with_inputs(node, [_merged(one) for one in node.inputs])
    tree = flattened(node)
    tree.leaves = [_merged(leaf) for leaf in tree.leaves]
    builder = JoinBuilder(tree)
    parts = builder.leaves
    while len(parts) > 1:
        chosen = _connected(builder, parts) or parts
        first_place = min(i for i, part in enumerate(parts) if part in chosen)
        rest = [part for part in parts if part not in chosen]
        parts = [*rest[:first_place], builder.joined(chosen), *rest[first_place:]]
    return restored(tree, parts[0].node, node.schema)


def _connected(builder: JoinBuilder, parts: Sequence[JoinedPart]) -> list[JoinedPart]:
    """The parts that the class over most parts connects; none if no class connects two."""
    best: list[JoinedPart] = []
    for terms in builder.classes:
        touched = [part for part in parts if builder.touches(terms, part)]
        if len(touched) > max(1, len(best)):
            best = touched
    return best
