"""Hybrid scheduling (Golab's dissertation, section 8.4.4): a sub-group runs more often where that is cheaper.

A sub-group may take the period of another one that is shorter. Then the two always run together, and one scan serves
both; but the longer one runs more often than it asks for. The plan that costs least per update is chosen: of few
sub-groups, among all plans; of more, by dynamic programming over the sub-groups in the order of their periods, and then
by single moves. Runs are those of Algorithm 10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf

from windrow.schedulers.queries.interface import CostFunction
from windrow.schedulers.queries.machine import QueryMachine, Step
from windrow.schedulers.queries.periods import (
    Coincidences,
    PeriodPlan,
    PeriodRule,
    SubGroupCost,
    cost_per_update,
    tasks_of,
)

ALL_TRIED = 5
"""Up to so many sub-groups, every plan is tried: there are 52 of five sub-groups."""

MOVES = 1000
"""So many moves are tried at most: each takes some 20 to 150 microseconds."""

ROUNDING = 1e-9

COUNTED_ON = 0.97
"""The share of coincidences that a plan counts on: a task that is late meets no other. So a task joins another that it
would nearly always meet, even if keeping its period would cost a little less without any delay."""

TOLERANCE = 0.1
"""A plan stands until the costs of a group have changed by more than this share."""


@dataclass(frozen=True)
class _Part:
    """The best tasks for the sub-groups from one on: where each begins, what they cost per update, the least shared
    cost of a task, and when any of them is due."""

    tasks: tuple[SubGroupCost, ...] = ()
    begins: tuple[int, ...] = ()
    cost: float = 0.0
    least: float = inf
    due: int = 0


def cheapest_periods(costs: Sequence[SubGroupCost]) -> PeriodPlan:
    """The plan that costs least, or nearly if there are many sub-groups; never more than the periods asked for."""
    as_asked = {one.period: one.period for one in costs}
    if len(costs) == 1:
        cost = (costs[0].shared + costs[0].own) / costs[0].period
        return PeriodPlan(as_asked, "as asked for: it is the only period", cost, cost)
    coincidences = Coincidences(as_asked, COUNTED_ON)
    if len(costs) <= ALL_TRIED:
        periods, _ = _best_of_all(costs, coincidences)
    else:
        starts = ((as_asked, coincidences.cost(costs)), _by_neighbours(costs, coincidences))
        periods, _ = _improved(costs, *min(starts, key=lambda pair: pair[1]), coincidences)
    cost, cost_as_asked = (cost_per_update(costs, plan) for plan in (periods, as_asked))
    if periods == as_asked:
        return PeriodPlan(periods, "as asked for: no shorter period costs less", cost, cost)
    why = f"costs {cost:.4g} per update, {cost_as_asked:.4g} as asked for, if all runs are on time"
    return PeriodPlan(periods, why, cost, cost_as_asked)


def _best_of_all(costs: Sequence[SubGroupCost], coincidences: Coincidences) -> tuple[dict[int, int], float]:
    """The cheapest plan and its cost, of all in which each sub-group keeps its period or takes one that an earlier
    sub-group keeps."""
    plans: list[dict[int, int]] = [{}]
    for one in costs:
        plans = [{**plan, one.period: given} for plan in plans for given in {*plan.values(), one.period}]
    priced = [(coincidences.cost(tasks_of(costs, plan)), plan) for plan in plans]
    bound = min(cost for cost, _ in priced) * (1 + ROUNDING)
    cost, periods = min(((c, plan) for c, plan in priced if c <= bound), key=lambda pair: _shortened(pair[1]))
    return periods, cost


def _by_neighbours(costs: Sequence[SubGroupCost], coincidences: Coincidences) -> tuple[dict[int, int], float]:
    """The best plan in which the sub-groups of a task are neighbours in the order of periods.

    Without own costs no other is cheaper: a task that has a longer period than another and no greater cost had better
    join it, so tasks with longer periods cost more, and a sub-group is best off in the last task that it can join.
    """
    count = len(costs)
    best = [_Part()] * (count + 1)
    for first in range(count - 1, -1, -1):
        best[first] = _cheapest_from(first, costs, best, coincidences)
    ends = (*best[0].begins[1:], count)
    periods = {
        one.period: costs[first].period
        for first, end in zip(best[0].begins, ends, strict=True)
        for one in costs[first:end]
    }
    return periods, best[0].cost


def _cheapest_from(first: int, costs: Sequence[SubGroupCost], best: list[_Part], coincidences: Coincidences) -> _Part:
    """The best tasks for the sub-groups from `first` on: one begins there and ends before any later sub-group."""
    period, found = costs[first].period, None
    shared = own = 0.0
    for end in range(first + 1, len(costs) + 1):
        shared, own = max(shared, costs[end - 1].shared), own + costs[end - 1].own
        task, rest = SubGroupCost(period, shared, own), best[end]
        if shared <= rest.least:  # it pays only where no other task is due
            cost = rest.cost + shared * coincidences.alone(period, rest.due) + own / period
        else:
            cost = coincidences.cost((task, *rest.tasks))
        if found is None or cost < found.cost:
            due = rest.due | coincidences.due(period)
            found = _Part((task, *rest.tasks), (first, *rest.begins), cost, min(shared, rest.least), due)
    assert found is not None
    return found


def _improved(
    costs: Sequence[SubGroupCost], periods: dict[int, int], cost: float, coincidences: Coincidences
) -> tuple[dict[int, int], float]:
    """Moves sub-groups to other tasks, one after another, until no such move makes the plan cheaper.

    Of plans that cost the same, the one that shortens fewer periods, or by less, is better.
    """
    left, is_better = MOVES, True
    while is_better and left:
        is_better = False
        for one in costs:
            for plan in islice(_moves(one.period, periods), left):
                left -= 1
                moved = coincidences.cost(tasks_of(costs, plan))
                is_same = moved <= cost * (1 + ROUNDING) and _shortened(plan) < _shortened(periods)
                if moved < cost * (1 - ROUNDING) or is_same:
                    periods, cost, is_better = plan, moved, True
    return periods, cost


def _shortened(periods: dict[int, int]) -> tuple[int, int]:
    """How many periods are shortened, and by how much."""
    return sum(asked != given for asked, given in periods.items()), -sum(periods.values())


def _moves(asked: int, periods: dict[int, int]) -> Iterator[dict[int, int]]:
    """The sub-group gets another period; so do those that have its own."""
    for given in sorted({*(one for one in periods.values() if one < asked), asked} - {periods[asked]}):
        yield {one: given if one == asked or has == asked else has for one, has in periods.items()}


class HybridScheduler(QueryMachine):
    """Algorithm 10, with the periods of each group planned by the costs that its synopses give."""

    def __init__(
        self,
        cost: CostFunction,
        *,
        slots: int = 1,
        ahead: bool = False,
        record: Callable[[Step], None] | None = None,
        periods: PeriodRule = cheapest_periods,
        tolerance: float = TOLERANCE,
    ):
        super().__init__(slots=slots, ahead=ahead, record=record, cost=cost, periods=periods, tolerance=tolerance)

    def _reach(self, slack: int) -> int | None:
        return slack
