"""The end of the input: how far empty windows and landmark windows are answered.

The end of the input moves the frontier so far that every window with a tuple closes, in every query. Empty windows
(`empty_windows = 'emit'`) and landmark windows would then depend on the windows of other queries. So empty windows are
answered only up to the frontier before the end of the input, or up to the query's last window with a tuple if that is
later. Landmark windows are answered up to the first end above the greatest point. If the stream continues after all,
the windows left out are answered then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from windrow.types import POINT_MIN
from windrow.windows.contexts import Extents, Points
from windrow.windows.landmark import LandmarkWindow
from windrow.windows.sliding import SlidingWindow


@dataclass(frozen=True)
class Ended:
    """An end of the input: it moved the frontier from `before` to `upto`. `greatest` is the greatest point so far."""

    before: int
    greatest: int
    upto: int

    def __post_init__(self) -> None:
        if self.upto <= self.before:
            raise ValueError("the end of the input moves the frontier on")


def answered_upto(ends: Sequence[Ended], window: SlidingWindow | LandmarkWindow, frontier: int) -> int:
    """The frontier up to which empty and landmark windows are answered, given the stream's frontier.

    `ends` ascend.
    """
    for end in ends:
        if frontier <= end.upto:
            return min(frontier, max(end.before, window.closing(end.greatest)))
    return frontier


def landmarks_upto(ends: Sequence[Ended], window: LandmarkWindow, panes: Points, frontier: int) -> int:
    """`answered_upto` for landmark windows, extended by late tuples.

    A late tuple may lie above the greatest point at the end of the input. `panes` are the starts of occupied panes.
    """
    last = int(np.searchsorted(panes, frontier)) - 1
    reached = answered_upto(ends, window, frontier)
    return reached if last < 0 else max(reached, min(frontier, window.closing(int(panes[last]))))


def after_end(
    ends: Sequence[Ended], before: int | None, greatest: int, upto: int | None, ticked: int | None
) -> tuple[Ended, ...]:
    """`ends` plus one that moved the frontier from `before` to `upto`, without those that ticks have passed."""
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
    """`window.every` for a stream whose input has ended, perhaps several times.

    If the stream continues, this includes the windows left out at its end, except those that were answered since
    because a late tuple fell into them. `panes` are the starts of the panes with a tuple, from `first` on. Windows due
    by `closed_by` do not belong to the query.
    """

    def reached(upto: int) -> int:
        return answered_upto(ends, window, upto)

    def answered(after: int, upto: int) -> Points:
        return window.due(panes, after, upto).ends

    return _to_the_end(window, reached, first, ticked, closed_by, frontier, answered)


def landmarks_to_the_end(
    ends: Sequence[Ended],
    window: LandmarkWindow,
    panes: Points,
    first: int,
    ticked: int | None,
    closed_by: int | None,
    frontier: int,
) -> Extents:
    """`every_to_the_end` for landmark windows."""

    def reached(upto: int) -> int:
        return landmarks_upto(ends, window, panes, upto)

    return _to_the_end(window, reached, first, ticked, closed_by, frontier)


def _to_the_end(
    window: SlidingWindow | LandmarkWindow,
    reached: Callable[[int], int],
    first: int,
    ticked: int | None,
    closed_by: int | None,
    frontier: int,
    answered: Callable[[int, int], Points] | None = None,
) -> Extents:
    """`window.every` between the frontiers that `reached` maps `ticked` and `frontier` to.

    `answered` gives the ends of the windows that were answered between two frontiers; they are left out.
    """
    if ticked is None:
        return window.every(first, None, reached(frontier))
    after = max(reached(ticked), POINT_MIN if closed_by is None else closed_by)
    extents = window.every(first, after, reached(frontier))
    if after >= ticked:
        return extents
    if answered is not None:
        extents = extents.part(~np.isin(extents.ends, answered(after, ticked)))
    return replace(extents, ticks=np.maximum(extents.ticks, ticked + 1))


def saved_ends(ends: Sequence[Ended]) -> dict[str, Any]:
    """The ends as JSON; stored beside the frontier of the axis."""
    return {"ended": [[end.before, end.greatest, end.upto] for end in ends]} if ends else {}


def restored_ends(saved: Mapping[str, Any]) -> tuple[Ended, ...]:
    return tuple(Ended(*end) for end in saved.get("ended", ()))
