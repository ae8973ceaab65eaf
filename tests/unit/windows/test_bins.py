"""Slide-by-tuple bins against the figures of Li et al., SIGMOD 2005, section 6, and against the definition by brute
force; and the engine's windows against the bins."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.plan.accumulators import Accumulator, Kind
from windrow.reference.slide_by_tuple_bins import Aggregate, SlideByTupleBins
from windrow.synopses import BasicIntervalSynopsis, Cells, Lookup
from windrow.types import SqlType
from windrow.windows import Extents, SlideByTuple, SlideOver

COUNT = Aggregate[Any, int](0, lambda n, _: n + 1)
SUM = Aggregate[int, int](0, lambda total, value: total + value)
MAX = Aggregate[int, "int | None"](None, lambda most, value: value if most is None else max(most, value))
AVG = Aggregate[int, tuple[int, int]]((0, 0), lambda pair, value: (pair[0] + value, pair[1] + 1))

AGGREGATES: dict[str, tuple[Aggregate[int, Any], Callable[[Sequence[int]], Any]]] = {
    "count": (COUNT, len),
    "sum": (SUM, sum),
    "max": (MAX, lambda values: max(values, default=None)),
    "avg as a pair": (AVG, lambda values: (sum(values), len(values))),
}


def counts(bins: SlideByTupleBins[Any, int]) -> tuple[dict[int, int], dict[float, int]]:
    """The counts of the start bins and of the end bins, without the init bin."""
    ends = {wid: bin_.pa for wid, bin_ in bins.E.items() if wid != -math.inf}
    return {wid: bin_.pa for wid, bin_ in bins.S.items()}, ends


# Figure 4: RANGE 10, and t1 … t5 have these values. s4 lies between Es5 and Es2, s5 between s1 and s2.
RANGE, S1, S2, S3, S4, S5 = 10, 100, 104, 106, 113, 102
E1, E2, E3, E4, E5 = (s + RANGE for s in (S1, S2, S3, S4, S5))


def figure_4(tuples: int) -> SlideByTupleBins[None, int]:
    bins = SlideByTupleBins(RANGE, COUNT)
    for s in (S1, S2, S3, S4, S5)[:tuples]:
        bins.process_tuple(s, None)
    return bins


def test_init_bin() -> None:
    bins = figure_4(0)
    assert bins.S == {}
    assert {wid: bin_.pa for wid, bin_ in bins.E.items()} == {-math.inf: 0}


@pytest.mark.parametrize(
    ("tuples", "starts", "ends"),
    [
        pytest.param(1, {S1: 1}, {E1: 0}, id="4(a)"),
        pytest.param(2, {S1: 1, S2: 2}, {E1: 1, E2: 0}, id="4(b)"),
        pytest.param(3, {S1: 1, S2: 2, S3: 3}, {E1: 2, E2: 1, E3: 0}, id="4(c)"),
        pytest.param(4, {S1: 1, S2: 2, S3: 3, S4: 3}, {E1: 2, E2: 2, E3: 1, E4: 0}, id="4(d)"),
        pytest.param(
            5, {S1: 1, S5: 2, S2: 3, S3: 4, S4: 3}, {E1: 3, E5: 2, E2: 2, E3: 1, E4: 0}, id="4(e), out of order"
        ),
    ],
)
def test_figure_4(tuples: int, starts: dict[int, int], ends: dict[float, int]) -> None:
    assert counts(figure_4(tuples)) == (starts, ends)


def test_figure_4e() -> None:
    """Only values above s2 follow, so Ss1, Ss5 and Ss2 are emitted. Only Ss2 is kept: later bins start from it."""
    bins = figure_4(5)
    assert bins.process_punctuation(S2 + 1) == [(S1, 1), (S5, 2), (S2, 3)]
    assert set(bins.S) == {S3, S4}
    assert -math.inf not in bins.E and bins.E[S2].pa == 3
    bins.process_tuple(S2 + 1, None)
    assert bins.S[S2 + 1].pa == 4


def test_figure_5() -> None:
    """The range of tn spans B1 … Bm: B1 and Bm are split, B2 … Bm are updated, all others stay the same."""
    bins = SlideByTupleBins(RANGE, COUNT)
    for s in (91, 95, 98, 101, 104, 120):
        bins.process_tuple(s, None)
    # wids: 91 95 98 | 101 101(E) 104 105(E) 108(E) | 111(E) 114(E) 120 130(E)
    starts, ends = counts(bins)
    assert starts == {91: 1, 95: 2, 98: 3, 101: 3, 104: 4, 120: 1}
    assert ends == {101: 3, 105: 3, 108: 2, 111: 1, 114: 0, 130: 0}
    bins.process_tuple(100, None)  # B1 = Ss(98), Bm = Es(98): at 108, below 110
    after_starts, after_ends = counts(bins)
    assert after_starts == starts | {100: starts[98] + 1, 101: 4, 104: 5}
    assert after_ends == ends | {101: 4, 105: 4, 108: 3, 110: ends[108]}


def test_figure_6() -> None:
    bins = SlideByTupleBins(RANGE, COUNT)
    for s in (1, 5, 30):
        bins.process_tuple(s, None)
    assert bins.process_punctuation(5) == [(1, 1)]
    assert bins.process_punctuation(5) == []
    assert counts(bins) == ({5: 2, 30: 1}, {11: 1, 15: 0, 40: 0}), (
        "no later bin starts from Ss1, because there is one at 5"
    )
    assert bins.process_punctuation(20) == [(5, 2)]
    assert counts(bins) == ({30: 1}, {15: 0, 40: 0}), "the newest bin below 20 is an end bin"
    assert bins.process_punctuation(math.inf) == [(30, 1)]
    assert counts(bins) == ({}, {40: 0})


def test_falling_punctuation() -> None:
    bins = SlideByTupleBins(RANGE, COUNT)
    bins.process_tuple(7, None)
    assert bins.process_punctuation(8) == [(7, 1)]
    assert bins.process_punctuation(3) == []
    bins.process_tuple(8, None)
    assert bins.process_punctuation(9) == [(8, 2)]


def test_tuple_below_punctuation() -> None:
    bins = SlideByTupleBins(RANGE, COUNT)
    bins.process_punctuation(10)
    bins.process_tuple(10, None)
    with pytest.raises(ValueError, match="a tuple at 9 comes after the punctuation 10"):
        bins.process_tuple(9, None)


def test_tuple_exactly_range_older() -> None:
    """Figure 6 starts a bin from the bin strictly below: Ss(11) would then start from Ss(1) and count the tuple at 1."""
    bins = SlideByTupleBins(RANGE, COUNT)
    bins.process_tuple(1, None)
    bins.process_tuple(11, None)
    assert bins.process_punctuation(math.inf) == [(1, 1), (11, 1)]


def test_equal_values() -> None:
    bins = SlideByTupleBins(RANGE, COUNT)
    for s in (3, 7, 3, 7, 7):
        bins.process_tuple(s, None)
    assert bins.process_punctuation(math.inf) == [(3, 2), (7, 5)]


def test_over_rows() -> None:
    bins = SlideByTupleBins(RANGE, COUNT, slide=2, over="row")
    for s in (1, 9, 4, 3):  # row numbers 1 … 4: windows at 9 and 3
        bins.process_tuple(s, None)
    assert bins.process_punctuation(math.inf) == [(3, 2), (9, 4)]


def test_over_ranks() -> None:
    bins = SlideByTupleBins(RANGE, COUNT, slide=2, over="rank")
    for s in (1, 9, 4):
        bins.process_tuple(s, None)
    assert [bins.S[s].tup_cnt for s in (1, 4, 9)] == [1, 2, 3]
    bins.process_tuple(3, None)
    assert [bins.S[s].tup_cnt for s in (1, 3, 4, 9)] == [1, 2, 3, 4]
    assert bins.process_punctuation(4) == [(3, 2)]
    bins.process_tuple(30, None)
    assert bins.process_punctuation(math.inf) == [(9, 4)], "ranks count purged bins too, so 30 has rank 5"


@pytest.mark.parametrize("over", ["row", "rank"])
def test_initialise(over: Literal["row", "rank"]) -> None:
    bins = SlideByTupleBins(RANGE, COUNT, slide=2, over=over)
    bins.process_tuple(1, None)
    bins.process_punctuation(5)
    bins.initialise()
    for s in (1, 2):
        bins.process_tuple(s, None)
    assert bins.process_punctuation(math.inf) == [(2, 2)]


@pytest.mark.parametrize(("range_", "slide"), [(0, 1), (-1, 1), (1, 0)])
def test_bad_range_or_slide(range_: int, slide: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        SlideByTupleBins(range_, COUNT, slide)


# -- the definition ----------------------------------------------------------------------------------------


def by_definition(
    rows: Sequence[tuple[int, int]], range_: int, slide: int, over: str, of: Callable[[Sequence[int]], Any]
) -> list[tuple[int, Any]]:
    """All windows of the stream (section 3.3): one for each value at which the row number or the rank is divisible."""
    numbered = [(t, number) for number, (t, _) in enumerate(rows, 1)]
    if over == "rank":
        numbered = [(t, rank) for rank, (t, _) in enumerate(sorted(numbered), 1)]
    wids = sorted({t for t, number in numbered if number % slide == 0})
    return [(w, of([value for t, value in rows if w - range_ < t <= w])) for w in wids]


steps = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(0, 12), st.integers(-9, 9)), max_size=6), st.integers(-3, 9)),
    max_size=6,
)


@pytest.mark.parametrize("name", AGGREGATES)
@pytest.mark.parametrize("over", ["row", "rank"])
@settings(max_examples=150, deadline=None)
@given(steps=steps, range_=st.integers(1, 15), slide=st.integers(1, 4), origin=st.integers(-20, 20))
def test_bins_match_definition(
    name: str, over: Literal["row", "rank"], steps: Any, range_: int, slide: int, origin: int
) -> None:
    """Each step has tuples at or above the punctuation, in any order and with ties, and then a punctuation."""
    aggregate, of = AGGREGATES[name]
    bins = SlideByTupleBins(range_, aggregate, slide, over)
    rows: list[tuple[int, int]] = []
    p: float = origin
    assert bins.process_punctuation(p) == []
    for tuples, advance in [*steps, ([], math.inf)]:
        for ahead, value in tuples:
            rows.append((int(p) + ahead, value))
            bins.process_tuple(*rows[-1])
        below, p = p, max(p, p + advance)
        complete = [(w, pa) for w, pa in by_definition(rows, range_, slide, over, of) if below <= w < p]
        assert bins.process_punctuation(p) == complete
        assert sum(wid < p for wid in (*bins.S, *bins.E)) <= 1, "bins that no later bin needs are purged"


# -- the engine ------------------------------------------------------------------------------------------------

PRESENT = Accumulator(Kind.COUNT, None, None, None)
TOTAL = Accumulator(Kind.SUM_INT, "x", SqlType("INT"), None)
NTH = Accumulator(Kind.COUNT, None, None, "nth")


@pytest.mark.parametrize("over", [SlideOver.ROW, SlideOver.RANK], ids=lambda over: over.value)
@settings(max_examples=150, deadline=None)
@given(steps=steps, range_=st.integers(1, 15), slide=st.integers(1, 4), origin=st.integers(-20, 20))
def test_engine_matches_bins(over: SlideOver, steps: Any, range_: int, slide: int, origin: int) -> None:
    """The due and marked windows of a synopsis with one pane per value equal Figure 6 after each punctuation."""
    bins = SlideByTupleBins(range_, AVG, slide, "row" if over is SlideOver.ROW else "rank")
    window = SlideByTuple(range_, slide, over if slide > 1 else SlideOver.VALUE)
    synopsis, ticked, ranked, row = BasicIntervalSynopsis([]), None, 0, 0
    p: float = origin
    bins.process_punctuation(p)
    for tuples, advance in [*steps, ([], 1000)]:
        for ahead, value in tuples:
            row += 1
            bins.process_tuple(int(p) + ahead, value)
            states = {PRESENT: 1, TOTAL: value, NTH: int(row % slide == 0)}
            columns = {a: (np.array([state], np.int64),) for a, state in states.items()}
            synopsis.deposit(Cells(np.array([int(p) + ahead]), synopsis.groups.ids([], np.zeros(1, bool)), columns))
        p = max(p, p + advance)
        synopsis.close(int(p))
        extents = window.due(synopsis.closed_panes, ticked, int(p))
        if slide > 1:
            counts = synopsis.totals(NTH if over is SlideOver.ROW else PRESENT, extents.ends - 1)
            extents, ranked = extents.part(window.marked(counts, ranked)), ranked + int(counts.sum())
        ticked = int(p)
        assert answers(synopsis, extents) == bins.process_punctuation(p)


def answers(synopsis: BasicIntervalSynopsis, extents: Extents) -> list[tuple[int, tuple[int, int]]]:
    """The window id, the sum and the count of each extent."""
    if not len(extents):
        return []
    lookup = Lookup("q", extents.starts, extents.ends, PRESENT, (PRESENT, TOTAL), False)
    (looked,) = synopsis.answer([lookup])
    sums, counts = (looked.states[a][0].tolist() for a in (TOTAL, PRESENT))
    wids = (extents.ends[looked.window] - 1).tolist()
    return list(zip(wids, zip(sums, counts, strict=True), strict=True))
