"""The query schedulers by name."""

from __future__ import annotations

from collections.abc import Callable

from windrow.schedulers.queries.aggressive import AggressiveScheduler
from windrow.schedulers.queries.conservative import ConservativeScheduler
from windrow.schedulers.queries.edf import EdfScheduler
from windrow.schedulers.queries.hybrid import HybridScheduler
from windrow.schedulers.queries.interface import CostFunction
from windrow.schedulers.queries.late import LateScheduler
from windrow.schedulers.queries.late_pending import LatePendingScheduler
from windrow.schedulers.queries.machine import QueryMachine, Step

BY_DEADLINE = {"edf": EdfScheduler, "aggressive": AggressiveScheduler, "conservative": ConservativeScheduler}
BY_COST = {"hybrid": HybridScheduler, "late": LateScheduler, "late_pending": LatePendingScheduler}
SCHEDULER_NAMES = (*BY_DEADLINE, *BY_COST)


def query_scheduler(
    name: str,
    cost: CostFunction,
    *,
    slots: int = 1,
    ahead: bool = False,
    record: Callable[[Step], None] | None = None,
) -> QueryMachine:
    """The scheduler of a name. Those that look at no costs do not ask for them."""
    if name in BY_DEADLINE:
        return BY_DEADLINE[name](slots=slots, ahead=ahead, record=record)
    if name in BY_COST:
        return BY_COST[name](cost, slots=slots, ahead=ahead, record=record)
    raise ValueError(f"there is no scheduler '{name}'; there are {', '.join(SCHEDULER_NAMES)}")
