"""Drives a transaction scheduler by random interleavings, and carries its decisions out as the engine would.

Each pane's content is what was written to it, by whom; a query's answer is made of the partial results that its reads
gave, after all drops and insertions. So an answer can be compared with the windows themselves, and not only the
history of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from windrow.schedulers.history import Entry, History, Isolation
from windrow.schedulers.panes import Pane, SourceKind, WindowUpdate, bounds_of, instant_of
from windrow.schedulers.transactions import (
    AbortQuery,
    CommitQuery,
    CommitUpdate,
    DropPanes,
    HoldExpired,
    HoldUpdate,
    PassOn,
    PinVersion,
    QueryBegins,
    QueryCancelled,
    ReadFinished,
    ReadPanes,
    ReadTransaction,
    SourceOpens,
    TransactionDecision,
    TransactionEvent,
    TransactionScheduler,
    UpdateReady,
)

Content = frozenset[tuple[int, str]]
"""Tuples of a source: a point, and the update that brought it."""


@dataclass
class Store:
    """One source, with all its tuples: what is there is computed anew from the updates, by definition."""

    kind: SourceKind
    first: int
    upto: int
    tuples: set[tuple[int, str]] = field(default_factory=set)

    def copy(self) -> Store:
        return Store(self.kind, self.first, self.upto, set(self.tuples))

    def commit(self, update: WindowUpdate) -> None:
        if self.kind is SourceKind.STRICT:
            self.tuples = set()
        for pane in update.panes:
            self.tuples |= {(point, update.name) for point in range(pane.start, pane.end)}
        self.upto = update.upto

    def read(self, low: int | None, high: int | None) -> Content:
        return frozenset(
            (point, by) for point, by in self.tuples if (low is None or point >= low) and (high is None or point < high)
        )


@dataclass
class RunningAnswer:
    """What the engine has of a query: its partial results by pane, and the read in progress."""

    query: ReadTransaction
    partials: dict[Pane, Content] = field(default_factory=dict)
    pending: dict[Pane, Content] = field(default_factory=dict)
    pinned: dict[str, Store] | None = None
    window: Content = frozenset()


class Driver:
    """Sources, queries and reads in progress around a scheduler."""

    def __init__(self, make: Callable[..., TransactionScheduler], **options: object):
        self.entries: list[Entry] = []
        self.scheduler = make(record=self.entries.append, **options)
        self.stores: dict[str, Store] = {}
        self.answers: dict[str, RunningAnswer] = {}
        self.reads: dict[int, tuple[str, int, tuple[Pane, ...]]] = {}
        self.attempts: dict[str, int] = {}
        self.held: list[WindowUpdate] = []
        self.committed: list[CommitQuery] = []
        self.decisions: list[TransactionDecision] = []
        self.problems: list[str] = []
        self.begun: set[str] = set()
        self.count = 0
        self._waiting: list[TransactionEvent] | None = None

    @property
    def is_serial(self) -> bool:
        return self.scheduler.isolation is Isolation.SERIAL

    @contextmanager
    def together(self) -> Iterator[None]:
        """What happens inside is told in one call."""
        self._waiting = []
        yield
        events, self._waiting = self._waiting, None
        self.tell(*events)

    def tell(self, *events: TransactionEvent) -> tuple[TransactionDecision, ...]:
        if self._waiting is not None:
            self._waiting += events
            return ()
        decisions = self.scheduler.on(*events)
        for decision in decisions:
            self._carry_out(decision)
        self.decisions += decisions
        return decisions

    def open(self, source: str, cuts: list[int], kind: SourceKind = SourceKind.WINDOW, upto: int | None = None) -> None:
        panes = tuple(Pane(source, a, b) for a, b in zip(cuts, cuts[1:], strict=False))
        if upto is None:
            upto = cuts[-1] if kind is SourceKind.WINDOW else cuts[0]
        store = self.stores[source] = Store(kind, cuts[0], upto)
        store.tuples = {(point, "0") for point in range(cuts[0], cuts[-1])}
        self.tell(SourceOpens(source, panes, upto, kind))

    def begin(self, query: ReadTransaction) -> None:
        self.answers[query.name] = RunningAnswer(query)
        self.attempts[query.name] = 1
        self.tell(QueryBegins(query))

    def update(self, source: str, panes: tuple[Pane, ...], upto: int) -> WindowUpdate:
        self.count += 1
        update = WindowUpdate(str(self.count), source, panes, upto)
        self.tell(UpdateReady(update))
        return update

    def finish(self, read: int) -> None:
        """A read ends: what it found becomes partial results, unless it was dropped or its attempt aborted."""
        query, attempt, panes = self.reads.pop(read)
        answer = self.answers.get(query)
        if answer is not None and self.attempts.get(query) == attempt:
            answer.partials |= {pane: answer.pending[pane] for pane in panes if pane in answer.pending}
            answer.pending = {}
        self.tell(ReadFinished(read))

    def cancel(self, query: str) -> None:
        del self.answers[query]
        del self.attempts[query]
        self.tell(QueryCancelled(query))

    def expire(self, update: WindowUpdate) -> None:
        self.tell(HoldExpired(update.name))
        if update in self.held:
            self.problems.append(f"update {update.name} is held longer than it may be")

    def window(self, query: ReadTransaction) -> Content:
        """The tuples in a query's windows now, by definition."""
        instant = instant_of((self.stores[name].upto for name in query.lengths), query.tick)
        found: set[tuple[int, str]] = set()
        for name, length in query.lengths.items():
            store = self.stores[name]
            low, high = bounds_of(store.kind, length, instant, store.upto)
            found |= {(hash((name, point)), by) for point, by in store.read(low, high)}
        return frozenset(found)

    def history(self) -> History:
        return History.of(self.entries)

    # Decisions

    def _carry_out(self, decision: TransactionDecision) -> None:
        match decision:
            case ReadPanes(read, name, attempt, panes):
                self._read(read, name, attempt, panes)
            case PinVersion(name):
                answer = self.answers[name]
                answer.pinned = {name: store.copy() for name, store in self.stores.items()}
                answer.window = self.window(answer.query)
            case DropPanes(name, panes, _):
                if not self.answers[name].query.keeps_partials:
                    self.problems.append(f"{name} has no partial results to drop")
                for pane in panes:
                    for results in (self.answers[name].partials, self.answers[name].pending):
                        results.pop(pane, None)
            case PassOn(name, panes, update):
                self._pass_on(name, panes, update)
            case AbortQuery(name, attempt):
                if self.answers[name].query.keeps_partials:
                    self.problems.append(f"{name} could have dropped what left")
                self.attempts[name] = attempt + 1
                self.answers[name] = RunningAnswer(self.answers[name].query)
            case CommitQuery():
                self._answer(decision)
            case CommitUpdate(update):
                if update in self.held:
                    self.held.remove(update)
                self.stores[update.source].commit(update)
            case HoldUpdate(update):
                self.held.append(update)

    def _read(self, read: int, name: str, attempt: int, panes: tuple[Pane, ...]) -> None:
        self._check_priority(name)
        self.reads[read] = (name, attempt, panes)
        answer = self.answers[name]
        stores = answer.pinned or self.stores
        for pane in panes:
            answer.pending[pane] = stores[pane.source].read(pane.start, pane.end)

    def _check_priority(self, name: str) -> None:
        """No query that waits is more urgent; under serial execution, none that waits when a query begins."""
        if self.is_serial and name in self.begun:
            return
        self.begun.add(name)
        busy = {query for query, _, _ in self.reads.values()}
        own = self.answers[name].query.priority
        for other, answer in self.answers.items():
            if other not in busy and answer.query.priority > own and not (self.is_serial and other in self.begun):
                self.problems.append(f"{name} reads before {other}, which is more urgent")

    def _pass_on(self, name: str, panes: tuple[Pane, ...], update: str) -> None:
        for results in (self.answers[name].partials, self.answers[name].pending):
            for pane in panes:
                if pane in results:
                    stored = self.stores[pane.source].read(pane.start, pane.end)
                    results[pane] |= {(point, by) for point, by in stored if by == update}

    def _answer(self, decision: CommitQuery) -> None:
        answer = self.answers.pop(decision.query)
        del self.attempts[decision.query]
        self.committed.append(decision)
        seen = [(hash((pane.source, point)), by) for pane, content in answer.partials.items() for point, by in content]
        if len(seen) != len(set(seen)):
            self.problems.append(f"{decision.query} has seen tuples twice")
        expected = answer.window if decision.isolation is Isolation.WINDOW else self.window(answer.query)
        if frozenset(seen) != expected:
            self.problems.append(f"{decision.query} does not answer from its windows: {decision}")
