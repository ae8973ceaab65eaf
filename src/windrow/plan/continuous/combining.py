"""UNION, EXCEPT, INTERSECT, DISTINCT and LIMIT over the output of queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from windrow.cql.final.sql import to_duckdb
from windrow.cql.final.types import Final, common_type
from windrow.errors import BindError, FunctionError, UnsupportedError
from windrow.plan.algebra.nodes import (
    Computed,
    Distinct,
    MergeUnion,
    Node,
    PlanColumn,
    Project,
    SetKind,
    SetOperation,
    TopRows,
    ToStream,
)
from windrow.plan.continuous.context import BindContext, BoundQuery
from windrow.plan.continuous.expressions import cast_to
from windrow.plan.continuous.inputs import Item, Relation, StreamView, named_column, node_of
from windrow.plan.continuous.ordering import Ordering, limit_of
from windrow.plan.continuous.properties import has_internal, per_window, refuse_internal
from windrow.plan.nodes import Order
from windrow.types import SqlType


def bind_set_operation(query: exp.SetOperation, context: BindContext) -> BoundQuery:
    """Bind UNION, EXCEPT or INTERSECT, with or without ALL, of queries with columns of common types."""
    name = _name(query)
    branches = _branches(query)
    inner = context.barred("inside UNION, EXCEPT or INTERSECT")
    relations = [context.bind(branch, inner).relation for branch in branches]
    if context.is_per_window:
        relations = [one if isinstance(one, StreamView) else per_window(one) for one in relations]
    for relation, branch in zip(relations, branches, strict=True):
        if isinstance(relation, ToStream) and name != "UNION":
            raise _stream(relation, name, branch, context)
        if len(_types(relation)) != len(_types(relations[0])):
            raise BindError(
                f"the queries of {_article(name)} have the same number of columns, not {len(_types(relations[0]))} and "
                f"{len(_types(relation))}",
                place=context.place(branch),
                remedy="Select as many columns in each; NULL AS x stands for one that is missing.",
            )
    kinds = [_common(relations, index, branches, name, context) for index in range(len(_types(relations[0])))]
    nodes = tuple(
        _cast(relation, kinds, branch, name, context) for relation, branch in zip(relations, branches, strict=True)
    )
    names = [column.name for column in nodes[0].schema]
    columns = tuple(context.columns.new(name, kind) for name, kind in zip(names, kinds, strict=True))
    made = _combined(query, nodes, columns, context)
    refuse_internal(made, context.place(query))
    order = Ordering(columns, [None] * len(columns), lambda tree: None, context.text).bind(query.args.get("order"))
    return BoundQuery(limited(made, order, limit_of(query, context.text)), order)


def _combined(
    query: exp.SetOperation, nodes: tuple[Node, ...], columns: tuple[PlanColumn, ...], context: BindContext
) -> Node:
    is_all = not query.args.get("distinct")
    if isinstance(query, exp.Union):
        union = MergeUnion(nodes, columns)
        return union if is_all else distinct(union, query, context)
    made = SetOperation(nodes, columns, SetKind[_name(query)], is_all)
    _refuse_nested(made, _name(query), query, context)
    return made


def _name(query: exp.Expr) -> str:
    return type(query).__name__.upper()


def _article(name: str) -> str:
    return f"{'a' if name == 'UNION' else 'an'} {name}"


def _types(relation: Relation) -> list[SqlType]:
    return [one.type for one in (relation.items if isinstance(relation, StreamView) else relation.schema)]


def _branches(query: exp.Expr) -> list[exp.Expr]:
    """The queries of a chain of UNION ALL; of anything else, its two sides."""
    sides = [query.this, query.expression]
    if query.args.get("distinct") or not isinstance(query, exp.Union):
        return sides
    return [branch for side in sides for branch in (_branches(side) if _is_plain_union(side) else [side])]


def _is_plain_union(query: exp.Expr) -> bool:
    plain = not any(query.args.get(name) for name in ("distinct", "order", "limit"))
    return isinstance(query, exp.Union) and plain


def _common(
    relations: Sequence[Relation], index: int, branches: Sequence[exp.Expr], name: str, context: BindContext
) -> SqlType:
    """The type of a column of the whole."""
    common = _types(relations[0])[index]
    for relation, branch in zip(relations[1:], branches[1:], strict=True):
        kind = _types(relation)[index]
        found = kind if kind == common else _wider(common, kind)
        if found is None:
            raise _uncommon(common, kind, branch, name, context)
        common = found
    return common


def _uncommon(one: SqlType, other: SqlType, branch: exp.Expr, name: str, context: BindContext) -> BindError:
    return BindError(
        f"a column of the {name} is {one} in one query and {other} in another",
        place=context.place(branch),
        remedy="Cast it in one of them, for example CAST(x AS STRING) AS x.",
    )


def _wider(one: SqlType, other: SqlType) -> SqlType | None:
    return None if one.is_nested or other.is_nested else common_type([Final("", one), Final("", other)])


def _cast(relation: Relation, kinds: Sequence[SqlType], branch: exp.Expr, name: str, context: BindContext) -> Node:
    """The relation with its columns cast to these types: by Spark in a view of a stream, else by a Project."""
    if _types(relation) == list(kinds):
        return node_of(relation, context.columns)
    if isinstance(relation, StreamView):
        typed = (
            item if item.type == kind else Item(item.name, cast_to(item.tree, kind), kind)
            for item, kind in zip(relation.items, kinds, strict=True)
        )
        return node_of(replace(relation, items=tuple(typed)), context.columns)

    def computed(column: PlanColumn, kind: SqlType) -> Computed:
        if column.type == kind:
            return Computed(column, named_column(column))
        cast = cast_to(named_column(column), kind)
        try:
            to_duckdb(cast, {column.sql: column.type})
        except FunctionError:
            raise _uncommon(column.type, kind, branch, name, context) from None
        return Computed(context.columns.new(column.name, kind), cast)

    return Project(relation, tuple(computed(column, kind) for column, kind in zip(relation.schema, kinds, strict=True)))


def distinct(node: Node, origin: exp.Expr, context: BindContext) -> Node:
    node = per_window(node) if context.is_per_window else node
    if has_internal(node):
        raise BindError(
            "DISTINCT cannot read an INTERNAL window: rows of it never leave the answer, and a value that comes again "
            "when its window has passed would be there twice",
            place=context.place(origin),
            remedy="Leave INTERNAL out; SELECT ISTREAM(…) of a DISTINCT is a stream of the values that come.",
        )
    _refuse_nested(node, "DISTINCT", origin, context)
    return Distinct(node)


def limited(node: Node, order: tuple[Order, ...], limit: int | None) -> Node:
    return node if limit is None else TopRows(node, order, limit)


def _refuse_nested(node: Node, above: str, origin: exp.Expr, context: BindContext) -> None:
    nested = next((column for column in node.schema if column.type.is_nested), None)
    if nested is not None:
        raise BindError(
            f"{above} takes columns that can be compared, and '{nested.name}' is {nested.type}",
            place=context.place(origin),
            remedy="Leave the column out.",
        )


def _stream(node: ToStream, above: str, origin: exp.Expr, context: BindContext) -> UnsupportedError:
    return UnsupportedError(
        f"{above} is of relations, and {node.words} makes a stream",
        place=context.place(origin),
        remedy=f"Put a window on it: SELECT * FROM (SELECT {node.words}(…) …) [RANGE …] AS x.",
    )
