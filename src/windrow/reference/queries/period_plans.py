"""Every way to shorten the periods of sub-groups, and its cost, update by update (Golab's dissertation, section 8.4.4).

`schedulers/queries/hybrid.py` finds the cheapest one without trying them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import lcm

Costs = Mapping[int, tuple[float, float]]
"""The shared and the own cost of each sub-group, by its period."""


def every_plan(periods: Sequence[int]) -> Iterator[dict[int, int]]:
    """Each sub-group keeps its period or takes a shorter one, of a sub-group that keeps its own."""
    for given in product(*([one for one in periods if one <= asked] for asked in periods)):
        plan = dict(zip(periods, given, strict=True))
        if all(plan[one] == one for one in given):
            yield plan


def cost_of(plan: Mapping[int, int], costs: Costs, counted: float = 1.0) -> float:
    """The cost per update, until the schedule repeats itself: at each update that of the sub-groups which are due.

    Only a share of the coincidences may be counted on; the rest of the time, each period runs for itself.
    """
    repeat = lcm(*plan.values())
    total = 0.0
    for update in range(1, repeat + 1):
        due = [costs[asked] for asked, given in plan.items() if update % given == 0]
        total += counted * max((shared for shared, _ in due), default=0.0) + sum(own for _, own in due)
    apart = 0.0
    for period in set(plan.values()):
        apart += max(costs[asked][0] for asked, given in plan.items() if given == period) / period
    return total / repeat + (1 - counted) * apart


def cheapest(costs: Costs, counted: float = 1.0) -> tuple[dict[int, int], float]:
    """The plan that costs least; of equals, one that shortens the fewest periods, by the least."""
    plans = [(cost_of(plan, costs, counted), plan) for plan in every_plan(sorted(costs))]
    least = min(cost for cost, _ in plans)
    near = [plan for cost, plan in plans if cost <= least * (1 + 1e-9)]
    return min(near, key=lambda plan: (sum(one != given for one, given in plan.items()), -sum(plan.values()))), least
