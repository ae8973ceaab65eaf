"""What is asked of a synopsis, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.plan.accumulators import Accumulator
from windrow.synopses.chunks import States
from windrow.synopses.groups import AnyIds, Ids
from windrow.windows import Points


@dataclass(frozen=True)
class Lookup:
    """The windows [start, end) that one query is due to answer, ends ascending, and what it reads.

    `presence` counts the query's qualifying tuples: a group has a row where it is positive. An
    ungrouped query (`always`) has a row for every window.
    """

    query: str
    starts: Points
    ends: Points
    presence: Accumulator
    reads: tuple[Accumulator, ...]
    always: bool


@dataclass(frozen=True)
class Looked:
    """The rows of one query, in window order: window index, group, and states.

    `each`: how many rows every window has, where all have as many.
    """

    query: str
    windows: int
    window: Ids
    groups: AnyIds
    states: States
    each: int | None = None
