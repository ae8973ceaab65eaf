"""FROM and WHERE: conditions on one input go to it, equalities of two inputs are join keys, the rest is the condition.

Joins are binary and left-deep, in the order written.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from sqlglot import exp

from windrow.cql.final.types import Final, common_type
from windrow.errors import BindError
from windrow.plan.algebra.nodes import Join, Node, columns_in
from windrow.plan.continuous.expressions import Expressions, cast_to, conjuncts
from windrow.plan.continuous.inputs import StreamInput, both
from windrow.plan.continuous.scope import inputs_in
from windrow.types import SqlType


@dataclass
class _Joined:
    """What joins an input with those before it."""

    keys: list[tuple[exp.Expr, exp.Expr]] = field(default_factory=list)
    conditions: list[exp.Expr] = field(default_factory=list)


class Joining:
    """The conditions of a SELECT, by the input at which all their columns are known."""

    def __init__(self, expressions: Expressions):
        self._expressions = expressions
        self._at: dict[int, _Joined] = {}

    def add(self, condition: exp.Expr, clause: str) -> None:
        """Add the condition of a WHERE or ON, over the inputs so far."""
        hint = "Use HAVING, or FILTER (WHERE …) inside the aggregate." if clause == "WHERE" else "Use HAVING."
        self._expressions.no_aggregate(condition, clause, hint)
        for written in conjuncts(condition):
            if not (isinstance(written, exp.Boolean) and written.this):
                self.add_resolved(self._expressions.resolve(written), clause)

    def add_resolved(self, tree: exp.Expr, clause: str) -> None:
        inputs = inputs_in(tree)
        if len(inputs) < 2:
            self._add_single(tree, next(iter(inputs), 0), clause)
            return
        joined = self._at.setdefault(max(inputs), _Joined())
        key = self._key(tree, max(inputs))
        if key is not None:
            joined.keys.append(key)
            return
        lowered = self._expressions.lower(tree)
        self._expressions.computable(lowered, tree)
        self._expressions.boolean(self._expressions.type_of(lowered), tree, clause)
        joined.conditions.append(lowered)

    def _add_single(self, tree: exp.Expr, index: int, clause: str) -> None:
        given = self._expressions.scope.inputs[index]
        if isinstance(given, StreamInput):
            sql = self._expressions.spark_sql(tree, given)
            kind = given.type_of(sql, self._expressions.types_at(tree))
            self._expressions.boolean(kind, tree, clause)
            given.predicates.append(f"CAST({sql} AS BOOLEAN)" if kind.name == "VOID" else sql)
            return
        lowered = self._expressions.lower(tree)
        self._expressions.computable(lowered, tree)
        self._expressions.boolean(self._expressions.type_of(lowered), tree, clause)
        given.predicates.append(lowered)

    def _key(self, tree: exp.Expr, last: int) -> tuple[exp.Expr, exp.Expr] | None:
        """The key expressions of the inputs before `last` and of `last`, if the condition is such an equality."""
        if not isinstance(tree, exp.EQ):
            return None
        sides = [tree.this, tree.expression]
        if inputs_in(sides[0]) == {last}:
            sides.reverse()
        before, after = map(inputs_in, sides)
        if after != {last} or not before or last in before:
            return None
        kinds = [self._expressions.type_of_resolved(side) for side in sides]
        common = self._common(kinds, tree)
        cast = [side if kind == common else cast_to(side, common) for side, kind in zip(sides, kinds, strict=True)]
        lowered = [self._expressions.lower(side) for side in cast]
        for one in lowered:
            self._expressions.computable(one, tree)
        return lowered[0], lowered[1]

    def _common(self, kinds: list[SqlType], tree: exp.Expr) -> SqlType:
        common = None
        if not any(kind.is_nested for kind in kinds):
            common = common_type([Final("", kind) for kind in kinds])
        if common is None:
            raise BindError(
                f"{kinds[0]} and {kinds[1]} cannot be compared",
                place=self._expressions.place(tree),
                remedy="Cast one side to the type of the other, for example CAST(x AS STRING).",
            )
        return common

    @property
    def used(self) -> set[str]:
        """The plan columns that conditions between inputs read."""
        trees = [tree for one in self._at.values() for tree in (*one.conditions, *(t for key in one.keys for t in key))]
        return {name for tree in trees for name in columns_in(tree)}

    def node(self, used: Collection[str]) -> Node:
        """The inputs joined; windows keep the columns that are `used` above or by the joins."""
        wanted = self.used | set(used)
        nodes = [one.node(wanted) for one in self._expressions.scope.inputs]
        whole = nodes[0]
        for index, node in enumerate(nodes[1:], start=1):
            joined = self._at.get(index, _Joined())
            condition = both(joined.conditions) if joined.conditions else None
            whole = Join((whole, node), tuple(joined.keys), condition)
        return whole
