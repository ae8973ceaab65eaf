"""What all transaction schedulers have in common.

A query has one of three ways to run. LATEST: it follows every window update, and a conflict makes it re-scan or
restart. WINDOW: it keeps to the windows as of its beginning. SERIAL: updates of its sources are held back until it is
done, or until the engine tells that a hold has lasted long enough; from then on it is WINDOW, and says so.

A query ends, whatever the updates do. After `restarts` restarts, the next attempt is SERIAL. A query that re-scans
is never aborted; when it has re-scanned as many panes as so many restarts would, it holds updates back as well. So
does one that has read as many panes as so many restarts would and still has panes to read: they arrive faster than it
reads them.

Urgent queries read first, and among equals the one that came first. A read in progress is never interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from windrow.schedulers.history import Entry, Isolation, Op, Operation, SourceBegins, TransactionBegins
from windrow.schedulers.panes import Pane, SourceKind, SourcePanes, WindowUpdate
from windrow.schedulers.transactions.interface import (
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
    SourceCloses,
    SourceOpens,
    TransactionDecision,
    TransactionEvent,
    UpdateReady,
)
from windrow.schedulers.transactions.running import RunningQuery

ReadOrder = Callable[[RunningQuery], Pane]
"""Chooses one of the panes that a query has still to read."""

RESTARTS = 3


def oldest_first(query: RunningQuery) -> Pane:
    """The order in which panes are stored: source by source, from the oldest pane to the youngest."""
    _, unread = next(query.unread())
    return unread[0]


class TransactionMachine:
    """Takes events, gives decisions, and tells `record` every operation as an entry of the history."""

    isolation: ClassVar[Isolation] = Isolation.LATEST
    given: ClassVar[frozenset[Isolation]] = frozenset(Isolation)
    """The isolation that queries may ask for."""

    def __init__(
        self,
        *,
        slots: int = 1,
        restarts: int = RESTARTS,
        order: ReadOrder = oldest_first,
        record: Callable[[Entry], None] | None = None,
    ):
        if slots <= 0 or restarts < 0:
            raise ValueError("a scheduler has at least one slot, and no negative number of restarts")
        self.slots = slots
        self.restarts = restarts
        self.order = order
        self._record = record or (lambda entry: None)
        self._sources: dict[str, SourcePanes] = {}
        self._queries: dict[str, RunningQuery] = {}
        self._reads: dict[int, RunningQuery] = {}
        self._held: dict[str, list[WindowUpdate]] = {}
        self._counter = 0
        self._decisions: list[TransactionDecision] = []

    @property
    def is_idle(self) -> bool:
        """Whether no source is open, no query runs and no read is in progress."""
        return not (self._sources or self._queries or self._reads)

    def on(self, *events: TransactionEvent) -> tuple[TransactionDecision, ...]:
        """What to do now; see `TransactionScheduler.on`."""
        for i, event in enumerate(events):
            if i:
                self._commit_all()
            self._take(event)
        self._dispatch()
        decisions, self._decisions = tuple(self._decisions), []
        return decisions

    def _take(self, event: TransactionEvent) -> None:
        match event:
            case ReadFinished(read):
                self._finish(read)
            case UpdateReady(update):
                self._ready(update)
            case QueryBegins(query):
                self._begin(query)
            case QueryCancelled(name):
                self._cancel(name)
            case HoldExpired(name):
                self._release_from_hold(name)
            case SourceOpens():
                self._open(event)
            case SourceCloses(source):
                self._close(source)

    # Events

    def _open(self, event: SourceOpens) -> None:
        if event.source in self._sources:
            raise ValueError(f"source {event.source} is open already")
        source = SourcePanes(event.source, event.panes, event.upto, event.kind)
        self._sources[event.source] = source
        self._record(SourceBegins(event.source, source.first, source.last, source.upto, source.kind))

    def _close(self, source: str) -> None:
        if source not in self._sources:
            raise ValueError(f"there is no source {source}")
        if any(query.reads_from(source) for query in self._queries.values()):
            raise ValueError(f"source {source} is being read")
        del self._sources[source]
        self._held.pop(source, None)

    def _begin(self, transaction: ReadTransaction) -> None:
        if transaction.name in self._queries:
            raise ValueError(f"query {transaction.name} has begun already")
        for source in transaction.lengths:
            if source not in self._sources:
                raise ValueError(f"query {transaction.name} reads {source}, which is no source")
        wanted = transaction.isolation or self.isolation
        if wanted not in self.given:
            raise ValueError(f"this scheduler does not give isolation '{wanted.value}'")
        query = RunningQuery(transaction, self._next_number(), wanted)
        self._queries[query.name] = query
        if query.isolation is Isolation.WINDOW:  # as of now, even if it must wait for a slot
            self._start(query)
            self._pin(query)

    def _finish(self, read: int) -> None:
        if read not in self._reads:
            raise ValueError(f"read {read} is not in progress")
        self._reads.pop(read).finish()

    def _ready(self, update: WindowUpdate) -> None:
        if update.source not in self._sources:
            raise ValueError(f"update {update.name} is of {update.source}, which is no source")
        self._sources[update.source].refuse(update, self._held.get(update.source, ()))
        holders = self._holders(update.source)
        if holders:
            self._held.setdefault(update.source, []).append(update)
            self._decisions.append(HoldUpdate(update, tuple(query.name for query in holders)))
        else:
            self._apply(update)

    def _cancel(self, name: str) -> None:
        query = self._queries.pop(name, None)
        if query is None:
            raise ValueError(f"there is no query {name}")
        if query.is_started:
            self._record(Operation(Op.ABORT, query.attempt_name))
        self._release()

    def _release_from_hold(self, name: str) -> None:
        """Commit the update, and those before it: whoever holds its source keeps to the version it has."""
        held = ((source, update) for source, updates in self._held.items() for update in updates)
        source = next((source for source, update in held if update.name == name), None)
        while source is not None and any(update.name == name for update in self._held.get(source, ())):
            for query in self._holders(source):
                query.isolation = Isolation.WINDOW
                self._pin(query)
            self._commit_first(source)
        self._release()

    # Window updates

    def _holders(self, source: str) -> list[RunningQuery]:
        return [query for query in self._queries.values() if query.holds_updates and query.reads_from(source)]

    def _release(self) -> None:
        """Commit the updates that nobody holds back any longer."""
        for source in list(self._held):
            while source in self._held and not self._holders(source):
                self._commit_first(source)

    def _commit_first(self, source: str) -> None:
        updates = self._held[source]
        update = updates.pop(0)
        if not updates:
            del self._held[source]
        self._apply(update)

    def _apply(self, update: WindowUpdate) -> None:
        for pane in self._sources[update.source].apply(update):
            self._record(Operation(Op.WRITE, update.name, pane, upto=update.upto))
        self._record(Operation(Op.COMMIT, update.name))
        self._decisions.append(CommitUpdate(update))
        for query in list(self._queries.values()):
            if query.is_started and query.isolation is Isolation.LATEST and query.reads_from(update.source):
                self._follow(query, update)

    def _follow(self, query: RunningQuery, update: WindowUpdate) -> None:
        stale, passed = query.follow(update, self._sources)
        if stale and not query.transaction.keeps_partials:
            self._abort(query, stale[0], update)
            return
        if stale:
            self._drop(query, stale, update)
        if passed:
            for pane in passed:
                self._record(Operation(Op.DROP, query.attempt_name, pane))
                self._record(Operation(Op.READ, query.attempt_name, pane))
            self._decisions.append(PassOn(query.name, tuple(passed), update.name))

    def _abort(self, query: RunningQuery, pane: Pane, update: WindowUpdate) -> None:
        self._record(Operation(Op.ABORT, query.attempt_name))
        attempt = query.attempt
        query.restart()
        if query.aborts > self.restarts:
            query.isolation = Isolation.SERIAL
        self._decisions.append(AbortQuery(query.name, attempt, pane, update.name, query.isolation))

    def _drop(self, query: RunningQuery, stale: list[Pane], update: WindowUpdate) -> None:
        for pane in stale:
            self._record(Operation(Op.DROP, query.attempt_name, pane))
        query.rescans += len(stale)
        if query.rescans > self.restarts * query.size:
            query.isolation = Isolation.SERIAL
        self._decisions.append(DropPanes(query.name, tuple(stale), update.name))

    # Reads

    def _dispatch(self) -> None:
        """Commit the queries that are done, and give the free slots to those that are next."""
        while True:
            self._commit_all()
            if len(self._reads) >= self.slots:
                return
            query = self._next([query for query in self._queries.values() if query.wants_read])
            if query is None:
                return
            if query.is_started:
                self._read(query)
            else:
                self._start(query)  # there may be nothing to read

    def _next(self, waiting: list[RunningQuery]) -> RunningQuery | None:
        """Which of the queries that wait for a slot gets one."""
        return min(waiting, key=_urgency, default=None)

    def _start(self, query: RunningQuery) -> None:
        query.start(self._sources)
        lengths, tick = query.transaction.lengths, query.transaction.tick
        self._record(TransactionBegins(query.attempt_name, lengths, tick))

    def _pin(self, query: RunningQuery) -> None:
        """Keep a query to its version. Panes that may be written again count as read now, whenever they are."""
        self._decisions.append(PinVersion(query.name))
        for one, unread in query.unread():
            if one.source.kind is not SourceKind.WINDOW:
                for pane in unread:
                    self._record(Operation(Op.READ, query.attempt_name, pane))

    def _read(self, query: RunningQuery) -> None:
        read = self._next_number()
        panes: list[Pane] = []
        while len(panes) < query.transaction.run and any(query.unread()):
            pane = self.order(query)
            query.take(pane, read)
            panes.append(pane)
            kind = self._sources[pane.source].kind
            if query.isolation is not Isolation.WINDOW or kind is SourceKind.WINDOW:
                self._record(Operation(Op.READ, query.attempt_name, pane))
        self._reads[read] = query
        is_last = not any(query.unread())
        query.taken += len(panes)
        if query.isolation is Isolation.LATEST and not is_last and query.taken > (self.restarts + 1) * query.size:
            query.isolation = Isolation.SERIAL
        self._decisions.append(ReadPanes(read, query.name, query.attempt, tuple(panes), query.instant, is_last))

    def _commit_all(self) -> None:
        while True:
            done = next((query for query in self._queries.values() if query.is_complete), None)
            if done is None:
                return
            del self._queries[done.name]
            self._record(Operation(Op.COMMIT, done.attempt_name, isolation=done.isolation))
            self._decisions.append(CommitQuery(done.name, done.isolation, done.instant, done.aborts, done.rescans))
            self._release()

    def _next_number(self) -> int:
        self._counter += 1
        return self._counter


def _urgency(query: RunningQuery) -> tuple[int, bool, int]:
    """Least first: by priority, then those that hold updates back, then by arrival."""
    return -query.transaction.priority, not query.holds_updates, query.arrival
