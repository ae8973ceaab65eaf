"""FROM and WHERE: conditions on one input go to it, equalities of two inputs are join keys, the rest is the condition.

Joins are binary and left-deep, in the order written. A condition goes down only past joins that it commutes with: one
on rows that an outer join adds NULLs to stays above that join.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from windrow.cql.final.types import Final, common_type
from windrow.errors import BindError
from windrow.plan.algebra.nodes import Filter, Join, Node, OuterJoin, SemiJoin, columns_in
from windrow.plan.continuous.expressions import Expressions, cast_to, conjuncts
from windrow.plan.continuous.inputs import PlanInput, StreamInput, both
from windrow.plan.continuous.relations.nrr_joins import JoinStep, NrrJoins
from windrow.plan.continuous.scope import inputs_in
from windrow.plan.continuous.shape import JoinKind
from windrow.types import SqlType

_Key = tuple[exp.Expr, exp.Expr]


@dataclass
class _Step:
    """How an input joins those before it, and the conditions on the result. `of_where`: by EXISTS or IN in WHERE."""

    kind: JoinKind = JoinKind.INNER
    of_where: bool = False
    keys: list[_Key] = field(default_factory=list)
    null_safe: list[bool] = field(default_factory=list)
    conditions: list[exp.Expr] = field(default_factory=list)
    above: list[exp.Expr] = field(default_factory=list)

    @property
    def trees(self) -> Iterator[exp.Expr]:
        yield from (one for key in self.keys for one in key)
        yield from (*self.conditions, *self.above)


class Joining:
    """The inputs of a SELECT as a chain of joins, each with its conditions. Input i ≥ 1 is joined by step i."""

    def __init__(self, expressions: Expressions):
        self._expressions = expressions
        self._steps: list[_Step] = [_Step()]

    def join(self, kind: JoinKind, of_where: bool = False) -> None:
        """The input that came last joins those before it."""
        self._steps.append(_Step(kind, of_where))

    def joined(self) -> None:
        """The conditions of the last join are complete: from here on, a side of an outer join may be NULL."""
        last, scope = len(self._steps) - 1, self._expressions.scope
        kind = self._steps[last].kind
        if kind.extends_left:
            self._expressions.extended.update(index for index in scope.visible if index < last)
        if kind.extends_right:
            self._expressions.extended.add(last)
        if kind in (JoinKind.SEMI, JoinKind.ANTI):
            scope.close(last)

    # -- conditions ------------------------------------------------------------------------------

    def add(self, condition: exp.Expr, clause: str) -> None:
        """Add the condition of a WHERE, or of the ON of the last join."""
        hint = "Use HAVING, or FILTER (WHERE …) inside the aggregate." if clause == "WHERE" else "Use HAVING."
        self._expressions.no_aggregate(condition, clause, hint)
        for written in conjuncts(condition):
            if isinstance(written, exp.Boolean) and written.this:
                continue
            tree = self._expressions.resolve(written)
            if clause == "WHERE":
                self._place(tree, inputs_in(tree), len(self._steps) - 1, clause)
            else:
                self.add_on(tree, clause)

    def add_on(self, tree: exp.Expr, clause: str) -> None:
        """Add a resolved condition to the last join."""
        inputs, last = inputs_in(tree), len(self._steps) - 1
        kind = self._steps[last].kind
        if kind is JoinKind.INNER:
            self._place(tree, inputs, last, clause)
        elif inputs == {last} and kind in (JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI):
            self._on_input(tree, last, clause)
        elif inputs and last not in inputs and kind in (JoinKind.RIGHT, JoinKind.SEMI):
            self._place(tree, inputs, last - 1, clause)
        else:
            self._on_join(tree, last, clause)

    def _place(self, tree: exp.Expr, inputs: frozenset[int], level: int, clause: str) -> None:
        """Put a condition on the result of step `level` as far down as it goes."""
        while level > 0:
            step = self._steps[level]
            if inputs == {level} and not step.kind.extends_right:
                break
            if level in inputs and step.kind is JoinKind.INNER:
                self._on_join(tree, level, clause)
                return
            if level in inputs or step.kind.extends_left:
                step.above.append(self._condition(tree, clause))
                return
            level -= 1
        self._on_input(tree, level, clause)

    def _on_input(self, tree: exp.Expr, index: int, clause: str) -> None:
        given = self._expressions.scope.inputs[index]
        if not isinstance(given, StreamInput):
            given.predicates.append(self._condition(tree, clause))
            return
        sql = self._expressions.spark_sql(tree, given)
        kind = given.type_of(sql, self._expressions.types_at(tree))
        self._expressions.boolean(kind, tree, clause)
        given.predicates.append(f"CAST({sql} AS BOOLEAN)" if kind.name == "VOID" else sql)

    def _on_join(self, tree: exp.Expr, level: int, clause: str) -> None:
        step = self._steps[level]
        takes_nulls = step.kind in (JoinKind.SEMI, JoinKind.ANTI)
        if isinstance(tree, exp.EQ) or (takes_nulls and isinstance(tree, exp.NullSafeEQ)):
            key = self._key(tree, level)
            if key is not None:
                step.keys.append(key)
                step.null_safe.append(isinstance(tree, exp.NullSafeEQ))
                return
        step.conditions.append(self._condition(tree, clause))

    def _condition(self, tree: exp.Expr, clause: str) -> exp.Expr:
        lowered = self._expressions.lower(tree)
        self._expressions.computable(lowered, tree, inputs=inputs_in(tree))
        self._expressions.boolean(self._expressions.type_of(lowered), tree, clause)
        return lowered

    def _key(self, tree: exp.Expr, last: int) -> _Key | None:
        """The key expressions of the inputs before `last` and of `last`, if the equality is such a one."""
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
        for one, read in zip(lowered, (before, after), strict=True):
            self._expressions.computable(one, tree, inputs=read)
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

    # -- nodes -----------------------------------------------------------------------------------

    @property
    def used(self) -> set[str]:
        """The plan columns that conditions between inputs read."""
        return {name for step in self._steps for tree in step.trees for name in columns_in(tree)}

    def node(self, used: Collection[str]) -> Node:
        """The inputs joined; windows keep the columns that are `used` above or by the joins."""
        wanted = self.used | set(used)
        inputs = self._expressions.scope.inputs
        nodes = [one.node(wanted) for one in inputs]
        found = {i: one.nrr for i, one in enumerate(inputs) if isinstance(one, PlanInput)}
        nrrs = {i: name for i, name in found.items() if name is not None}
        if nrrs:
            return NrrJoins(self._steps, nodes, nrrs, _joined).node()
        whole = nodes[0]
        for step, node in zip(self._steps[1:], nodes[1:], strict=True):
            whole = _joined(step, whole, node)
            if step.above:
                whole = Filter(whole, both(step.above))
        return whole


def _joined(step: JoinStep, left: Node, right: Node) -> Node:
    keys, condition = tuple(step.keys), both(step.conditions) if step.conditions else None
    if step.kind is JoinKind.INNER:
        return Join((left, right), keys, condition)
    if step.kind in (JoinKind.SEMI, JoinKind.ANTI):
        assert isinstance(step, _Step)
        null_safe = tuple(step.null_safe) if any(step.null_safe) else ()
        return SemiJoin(left, right, keys, condition, step.kind is JoinKind.ANTI, null_safe)
    return OuterJoin(left, right, keys, condition, step.kind.extends_right, step.kind.extends_left)
