"""Bind continuous queries without Spark, and show their plans as text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from sqlglot import exp

from windrow.catalog.definitions import StreamDef, define_stream
from windrow.cql import CQL, finalize, parse_expression, parse_one
from windrow.cql.final.sql import spark_type
from windrow.cql.statements import CreateQuery, CreateStream
from windrow.errors import BindError, CatalogError, FunctionError, Place, WindrowError
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Filter,
    GroupBy,
    Join,
    Lifetime,
    MergeUnion,
    Node,
    OuterJoin,
    OutputWindow,
    PlanColumn,
    Project,
    RowsWindow,
    SemiJoin,
    SetOperation,
    StreamWindow,
    TopRows,
    ToStream,
    columns_in,
    walk,
)
from windrow.plan.continuous import bind_continuous
from windrow.types import SqlType

_STREAMS = (
    "s (ts TIMESTAMP, k INT, a INT, name STRING, ok BOOLEAN, price DECIMAL(10,2)) FROM memory TIMESTAMP BY ts",
    "t (ts TIMESTAMP, k BIGINT, b DOUBLE, Label STRING) FROM memory TIMESTAMP BY ts TICK 5 SECONDS",
    "u (ts TIMESTAMP_NTZ, k INT, c INT) FROM memory TIMESTAMP BY ts TICK 2 SECONDS",
    "n (at BIGINT, k INT) FROM memory TIMESTAMP BY at",
    "m (at INT, k INT) FROM memory TIMESTAMP BY at TICK 10",
    "late (ts TIMESTAMP, k INT) FROM memory TIMESTAMP BY ts LATE REVISE",
)


def stream(text: str) -> StreamDef:
    statement = parse_one(f"CREATE STREAM {text} PUNCTUATE ORDERED")
    assert isinstance(statement, CreateStream)
    return define_stream(statement)


STREAMS = {one.name: one for one in map(stream, _STREAMS)}


def source_of(name: str, place: Place | None) -> StreamDef:
    if name.lower() not in STREAMS:
        raise CatalogError(f"there is no stream '{name}'", place=place)
    return STREAMS[name.lower()]


def types_of(columns: Sequence[tuple[str, SqlType]], expressions: Sequence[str]) -> list[SqlType]:
    """A stand-in for Spark's analyser: the types of FINAL expressions, and a guess for the functions of rows."""
    return [_type(parse_expression(text), dict(columns)) for text in expressions]


def _type(tree: exp.Expr, known: dict[str, SqlType]) -> SqlType:
    try:
        return finalize(tree, known).type
    except FunctionError:
        pass
    if isinstance(tree, (exp.Predicate, exp.Connector, exp.Not)):
        return SqlType("BOOLEAN")
    if isinstance(tree, (exp.Cast, exp.TryCast)):
        found = spark_type(tree.args["to"])
        assert found is not None
        return found
    if isinstance(tree, (exp.Anonymous, exp.Upper, exp.Lower, exp.Concat, exp.DPipe)):
        return SqlType("STRING")
    if not isinstance(tree.this, exp.Expr):
        raise BindError(f"the stand-in does not know the type of {tree.sql(CQL)}")
    return _type(tree.this, known)


def bind(select: str) -> ContinuousPlan:
    text = f"CREATE QUERY q AS {select}"
    statement = parse_one(text)
    assert isinstance(statement, CreateQuery)
    return bind_continuous(statement.select, text, source_of, types_of)


def refused(select: str, kind: type[WindrowError] = BindError) -> WindrowError:
    with pytest.raises(kind) as raised:
        bind(select)
    return raised.value


def pointed_at(error: WindrowError) -> str:
    """The text that the error's place marks."""
    assert error.place is not None
    line = error.place.text.splitlines()[error.place.line - 1]
    return line[error.place.column - 1 : error.place.column - 1 + error.place.length]


def check(plan: ContinuousPlan) -> None:
    """Every expression is over columns of its input, DuckDB can compute it, and its type is the column's."""
    for node in walk(plan.root):
        known = {column.sql: column.type for one in node.inputs for column in one.schema}
        if isinstance(node, Filter):
            assert finalize(node.predicate, known).type.name in ("BOOLEAN", "VOID")
        elif isinstance(node, Project):
            assert all(finalize(one.expression, known).type == one.column.type for one in node.columns)
        elif isinstance(node, (Join, SemiJoin, OuterJoin)):
            if node.condition is not None:
                assert finalize(node.condition, known).type.name in ("BOOLEAN", "VOID")
            for key in node.keys:
                sides = [{column.sql: column.type for column in one.schema} for one in node.inputs]
                assert len({finalize(one, side).type for one, side in zip(key, sides, strict=True)}) == 1
        elif isinstance(node, GroupBy):
            for _, part in (part for one in node.aggregates for part in one.call.parts):
                texts = [text for text in (part.arg, part.condition) if text is not None]
                assert {name for text in texts for name in columns_in(parse_expression(text))} <= known.keys()
        elif isinstance(node, TopRows):
            assert all(finalize(one.expression, known) for one in node.order)
        assert len({column.id for column in node.schema}) == len(node.schema)
    outputs = {column.sql: column.type for column in plan.schema}
    assert all(finalize(one.expression, outputs) for one in plan.order)
    assert len({column.name.lower() for column in plan.schema}) == len(plan.schema)


def lines(plan: ContinuousPlan) -> list[str]:
    """The plan's nodes from the top, a line each, indented below their parents."""
    return list(_lines(plan.root, 0))


def _lines(node: Node, depth: int) -> list[str]:
    below = [line for one in node.inputs for line in _lines(one, depth + 1)]
    return ["  " * depth + f"{type(node).__name__} {_details(node)}".rstrip(), *below]


def _details(node: Node) -> str:
    if isinstance(node, StreamWindow):
        columns = ", ".join(f"{one.column.sql}={one.sql}" for one in node.columns)
        where = f" where {node.predicate}" if node.predicate else ""
        return f"{node.stream} {_lifetime(node.lifetime)} {columns}".rstrip() + where
    if isinstance(node, Filter):
        return _sql(node.predicate)
    if isinstance(node, Project):
        return ", ".join(f"{_column(one.column)}={_sql(one.expression)}" for one in node.columns)
    if isinstance(node, MergeUnion):
        return ", ".join(map(_column, node.columns))
    if isinstance(node, RowsWindow):
        columns = ", ".join(f"{one.column.sql}={one.sql}" for one in node.columns)
        by = f" by {', '.join(one.sql for one in node.partition)}" if node.partition else ""
        return f"{node.stream} last {node.size}{by}: {columns}"
    if isinstance(node, SetOperation):
        return f"{node.kind.name}{' ALL' if node.is_all else ''} {', '.join(map(_column, node.columns))}"
    if isinstance(node, (Join, SemiJoin, OuterJoin)):
        safe = getattr(node, "null_safe", ()) or (False,) * len(node.keys)
        keys = ", ".join(
            ("<=>" if null else "=").join(map(_sql, key)) for key, null in zip(node.keys, safe, strict=True)
        )
        return f"{_join_kind(node)}[{keys}]" + (f" if {_sql(node.condition)}" if node.condition is not None else "")
    if isinstance(node, GroupBy):
        calls = (f"{one.column.sql}={one.call.function}({_arguments(one.call.parts)})" for one in node.aggregates)
        return f"[{', '.join(key.sql for key in node.keys)}] {', '.join(calls)}".rstrip()
    if isinstance(node, OutputWindow):
        return _lifetime(node.lifetime)
    if isinstance(node, ToStream):
        return node.kind.name
    if isinstance(node, TopRows):
        order = ", ".join(f"{_sql(one.expression)}{' DESC' if one.descending else ''}" for one in node.order)
        return f"[{order}] {node.limit}"
    return ""


def _join_kind(node: Join | SemiJoin | OuterJoin) -> str:
    if isinstance(node, SemiJoin):
        return "anti " if node.is_anti else "semi "
    if isinstance(node, OuterJoin):
        return "full " if node.keeps_left and node.keeps_right else "left " if node.keeps_left else "right "
    return ""


def _arguments(parts: Sequence[tuple[str, object]]) -> str:
    first = parts[0][1]
    arg, condition = getattr(first, "arg", None), getattr(first, "condition", None)
    return (arg or "*") + (f" if {condition}" if condition else "")


def _lifetime(lifetime: Lifetime) -> str:
    length = "unbounded" if lifetime.range is None else f"{lifetime.range / 1_000_000:g}s"
    offset = f"+{lifetime.offset / 1_000_000:g}s" if lifetime.offset else ""
    return f"<{length}{offset}{' internal' if lifetime.internal else ''}>"


def _column(column: PlanColumn) -> str:
    return f"{column.sql} {column.name} {column.type}"


def _sql(tree: exp.Expr) -> str:
    return tree.sql(CQL)
