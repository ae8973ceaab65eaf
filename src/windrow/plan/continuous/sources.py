"""Bind a table or sub-query of FROM with its window."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from windrow.cql.dialect import window_of
from windrow.errors import BindError, UnsupportedError
from windrow.plan.algebra.nodes import MergeUnion, Node, ToStream
from windrow.plan.continuous.clocks import window_on
from windrow.plan.continuous.context import BindContext
from windrow.plan.continuous.inputs import (
    Input,
    Item,
    PlanInput,
    Relation,
    RowCount,
    StreamInput,
    StreamView,
    quoted,
)
from windrow.plan.continuous.properties import per_window
from windrow.plan.continuous.relations.tables import bind_table
from windrow.plan.continuous.shape import shown
from windrow.plan.continuous.streams.output_windows import windowed
from windrow.types import SqlType, point_text


def bind_source(source: exp.Expr, context: BindContext) -> Input:
    """A table or sub-query of FROM."""
    table = context.table_of(source.name) if isinstance(source, exp.Table) else None
    if isinstance(source, exp.Table) and table is not None:
        return bind_table(source, table, context)
    if isinstance(source, exp.Table):
        stream, bound = window_on(source, context.text, context.source_of, context.once)
        items = tuple(Item(name, quoted(name), kind) for name, kind in stream.columns)
        since: tuple[str, ...] = ()
        if bound.since is not None:
            since = (f"{shown(quoted(bound.attribute.column))} >= {_literal(bound.since, bound.attribute.type)}",)
        rows = None if bound.rows is None else RowCount(bound.rows, bound.partition)
        view = StreamView(
            stream, bound.attribute, context.clock.lifetime(bound), items, since, rows, source.alias or None
        )
        return StreamInput(source.alias or source.name, view, context.columns)
    if not isinstance(source, exp.Subquery) or not isinstance(source.this, (exp.Select, exp.SetOperation)):
        raise UnsupportedError(
            "FROM takes streams, tables and sub-queries",
            place=context.place(source),
            remedy="For example FROM s [RANGE 10 MINUTES], or FROM (SELECT … FROM s [RANGE 10 MINUTES]) AS x.",
        )
    inner = context.bind(source.this, context.barred("inside a sub-query in FROM")).relation
    clause = window_of(source)
    inner = inner if clause is None else windowed(inner, clause, context)
    return input_of_query(inner, source.alias, source, context)


def input_of_query(relation: Relation, alias: str, source: exp.Expr, context: BindContext) -> Input:
    """The output of a sub-query as an input; a stream without a window is refused."""
    if isinstance(relation, StreamView):
        return StreamInput(alias, replace(relation, alias=alias or relation.alias), context.columns)
    if _is_stream(relation):
        raise BindError(
            "the output of this sub-query is a stream: it needs a window",
            place=context.place(source),
            remedy="Write a window behind it, for example (SELECT ISTREAM(…) …) [RANGE 10 MINUTES] AS x, or "
            "[UNBOUNDED] for all of it.",
        )
    return PlanInput(alias, per_window(relation) if context.is_per_window else relation)


def _literal(point: int, kind: SqlType) -> str:
    return f"CAST('{point_text(point, kind)}' AS {kind})" if kind.is_timestamp else str(point)


def _is_stream(node: Node) -> bool:
    """Whether the output is a stream by ISTREAM, DSTREAM or RSTREAM, not a relation."""
    return isinstance(node, ToStream) or (isinstance(node, MergeUnion) and any(map(_is_stream, node.inputs)))
