"""What a window must know to map a tuple to its window ids (003_7281f3198fa2d2a0.txt, section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.int64]


class Context(Enum):
    """CF and FCF need no tuple that comes later; FCA does, within a bound (FCB) or without one (FCU)."""

    CF = "CF, context-free"
    FCF = "FCF, forward-context free: counts of earlier tuples are kept"
    FCB = "FCA, forward-context aware, bounded (FCB)"
    FCU = "FCA, forward-context aware, unbounded (FCU)"


@dataclass(frozen=True)
class Extents:
    """Extents [start, end), and `ticks`: the frontier that each of them waits for. Ticks and ends ascend.

    `partitions`: where windows count the rows of a partition, the one that each is of; starts and ends are ranks then.
    """

    starts: Points
    ends: Points
    ticks: Points
    partitions: Points | None = None

    def __post_init__(self) -> None:
        if not self.starts.size == self.ends.size == self.ticks.size:
            raise ValueError("an extent has a start, an end and a tick")

    def __len__(self) -> int:
        return int(self.ends.size)

    def part(self, chosen: slice | npt.NDArray[np.bool_]) -> Extents:
        partitions = None if self.partitions is None else self.partitions[chosen]
        return Extents(self.starts[chosen], self.ends[chosen], self.ticks[chosen], partitions)


class Numbered(Protocol):
    """Windows that come one after the other, each answered at its own frontier."""

    def first_wid(self, t: int) -> int: ...

    def last_closed(self, frontier: int) -> int: ...


def every_wid(window: Numbered, first: int, ticked: int | None, frontier: int) -> Points:
    """The ids, without gaps, from the first window that holds the point `first`, of those that `ticked` left open
    and `frontier` closes."""
    low = window.first_wid(first)
    if ticked is not None:
        low = max(low, window.last_closed(ticked) + 1)
    return np.arange(low, window.last_closed(frontier) + 1, dtype=np.int64)


def ranges(first: Points, last: Points) -> tuple[Points, Points]:
    """(which, value): the integers first[i] … last[i] of every i, one range after the other."""
    lengths = np.maximum(last - first + 1, 0)
    which = np.repeat(np.arange(lengths.size, dtype=np.int64), lengths)
    within = np.arange(which.size, dtype=np.int64) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return which, np.asarray(first[which] + within, dtype=np.int64)
