"""Builds continuous plans by hand: nodes with fresh column ids, and random plans with random streams."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

from hypothesis import strategies as st
from sqlglot import exp, parse_one

from windrow.cql.dialect import CQL
from windrow.plan.aggregates import decompose
from windrow.plan.algebra.nodes import (
    Aggregated,
    Computed,
    ContinuousPlan,
    Distinct,
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
    SetKind,
    SetOperation,
    StreamColumn,
    Streaming,
    StreamWindow,
    TopRows,
    ToStream,
)
from windrow.plan.nodes import Attribute, Order
from windrow.types import SqlType

INT, BIGINT = SqlType("INT"), SqlType("BIGINT")
COLUMNS = ("k", "x", "y")


def tree(sql: str) -> exp.Expr:
    return parse_one(sql, dialect=CQL)


class Maker:
    """Makes nodes of one plan."""

    def __init__(self, first: int = 0, internal: bool = False) -> None:
        self.ids = count(first)
        self.internal = internal
        self.windows = 0

    def column(self, name: str, kind: SqlType = INT) -> PlanColumn:
        return PlanColumn(next(self.ids), name, kind)

    def window(
        self,
        stream: str = "s",
        length: int | None = 10,
        columns: tuple[str, ...] = COLUMNS,
        predicate: str | None = None,
        offset: int = 0,
        internal: bool = False,
    ) -> StreamWindow:
        own = tuple(StreamColumn(self.column(name), name) for name in columns)
        return StreamWindow(stream, Attribute("t", BIGINT), Lifetime(length, offset, internal), own, predicate)

    def rows_window(
        self, stream: str = "s", size: int = 3, by: tuple[str, ...] = (), columns: tuple[str, ...] = COLUMNS
    ) -> RowsWindow:
        own = tuple(StreamColumn(self.column(name), name) for name in columns)
        partition = tuple(one.column for one in own if one.sql in by)
        return RowsWindow(stream, Attribute("t", BIGINT), size, partition, own)

    def set_operation(
        self, left: Node, right: Node, kind: SetKind = SetKind.EXCEPT, is_all: bool = False
    ) -> SetOperation:
        return SetOperation((left, right), tuple(self.column(c.name, c.type) for c in left.schema), kind, is_all)

    def project(self, node: Node, **columns: str) -> Project:
        """Column by name: an expression over the names of the input's columns."""
        return Project(node, tuple(Computed(self.column(name), over(node, sql)) for name, sql in columns.items()))

    def union(self, *inputs: Node) -> MergeUnion:
        return MergeUnion(inputs, tuple(self.column(one.name, one.type) for one in inputs[0].schema))

    def group(self, node: Node, keys: tuple[str, ...] = (), **aggregates: str) -> GroupBy:
        """Aggregate by name: `SUM x`, `COUNT`, over the names of the input's columns."""
        made = []
        for name, text in aggregates.items():
            function, _, argument = text.partition(" ")
            arg = over(node, argument).sql(dialect=CQL) if argument else None
            call = decompose(function, arg, INT if arg else None, None)
            made.append(Aggregated(self.column(name, call.result), call))
        return GroupBy(node, tuple(at(node, key) for key in keys), tuple(made))


def at(node: Node, name: str) -> PlanColumn:
    """The first column of this name."""
    return next(column for column in node.schema if column.name == name)


def over(node: Node, sql: str) -> exp.Expr:
    """An expression in which columns are written by name, or as `1.x`: of the second input."""
    made = tree(sql)
    if isinstance(made, exp.Column):
        return exp.column(at(node, made.name).sql)
    for column in list(made.find_all(exp.Column)):
        column.replace(exp.column(at(node, column.name).sql))
    return made


def join(*inputs: Node, on: tuple[str, ...] = ("k",), condition: exp.Expr | None = None) -> Join:
    """A join of all inputs on columns of the same names."""
    return Join(inputs, tuple(tuple(over(one, key) for one in inputs) for key in on), condition)


def semi(left: Node, right: Node, condition: exp.Expr | None = None, is_anti: bool = False) -> SemiJoin:
    """A semi-join on `k`."""
    return SemiJoin(left, right, ((over(left, "k"), over(right, "k")),), condition, is_anti)


def outer(left: Node, right: Node, condition: exp.Expr | None = None, keeps: str = "left") -> OuterJoin:
    """An outer join on `k`; `keeps` is left, right or full."""
    keys = ((over(left, "k"), over(right, "k")),)
    return OuterJoin(left, right, keys, condition, keeps != "right", keeps != "left")


def keep(node: Node, sql: str) -> Filter:
    return Filter(node, over(node, sql))


def plan(root: Node, step: int = 1) -> ContinuousPlan:
    return ContinuousPlan(root, BIGINT, step)


# -- random ----------------------------------------------------------------------------------------

NAMES = ("s", "r", "q")
_TOPS = (
    "none",
    "distinct",
    "project distinct",
    "project distinct",
    "group",
    "all",
    "top",
    "stream",
    "filtered",
    "windowed stream",
)
MOST_WINDOWS = 3
"""Beyond these, plans do not branch."""

_STRICT = ("grouped", "limit")
_NEGATED = ("semi", "semi", "outer", "outer", "set", "rows")
_WITHDRAWING = (*_STRICT, *_NEGATED)
"""Not over INTERNAL windows."""

_INTERNAL_TOPS = ("internal", "internal")


def streams() -> st.SearchStrategy[dict[str, list[tuple[int, dict[str, Any]]]]]:
    return st.builds(_stream_contents, st.integers(0, 1 << 30))


def _stream_contents(seed: int) -> dict[str, list[tuple[int, dict[str, Any]]]]:
    """A few tuples of every stream, with few values, so that joins find partners."""
    draw = Random(seed)
    values = [0, 1, 1, 1, 2, 2, None]
    return {
        name: [(draw.randint(0, 9), {column: draw.choice(values) for column in COLUMNS}) for _ in range(5)]
        for name in NAMES
    }


@st.composite
def plans(draw: st.DrawFn) -> ContinuousPlan:
    """A plan of up to four windows: joins, selections, projections, unions, group-by and LIMIT, then DISTINCT, group-by
    or LIMIT."""
    top = draw(st.sampled_from([*_TOPS, *_INTERNAL_TOPS]))
    maker = Maker(internal=top in _INTERNAL_TOPS)
    node = draw(_nodes(maker, 3))
    if top in ("distinct", "project distinct"):
        node = Distinct(node if top == "distinct" else draw(_projects(maker, node)))
    elif top in ("group", "all", "filtered"):
        key, arg = draw(st.sampled_from(node.schema)), draw(st.sampled_from(node.schema))
        call = decompose("SUM", f"{arg.sql} + 1", INT, None), decompose("COUNT", None, None, None)
        made = tuple(Aggregated(maker.column(f"a{i}", BIGINT), one) for i, one in enumerate(call))
        node = GroupBy(node, () if top == "all" else (key,), made)
        if top == "filtered":
            node = Filter(node, draw(_conditions(node)))
    elif top == "top":
        node = TopRows(node, (Order(exp.column(node.schema[0].sql), True, False),), 2)
    elif top in ("stream", "windowed stream"):
        node = ToStream(node, draw(st.sampled_from(Streaming)))
        if top == "windowed stream":
            node = OutputWindow(node, Lifetime(draw(st.integers(1, 6))))
    if draw(st.booleans()):
        node = Filter(node, draw(_conditions(node)))
    return plan(node, draw(st.sampled_from([1, 2])))


def _terms(node: Node) -> st.SearchStrategy[str]:
    columns = st.sampled_from([column.sql for column in node.schema if column.type == INT] or [node.schema[0].sql])
    return st.one_of(columns, columns, st.builds(lambda a, b: f"({a} + {b})", columns, columns), st.just("1"))


@st.composite
def _conditions(draw: st.DrawFn, node: Node) -> exp.Expr:
    def one() -> str:
        kind = draw(st.sampled_from(["compare", "compare", "null", "or"]))
        terms = [draw(_terms(node)) for _ in range(4)]
        op = draw(st.sampled_from(["=", "<=", ">=", ">=", "<>"]))
        if kind == "null":
            return f"{terms[0]} IS NULL"
        return f"{terms[0]} {op} {terms[1]}" if kind == "compare" else f"({terms[0]} {op} {terms[1]} OR {terms[2]} = 2)"

    return tree(" AND ".join(one() for _ in range(draw(st.integers(1, 2)))))


@st.composite
def _projects(draw: st.DrawFn, maker: Maker, node: Node) -> Project:
    made = []
    for i in range(draw(st.integers(1, 3))):
        term = draw(_terms(node).filter(lambda one: one != "1"))
        kind = next((c.type for c in node.schema if c.sql == term), INT)
        made.append(Computed(maker.column(f"p{i}", kind), tree(term)))
    return Project(node, tuple(made))


@st.composite
def _nodes(draw: st.DrawFn, maker: Maker, depth: int) -> Node:
    kind = draw(
        st.sampled_from(
            ["window"]
            if depth == 0 or maker.windows >= MOST_WINDOWS
            else [*["join"] * 4, "filter", "filter", "project", "union", "window", *_WITHDRAWING * (not maker.internal)]
        )
    )
    if kind in _NEGATED:
        return draw(_negations(maker, depth, kind))
    if kind in _STRICT:
        return draw(_strict(maker, draw(_nodes(maker, depth - 1)), kind))
    if kind == "join":
        inputs = tuple(draw(_nodes(maker, depth - 1)) for _ in range(draw(st.integers(2, 2 if depth < 3 else 3))))
        keys = tuple(
            tuple(tree(draw(_terms(one).filter(lambda term: term != "1"))) for one in inputs)
            for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2])))
        )
        made = Join(inputs, keys)
        return Join(inputs, keys, draw(_conditions(made))) if draw(st.booleans()) else made
    if kind == "filter":
        node = draw(_nodes(maker, depth - 1))
        return Filter(node, draw(_conditions(node)))
    if kind == "project":
        return draw(_projects(maker, draw(_nodes(maker, depth - 1))))
    if kind == "union":
        return maker.union(*(draw(_windows(maker)) for _ in range(2)))
    return draw(_windows(maker))


@st.composite
def _negations(draw: st.DrawFn, maker: Maker, depth: int, kind: str) -> Node:
    if kind == "set":
        inputs = draw(_windows(maker)), draw(_windows(maker))
        return maker.set_operation(*inputs, draw(st.sampled_from(SetKind)), draw(st.booleans()))
    if kind == "rows":
        maker.windows += 1
        by = draw(st.sampled_from([(), ("k",)]))
        return maker.rows_window(draw(st.sampled_from(NAMES)), draw(st.integers(1, 3)), by)
    left, right = (draw(_nodes(maker, depth - 1)) for _ in range(2))
    keys = tuple(
        (tree(draw(_terms(left).filter(_is_read))), tree(draw(_terms(right).filter(_is_read))))
        for _ in range(draw(st.sampled_from([0, 1, 1])))
    )
    condition = draw(_conditions(Join((left, right)))) if draw(st.booleans()) else None
    if kind == "semi":
        safe = tuple(draw(st.booleans()) for _ in keys)
        return SemiJoin(left, right, keys, condition, draw(st.booleans()), safe)
    keeps = draw(st.sampled_from([(True, False), (False, True), (True, True)]))
    return OuterJoin(left, right, keys, condition, *keeps)


def _is_read(term: str) -> bool:
    return term != "1"


@st.composite
def _strict(draw: st.DrawFn, maker: Maker, node: Node, kind: str) -> Node:
    """A node whose rows are withdrawn."""
    of = [column for column in node.schema if column.type == INT] or list(node.schema)
    if kind == "limit":
        return TopRows(node, (Order(exp.column(draw(st.sampled_from(of)).sql), True, False),), draw(st.integers(1, 3)))
    key, arg = draw(st.sampled_from(of)), draw(st.sampled_from(of))
    call = decompose(draw(st.sampled_from(["MAX", "MIN"])), arg.sql, arg.type, None)
    count = decompose("COUNT", None, None, None)
    made = (Aggregated(maker.column("m", call.result), call), Aggregated(maker.column("n", BIGINT), count))
    return GroupBy(node, (key,), made)


@st.composite
def _windows(draw: st.DrawFn, maker: Maker) -> StreamWindow:
    predicate = draw(st.sampled_from([None, None, "x > 0", "k = 1 OR y = 2"]))
    length = draw(st.sampled_from([3, 5, 10, None]))
    maker.windows += 1
    stream, offset = draw(st.sampled_from(NAMES)), draw(st.sampled_from([0, 0, 2]))
    internal = maker.internal and draw(st.booleans())
    return maker.window(stream, length, predicate=predicate, offset=offset, internal=internal)


@st.composite
def join_plans(draw: st.DrawFn) -> ContinuousPlan:
    """Three or four windows joined by equalities of columns, at once or one after another, perhaps below DISTINCT."""
    maker = Maker()
    node: Node = draw(_plain_windows(maker))
    windows = [node]
    for _ in range(draw(st.integers(2, 3))):
        following = draw(_plain_windows(maker))
        windows.append(following)
        names = [
            (draw(st.sampled_from(COLUMNS)), draw(st.sampled_from(COLUMNS))) for _ in range(draw(st.integers(1, 2)))
        ]
        earlier = draw(st.sampled_from(windows[:-1]))
        keys = tuple((over(earlier, mine), over(following, theirs)) for mine, theirs in names)
        node = Join((node, following), keys)
    if draw(st.booleans()):
        key = draw(st.sampled_from(COLUMNS))
        node = join(*windows, on=(key,))
    if draw(st.booleans()):
        kept = draw(st.lists(st.sampled_from(node.schema), min_size=1, max_size=2, unique=True))
        made = tuple(Computed(maker.column(one.name), exp.column(one.sql)) for one in kept)
        node = Distinct(Project(node, made))
    return plan(node)


@st.composite
def negation_plans(draw: st.DrawFn) -> ContinuousPlan:
    """A negation among joins: below, between or above them, as NOT EXISTS, EXISTS, EXCEPT or INTERSECT; perhaps below
    projections, selections, DISTINCT or group-by."""
    maker = Maker()
    node: Node = draw(_negated(maker, draw(_plain_windows(maker))))
    for _ in range(draw(st.integers(1, 2))):
        kind = draw(st.sampled_from(["join", "join", "join", "project", "filter", "negated"]))
        if kind == "negated":
            node = draw(_negated(maker, node))
        elif kind == "project":
            node = draw(_projects(maker, node))
        elif kind == "filter":
            node = Filter(node, draw(_conditions(node)))
        else:
            other: Node = draw(_plain_windows(maker))
            other = Distinct(other) if draw(st.booleans()) else other
            key = draw(st.sampled_from(node.schema)), draw(st.sampled_from(other.schema))
            node = Join((node, other), ((exp.column(key[0].sql), exp.column(key[1].sql)),))
            node = draw(_negated(maker, node)) if draw(st.booleans()) else node
    top = draw(st.sampled_from(["none", "none", "distinct", "project distinct", "group"]))
    if top == "group":
        keys = tuple(draw(st.lists(st.sampled_from(node.schema), min_size=1, max_size=2, unique=True)))
        count = Aggregated(maker.column("n", BIGINT), decompose("COUNT", None, None, None))
        return plan(GroupBy(node, keys, (count,)))
    if top != "none":
        node = Distinct(node if top == "distinct" else draw(_projects(maker, node)))
    return plan(node)


@st.composite
def _negated(draw: st.DrawFn, maker: Maker, node: Node) -> Node:
    """The node with a negation over it."""
    if draw(st.integers(0, 2)) == 0:
        kept = draw(st.lists(st.sampled_from(node.schema), min_size=1, max_size=3, unique=True))
        names = draw(st.permutations(COLUMNS))
        other = maker.window(draw(st.sampled_from(NAMES)), 5)
        sides = (
            Project(one, tuple(Computed(maker.column(f"e{i}"), exp.column(c.sql)) for i, c in enumerate(of)))
            for one, of in ((node, kept), (other, [at(other, name) for name in names[: len(kept)]]))
        )
        return maker.set_operation(*sides, draw(st.sampled_from(SetKind)), draw(st.sampled_from([False, False, True])))
    right = draw(_plain_windows(maker))
    keys = ((exp.column(draw(st.sampled_from(node.schema)).sql), exp.column(draw(st.sampled_from(right.schema)).sql)),)
    condition = draw(_conditions(Join((node, right)))) if draw(st.integers(0, 2)) == 0 else None
    return SemiJoin(node, right, keys, condition, draw(st.booleans()), (draw(st.booleans()),))


@st.composite
def _plain_windows(draw: st.DrawFn, maker: Maker) -> StreamWindow:
    return maker.window(draw(st.sampled_from(NAMES)), draw(st.sampled_from([5, 10, None])))
