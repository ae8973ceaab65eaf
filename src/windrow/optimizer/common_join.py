"""One join for many queries that differ in their selections (Golab's dissertation, section 8.3; CACQ's shared filters).

The shared join has the windows and keys that the queries' joins have in common. Each of its windows keeps the tuples
that any query needs, with the columns that any query reads and, for every selection, whether the tuple passes it. A
result belongs to a query if it passes the query's own selections and condition: its *route*. The selections of a window
are *flags*, the bits of a few numbers, so that a hundred of them cost the join little more than one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlglot import exp

from windrow.plan.algebra.nodes import (
    Filter,
    Join,
    Lifetime,
    Node,
    PlanColumn,
    StreamColumn,
    StreamWindow,
    walk,
)
from windrow.plan.algebra.rewriting import conjunction, conjuncts, parsed, reference, substituted, text_of
from windrow.plan.nodes import Attribute
from windrow.types import SqlType

Path = tuple[int, ...]
BIGINT = SqlType("BIGINT")

FLAGS = 63
"""So many flags are in one BIGINT."""


@dataclass(frozen=True)
class SharedSide:
    """An input of a join: a window, its place among the join's inputs, and its keys as Spark SQL."""

    window: StreamWindow
    place: int
    keys: tuple[str, ...]

    @property
    def signature(self) -> tuple[str, Attribute, Lifetime, tuple[str, ...]]:
        return self.window.stream.lower(), self.window.attribute, self.window.lifetime, self.keys


@dataclass(frozen=True)
class SharableJoin:
    """A join over windows alone, at a path from the root of its plan. Its sides are in an order that is the same for
    all joins with this signature."""

    path: Path
    join: Join
    sides: tuple[SharedSide, ...]

    @cached_property
    def signature(self) -> tuple[object, ...]:
        """Equal for joins that can be one."""
        return tuple(side.signature for side in self.sides)


@dataclass(frozen=True)
class Flag:
    """A bit of a column of flags; the lowest is 0."""

    column: PlanColumn
    bit: int


@dataclass(frozen=True)
class JoinRoute:
    """Which results of the shared join are those of one query's join: those for which all `flags` are set and the
    predicate is true. And which of its columns are the query's: `columns` has the shared column for each column of the
    query's join."""

    path: Path
    flags: tuple[Flag, ...]
    predicate: exp.Expr | None
    columns: tuple[tuple[PlanColumn, PlanColumn], ...]

    @cached_property
    def names(self) -> dict[str, str]:
        """By the name of the query's column, that of the shared one."""
        return {own.sql: shared.sql for own, shared in self.columns}


@dataclass(frozen=True)
class CommonJoin:
    """A join that serves several queries, and a route for each. `flags`: by the name of a column of flags, the
    selections that its bits are of, as Spark SQL over the stream's columns."""

    join: Join
    routes: tuple[JoinRoute, ...]
    flags: Mapping[str, tuple[str, ...]]

    @cached_property
    def windows(self) -> tuple[StreamWindow, ...]:
        """Its windows, from left to right."""
        return tuple(node for node in walk(self.join) if isinstance(node, StreamWindow))


def sharable_join(root: Node) -> SharableJoin | None:
    """The uppermost join of a plan, if windows are all that it reads; None if there is no such join."""
    found = next(_uppermost(root, ()), None)
    if found is None:
        return None
    path, join = found
    windows = [one for one in join.inputs if isinstance(one, StreamWindow)]
    own = [{one.column.sql: parsed(one.sql) for one in window.columns} for window in windows]
    keys = [tuple(text_of(substituted(key[k], own[k])) for k in range(len(windows))) for key in join.keys]
    order = sorted(range(len(windows)), key=lambda k: (_order(windows[k], sorted(key[k] for key in keys)), k))
    keys.sort(key=lambda key: tuple(key[k] for k in order))
    return SharableJoin(path, join, tuple(SharedSide(windows[k], k, tuple(key[k] for key in keys)) for k in order))


def _uppermost(node: Node, path: Path) -> Iterator[tuple[Path, Join]]:
    if isinstance(node, Join):
        if all(isinstance(one, StreamWindow) for one in node.inputs):
            yield path, node
        return
    for i, one in enumerate(node.inputs):
        yield from _uppermost(one, (*path, i))


def _order(window: StreamWindow, keys: Sequence[str]) -> tuple[str, ...]:
    return (window.stream.lower(), str(window.attribute), str(window.lifetime), *keys)


def common_join(members: Sequence[SharableJoin]) -> CommonJoin:
    """The join that serves joins of one signature."""
    if len({member.signature for member in members}) != 1:
        raise ValueError("joins with different windows or keys are not one")
    return _Builder(members).build()


@dataclass
class _Builder:
    members: Sequence[SharableJoin]
    columns: list[dict[tuple[str, SqlType], PlanColumn]] = field(default_factory=list)
    flags: list[dict[str, Flag]] = field(default_factory=list)
    """By side, where the flag of each selection is."""
    ids: int = 0

    def build(self) -> CommonJoin:
        first = self.members[0]
        count = len(first.sides)
        self.columns = [{} for _ in range(count)]
        self.flags = [self._flagged(side) for side in range(count)]
        routes = tuple(self._route(member) for member in self.members)
        keys = tuple(
            tuple(self._key(first.sides[side], first.join, k) for side in range(count))
            for k in range(len(first.join.keys))
        )
        common = [one for one in conjuncts(routes[0].predicate) if all(one in conjuncts(r.predicate) for r in routes)]
        routes = tuple(replace(route, predicate=_without(route.predicate, common)) for route in routes)
        inputs = tuple(self._input(side) for side in range(count))
        return CommonJoin(Join(inputs, keys, conjunction(common)), routes, self._selections())

    def _flagged(self, side: int) -> dict[str, Flag]:
        """Where the flags of a window's selections are; none if all members have the same one."""
        asked = self._predicates(side)
        if len(asked) == 1:
            return {}
        tested = [one for one in asked if one is not None]
        words = [tested[first : first + FLAGS] for first in range(0, len(tested), FLAGS)]
        columns = [self._column(side, _packed(word), BIGINT) for word in words]
        return {one: Flag(columns[i // FLAGS], i % FLAGS) for i, one in enumerate(tested)}

    def _selections(self) -> dict[str, tuple[str, ...]]:
        found = dict[str, list[str]]()
        for side in self.flags:
            for predicate, flag in side.items():
                found.setdefault(flag.column.sql, []).append(predicate)
        return {name: tuple(mine) for name, mine in found.items()}

    def _column(self, side: int, sql: str, kind: SqlType) -> PlanColumn:
        found = self.columns[side].get((sql, kind))
        if found is None:
            found = self.columns[side][sql, kind] = PlanColumn(self.ids, sql, kind)
            self.ids += 1
        return found

    def _predicates(self, side: int) -> list[str | None]:
        return list(dict.fromkeys(member.sides[side].window.predicate for member in self.members))

    def _input(self, side: int) -> Node:
        """The window with all columns. Its own predicate is the one that all members have; where theirs differ, a
        filter keeps what passes any of them."""
        predicates = self._predicates(side)
        columns = tuple(StreamColumn(column, sql) for (sql, _), column in self.columns[side].items())
        only = predicates[0] if len(predicates) == 1 else None
        window = replace(self.members[0].sides[side].window, columns=columns, predicate=only)
        if len(predicates) == 1 or None in predicates:
            return window
        words = dict.fromkeys(flag.column for flag in self.flags[side].values())
        return Filter(window, parsed(" OR ".join(f"{column.sql} <> 0" for column in words)))

    def _key(self, side: SharedSide, join: Join, k: int) -> exp.Expr:
        """The k-th key of an input, over shared columns."""
        place = self.members[0].sides.index(side)
        own = {one.column.sql: parsed(one.sql) for one in side.window.columns}
        found = next(key[side.place] for key in join.keys if text_of(substituted(key[side.place], own)) == side.keys[k])
        return substituted(found, self._shared(place, side.window))

    def _shared(self, side: int, window: StreamWindow) -> dict[str, exp.Expr]:
        """The shared columns in place of a member's."""
        return {one.column.sql: reference(self._column(side, one.sql, one.column.type)) for one in window.columns}

    def _route(self, member: SharableJoin) -> JoinRoute:
        values = dict[str, exp.Expr]()
        shared = dict[str, PlanColumn]()
        flags = list[Flag]()
        for side, one in enumerate(member.sides):
            values |= self._shared(side, one.window)
            shared |= {c.column.sql: self._column(side, c.sql, c.column.type) for c in one.window.columns}
            flag = self.flags[side].get(one.window.predicate or "")
            flags += [] if flag is None else [flag]
        condition = member.join.condition
        predicate = None if condition is None else substituted(condition, values)
        columns = tuple((column, shared[column.sql]) for column in member.join.schema)
        return JoinRoute(member.path, tuple(flags), predicate, columns)


def _packed(predicates: Sequence[str]) -> str:
    """The number whose bits say which of the conditions are true, as Spark SQL. No store computes it so: it has the
    conditions."""
    return " + ".join(f"IF({one}, {1 << bit}, 0)" for bit, one in enumerate(predicates))


def _without(predicate: exp.Expr | None, common: Sequence[exp.Expr]) -> exp.Expr | None:
    return conjunction(one for one in conjuncts(predicate) if one not in common)
