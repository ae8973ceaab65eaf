"""Histories: the operations of concurrent transactions, in the order in which they happened.

A history has window updates, which write panes, and queries, which only read (Golab's dissertation, section 7.2.3):

    r  a query reads a pane                c  a transaction commits
    d  a query drops what it read          a  a query aborts
    w  a window update writes a pane       s, b  a source as it is at first; a query begins, with its windows

The texts know r, w, c and a. `d` is the variant of section 7.4.2 that re-scans instead of aborting: what was read of a
pane that has left the window no longer counts. An attempt of a restarted query is a transaction of its own.

`check_history.py` decides which isolation a history has; `notation.py` reads and writes histories as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from windrow.errors import HistoryError
from windrow.schedulers.panes import Lengths, Pane, SourceKind


class Isolation(str, Enum):
    """What a query is promised; the values of `SET isolation`.

    LATEST: latest-window-serializable (LWS), it sees every window update committed before it. WINDOW:
    window-serializable (WS), it sees the window as it was at one instant. SERIAL: LWS, and no update is committed
    to its sources while it runs.
    """

    LATEST = "latest"
    WINDOW = "window"
    SERIAL = "serial"


class Op(str, Enum):
    """The letters of the texts, and `d`."""

    READ = "r"
    DROP = "d"
    WRITE = "w"
    COMMIT = "c"
    ABORT = "a"


@dataclass(frozen=True)
class SourceBegins:
    """A source at the start of the history: it has [first, last), and is complete below `upto`."""

    source: str
    first: int
    last: int
    upto: int
    kind: SourceKind = SourceKind.WINDOW

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise ValueError(f"source {self.source} ends before it begins")
        if self.kind is SourceKind.WINDOW and self.upto != self.last:
            raise ValueError(f"the panes of {self.source} end at {self.last}, not at {self.upto}")


@dataclass(frozen=True)
class TransactionBegins:
    """A query begins: the length of its window over each source, and the TICK that its instant is a multiple of."""

    by: str
    lengths: Lengths = field(hash=False)
    tick: int = 1

    def __post_init__(self) -> None:
        if not self.lengths or any(length is not None and length <= 0 for length in self.lengths.values()):
            raise ValueError(f"query {self.by} needs windows of positive length")
        if self.tick <= 0:
            raise ValueError(f"the tick of query {self.by} is not positive")


@dataclass(frozen=True)
class Operation:
    """One operation of transaction `by`.

    Reads, drops and writes name a pane; a write may say up to where its source is complete then (else: the end of the
    pane, for windows). The commit of a query may say which isolation it claims.
    """

    op: Op
    by: str
    pane: Pane | None = None
    upto: int | None = None
    isolation: Isolation | None = None

    def __post_init__(self) -> None:
        if (self.pane is not None) != (self.op in (Op.READ, Op.DROP, Op.WRITE)):
            raise ValueError(f"'{self.op.value}' {'needs' if self.pane is None else 'takes no'} pane")
        if self.upto is not None and self.op is not Op.WRITE:
            raise ValueError("only a write says up to where its source is complete")
        if self.isolation is not None and self.op is not Op.COMMIT:
            raise ValueError("only a commit claims an isolation")

    def __str__(self) -> str:
        pane = "" if self.pane is None else f"[{self.pane.source + ' ' if self.pane.source else ''}"
        return f"{self.op.value}{self.by}{pane}" + ("" if self.pane is None else f"{self.pane.start}:{self.pane.end}]")


Entry = SourceBegins | TransactionBegins | Operation


@dataclass(frozen=True)
class History:
    """A legal history: transactions do nothing after their end, queries only read what there is, updates only write.

    An illegal one is a HistoryError that names the entry by its number; `lines` maps entries to lines of a text.
    """

    entries: tuple[Entry, ...]
    lines: tuple[int, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        rules = _Rules()
        for number, entry in enumerate(self.entries):
            problem = rules.problem(entry)
            if problem:
                line = self.lines[number] if self.lines else number + 1
                raise HistoryError(f"{'line' if self.lines else 'entry'} {line}: {problem}")

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> History:
        return cls(tuple(entries))

    @property
    def operations(self) -> Iterator[Operation]:
        return (entry for entry in self.entries if isinstance(entry, Operation))

    @property
    def committed_queries(self) -> dict[str, Isolation | None]:
        """The queries that commit, each with the isolation that it claims."""
        queries = {entry.by for entry in self.entries if isinstance(entry, TransactionBegins)}
        return {one.by: one.isolation for one in self.operations if one.op is Op.COMMIT and one.by in queries}


class _Rules:
    """What is legal next."""

    def __init__(self) -> None:
        self.sources: dict[str, SourceBegins] = {}
        self.last: dict[str, int] = {}
        self.queries: dict[str, TransactionBegins] = {}
        self.reads: dict[str, list[Pane]] = {}
        self.updates: set[str] = set()
        self.ended: set[str] = set()

    def problem(self, entry: Entry) -> str | None:
        """Why the entry may not come next; None if it may, and then it has."""
        if isinstance(entry, SourceBegins):
            return self._source(entry)
        if entry.by in self.ended:
            return f"transaction {entry.by} has ended already"
        if isinstance(entry, TransactionBegins):
            return self._begin(entry)
        if entry.op is Op.WRITE:
            return self._write(entry)
        if entry.op in (Op.READ, Op.DROP):
            return self._read(entry)
        return self._end(entry)

    def _source(self, entry: SourceBegins) -> str | None:
        if entry.source in self.sources:
            return f"source '{entry.source}' has begun already"
        self.sources[entry.source] = entry
        self.last[entry.source] = entry.last
        return None

    def _begin(self, entry: TransactionBegins) -> str | None:
        if entry.by in self.updates:
            return f"{entry.by} reads and writes: a transaction is a query or a window update"
        if entry.by in self.queries:
            return f"transaction {entry.by} has begun already"
        for source in entry.lengths:
            if source not in self.sources:
                return f"source '{source}' is unknown"
        self.queries[entry.by] = entry
        self.reads[entry.by] = []
        return None

    def _write(self, entry: Operation) -> str | None:
        assert entry.pane is not None
        source = entry.pane.source
        if entry.by in self.queries:
            return f"{entry.by} reads and writes: a transaction is a query or a window update"
        if source not in self.sources:
            return f"source '{source}' is unknown"
        if entry.pane.start > self.last[source]:
            return f"{entry} leaves a gap: the source ends at {self.last[source]}"
        if self.sources[source].kind is not SourceKind.WINDOW and entry.upto is None:
            return f"{entry} must say up to where its source is complete: it is no window"
        self.updates.add(entry.by)
        self.last[source] = max(self.last[source], entry.pane.end)
        return None

    def _read(self, entry: Operation) -> str | None:
        pane = entry.pane
        assert pane is not None
        if entry.by not in self.queries:
            what = "reads and writes: a transaction is a query or a window update"
            return f"{entry.by} {what if entry.by in self.updates else 'has not begun'}"
        if pane.source not in self.queries[entry.by].lengths:
            return f"{entry.by} has no window over source '{pane.source}'"
        if pane.start < self.sources[pane.source].first or pane.end > self.last[pane.source]:
            return f"{entry}: there is no such pane yet"
        if entry.op is Op.READ:
            self.reads[entry.by].append(pane)
        elif pane not in self.reads[entry.by]:
            return f"{entry}: it was not read"
        else:
            self.reads[entry.by].remove(pane)
        return None

    def _end(self, entry: Operation) -> str | None:
        if entry.op is Op.ABORT and entry.by in self.updates:
            return f"{entry.by} is a window update: those do not abort"
        if entry.by not in self.queries and entry.by not in self.updates:
            return f"transaction {entry.by} has not begun"
        if entry.isolation is not None and entry.by not in self.queries:
            return f"{entry.by} is a window update: it claims no isolation"
        self.ended.add(entry.by)
        self.reads.pop(entry.by, None)
        return None
