"""Slide-by-tuple windows: windows end at tuples (Li et al., SIGMOD 2005, sections 3.2–3.4 and 6).

A window id is a value w of the range attribute, and

    extent(w) = { u | w − r < u ≤ w }        wids(t) = { w ∈ windows | t ≤ w < t + r }

There are three variations. Window ids are all values; or the values of tuples whose row number is divisible by n; or
the values of tuples whose rank in the order of the range attribute is divisible by n. A window is complete when no
tuple at or below w can come any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from windrow.windows.contexts import Context, Extents, Points
from windrow.windows.cuts import Cuts


class SlideOver(Enum):
    """What SLIDE n ROWS counts: nothing if n = 1 (VALUE), row numbers, or ranks."""

    VALUE = "value"
    ROW = "row-num"
    RANK = "rank"


@dataclass(frozen=True)
class SlideByTuple:
    """`[RANGE r SLIDE n ROWS]`; `[NOW]` has a RANGE of one point."""

    range: int
    every_n: int = 1
    over: SlideOver = SlideOver.VALUE

    def __post_init__(self) -> None:
        if self.range <= 0 or self.every_n <= 0:
            raise ValueError("RANGE and SLIDE are positive")
        if (self.every_n == 1) != (self.over is SlideOver.VALUE):
            raise ValueError("SLIDE 1 ROW is a window per value; SLIDE n ROWS counts rows or ranks")

    @property
    def context(self) -> Context:
        return Context.FCU if self.over is SlideOver.RANK else Context.FCB

    def windows(self, tuples: Iterable[tuple[int, int]]) -> list[int]:
        """The window ids of a set of tuples (value, row number), computed by the definition."""
        listed = sorted(tuples)
        if self.over is SlideOver.ROW:
            listed = [(t, row) for t, row in listed if row % self.every_n == 0]
        elif self.over is SlideOver.RANK:
            listed = [pair for rank, pair in enumerate(listed, 1) if rank % self.every_n == 0]
        return sorted({t for t, _ in listed})

    def extent(self, w: int) -> tuple[int, int]:
        """The half-open interval of window id w."""
        return w - self.range + 1, w + 1

    def wids(self, t: int, windows: Sequence[int]) -> list[int]:
        """The window ids whose extent contains t."""
        return [w for w in windows if t <= w < t + self.range]

    def closing(self, t: int) -> int:
        """The frontier at which the window that ends at t is complete; later windows end at later tuples."""
        return t + 1

    def needed_from(self, frontier: int) -> int:
        return frontier - self.range + 1

    def held_from(self, frontier: int) -> int:
        """The least point of the last window that may have been answered; lookups may read it again."""
        return frontier - self.range

    def first_complete(self, since: int) -> int | None:
        return since + self.range - 1

    def cuts(self) -> Cuts:
        """Cuts at every value: one pane per value."""
        return Cuts.of({(1, 0)})

    def marked(self, counts: Points, before: int) -> npt.NDArray[np.bool_]:
        """Which values are window ids, given the number of tuples counted at each of consecutive occupied values.

        Over ranks, `counts` are all tuples and `before` is the number of tuples below the first value. Over rows,
        `counts` are the tuples whose row number is divisible by n.
        """
        if self.over is SlideOver.ROW:
            return np.asarray(counts > 0)
        ranks = before + np.cumsum(counts)
        return np.asarray(ranks // self.every_n > (ranks - counts) // self.every_n)

    def extents(self, values: Points) -> Extents:
        return Extents(values - (self.range - 1), values + 1, values + 1)

    def due(self, panes: Points, ticked: int | None, frontier: int) -> Extents:
        """One window per occupied pane; the caller drops those that are not `marked`."""
        first = 0 if ticked is None else int(np.searchsorted(panes, ticked))
        return self.extents(panes[first : int(np.searchsorted(panes, frontier))])

    def shown(self, extents: Extents) -> tuple[Points | None, Points]:
        """window_start and window_end: the window contains start < t ≤ end."""
        ends = extents.ends - 1
        return ends - self.range, ends

    def start_of(self, end: int) -> int | None:
        return end - self.range
