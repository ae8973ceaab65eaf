"""What goes into a transaction scheduler and what comes out of it.

The engine tells *events* in the order in which they happen, and carries out the *decisions* that each one gives, in
their order. A decision is done when it is given, except a read: that takes time, and ends with the event
`ReadFinished`. Reads run in the engine's threads, at most `slots` at a time and one per query. What a read gives is a
partial result per pane, which belongs to the attempt of the query that asked for it: when a query aborts, or drops a
pane, what a read in progress gives for it is thrown away when it comes.

The engine keeps time, too: if a `HoldUpdate` is not followed by the commit of the update within `serial_hold`, it
tells `HoldExpired`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from windrow.schedulers.history import Isolation
from windrow.schedulers.panes import Lengths, Pane, SourceKind, WindowUpdate


@dataclass(frozen=True)
class ReadTransaction:
    """The transaction T_Qk of a query: it reads the panes of its windows, each once, in any order.

    Its name is used once in the life of a scheduler, so that a recorded history tells queries apart.
    `lengths` are its windows, in units of the window attribute of each source. Greater `priority` is more urgent.
    `isolation` None is the scheduler's own. A query that `keeps_partials` per pane re-scans after a conflict: it drops
    what it read of the panes that left. Any other is aborted and restarted. Each read is of at most `run` panes.
    """

    name: str
    lengths: Lengths = field(hash=False)
    priority: int = 0
    isolation: Isolation | None = None
    keeps_partials: bool = False
    tick: int = 1
    run: int = 1

    def __post_init__(self) -> None:
        if not self.name or not self.lengths:
            raise ValueError("a query has a name and at least one source")
        if any(length is not None and length <= 0 for length in self.lengths.values()):
            raise ValueError(f"the windows of {self.name} need positive lengths")
        if self.tick <= 0 or self.run <= 0:
            raise ValueError(f"tick and run of {self.name} are positive")


# Events


@dataclass(frozen=True)
class SourceOpens:
    """A source can be read from now on: these panes, complete below `upto`."""

    source: str
    panes: tuple[Pane, ...]
    upto: int
    kind: SourceKind = SourceKind.WINDOW


@dataclass(frozen=True)
class SourceCloses:
    """A source is gone; no query reads it."""

    source: str


@dataclass(frozen=True)
class QueryBegins:
    """A query wants an answer."""

    query: ReadTransaction


@dataclass(frozen=True)
class ReadFinished:
    """The read with this number is over: its partial results are there, or its query was cancelled or aborted."""

    read: int


@dataclass(frozen=True)
class UpdateReady:
    """A window update is durable and waits to be published."""

    update: WindowUpdate


@dataclass(frozen=True)
class HoldExpired:
    """This update was held back as long as it may be; told in vain if it has been committed."""

    update: str


@dataclass(frozen=True)
class QueryCancelled:
    """A query is given up: cancelled, timed out or failed."""

    query: str


TransactionEvent = SourceOpens | SourceCloses | QueryBegins | ReadFinished | UpdateReady | HoldExpired | QueryCancelled


# Decisions


@dataclass(frozen=True)
class ReadPanes:
    """Read these panes for a query, as of the versions that are published now, or pinned: its windows as of `instant`.
    `is_last`: as things are, nothing is left to read then."""

    read: int
    query: str
    attempt: int
    panes: tuple[Pane, ...]
    instant: int = field(default=0, compare=False)
    is_last: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class PinVersion:
    """From now on the query reads the versions that are published now, whatever is committed later."""

    query: str


@dataclass(frozen=True)
class DropPanes:
    """Forget what the query has read of these panes: the update took them out of its window."""

    query: str
    panes: tuple[Pane, ...]
    update: str


@dataclass(frozen=True)
class PassOn:
    """Give the query the tuples that the update inserts into these panes, which it has read (section 7.4.3)."""

    query: str
    panes: tuple[Pane, ...]
    update: str


@dataclass(frozen=True)
class AbortQuery:
    """Forget everything that this attempt has read: it read `pane`, which the update took out of its window.

    The query begins again, with isolation `then`: SERIAL after too many attempts.
    """

    query: str
    attempt: int
    pane: Pane
    update: str
    then: Isolation


@dataclass(frozen=True)
class CommitQuery:
    """Answer from what was read: the windows as of `instant`, with the isolation that the answer really has."""

    query: str
    isolation: Isolation
    instant: int
    aborts: int = 0
    rescans: int = 0


@dataclass(frozen=True)
class CommitUpdate:
    """Publish the version that the update makes."""

    update: WindowUpdate


@dataclass(frozen=True)
class HoldUpdate:
    """Do not publish it yet: these queries run serially on its source."""

    update: WindowUpdate
    queries: tuple[str, ...]


TransactionDecision = ReadPanes | PinVersion | DropPanes | PassOn | AbortQuery | CommitQuery | CommitUpdate | HoldUpdate


class TransactionScheduler(Protocol):
    """A pure state machine; it has no clock, no thread and no I/O. One thread at a time calls it."""

    @property
    def isolation(self) -> Isolation:
        """What a query gets that does not ask for another isolation."""

    def on(self, *events: TransactionEvent) -> tuple[TransactionDecision, ...]:
        """What to do now.

        Events that wait are told together, in their order. Reads begin after the last of them, so that none begins on a
        pane that an update among them takes out of the window. An event that cannot happen is a ValueError: it and
        those after it change nothing, and the decisions about those before it come with the next call.
        """
