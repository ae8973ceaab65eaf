"""The end of the input, and how far it has windows answered that no tuple bounds: empty ones and landmark windows.

It promises so much that every window of every query closes that holds a tuple. That is more than most queries ask for:
empty windows (`empty_windows = 'emit'`) and landmark windows would go on for as long as another query's windows do. So
empty windows are answered as far as the frontier had come by itself, and as the query's own windows hold a tuple;
landmark windows up to the first end above the greatest point. The others come when the stream goes on after all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from windrow.types import POINT_MIN
from windrow.windows.contexts import Extents, Points
from windrow.windows.landmark import LandmarkWindow
from windrow.windows.sliding import SlidingWindow


@dataclass(frozen=True)
class Ended:
    """The end of the input moved a frontier from `before` to `upto`; no tuple lay above `greatest`."""

    before: int
    greatest: int
    upto: int

    def __post_init__(self) -> None:
        if self.upto <= self.before:
            raise ValueError("the end of the input moves the frontier on")


def answered_upto(ends: Sequence[Ended], window: SlidingWindow | LandmarkWindow, frontier: int) -> int:
    """The frontier by which such windows are answered when the real one stands there. `ends`: ascending."""
    for end in ends:
        if frontier <= end.upto:
            return min(frontier, max(end.before, window.closing(end.greatest)))
    return frontier


def landmarks_upto(ends: Sequence[Ended], window: LandmarkWindow, panes: Points, frontier: int) -> int:
    """The same of landmark windows: late tuples (`panes` has the start of theirs) may lie above what was the greatest
    point at the end of the input."""
    last = int(np.searchsorted(panes, frontier)) - 1
    reached = answered_upto(ends, window, frontier)
    return reached if last < 0 else max(reached, min(frontier, window.closing(int(panes[last]))))


def after_end(
    ends: Sequence[Ended], before: int | None, greatest: int, upto: int | None, ticked: int | None
) -> tuple[Ended, ...]:
    """The ends of the input that matter after one that moved the frontier so: those that ticks have not left behind."""
    before = POINT_MIN if before is None else before
    left = tuple(end for end in ends if ticked is None or end.upto >= ticked)
    return left if upto is None or upto <= before else (*left, Ended(before, greatest, upto))


def every_to_the_end(
    ends: Sequence[Ended],
    window: SlidingWindow,
    panes: Points,
    first: int,
    ticked: int | None,
    closed_by: int | None,
    frontier: int,
) -> Extents:
    """`window.every` where the input has ended. Where the stream goes on after all, also what was left out then, but
    for windows that a late tuple has given an answer since: `panes` are those that hold a tuple, from `first` on.
    `closed_by`: windows due by then are not the query's."""
    upto = answered_upto(ends, window, frontier)
    if ticked is None:
        return window.every(first, None, upto)
    after = max(answered_upto(ends, window, ticked), POINT_MIN if closed_by is None else closed_by)
    extents = window.every(first, after, upto)
    if after >= ticked:
        return extents
    given = window.due(panes, after, ticked).ends
    extents = extents.part(~np.isin(extents.ends, given))
    return replace(extents, ticks=np.maximum(extents.ticks, ticked + 1))


def landmarks_to_the_end(
    ends: Sequence[Ended],
    window: LandmarkWindow,
    panes: Points,
    first: int,
    ticked: int | None,
    closed_by: int | None,
    frontier: int,
) -> Extents:
    """The same of landmark windows."""
    upto = landmarks_upto(ends, window, panes, frontier)
    if ticked is None:
        return window.every(first, None, upto)
    after = max(landmarks_upto(ends, window, panes, ticked), POINT_MIN if closed_by is None else closed_by)
    extents = window.every(first, after, upto)
    return replace(extents, ticks=np.maximum(extents.ticks, ticked + 1))


def saved_ends(ends: Sequence[Ended]) -> dict[str, Any]:
    """What must be kept of an axis beside its frontier, as JSON takes it."""
    return {"ended": [[end.before, end.greatest, end.upto] for end in ends]} if ends else {}


def restored_ends(saved: Mapping[str, Any]) -> tuple[Ended, ...]:
    return tuple(Ended(*end) for end in saved.get("ended", ()))
