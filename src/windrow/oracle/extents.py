"""Windows by their definition, one tuple and one window at a time (Li et al., SIGMOD 2005, section 3.3).

A shape gives the extents that hold a point of its axis. Points are integers, so every extent is a half-open interval
`[lo, hi)` of points: the slide-by-tuple extent `w − r < u ≤ w` is `[w − r + 1, w + 1)`. An extent also has `start` and
`end`, which users see as `window_start` and `window_end`, and `due`, the frontier at which it is answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Extent:
    """`lo` and `start` are None if the window reaches back to the beginning."""

    lo: int | None
    hi: int
    start: int | None
    end: int
    due: int

    def holds(self, point: int) -> bool:
        return (self.lo is None or self.lo <= point) and point < self.hi


@dataclass(frozen=True)
class Sliding:
    """`[RANGE r SLIDE s]`, `[ROWS n SLIDE m]`, tumbling (s = r), historical (OFFSET o), `[NOW SLIDE s]` (r = 1).

    With e = origin + (w+1)·s the extent is `[e − o − r, e − o)`, answered when the frontier reaches e.
    """

    range: int
    slide: int
    origin: int = 0
    offset: int = 0

    def ending(self, due: int) -> Extent:
        hi = due - self.offset
        return Extent(hi - self.range, hi, hi - self.range, hi, due)

    def holding(self, point: int) -> list[Extent]:
        """Every extent that holds the point, found by trying the windows from the first that ends above it."""
        found = []
        due = self.origin + ((point + self.offset - self.origin) // self.slide + 1) * self.slide
        while due - self.offset - self.range <= point:
            found.append(self.ending(due))
            due += self.slide
        return found

    def first_edge_above(self, point: int) -> int:
        """The least start or end of a window above a point. A query added later begins there."""
        shifts = (self.origin - self.offset, self.origin - self.offset - self.range)
        return min(shift + ((point - shift) // self.slide + 1) * self.slide for shift in shifts)

    def open_beyond(self, point: int, frontier: int | None) -> bool:
        """Whether a window that holds the point is due after the frontier."""
        return frontier is None or any(one.due > frontier for one in self.holding(point))


@dataclass(frozen=True)
class Landmark:
    """`[SINCE x SLIDE s]`: `[x, e)` for each end e above x. `[UNBOUNDED SLIDE s]` has no x."""

    begin: int | None
    slide: int
    origin: int = 0

    def end_above(self, point: int) -> int:
        return self.origin + ((point - self.origin) // self.slide + 1) * self.slide

    def between(self, first: int, last: int) -> list[Extent]:
        """The extents from the first end above `first` to the first end above `last`."""
        found, end, stop = [], self.end_above(first), self.end_above(last)
        while end <= stop:
            found.append(Extent(self.begin, end, self.begin, end, end))
            end += self.slide
        return found

    def first_edge_above(self, point: int) -> int:
        return self.end_above(point)

    def open_beyond(self, point: int, frontier: int | None) -> bool:
        return self.begin is None or point >= self.begin


@dataclass(frozen=True)
class ByTuple:
    """`[RANGE r SLIDE n ROWS]`: a window ends at the value of every n-th tuple, by row number or by rank. `[NOW]`: r =
    1."""

    range: int
    every: int = 1
    by_rank: bool = False

    def ending(self, value: int) -> Extent:
        return Extent(value - self.range + 1, value + 1, value - self.range, value, value + 1)

    def values(self, points_and_numbers: Iterable[tuple[int, int]]) -> list[int]:
        """`windows(T)`: the distinct values at which a window ends. Ranks go by (value, row number), from 1."""
        numbered = list(points_and_numbers)
        if self.by_rank:
            numbered = [(point, rank) for rank, (point, _) in enumerate(sorted(numbered), start=1)]
        return sorted({point for point, number in numbered if number % self.every == 0})

    def first_edge_above(self, point: int) -> int:
        return point + 1

    def open_beyond(self, point: int, frontier: int | None) -> bool:
        return frontier is None or self.ending(point + self.range - 1).due > frontier


Shape = Sliding | Landmark | ByTuple


def extents_of(points: Iterable[int], range_: int, slide: int, origin: int = 0) -> list[tuple[int, int]]:
    """The extents `[origin + (w+1)·slide − range, origin + (w+1)·slide)` that hold a point, in order."""
    shape = Sliding(range_, slide, origin)
    found = {one.hi for point in set(points) for one in shape.holding(point)}
    return [(hi - range_, hi) for hi in sorted(found)]


def with_empty(extents: Iterable[Extent], shape: Sliding, frontier: int | None) -> list[Extent]:
    """The extents and the empty ones, from the first extent to the frontier (`empty_windows = 'emit'`)."""
    dues = sorted(one.due for one in extents)
    if not dues:
        return []
    last = dues[-1] if frontier is None else max(dues[-1], frontier)
    return [shape.ending(due) for due in range(dues[0], last + 1, shape.slide)]
