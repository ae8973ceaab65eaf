"""How often the sub-groups of a group run, and what that costs (Golab's dissertation, section 8.4.4).

A sub-group holds the queries of a group that ask for one period. A *plan* gives each sub-group its own period, or a
shorter one of another sub-group, which keeps it. Sub-groups with one period run as one task. Tasks that are due at the
same update run together, so that only the greatest of their shared costs is paid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import lcm
from typing import NamedTuple

HORIZON = 2_520
"""Updates within which due times are counted, if the periods do not repeat sooner."""

LONGEST = 100_000
"""Longer periods are taken never to fall together with others, which would be seldom anyway."""


class SubGroupCost(NamedTuple):
    """A sub-group, or a task: how often it runs, and what a run of it costs."""

    period: int
    shared: float
    own: float = 0.0


@dataclass(frozen=True)
class PeriodPlan:
    """The period that each sub-group gets, by the one asked for, and why."""

    periods: Mapping[int, int] = field(hash=False)
    why: str = "as asked for"
    cost: float | None = None
    cost_as_asked: float | None = None


PeriodRule = Callable[[Sequence[SubGroupCost]], PeriodPlan]
"""Plans a group, from its sub-groups in the order of their periods."""


def as_asked(costs: Sequence[SubGroupCost]) -> PeriodPlan:
    """Every sub-group keeps its period."""
    return PeriodPlan({one.period: one.period for one in costs})


def tasks_of(costs: Sequence[SubGroupCost], periods: Mapping[int, int]) -> list[SubGroupCost]:
    """The tasks that a plan makes of sub-groups."""
    shared: dict[int, float] = {}
    own: dict[int, float] = {}
    for asked, scan, rest in costs:
        period = periods[asked]
        shared[period] = max(shared.get(period, 0.0), scan)
        own[period] = own.get(period, 0.0) + rest
    return [SubGroupCost(period, scan, own[period]) for period, scan in shared.items()]


class Coincidences:
    """Counts how often tasks are due at the same update, over a horizon. A set of updates is the bits of a number.

    Only the share `counted` of these updates is counted on; at the others, each task is taken to run for itself.
    """

    def __init__(self, periods: Iterable[int], counted: float = 1.0):
        self.counted = counted
        periods = list(periods)
        short = [period for period in periods if period <= LONGEST]
        repeat = lcm(*short) if len(short) < 32 else 0
        self.horizon = repeat if 0 < repeat <= HORIZON else max(HORIZON, 8 * max(short, default=1))
        self._due = {period: _multiples(period, self.horizon) for period in periods}
        self._counts = {period: max(due.bit_count(), 1) for period, due in self._due.items()}

    def due(self, period: int) -> int:
        """The updates at which a task of this period is due: bit t − 1 for update t."""
        return self._due[period]

    def alone(self, period: int, others: int) -> float:
        """How often per update a task is due while none of the others is."""
        due = self._due[period]
        share = (due & ~others).bit_count() / self._counts[period] if due else 1.0
        return (self.counted * share + 1 - self.counted) / period

    def cost(self, tasks: Iterable[SubGroupCost]) -> float:
        """What tasks cost per update: at each update the greatest shared cost of those due, and all their own costs."""
        total, seen, counted = 0.0, 0, self.counted
        for period, shared, own in sorted(tasks, key=_by_cost):
            due = self._due[period]
            share = (due & ~seen).bit_count() / self._counts[period] if due else 1.0
            total += (shared * (counted * share + 1 - counted) + own) / period
            seen |= due
        return total


def _multiples(period: int, horizon: int) -> int:
    """Bit t − 1 for every multiple t of the period up to the horizon; none for a period that is too long."""
    count = horizon // period if period <= LONGEST else 0
    bits, filled = (1 << (period - 1), 1) if count else (0, 0)
    while filled < count:
        step = min(filled, count - filled)
        bits |= (bits & ((1 << (step * period)) - 1)) << (filled * period)
        filled += step
    return bits


def _by_cost(task: SubGroupCost) -> tuple[float, int]:
    return -task[1], task[0]


def cost_per_update(costs: Sequence[SubGroupCost], periods: Mapping[int, int], counted: float = 1.0) -> float:
    """What a plan costs per update, if tasks that are due at the same update run together, or only a share of them."""
    return Coincidences(periods.values(), counted).cost(tasks_of(costs, periods))
