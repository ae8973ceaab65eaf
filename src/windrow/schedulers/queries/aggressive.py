"""Aggressive scheduling (Golab's dissertation, section 8.4.3): a group is one task, as fast as its fastest query."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windrow.schedulers.queries.machine import QueryMachine, Step
from windrow.schedulers.queries.periods import PeriodPlan, SubGroupCost


def shortest_period(costs: Sequence[SubGroupCost]) -> PeriodPlan:
    """Every sub-group gets the shortest period of the group."""
    shortest = costs[0].period
    return PeriodPlan({one.period: shortest for one in costs}, "the shortest period of the group")


class AggressiveScheduler(QueryMachine):
    """Runs all queries of a group whenever the one with the shortest period is due."""

    shares_output = False

    def __init__(self, *, slots: int = 1, ahead: bool = False, record: Callable[[Step], None] | None = None):
        super().__init__(slots=slots, ahead=ahead, record=record, periods=shortest_period)

    def _reach(self, slack: int) -> int | None:
        return slack
