"""Push projections: every window keeps only the columns that something above it reads.

Projections between joins drop join keys that nothing needs any more; projections over projections become one; those
that change nothing go. Aggregates that nothing reads are not computed, except over INTERNAL windows, where every change
of a group's row is one more result.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from sqlglot import exp

from windrow.optimizer.facts import Facts
from windrow.plan.algebra.nodes import (
    Computed,
    ContinuousPlan,
    Filter,
    GroupBy,
    Join,
    MergeUnion,
    Node,
    NrrJoin,
    OuterJoin,
    OutputWindow,
    Project,
    SemiJoin,
    StreamWindow,
    TableScan,
    Window,
    walk,
)
from windrow.plan.algebra.rewriting import (
    expressions_of,
    is_passed,
    names_of,
    projected,
    reads,
    substituted,
    with_inputs,
)


def push_projections(plan: ContinuousPlan, facts: Facts) -> tuple[ContinuousPlan, str | None]:
    root = _exact(plan.root)
    if root == plan.root:
        return plan, None
    dropped = _stored(plan.root) - _stored(root)
    reason = f"windows keep {dropped} columns less" if dropped > 0 else "projections drop what nothing above them reads"
    return replace(plan, root=root), reason


def _stored(root: Node) -> int:
    return sum(len(node.columns) for node in walk(root) if isinstance(node, Window))


def _exact(node: Node) -> Node:
    """The node with all its columns, and less below it."""
    return projected(_narrowed(node, names_of(node)), node.schema)


def _narrowed(node: Node, needed: Collection[str]) -> Node:
    """The node with at least the needed columns, in their order, and perhaps without others."""
    if isinstance(node, TableScan):
        columns = tuple(one for one in node.columns if one.column.sql in needed)
        return replace(node, columns=columns or node.columns[:1])
    if isinstance(node, Window):
        kept = {*needed, *reads(node)}
        return replace(node, columns=tuple(one for one in node.columns if one.column.sql in kept))
    if isinstance(node, Project):
        return _project(node, needed)
    if isinstance(node, Filter | OutputWindow):
        return with_inputs(node, [_narrowed(node.input, {*needed, *reads(node)})])
    if isinstance(node, Join | SemiJoin | OuterJoin | NrrJoin):
        wanted = {*needed, *reads(node)}
        return with_inputs(node, [_join_input(one, wanted) for one in node.inputs])
    if isinstance(node, MergeUnion):
        return _merge_union(node, needed)
    if isinstance(node, GroupBy):
        return _group_by(node, needed)
    return with_inputs(node, [_exact(one) for one in node.inputs])


def _project(node: Project, needed: Collection[str]) -> Node:
    columns = tuple(one for one in node.columns if one.column.sql in needed)
    inner = _narrowed(node.input, reads(replace(node, columns=columns)))
    while isinstance(inner, Project) and _is_foldable(columns, inner):
        values = expressions_of(inner)
        columns = tuple(replace(one, expression=substituted(one.expression, values)) for one in columns)
        inner = inner.input
    if all(map(is_passed, columns)) and tuple(one.column for one in columns) == inner.schema:
        return inner
    return Project(inner, columns)


def _is_foldable(columns: Collection[Computed], inner: Project) -> bool:
    """Whether nothing of the inner projection would be computed twice."""
    read = [column.name for one in columns for column in one.expression.find_all(exp.Column)]
    return all(one.is_renamed or read.count(one.column.sql) <= 1 for one in inner.columns)


def _join_input(node: Node, wanted: Collection[str]) -> Node:
    """An input of a join: what it keeps is state, so columns that nothing needs are dropped before."""
    found = _narrowed(node, wanted)
    columns = [column for column in found.schema if column.sql in wanted]
    return projected(found, columns) if columns else found


def _merge_union(node: MergeUnion, needed: Collection[str]) -> Node:
    kept = [i for i, column in enumerate(node.columns) if column.sql in needed]
    inputs = []
    for one in node.inputs:
        columns = [one.schema[i] for i in kept]
        inputs.append(projected(_narrowed(one, {column.sql for column in columns}), columns))
    return MergeUnion(tuple(inputs), tuple(node.columns[i] for i in kept))


def _group_by(node: GroupBy, needed: Collection[str]) -> Node:
    is_internal = any(isinstance(one, StreamWindow | OutputWindow) and one.lifetime.internal for one in walk(node))
    aggregates = node.aggregates if is_internal else tuple(a for a in node.aggregates if a.column.sql in needed)
    if not node.keys and not aggregates:
        aggregates = node.aggregates[:1]
    narrow = replace(node, aggregates=aggregates)
    inner = _narrowed(node.input, reads(narrow))
    if isinstance(inner, Project) and all(map(is_passed, inner.columns)):
        inner = inner.input
    return GroupBy(inner, node.keys, aggregates)
