"""Random workloads: every query scheduler decides as the algorithms are printed, no query starves, and deadlines are
met where they can be.

`make test-matrix` tries 20,000 workloads of each scheduler, `make test` some of them. Each depends on its number alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest
from support.matrix import sized

from windrow.reference.queries.feasible import can_answer_again, can_answer_once
from windrow.reference.queries.period_plans import cheapest, cost_of
from windrow.reference.queries.plain_schedulers import PlainScheduler, keep, shortest
from windrow.schedulers.queries import (
    AggressiveScheduler,
    ConservativeScheduler,
    CostsChanged,
    EdfScheduler,
    ExecutionCost,
    HybridScheduler,
    LatePendingScheduler,
    LateScheduler,
    PeriodicQuery,
    PeriodsPlanned,
    QueryArrives,
    QueryExpired,
    QueryLeaves,
    RunFinished,
    RunTogether,
    ScheduleDecision,
    ScheduleEvent,
    SubGroupCost,
    SynopsesUpdated,
    as_asked,
    cheapest_periods,
    cost_per_update,
)
from windrow.schedulers.queries.hybrid import COUNTED_ON
from windrow.schedulers.queries.machine import QueryMachine

pytestmark = pytest.mark.matrix

COUNT = sized(300, 3_000, 20_000)
CHUNKS = 10
PERIODS = (1, 2, 3, 4, 6)


@dataclass
class Costs:
    """A cost function whose values a test may change. No two are equal, so that the cheapest plan is one."""

    random: Random
    known: dict[str, ExecutionCost] = field(default_factory=dict)

    def __call__(self, query: PeriodicQuery) -> ExecutionCost:
        if query.name not in self.known:
            self.known[query.name] = ExecutionCost(self.random.uniform(1, 100))
        return self.known[query.name]


def best_of_all(costs: dict[int, tuple[float, float]]) -> dict[int, int]:
    return cheapest(costs, COUNTED_ON)[0]


def edf(cost: Costs, slots: int, ahead: bool) -> tuple[QueryMachine, PlainScheduler]:
    plain = PlainScheduler("none", keep, cost, slots, ahead, shares=False)
    return EdfScheduler(slots=slots, ahead=ahead), plain


def aggressive(cost: Costs, slots: int, ahead: bool) -> tuple[QueryMachine, PlainScheduler]:
    plain = PlainScheduler("same", shortest, cost, slots, ahead, shares=False)
    return AggressiveScheduler(slots=slots, ahead=ahead), plain


def conservative(cost: Costs, slots: int, ahead: bool) -> tuple[QueryMachine, PlainScheduler]:
    return ConservativeScheduler(slots=slots, ahead=ahead), PlainScheduler("same", keep, cost, slots, ahead)


def hybrid(cost: Costs, slots: int, ahead: bool) -> tuple[QueryMachine, PlainScheduler]:
    plain = PlainScheduler("same", best_of_all, cost, slots, ahead)
    return HybridScheduler(cost, slots=slots, ahead=ahead, tolerance=0), plain


def late(cost: Costs, slots: int, ahead: bool) -> tuple[QueryMachine, PlainScheduler]:
    plain = PlainScheduler("late", best_of_all, cost, slots, ahead)
    return LateScheduler(cost, slots=slots, ahead=ahead, tolerance=0), plain


def late_pending(cost: Costs, slots: int, ahead: bool) -> tuple[QueryMachine, PlainScheduler]:
    plain = PlainScheduler("late_pending", best_of_all, cost, slots, ahead)
    return LatePendingScheduler(cost, slots=slots, ahead=ahead, tolerance=0), plain


def conservative_late_pending(cost: Costs, slots: int, ahead: bool) -> tuple[QueryMachine, PlainScheduler]:
    plain = PlainScheduler("late_pending", keep, cost, slots, ahead)
    return LatePendingScheduler(cost, slots=slots, ahead=ahead, periods=as_asked), plain


SCHEDULERS = (edf, aggressive, conservative, hybrid, late, late_pending, conservative_late_pending)


class Workload:
    """Random events: queries come and go, synopses are updated, runs end, costs change."""

    def __init__(self, number: int, make: object):
        self.random = random = Random(f"workload {number}")
        self.cost = Costs(Random(f"costs {number}"))
        self.slots = random.choice((1, 1, 1, 2, 3))
        self.machine, self.plain = make(self.cost, self.slots, random.random() < 0.3)  # type: ignore[operator]
        self.clocks = ("", "slow")[: random.choice((1, 1, 2))]
        self.alike = random.random()
        self.there: dict[str, PeriodicQuery] = {}
        self.runs: list[int] = []
        self.log: list[tuple[ScheduleEvent, tuple[ScheduleDecision, ...]]] = []
        self.came = 0

    def play(self) -> Workload:
        weights = [self.random.choice((1, 2, 4)) for _ in range(5)]
        steps = (self._come, self._update, self._finish, self._go, self._change_costs)
        for _ in range(self.random.randint(10, 60)):
            self.random.choices(steps, [weights[0], 2 * weights[1], 3 * weights[2], 0.5 * weights[3], 0.3])[0]()
        return self

    def tell(self, event: ScheduleEvent) -> None:
        decided = self.machine.on(event)
        assert without_costs(decided) == self.plain.on(event), event
        self.log.append((event, decided))
        for one in decided:
            if isinstance(one, RunTogether):
                self.runs.append(one.run)
            elif isinstance(one, QueryExpired):
                del self.there[one.query]

    def _come(self) -> None:
        random = self.random
        if len(self.there) > 9:
            return
        self.came += 1
        number = random.randrange(3)
        query = PeriodicQuery(
            f"q{self.came}",
            f"g{number}",
            random.choice(PERIODS),
            random.choice((None, 5, 10, 20)),
            clock=self.clocks[number % len(self.clocks)],
            priority=random.choice((0, 0, 1, 2)),
            expires_after=random.choice((None, None, None, random.randint(1, 12))),
            answers=random.choice("ab") if random.random() < self.alike else None,
        )
        self.there[query.name] = query
        self.tell(QueryArrives(query))

    def _update(self) -> None:
        self.tell(SynopsesUpdated(self.random.choice(self.clocks), self.random.choice((1, 1, 1, 1, 3))))

    def _finish(self) -> None:
        if self.runs:
            self.tell(RunFinished(self.runs.pop(self.random.randrange(len(self.runs)))))

    def _go(self) -> None:
        if self.there:
            name = self.random.choice(sorted(self.there))
            del self.there[name]
            self.tell(QueryLeaves(name))

    def _change_costs(self) -> None:
        if self.there:
            query = self.random.choice([self.there[name] for name in sorted(self.there)])
            self.cost.known.pop(query.name, None)
            self.tell(CostsChanged(query.group))


def without_costs(decided: tuple[ScheduleDecision, ...]) -> tuple[ScheduleDecision, ...]:
    return tuple(
        replace(one, cost=None, cost_as_asked=None) if isinstance(one, PeriodsPlanned) else one for one in decided
    )


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("make", SCHEDULERS, ids=lambda make: make.__name__)
def test_decisions_are_those_of_the_algorithm(make: object, chunk: int) -> None:
    for number in range(chunk, COUNT, CHUNKS):
        workload = Workload(number, make).play()
        assert_scheduled(workload)
        assert_same_again(workload, make)


def assert_scheduled(workload: Workload) -> None:
    """What SHOW SCHEDULE has: every query once, and never a longer period than asked for."""
    tasks = workload.machine.schedule()
    names = [query.name for task in tasks for query in task.queries]
    assert sorted(names) == sorted(workload.there)
    assert all(task.period <= query.asked for task in tasks for query in task.queries)
    assert all(task.slack <= task.period for task in tasks)
    assert [task.slack for task in tasks] == sorted(task.slack for task in tasks)
    assert {task.run for task in tasks} - {None} <= set(workload.runs)


def assert_same_again(workload: Workload, make: object) -> None:
    """The log is enough to repeat the decisions, as long as the costs are the same."""
    if any(isinstance(event, CostsChanged) for event, _ in workload.log):
        return
    machine, _ = make(workload.cost, workload.slots, workload.machine.ahead)  # type: ignore[operator]
    assert [machine.on(event) for event, _ in workload.log] == [decided for _, decided in workload.log]


# -- no query starves --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", SCHEDULERS, ids=lambda make: make.__name__)
def test_late_query_runs_before_any_task_runs_twice(make: object) -> None:
    """Whatever the load: after its deadline, no more runs come before a query's than there are other queries."""
    for number in range(COUNT // 10):
        random = Random(f"starving {number}")
        machine, _ = make(Costs(random), 1, random.random() < 0.5)  # type: ignore[operator]
        queries = [
            PeriodicQuery(f"q{i}", f"g{random.randrange(4)}", random.randint(1, 9), priority=random.choice((0, 5)))
            for i in range(random.randint(2, 12))
        ]
        decided = [one for query in queries for one in machine.on(QueryArrives(query))]
        waited = dict.fromkeys((query.name for query in queries), 0)
        for _ in range(80):
            decided += machine.on(SynopsesUpdated(count=random.choice((1, 1, 2, 7))))
            late_now = {one.name for task in machine.schedule() if task.slack < 0 for one in task.queries}
            for run in [one for one in decided if isinstance(one, RunTogether)]:
                for name in late_now:
                    waited[name] += 1
                waited.update(dict.fromkeys(run.queries, 0))
                assert max(waited.values()) <= len(queries)
                decided = list(machine.on(RunFinished(run.run)))


# -- deadlines that can be met -----------------------------------------------------------------------------


class UnitRuns:
    """Runs of equal cost: after each update so many of them, then the next update comes."""

    def __init__(self, machine: QueryMachine, once: bool = False):
        self.machine = machine
        self.once = once
        self.held: RunTogether | None = None
        self.slacks: list[int] = []

    def update(self, capacity: int) -> None:
        decided = list(self.machine.on(SynopsesUpdated()))
        if self.held is not None:
            decided += self._finish(self.held)
        self.held = None
        while capacity and decided:
            (run,) = decided
            assert isinstance(run, RunTogether) and len(run.queries) == 1
            self.slacks.append(run.tasks[0].slack)
            capacity -= 1
            if capacity:
                decided = self._finish(run)
            else:
                self.held = run  # it lasts until the next update

    def _finish(self, run: RunTogether) -> list[ScheduleDecision]:
        if self.once:
            self.machine.on(QueryLeaves(run.queries[0]))
        return list(self.machine.on(RunFinished(run.run)))

    @property
    def is_in_time(self) -> bool:
        running = self.held.run if self.held else None
        due = [
            task for task in self.machine.schedule() if task.slack <= 0 and (task.run is None or task.run != running)
        ]
        return min(self.slacks, default=0) >= 0 and not due


def answers_once(jobs: list[tuple[int, int]], capacities: list[int]) -> bool:
    """Whether EDF, `ahead`, answers each of these queries once in time."""
    runs = UnitRuns(EdfScheduler(ahead=True), once=True)
    for update in range(len(capacities) + 1):
        if update:
            runs.update(capacities[update - 1])
        for i, (came, period) in enumerate(jobs):
            if came == update:
                runs.machine.on(QueryArrives(PeriodicQuery(str(i), f"g{i}", period)))
    return runs.is_in_time and sum(map(len, (task.queries for task in runs.machine.schedule()))) <= bool(runs.held)


def answers_again(periods: list[int], capacities: list[int], ahead: bool = False) -> bool:
    """Whether EDF answers queries of these periods in time, again and again."""
    runs = UnitRuns(EdfScheduler(ahead=ahead))
    for i, period in enumerate(periods):
        runs.machine.on(QueryArrives(PeriodicQuery(str(i), f"g{i}", period)))
    for capacity in capacities:
        runs.update(capacity)
    return runs.is_in_time


def test_edf_answers_once_in_time_if_any_schedule_does() -> None:
    met = 0
    for number in range(COUNT):
        random = Random(f"once {number}")
        jobs = [(random.randint(0, 3), random.randint(1, 5)) for _ in range(random.randint(2, 7))]
        capacities = [random.choice((1, 1, 2)) for _ in range(9)]
        can = can_answer_once(jobs, capacities)
        assert answers_once(jobs, capacities) == can, (number, jobs, capacities)
        met += can
    assert COUNT / 4 < met < COUNT * 0.95


def test_edf_answers_again_in_time_if_any_schedule_does_that_waits_for_deadlines() -> None:
    met = 0
    for number in range(COUNT):
        random = Random(f"again {number}")
        periods = [random.randint(1, 8) for _ in range(random.randint(1, 4))]
        capacities = [random.choice((1, 2, 3)) for _ in range(random.randint(3, 12))]
        can = can_answer_again(periods, capacities, only_when_due=True)
        assert answers_again(periods, capacities) == can, (number, periods, capacities)
        met += can
    assert COUNT / 4 < met < COUNT * 0.95


def test_edf_is_not_the_best_for_queries_that_come_again() -> None:
    """Queries of periods 2, 4 and 4 fit into one run per update, but EDF runs the first again before the others.

    No scheduler can know: after update 2, the first must run if there will be no time after update 3, and may not if
    there is time for one run after each.
    """
    assert can_answer_again([2, 4, 4], [1] * 12)
    assert not answers_again([2, 4, 4], [1] * 12, ahead=True)
    assert can_answer_again([3, 3, 3], [1] * 12) and answers_again([3, 3, 3], [1] * 12, ahead=True)
    assert not answers_again([3, 3, 3], [1] * 12)  # all wait for update 3
    assert not can_answer_again([2, 3, 5], [1] * 30)
    assert can_answer_again([2, 4, 4], [1, 1, 0, 3])  # runs after updates 1, 2 and 4: the first must run twice


# -- hybrid periods ----------------------------------------------------------------------------------------


def random_costs(random: Random, own: float) -> dict[int, tuple[float, float]]:
    periods = sorted(random.sample(range(1, 11), random.randint(1, 5)))
    return {period: (random.uniform(1, 100), own * random.uniform(0, 60)) for period in periods}


def planned(costs: dict[int, tuple[float, float]]) -> tuple[dict[int, int], float]:
    plan = cheapest_periods([SubGroupCost(period, *costs[period]) for period in sorted(costs)])
    assert plan.cost == pytest.approx(cost_of(plan.periods, costs))
    assert plan.cost_as_asked == pytest.approx(cost_of({period: period for period in costs}, costs))
    return dict(plan.periods), cost_of(plan.periods, costs, COUNTED_ON)


@pytest.mark.parametrize("own", [0, 1])
def test_hybrid_periods_are_the_cheapest_of_all(own: int) -> None:
    for number in range(COUNT // 3):
        costs = random_costs(Random(f"costs {number}"), own)
        assert planned(costs)[0] == cheapest(costs, COUNTED_ON)[0], (number, costs)


@pytest.mark.parametrize("own", [0, 1])
def test_dynamic_programming_is_near_the_cheapest(own: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for many sub-groups, which cannot all be tried."""
    monkeypatch.setattr("windrow.schedulers.queries.hybrid.ALL_TRIED", 0)
    ratios = []
    for number in range(COUNT // 3):
        costs = random_costs(Random(f"costs {number}"), own)
        ratios.append(planned(costs)[1] / cheapest(costs, COUNTED_ON)[1])
    assert max(ratios) < 1.1
    assert sum(ratio > 1 + 1e-9 for ratio in ratios) <= len(ratios) // 20


def test_hybrid_periods_of_many_sub_groups() -> None:
    """Never dearer than what conservative or aggressive scheduling would pay."""
    for number in range(10):
        random = Random(f"many {number}")
        costs = [
            SubGroupCost(p, random.uniform(1, 100), random.uniform(0, 5))
            for p in sorted(random.sample(range(1, 90), 40))
        ]
        plan = cheapest_periods(costs)
        cost = cost_per_update(costs, plan.periods, COUNTED_ON)
        assert cost <= cost_per_update(costs, {one.period: one.period for one in costs}, COUNTED_ON)
        assert cost <= (max(one.shared for one in costs) + sum(one.own for one in costs)) / costs[0].period
        assert all(plan.periods[given] == given <= asked for asked, given in plan.periods.items())
