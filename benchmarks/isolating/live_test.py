"""One test of one scheduler on a live state: periodic and one-time queries in threads, and a window update per pane."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any

from isolating.live_packets import LivePackets, text_of
from isolating.simulation import URGENT, Answered, Outcome
from isolating.workload import Asked, Workload
from windrow.schedulers.check_history import check_history
from windrow.schedulers.history import Entry, History, Op, Operation
from windrow.schedulers.transactions import LatestScheduler, ReadTransaction, SerialScheduler, TtuScheduler
from windrow.schedulers.transactions.machine import TransactionMachine

MS = 1000
MOST_ONE_TIME = 16
"""So many one-time queries wait for their answers at a time; more wait to be asked."""


class AbortingScheduler(LatestScheduler):
    """Algorithm 7 of the text: a conflict aborts a query. Windrow's own re-scan is told of no partial results."""

    def _begin(self, transaction: ReadTransaction) -> None:
        super()._begin(replace(transaction, keeps_partials=False))


@dataclass(frozen=True)
class LiveScheduler:
    """A scheduler of the text: the one that the engine is given, and the isolation that statements ask for."""

    make: Callable[..., TransactionMachine]
    terms: str


SCHEDULERS = {
    "Serial": LiveScheduler(SerialScheduler, " ISOLATION 'serial'"),
    "WS": LiveScheduler(TtuScheduler, " ISOLATION 'window'"),
    "LWS": LiveScheduler(AbortingScheduler, " ISOLATION 'latest'"),
    "TTU": LiveScheduler(TtuScheduler, " ISOLATION 'latest'"),
}


@dataclass(frozen=True)
class Given:
    """An answer as it came. `behind_s`: what the answer itself says of its staleness (`Result.stale_by`)."""

    answered: Answered
    instant: int
    answered_from: str
    aborts: int
    behind_s: float
    rows: list[dict[str, object]] = field(repr=False)


@dataclass(frozen=True)
class LiveOutcome:
    """What a test gave. `wrong` names answers that are not those of the window that they claim, that were not read
    from panes, or lack the isolation that they claim. `update_s`: how long each update took to be committed."""

    outcome: Outcome
    behind_s: float
    reads: float
    update_s: tuple[float, ...]
    wrong: tuple[str, ...]


class LiveTest:
    """A test that begins with pane `first`: those before it are there."""

    def __init__(
        self, wr: Any, stream: str, packets: LivePackets, workload: Workload, first: int, scheduler: LiveScheduler
    ):
        self.wr = wr
        self.stream = stream
        self.packets = packets
        self.workload = workload
        self.first = first
        self.scheduler = scheduler
        self._origin = 0.0
        self._given: list[Given] = []
        self._turns = cycle(range(len(workload.groups)))
        self._lock = threading.Lock()
        self._is_failed = threading.Event()

    def run(self, threads: int) -> LiveOutcome:
        entries: list[Entry] = []
        coordinator = self.wr._engine.coordinator
        coordinator.schedule_by(self.scheduler.make)
        with coordinator.recording(entries.append), ThreadPoolExecutor(threads + 1 + MOST_ONE_TIME) as pool:
            self._open()
            entries_before = len(entries)
            self._origin = time.perf_counter()
            running: list[Future[Any]] = [pool.submit(self._watched, self._periodic) for _ in range(threads)]
            running.append(pool.submit(self._watched, lambda: self._one_time(pool)))
            update_s = self._update()
            for one in running:
                one.result()
        self._given.sort(key=lambda one: one.answered.at_s)
        answers = [one.answered for one in self._given]
        outcome = Outcome(self.workload, answers, sum(one.aborts for one in self._given), asked=len(answers))
        reads = sum(isinstance(one, Operation) and one.op is Op.READ for one in entries[entries_before:])
        behind_s = sum(one.behind_s for one in self._given) / max(1, len(answers))
        wrong = (*self._wrong(), *_violations(entries))
        return LiveOutcome(outcome, behind_s, reads / max(1, len(answers)), update_s, wrong)

    def _open(self) -> None:
        """Ask for everything once, the whole window first: that cuts its panes, and each text is bound only once."""
        setting = self.workload.setting
        whole = replace(self.workload.groups[0], panes=setting.panes)
        for asked in dict.fromkeys(
            (whole, *self.workload.groups, *(replace(o, at_s=0.0) for o in self.workload.one_time))
        ):
            self.wr.sql(self._text(asked, None))

    def _text(self, asked: Asked, group: int | None) -> str:
        urgent = f" PRIORITY {URGENT}" if group is None else ""
        return text_of(asked, self.stream, self.packets.pane_ms) + self.scheduler.terms + urgent

    # -- threads -------------------------------------------------------------------------------

    def _now(self) -> float:
        return time.perf_counter() - self._origin

    def _sleep_until(self, at_s: float) -> None:
        time.sleep(max(0.0, at_s - self._now()))

    def _watched(self, do: Callable[[], None]) -> None:
        try:
            do()
        except BaseException:
            self._is_failed.set()
            raise

    def _periodic(self) -> None:
        while self._now() < self.workload.setting.window_s and not self._is_failed.is_set():
            with self._lock:
                group = next(self._turns)
            self._ask(self.workload.groups[group], group)

    def _one_time(self, pool: ThreadPoolExecutor) -> None:
        asked: list[Future[None]] = []
        for one in self.workload.one_time:
            self._sleep_until(one.at_s)
            asked.append(pool.submit(self._ask, one, None))
        for waiting in asked:
            waiting.result()

    def _update(self) -> tuple[float, ...]:
        """Complete a pane when its time has come; how long each took."""
        took = []
        for i in range(self.workload.setting.panes):
            rows = self.packets.update(self.first + i)
            self._sleep_until((i + 1) * self.workload.setting.pane_s)
            if self._is_failed.is_set():
                break
            begin = self._now()
            self.wr.deposit(self.stream, rows)
            took.append(self._now() - begin)
        return tuple(took)

    def _ask(self, asked: Asked, group: int | None) -> None:
        asked_s = self._now()
        found = self.wr.sql(self._text(asked, group))
        at_s = self._now()
        instant_s = (found.window - self.first * self.packets.pane_ms) / MS
        answered = Answered(asked, group, asked_s, at_s, instant_s, instant_s)
        behind_s = 0.0 if found.stale_by is None else found.stale_by.behind / MS
        given = Given(answered, found.window, found.answered_from, found.aborts, behind_s, found.rows())
        with self._lock:
            self._given.append(given)

    # -- checks --------------------------------------------------------------------------------

    def _wrong(self) -> list[str]:
        found = []
        for one in self._given:
            asked = one.answered.asked
            if one.answered_from != "driver":
                found.append(f"{asked} was answered from {one.answered_from}")
            elif one.rows != self.packets.expected(asked, one.instant):
                found.append(f"{asked} as of {one.instant}: {one.rows[:3]}")
        return found


def _violations(entries: list[Entry]) -> list[str]:
    history = History.of(entries)
    return [str(one) for one in check_history(history).violations_of(history.committed_queries)]
