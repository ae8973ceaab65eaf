"""Evaluates continuous plans over lists, by definition: R(b) is the relational query over the windows' contents at b.

Slow and plain. It knows the expressions that `tests/support/plan_builder.py` makes: columns, integers, arithmetic,
comparisons, AND, OR, NOT, IS NULL, IF, in three-valued logic; and bits.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlglot import exp, parse_one

from windrow.cql.dialect import CQL
from windrow.plan.accumulators import AggregateCall
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Distinct,
    Filter,
    GroupBy,
    Join,
    MergeUnion,
    Node,
    OuterJoin,
    OutputWindow,
    Project,
    RowsWindow,
    SemiJoin,
    SetOperation,
    Streaming,
    StreamWindow,
    TopRows,
    ToStream,
)
from windrow.reference.negation import last_rows, outer_join, semi_join, set_operation

Row = dict[str, Any]
Streams = dict[str, list[tuple[int, Row]]]
"""By stream: the points of its tuples, and their columns."""

FOREVER = 1 << 60


@dataclass(frozen=True)
class Living:
    """A row with its lifetime: born, leaves the state, leaves the output."""

    ts: int
    exp: int
    until: int
    row: Row


@lru_cache(maxsize=10_000)
def _tree(sql: str) -> exp.Expr:
    return parse_one(sql, dialect=CQL)


def answer(plan: ContinuousPlan, streams: Streams, tick: int) -> Counter[tuple[Any, ...]]:
    """R(b) as a multiset of rows, columns in the order of the plan."""
    names = [column.sql for column in plan.schema]
    return Counter(tuple(row[name] for name in names) for row in rows_at(plan.root, streams, tick, plan.step))


def rows_at(node: Node, streams: Streams, tick: int, step: int = 1) -> list[Row]:
    if isinstance(node, Filter):
        return [row for row in rows_at(node.input, streams, tick, step) if value(node.predicate, row) is True]
    if isinstance(node, Project):
        inner = rows_at(node.input, streams, tick, step)
        return [{one.column.sql: value(one.expression, row) for one in node.columns} for row in inner]
    if isinstance(node, MergeUnion):
        return [renamed for one in node.inputs for renamed in _renamed(node, one, rows_at(one, streams, tick, step))]
    if isinstance(node, Distinct):
        return _distinct(rows_at(node.input, streams, tick, step))
    if isinstance(node, GroupBy):
        return _grouped(node, rows_at(node.input, streams, tick, step))
    if isinstance(node, TopRows):
        return _top(node, rows_at(node.input, streams, tick, step))
    if isinstance(node, ToStream):
        return _streamed(node, streams, tick, step)
    if isinstance(node, RowsWindow):
        return _last(node, streams, tick)
    if isinstance(node, SemiJoin | OuterJoin | SetOperation):
        return _negated(node, *(rows_at(one, streams, tick, step) for one in node.inputs))
    if isinstance(node, Join) and not _has_lifetimes(node):
        sides = [[Living(0, 1, 1, row) for row in rows_at(one, streams, tick, step)] for one in node.inputs]
        return [one.row for one in _joined(node, sides)]
    return [one.row for one in lifetimes(node, streams, step, tick) if one.ts < tick <= one.until]


def _has_lifetimes(node: Node) -> bool:
    """Whether the lifetimes of its rows are defined by those of its inputs alone."""
    if isinstance(node, Distinct | GroupBy | TopRows | SemiJoin | OuterJoin | SetOperation | RowsWindow):
        return False
    return isinstance(node, StreamWindow | OutputWindow | ToStream) or all(map(_has_lifetimes, node.inputs))


def lifetimes(node: Node, streams: Streams, step: int, upto: int) -> list[Living]:
    """The rows of the node with their lifetimes, of those born before `upto` at least."""
    if isinstance(node, StreamWindow):
        return _windowed(node, streams)
    if isinstance(node, ToStream):
        ticks = range(step, upto + 1, step)
        return [Living(b - 1, FOREVER, FOREVER, row) for b in ticks for row in rows_at(node, streams, b, step)]
    inputs = [lifetimes(one, streams, step, upto) for one in node.inputs]
    if isinstance(node, Join):
        return _joined(node, inputs)
    if isinstance(node, MergeUnion):
        return [
            Living(a.ts, a.exp, a.until, row)
            for one, living in zip(node.inputs, inputs, strict=True)
            for a, row in zip(living, _renamed(node, one, [a.row for a in living]), strict=True)
        ]
    (living,) = inputs
    if isinstance(node, Filter):
        return [a for a in living if value(node.predicate, a.row) is True]
    if isinstance(node, Project):
        return [
            Living(a.ts, a.exp, a.until, {one.column.sql: value(one.expression, a.row) for one in node.columns})
            for a in living
        ]
    assert isinstance(node, OutputWindow)
    return [_in_window(a.ts, node.lifetime, a.row) for a in living]


def _in_window(point: int, lifetime: Any, row: Row) -> Living:
    born = point + lifetime.offset
    end = FOREVER if lifetime.range is None else born + lifetime.range
    return Living(born, end, FOREVER if lifetime.internal else end, row)


def _windowed(node: StreamWindow, streams: Streams) -> list[Living]:
    kept = []
    for point, tuple_ in streams.get(node.stream, []):
        if node.predicate is None or value(_tree(node.predicate), tuple_) is True:
            row = {one.column.sql: value(_tree(one.sql), tuple_) for one in node.columns}
            kept.append(_in_window(point, node.lifetime, row))
    return kept


def _last(node: RowsWindow, streams: Streams, tick: int) -> list[Row]:
    tuples = [
        (point, {one.column.sql: value(_tree(one.sql), tuple_) for one in node.columns})
        for point, tuple_ in streams.get(node.stream, [])
    ]
    return last_rows(tuples, node.size, lambda row: tuple(row[column.sql] for column in node.partition), tick)


def _negated(node: SemiJoin | OuterJoin | SetOperation, left: list[Row], right: list[Row]) -> list[Row]:
    if isinstance(node, SetOperation):
        names = [column.sql for column in node.columns]
        mine, theirs = (Counter(tuple(row.values()) for row in rows) for rows in (left, right))
        found = set_operation(mine, theirs, node.kind.value, node.is_all)
        return [dict(zip(names, row, strict=True)) for row in found.elements()]
    safe = node.null_safe if isinstance(node, SemiJoin) else ()

    def matches(one: Row, other: Row) -> bool:
        for k, (mine, theirs) in enumerate(node.keys):
            a, b = value(mine, one), value(theirs, other)
            if a != b or (a is None and not (safe and safe[k])):
                return False
        return node.condition is None or value(node.condition, one | other) is True

    if isinstance(node, SemiJoin):
        return semi_join(left, right, matches, node.is_anti)
    none = [dict.fromkeys(column.sql for column in one.schema) for one in node.inputs]
    return outer_join(
        left, right, matches, (none[0] if node.keeps_right else None, none[1] if node.keeps_left else None)
    )


def _joined(node: Join, sides: list[list[Living]]) -> list[Living]:
    """By nested loops; parts that do not live together or differ in a key are given up early."""
    found = [(one, _keys(node, 0, one.row)) for one in sides[0]]
    for i, side in enumerate(sides[1:], 1):
        following = [(one, _keys(node, i, one.row)) for one in side]
        found = [
            (Living(max(a.ts, b.ts), min(a.exp, b.exp), min(a.until, b.until), a.row | b.row), keys)
            for a, keys in found
            for b, theirs in following
            if max(a.ts, b.ts) < min(a.exp, b.exp) and None not in keys and keys == theirs
        ]
    return [a for a, _ in found if node.condition is None or value(node.condition, a.row) is True]


def _keys(node: Join, side: int, row: Row) -> list[Any]:
    return [value(key[side], row) for key in node.keys]


def _renamed(node: MergeUnion, side: Node, rows: list[Row]) -> list[Row]:
    pairs = [(mine.sql, theirs.sql) for mine, theirs in zip(node.columns, side.schema, strict=True)]
    return [{mine: row[theirs] for mine, theirs in pairs} for row in rows]


def _distinct(rows: list[Row]) -> list[Row]:
    return list({tuple(sorted(row.items(), key=lambda item: item[0])): row for row in rows}.values())


def _grouped(node: GroupBy, rows: list[Row]) -> list[Row]:
    groups: dict[tuple[Any, ...], list[Row]] = {} if node.keys else {(): []}
    for row in rows:
        groups.setdefault(tuple(row[key.sql] for key in node.keys), []).append(row)
    return [
        {
            **{key.sql: v for key, v in zip(node.keys, values, strict=True)},
            **{one.column.sql: _aggregate(one.call, own) for one in node.aggregates},
        }
        for values, own in groups.items()
    ]


def _aggregate(call: AggregateCall, rows: list[Row]) -> Any:
    part = call.parts[-1][1]
    condition = None if part.condition is None else _tree(part.condition)
    counted = [row for row in rows if condition is None or value(condition, row) is True]
    if part.arg is None:
        return len(counted)
    argument = _tree(part.arg)
    values = [v for v in (value(argument, row) for row in counted) if v is not None]
    if call.function == "COUNT":
        return len(values)
    return {"SUM": sum, "MAX": max, "MIN": min}[call.function](values) if values else None


def _top(node: TopRows, rows: list[Row]) -> list[Row]:
    def rank(v: Any, descending: bool, nulls_first: bool) -> tuple[Any, ...]:
        return (0 if nulls_first else 2,) if v is None else (1, -v if descending else v)

    def key(row: Row) -> list[Any]:
        asked = [rank(value(one.expression, row), one.descending, one.nulls_first) for one in node.order]
        return [*asked, *(rank(row[column.sql], False, True) for column in node.schema)]

    return sorted(rows, key=key)[: node.limit]


def _streamed(node: ToStream, streams: Streams, tick: int, step: int) -> list[Row]:
    names = [column.sql for column in node.schema]

    def at(b: int) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(row[name] for name in names) for row in rows_at(node.input, streams, b, step))

    now, before = at(tick), at(tick - step)
    found = {Streaming.ISTREAM: now - before, Streaming.DSTREAM: before - now, Streaming.RSTREAM: now}[node.kind]
    return [dict(zip(names, row, strict=True)) for row in found.elements()]


def value(tree: exp.Expr, row: Row) -> Any:
    """The value of an expression; None is NULL."""
    if isinstance(tree, exp.Column):
        return row[tree.name]
    if isinstance(tree, exp.Paren):
        return value(tree.this, row)
    if isinstance(tree, exp.Literal):
        return int(tree.this)
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    if isinstance(tree, exp.Null):
        return None
    if isinstance(tree, exp.Is):
        return value(tree.this, row) is None
    if isinstance(tree, exp.Not):
        inner = value(tree.this, row)
        return None if inner is None else not inner
    if isinstance(tree, exp.If):
        return value(tree.args["true" if value(tree.this, row) is True else "false"], row)
    left, right = value(tree.this, row), value(tree.expression, row)
    if isinstance(tree, exp.And | exp.Or):
        decisive = isinstance(tree, exp.Or)
        return decisive if decisive in (left, right) else None if None in (left, right) else not decisive
    if left is None or right is None:
        return None
    return _OPERATORS[type(tree)](left, right)


_OPERATORS = {
    exp.EQ: lambda a, b: a == b,
    exp.NEQ: lambda a, b: a != b,
    exp.GT: lambda a, b: a > b,
    exp.LT: lambda a, b: a < b,
    exp.GTE: lambda a, b: a >= b,
    exp.LTE: lambda a, b: a <= b,
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
    exp.BitwiseAnd: lambda a, b: a & b,
}
