"""One-sided bounds of HAVING on aggregates, which SubStream Filters evaluate (Arasu and Widom, VLDB 2004, section 4).

`HAVING COUNT(*) > 5 AND k <> 'x'` has the bound COUNT(*) > 5: a group that violates it has no row, whatever the other
conjuncts say. So a filter may return any superset of the groups that meet one bound; HAVING itself decides the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from enum import Enum

from sqlglot import exp

from windrow.plan.accumulators import AggregateCall
from windrow.plan.nodes import Finalise

BOUNDED = ("COUNT", "SUM", "MAX", "MIN")
"""The aggregates with SubStream Filters."""


class Comparison(Enum):
    MORE = ">"
    AT_LEAST = ">="
    LESS = "<"
    AT_MOST = "<="

    @property
    def is_lower(self) -> bool:
        """Whether the range is (v, ∞)."""
        return self in (Comparison.MORE, Comparison.AT_LEAST)


@dataclass(frozen=True)
class Bound:
    """`aggregate comparison value`: a conjunct of HAVING, or one side of a BETWEEN in it."""

    call: AggregateCall
    comparison: Comparison
    value: Decimal
    conjunct: exp.Expr

    @property
    def text(self) -> str:
        return f"{self.call.function} {self.comparison.value} {self.value}"


_COMPARISONS: dict[type[exp.Expr], Comparison] = {
    exp.GT: Comparison.MORE,
    exp.GTE: Comparison.AT_LEAST,
    exp.LT: Comparison.LESS,
    exp.LTE: Comparison.AT_MOST,
}
_MIRRORED = {
    Comparison.MORE: Comparison.LESS,
    Comparison.AT_LEAST: Comparison.AT_MOST,
    Comparison.LESS: Comparison.MORE,
    Comparison.AT_MOST: Comparison.AT_LEAST,
}


def having_bounds(plan: Finalise) -> tuple[Bound, ...]:
    """The bounds that every row of the query meets, in the order of the text."""
    if plan.having is None:
        return ()
    calls = {f"a{i}": call for i, call in enumerate(plan.input.aggregates) if call.function in BOUNDED}
    bounds = []
    for conjunct in _conjuncts(plan.having):
        for column, comparison, value in _comparisons(conjunct):
            call, number = calls.get(column.name), _number(value)
            if call is not None and number is not None:
                bounds.append(Bound(call, comparison, number, conjunct))
    return tuple(bounds)


def sides_of(conjunct: exp.Expr) -> int:
    """How many bounds a conjunct of only bounds has: two for BETWEEN, else one."""
    return 2 if isinstance(conjunct, exp.Between) else 1


def without(plan: Finalise, bounds: Sequence[Bound]) -> Finalise:
    """The query without the conjuncts of these bounds in HAVING."""
    if plan.having is None or not bounds:
        return plan
    left_out = {id(bound.conjunct) for bound in bounds}
    kept = [conjunct for conjunct in _conjuncts(plan.having) if id(conjunct) not in left_out]
    return replace(plan, having=exp.and_(*kept) if kept else None)


def _conjuncts(tree: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(tree, exp.Paren):
        yield from _conjuncts(tree.this)
    elif isinstance(tree, exp.And):
        yield from _conjuncts(tree.this)
        yield from _conjuncts(tree.expression)
    else:
        yield tree


def _comparisons(tree: exp.Expr) -> Iterator[tuple[exp.Column, Comparison, exp.Expr]]:
    if isinstance(tree, exp.Between) and isinstance(tree.this, exp.Column):
        yield tree.this, Comparison.AT_LEAST, tree.args["low"]
        yield tree.this, Comparison.AT_MOST, tree.args["high"]
    comparison = _COMPARISONS.get(type(tree))
    if comparison is None:
        return
    left, right = tree.this.unnest(), tree.expression.unnest()
    if isinstance(left, exp.Column):
        yield left, comparison, right
    elif isinstance(right, exp.Column):
        yield right, _MIRRORED[comparison], left


def _number(tree: exp.Expr) -> Decimal | None:
    """The value of a number literal; None for anything else."""
    tree = tree.unnest()
    if isinstance(tree, exp.Neg):
        inner = _number(tree.this)
        return None if inner is None else -inner
    if not isinstance(tree, exp.Literal) or tree.is_string:
        return None
    try:
        number = Decimal(tree.this)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
