"""Every kind of window: `extent` and `wids` are inverse, each window is due once, and the context is right.

The contexts are those of Li et al., SIGMOD 2005, section 4.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.types import POINT_MIN
from windrow.windows import (
    Context,
    Extents,
    LandmarkWindow,
    PaneWindow,
    PartitionedWindow,
    Points,
    SlideByTuple,
    SlideOver,
    SlidingWindow,
    ranges,
)

some = settings(max_examples=120, deadline=None)
lengths = st.integers(1, 12)
slidings = st.builds(SlidingWindow, lengths, lengths, st.integers(-9, 9), st.integers(0, 15))
landmarks = st.builds(LandmarkWindow, st.none() | st.integers(-20, 20), lengths, st.integers(-9, 9))
by_value = st.builds(SlideByTuple, lengths)
by_count = st.builds(SlideByTuple, lengths, st.integers(2, 4), st.sampled_from([SlideOver.ROW, SlideOver.RANK]))
values = st.lists(st.integers(-30, 30), min_size=1, max_size=12)


def array(points: list[int]) -> Points:
    return np.array(sorted(set(points)), np.int64)


def pairs(extents: Extents) -> list[tuple[int, int]]:
    return list(zip(extents.starts.tolist(), extents.ends.tolist(), strict=True))


# -- extent and wids are inverse -------------------------------------------------------------------------------


@some
@given(slidings, st.integers(-40, 40))
def test_sliding_and_historical(window: SlidingWindow, t: int) -> None:
    held = [w for w in range(-200, 200) if window.extent(w)[0] <= t < window.extent(w)[1]]
    assert list(window.wids(t)) == held


@some
@given(landmarks, st.integers(-40, 40))
def test_landmark_and_unbounded(window: LandmarkWindow, t: int) -> None:
    held = [w for w in range(-200, 50) if window.extent(w)[0] <= t < window.extent(w)[1]]
    assert list(window.wids(t, 49)) == held


@some
@given(st.builds(PartitionedWindow, lengths, lengths, st.integers(0, 9)), st.integers(1, 40))
def test_partitioned(window: PartitionedWindow, rank: int) -> None:
    held = [i for i in range(-60, 200) if window.extent(i)[0] <= rank < window.extent(i)[1]]
    assert list(window.wids(rank)) == held


@some
@given(by_value | by_count, values)
def test_slide_by_tuple(window: SlideByTuple, points: list[int]) -> None:
    ids = window.windows((t, row) for row, t in enumerate(points, 1))
    for t in points:
        assert window.wids(t, ids) == [w for w in ids if window.extent(w)[0] <= t < window.extent(w)[1]]
        assert all(w - window.range < t <= w for w in window.wids(t, ids))


@some
@given(values, st.integers(2, 4), lengths)
def test_marked(points: list[int], n: int, length: int) -> None:
    tuples = [(t, row) for row, t in enumerate(points, 1)]
    assert SlideByTuple(length).windows(tuples) == sorted(set(points))
    rows = SlideByTuple(length, n, SlideOver.ROW).windows(tuples)
    assert rows == sorted({t for t, row in tuples if row % n == 0})
    ranked = SlideByTuple(length, n, SlideOver.RANK).windows(tuples)
    assert ranked == sorted({t for i, t in enumerate(sorted(points), 1) if i % n == 0})


# -- due windows ------------------------------------------------------------------------------------------------


@some
@given(slidings | landmarks | by_value, values, st.lists(st.integers(-30, 60), min_size=1, max_size=6))
def test_every_window_is_due_once(window: PaneWindow, points: list[int], frontiers: list[int]) -> None:
    """Any steps of the frontier make the same windows due as one step."""
    panes = (
        array(window.cuts().floor(array(points)).tolist()) if not isinstance(window, LandmarkWindow) else array(points)
    )
    steps = sorted(set(frontiers))
    whole = pairs(window.due(panes, None, steps[-1]))
    ticked, found = None, []
    for frontier in steps:
        extents = window.due(panes, ticked, frontier)
        assert all(t <= frontier for t in extents.ticks.tolist())
        found += pairs(extents)
        ticked = frontier
    assert found == whole and len(set(found)) == len(found)
    if isinstance(window, SlidingWindow):
        wanted = {window.extent(w) for t in points for w in window.wids(t) if w <= window.last_closed(steps[-1])}
        assert set(found) == wanted


@some
@given(slidings | landmarks | by_value, st.integers(-30, 30))
def test_closing(window: PaneWindow, t: int) -> None:
    closing = window.closing(t)
    due = pairs(window.due(array([t]), None, closing))
    assert closing > t or not due
    if isinstance(window, SlidingWindow):
        assert len(due) == len(window.wids(t))
    elif isinstance(window, LandmarkWindow):
        assert bool(due) == (t >= window.start)
    else:
        assert due == [(t - window.range + 1, t + 1)]


@some
@given(slidings | landmarks | by_value, st.integers(-30, 60), st.integers(0, 40))
def test_needed_from(window: PaneWindow, frontier: int, ahead: int) -> None:
    needed = window.needed_from(frontier)
    later = window.due(array([frontier + ahead]), frontier, frontier + ahead + 100)
    assert all(start >= needed for start in later.starts.tolist())


@some
@given(slidings | by_value, st.integers(-30, 60))
def test_held_from(window: SlidingWindow | SlideByTuple, frontier: int) -> None:
    held = window.held_from(frontier)
    last = window.last_closed(frontier) if isinstance(window, SlidingWindow) else frontier - 1
    assert held == window.extent(last)[0] <= window.needed_from(frontier)


@some
@given(
    st.builds(PartitionedWindow, lengths, lengths, st.integers(0, 9)),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=4),
)
def test_completed_windows_of_partitions(window: PartitionedWindow, grown: list[tuple[int, int]]) -> None:
    before = np.array([b for b, _ in grown], np.int64)
    after = before + np.array([d for _, d in grown], np.int64)
    first, second = window.completed(np.zeros_like(before), before), window.completed(before, after)
    both = window.completed(np.zeros_like(before), after)
    assert set(zip(*(a.tolist() for a in first), strict=True)) | set(
        zip(*(a.tolist() for a in second), strict=True)
    ) == set(zip(*(a.tolist() for a in both), strict=True))
    rest = window.rest(after)
    for p, count in enumerate(after.tolist()):
        held = {i for rank in range(1, count + 1) for i in window.wids(rank)}
        listed = [
            i for which, wids in (both, rest) for q, i in zip(which.tolist(), wids.tolist(), strict=True) if q == p
        ]
        if count:
            assert sorted(listed) == sorted(held)


# -- shown, contexts, errors -----------------------------------------------------------------------------------


def test_shown() -> None:
    starts, ends = SlideByTuple(5).shown(SlideByTuple(5).due(array([3, 9]), None, 20))
    assert starts is not None and (starts.tolist(), ends.tolist()) == ([-2, 4], [3, 9])
    starts, ends = LandmarkWindow(None, 10).shown(LandmarkWindow(None, 10).due(array([3]), None, 20))
    assert starts is None and ends.tolist() == [10, 20]
    assert LandmarkWindow(None, 10).start == POINT_MIN


@pytest.mark.parametrize(
    ("window", "context"),
    [
        (SlidingWindow(5, 5), Context.CF),
        (SlidingWindow(5, 5, 1), Context.CF),
        (LandmarkWindow(0, 5), Context.CF),
        (PartitionedWindow(5, 5), Context.FCF),
        (SlideByTuple(5), Context.FCB),
        (SlideByTuple(5, 2, SlideOver.ROW), Context.FCB),
        (SlideByTuple(5, 2, SlideOver.RANK), Context.FCU),
    ],
)
def test_context(window: PaneWindow | PartitionedWindow, context: Context) -> None:
    assert window.context is context


def test_bad_windows() -> None:
    for made in (
        lambda: SlidingWindow(5, 5, 0, -1),
        lambda: LandmarkWindow(0, 0),
        lambda: PartitionedWindow(0, 1),
        lambda: SlideByTuple(0),
        lambda: SlideByTuple(5, 2),
        lambda: SlideByTuple(5, 1, SlideOver.RANK),
        lambda: Extents(array([1]), array([1, 2]), array([1])),
    ):
        with pytest.raises(ValueError):
            made()


def test_ranges() -> None:
    which, found = ranges(np.array([1, 5, 7]), np.array([3, 4, 7]))
    assert which.tolist() == [0, 0, 0, 2] and found.tolist() == [1, 2, 3, 7]
