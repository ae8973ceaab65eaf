"""`windows`, `extent` and `wids` agree, and the due windows are those of a naive enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.windows import Points, SlidingWindow, due_windows

some = settings(max_examples=100, deadline=None)

DAY = 86_400_000_000

small_windows = st.builds(SlidingWindow, st.integers(1, 40), st.integers(1, 40), st.integers(-100, 100))
big_windows = st.builds(
    SlidingWindow,
    st.integers(1, 1 << 60),
    st.integers(1, 1 << 60),
    st.integers(-(10**18), 10**18),
)
points = st.integers(-(10**18), 10**18)


def panes(*starts: int) -> Points:
    return np.array(sorted(starts), dtype=np.int64)


@some
@given(small_windows, st.integers(-300, 300), st.integers(-400, 400))
def test_wids_and_extent_are_inverse(window: SlidingWindow, t: int, w: int) -> None:
    start, end = window.extent(w)
    assert end - start == window.range
    assert (start <= t < end) == (w in window.wids(t))


@some
@given(st.one_of(small_windows, big_windows), points)
def test_wids_at_both_ends(window: SlidingWindow, t: int) -> None:
    wids = window.wids(t)
    for w in (wids[0], wids[-1]) if len(wids) else ():
        start, end = window.extent(w)
        assert start <= t < end
    for beyond in (wids.start - 1, wids.stop):
        start, end = window.extent(beyond)
        assert not start <= t < end
    assert abs(len(wids) * window.slide - window.range) < window.slide


@some
@given(small_windows, st.integers(-200, 200), st.integers(0, 100))
def test_windows_of_an_interval(window: SlidingWindow, first: int, more: int) -> None:
    covered = {w for t in range(first, first + more + 1) for w in window.wids(t)}
    told = window.windows(first, first + more)
    assert covered <= set(told)
    for w in told:
        start, end = window.extent(w)
        assert start <= first + more and end > first


@some
@given(small_windows, st.integers(-300, 300))
def test_last_closed(window: SlidingWindow, frontier: int) -> None:
    w = window.last_closed(frontier)
    assert window.extent(w)[1] <= frontier < window.extent(w + 1)[1]


@some
@given(small_windows, st.lists(st.integers(-50, 50), max_size=20))
def test_extents_match_extent(window: SlidingWindow, wids: list[int]) -> None:
    assert window.extents(panes(*wids)).ends.tolist() == [window.extent(w)[1] for w in sorted(wids)]


@some
@given(small_windows, st.integers(-60, 60))
def test_every_edge_is_a_cut(window: SlidingWindow, t: int) -> None:
    if any(t in window.extent(w) for w in range(-400, 400)):
        assert window.cuts().floor(panes(t))[0] == t


@pytest.mark.parametrize("bad", [(0, 1), (1, 0), (-5, 1), (1, -5)])
def test_bad_range_or_slide(bad: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="positive"):
        SlidingWindow(*bad)


def test_slide_beyond_range() -> None:
    window = SlidingWindow(2, 10)
    assert [list(window.wids(t)) for t in (7, 8, 9, 10)] == [[], [0], [0], []]


def test_negative_window_ids() -> None:
    window = SlidingWindow(10, 5)
    assert list(window.wids(-1)) == [-1, 0]
    assert window.extent(-1) == (-10, 0)


def naive_due(window: SlidingWindow, occupied: list[int], after: int, upto: int) -> list[int]:
    return [
        w
        for w in range(after + 1, upto + 1)
        if any(window.extent(w)[0] <= pane < window.extent(w)[1] for pane in occupied)
    ]


@some
@given(
    small_windows,
    st.sets(st.integers(-200, 200), max_size=12),
    st.integers(-150, 150),
    st.integers(0, 120),
)
def test_due_windows_match_naive(window: SlidingWindow, occupied: set[int], after: int, more: int) -> None:
    found = due_windows(window, panes(*occupied), after, after + more)
    assert found.dtype == np.int64
    assert found.tolist() == naive_due(window, sorted(occupied), after, after + more)


def test_due_windows_skip_a_gap() -> None:
    second = 1_000_000
    window = SlidingWindow(2 * second, second)
    quiet = 3600 * second
    found = due_windows(window, panes(0, quiet), -1, 10_000)
    assert found.tolist() == [0, 1, 3600, 3601]


def test_due_windows_over_a_long_gap() -> None:
    window = SlidingWindow(DAY, DAY)
    apart = 10**17 // DAY * DAY
    assert due_windows(window, panes(-apart, 0, apart), -(10**9), 10**9).tolist() == [-apart // DAY, 0, apart // DAY]


def test_no_due_windows() -> None:
    window = SlidingWindow(10, 5)
    assert due_windows(window, panes(), -100, 100).size == 0
    assert due_windows(window, panes(0, 5), 7, 7).size == 0
    assert due_windows(window, panes(0, 5), 7, 3).size == 0
