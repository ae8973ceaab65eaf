"""Windows whose edges are cuts: equal to those of a search through all cuts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from windrow.types import POINT_MIN
from windrow.windows import Cuts, CutSchedule
from windrow.windows.fitting import ceiling_cut, floor_cut, is_cut, latest_end, nearest_windows

progressions = st.integers(1, 12).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p - 1)))
cuts = st.lists(progressions, min_size=1, max_size=3).map(Cuts.of)


@st.composite
def schedules(draw: st.DrawFn) -> CutSchedule:
    starts = sorted(draw(st.sets(st.integers(-40, 40), max_size=2)))
    return CutSchedule(((POINT_MIN, draw(cuts)), *((start, draw(cuts)) for start in starts)))


@given(schedules(), st.integers(-90, 90))
def test_floor_and_ceiling_cut(schedule: CutSchedule, point: int) -> None:
    panes = schedule.pane_starts(np.arange(point - 60, point + 61))
    assert floor_cut(schedule, point) == panes[60]
    assert is_cut(schedule, point) == (panes[60] == point)
    above = np.unique(panes)
    assert ceiling_cut(schedule, point) == above[above >= point][0]


@given(schedules(), st.integers(1, 60), st.integers(-100, 100), st.integers(-100, 100))
def test_latest_end(schedule: CutSchedule, length: int, low: int, high: int) -> None:
    points = np.arange(low, high + 1)
    held = set(points[schedule.pane_starts(points) == points].tolist()) if points.size else set()
    fitting = [end for end in held if end - length in held]
    assert latest_end(schedule, length, low, high) == max(fitting, default=None)


@given(schedules(), st.integers(-50, 50), st.integers(1, 40))
def test_near(schedule: CutSchedule, start: int, length: int) -> None:
    found = nearest_windows(schedule, start, start + length)
    assert all(is_cut(schedule, low) and is_cut(schedule, high) and low < high for low, high in found)
    if is_cut(schedule, start) and is_cut(schedule, start + length):
        assert found[0] == (start, start + length)


def test_progressions_that_never_meet() -> None:
    schedule = CutSchedule.of(Cuts(((60, 0), (7, 3))))
    assert latest_end(schedule, 7 * 4, -(10**6), 10**6) is not None
    assert latest_end(CutSchedule.of(Cuts(((60, 0),))), 59, -(10**6), 10**6) is None
