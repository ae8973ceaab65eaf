"""What a window must know to map a tuple to its window ids (Li et al., SIGMOD 2005, section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.int64]


class Context(Enum):
    """CF and FCF need no later tuples. FCA does, up to a bound (FCB) or without one (FCU)."""

    CF = "CF, context-free"
    FCF = "FCF, forward-context free: counts of earlier tuples are kept"
    FCB = "FCA, forward-context aware, bounded (FCB)"
    FCU = "FCA, forward-context aware, unbounded (FCU)"


@dataclass(frozen=True)
class Extents:
    """Extents [start, end), each with its tick: the frontier at which it is answered. Ticks and ends ascend.

    `partitions` is set for partitioned windows only: the partition of each extent. Starts and ends are then ranks.
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
    """Windows with consecutive ids, each answered at its own frontier."""

    def first_wid(self, t: int) -> int: ...

    def last_closed(self, frontier: int) -> int: ...


def every_wid(window: Numbered, first: int, ticked: int | None, frontier: int) -> Points:
    """The ids of all windows, empty or not, that end above the point `first` and close after `ticked`, by `frontier`.

    The ids are consecutive. `ticked` None: no window is closed yet.
    """
    low = window.first_wid(first)
    if ticked is not None:
        low = max(low, window.last_closed(ticked) + 1)
    return np.arange(low, window.last_closed(frontier) + 1, dtype=np.int64)


def ranges(first: Points, last: Points) -> tuple[Points, Points]:
    """(which, value): the integers first[i] … last[i] for every i, concatenated; `which` repeats i."""
    lengths = np.maximum(last - first + 1, 0)
    return np.repeat(np.arange(lengths.size, dtype=np.int64), lengths), joined_ranges(first, lengths)


def joined_ranges(starts: Points, sizes: Points) -> Points:
    """The integers of the ranges [starts[i], starts[i] + sizes[i]), concatenated."""
    offsets = np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray(np.repeat(starts, sizes) + offsets, dtype=np.int64)
