"""The worked examples of the papers for windows and the basic interval synopsis."""

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
"""Li et al., SIGMOD 2005, Q1: [RANGE 300 seconds SLIDE 60 seconds WATTR ts], started at 12:00:00."""


def test_q1_extents_10_and_11() -> None:
    assert Q1.extent(10) == (at(12, 6), at(12, 11))
    assert Q1.extent(11) == (at(12, 7), at(12, 12))


@pytest.mark.parametrize("second", [0, 1, 30, 59])
def test_q1_tuple_t1_is_in_extents_10_to_14(second: int) -> None:
    assert list(Q1.wids(at(12, 10, second))) == [10, 11, 12, 13, 14]


def test_q1_extents_0_to_3_are_partial() -> None:
    """ "… and they are of length 1, 2, 3, 4 minutes respectively", counted from the start of the stream."""
    lengths = [Q1.extent(w)[1] - max(Q1.extent(w)[0], at(12, 0)) for w in range(5)]
    assert [length // MINUTE for length in lengths] == [1, 2, 3, 4, 5]
    assert list(Q1.wids(at(12, 0)))[0] == 0


def test_q1_punctuation_p1_closes_extent_10() -> None:
    """p1: no more tuples with a timestamp below 12:11:00; p1' then punctuates window extent 10."""
    frontier = SlackFrontier(0).promise(at(12, 11)).value
    assert frontier is not None and Q1.last_closed(frontier) == 10
    assert Q1.last_closed(frontier - 1) == 9


def test_q1_panes() -> None:
    """RANGE is a multiple of SLIDE, so there is one pane per slide."""
    panes = CutSchedule.of(Q1.cuts()).pane_starts(np.array([at(12, 10), at(12, 10, 59), at(12, 11)]))
    assert panes.tolist() == [at(12, 10), at(12, 10), at(12, 11)]


# -- Golab's dissertation, section 2.3.4 and Figure 2.5 ---------------------------------------------------

B, S = 8, 1
"""b = 8 basic intervals of length s; the query is MAX over a window of length 7s."""

VALUES = [3, 9, 4, 1, 7, 2, 6, 5, 8, 0, 2]
"""f((is, (i+1)s]) for i = 0…, the maximum of each basic interval."""

MAX = decompose("MAX", "x", SqlType("INT"), None)


def interval(synopsis: BasicIntervalSynopsis, i: int) -> Cells:
    """The cells of basic interval i: several tuples, the greatest of which counts."""
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
    """MAX over 7s reads 7 of the b = 8 intervals, and not the oldest, which contains the 9."""
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
