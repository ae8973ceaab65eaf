"""Sliding windows on an ordered axis: `windows`, `extent`, `wids` (Li et al., SIGMOD 2005, sections 3.3 and 3.4).

With origin o, extent w of RANGE r SLIDE s OFFSET d is

    extent(w) = [ o + (w+1)·s − d − r ,  o + (w+1)·s − d )        wids(t) = { w | t ∈ extent(w) }

and it is answered at o + (w+1)·s, so a historical window (d > 0) ends d before that instant. The paper takes the
stream's minimum as origin; here it is fixed: 0, or 1 on row numbers, unless ORIGIN moves it. Window ids are any
integers, as attributes may be negative. If SLIDE exceeds RANGE, some points are in no window and `wids` is empty.
Windows with SLIDE = RANGE tumble.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.windows.contexts import Context, Extents, Points, every_wid, ranges
from windrow.windows.cuts import Cuts

Wids = range
"""Consecutive window ids."""


@dataclass(frozen=True)
class SlidingWindow:
    """`[RANGE r SLIDE s OFFSET d]` in points of the axis (microseconds, values, or rows)."""

    range: int
    slide: int
    origin: int = 0
    offset: int = 0
    context = Context.CF

    def __post_init__(self) -> None:
        if self.range <= 0 or self.slide <= 0:
            raise ValueError("RANGE and SLIDE are positive")
        if self.offset < 0:
            raise ValueError("OFFSET is not negative")

    @property
    def _shift(self) -> int:
        return self.origin - self.offset

    def extent(self, w: int) -> tuple[int, int]:
        """The half-open interval of window id w."""
        end = self._shift + (w + 1) * self.slide
        return end - self.range, end

    def wids(self, t: int) -> Wids:
        """The ids of the windows that contain point t: (t−o+d)/s − 1 < w ≤ (t+r−o+d)/s − 1."""
        return range(self.first_wid(t), self.last_wid(t) + 1)

    def windows(self, first: int, last: int) -> Wids:
        """The ids of the windows that may contain a point of [first, last]."""
        return range(self.first_wid(first), self.last_wid(last) + 1)

    def first_wid(self, t: int) -> int:
        """The least window id whose extent ends above t."""
        return (t - self._shift) // self.slide

    def last_wid(self, t: int) -> int:
        """The greatest window id whose extent starts at or below t."""
        return (t - self._shift + self.range) // self.slide - 1

    def last_closed(self, frontier: int) -> int:
        """The greatest window id that is answered at this frontier."""
        return (frontier - self.origin) // self.slide - 1

    def closing(self, t: int) -> int:
        """The least frontier at which every window that contains t is answered."""
        return self.origin + (self.last_wid(t) + 1) * self.slide

    def needed_from(self, frontier: int) -> int:
        """The least point of the windows that are not answered yet."""
        return self.extent(self.last_closed(frontier) + 1)[0]

    def held_from(self, frontier: int) -> int:
        """The least point of the last answered window; lookups may read it again."""
        return self.extent(self.last_closed(frontier))[0]

    def first_complete(self, since: int) -> int | None:
        """The end of the first window that contains no point below `since`."""
        return self.extent(-((self._shift + self.slide - self.range - since) // self.slide))[1]

    def cuts(self) -> Cuts:
        """Cuts at the ends and at the starts of all windows."""
        ends = (self.slide, self._shift % self.slide)
        starts = (self.slide, (self._shift - self.range) % self.slide)
        return Cuts.of({ends, starts})

    def extents(self, wids: Points) -> Extents:
        ticks = np.asarray(self.origin + (wids + 1) * self.slide, dtype=np.int64)
        return Extents(ticks - self.offset - self.range, ticks - self.offset, ticks)

    def due(self, panes: Points, ticked: int | None, frontier: int) -> Extents:
        """The extents with an occupied pane whose tick is above `ticked` and not above `frontier`.

        `panes` are the starts of the occupied panes, ascending.
        """
        upto = self.last_closed(frontier)
        after = self.last_closed(ticked) if ticked is not None else None
        if after is None:
            after = self.first_wid(int(panes[0])) - 1 if panes.size else upto
        reach = np.searchsorted(panes, self.extent(after + 1)[0])
        return self.extents(due_windows(self, panes[reach:], after, upto))

    def every(self, first: int, ticked: int | None, frontier: int) -> Extents:
        """Like `due`, but with empty windows too, from the first window that ends above the point `first`."""
        return self.extents(every_wid(self, first, ticked, frontier))

    def shown(self, extents: Extents) -> tuple[Points | None, Points]:
        """window_start and window_end."""
        return extents.starts, extents.ends

    def start_of(self, end: int) -> int | None:
        """The window_start of the window with this window_end; None if it has none."""
        return end - self.range


def due_windows(window: SlidingWindow, panes: Points, after: int, upto: int) -> Points:
    """The ids w, after < w ≤ upto, of the windows with an occupied pane, ascending.

    `panes` are the starts of the occupied panes, ascending. Panes are cut at window edges, so a window contains a pane
    wholly or not at all. The cost depends on the number of occupied panes and of answers, not on gaps between them.
    """
    if upto <= after or panes.size == 0:
        return np.empty(0, np.int64)
    shift = window.origin - window.offset
    first = np.maximum((panes - shift) // window.slide, after + 1)
    last = np.minimum((panes - shift + window.range) // window.slide - 1, upto)
    keep = first <= last
    first, last = first[keep], last[keep]
    if first.size == 0:
        return np.empty(0, np.int64)
    reach = np.maximum.accumulate(last)
    begins = np.concatenate(([True], first[1:] > reach[:-1] + 1))
    run_first = first[begins]
    run_last = reach[np.concatenate((begins[1:], [True]))]
    return ranges(run_first, run_last)[1]
