"""The documents' worked numbers, as far as windows and the basic interval synopsis go."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import pytest

from windrow.plan.aggregates import decompose
from windrow.synopses import BasicIntervalSynopsis, Cells, Lookup
from windrow.synopses.results.values import result_of
from windrow.types import SqlType, point_of
from windrow.windows import CutSchedule, SlackFrontier, SlidingWindow

TIMESTAMP = SqlType("TIMESTAMP")
MINUTE = 60_000_000


def at(hour: int, minute: int, second: int = 0) -> int:
    return point_of(datetime(2005, 6, 14, hour, minute, second, tzinfo=timezone.utc), TIMESTAMP)


Q1 = SlidingWindow(300_000_000, 60_000_000, at(12, 0))
"""003_7281f3198fa2d2a0.txt, Q1: [RANGE 300 seconds SLIDE 60 seconds WATTR ts], started at 12:00:00."""


def test_q1_extents_10_and_11() -> None:
    assert Q1.extent(10) == (at(12, 6), at(12, 11))
    assert Q1.extent(11) == (at(12, 7), at(12, 12))


@pytest.mark.parametrize("second", [0, 1, 30, 59])
def test_q1_tuple_t1_belongs_to_extents_10_through_14(second: int) -> None:
    assert list(Q1.wids(at(12, 10, second))) == [10, 11, 12, 13, 14]


def test_q1_extents_0_through_3_are_partial() -> None:
    """'… and they are of length 1, 2, 3, 4 minutes respectively': counted from the start of the stream."""
    lengths = [Q1.extent(w)[1] - max(Q1.extent(w)[0], at(12, 0)) for w in range(5)]
    assert [length // MINUTE for length in lengths] == [1, 2, 3, 4, 5]
    assert list(Q1.wids(at(12, 0)))[0] == 0


def test_q1_punctuation_p1_closes_extent_10_and_no_later_one() -> None:
    """p1: no more tuples with a timestamp below 12:11:00; p1' then punctuates window extent 10."""
    frontier = SlackFrontier(0).promise(at(12, 11)).value
    assert frontier is not None and Q1.last_closed(frontier) == 10
    assert Q1.last_closed(frontier - 1) == 9


def test_q1_panes_are_its_minutes() -> None:
    """A pane is the greatest part that is never split: RANGE is a multiple of SLIDE, so one per slide."""
    panes = CutSchedule.of(Q1.cuts()).pane_starts(np.array([at(12, 10), at(12, 10, 59), at(12, 11)]))
    assert panes.tolist() == [at(12, 10), at(12, 10), at(12, 11)]


# -- 001_3bbbc8a20ffc7252.txt, section 2.3.4 and Figure 2.5 ---------------------------------------------------

B, S = 8, 1
"""b = 8 basic intervals of length s; the query is MAX over a window of length 7s."""

VALUES = [3, 9, 4, 1, 7, 2, 6, 5, 8, 0, 2]
"""f((is, (i+1)s]) for i = 0…: the maximum of each basic interval."""

MAX = decompose("MAX", "x", SqlType("INT"), None)


def interval(synopsis: BasicIntervalSynopsis, i: int) -> Cells:
    """What the buffer pre-computed for basic interval i: several tuples, of which the greatest counts."""
    states = {MAX.part("n"): (np.array([2, 1]),), MAX.part("v"): (np.array([VALUES[i] - 5, VALUES[i]]),)}
    return Cells(np.array([i, i]) * S, synopsis.groups.ids([], np.zeros(2, bool)), states)


def window_max(synopsis: BasicIntervalSynopsis, t: int, intervals: int) -> int:
    end = np.array([t])
    reads = (MAX.part("n"), MAX.part("v"))
    (found,) = synopsis.answer([Lookup("q", end - intervals * S, end, MAX.part("n"), reads, True)])
    answer = result_of(MAX, found.states)[0].as_py()
    assert isinstance(answer, int)
    return answer


def test_figure_2_5_basic_interval_synopsis() -> None:
    """MAX over 7s accesses 7 of the b = 8 intervals: the oldest, which holds the 9, may not count."""
    synopsis = BasicIntervalSynopsis([])
    for i in range(B + 1):
        synopsis.deposit(interval(synopsis, i))
        synopsis.close((i + 1) * S)
    t = (B + 1) * S
    assert synopsis.closed_panes.size == B + 1
    assert window_max(synopsis, t, 7) == max(VALUES[2:9]) == 8
    assert window_max(synopsis, t, 8) == max(VALUES[1:9]) == 9


def test_figure_2_5_update_at_t_plus_s() -> None:
    """f((t − 8s, t − 7s]) is dropped and f((t, t + s]) inserted; every answer of every length up to bs is exact."""
    synopsis = BasicIntervalSynopsis([])
    for i in range(len(VALUES)):
        synopsis.deposit(interval(synopsis, i))
        synopsis.close((i + 1) * S)
        synopsis.expire((i + 1 - B) * S)
        kept = synopsis.closed_panes.tolist()
        assert kept == [p * S for p in range(max(0, i + 1 - B), i + 1)]
        for n in range(1, min(B, i + 1) + 1):
            assert window_max(synopsis, (i + 1) * S, n) == max(VALUES[i + 1 - n : i + 1])
