"""The query schedulers, case by case: the worked example of Golab's dissertation (section 8.4), priorities, lifetimes,
and rule CS8."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from windrow.reference.queries.period_plans import cost_of, every_plan
from windrow.schedulers.queries import (
    SCHEDULER_NAMES,
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
    QueryScheduler,
    RunFinished,
    RunTogether,
    ScheduleDecision,
    ScheduledQuery,
    SubGroupCost,
    SynopsesUpdated,
    Why,
    as_asked,
    cheapest_periods,
    cost_per_update,
    query_scheduler,
)

WINDOWS_AND_SLIDES = ((10, 2), (5, 2), (6, 2), (15, 3), (12, 3), (20, 5), (30, 5))
EXAMPLE = [PeriodicQuery(f"Q{i}", "G1", slide, window) for i, (window, slide) in enumerate(WINDOWS_AND_SLIDES, 1)]
SUB_GROUPS = [SubGroupCost(2, 9), SubGroupCost(3, 14), SubGroupCost(5, 29)]


def comparisons(query: PeriodicQuery) -> ExecutionCost:
    """MAX over a basic interval synopsis: as many intervals as the window has, less one."""
    assert query.window is not None
    return ExecutionCost(query.window - 1)


def scheduler_with(name: str, queries: Sequence[PeriodicQuery] = EXAMPLE) -> QueryScheduler:
    scheduler = query_scheduler(name, comparisons)
    for query in queries:
        assert scheduler.on(QueryArrives(query)) == ()
    return scheduler


def run_of(decisions: Sequence[ScheduleDecision]) -> RunTogether:
    (run,) = (one for one in decisions if isinstance(one, RunTogether))
    return run


def schedule_of(scheduler: QueryScheduler, updates: int) -> list[tuple[int, list[int]]]:
    """(update, periods of the tasks that run together), if runs take no time."""
    found = []
    for update in range(1, updates + 1):
        decided = list(scheduler.on(SynopsesUpdated()))
        while runs := [one for one in decided if isinstance(one, RunTogether)]:
            found.append((update, [task.period for task in runs[0].tasks]))
            decided = list(scheduler.on(RunFinished(runs[0].run)))
    return found


def next_runs(scheduler: QueryScheduler, run: RunTogether, updates: int) -> RunTogether:
    """The run lasts for so many updates. Return the next one."""
    for _ in range(updates):
        assert not any(isinstance(one, RunTogether) for one in scheduler.on(SynopsesUpdated()))
    return run_of(scheduler.on(RunFinished(run.run)))


# -- the worked example ------------------------------------------------------------------------------------


def test_cost_of_two_sub_groups() -> None:
    """Each for itself 46 per six minutes, together 14 every two minutes."""
    assert cost_per_update(SUB_GROUPS[:2], {2: 2, 3: 3}) == pytest.approx(46 / 6)
    assert cost_per_update(SUB_GROUPS[:2], {2: 2, 3: 2}) == pytest.approx(7.0)


@pytest.mark.parametrize(
    ("periods", "cost"),
    [
        ({2: 2, 3: 3, 5: 5}, 11.93),  # (6·29 + 8·14 + 8·9) / 30; the text has 11.63
        ({2: 2, 3: 2, 5: 5}, 11.4),
        ({2: 2, 3: 2, 5: 2}, 14.5),
        ({2: 2, 3: 3, 5: 3}, 12.67),
        ({2: 2, 3: 3, 5: 2}, 16.83),
    ],
)
def test_cost_of_the_five_plans(periods: dict[int, int], cost: float) -> None:
    assert cost_per_update(SUB_GROUPS, periods) == pytest.approx(cost, abs=0.005)
    assert cost_of(periods, {one.period: (one.shared, one.own) for one in SUB_GROUPS}) == pytest.approx(cost, abs=0.005)
    assert periods in list(every_plan((2, 3, 5)))


def test_there_are_five_plans() -> None:
    assert len(list(every_plan((2, 3, 5)))) == 5


def test_hybrid_chooses_the_cheapest_plan() -> None:
    plan = cheapest_periods(SUB_GROUPS)
    assert plan.periods == {2: 2, 3: 2, 5: 5}
    assert (plan.cost, plan.cost_as_asked) == (pytest.approx(11.4), pytest.approx(11.93, abs=0.005))
    decided = scheduler_with("hybrid").on(SynopsesUpdated())
    assert decided == (PeriodsPlanned("G1", ((2, 2), (3, 2), (5, 5)), plan.cost, plan.cost_as_asked),)


def test_figure_8_6_a() -> None:
    """Aggressive: all seven queries every two minutes."""
    assert schedule_of(scheduler_with("aggressive"), 30) == [(update, [2]) for update in range(2, 31, 2)]
    scheduler = scheduler_with("aggressive")
    scheduler.on(SynopsesUpdated())
    assert run_of(scheduler.on(SynopsesUpdated())).queries == ("Q2", "Q3", "Q1", "Q5", "Q4", "Q6", "Q7")


def test_figure_8_6_b() -> None:
    """Conservative: sub-groups run together where their periods meet."""
    expected = [
        (update, due) for update in range(1, 31) if (due := [period for period in (2, 3, 5) if update % period == 0])
    ]
    assert schedule_of(scheduler_with("conservative"), 30) == expected
    assert expected[-1] == (30, [2, 3, 5])


def test_figure_8_6_c() -> None:
    """Hybrid: G12 has the period of G11, and always runs with it."""
    scheduler = scheduler_with("hybrid")
    expected = [(update, due) for update in range(1, 31) if (due := [p for p in (2, 5) if update % p == 0])]
    assert schedule_of(scheduler, 30) == expected
    first = scheduler.schedule()[0]
    assert [query.name for query in first.queries] == ["Q2", "Q3", "Q1", "Q5", "Q4"]
    assert (first.period, first.deadline, first.slack) == (2, 32, 2)
    assert first.why == "costs 11.4 per update, 11.93 as asked for, if all runs are on time"


def test_figure_8_6_d() -> None:
    """Late-pending: G11 and G12 are late by one update, G13 is pending, and all seven queries run together."""
    scheduler = scheduler_with("late_pending")
    scheduler.on(SynopsesUpdated())
    scheduler.on(RunFinished(run_of(scheduler.on(SynopsesUpdated())).run))
    scheduler.on(SynopsesUpdated())
    run = next_runs(scheduler, busy(scheduler), 1)  # the slot is taken from update 4 to 5
    assert [(task.period, task.slack, task.why) for task in run.tasks] == [(2, -1, Why.EARLIEST), (5, 0, Why.PENDING)]
    assert sorted(run.queries) == [query.name for query in EXAMPLE]


def busy(scheduler: QueryScheduler) -> RunTogether:
    """A query of another group, due after the next update, takes the only slot."""
    scheduler.on(QueryArrives(PeriodicQuery("other", "G2", 1, 2, priority=9)))
    return run_of(scheduler.on(SynopsesUpdated()))


def after_busy(scheduler: QueryScheduler, updates: int) -> RunTogether:
    """What runs in G1 after the slot was taken for so many updates; the other group may be late as well."""
    run = next_runs(scheduler, busy(scheduler), updates)
    while run.group == "G2":
        run = run_of(scheduler.on(RunFinished(run.run)))
    return run


def as_they_ask(name: str) -> QueryScheduler:
    """A scheduler that keeps the periods of the example."""
    by_cost = {"late": LateScheduler, "late_pending": LatePendingScheduler}
    if name not in by_cost:
        return scheduler_with(name)
    scheduler = by_cost[name](comparisons, periods=as_asked)
    for query in EXAMPLE:
        scheduler.on(QueryArrives(query))
    return scheduler


@pytest.mark.parametrize(
    ("name", "together"),
    [
        ("edf", [(2, -1, Why.EARLIEST)]),
        ("conservative", [(2, -1, Why.EARLIEST)]),
        ("late", [(2, -1, Why.EARLIEST)]),
        ("late_pending", [(2, -1, Why.EARLIEST), (3, 0, Why.PENDING)]),
    ],
)
def test_who_joins_a_late_task(name: str, together: list[tuple[int, int, Why]]) -> None:
    """The slot is taken from update 1 to 3, when G11 is late by one update and G12 is pending."""
    run = after_busy(as_they_ask(name), 2)
    assert [(task.period, task.slack, task.why) for task in run.tasks] == together


@pytest.mark.parametrize(("name", "together"), [("conservative", [2]), ("late", [2, 3]), ("late_pending", [2, 3])])
def test_late_tasks_of_one_group_run_together(name: str, together: list[int]) -> None:
    """Section 8.4.5: d = −2 and d = −1. Conservative scheduling runs only the first, late sharing both."""
    run = after_busy(as_they_ask(name), 3)
    assert [task.period for task in run.tasks] == together
    assert [task.slack for task in run.tasks] == [-2, -1][: len(together)]


def test_latest_first_not_any() -> None:
    """Algorithm 11, line 13: the task that is late goes first, not one of another group that is merely pending."""
    scheduler = LatePendingScheduler(comparisons)
    for query in (PeriodicQuery("slow", "A", 3, 9, priority=5), PeriodicQuery("fast", "B", 2, 9)):
        scheduler.on(QueryArrives(query))
    run = after_busy(scheduler, 2)
    assert run.queries == ("fast",)
    assert run_of(scheduler.on(RunFinished(run.run))).queries == ("slow",)


# -- deadlines ---------------------------------------------------------------------------------------------


def test_late_answer_does_not_bring_the_next_one_forward() -> None:
    scheduler = scheduler_with("edf", [PeriodicQuery("q", "g", 3)])
    for _ in range(3):
        decided = scheduler.on(SynopsesUpdated())
    scheduler.on(SynopsesUpdated(count=4))
    scheduler.on(RunFinished(run_of(decided).run))  # as of update 3, at update 7
    (task,) = scheduler.schedule()
    assert (task.slack, task.run is not None) == (-1, True)
    scheduler.on(RunFinished(task.run))
    (task,) = scheduler.schedule()
    assert (task.deadline, task.slack, task.run) == (10, 3, None)


def test_ahead_runs_what_has_seen_an_update() -> None:
    """When nothing is due, the earliest deadline first; never the same answer twice."""
    scheduler = EdfScheduler(ahead=True)
    for query in (PeriodicQuery("a", "ga", 5), PeriodicQuery("b", "gb", 3)):
        assert scheduler.on(QueryArrives(query)) == ()
    run = run_of(scheduler.on(SynopsesUpdated()))
    assert (run.queries, run.tasks[0].slack) == (("b",), 2)
    run = run_of(scheduler.on(RunFinished(run.run)))
    assert run.queries == ("a",)
    assert scheduler.on(RunFinished(run.run)) == ()
    assert run_of(scheduler.on(SynopsesUpdated())).queries == ("b",)


def test_slots_run_different_groups() -> None:
    scheduler = ConservativeScheduler(slots=2)
    for i, group in enumerate("aab"):
        scheduler.on(QueryArrives(PeriodicQuery(f"q{i}", group, i + 1)))
    decided = scheduler.on(SynopsesUpdated(count=3))
    assert [one.queries for one in decided if isinstance(one, RunTogether)] == [("q0",), ("q2",)]


def test_clocks_are_compared_by_updates_that_are_left() -> None:
    scheduler = EdfScheduler()
    scheduler.on(QueryArrives(PeriodicQuery("hourly", "a", 1, clock="hours")))
    scheduler.on(QueryArrives(PeriodicQuery("often", "b", 2, clock="seconds")))
    run = run_of(scheduler.on(SynopsesUpdated("hours")))
    assert (run.queries, run.clock, run.update) == (("hourly",), "hours", 1)
    scheduler.on(SynopsesUpdated("seconds", 3))
    run = run_of(scheduler.on(RunFinished(run.run)))
    assert (run.queries, run.tasks[0].slack, run.update) == (("often",), -1, 3)


def test_priority_among_equal_deadlines() -> None:
    scheduler = EdfScheduler()
    queries = [PeriodicQuery("low", "a", 2), PeriodicQuery("high", "b", 2, priority=3), PeriodicQuery("sooner", "c", 1)]
    for query in queries:
        scheduler.on(QueryArrives(query))
    run = run_of(scheduler.on(SynopsesUpdated(count=2)))
    order = [run.queries[0]]
    while runs := scheduler.on(RunFinished(run.run)):
        run = run_of(runs)
        order.append(run.queries[0])
    assert order == ["sooner", "high", "low"]


def test_priority_of_a_task_goes_with_its_query() -> None:
    scheduler = EdfScheduler()
    for query in (PeriodicQuery("a1", "a", 2), PeriodicQuery("b1", "b", 2), PeriodicQuery("b2", "b", 2, priority=1)):
        scheduler.on(QueryArrives(query))
    scheduler.on(SynopsesUpdated())
    scheduler.on(QueryLeaves("b2"))
    assert run_of(scheduler.on(SynopsesUpdated())).queries == ("a1",)


# -- queries come and go -----------------------------------------------------------------------------------


def test_expire_after() -> None:
    scheduler = EdfScheduler()
    scheduler.on(QueryArrives(PeriodicQuery("brief", "g", 1, expires_after=3)))
    scheduler.on(QueryArrives(PeriodicQuery("lasting", "g", 9)))
    for _ in range(2):
        scheduler.on(RunFinished(run_of(scheduler.on(SynopsesUpdated())).run))
    assert scheduler.on(SynopsesUpdated()) == (QueryExpired("brief"),)
    assert [query.name for task in scheduler.schedule() for query in task.queries] == ["lasting"]
    scheduler.on(QueryArrives(PeriodicQuery("brief", "g", 1)))  # the name may be used again


def test_query_that_left_does_not_expire() -> None:
    scheduler = EdfScheduler()
    scheduler.on(QueryArrives(PeriodicQuery("q", "g", 5, expires_after=2)))
    scheduler.on(QueryLeaves("q"))
    scheduler.on(QueryArrives(PeriodicQuery("q", "g", 5)))
    assert scheduler.on(SynopsesUpdated(count=3)) == ()


def test_group_that_runs_outlives_its_queries() -> None:
    scheduler = EdfScheduler()
    scheduler.on(QueryArrives(PeriodicQuery("q", "g", 1)))
    run = run_of(scheduler.on(SynopsesUpdated()))
    scheduler.on(QueryLeaves("q"))
    assert scheduler.on(RunFinished(run.run)) == () == scheduler.schedule()


def test_new_query_is_answered_with_its_sub_group() -> None:
    scheduler = scheduler_with("edf", [PeriodicQuery("old", "g", 4)])
    scheduler.on(SynopsesUpdated(count=3))
    scheduler.on(QueryArrives(PeriodicQuery("new", "g", 4)))
    assert run_of(scheduler.on(SynopsesUpdated())).queries == ("old", "new")


def test_plan_changes_with_the_queries_of_a_group() -> None:
    """When Q1 to Q3 go, there is no period of 2 any longer."""
    scheduler = scheduler_with("hybrid")
    scheduler.on(SynopsesUpdated())
    for name in ("Q1", "Q2", "Q3"):
        scheduler.on(QueryLeaves(name))
    (planned,) = (one for one in scheduler.on(SynopsesUpdated()) if isinstance(one, PeriodsPlanned))
    assert planned.periods == ((3, 3), (5, 5))


def test_plan_changes_with_costs() -> None:
    costs = {"fast": 10.0, "slow": 10.0}
    scheduler = HybridScheduler(lambda query: ExecutionCost(costs[query.name]))
    for name, period in (("fast", 2), ("slow", 3)):
        scheduler.on(QueryArrives(PeriodicQuery(name, "g", period)))
    (planned,) = scheduler.on(SynopsesUpdated())
    assert isinstance(planned, PeriodsPlanned) and planned.periods == ((2, 2), (3, 2))
    costs["slow"] = 10.5
    scheduler.on(CostsChanged("g"))
    assert scheduler.on(SynopsesUpdated(count=1))  # due; a change of a twentieth is no reason to plan again
    costs["slow"] = 90.0
    scheduler.on(CostsChanged("g"))
    (task,) = scheduler.schedule()
    (planned,) = scheduler.on(RunFinished(task.run or 0))
    assert isinstance(planned, PeriodsPlanned) and planned.periods == ((2, 2), (3, 3))


# -- CS8 ---------------------------------------------------------------------------------------------------


def alike(name: str, period: int, group: str = "g") -> PeriodicQuery:
    return PeriodicQuery(name, group, period, 10, answers="the same")


def test_slower_query_gets_the_output_of_the_faster() -> None:
    scheduler = ConservativeScheduler()
    for query in (alike("fast", 2), alike("slow", 5)):
        scheduler.on(QueryArrives(query))
    (task,) = scheduler.schedule()
    assert (task.period, task.queries) == (2, (ScheduledQuery("fast", 2), ScheduledQuery("slow", 5, "fast")))
    assert run_of(scheduler.on(SynopsesUpdated(count=2))).queries == ("fast", "slow")


def test_period_is_restored_when_the_faster_query_goes() -> None:
    scheduler = ConservativeScheduler()
    for query in (alike("fast", 2), alike("slow", 5)):
        scheduler.on(QueryArrives(query))
    scheduler.on(RunFinished(run_of(scheduler.on(SynopsesUpdated(count=2))).run))
    scheduler.on(SynopsesUpdated())
    scheduler.on(QueryLeaves("fast"))
    (task,) = scheduler.schedule()
    assert (task.period, task.deadline, task.slack) == (5, 7, 4)  # five updates after the answer of update 2
    assert task.queries == (ScheduledQuery("slow", 5),)


def test_faster_query_takes_over() -> None:
    """The slower one is answered no later than it would have been."""
    scheduler = ConservativeScheduler()
    scheduler.on(QueryArrives(alike("slow", 6)))
    scheduler.on(SynopsesUpdated(count=5))
    scheduler.on(QueryArrives(alike("fast", 4)))
    (task,) = scheduler.schedule()
    assert (task.period, task.deadline) == (4, 6)
    scheduler.on(RunFinished(run_of(scheduler.on(SynopsesUpdated())).run))
    (task,) = scheduler.schedule()
    assert task.deadline == 10


def test_output_is_computed_once() -> None:
    """The cost of a sub-group has each output once: a hundred readers make nothing dearer."""
    plans = []

    def noting(costs: Sequence[SubGroupCost]) -> object:
        plans.append(list(costs))
        return as_asked(costs)

    scheduler = HybridScheduler(lambda query: ExecutionCost(7, 3), periods=noting)  # type: ignore[arg-type]
    for i in range(100):
        scheduler.on(QueryArrives(alike(f"q{i}", 2 + i)))
    scheduler.on(SynopsesUpdated())
    assert plans == [[SubGroupCost(2, 7, 3)]]


@pytest.mark.parametrize("make", [EdfScheduler, AggressiveScheduler])
def test_no_output_is_shared_without_algorithm_10(make: type[EdfScheduler]) -> None:
    scheduler = make()
    for query in (alike("fast", 2), alike("slow", 5)):
        scheduler.on(QueryArrives(query))
    assert all(query.output_of is None for task in scheduler.schedule() for query in task.queries)


# -- what cannot happen ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEDULER_NAMES)
def test_impossible_events_are_refused(name: str) -> None:
    scheduler = scheduler_with(name)
    before = scheduler.schedule()
    for event in (
        QueryArrives(EXAMPLE[0]),
        QueryArrives(PeriodicQuery("q", "G1", 2, clock="another")),
        QueryLeaves("nobody"),
        RunFinished(99),
        CostsChanged("none"),
    ):
        with pytest.raises(ValueError):
            scheduler.on(event)
    assert scheduler.schedule() == before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PeriodicQuery("", "g", 1), "a name and a group"),
        (lambda: PeriodicQuery("q", "g", 0), "at least one update"),
        (lambda: PeriodicQuery("q", "g", 1, 0), "at least one update"),
        (lambda: PeriodicQuery("q", "g", 1, expires_after=0), "lives for at least"),
        (lambda: ExecutionCost(-1), "not negative"),
        (lambda: ExecutionCost(float("nan")), "not negative"),
        (lambda: SynopsesUpdated(count=0), "at least once"),
        (lambda: EdfScheduler(slots=0), "at least one slot"),
        (lambda: query_scheduler("fifo", comparisons), "no scheduler 'fifo'; there are edf"),
    ],
)
def test_illegal_values(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_log_has_every_step() -> None:
    steps: list[object] = []
    scheduler = EdfScheduler(record=steps.append)
    event = QueryArrives(EXAMPLE[0])
    scheduler.on(event)
    decided = scheduler.on(SynopsesUpdated(count=2))
    assert steps == [(event, ()), (SynopsesUpdated(count=2), decided)]
