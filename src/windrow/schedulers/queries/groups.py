"""A group of queries that may be executed together, as a scheduler keeps it.

Queries that differ only in their period form one *output*: the fastest leads, and the others get its answers (rule CS8
of Golab's dissertation, section 8.4.3). Outputs that ask for one period form a *sub-group* G_ij, which always runs as a
whole. Sub-groups that were given one period form a *task* T_ij.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from windrow.schedulers.queries.interface import ExecutionCost, PeriodicQuery
from windrow.schedulers.queries.periods import PeriodPlan, SubGroupCost

TaskKey = tuple[float, float, int]
"""Least first: the deadline, the priority, the period."""

GroupKey = tuple[float, float, int, int]
"""Least first: deadline and priority of the group's first task, the group's number, the task's period."""


@dataclass(frozen=True, order=True)
class Member:
    """A query, in the order in which queries lead an output: the fastest, then the one that came first."""

    period: int
    arrival: int
    query: PeriodicQuery = field(compare=False)


class SharedOutput:
    """The answers of one query, which others may get as well."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self._priorities: Counter[int] = Counter()

    @property
    def lead(self) -> Member:
        return self.members[0]

    @property
    def priority(self) -> int:
        return max(self._priorities)

    def add(self, member: Member) -> None:
        insort(self.members, member)
        self._priorities[member.query.priority] += 1

    def remove(self, member: Member) -> None:
        del self.members[bisect_left(self.members, member)]
        _discount(self._priorities, member.query.priority)


class SubGroup:
    """The outputs that ask for one period, and the period that they are given.

    `since` is the update that their latest answers show, at the oldest. `deadline` is the last update that may come
    before they have run again; `joined` is that of the outputs which came in since a run began, and may not be in it.
    """

    def __init__(self, asked: int, since: int):
        self.asked = asked
        self.given = asked
        self.since = since
        self.deadline: float = inf
        self.joined: float = inf
        self.outputs: dict[int, SharedOutput] = {}
        self.priority = 0
        self._priorities: Counter[int] = Counter()
        self._cost: SubGroupCost | None = None

    def put(self, output: SharedOutput) -> None:
        self.outputs[output.lead.arrival] = output
        self._priorities[output.priority] += 1
        self.priority = max(self._priorities)
        self._cost = None

    def take(self, output: SharedOutput) -> None:
        """Call it before the output changes."""
        del self.outputs[output.lead.arrival]
        _discount(self._priorities, output.priority)
        self.priority = max(self._priorities, default=0)
        self._cost = None

    def bound(self, since: int, deadline: float) -> None:
        """An output comes in that was answered as of an update, and is due by another."""
        self.since = min(self.since, since)
        self.deadline = min(self.deadline, deadline)
        self.joined = min(self.joined, deadline)

    def give(self, period: int, now: int) -> None:
        """Another period counts from now on, but not beyond what the queries ask for."""
        if period != self.given:
            self.given = period
            self.deadline = min(self.since + self.asked, now + period)

    def finish(self, update: int) -> None:
        """The run that began as of an update is over."""
        self.since = update
        self.deadline = min(update + self.given, self.joined)

    def cost(self, costs: dict[str, ExecutionCost]) -> SubGroupCost:
        """What a run costs: one answer per output, whoever gets it."""
        if self._cost is None:
            each = [costs[output.lead.query.name] for output in self.outputs.values()]
            self._cost = SubGroupCost(self.asked, max(one.shared for one in each), sum(one.own for one in each))
        return self._cost

    def forget_cost(self) -> None:
        self._cost = None


class Task:
    """Sub-groups with one period; they run together. `key` is its place in the heap, None if it is not there."""

    def __init__(self, period: int):
        self.period = period
        self.sub_groups: dict[int, SubGroup] = {}
        self.key: TaskKey | None = None

    @property
    def deadline(self) -> int:
        """d(T) is how many updates are left to it."""
        return int(min(sub_group.deadline for sub_group in self.sub_groups.values()))

    def place(self, now: int) -> TaskKey | None:
        """Its place in the heap; None if there was no update since it ran."""
        is_stale, deadline, priority = False, inf, -inf
        for sub_group in self.sub_groups.values():
            is_stale = is_stale or sub_group.since < now
            deadline = min(deadline, sub_group.deadline)
            priority = max(priority, sub_group.priority)
        return (deadline, -priority, self.period) if is_stale else None

    def members(self) -> list[Member]:
        """The queries, those with shorter windows first."""
        outputs = (output for sub_group in self.sub_groups.values() for output in sub_group.outputs.values())
        return sorted((member for output in outputs for member in output.members), key=_by_window)


class QueryGroup:
    """The queries, sub-groups and tasks of a group, and a heap of the tasks that have seen an update since they ran.

    `run` is the number of the run that the group is in, `offered` its place among groups, None if it has none.
    """

    def __init__(self, name: str, clock: str, number: int, shares_output: bool):
        self.name = name
        self.clock = clock
        self.number = number
        self.run: int | None = None
        self.offered: GroupKey | None = None
        self.plan = PeriodPlan({})
        self.tasks: dict[int, Task] = {}
        self._shares_output = shares_output
        self._sub_groups: dict[int, SubGroup] = {}
        self._alike: dict[str, SharedOutput] = {}
        self._members: dict[str, tuple[Member, SharedOutput]] = {}
        self._costs: dict[str, ExecutionCost] = {}
        self._planned: dict[int, SubGroupCost] = {}
        self._heap: list[TaskKey] = []
        self._resting: set[int] = set()

    def __len__(self) -> int:
        return len(self._members)

    def queries(self) -> Iterator[PeriodicQuery]:
        return (member.query for member, _ in self._members.values())

    def leads(self, name: str) -> str:
        """The query whose answers a query gets: its own, or those of a faster one."""
        return self._members[name][1].lead.query.name

    # Queries come and go

    def add(self, member: Member, cost: ExecutionCost, now: int) -> None:
        """Take a query in. Its first answer is due within its period."""
        query = member.query
        is_alike = self._shares_output and query.answers is not None
        output = self._alike.setdefault(query.answers or "", SharedOutput()) if is_alike else SharedOutput()
        sub_group = self._take_out(output) if output.members else None
        output.add(member)
        self._members[query.name] = member, output
        self._costs[query.name] = cost
        if sub_group is None:
            self._put_in(output, now, now + member.period, now)
        else:
            self._put_back(output, sub_group, int(sub_group.deadline), now)

    def remove(self, name: str, now: int) -> None:
        """Let a query go. If it led an output, the next fastest leads, with the period that it asked for."""
        member, output = self._members.pop(name)
        sub_group = self._take_out(output)
        output.remove(member)
        del self._costs[name]
        if output.members:
            self._put_back(output, sub_group, sub_group.since + output.lead.period, now)
            return
        self._tidy(sub_group, now)
        if self._alike.get(member.query.answers or "") is output:
            del self._alike[member.query.answers or ""]

    def _take_out(self, output: SharedOutput) -> SubGroup:
        sub_group = self._sub_groups[output.lead.period]
        sub_group.take(output)
        return sub_group

    def _put_back(self, output: SharedOutput, sub_group: SubGroup, deadline: int, now: int) -> None:
        """The output has changed: it stays, or goes to the sub-group of its new leader."""
        if output.lead.period == sub_group.asked:
            sub_group.put(output)
            self.offer(sub_group.given, now)
        else:
            self._tidy(sub_group, now)
            self._put_in(output, sub_group.since, deadline, now)

    def _put_in(self, output: SharedOutput, since: int, deadline: int, now: int) -> None:
        asked = output.lead.period
        sub_group = self._sub_groups.get(asked)
        if sub_group is None:
            sub_group = self._sub_groups[asked] = SubGroup(asked, since)
            self._task(asked).sub_groups[asked] = sub_group
        sub_group.put(output)
        sub_group.bound(since, min(deadline, now + sub_group.given))
        self.offer(sub_group.given, now)

    def _tidy(self, sub_group: SubGroup, now: int) -> None:
        """Drop a sub-group that has become empty."""
        task = self.tasks[sub_group.given]
        if not sub_group.outputs:
            del self._sub_groups[sub_group.asked], task.sub_groups[sub_group.asked]
            if not task.sub_groups:
                del self.tasks[task.period]
        self.offer(sub_group.given, now)

    def _task(self, period: int) -> Task:
        if period not in self.tasks:
            self.tasks[period] = Task(period)
        return self.tasks[period]

    # Costs and periods

    def set_cost(self, name: str, cost: ExecutionCost) -> None:
        _, output = self._members[name]
        self._costs[name] = cost
        self._sub_groups[output.lead.period].forget_cost()

    def costs(self) -> list[SubGroupCost]:
        """The sub-groups in the order of the periods that they ask for."""
        return [self._sub_groups[period].cost(self._costs) for period in sorted(self._sub_groups)]

    def has_changed(self, costs: list[SubGroupCost], tolerance: float) -> bool:
        """Whether the plan must be made anew: costs per update have changed by more than this share since the last one,
        a sub-group runs with the period of one that is gone, or one has gone and come again."""
        change, planned = 0.0, dict(self._planned)
        for one in costs:
            change += _difference(one, planned.pop(one.period, None))
        change += sum(_difference(one, None) for one in planned.values())
        if change > tolerance * sum(_difference(one, None) for one in self._planned.values()):
            return True
        given = {sub_group.asked: sub_group.given for sub_group in self._sub_groups.values()}
        return any(
            period not in given or period != self.plan.periods.get(asked, asked) for asked, period in given.items()
        )

    def replan(self, plan: PeriodPlan, costs: list[SubGroupCost], now: int) -> bool:
        """Give every sub-group its period. Return whether one has another than before."""
        self.plan = plan
        self._planned = {one.period: one for one in costs}
        given = {sub_group.asked: sub_group.given for sub_group in self._sub_groups.values()}
        if given == plan.periods:
            return False
        self.tasks, self._heap, self._resting = {}, [], set()
        for asked in sorted(self._sub_groups):
            sub_group = self._sub_groups[asked]
            sub_group.give(plan.periods[asked], now)
            self._task(sub_group.given).sub_groups[asked] = sub_group
        return True

    # The heap of tasks

    def offer(self, period: int, now: int) -> None:
        """Put a task at its place in the heap. One that would only repeat its answers rests until the next update."""
        task = self.tasks.get(period)
        if task is None:
            return
        key = task.place(now)
        if key is None:
            self._resting.add(period)
        elif key != task.key:
            heappush(self._heap, key)
        task.key = key

    def offer_all(self, now: int) -> None:
        for period in self.tasks:
            self.offer(period, now)

    def wake(self, now: int) -> None:
        """There was an update."""
        resting, self._resting = self._resting, set()
        for period in sorted(resting):
            self.offer(period, now)

    @property
    def is_resting(self) -> bool:
        return bool(self._resting)

    def first(self) -> TaskKey | None:
        """The key of the first task in the heap."""
        while self._heap:
            key = self._heap[0]
            task = self.tasks.get(key[2])
            if task is not None and task.key == key:
                return key
            heappop(self._heap)
        return None

    def take(self) -> Task:
        """Take the first task out of the heap, to run it."""
        task = self.tasks[heappop(self._heap)[2]]
        task.key = None
        for sub_group in task.sub_groups.values():
            sub_group.joined = inf
        return task

    def holds(self, sub_group: SubGroup) -> bool:
        return self._sub_groups.get(sub_group.asked) is sub_group


def _discount(counter: Counter[int], priority: int) -> None:
    counter[priority] -= 1
    if not counter[priority]:
        del counter[priority]


def _difference(one: SubGroupCost, other: SubGroupCost | None) -> float:
    """How much more or less a sub-group costs per update."""
    shared, own = (other.shared, other.own) if other else (0.0, 0.0)
    return (abs(one.shared - shared) + abs(one.own - own)) / one.period


def _by_window(member: Member) -> tuple[float, int]:
    return member.query.window or inf, member.arrival
