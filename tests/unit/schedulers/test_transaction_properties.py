"""Random interleavings: every scheduler gives the isolation that it promises, and every query ends.

`make test-matrix` tries 100,000 interleavings of each scheduler, `make test` some of them. Each depends on its number
alone: `run(maker, options, number)` repeats it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from zlib import crc32

import pytest
from support.matrix import sized
from support.transactions import Driver

from windrow.schedulers.check_history import check_history
from windrow.schedulers.history import Isolation, Op, Operation, TransactionBegins
from windrow.schedulers.panes import Pane, SourceKind
from windrow.schedulers.transactions import (
    AbortQuery,
    CommitQuery,
    CommitUpdate,
    HoldUpdate,
    LatestScheduler,
    ReadTransaction,
    SerialScheduler,
    TtuScheduler,
    WindowScheduler,
)
from windrow.schedulers.transactions.running import RunningQuery

COUNT = sized(400, 10_000, 100_000)
CHUNKS = 20
RESTARTS = 3


def any_order(query: RunningQuery) -> Pane:
    """An order without any sense, and the same in each run."""
    panes = [pane for _, unread in query.unread() for pane in unread]
    return panes[crc32(f"{query.attempt_name} {len(panes)} {panes[0]}".encode()) % len(panes)]


SCHEDULERS = {
    "serial": SerialScheduler,
    "window": WindowScheduler,
    "latest": LatestScheduler,
    "ttu": TtuScheduler,
    "latest_in_any_order": partial(LatestScheduler, order=any_order),  # Theorem 7.3
}


class Interleaving:
    """A random run of a scheduler: sources, queries, window updates, reads, cancellations and holds that expire."""

    def __init__(self, make: Callable[..., object], number: int):
        self.random = random = Random(f"interleaving {number}")
        self.driver = Driver(make, slots=random.choice((1, 1, 2, 3)))  # type: ignore[arg-type]
        self.widest = random.choice((1, 1, 3))
        self.is_mixed = random.random() < 0.4  # sub-results and views, and isolation by query
        for name in ("s", "t")[: random.choice((1, 1, 2))]:
            kind = random.choice((*SourceKind, SourceKind.RESULT)) if self.is_mixed else SourceKind.WINDOW
            start = 4 if kind is SourceKind.RESULT else 0
            cuts = self._cuts(start, random.randint(1, 5))
            self.driver.open(name, cuts, kind, 4 if kind is SourceKind.STRICT else None)
        self.started = 0
        self.cancelled = 0

    def run(self) -> Driver:
        steps = (self._begin, self._update, self._finish, self._cancel, self._expire, self._together)
        weights = [self.random.choice((1, 2, 5)) for _ in steps]
        for _ in range(self.random.randint(5, 40)):
            self.random.choices(steps, weights)[0]()
        for _ in range(2000):
            if not self.driver.answers:
                break
            if self.driver.reads:
                self._finish()
            self._expire()
        while self.driver.reads:
            self._finish()
        return self.driver

    def _cuts(self, start: int, panes: int) -> list[int]:
        cuts = [start]
        for _ in range(panes):
            cuts.append(cuts[-1] + self.random.randint(1, self.widest))
        return cuts

    def _begin(self) -> None:
        if self.started - len(self.driver.committed) > 4:
            return
        self.started += 1
        random, sources = self.random, list(self.driver.stores)
        chosen = sources if random.random() < 0.5 else sources[:1]
        asked = random.choice(tuple(Isolation)) if self.is_mixed else None
        self.driver.begin(
            ReadTransaction(
                f"Q{self.started}",
                {name: random.randint(1, 5 * self.widest) for name in chosen},
                priority=random.choice((0, 0, 1, 2)),
                isolation=asked if asked in self.driver.scheduler.given else None,
                keeps_partials=random.random() < 0.5,
                tick=random.choice((1, 1, 2)),
                run=random.choice((1, 1, 2)),
            )
        )

    def _update(self) -> None:
        name = self.random.choice(list(self.driver.stores))
        waiting = [update for update in self.driver.held if update.source == name]
        store = self.driver.stores[name]
        upto = waiting[-1].upto if waiting else store.upto
        if store.kind is SourceKind.WINDOW:
            cuts = self._cuts(upto, self.random.choice((1, 1, 2)))
            self.driver.update(name, tuple(Pane(name, a, b) for a, b in zip(cuts, cuts[1:], strict=False)), cuts[-1])
        elif store.kind is SourceKind.STRICT:
            last = max(point for point, _ in store.tuples) + 1
            cut = self.random.randint(1, last - 1) if last > 1 else 1
            self.driver.update(name, tuple(Pane(name, a, b) for a, b in ((0, cut), (cut, last)) if a < b), upto + 1)
        else:
            points = {point for point, _ in store.tuples} | {
                point for one in waiting for pane in one.panes for point in (pane.start, pane.end - 1)
            }
            last = max((upto, *(point + 1 for point in points)))
            into = [Pane(name, point, point + 1) for point in range(upto + 1, last + 1) if self.random.random() < 0.5]
            if into and into[-1].start == last or self.random.random() < 0.5:
                self.driver.update(name, tuple(into), upto + 1)

    def _finish(self) -> None:
        if self.driver.reads:
            self.driver.finish(self.random.choice(sorted(self.driver.reads)))

    def _together(self) -> None:
        with self.driver.together():
            steps = [self._begin, self._update, self._finish]
            self.random.shuffle(steps)
            for step in steps:
                step()

    def _cancel(self) -> None:
        if self.driver.answers and self.random.random() < 0.2:
            self.cancelled += 1
            self.driver.cancel(self.random.choice(sorted(self.driver.answers)))

    def _expire(self) -> None:
        if self.driver.held and self.random.random() < 0.3:
            self.driver.expire(self.random.choice(self.driver.held))


def run(make: Callable[..., object], number: int) -> None:
    """One interleaving, and everything that must hold of it."""
    interleaving = Interleaving(make, number)
    driver = interleaving.run()
    assert not driver.problems, driver.problems
    history = driver.history()
    check = check_history(history)
    claims = history.committed_queries
    assert not check.violations_of(claims)
    assert not driver.answers and interleaving.started == len(driver.committed) + interleaving.cancelled
    assert not driver.held and not driver.reads
    committed = [int(one.update.name) for one in driver.decisions if isinstance(one, CommitUpdate)]
    assert sorted(committed) == list(range(1, driver.count + 1))
    assert all(one.aborts <= RESTARTS + 1 for one in driver.committed)
    assert_kept(driver, check.commit_order_preserving != ())


def assert_kept(driver: Driver, is_out_of_order: bool) -> None:
    """What each kind of scheduler promises beyond isolation."""
    claimed = {one.isolation for one in driver.committed}
    if isinstance(driver.scheduler, WindowScheduler):
        assert claimed <= {Isolation.WINDOW}
        assert not any(isinstance(one, AbortQuery | HoldUpdate) for one in driver.decisions)
    elif isinstance(driver.scheduler, SerialScheduler):
        assert not any(isinstance(one, AbortQuery) for one in driver.decisions)
        assert one_at_a_time(driver)
    if Isolation.WINDOW not in claimed:
        assert not is_out_of_order  # Theorem 7.5: updates commit at once, so LWS is CPS
    for one in driver.committed:
        if one.isolation is Isolation.SERIAL:
            assert undisturbed(driver, one.query) or not isinstance(driver.scheduler, SerialScheduler)


def one_at_a_time(driver: Driver) -> bool:
    """Whether each query ends before the next begins."""
    queries = {entry.by for entry in driver.entries if isinstance(entry, TransactionBegins)}
    running = 0
    for entry in driver.entries:
        if isinstance(entry, TransactionBegins):
            running += 1
        elif isinstance(entry, Operation) and entry.by in queries and entry.op in (Op.COMMIT, Op.ABORT):
            running -= 1
        if running > 1:
            return False
    return True


def undisturbed(driver: Driver, query: str) -> bool:
    """Whether no update was committed to a query's sources while it ran."""
    sources: set[str] = set()
    for entry in driver.entries:
        if isinstance(entry, TransactionBegins) and entry.by == query:
            sources = set(entry.lengths)
        elif isinstance(entry, Operation):
            if entry.by == query and entry.op is Op.COMMIT:
                return True
            if entry.op is Op.WRITE and entry.pane is not None and entry.pane.source in sources:
                return False
    return True


@pytest.mark.matrix
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("name", SCHEDULERS)
def test_random_interleavings(name: str, chunk: int) -> None:
    for number in range(chunk * COUNT // CHUNKS, (chunk + 1) * COUNT // CHUNKS):
        try:
            run(SCHEDULERS[name], number)
        except AssertionError as error:
            raise AssertionError(f"interleaving {number} of {name}: {error}") from error


def test_interleavings_are_of_every_kind() -> None:
    """The random runs have what they should test: aborts, re-scans, holds, demoted queries, passed-on tuples."""
    seen: set[str] = set()
    for number in range(200):
        for make in (TtuScheduler, LatestScheduler):
            driver = Interleaving(make, number).run()
            seen |= {type(one).__name__ for one in driver.decisions}
            for one in driver.committed:
                assert isinstance(one, CommitQuery)
                seen |= {f"{one.isolation.value} after {min(one.aborts, 1)} aborts", f"{min(one.rescans, 1)} rescans"}
    assert seen >= {
        "AbortQuery",
        "CommitUpdate",
        "DropPanes",
        "HoldUpdate",
        "PassOn",
        "PinVersion",
        "latest after 0 aborts",
        "latest after 1 aborts",
        "window after 0 aborts",
        "serial after 0 aborts",
        "1 rescans",
    }
