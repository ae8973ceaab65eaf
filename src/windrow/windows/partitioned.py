"""Partitioned tuple-based windows: each partition is a sub-stream with its own ranks.

A window id is (i, p). With r the rank of a tuple in its partition, counted from 1,

    extent((i, p)) = { t | t.PATTR = p, 1 + (i+1)·m − d − n ≤ r < 1 + (i+1)·m − d }

(Li et al., SIGMOD 2005, sections 3.3 and 3.4). The windows are forward-context free: a tuple's rank depends only on
the number of earlier tuples in its partition. The frontier moves on the axis of row numbers, where these windows do
not lie: their extents are ranges of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.types import POINT_MIN
from windrow.windows.contexts import Context, Extents, Points, ranges
from windrow.windows.cuts import Cuts
from windrow.windows.sliding import SlidingWindow, Wids


@dataclass(frozen=True)
class PartitionedWindow:
    """`[ROWS n SLIDE m PARTITION BY p]`."""

    rows: int
    slide: int
    offset: int = 0
    context = Context.FCF

    def __post_init__(self) -> None:
        self.of_ranks  # noqa: B018  (SlidingWindow checks the values)

    @property
    def of_ranks(self) -> SlidingWindow:
        """The window of one partition over its ranks."""
        return SlidingWindow(self.rows, self.slide, 1, self.offset)

    def extent(self, i: int) -> tuple[int, int]:
        return self.of_ranks.extent(i)

    def wids(self, rank: int) -> Wids:
        """The i of each window id (i, p) whose window contains the tuple of this rank."""
        return self.of_ranks.wids(rank)

    def cuts(self) -> Cuts:
        return self.of_ranks.cuts()

    def closing(self, t: int) -> int:
        """The frontier at which all windows that row t completes are answered."""
        return t + 1

    def needed_from(self, frontier: int) -> int:
        """Every row: any may be among the last n of its partition."""
        return POINT_MIN

    def held_from(self, frontier: int) -> int:
        return POINT_MIN

    def due(self, panes: Points, ticked: int | None, frontier: int) -> Extents:
        """No extents: counts make windows due (`completed`), panes do not."""
        return self.of_ranks.extents(np.empty(0, np.int64))

    def shown(self, extents: Extents) -> tuple[Points | None, Points]:
        """window_start and window_end, as ranks."""
        return extents.starts, extents.ends

    def start_of(self, end: int) -> int | None:
        return end - self.rows

    def completed(self, before: Points, after: Points) -> tuple[Points, Points]:
        """(which, i): the windows with a tuple that complete when the counts of partitions grow to `after`.

        `which` indexes `before` and `after`. A partition with n tuples has the frontier n + 1 over ranks.
        """
        window = self.of_ranks
        first = np.maximum((before + 1 - window.origin) // window.slide, window.first_wid(1))
        last = (after + 1 - window.origin) // window.slide - 1
        return ranges(first, last)

    def rest(self, counts: Points) -> tuple[Points, Points]:
        """(which, i): the windows with a tuple that are not complete; the end of the input answers them."""
        window = self.of_ranks
        first = np.maximum((counts + 1 - window.origin) // window.slide, window.first_wid(1))
        last = (counts - (window.origin - window.offset) + window.range) // window.slide - 1
        return ranges(first, last)
