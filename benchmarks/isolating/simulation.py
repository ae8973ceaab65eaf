"""A discrete-event simulation of one processor that a transaction scheduler drives.

An operation is the scan of a pane or the write of a pane; none is interrupted, as in the text (Golab's dissertation,
section 7.1). What happens during an operation is told to the scheduler at its end, in one call. A window update that the
scheduler commits is written then: under serial execution that is after the query which held it back. Periodic queries are
re-executed round-robin, one transaction at a time, without a pause; each event costs the time of a decision.

After the end of the test nothing new is asked. What was asked before is still answered, and every update committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from isolating.costs import Costs
from isolating.workload import ONE_TIME, Asked, Workload
from windrow.schedulers.history import Entry
from windrow.schedulers.panes import Pane, WindowUpdate
from windrow.schedulers.transactions import (
    AbortQuery,
    CommitQuery,
    CommitUpdate,
    LatestScheduler,
    QueryBegins,
    ReadFinished,
    ReadPanes,
    ReadTransaction,
    SerialScheduler,
    SourceOpens,
    TransactionDecision,
    TransactionEvent,
    TransactionScheduler,
    TtuScheduler,
    UpdateReady,
    WindowScheduler,
)
from windrow.schedulers.transactions.machine import ReadOrder
from windrow.schedulers.transactions.running import RunningQuery

SOURCE = "packets"
MS = 1000
URGENT = 1


def by_slot(panes: int, width: int) -> ReadOrder:
    """The order of the circular array in which the text stores a window: pane i is in slot i mod n (Algorithm 7)."""

    def first_slot(query: RunningQuery) -> Pane:
        ((_, unread),) = query.unread()
        return min(unread, key=lambda pane: pane.start // width % panes)

    return first_slot


Make = Callable[..., TransactionScheduler]


def schedulers(panes: int, width: int) -> dict[str, Make]:
    """The four of the figures, and Algorithm 7 with Windrow's own order, oldest pane first."""
    return {
        "Serial": SerialScheduler,
        "WS": WindowScheduler,
        "LWS": partial(LatestScheduler, order=by_slot(panes, width)),
        "TTU": TtuScheduler,
        "LWS, oldest first": LatestScheduler,
    }


@dataclass(frozen=True)
class Answered:
    """An answer: of which query (a group of periodic ones has a number), asked and given when, showing the window that
    ends at `instant_s`, whose update was committed at `committed_s`."""

    asked: Asked
    group: int | None
    asked_s: float
    at_s: float
    instant_s: float
    committed_s: float


@dataclass
class Outcome:
    """What happened in a test. `updates` has the time of commit of each, by pane; `ended_s` is after what was still to be
    answered."""

    workload: Workload
    answers: list[Answered] = field(default_factory=list)
    aborts: int = 0
    updates: dict[int, float] = field(default_factory=dict)
    asked: int = 0
    events: int = 0
    ended_s: float = 0.0


@dataclass
class _Running:
    asked: Asked
    group: int | None
    asked_s: float


class Simulation:
    """One test of one scheduler."""

    def __init__(
        self,
        workload: Workload,
        make: Make,
        costs: Costs,
        event_s: float,
        record: Callable[[Entry], None] | None = None,
    ):
        self.workload = workload
        self.width = round(workload.setting.pane_s * MS)
        self.scheduler = make(record=record)
        self.event_s = event_s
        self.outcome = Outcome(workload)
        self.now_s = 0.0
        self._scan_s: Mapping[str, list[float]] = {
            kind: [scan.at(rows) for rows in workload.rows] for kind, scan in costs.scans.items()
        }
        self._write_s = [costs.write.at(rows) for rows in workload.rows]
        self._running: dict[str, _Running] = {}
        self._arrivals = deque(sorted(self._all_arrivals(), key=lambda one: one[0]))
        self._read: ReadPanes | None = None
        self._is_periodic_running = False
        self._executions = 0

    def run(self) -> Outcome:
        n = self.workload.setting.panes
        self.scheduler.on(SourceOpens(SOURCE, tuple(self._pane(i) for i in range(-n, 0)), 0))
        self._execute_next()
        while self._read is not None or self._arrivals:
            if self._read is None:
                self.now_s = max(self.now_s, self._arrivals[0][0])
            self._step()
        self.outcome.ended_s = self.now_s
        return self.outcome

    # What happens

    def _step(self) -> None:
        """The operation in progress ends, and the next begins."""
        events: list[TransactionEvent] = []
        if self._read is not None:
            self.now_s += self._took(self._read)
            events.append(ReadFinished(self._read.read))
            self._read = None
        while self._arrivals and self._arrivals[0][0] <= self.now_s:
            events.append(self._arrivals.popleft()[1])
        self._tell(*events)
        self._execute_next()

    def _execute_next(self) -> None:
        """The next group of periodic queries begins, unless one runs or the test is over."""
        while not self._is_periodic_running and self.now_s < self.workload.setting.window_s:
            group = self._executions % len(self.workload.groups)
            self._executions += 1
            self._is_periodic_running = True
            asked = self.workload.groups[group]
            self._tell(self._begins(f"P{self._executions}", _Running(asked, group, self.now_s)))

    def _tell(self, *events: TransactionEvent) -> None:
        self.outcome.events += len(events)
        self.now_s += self.event_s * len(events)
        for decision in self.scheduler.on(*events):
            self._carry_out(decision)

    def _carry_out(self, decision: TransactionDecision) -> None:
        match decision:
            case ReadPanes():
                self._read = decision
            case CommitUpdate(update):
                pane = update.upto // self.width - 1
                if pane in self.outcome.updates:
                    raise RuntimeError(f"update {update.name} is committed twice")
                self.now_s += self._write_s[self.workload.setting.panes + pane]
                self.outcome.updates[pane] = self.now_s
            case CommitQuery(query, instant=instant):
                self._answer(query, instant)
            case AbortQuery():
                self.outcome.aborts += 1

    def _answer(self, query: str, instant: int) -> None:
        running = self._running.pop(query)
        if running.group is not None:
            self._is_periodic_running = False
        committed_s = self.outcome.updates.get(instant // self.width - 1, 0.0)
        self.outcome.answers.append(
            Answered(running.asked, running.group, running.asked_s, self.now_s, instant / MS, committed_s)
        )

    # What there is

    def _all_arrivals(self) -> list[tuple[float, TransactionEvent]]:
        setting = self.workload.setting
        found: list[tuple[float, TransactionEvent]] = []
        for i in range(setting.panes):
            pane = self._pane(i)
            kept_from = pane.end - setting.panes * self.width
            found.append((pane.end / MS, UpdateReady(WindowUpdate(f"T{i}", SOURCE, (pane,), pane.end, kept_from))))
        for number, asked in enumerate(self.workload.one_time):
            found.append((asked.at_s, self._begins(f"O{number}", _Running(asked, None, asked.at_s))))
        return found

    def _begins(self, name: str, running: _Running) -> QueryBegins:
        self.outcome.asked += 1
        self._running[name] = running
        priority = URGENT if running.asked.kind == ONE_TIME else 0
        return QueryBegins(ReadTransaction(name, {SOURCE: running.asked.panes * self.width}, priority))

    def _pane(self, i: int) -> Pane:
        return Pane(SOURCE, i * self.width, (i + 1) * self.width)

    def _took(self, read: ReadPanes) -> float:
        scan_s, n = self._scan_s[self._running[read.query].asked.kind], self.workload.setting.panes
        return sum(scan_s[n + pane.start // self.width] for pane in read.panes)
