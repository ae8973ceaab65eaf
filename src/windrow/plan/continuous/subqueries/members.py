"""EXISTS, NOT EXISTS, IN and NOT IN as semi-joins.

`x IN (SELECT y …)` is a semi-join with the key x = y; a NULL equals nothing, so a row with x NULL goes. `x NOT IN` is
true if no y equals x and none of the comparisons is unknown. So it is three anti-joins, with the sub-query anew in
each: one with the key x = y; one without that key with the rows in which y is NULL, which are few; and one without that
key for the rows in which x is NULL, which any row of the sub-query drops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from windrow.errors import BindError
from windrow.plan.continuous.context import BindContext
from windrow.plan.continuous.expressions import Expressions
from windrow.plan.continuous.joining import Joining
from windrow.plan.continuous.scope import Around, resolved
from windrow.plan.continuous.shape import JoinKind
from windrow.plan.continuous.sources import input_of_query
from windrow.plan.continuous.subqueries.conditions import Membership

Compared = Callable[[Sequence[exp.Expr], Sequence[exp.Expr]], Iterator[exp.Expr]]
"""From the values before IN and those of the sub-query to the conditions of the semi-join."""


class Members:
    """Adds the EXISTS and IN of a SELECT's WHERE to its joins."""

    def __init__(self, expressions: Expressions, joining: Joining, context: BindContext):
        self._expressions = expressions
        self._joining = joining
        self._context = context

    def add(self, one: Membership) -> None:
        for value in one.values:
            self._expressions.no_aggregate(value, "WHERE", "Use HAVING with a sub-query in FROM.")
        kind = JoinKind.ANTI if one.is_negated else JoinKind.SEMI
        self._join(one, kind, _equal)
        if not one.is_negated or one.is_exists:
            return
        if len(one.values) == 1:
            self._join(one, kind, lambda left, right: iter([_is_null(right[0])]))
            self._join(one, kind, lambda left, right: iter([_is_null(left[0])]))
        else:
            self._join(one, kind, _not_different)

    def _join(self, one: Membership, kind: JoinKind, compared: Compared) -> None:
        scope = self._expressions.scope
        index = len(scope.inputs)
        inner_context = replace(self._context, around=Around(scope))
        inner = self._context.bind_inner(one.query.copy(), inner_context, index, not one.is_exists)
        scope.add_hidden(input_of_query(inner.relation, "", one.query, self._context))
        self._joining.join(kind, of_where=True)
        for condition in inner.conditions:
            self._joining.add_on(self._expressions.resolve(condition), "WHERE")
        if not one.is_exists:
            if len(inner.names) != len(one.values):
                raise BindError(
                    f"IN compares {_counted(len(one.values), 'value')} with a sub-query of "
                    f"{_counted(len(inner.names), 'column')}",
                    place=self._context.place(one.written),
                    remedy="Select as many columns as there are values before IN.",
                )
            right = [resolved(index, name, one.query) for name in inner.names]
            for tree in compared(one.values, right):
                self._joining.add_on(self._expressions.resolve(tree), "WHERE")
        self._joining.joined()


def _equal(left: Sequence[exp.Expr], right: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    for one, other in zip(left, right, strict=True):
        yield exp.EQ(this=_operand(one), expression=other.copy())


def _not_different(left: Sequence[exp.Expr], right: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    """No pair is known to differ."""
    for one, other in zip(left, right, strict=True):
        equal = exp.EQ(this=_operand(one), expression=other.copy())
        yield exp.or_(equal, _is_null(one), _is_null(other))


def _is_null(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=_operand(value), expression=exp.null())


def _operand(value: exp.Expr) -> exp.Expr:
    return value.copy() if isinstance(value, (exp.Column, exp.Literal)) else exp.paren(value)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
