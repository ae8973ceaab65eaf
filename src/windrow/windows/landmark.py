"""Landmark windows: every extent starts at the same point, or at the beginning of the stream.

    extent(w) = [ since ,  o + (w+1)·s )        for ends above `since`

(Li et al., SIGMOD 2005, section 3.3.) No extent after the first tuple is empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.types import POINT_MIN
from windrow.windows.contexts import Context, Extents, Points, every_wid
from windrow.windows.cuts import Cuts


@dataclass(frozen=True)
class LandmarkWindow:
    """`[SINCE x SLIDE s]`, or `[UNBOUNDED SLIDE s]` if `since` is None."""

    since: int | None
    slide: int
    origin: int = 0
    context = Context.CF

    def __post_init__(self) -> None:
        if self.slide <= 0:
            raise ValueError("SLIDE is positive")

    @property
    def start(self) -> int:
        """The first point of every window."""
        return POINT_MIN if self.since is None else self.since

    def extent(self, w: int) -> tuple[int, int]:
        return self.start, self.origin + (w + 1) * self.slide

    def first_wid(self, t: int) -> int:
        """The id of the first window that contains t; all later windows contain it too."""
        return (max(t, self.start) - self.origin) // self.slide

    def wids(self, t: int, upto: int) -> range:
        """The ids, up to `upto`, of the windows that contain t."""
        return range(self.first_wid(t), upto + 1) if t >= self.start else range(0)

    def last_closed(self, frontier: int) -> int:
        return (frontier - self.origin) // self.slide - 1

    def closing(self, t: int) -> int:
        """The frontier at which the first window that contains t is answered; there is no last one."""
        return self.extent(self.first_wid(t))[1] if t >= self.start else t + 1

    def needed_from(self, frontier: int) -> int:
        return self.start

    def held_from(self, frontier: int) -> int:
        return self.start

    def first_complete(self, since: int) -> int | None:
        """None if the query came after the landmark: its windows then lack the tuples before it."""
        return None if since > self.start else self.extent(self.first_wid(self.start))[1]

    def cuts(self) -> Cuts:
        return Cuts.of({(self.slide, self.origin % self.slide)})

    def extents(self, wids: Points) -> Extents:
        ends = np.asarray(self.origin + (wids + 1) * self.slide, dtype=np.int64)
        return Extents(np.full(ends.size, self.start, np.int64), ends, ends)

    def due(self, panes: Points, ticked: int | None, frontier: int) -> Extents:
        """The extents with a tuple that end above `ticked` and not above `frontier`."""
        held = panes[np.searchsorted(panes, self.start) :]
        if not held.size:
            return self.extents(np.empty(0, np.int64))
        return self.every(int(held[0]), ticked, frontier)

    def every(self, first: int, ticked: int | None, frontier: int) -> Extents:
        return self.extents(every_wid(self, first, ticked, frontier))

    def shown(self, extents: Extents) -> tuple[Points | None, Points]:
        """window_start (None if the window is unbounded) and window_end."""
        return (None if self.since is None else extents.starts), extents.ends

    def start_of(self, end: int) -> int | None:
        return self.since
