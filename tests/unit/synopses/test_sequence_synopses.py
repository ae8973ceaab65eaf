"""R-INT, B-INT and L-INT equal brute force at every step, and have the costs of Arasu and Widom, VLDB 2004, Figure 1."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.brute_force import MOMENTS, TYPES, Row, calls_of, cells_of, expected, roles_of, same, values_of
from support.products import Together, added_up, fold_of_all, joined, parted

from windrow.reference.metering import Meter, MeteredFold
from windrow.synopses.cells.folds import GREATEST, LEAST, adding
from windrow.synopses.cells.folds import MOMENTS as MOMENTS_FOLD
from windrow.synopses.cells.groups import Groups
from windrow.synopses.index.interval import IntervalSynopsis, base_intervals
from windrow.synopses.index.landmark import LandmarkSynopsis, Partition, partitions_of
from windrow.synopses.index.running import RunningSynopsis, is_subtractable
from windrow.synopses.index.scans import running_merges
from windrow.synopses.index.sequence import TupleWindow
from windrow.synopses.results.values import result_of
from windrow.types import SqlType

SUM = adding(np.int64)
EXACT = tuple(t for t in TYPES if t.is_integer or t.is_decimal)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def windows() -> st.SearchStrategy[list[TupleWindow]]:
    """Suffix windows (right = 0) and historical ones."""
    pair = st.tuples(st.integers(1, 40), st.integers(0, 30) | st.just(0))
    return st.lists(pair.map(lambda p: TupleWindow(p[0] + p[1], p[1])), min_size=1, max_size=6)


def batches(random: Random, total: int) -> Iterator[slice]:
    """Cuts of [0, total) into batches of one cell, a few, or more than any span."""
    at = 0
    while at < total:
        size = random.choice([1, 1, 2, 7, 100])
        yield slice(at, min(at + size, total))
        at += size


def every_step(synopsis: Any, cells: Any, windows: list[TupleWindow], random: Random) -> Iterator[tuple[int, int, Any]]:
    """After each batch, the interval of every window and its state, looked up together and one by one."""
    for part in batches(random, len(cells[0])):
        synopsis.update(tuple(column[part] for column in cells))
        asked = [window.interval(synopsis.length) for window in windows]
        states = synopsis.lookup(ints(*(low for low, _ in asked)), ints(*(high for _, high in asked)))
        for i, (low, high) in enumerate(asked):
            yield low, high, tuple(column[i : i + 1] for column in states)
            yield low, high, tuple(np.array([c[()]], c.dtype) for c in synopsis.lookup_one(low, high))


# -- equal to brute force -----------------------------------------------------------------------------------


def check_against_brute_force(make: Any, type_: SqlType, calls: Any, data: Any) -> None:
    pool = data.draw(st.lists(values_of(type_) | st.none(), min_size=1, max_size=12))
    asked = data.draw(windows())
    random = Random(data.draw(st.integers(0, 1 << 16)))
    rows = [Row(i, (), random.choice(pool)) for i in range(random.randrange(1, 130))]
    accumulators = list(roles_of(calls))
    cells = joined(accumulators, cells_of(rows, roles_of(calls), type_, Groups([])).states)
    synopsis = make(accumulators, asked)
    for low, high, state in every_step(synopsis, cells, asked, random):
        states = parted(accumulators, state)
        for call in calls:
            found = result_of(call, states).to_pylist()[0]
            right = expected(call, type_, [row.value for row in rows[low:high]])
            assert same(found, right), (call.function, low, high, found, right)


def near(type_: SqlType) -> bool:
    """Values close enough for moments in doubles to 1e-9."""
    return type_.is_float or type_.name in ("TINYINT", "SMALLINT")


@pytest.mark.parametrize("type_", EXACT, ids=str)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_running_equals_brute_force(type_: SqlType, data: Any) -> None:
    calls = [call for call in calls_of(type_) if call.function in ("COUNT", "SUM", "AVG")]
    check_against_brute_force(
        lambda parts, asked: RunningSynopsis(added_up(parts), max(w.left for w in asked)), type_, calls, data
    )


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_interval_equals_brute_force(type_: SqlType, data: Any) -> None:
    calls = [call for call in calls_of(type_) if near(type_) or call.function not in MOMENTS]
    check_against_brute_force(
        lambda parts, asked: IntervalSynopsis(fold_of_all(parts), max(w.left for w in asked)), type_, calls, data
    )


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=15, deadline=None)
@given(data=st.data(), ratio=st.sampled_from([1, 1.5, 2, 4]))
def test_landmark_equals_brute_force(type_: SqlType, data: Any, ratio: float) -> None:
    calls = [call for call in calls_of(type_) if near(type_) or call.function not in MOMENTS]
    check_against_brute_force(
        lambda parts, asked: LandmarkSynopsis(fold_of_all(parts), partitions_of(asked, ratio)), type_, calls, data
    )


@settings(max_examples=30, deadline=None)
@given(asked=windows(), groups=st.integers(1, 4), seed=st.integers(0, 1 << 16))
def test_all_groups_at_once(asked: list[TupleWindow], groups: int, seed: int) -> None:
    """A cell of many groups, as a pane is: a column per group."""
    rng, span = np.random.default_rng(seed), max(w.left for w in asked)
    values = rng.integers(-100, 100, (120, groups))
    fold = Together((SUM, GREATEST))
    for synopsis, cells in (
        (RunningSynopsis(SUM, span, (groups,)), (values,)),
        (IntervalSynopsis(fold, span, (groups,)), (values, values)),
        (LandmarkSynopsis(fold, partitions_of(asked), shape=(groups,)), (values, values)),
    ):
        for part in batches(Random(seed), len(values)):
            synopsis.update(tuple(column[part] for column in cells))
            found = [window.interval(synopsis.length) for window in asked]
            state = synopsis.lookup(ints(*(a for a, _ in found)), ints(*(b for _, b in found)))
            for i, (low, high) in enumerate(found):
                assert state[0][i].tolist() == values[low:high].sum(axis=0).tolist()
                assert synopsis.lookup_one(low, high)[0].tolist() == state[0][i].tolist()
                if len(state) > 1:
                    least = np.iinfo(np.int64).min
                    assert state[1][i].tolist() == values[low:high].max(axis=0, initial=least).tolist()


# -- running sums and doubles -------------------------------------------------------------------------------


def test_running_refuses_inexact_folds() -> None:
    assert is_subtractable(adding(np.int64, 5))
    for fold in (adding(np.float64), MOMENTS_FOLD, GREATEST, LEAST):
        assert not is_subtractable(fold)
        with pytest.raises(ValueError, match="interval synopsis"):
            RunningSynopsis(fold, 10)


def test_running_sums_wrap() -> None:
    synopsis = RunningSynopsis(SUM, 4)
    big = np.iinfo(np.int64).max
    synopsis.update((ints(big, big, big, 1, 2, 3),))
    assert synopsis.lookup(ints(3, 2), ints(6, 4))[0].tolist() == [6, -(1 << 63)], "the second sum does not fit"
    assert synopsis.lookup_one(3, 6)[0] == 6


def test_huge_double_leaves_no_trace() -> None:
    """After 1e300 leaves the window, an interval synopsis of doubles is exact again at once."""
    synopsis = IntervalSynopsis(adding(np.float64), 8)
    synopsis.update((np.array([1e300, -1e300, 1e300, 0.25, 0.5, 0.125]),))
    assert synopsis.lookup_one(3, 6)[0] == 0.875
    assert synopsis.lookup(ints(3), ints(6))[0].tolist() == [0.875]


# -- examples from the papers -------------------------------------------------------------------------------


def test_example_3_1_base_intervals() -> None:
    """(1, 43) of Arasu and Widom as base intervals. The paper splits (1, 32) further; ours are the fewest."""
    printed = [(1, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, 40), (41, 42), (43, 43)]
    found = sorted(interval_of(slot, 64) for slot in base_intervals(0, 43, 64))
    assert found == [(1, 32), (33, 40), (41, 42), (43, 43)]
    for low, high in printed:
        assert len(list(base_intervals(low - 1, high, 64))) == 1, "each of the text's is one base interval"
        assert any(start <= low and high <= end for start, end in found)


def interval_of(slot: int, slots: int) -> tuple[int, int]:
    """The interval (l, r) of a slot of the heap, counted from 1 as in the paper."""
    level_slots = 1 << (slot.bit_length() - 1)
    width = slots // level_slots
    return (slot - level_slots) * width + 1, (slot - level_slots + 1) * width


@settings(max_examples=200, deadline=None)
@given(low=st.integers(0, 5000), width=st.integers(1, 3000))
def test_theorem_3_1_base_interval_count(low: int, width: int) -> None:
    slots = list(base_intervals(low, low + width, 4096))
    assert len(slots) == len(set(slots)) <= 2 * width.bit_length()
    assert sum(4096 >> (slot.bit_length() - 1) for slot in slots) == width


def test_level_7_base_interval() -> None:
    """(385, 512) = (2⁷·3 + 1, 2⁷·4) is one base interval."""
    assert len(list(base_intervals(384, 512, 1024))) == 1


def test_example_3_2_landmark_intervals() -> None:
    """W_min = 1000, W_max = 2000: (3257, 5164) is (3257, 3999) and (4000, 5164), landmarks being multiples of 1000.

    Cells count from 0 here, so the landmark 4000 is before cell 4000.
    """
    meter = Meter()
    synopsis = LandmarkSynopsis(
        MeteredFold(SUM, meter), partitions_of([TupleWindow(3000, 2000), TupleWindow(3000, 1000)])
    )
    assert synopsis.partitions == (Partition(1000, 2000, 3000),)
    values = np.random.default_rng(1).integers(0, 100, 6000)
    synopsis.update((values,))
    meter.read()
    assert synopsis.lookup_one(3257, 5165)[0] == values[3257:5165].sum()
    assert meter.read() == 1, "two landmark intervals, merged once"


def test_partitions_by_width_ratio() -> None:
    asked = [TupleWindow(w) for w in (10, 15, 20, 21, 40, 50, 1000)] + [TupleWindow(500, 488)]
    assert partitions_of(asked, 2) == (
        Partition(10, 20, 500),
        Partition(21, 40, 40),
        Partition(50, 50, 50),
        Partition(1000, 1000, 1000),
    )
    assert len(partitions_of(asked, 1)) == 8


def test_figure_2_5_of_the_dissertation() -> None:
    """Golab's dissertation, Figure 2.5: b = 8; a window of 7s is three disjoint intervals."""
    assert len(list(base_intervals(1, 8, 8))) == 3
    values = ints(3, 1, 4, 1, 5, 9, 2, 6)
    running, interval = RunningSynopsis(SUM, 8), IntervalSynopsis(GREATEST, 8)
    running.update((values,))
    interval.update((values,))
    assert running.lookup_one(1, 8)[0] == 28 and interval.lookup_one(1, 8)[0] == 9
    assert interval.size <= 4 * 8, "O(b) intervals; 2b of them where b + 1 is a power of two"


# -- preconditions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: RunningSynopsis(SUM, 5), lambda: IntervalSynopsis(SUM, 5)])
def test_inactive_cells_are_refused(make: Any) -> None:
    synopsis = make()
    synopsis.update((np.ones(20, np.int64),))
    for low, high in ((14, 20), (16, 21), (18, 17), (-1, 0)):
        with pytest.raises(ValueError, match=r"active|before it begins"):
            synopsis.lookup(ints(low), ints(high))
        with pytest.raises(ValueError, match="active"):
            synopsis.lookup_one(low, high)
    assert synopsis.lookup(ints(15, 20), ints(20, 20))[0].tolist() == [5, 0]
    assert synopsis.lookup(ints(), ints())[0].tolist() == []
    with pytest.raises(ValueError, match="upper ends"):
        synopsis.lookup(ints(1), ints())


def test_landmark_refuses_other_widths() -> None:
    synopsis = LandmarkSynopsis(SUM, partitions_of([TupleWindow(10), TupleWindow(100)]))
    synopsis.update((np.ones(500, np.int64),))
    with pytest.raises(ValueError, match="no window"):
        synopsis.lookup_one(450, 500)
    with pytest.raises(ValueError, match="no window"):
        synopsis.lookup_one(480, 490)
    assert synopsis.lookup_one(500, 500)[0] == 0


def test_illegal_configurations() -> None:
    for make in (
        lambda: TupleWindow(3, 3),
        lambda: TupleWindow(3, -1),
        lambda: RunningSynopsis(SUM, 0),
        lambda: IntervalSynopsis(SUM, 0),
        lambda: LandmarkSynopsis(SUM, ()),
        lambda: partitions_of([], 0.5),
        lambda: Partition(5, 4, 9),
        lambda: Together(()),
    ):
        with pytest.raises(ValueError):
            make()


@settings(max_examples=60, deadline=None)
@given(size=st.integers(0, 40), seed=st.integers(0, 1 << 16))
def test_running_merges_of_any_fold(size: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(-50, 50, size)
    moments = (np.ones(size), values.astype(float), np.zeros(size))
    total, moment = running_merges(SUM, (values,)), running_merges(MOMENTS_FOLD, moments)
    assert total[0].tolist() == np.cumsum(values).tolist()
    for i in range(size):
        assert moment[0][i] == i + 1
        assert moment[1][i] == pytest.approx(values[: i + 1].mean(), abs=1e-12)
        assert moment[2][i] == pytest.approx(values[: i + 1].var() * (i + 1), abs=1e-9)


# -- costs: Figure 1 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize("span", [100, 1000, 5000])
def test_running_space(span: int, batch: int) -> None:
    synopsis = RunningSynopsis(SUM, span)
    for _ in range(4000 // batch):
        synopsis.update((np.ones(batch, np.int64),))
    assert synopsis.size <= 2 * (span + 1)


@pytest.mark.parametrize("batch", [1, 3, 1000])
@pytest.mark.parametrize("span", [100, 1000, 5000])
def test_interval_costs(span: int, batch: int) -> None:
    """Theorem 3.2: O(N_max) space, O(1) an update, amortised, O(log W) a lookup."""
    meter = Meter()
    synopsis = IntervalSynopsis(MeteredFold(GREATEST, meter), span)
    cells = max(8000, 2 * span)
    for _ in range(cells // batch):
        synopsis.update((np.ones(batch, np.int64),))
    assert meter.read() <= cells
    assert synopsis.size <= 4 * span
    for width in (1, 2, 3, 10, 63, 64, 65, span - 1, span):
        if width > span:
            continue
        bound = 2 * width.bit_length() + 1
        lows = np.arange(synopsis.first, synopsis.length - width + 1)[:200]
        synopsis.lookup(lows, lows + width)
        assert meter.read() <= bound * lows.size <= (2 * np.log2(width) + 3) * lows.size
        for low in lows[:20].tolist():
            synopsis.lookup_one(low, low + width)
            assert meter.read() < bound


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_landmark_costs(batch: int) -> None:
    """Theorem 3.4 and after: O(γ) an update, O(1) a lookup, O(γ·N_max) space; O(N_max) if all are suffix windows."""
    for widths in ([700, 1000], [100, 200, 1000, 2000], [3 * 2**i for i in range(9)]):
        meter = Meter()
        asked = [TupleWindow(w) for w in widths]
        synopsis = LandmarkSynopsis(MeteredFold(GREATEST, meter), partitions_of(asked))
        gamma, cells = len(synopsis.partitions), 9000
        for _ in range(cells // batch):
            synopsis.update((np.ones(batch, np.int64),))
        each = sum(1 + p.rights for p in synopsis.partitions)
        assert meter.read() <= 2 * each * cells <= 6 * gamma * cells
        lows, highs = (ints(*side) for side in zip(*(w.interval(synopsis.length) for w in asked), strict=True))
        synopsis.lookup(lows, highs)
        assert meter.read() <= len(asked)
        assert synopsis.size <= 3 * sum(p.span + 3 * p.narrowest for p in synopsis.partitions)
        assert synopsis.size <= 3 * 4 * 2 * max(widths), "suffix windows: the spans are a geometric series"


@given(st.integers(1, 60), st.integers(0, 90), st.sampled_from([(), (3,)]), st.integers(0, 2**32 - 1))
def test_windows_that_end_together(span: int, count: int, shape: tuple[int, ...], seed: int) -> None:
    """One walk answers many windows that end together as single lookups do."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-(2**62), 2**62, (count, *shape))
    running, folds = RunningSynopsis(adding(np.int64), span, shape), (adding(np.int64), GREATEST, LEAST)
    synopses = [running, *(IntervalSynopsis(fold, span, shape) for fold in folds)]
    for synopsis in synopses:
        for start in range(0, count, 7):
            synopsis.update((values[start : start + 7],))
        lows = rng.integers(synopsis.first, synopsis.length + 1, 40)
        found = synopsis.lookup(lows, np.full(lows.size, synopsis.length))[0]
        for low, got in zip(lows.tolist(), found, strict=True):
            assert np.array_equal(got, synopsis.lookup_one(low, synopsis.length)[0])
