"""Place negation: a semi-join or an anti-join stands where the plan is cheapest, above or below joins (update pattern
simplification: Golab's dissertation, section 3.5.3; Golab and Özsu, section 5.4.2).

Above a join, the join and all below it see no negative tuples: joins read windows from their stores, DISTINCT is δ*.
Below it, the negation has fewer rows to look at, and the join fewer to make. Which is cheaper depends on how many rows
the join makes of one, and on how many the negation drops and withdraws; so the rule costs all plans that
`negation_moves` makes of the given one, and takes the cheapest. EXCEPT and INTERSECT are negations over δ.

Operators with simpler patterns, selections and projections, go down by `push_selections` and `push_projections`. The
join with a table that is NON RETROACTIVE keeps its place: pushed down it would show another version of the table.
"""

from __future__ import annotations

from dataclasses import replace

from windrow.optimizer.candidates import PlanCandidate, shortened
from windrow.optimizer.cost import plan_cost
from windrow.optimizer.facts import Facts
from windrow.optimizer.negation_moves import can_move, moved
from windrow.optimizer.rules.match_once import match_once
from windrow.optimizer.shapes import shape_text
from windrow.plan.algebra.nodes import ContinuousPlan, Node
from windrow.types import number_text

MOST_PLANS = 60
"""So many plans are costed; a plan with more has many negations among many joins."""

LEAST_GAIN = 0.99
"""Estimates are rough: a plan that is not cheaper than this part of the given one is not worth a change."""

SHOWN = 8
"""So many candidates are listed."""


def place_negation(plan: ContinuousPlan, facts: Facts) -> tuple[ContinuousPlan, str | None]:
    chosen, costs = _chosen(plan, facts)
    if chosen is plan.root:
        return plan, None
    times = costs[plan.root] / max(costs[chosen], 1e-300)
    reason = f"{shape_text(chosen)} instead of {shape_text(plan.root)} (estimated {number_text(times)} times cheaper)"
    return replace(plan, root=chosen), reason


def weigh_negation(plan: ContinuousPlan, facts: Facts) -> tuple[PlanCandidate, ...]:
    """The plans that the rule chooses from; none if there is one alone."""
    chosen, costs = _chosen(plan, facts)
    found = [PlanCandidate(shape_text(node), cost, node == plan.root, node == chosen) for node, cost in costs.items()]
    return shortened(found, SHOWN) if len(found) > 1 else ()


def _chosen(plan: ContinuousPlan, facts: Facts) -> tuple[Node, dict[Node, float]]:
    """The cheapest plan, and the costs of all that were looked at."""
    costs = {plan.root: _cost(plan, facts)}
    best = plan.root
    if not can_move(plan.root):
        return best, costs
    while True:
        found = _reachable(best)
        for node in found:
            if node not in costs:
                costs[node] = _cost(replace(plan, root=node), facts)
        cheapest = min(found, key=lambda node: costs[node])
        if costs[cheapest] >= LEAST_GAIN * costs[best]:
            return best, costs
        best = cheapest


def _cost(plan: ContinuousPlan, facts: Facts) -> float:
    """What a plan costs after the next rule, which makes negation cheaper."""
    return plan_cost(match_once(plan, facts)[0], facts).total


def _reachable(root: Node) -> list[Node]:
    """The plans that moves make of a plan, it first, those with fewest moves before others."""
    found = {root: None}
    for node in (queue := [root]):
        for other in moved(node):
            if len(found) >= MOST_PLANS:
                return list(found)
            if other not in found:
                found[other] = None
                queue.append(other)
    return list(found)
