"""The time that a scheduler takes for an event, measured over a test."""

from __future__ import annotations

import time
from collections.abc import Mapping

from isolating.costs import Costs, Measurements
from isolating.simulation import Make, Simulation
from isolating.workload import Workload
from windrow.schedulers.history import Isolation
from windrow.schedulers.transactions import TransactionDecision, TransactionEvent, TransactionScheduler


class TimedScheduler:
    """A scheduler, and the seconds that its decisions took."""

    def __init__(self, scheduler: TransactionScheduler):
        self.scheduler = scheduler
        self.seconds = 0.0

    @property
    def isolation(self) -> Isolation:
        return self.scheduler.isolation

    def on(self, *events: TransactionEvent) -> tuple[TransactionDecision, ...]:
        begin = time.perf_counter()
        decisions = self.scheduler.on(*events)
        self.seconds += time.perf_counter() - begin
        return decisions


def measured_events(
    workload: Workload, makes: Mapping[str, Make], scans: Mapping[str, Measurements]
) -> dict[str, float]:
    """The seconds per event of each scheduler: the least of three tests, since other programs may run meanwhile."""
    costs = Costs({kind: one for kind, one in scans.items() if kind != "write"}, scans["write"], {})
    found: dict[str, float] = {}
    for _ in range(3):
        for name, make in makes.items():
            simulation = Simulation(workload, lambda make=make, **options: TimedScheduler(make(**options)), costs, 0.0)
            outcome = simulation.run()
            timed = simulation.scheduler
            assert isinstance(timed, TimedScheduler)
            found[name] = min(found.get(name, float("inf")), timed.seconds / outcome.events)
    return found
