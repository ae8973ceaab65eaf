"""What all query schedulers have in common (Golab's dissertation, Algorithms 9 to 11).

Deadlines are absolute, so an update touches no task: d(T) is the deadline less the updates so far. A heap per group has
its tasks, a heap per clock its groups, by their first tasks; a task is put back after it has run. So an event takes
O(log n) for each task that it starts or ends, and O(1) for each query.

A scheduler is made of two choices: `periods` says how often the sub-groups of a group run, and `_reach` which tasks of
a group join the one that has the earliest deadline. A task is started when its slack is 0 or less; with `ahead`, also
sooner if there is nothing else to do, as the algorithms are printed. It never runs twice after one update, which would
give the same answers.

A group is planned anew at the first update after its costs have changed by more than the share `tolerance`, but not
while it runs. No query starves: a task that runs gets a deadline after the update that it shows, so one that waits is
the first after at most as many runs as there are tasks, counted from its deadline on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from windrow.schedulers.queries.groups import GroupKey, Member, QueryGroup, SubGroup
from windrow.schedulers.queries.interface import (
    CostFunction,
    CostsChanged,
    ExecutionCost,
    PeriodicQuery,
    PeriodsPlanned,
    QueryArrives,
    QueryExpired,
    QueryLeaves,
    RunFinished,
    RunTogether,
    ScheduleDecision,
    ScheduledQuery,
    ScheduledTask,
    ScheduleEvent,
    SynopsesUpdated,
    TaskRun,
    Why,
)
from windrow.schedulers.queries.periods import PeriodRule, as_asked

Step = tuple[ScheduleEvent, tuple[ScheduleDecision, ...]]
"""An entry of the log: an event, and what was decided."""


@dataclass
class _Clock:
    """The updates of some synopses, and the groups that read these."""

    updates: int = 0
    groups: dict[int, QueryGroup] = field(default_factory=dict)
    waiting: list[GroupKey] = field(default_factory=list)
    resting: set[int] = field(default_factory=set)
    changed: set[int] = field(default_factory=set)
    ends: list[tuple[int, int]] = field(default_factory=list)

    def first(self) -> GroupKey | None:
        """The key of the group that comes first."""
        while self.waiting:
            key = self.waiting[0]
            group = self.groups.get(key[2])
            if group is not None and group.offered == key:
                return key
            heappop(self.waiting)
        return None

    def offer(self, group: QueryGroup) -> None:
        """Put a group at its place in the heap, by its first task."""
        if group.is_resting:
            self.resting.add(group.number)
        first = group.first() if group.run is None else None
        key = (first[0], first[1], group.number, first[2]) if first is not None else None
        if key is not None and key != group.offered:
            heappush(self.waiting, key)
        group.offered = key
        if len(self.waiting) > 4 * len(self.groups) + 64:  # most are outdated
            self.waiting = [one.offered for one in self.groups.values() if one.offered is not None]
            heapify(self.waiting)


@dataclass(frozen=True)
class _Run:
    group: QueryGroup
    update: int
    sub_groups: tuple[SubGroup, ...]


class QueryMachine:
    """Takes events, gives decisions, and tells `record` both."""

    shares_output = True
    """Whether queries that differ only in their period share answers (CS8)."""

    def __init__(
        self,
        *,
        slots: int = 1,
        ahead: bool = False,
        record: Callable[[Step], None] | None = None,
        cost: CostFunction | None = None,
        periods: PeriodRule = as_asked,
        tolerance: float = 0.0,
    ):
        if slots < 1 or tolerance < 0:
            raise ValueError("a scheduler has at least one slot, and no negative tolerance")
        self.slots = slots
        self.ahead = ahead
        self._record = record or (lambda step: None)
        self._cost = cost or (lambda query: ExecutionCost(1.0))
        self._periods = periods
        self._tolerance = tolerance
        self._clocks: dict[str, _Clock] = {}
        self._groups: dict[str, QueryGroup] = {}
        self._members: dict[str, Member] = {}
        self._arrivals: dict[int, Member] = {}
        self._runs: dict[int, _Run] = {}
        self._counter = 0
        self._decisions: list[ScheduleDecision] = []

    def _reach(self, slack: int) -> int | None:
        """Tasks of the same group with at most this slack join the one that has the least; None if no task does."""
        raise NotImplementedError

    def on(self, event: ScheduleEvent) -> tuple[ScheduleDecision, ...]:
        """What to do now; an event that cannot happen is a ValueError, and changes nothing."""
        self._decisions = []
        match event:
            case SynopsesUpdated(clock, count):
                self._update(self._clock(clock), count)
            case RunFinished(run):
                self._finish(run)
            case QueryArrives(query):
                self._arrive(query)
            case QueryLeaves(name):
                self._member(name)
                self._remove(name)
            case CostsChanged(group):
                self._take_costs(group)
        self._dispatch()
        decisions = tuple(self._decisions)
        self._record((event, decisions))
        return decisions

    def schedule(self) -> tuple[ScheduledTask, ...]:
        """Every task, those with the least slack first."""
        tasks = [one for group in self._groups.values() for one in self._scheduled(group)]
        return tuple(sorted(tasks, key=lambda one: (one.slack, one.group, one.period)))

    # Events

    def _arrive(self, query: PeriodicQuery) -> None:
        group = self._groups.get(query.group)
        if query.name in self._members:
            raise ValueError(f"query {query.name} is there already")
        if group is not None and group.clock != query.clock:
            raise ValueError(f"query {query.name} has clock '{query.clock}', and its group has '{group.clock}'")
        clock, cost = self._clock(query.clock), self._cost(query)
        member = Member(query.period, self._next_number(), query)
        if group is None:
            group = QueryGroup(query.group, query.clock, member.arrival, self.shares_output)
            self._groups[query.group] = clock.groups[group.number] = group
        self._members[query.name] = self._arrivals[member.arrival] = member
        group.add(member, cost, clock.updates)
        if query.expires_after is not None:
            heappush(clock.ends, (clock.updates + query.expires_after, member.arrival))
        self._changed(group, clock)

    def _remove(self, name: str) -> None:
        member = self._members.pop(name)
        del self._arrivals[member.arrival]
        group = self._groups[member.query.group]
        clock = self._clocks[group.clock]
        group.remove(name, clock.updates)
        if len(group) or group.run is not None:
            self._changed(group, clock)
        else:
            self._drop(group, clock)

    def _update(self, clock: _Clock, count: int) -> None:
        clock.updates += count
        while clock.ends and clock.ends[0][0] <= clock.updates:
            member = self._arrivals.get(heappop(clock.ends)[1])
            if member is not None:
                self._remove(member.query.name)
                self._decisions.append(QueryExpired(member.query.name))
        self._plan_changed(clock)
        resting, clock.resting = clock.resting, set()
        for number in sorted(resting):
            group = clock.groups.get(number)
            if group is not None:
                group.wake(clock.updates)
                clock.offer(group)

    def _finish(self, number: int) -> None:
        if number not in self._runs:
            raise ValueError(f"run {number} is not in progress")
        run = self._runs.pop(number)
        group, clock = run.group, self._clocks[run.group.clock]
        group.run = None
        if not len(group):
            self._drop(group, clock)
            return
        for sub_group in run.sub_groups:
            if group.holds(sub_group):
                sub_group.finish(run.update)
        if group.number in clock.changed:
            self._plan(group, clock)
        for period in {sub_group.given for sub_group in run.sub_groups}:
            group.offer(period, clock.updates)
        clock.offer(group)

    def _take_costs(self, name: str) -> None:
        if name not in self._groups:
            raise ValueError(f"there is no group {name}")
        group = self._groups[name]
        costs = {query.name: self._cost(query) for query in group.queries()}
        for query, cost in costs.items():
            group.set_cost(query, cost)
        self._changed(group, self._clocks[group.clock])

    # Plans

    def _changed(self, group: QueryGroup, clock: _Clock) -> None:
        """Queries came, went or cost something else."""
        clock.changed.add(group.number)
        clock.offer(group)

    def _plan_changed(self, clock: _Clock) -> None:
        for number in sorted(clock.changed):
            group = clock.groups[number]
            if group.run is None:
                self._plan(group, clock)
                clock.offer(group)

    def _plan(self, group: QueryGroup, clock: _Clock) -> None:
        clock.changed.discard(group.number)
        costs = group.costs()
        if group.has_changed(costs, self._tolerance):
            plan = self._periods(costs)
            if group.replan(plan, costs, clock.updates):
                periods = tuple(sorted(plan.periods.items()))
                self._decisions.append(PeriodsPlanned(group.name, periods, plan.cost, plan.cost_as_asked))
                group.offer_all(clock.updates)

    # Runs

    def _dispatch(self) -> None:
        """Give the free slots to the tasks that are next."""
        while len(self._runs) < self.slots:
            least: GroupKey | None = None
            for clock in self._clocks.values():
                key = clock.first()
                if key is not None and (least is None or (key[0] - clock.updates, *key[1:]) < least):
                    least, chosen = (key[0] - clock.updates, *key[1:]), clock
            if least is None or (least[0] > 0 and not self.ahead):
                return
            self._start(chosen.groups[least[2]], chosen, int(least[0]))

    def _start(self, group: QueryGroup, clock: _Clock, least: int) -> None:
        tasks = [group.take()]
        reach = self._reach(least)
        while reach is not None and (key := group.first()) is not None and key[0] - clock.updates <= reach:
            tasks.append(group.take())
        number = group.run = self._next_number()
        group.offered = None
        taken = tuple(sub_group for task in tasks for sub_group in task.sub_groups.values())
        self._runs[number] = _Run(group, clock.updates, taken)
        runs = []
        for task in tasks:
            slack, why = task.deadline - clock.updates, Why.EARLIEST
            if task is not tasks[0]:
                why = Why.SAME if slack == least else Why.LATE if slack < 0 else Why.PENDING
            names = tuple(member.query.name for member in task.members())
            runs.append(TaskRun(task.period, names, slack, why))
        self._decisions.append(RunTogether(number, group.name, group.clock, clock.updates, tuple(runs)))

    # Parts

    def _scheduled(self, group: QueryGroup) -> Iterator[ScheduledTask]:
        now = self._clocks[group.clock].updates
        running = {sub.asked for sub in self._runs[group.run].sub_groups} if group.run is not None else set()
        for task in group.tasks.values():
            queries = tuple(
                ScheduledQuery(one.query.name, one.period, lead if lead != one.query.name else None)
                for one in task.members()
                for lead in (group.leads(one.query.name),)
            )
            is_running = not running.isdisjoint(task.sub_groups)
            run = group.run if is_running else None
            deadline = task.deadline
            yield ScheduledTask(
                group.name, group.clock, task.period, queries, deadline, deadline - now, run, group.plan.why
            )

    def _clock(self, name: str) -> _Clock:
        if name not in self._clocks:
            self._clocks[name] = _Clock()
        return self._clocks[name]

    def _member(self, name: str) -> Member:
        if name not in self._members:
            raise ValueError(f"there is no query {name}")
        return self._members[name]

    def _drop(self, group: QueryGroup, clock: _Clock) -> None:
        del self._groups[group.name], clock.groups[group.number]
        clock.changed.discard(group.number)

    def _next_number(self) -> int:
        self._counter += 1
        return self._counter
