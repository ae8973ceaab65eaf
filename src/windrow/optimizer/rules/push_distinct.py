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
an expression above may tell them apart); and where it would not pay: unless at most half of the rows are estimated to
remain, the state of δ* is no smaller than what it saves.
"""

from __future__ import annotations

from dataclasses import replace

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

PAYS_BELOW = 0.5
"""The most of an input's rows that may remain for the rule to pay."""


def push_distinct(plan: ContinuousPlan, facts: Facts) -> tuple[ContinuousPlan, str | None]:
    estimator = Estimator(plan.root, facts)
    reasons: list[str] = []

    def change(node: Node) -> Node:
        """Downwards: an input that is a join gets a DISTINCT to push further."""
        changed = distinct_below(node)
        return with_inputs(changed, [change(one) for one in changed.inputs])

    def distinct_below(node: Node) -> Node:
        join = _join_below(node)
        if join is None or _is_internal(join):
            return node
        assert isinstance(node, Distinct)
        above = reads(node.input) if isinstance(node.input, Project) else names_of(join)
        inputs = [_deduplicated(one, above | reads(join), estimator, reasons) for one in join.inputs]
        changed = with_inputs(join, inputs)
        if changed is join:
            return node
        return Distinct(with_inputs(node.input, [changed]) if isinstance(node.input, Project) else changed)

    root = change(plan.root)
    return (replace(plan, root=root), "; ".join(reasons)) if reasons else (plan, None)


def _join_below(node: Node) -> Join | None:
    below = node.input if isinstance(node, Distinct) else None
    below = below.input if isinstance(below, Project) else below
    return below if isinstance(below, Join) else None


def _is_internal(join: Join) -> bool:
    return any(isinstance(one, StreamWindow | OutputWindow) and one.lifetime.internal for one in walk(join))


def _deduplicated(node: Node, needed: frozenset[str], estimator: Estimator, reasons: list[str]) -> Node:
    columns = tuple(column for column in node.schema if column.sql in needed)
    if not columns or _is_distinct(node) or any(column.type.is_float for column in columns):
        return node
    if annotate(node).state is UpdatePattern.STR:
        return node
    found = estimator.of(node)
    remaining = found.values([column.sql for column in columns])
    if remaining > PAYS_BELOW * found.live:
        return node
    names = ", ".join(column.name for column in columns)
    reasons.append(
        f"about {number_text(remaining)} of {number_text(found.live)} rows differ in {names}, so each is joined once"
    )
    return Distinct(projected(node, columns))


def _is_distinct(node: Node) -> bool:
    """Whether its rows differ already."""
    if isinstance(node, Filter):
        return _is_distinct(node.input)
    if isinstance(node, Project):
        kept = {name for one in node.columns if one.is_renamed for name in columns_in(one.expression)}
        return names_of(node.input) <= kept and _is_distinct(node.input)
    return isinstance(node, Distinct)
