"""What goes into a query scheduler and what comes out of it (Golab's dissertation, section 8.4).

The engine tells *events* in the order in which they happen, and carries out the *decisions* that each one gives. A
decision is done when it is given, except a run: that takes time, and ends with the event `RunFinished`. Runs go on in
the engine's threads, at most `slots` at a time and one per group. An answer shows the windows as of the update that was
the last when its run began, whatever comes meanwhile.

Time is counted in updates of synopses. A query of period n wants no more than n updates between the states that two
successive answers show. Synopses that are updated together have one *clock*; a query's *slack*, d(T) in the text, is
how many updates of its clock may come before it must have been answered. It is late when the slack is negative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


@dataclass(frozen=True)
class PeriodicQuery:
    """A query that wants the latest answer at least every `period` updates of its clock.

    Queries of one `group` may be executed together (rules CS1 to CS7), and have one clock. `window` is in updates, None
    if it has no end. Greater `priority` goes first among equal deadlines. The query is gone `expires_after` updates
    after it came. `answers` stands for everything but the period (rule CS8); None if it is like no other.
    """

    name: str
    group: str
    period: int
    window: int | None = None
    clock: str = ""
    priority: int = 0
    expires_after: int | None = None
    answers: str | None = None

    def __post_init__(self) -> None:
        if not self.name or not self.group:
            raise ValueError("a query has a name and a group")
        if self.period < 1 or (self.window is not None and self.window < 1):
            raise ValueError(f"period and window of {self.name} are at least one update")
        if self.expires_after is not None and self.expires_after < 1:
            raise ValueError(f"{self.name} lives for at least one update")


@dataclass(frozen=True)
class ExecutionCost:
    """What it costs to answer a query once, in any unit.

    Of queries that run together, the greatest `shared` cost is paid once: the scan of the longest window gives the
    answers over shorter ones along the way. Their `own` costs, as for sorting, add up.
    """

    shared: float
    own: float = 0.0

    def __post_init__(self) -> None:
        if not (self.shared >= 0 and self.own >= 0):
            raise ValueError("costs are not negative")


CostFunction = Callable[[PeriodicQuery], ExecutionCost]
"""Given by the synopses, which know what they hold."""


# Events


@dataclass(frozen=True)
class QueryArrives:
    """A query is to be answered from now on, for the first time within its period."""

    query: PeriodicQuery


@dataclass(frozen=True)
class QueryLeaves:
    """A query is dropped, or suspended. If it is in a run, nobody wants that answer."""

    query: str


@dataclass(frozen=True)
class SynopsesUpdated:
    """The synopses of a clock have been updated, so many times at once."""

    clock: str = ""
    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError("synopses are updated at least once")


@dataclass(frozen=True)
class RunFinished:
    """The queries of the run with this number have been answered."""

    run: int


@dataclass(frozen=True)
class CostsChanged:
    """The cost function has new values for the queries of a group: its synopses have grown, or shrunk."""

    group: str


ScheduleEvent = QueryArrives | QueryLeaves | SynopsesUpdated | RunFinished | CostsChanged


# Decisions


class Why(Enum):
    """Why a task is in a run."""

    EARLIEST = "it has the earliest deadline"
    SAME = "it is due at the same update"
    LATE = "it is late, too"
    PENDING = "it is due, and would be late after the next update"


@dataclass(frozen=True)
class TaskRun:
    """A task in a run: its queries, those with shorter windows first, and its slack when it began."""

    period: int
    queries: tuple[str, ...]
    slack: int
    why: Why


@dataclass(frozen=True)
class RunTogether:
    """Answer the queries of these tasks of a group together, as of an update of its clock."""

    run: int
    group: str
    clock: str
    update: int
    tasks: tuple[TaskRun, ...]

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(name for task in self.tasks for name in task.queries)


@dataclass(frozen=True)
class PeriodsPlanned:
    """Nothing to do: some queries of a group now run more often, or less often, than before, and this is why.

    `periods` has the period asked for and the one given, of every sub-group. The costs are per update: of these
    periods, and of those asked for; None if the scheduler does not look at costs.
    """

    group: str
    periods: tuple[tuple[int, int], ...]
    cost: float | None = None
    cost_as_asked: float | None = None


@dataclass(frozen=True)
class QueryExpired:
    """The query has reached the end of its life, and is gone."""

    query: str


ScheduleDecision = RunTogether | PeriodsPlanned | QueryExpired


# What the schedule is


@dataclass(frozen=True)
class ScheduledQuery:
    """A query in its task. `output_of` names the faster query whose answers it gets (CS8)."""

    name: str
    asked: int
    output_of: str | None = None


@dataclass(frozen=True)
class ScheduledTask:
    """A row of SHOW SCHEDULE: the queries that always run together, how often, until which update, and why so often."""

    group: str
    clock: str
    period: int
    queries: tuple[ScheduledQuery, ...]
    deadline: int
    slack: int
    run: int | None
    why: str


class QueryScheduler(Protocol):
    """A pure state machine; it has no clock, no thread and no I/O. One thread at a time calls it."""

    def on(self, event: ScheduleEvent) -> tuple[ScheduleDecision, ...]:
        """What to do now; an event that cannot happen is a ValueError, and changes nothing."""

    def schedule(self) -> tuple[ScheduledTask, ...]:
        """Every task, those with the least slack first."""
