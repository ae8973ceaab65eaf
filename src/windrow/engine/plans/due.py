"""When a plan is due: pure functions from the frontiers of its streams to ticks; of a periodic plan, which of its
windows hold a tuple, since only these are answered. And from when on the answers of a plan are complete."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from windrow.engine.progress import StreamProgress
from windrow.engine.state import StreamState
from windrow.engine.tables.stored import StoredTable
from windrow.operators.scan import reach
from windrow.operators.ticks import DueTicks, OccupiedTicks, Points
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Node,
    OutputRows,
    OutputWindow,
    Streaming,
    TableScan,
    ToStream,
    Window,
)
from windrow.types import POINT_MAX, POINT_MIN

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


def lingering(plan: ContinuousPlan) -> int:
    """For how many points more than it is in its window a tuple counts: with SLIDE and RESTORE, until the tick that
    reports the results that it had a part in."""
    return plan.step - 1 if plan.periodic and isinstance(plan.root, ToStream) and plan.root.restores else 0


def input_progress(window: Window, progress: StreamProgress, lingers: int = 0) -> InputProgress:
    """How far the stream of a window has come, in a plan in which a tuple lingers so long."""
    axis = window.attribute.column
    frontier = progress.frontiers[axis]
    least, lasts = progress.least.get(axis), reach(window)
    lasts = None if lasts is None else lasts + lingers
    return InputProgress(frontier.value, least, frontier.greatest, progress.input_ended, lasts)


def table_progress(table: StoredTable, progress: StreamProgress) -> InputProgress:
    """How far a table has come that a stream feeds. A plan does not begin before its windows have a tuple."""
    assert table.feed is not None
    frontier = progress.frontiers[table.feed.axis]
    known = None if table.applied == POINT_MIN else table.applied
    has_all = frontier.greatest is None or table.applied > frontier.greatest
    return InputProgress(known, None, frontier.greatest, progress.input_ended and has_all)


def inputs_of(
    plan: ContinuousPlan, tables: Sequence[StoredTable], stream_of: Callable[[str], StreamState]
) -> list[InputProgress]:
    """How far all inputs of a plan have come: its windows, and the tables that streams feed."""
    lingers = lingering(plan)
    found = [input_progress(window, stream_of(window.stream).progress, lingers) for window in plan.windows]
    fed = [(table, stream_of(table.feed.stream).progress) for table in tables if table.feed is not None]
    return [*found, *(table_progress(*one) for one in fed)]


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


def complete_from(plan: ContinuousPlan, since: Sequence[int | None], known_from: int | None = None) -> int | None:
    """The first point at which the answer of a plan is complete, if its windows see tuples from these points on (None:
    all), and its tables are known from a point on (None: always). At least one must be given. None: never."""
    seen = dict(zip(map(id, plan.windows), since, strict=True))
    first = _complete_from(plan.root, seen, -math.inf if known_from is None else known_from, plan.step)
    return None if first == math.inf else int(first)


def _complete_from(node: Node, since: Mapping[int, int | None], known: float, step: int) -> float:
    if isinstance(node, Window):
        seen, length = since[id(node)], reach(node)
        return -math.inf if seen is None else math.inf if length is None else seen + length
    if isinstance(node, TableScan):
        return known
    below = max(_complete_from(one, since, known, step) for one in node.inputs)
    if isinstance(node, ToStream):  # two answers tell what came or went
        return below if node.kind is Streaming.RSTREAM else below + step
    if isinstance(node, OutputRows) and below > -math.inf:  # an early result stays until enough others have come
        return math.inf
    if not isinstance(node, OutputWindow) or below == -math.inf:
        return below
    is_reported = isinstance(node.input, ToStream)  # at tick b, with ts = b - 1
    return math.inf if node.lifetime.range is None else below + node.lifetime.offset + node.lifetime.range - is_reported


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
    before, upto, long = due.before, due.upto, LONG_GAP * due.step
    starts, stops = runs.starts.tolist(), runs.stops.tolist()  # a run may have no end, and differences are large then
    if not starts or starts[0] > upto:
        return None if due.count > LONG_GAP else due
    if starts[0] - before > long:
        before = starts[0] - due.step
    for start, stop in zip([*starts[1:], upto], stops, strict=True):
        if start - stop > long:
            upto = min(upto, stop)
            break
    return DueTicks(before, upto, due.step, due.origin) if upto > before else due
