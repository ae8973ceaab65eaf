"""Push DISTINCT below a join: an input that repeats the columns it is needed for is joined once per value.

The rule replaces δ(π(A ⋈ B)) by δ(π(δ(π_a A) ⋈ δ(π_b B))), for any number of inputs, where a and b are the columns of
the input that the select list, the join keys and the join condition read. The upper δ stays.

*Why every answer is the same.* Let X(b) be the rows of X at tick b. A join result lives from the latest birth to the
earliest end of its parts, so it is there at b if and only if all its parts are: (A ⋈ B)(b) = A(b) ⋈ B(b). δ*(X) changes
lifetimes: it shows a value by one tuple until that one expires and then renews it by the youngest. But at every instant
it shows exactly the values of X, each once, so (δ X)(b) = set of X(b). Whether a row of A(b) × B(b) passes keys and
condition, and what π makes of it, depends on its values in a and b alone. So π of the join has the same *set* of rows
with A(b) as with the set of π_a A(b); only multiplicities differ, and the upper δ removes these. Hence equal answers at
every tick, whether or not the select list keeps the join keys. A renewal below may cut one lifetime of the join into
adjoining ones; the upper δ* shows one of them at a time, which changes when rows are renewed, but no answer. Over
windows that never expire a value is born at the least over its pairs of the greater birth, with or without the rule.

*Not done* where an input is STR (δ* needs predictable ends) or a window below is INTERNAL (its results outlive their
parts, so the equation above does not hold); where a needed column is FLOAT or DOUBLE (δ shows −0.0 or 0.0 for both, and
an expression above may tell them apart). Elsewhere the cost model decides, for each input: δ* costs a lookup per row,
and what it leaves out need not be joined, nor looked at by the upper δ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from windrow.optimizer.cost import LEAST_GAIN, plan_cost
from windrow.optimizer.estimates import Estimator
from windrow.optimizer.facts import Facts
from windrow.patterns import UpdatePattern, annotate
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Distinct,
    Filter,
    Join,
    Node,
    OutputWindow,
    Project,
    StreamWindow,
    columns_in,
    walk,
)
from windrow.plan.algebra.rewriting import names_of, projected, reads, with_inputs
from windrow.types import number_text


def push_distinct(plan: ContinuousPlan, facts: Facts) -> tuple[ContinuousPlan, str | None]:
    """One input after another, the one that saves most first, until none saves anything. An input that is a join gets a
    DISTINCT to push further."""
    reasons: list[str] = []
    cost: float | None = None
    while True:
        found = [(replace(plan, root=root), reason) for root, reason in _pushed(plan.root, Estimator(plan.root, facts))]
        if not found:
            break
        cost = plan_cost(plan, facts).total if cost is None else cost
        weighed = [(plan_cost(other, facts).total, i) for i, (other, _) in enumerate(found)]
        cheapest, best = min(weighed)
        if cheapest >= LEAST_GAIN * cost:
            break
        plan, reason = found[best]
        reasons.append(f"{reason} (estimated {number_text(cost / cheapest)} times cheaper)")
        cost = cheapest
    return plan, "; ".join(reasons) or None


def _pushed(node: Node, estimator: Estimator) -> Iterator[tuple[Node, str]]:
    """The plans with one more DISTINCT, each with what it removes."""
    join = _join_below(node)
    if join is not None and not _is_internal(join):
        assert isinstance(node, Distinct)
        above = reads(node.input) if isinstance(node.input, Project) else names_of(join)
        for i, one in enumerate(join.inputs):
            found = _deduplicated(one, above | reads(join), estimator)
            if found is not None:
                changed = with_inputs(join, [*join.inputs[:i], found[0], *join.inputs[i + 1 :]])
                over = with_inputs(node.input, [changed]) if isinstance(node.input, Project) else changed
                yield Distinct(over), found[1]
    for i, one in enumerate(node.inputs):
        for other, reason in _pushed(one, estimator):
            yield with_inputs(node, [*node.inputs[:i], other, *node.inputs[i + 1 :]]), reason


def _join_below(node: Node) -> Join | None:
    below = node.input if isinstance(node, Distinct) else None
    below = below.input if isinstance(below, Project) else below
    return below if isinstance(below, Join) else None


def _is_internal(join: Join) -> bool:
    return any(isinstance(one, StreamWindow | OutputWindow) and one.lifetime.internal for one in walk(join))


def _deduplicated(node: Node, needed: frozenset[str], estimator: Estimator) -> tuple[Node, str] | None:
    """DISTINCT over the needed columns of an input, and why; None if that is not the same, or nothing new."""
    columns = tuple(column for column in node.schema if column.sql in needed)
    if not columns or _is_distinct(node) or any(column.type.is_float for column in columns):
        return None
    if annotate(node).state is UpdatePattern.STR:
        return None
    found = estimator.of(node)
    remaining, names = found.values([column.sql for column in columns]), ", ".join(column.name for column in columns)
    told = f"about {number_text(remaining)} of {number_text(found.live)} rows differ in {names}, so each is joined once"
    return Distinct(projected(node, columns)), told


def _is_distinct(node: Node) -> bool:
    """Whether its rows differ already."""
    if isinstance(node, Filter):
        return _is_distinct(node.input)
    if isinstance(node, Project):
        kept = {name for one in node.columns if one.is_renamed for name in columns_in(one.expression)}
        return names_of(node.input) <= kept and _is_distinct(node.input)
    return isinstance(node, Distinct)
