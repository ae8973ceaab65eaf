"""Sliding windows on an ordered attribute: `windows`, `extent`, `wids` (003_7281f3198fa2d2a0.txt, 3.3–3.4).

With origin o (DESIGN 5 fixes it instead of the stream's minimum), extent w of RANGE r SLIDE s is

    extent(w) = [ o + (w+1)·s − r ,  o + (w+1)·s )        wids(t) = { w | t ∈ extent(w) }

Window ids are any integers: attributes may be negative. SLIDE may exceed RANGE: then some points are
in no window and `wids` is empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.int64]
Wids = range
"""Consecutive window ids."""


@dataclass(frozen=True)
class SlidingWindow:
    """`[RANGE r SLIDE s]` in points of the window attribute (microseconds, or the integer itself)."""

    range: int
    slide: int
    origin: int = 0

    def __post_init__(self) -> None:
        if self.range <= 0 or self.slide <= 0:
            raise ValueError("RANGE and SLIDE are positive")

    def extent(self, w: int) -> tuple[int, int]:
        """The half-open interval of window id w."""
        end = self.origin + (w + 1) * self.slide
        return end - self.range, end

    def wids(self, t: int) -> Wids:
        """The ids of the windows that hold point t: (t−o)/s − 1 < w ≤ (t+r−o)/s − 1."""
        return range(self.first_wid(t), self.last_wid(t) + 1)

    def windows(self, first: int, last: int) -> Wids:
        """The ids of the windows that may hold a point of [first, last]."""
        return range(self.first_wid(first), self.last_wid(last) + 1)

    def first_wid(self, t: int) -> int:
        """The least window id whose extent ends above t."""
        return (t - self.origin) // self.slide

    def last_wid(self, t: int) -> int:
        """The greatest window id whose extent starts at or below t."""
        return (t - self.origin + self.range) // self.slide - 1

    def last_closed(self, frontier: int) -> int:
        """The greatest window id whose extent ends at or below the frontier."""
        return (frontier - self.origin) // self.slide - 1

    def ends(self, wids: Points) -> Points:
        return np.asarray(self.origin + (wids + 1) * self.slide, dtype=np.int64)

    def edges(self) -> tuple[tuple[int, int], ...]:
        """The window edges as arithmetic progressions (period, phase): the ends, and the starts."""
        ends = (self.slide, self.origin % self.slide)
        starts = (self.slide, (self.origin - self.range) % self.slide)
        return (ends,) if ends == starts else (ends, starts)


def due_windows(window: SlidingWindow, panes: Points, after: int, upto: int) -> Points:
    """The ids w, after < w ≤ upto, of the windows that hold one of the occupied panes, ascending.

    `panes` are the starts of the occupied panes, ascending.

    Cost follows the number of occupied panes and of answers, never the silence between them.
    Panes are cut at window edges, so a pane is wholly in a window or wholly out of it.
    """
    if upto <= after or panes.size == 0:
        return np.empty(0, np.int64)
    first = np.maximum((panes - window.origin) // window.slide, after + 1)
    last = np.minimum((panes - window.origin + window.range) // window.slide - 1, upto)
    keep = first <= last
    first, last = first[keep], last[keep]
    if first.size == 0:
        return np.empty(0, np.int64)
    reach = np.maximum.accumulate(last)
    begins = np.concatenate(([True], first[1:] > reach[:-1] + 1))
    run_first = first[begins]
    run_last = reach[np.concatenate((begins[1:], [True]))]
    lengths = run_last - run_first + 1
    offsets = np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.asarray(np.repeat(run_first, lengths) + offsets, dtype=np.int64)
