"""Algorithms 9 to 11 of Golab's dissertation as they are printed: every task has a number d, which every update lowers.

The schedulers of the product (`schedulers/queries/`) keep absolute deadlines in heaps, and look only at what an event
changes. Here everything is looked at again after every event, one entry after another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from windrow.schedulers.queries.interface import (
    CostFunction,
    CostsChanged,
    PeriodicQuery,
    PeriodsPlanned,
    QueryArrives,
    QueryExpired,
    QueryLeaves,
    RunFinished,
    RunTogether,
    ScheduleDecision,
    ScheduleEvent,
    SynopsesUpdated,
    TaskRun,
    Why,
)

Plan = Callable[[dict[int, tuple[float, float]]], dict[int, int]]
"""The periods given, from the shared and own costs of the sub-groups by the periods that they ask for."""


def keep(costs: dict[int, tuple[float, float]]) -> dict[int, int]:
    return {asked: asked for asked in costs}


def shortest(costs: dict[int, tuple[float, float]]) -> dict[int, int]:
    return {asked: min(costs) for asked in costs}


@dataclass
class _Entry:
    """A query, how many updates its life still lasts, and when it came."""

    query: PeriodicQuery
    left: float
    arrival: int


@dataclass
class _Sub:
    """A sub-group: d, how many updates ago its answers were right, and d of what joined it since it began to run."""

    group: str
    asked: int
    given: int
    age: int
    d: float = inf
    joined: float = inf

    def join(self, age: int, d: float) -> None:
        self.age = max(self.age, age)
        self.d = min(self.d, d, self.given)
        self.joined = min(self.joined, d, self.given)


@dataclass
class _InProgress:
    group: str
    subs: list[_Sub]
    age: int = 0


class PlainScheduler:
    """`joint` says which tasks are in V(T): "none" (Algorithm 9), "same" (10), "late", or "late_pending" (11)."""

    def __init__(
        self, joint: str, plan: Plan, cost: CostFunction, slots: int = 1, ahead: bool = False, shares: bool = True
    ):
        self.joint, self.plan, self.cost = joint, plan, cost
        self.slots, self.ahead, self.shares = slots, ahead, shares
        self.entries: list[_Entry] = []
        self.subs: list[_Sub] = []
        self.groups: dict[str, tuple[str, int]] = {}
        self.updates: dict[str, int] = {}
        self.runs: dict[int, _InProgress] = {}
        self.counter = 0

    def on(self, event: ScheduleEvent) -> tuple[ScheduleDecision, ...]:
        decisions: list[ScheduleDecision] = []
        match event:
            case QueryArrives(query):
                self._arrive(query)
            case QueryLeaves(name):
                self._leave(name)
            case SynopsesUpdated(clock, count):
                decisions += self._update(clock, count)
            case RunFinished(run):
                decisions += self._finish(run)
            case CostsChanged():
                pass  # costs are asked for whenever they are needed
        while len(self.runs) < self.slots and (started := self._next()) is not None:
            decisions.append(started)
        return tuple(decisions)

    # Queries

    def _lead(self, group: str, answers: str | None, name: str) -> PeriodicQuery | None:
        """The fastest of the queries that differ only in their period; `name` is for those that are like no other."""
        alike = [
            (entry.query.period, entry.arrival, entry.query)
            for entry in self.entries
            if entry.query.group == group
            and (entry.query.name == name or (self.shares and answers is not None and entry.query.answers == answers))
        ]
        return min(alike)[2] if alike else None

    def _leads(self, group: str) -> list[PeriodicQuery]:
        every = [entry.query for entry in self.entries if entry.query.group == group]
        return [query for query in every if self._lead(group, query.answers, query.name) == query]

    def _arrive(self, query: PeriodicQuery) -> None:
        self.counter += 1
        self.groups.setdefault(query.group, (query.clock, self.counter))
        self.updates.setdefault(query.clock, 0)
        before = self._lead(query.group, query.answers, query.name)
        self.entries.append(_Entry(query, query.expires_after or inf, self.counter))
        after = self._lead(query.group, query.answers, query.name)
        if before is None:
            self._sub(query.group, query.period).join(0, query.period)
        elif after is not None and after.period != before.period:
            old = self._sub(query.group, before.period)
            self._sub(query.group, after.period, old.age).join(old.age, old.d)
        self._tidy()

    def _leave(self, name: str) -> None:
        (query,) = (entry.query for entry in self.entries if entry.query.name == name)
        before = self._lead(query.group, query.answers, name)
        self.entries = [entry for entry in self.entries if entry.query.name != name]
        after = self._lead(query.group, query.answers, name)
        if before is not None and after is not None and after.period != before.period:
            old = self._sub(query.group, before.period)
            self._sub(query.group, after.period, old.age).join(old.age, after.period - old.age)
        self._tidy()

    def _sub(self, group: str, asked: int, age: int = 0) -> _Sub:
        for sub in self.subs:
            if (sub.group, sub.asked) == (group, asked):
                return sub
        self.subs.append(_Sub(group, asked, asked, age))
        return self.subs[-1]

    def _tidy(self) -> None:
        """Sub-groups and groups without queries are gone; a group that runs stays."""
        self.subs = [sub for sub in self.subs if any(one.period == sub.asked for one in self._leads(sub.group))]
        used = {entry.query.group for entry in self.entries} | {run.group for run in self.runs.values()}
        self.groups = {name: one for name, one in self.groups.items() if name in used}

    # Updates and runs

    def _update(self, clock: str, count: int) -> list[ScheduleDecision]:
        self.updates[clock] = self.updates.get(clock, 0) + count
        for sub in self.subs:
            if self.groups[sub.group][0] == clock:
                sub.d, sub.joined, sub.age = sub.d - count, sub.joined - count, sub.age + count
        for run in self.runs.values():
            if self.groups[run.group][0] == clock:
                run.age += count
        decisions: list[ScheduleDecision] = []
        for entry in self.entries:
            entry.left -= count if entry.query.clock == clock else 0
        for entry in sorted(self.entries, key=lambda entry: (entry.left, entry.arrival)):
            if entry.left <= 0:
                self._leave(entry.query.name)
                decisions.append(QueryExpired(entry.query.name))
        for group in sorted(self.groups, key=lambda name: self.groups[name][1]):
            if self.groups[group][0] == clock:
                decisions += self._plan(group)
        return decisions

    def _plan(self, group: str) -> list[ScheduleDecision]:
        subs = sorted((sub for sub in self.subs if sub.group == group), key=lambda sub: sub.asked)
        if not subs or any(run.group == group for run in self.runs.values()):
            return []
        costs = {}
        for sub in subs:
            each = [self.cost(query) for query in self._leads(group) if query.period == sub.asked]
            costs[sub.asked] = (max(one.shared for one in each), sum(one.own for one in each))
        plan = self.plan(costs)
        if all(sub.given == plan[sub.asked] for sub in subs):
            return []
        for sub in subs:
            if sub.given != plan[sub.asked]:
                sub.given = plan[sub.asked]
                sub.d = min(sub.asked - sub.age, sub.given)
        return [PeriodsPlanned(group, tuple(sorted(plan.items())))]

    def _finish(self, number: int) -> list[ScheduleDecision]:
        run = self.runs.pop(number)
        for sub in run.subs:
            if any(sub is one for one in self.subs):
                sub.age = run.age
                sub.d = min(sub.given - run.age, sub.joined)
        self._tidy()
        return self._plan(run.group) if run.group in self.groups else []

    def _next(self) -> RunTogether | None:
        busy = {run.group for run in self.runs.values()}
        tasks: dict[tuple[str, int], list[_Sub]] = {}
        for sub in self.subs:
            if sub.group not in busy:
                tasks.setdefault((sub.group, sub.given), []).append(sub)
        ready = {task: subs for task, subs in tasks.items() if max(sub.age for sub in subs) > 0}
        d = {task: int(min(sub.d for sub in subs)) for task, subs in ready.items()}
        if not ready or (min(d.values()) > 0 and not self.ahead):
            return None
        first = min(ready, key=lambda task: (d[task], -self._priority(ready[task]), self.groups[task[0]][1], task[1]))
        v = d[first]
        others = [task for task in ready if task[0] == first[0] and task != first and self._joins(d[task], v)]
        others.sort(key=lambda task: (d[task], -self._priority(ready[task]), task[1]))
        return self._start([first, *others], ready, d)

    def _joins(self, d: int, v: int) -> bool:
        if self.joint == "none":
            return False
        if v < 0 and self.joint == "late":
            return d < 0
        if v < 0 and self.joint == "late_pending":
            return d <= 0
        return d == v

    def _start(
        self, tasks: list[tuple[str, int]], subs: dict[tuple[str, int], list[_Sub]], d: dict[tuple[str, int], int]
    ) -> RunTogether:
        self.counter += 1
        (group, _), v = tasks[0], d[tasks[0]]
        runs = []
        for task in tasks:
            why = Why.SAME if d[task] == v else Why.LATE if d[task] < 0 else Why.PENDING
            names = self._names(group, {sub.asked for sub in subs[task]})
            runs.append(TaskRun(task[1], names, d[task], Why.EARLIEST if task == tasks[0] else why))
        taken = [sub for task in tasks for sub in subs[task]]
        for sub in taken:
            sub.joined = inf
        self.runs[self.counter] = _InProgress(group, taken)
        clock = self.groups[group][0]
        return RunTogether(self.counter, group, clock, self.updates[clock], tuple(runs))

    def _priority(self, subs: list[_Sub]) -> int:
        names = {name for sub in subs for name in self._names(sub.group, {sub.asked})}
        return max(entry.query.priority for entry in self.entries if entry.query.name in names)

    def _names(self, group: str, asked: set[int]) -> tuple[str, ...]:
        """The queries whose answers, or those that they get, are asked for with these periods; short windows first."""
        found = []
        for entry in self.entries:
            lead = self._lead(group, entry.query.answers, entry.query.name) if entry.query.group == group else None
            if lead is not None and lead.period in asked:
                found.append((entry.query.window or inf, entry.arrival, entry.query.name))
        return tuple(name for _, _, name in sorted(found))
