"""One join for many queries that differ in their selections (Golab's dissertation, section 8.3; CACQ's shared filters).

The shared join has the same windows and keys; each of its windows keeps the tuples that any query needs (the
disjunction of their conditions), with the columns that any query reads. A result belongs to a query if it passes the
query's own conditions: its *route*. Where DuckDB can test a condition on a stream, the window keeps the columns that it
reads; else Spark tests it on arrival, and the window keeps the outcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from windrow.optimizer.shared_plans.identical import Path, replaced_at
from windrow.plan.algebra.invariants import BOOLEAN, type_in
from windrow.plan.algebra.nodes import (
    Computed,
    ContinuousPlan,
    Filter,
    Join,
    Lifetime,
    Node,
    PlanColumn,
    Project,
    StreamColumn,
    StreamWindow,
    columns_in,
)
from windrow.plan.algebra.rewriting import conjunction, conjuncts, next_id, parsed, reference, substituted, text_of
from windrow.plan.nodes import Attribute
from windrow.types import SqlType

StreamTypes = Mapping[str, Mapping[str, SqlType]]
"""The types of streams' columns, by stream and column."""


@dataclass(frozen=True)
class JoinRoute:
    """Which results of the shared join are those of one query's join, and how its columns are computed of them."""

    plan: int
    path: Path
    predicate: exp.Expr | None
    columns: tuple[Computed, ...]

    @property
    def equality(self) -> tuple[str, exp.Expr] | None:
        """A column and a constant that it equals in every result of this query, if the predicate says so: routes with
        the same column can be found by one lookup instead of one test each."""
        for one in conjuncts(self.predicate):
            sides = (one.this, one.expression) if isinstance(one, exp.EQ) else ()
            for column, constant in (sides, sides[::-1]) if sides else ():
                if isinstance(column, exp.Column) and isinstance(constant, exp.Literal):
                    return column.name, constant
        return None

    def over(self, shared: Node) -> Node:
        """The query's join, as a selection and projection of the shared one."""
        return Project(shared if self.predicate is None else Filter(shared, self.predicate), self.columns)


@dataclass(frozen=True)
class CommonJoin:
    """A join that serves several plans. Its column ids are those of no plan."""

    join: Join
    routes: tuple[JoinRoute, ...]

    def routed(self, plan: ContinuousPlan, route: JoinRoute) -> ContinuousPlan:
        """The plan with its join replaced by what it takes of the shared one."""
        return replace(plan, root=replaced_at(plan.root, route.path, route.over(self.join)))


def common_join(plans: Sequence[ContinuousPlan], types: StreamTypes | None = None) -> tuple[CommonJoin, ...]:
    """The joins that plans have in common but for selections, conditions and columns; each serves at least two.

    Only joins whose inputs are all windows over streams are considered, one for each plan: the uppermost.
    """
    groups: dict[tuple[object, ...], list[_Member]] = {}
    for i, plan in enumerate(plans):
        member = _member(i, plan)
        if member is not None:
            groups.setdefault((plan.point, plan.step, plan.origin, *member.signature), []).append(member)
    first = next_id(*(plan.root for plan in plans))
    found = []
    for members in groups.values():
        if len(members) > 1:
            made = _Shared(members, types or {}, first).build()
            first = next_id(made.join)
            found.append(made)
    return tuple(found)


@dataclass(frozen=True)
class _Side:
    """An input of a join: the window, and its keys as Spark SQL, sorted with those of the other inputs."""

    window: StreamWindow
    keys: tuple[str, ...]

    @property
    def signature(self) -> tuple[str, Attribute, Lifetime, tuple[str, ...]]:
        return self.window.stream, self.window.attribute, self.window.lifetime, self.keys

    @property
    def order(self) -> tuple[str, ...]:
        return (*map(str, self.signature[:3]), *self.keys)

    def values(self) -> dict[str, exp.Expr]:
        return {one.column.sql: parsed(one.sql) for one in self.window.columns}


@dataclass(frozen=True)
class _Member:
    plan: int
    path: Path
    join: Join
    sides: tuple[_Side, ...]

    @property
    def signature(self) -> tuple[object, ...]:
        return tuple(side.signature for side in self.sides)


def _uppermost(node: Node, path: Path = ()) -> Iterator[tuple[Path, Join]]:
    if isinstance(node, Join):
        if all(isinstance(one, StreamWindow) for one in node.inputs):
            yield path, node
        return
    for i, one in enumerate(node.inputs):
        yield from _uppermost(one, (*path, i))


def _member(i: int, plan: ContinuousPlan) -> _Member | None:
    found = next(_uppermost(plan.root), None)
    if found is None:
        return None
    path, join = found
    windows = [one for one in join.inputs if isinstance(one, StreamWindow)]
    own = [{one.column.sql: parsed(one.sql) for one in window.columns} for window in windows]
    keys = [tuple(text_of(substituted(key[k], own[k])) for k in range(len(windows))) for key in join.keys]
    # One order of inputs and then of keys for all plans: by window and key texts.
    sides = [(_Side(w, tuple(sorted(key[k] for key in keys))), k) for k, w in enumerate(windows)]
    sides.sort(key=lambda one: (one[0].order, one[1]))
    order = [k for _, k in sides]
    sorted_keys = sorted(tuple(key[k] for k in order) for key in keys)
    return _Member(
        i, path, join, tuple(_Side(windows[k], tuple(key[j] for key in sorted_keys)) for j, k in enumerate(order))
    )


def _without(predicate: exp.Expr | None, common: Sequence[exp.Expr]) -> exp.Expr | None:
    return conjunction(one for one in conjuncts(predicate) if one not in common)


@dataclass
class _Shared:
    members: list[_Member]
    types: StreamTypes
    next_id: int
    columns: list[dict[tuple[str, SqlType], PlanColumn]] = field(default_factory=list)

    def build(self) -> CommonJoin:
        count = len(self.members[0].sides)
        self.columns = [{} for _ in range(count)]
        routes = tuple(self._route(member) for member in self.members)
        first = self.members[0]
        keys = []
        for k in range(len(first.join.keys)):
            keys.append(tuple(self._key(first, side, k) for side in range(count)))
        common = [one for one in conjuncts(routes[0].predicate) if all(one in conjuncts(r.predicate) for r in routes)]
        routes = tuple(replace(r, predicate=_without(r.predicate, common)) for r in routes)
        return CommonJoin(Join(tuple(map(self._window, range(count))), tuple(keys), conjunction(common)), routes)

    def _column(self, side: int, sql: str, kind: SqlType) -> PlanColumn:
        found = self.columns[side].get((sql, kind))
        if found is None:
            found = self.columns[side][sql, kind] = PlanColumn(self.next_id, sql, kind)
            self.next_id += 1
        return found

    def _window(self, side: int) -> StreamWindow:
        windows = [member.sides[side].window for member in self.members]
        columns = tuple(StreamColumn(column, sql) for (sql, _), column in self.columns[side].items())
        predicates = dict.fromkeys(window.predicate for window in windows)
        any_of = None
        if None not in predicates:
            any_of = text_of(exp.or_(*(parsed(one) for one in predicates if one is not None)))
        return replace(windows[0], columns=columns, predicate=any_of)

    def _key(self, member: _Member, side: int, k: int) -> exp.Expr:
        """The k-th key of an input, over shared columns: a column of the window that has it, if any has."""
        sql = member.sides[side].keys[k]
        for (text, _), column in self.columns[side].items():
            if text == sql:
                return reference(column)
        # The key is an expression over columns that every member reads, so they are all shared.
        known = {
            one.sql: reference(self._column(side, one.sql, one.column.type))
            for one in member.sides[side].window.columns
        }
        original = self._original_key(member, side, k)
        names = {one.column.sql: known[one.sql] for one in member.sides[side].window.columns}
        return substituted(original, names)

    def _original_key(self, member: _Member, side: int, k: int) -> exp.Expr:
        window = member.sides[side].window
        place = member.join.inputs.index(window)
        values = member.sides[side].values()
        return next(
            key[place]
            for key in member.join.keys
            if text_of(substituted(key[place], values)) == member.sides[side].keys[k]
        )

    def _route(self, member: _Member) -> JoinRoute:
        values: dict[str, exp.Expr] = {}
        conditions: list[exp.Expr] = []
        for side, one in enumerate(member.sides):
            for column in one.window.columns:
                values[column.column.sql] = reference(self._column(side, column.sql, column.column.type))
            if len({other.sides[side].window.predicate for other in self.members}) > 1:
                conditions += self._tested(side, one.window)
        if member.join.condition is not None:
            conditions.append(substituted(member.join.condition, values))
        columns = tuple(Computed(column, values[column.sql]) for column in member.join.schema)
        return JoinRoute(member.plan, member.path, conjunction(conditions), columns)

    def _tested(self, side: int, window: StreamWindow) -> list[exp.Expr]:
        """A window's condition over columns of the shared join."""
        if window.predicate is None:
            return []
        condition = parsed(window.predicate)
        known = self._known_types(side, window.stream)
        kinds = {name: known.get(name) for name in columns_in(condition)}
        if all(kinds.values()) and type_in(condition, {name: kind for name, kind in kinds.items() if kind}) == BOOLEAN:
            names = {name: reference(self._column(side, name, kind)) for name, kind in kinds.items() if kind}
            return [substituted(condition, names)]
        return [reference(self._column(side, window.predicate, BOOLEAN))]

    def _known_types(self, side: int, stream: str) -> dict[str, SqlType]:
        read = (one for member in self.members for one in member.sides[side].window.columns)
        return {one.sql: one.column.type for one in read} | dict(self.types.get(stream, {}))
