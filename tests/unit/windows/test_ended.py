"""The end of the input: how far empty windows are answered, and which follow if the stream continues."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.windows import Ended, SlidingWindow, answered_upto
from windrow.windows.ended import after_end, every_to_the_end, restored_ends, saved_ends

SHORT, LONG = SlidingWindow(5, 5), SlidingWindow(100, 10)
NONE = np.empty(0, np.int64)


def ends_of(ends: tuple[Ended, ...], ticked: int | None, frontier: int, window: SlidingWindow = SHORT) -> list[int]:
    return every_to_the_end(ends, window, NONE, 1, ticked, None, frontier).ends.tolist()


def test_answers_stop_at_last_window_with_a_tuple() -> None:
    ends = (Ended(12, 12, LONG.closing(12)),)
    assert answered_upto(ends, SHORT, 110) == 15 and answered_upto(ends, LONG, 110) == 110
    assert answered_upto(ends, SHORT, 111) == 111 and answered_upto(ends, SHORT, 7) == 7
    assert ends_of(ends, 12, 110) == [15]


def test_stream_continues() -> None:
    ends = (Ended(12, 12, 30),)
    later = every_to_the_end(ends, SHORT, NONE, 1, 30, None, 41)
    assert later.ends.tolist() == [20, 25, 30, 35, 40]
    assert later.ticks.tolist() == [31, 31, 31, 35, 40]  # windows left out wait for the next frontier
    assert ends_of(ends, 41, 50) == [45, 50]
    given = every_to_the_end(ends, SHORT, np.array([15]), 1, 30, None, 41)
    assert given.ends.tolist() == [25, 30, 35, 40]  # [15, 20) was answered for a late tuple at 17
    assert every_to_the_end(ends, SHORT, NONE, 1, 30, 30, 41).ends.tolist() == [35, 40]  # a query created then


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 40), st.booleans()), max_size=6),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_every_window_is_answered_once(steps: list[tuple[int, int, bool]], length: int, slide: int) -> None:
    """Windows are answered without gaps up to `answered_upto`, for any ends, ticks and punctuations."""
    window, ends, answered = SlidingWindow(length, slide), tuple[Ended, ...](), list[int]()
    frontier, ticked, greatest = 1, None, 1
    for on, beyond, is_end in steps:
        greatest = max(greatest, frontier + on)
        before, frontier = frontier, frontier + beyond
        if is_end:
            frontier = max(frontier, greatest + 1, window.closing(greatest))
            ends = after_end(ends, before, greatest, frontier, ticked)
        answered += every_to_the_end(ends, window, NONE, 1, ticked, None, frontier).ends.tolist()
        ticked = frontier
        assert answered == window.every(1, None, answered_upto(ends, window, frontier)).ends.tolist()
        assert restored_ends(saved_ends(ends)) == ends


def test_end_moves_the_frontier() -> None:
    with pytest.raises(ValueError, match="moves the frontier on"):
        Ended(5, 3, 5)
    assert after_end((), 5, 3, 5, None) == () and after_end((Ended(1, 2, 3),), 5, 3, 9, 4) == (Ended(5, 3, 9),)
