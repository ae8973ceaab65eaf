"""When a plan is due: pure functions from the frontiers of its streams to ticks; of a periodic plan, which of its
windows hold a tuple, since only these are answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windrow.engine.progress import StreamProgress
from windrow.operators.scan import reach
from windrow.operators.ticks import DueTicks, OccupiedTicks, Points
from windrow.plan.algebra.nodes import Window
from windrow.types import POINT_MAX

LONG_GAP = 1_000
"""So many ticks in a row without a tuple in any window are not processed one by one."""


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


def input_progress(window: Window, progress: StreamProgress) -> InputProgress:
    """How far the stream of a window has come."""
    axis = window.attribute.column
    frontier = progress.frontiers[axis]
    least, lasts = progress.least.get(axis), reach(window)
    return InputProgress(frontier.value, least, frontier.greatest, progress.input_ended, lasts)


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


def occupied(due: DueTicks, lifetimes: Sequence[tuple[Points, Points]], covered: int | None) -> OccupiedTicks:
    """The runs of due ticks. `lifetimes` are the births and ends of new tuples, by window. Earlier tuples are in
    windows at all ticks below `covered` (None: there are none)."""
    births = np.concatenate([one for one, _ in lifetimes]) if lifetimes else np.zeros(0, np.int64)
    ends = np.concatenate([one for _, one in lifetimes]) if lifetimes else np.zeros(0, np.int64)
    enter, leave = due.first_above(births), due.first_above(ends)
    if covered is not None and covered > due.before:
        enter, leave = np.append(enter, due.before), np.append(leave, covered)
    order = np.argsort(enter, kind="stable")
    enter, leave = enter[order], np.maximum.accumulate(leave[order]) if order.size else leave
    is_first = np.ones(enter.size, bool)
    is_first[1:] = enter[1:] > leave[:-1]
    is_last = np.append(is_first[1:], True)[: enter.size]
    return OccupiedTicks(enter[is_first], leave[is_last])


def without_gaps(due: DueTicks, runs: OccupiedTicks) -> DueTicks | None:
    """The part of the due ticks up to the first long gap, and not beginning in one; None if it is all a gap."""
    before, upto = due.before, due.upto
    if not runs.starts.size or runs.starts[0] > upto:
        return None if due.count > LONG_GAP else due
    if runs.starts[0] - before > LONG_GAP * due.step:
        before = int(runs.starts[0]) - due.step
    for start, stop in zip(runs.starts[1:], runs.stops[:-1], strict=True):
        if start - stop > LONG_GAP * due.step:
            upto = min(upto, int(stop))
            break
    else:
        if upto - runs.stops[-1] > LONG_GAP * due.step:
            upto = int(runs.stops[-1])
    return DueTicks(before, upto, due.step, due.origin) if upto > before else due
