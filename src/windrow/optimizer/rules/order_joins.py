"""Order joins: the inputs of a multi-way join in the cheapest order by the cost model of section 5.3.1.

`optimizer/join_order.py` has the formulae and says what they do not cover, `optimizer/estimates.py` what they are fed
with. The operator joins a new tuple with the other inputs in the order of the node. The order of the output's columns
is kept by a projection.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from windrow.optimizer.candidates import PlanCandidate, shortened
from windrow.optimizer.estimates import Estimator, conditions_of
from windrow.optimizer.facts import Facts
from windrow.optimizer.join_order import best_order, cost
from windrow.plan.algebra.nodes import ContinuousPlan, Join, Node, StreamWindow, walk
from windrow.plan.algebra.rewriting import projected, rewritten
from windrow.types import number_text

SHOWN = 5
"""So many orders of a join are listed."""

MOST_LISTED = 6
"""All orders of at most so many inputs are costed to be listed; of more inputs the given and the chosen one."""


def order_joins(plan: ContinuousPlan, facts: Facts) -> tuple[ContinuousPlan, str | None]:
    estimator = Estimator(plan.root, facts)
    reasons: list[str] = []

    def change(node: Node) -> Node:
        if not isinstance(node, Join) or len(node.inputs) < 3:
            return node
        inputs, conditions = estimator.join_inputs(node), conditions_of(node)
        order = best_order(inputs, conditions)
        given = tuple(range(len(inputs)))
        if order == given:
            return node
        saved = cost(given, inputs, conditions) / max(cost(order, inputs, conditions), 1e-300)
        reasons.append(
            f"{', '.join(map(_named, (node.inputs[i] for i in order)))} (estimated {number_text(saved)} times cheaper)"
        )
        keys = tuple(tuple(key[i] for i in order) for key in node.keys)
        return projected(Join(tuple(node.inputs[i] for i in order), keys, node.condition), node.schema)

    root = rewritten(plan.root, change)
    return (replace(plan, root=root), f"the join order is {'; '.join(reasons)}") if reasons else (plan, None)


def weigh_orders(plan: ContinuousPlan, facts: Facts) -> tuple[PlanCandidate, ...]:
    """The cheapest orders of every multi-way join, in tuples compared per point."""
    estimator = Estimator(plan.root, facts)
    found: list[PlanCandidate] = []
    for node in walk(plan.root):
        if isinstance(node, Join) and len(node.inputs) > 2:
            inputs, conditions = estimator.join_inputs(node), conditions_of(node)
            given, chosen = tuple(range(len(inputs))), best_order(inputs, conditions)
            orders = permutations(given) if len(given) <= MOST_LISTED else dict.fromkeys((given, chosen))
            found += shortened(
                [
                    PlanCandidate(
                        " ⋈ ".join(_named(node.inputs[i]) for i in order),
                        cost(order, inputs, conditions),
                        order == given,
                        order == chosen,
                    )
                    for order in orders
                ],
                SHOWN,
            )
    return tuple(found)


def _named(node: Node) -> str:
    streams = [one.called for one in walk(node) if isinstance(one, StreamWindow)]
    return streams[0] if len(streams) == 1 else f"({' and '.join(streams)})"
