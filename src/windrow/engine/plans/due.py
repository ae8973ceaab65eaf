"""When a plan is due: pure functions from the frontiers of its streams to ticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windrow.types import POINT_MAX


@dataclass(frozen=True)
class InputProgress:
    """How far one input of a plan has come. No tuple below `frontier` comes any more; `least` and `greatest` are points
    of its tuples. `ended`: its input has ended, so it holds nobody back. `lasts`: for how many points after its birth a
    tuple is in the window."""

    frontier: int | None
    least: int | None
    greatest: int | None
    ended: bool = False
    lasts: int | None = None


@dataclass(frozen=True)
class TickGrid:
    """The ticks `origin` + k·`step`."""

    step: int
    origin: int = 0

    def floor(self, point: int) -> int:
        """The last tick at or below a point."""
        return (point - self.origin) // self.step * self.step + self.origin

    def ceil(self, point: int) -> int:
        """The first tick at or above a point."""
        return -((self.origin - point) // self.step) * self.step + self.origin

    def above(self, point: int) -> int:
        """The first tick above a point."""
        return self.floor(point) + self.step


def due_upto(inputs: Sequence[InputProgress], grid: TickGrid, periodic: bool = False) -> int | None:
    """The last tick that is due; None if none can be yet.

    It is the least frontier, floored to the grid; an ended input does not count. If all have ended, it is the first
    tick above their greatest point; of a periodic plan, the end of the last window that holds a tuple.
    """
    live = [one for one in inputs if not one.ended]
    if live:
        least = min((POINT_MAX if one.frontier is None else one.frontier for one in live), default=POINT_MAX)
        return None if any(one.frontier is None for one in live) else grid.floor(least)
    ends = [_end(one, grid, periodic) for one in inputs if one.greatest is not None]
    return max(ends, default=None)


def _end(ended: InputProgress, grid: TickGrid, periodic: bool) -> int:
    """The last tick at which an ended input matters."""
    assert ended.greatest is not None
    first = grid.above(ended.greatest)
    return max(first, grid.floor(ended.greatest + ended.lasts)) if periodic and ended.lasts is not None else first


def begins_at(inputs: Sequence[InputProgress], grid: TickGrid) -> int | None:
    """The tick after which a new plan begins: the last one at or below its first tuple; None if there is no tuple."""
    least = [one.least for one in inputs if one.least is not None]
    return grid.floor(min(least)) if least else None
