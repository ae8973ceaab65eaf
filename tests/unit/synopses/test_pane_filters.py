"""SubStream Filters over cells find every group that passes, also after late cells, releases and new group ids; and
lookups of given groups only."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.plan.accumulators import Accumulator, Kind
from windrow.plan.aggregates import decompose
from windrow.plan.having import Bound, Comparison
from windrow.reference.substream_extremes import ExtremesFilter
from windrow.reference.substream_filters import Range, SubstreamFilter
from windrow.synopses import BasicIntervalSynopsis, Cells, Lookup
from windrow.synopses.cells import chunks
from windrow.synopses.having import pane_filters, units
from windrow.synopses.having.collective_index import Levels
from windrow.synopses.having.filter_tests import FilterTest, filter_test
from windrow.synopses.having.pane_filters import FilterRequest, PaneFilters
from windrow.synopses.kinds import basic_interval
from windrow.synopses.lookups import Pairs
from windrow.synopses.results.values import result_of
from windrow.types import SqlType

WIDTH, RANGE = 10, 120
INT, LONG, DOUBLE = SqlType("INT"), SqlType("BIGINT"), SqlType("DOUBLE")
PRESENCE = Accumulator(Kind.COUNT, None, None, None)
STAR, COUNT = decompose("COUNT", None, None, None), decompose("COUNT", "x", INT, None)
SUM, MAX, MIN = (decompose(name, "x", INT, None) for name in ("SUM", "MAX", "MIN"))
LONG_SUM, DOUBLE_MAX = decompose("SUM", "x", LONG, None), decompose("MAX", "x", DOUBLE, None)
CALLS = (STAR, COUNT, SUM, MAX, MIN)
READS = tuple(dict.fromkeys(part for call in CALLS for _, part in call.parts))


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


class Story:
    """A synopsis of random cells: counts of tuples and of values, sums and extremes."""

    def __init__(self, seed: int, groups: int, least: int):
        self.random, self.groups, self.least = Random(seed), groups, least
        self.synopsis = BasicIntervalSynopsis([pa.int64()])
        self.now = 0

    def cells(self, panes: Any, groups: Any) -> Cells:
        values = [[self.random.randint(self.least, 9) for _ in range(self.random.randrange(4))] for _ in panes]
        present = ints(*(len(v) + self.random.randrange(2) for v in values))
        columns = {
            STAR.part("n"): present,
            COUNT.part("n"): ints(*map(len, values)),
            SUM.part("s"): ints(*map(sum, values)),
            MAX.part("v"): ints(*(max(v, default=np.iinfo(np.int64).min) for v in values)),
            MIN.part("v"): ints(*(min(v, default=np.iinfo(np.int64).max) for v in values)),
        }
        return Cells(panes, groups, {a: (column,) for a, column in columns.items()})

    def some(self, first: int, panes: int, size: int) -> Cells:
        keys = [self.random.randrange(self.groups) + 100 * (first // 400) for _ in range(size)]
        ids = self.synopsis.groups.ids([pa.array(keys, pa.int64())], np.array([k == 0 for k in keys]))
        return self.cells(ints(*(first + WIDTH * self.random.randrange(panes) for _ in keys)), ids)

    def step(self) -> None:
        """Close some more panes; sometimes merge late cells, or expire or release old ones."""
        panes = self.random.choice([1, 1, 2, 5])
        self.synopsis.deposit(self.some(self.now, panes, self.random.choice([3, 30])))
        self.now += panes * WIDTH
        self.synopsis.close(self.now)
        what = self.random.random()
        if what < 0.15:
            first = max(0, self.now - 100)
            self.synopsis.merge(self.some(first, (self.now - first) // WIDTH, 4))
        elif what < 0.3:
            self.synopsis.expire(self.now - RANGE - 50)
        elif what < 0.4:
            self.synopsis.release(np.full(self.synopsis.groups.count, self.now - RANGE, np.int64))

    def lookup(self, only: Pairs | None = None, count: int = 3) -> Lookup:
        ends = np.sort(ints(*(self.now - WIDTH * self.random.randrange(4) for _ in range(count))))
        starts = ends - ints(*(WIDTH * self.random.randint(1, RANGE // WIDTH) for _ in range(count)))
        return Lookup("q", starts, ends, PRESENCE, READS, False, only=only)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(basic_interval, "FEW_GROUPS", 4)
    monkeypatch.setattr(basic_interval, "YOUNG_CHUNKS", 2)
    monkeypatch.setattr(chunks, "PANES_PER_CHUNK", (3, 6))


def rows(synopsis: BasicIntervalSynopsis, lookup: Lookup) -> dict[tuple[int, int], Any]:
    """Every aggregate by window and group."""
    looked = next(synopsis.answer([lookup]))
    columns = [result_of(call, looked.states).to_pylist() for call in CALLS]
    keys = list(zip(looked.window.tolist(), looked.groups.tolist(), strict=True))
    assert keys == sorted(keys)
    return dict(zip(keys, zip(*columns, strict=True), strict=True))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("groups", [3, 60])
def test_lookup_of_given_groups(seed: int, groups: int) -> None:
    story = Story(seed, groups, -9)
    for _ in range(12):
        story.step()
        lookup = story.lookup()
        whole = rows(story.synopsis, lookup)
        slots = [(w, g) for w in range(3) for g in range(1, story.synopsis.groups.count) if story.random.random() < 0.5]
        only = Pairs(ints(*(w for w, _ in slots)), ints(*(g for _, g in slots)))
        some = Lookup("q", lookup.starts, lookup.ends, PRESENCE, READS, False, only=only)
        assert rows(story.synopsis, some) == {key: row for key, row in whole.items() if key in set(slots)}


def test_lookups_gather_together() -> None:
    story = Story(5, 20, 0)
    for _ in range(9):
        story.step()
    every = np.arange(1, story.synopsis.groups.count)
    lookups = []
    for number in range(4):
        one, ids = story.lookup(count=1), every[number::2]
        only = Pairs(np.zeros(ids.size, np.int64), ids)
        lookups.append(Lookup(f"q{number}", one.starts, one.ends, PRESENCE, READS[: number + 1], False, only=only))
    for looked in story.synopsis.answer(lookups):
        mine = next(lookup for lookup in lookups if lookup.query == looked.query)
        alone = next(story.synopsis.answer([mine]))
        assert np.array_equal(looked.groups, alone.groups)
        for accumulator in mine.reads:
            assert np.array_equal(looked.states[accumulator][0], alone.states[accumulator][0])


def holds(bound: Bound, value: Any) -> bool:
    compare = {">": "__gt__", ">=": "__ge__", "<": "__lt__", "<=": "__le__"}[bound.comparison.value]
    return value is not None and bool(getattr(Decimal(value), compare)(bound.value))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("least", [0, -9])
def test_filters_find_every_passing_group(seed: int, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stories include late cells, releases and new group ids. Negative values (`least`) disable the filters that need
    positive ones. Every other story counts in the coarsest units."""
    monkeypatch.setattr(units, "FINEST", 16 if seed % 2 else 1)
    story, filters = Story(100 + seed, 25, least), PaneFilters()
    asked_of = {"few": 0, "all": 0}
    for _ in range(25):
        story.step()
        levels = Levels(story.random.choice([1, 2, 2, 2, 4]))
        bounds, asked, lookups = [], [], []
        for _ in range(6):
            call = story.random.choice(CALLS)
            value = Decimal(
                story.random.choice([-3, 0, 1, 2, 3, 5, 8, 12, 20, 7.5, 33, 64] if seed % 4 else [8, 15, 40])
            )
            bound = Bound(call, story.random.choice(list(Comparison)), value, None)  # type: ignore[arg-type]
            test = filter_test(bound, PRESENCE)
            if test is not None:
                lookup = story.lookup()
                bounds, lookups = [*bounds, bound], [*lookups, lookup]
                asked.append(FilterRequest(test, lookup.starts, lookup.ends, RANGE))
        if not asked:
            continue
        for bound, lookup, pairs in zip(
            bounds, lookups, filters.candidates(story.synopsis, asked, levels), strict=True
        ):
            if pairs is None:
                assert least < 0 and bound.call is SUM and not bound.comparison.is_lower
                continue
            whole = rows(story.synopsis, lookup)
            named = set(zip(pairs.window.tolist(), pairs.groups.tolist(), strict=True))
            passing = {key for key, row in whole.items() if holds(bound, row[CALLS.index(bound.call)])}
            assert passing <= named, f"{bound.text} over {lookup.starts}–{lookup.ends}"
            asked_of["few"] += len(named)
            asked_of["all"] += len(whole)
    assert asked_of["few"] < asked_of["all"]


elements = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=60)
"""The pane, the key and the value of each tuple."""


class OverElements:
    """The reference filters over single tuples: Arasu and Widom, VLDB 2004, section 4, and extremes."""

    def __init__(self, levels: Levels, reach: int):
        self.counts, self.sums = SubstreamFilter(levels, reach), SubstreamFilter(levels, reach, summed=True)
        self.most, self.least = ExtremesFilter(reach), ExtremesFilter(reach)

    def update(self, keys: Any, stamps: Any, values: Any) -> None:
        self.counts.update(keys, stamps)
        self.sums.update(keys, stamps, values)
        self.most.update(keys, stamps, values)
        self.least.update(keys, stamps, ~values)

    def passing(self, bound: Bound, since: int, exact: bool) -> list[int]:
        value, comparison = int(bound.value), bound.comparison
        if bound.call in (STAR, SUM):
            filter_ = self.counts if bound.call is STAR else self.sums
            return filter_.lookup(Range(comparison, value), since, exact).keys.tolist()
        at_most = value if comparison in (Comparison.AT_MOST, Comparison.MORE) else value - 1
        if bound.call is MAX:
            found = self.most.at_least if comparison.is_lower else self.most.below
            return found(at_most + 1, since).tolist()
        found = self.least.below if comparison.is_lower else self.least.at_least
        return found(~at_most, since).tolist()


def deposit(synopsis: BasicIntervalSynopsis, panes: Any, keys: Any, values: Any) -> None:
    """Deposit a cell per tuple; the synopsis folds them."""
    ones = np.ones(panes.size, np.int64)
    columns = {STAR.part("n"): ones, COUNT.part("n"): ones, SUM.part("s"): values}
    columns |= {MAX.part("v"): values, MIN.part("v"): values}
    states = {a: (column,) for a, column in columns.items()}
    synopsis.deposit(Cells(panes, synopsis.groups.ids([pa.array(keys)]), states))


def keys_of(
    synopsis: BasicIntervalSynopsis, bound: Bound, pairs: Pairs, start: int, end: int, exact: bool
) -> list[int]:
    """The keys that a filter found in the one window; if exact, only those that pass when looked up."""
    groups = pairs.groups
    if exact:
        lookup = Lookup("q", ints(start), ints(end), PRESENCE, READS, False, only=pairs)
        found = rows(synopsis, lookup)
        groups = ints(*(g for (_, g), row in found.items() if holds(bound, row[CALLS.index(bound.call)])))
    return sorted(synopsis.groups.key_columns(groups, 1)[0].to_pylist())


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "approximate"])
@pytest.mark.parametrize("call", [STAR, SUM, MAX, MIN], ids=lambda call: call.function)
@settings(deadline=None, max_examples=25)
@given(
    tuples=elements,
    ends=st.sets(st.integers(1, 12), min_size=1, max_size=4),
    widths=st.sets(st.integers(1, 12), min_size=1, max_size=3),
    values=st.sets(st.integers(0, 30), min_size=1, max_size=3),
    p=st.sampled_from([1, 2, 4]),
)
def test_filters_over_panes_equal_the_reference(
    call: Any, exact: bool, tuples: Any, ends: set[int], widths: set[int], values: set[int], p: int
) -> None:
    synopsis, filters, reach = BasicIntervalSynopsis([pa.int64()]), PaneFilters(), 12 * WIDTH
    reference = OverElements(Levels(p), reach)
    bounds = [Bound(call, comparison, Decimal(v), None) for comparison in Comparison for v in values]  # type: ignore[arg-type]
    tests = [(bound, test) for bound in bounds if (test := filter_test(bound, PRESENCE)) is not None]
    below = 0
    for last in sorted(ends):
        fresh = sorted(t for t in tuples if below <= t[0] < last)
        below, end = last, WIDTH * last
        if fresh:
            panes, keys, numbers = (ints(*column) for column in zip(*fresh, strict=True))
            deposit(synopsis, WIDTH * panes, keys, numbers)
            reference.update(keys, WIDTH * panes, numbers)
        synopsis.close(end)
        for width in widths:
            start = end - WIDTH * width
            asked = [FilterRequest(test, ints(start), ints(end), reach, exact) for _, test in tests]
            for (bound, _), pairs in zip(tests, filters.candidates(synopsis, asked, Levels(p)), strict=True):
                assert pairs is not None
                found = keys_of(synopsis, bound, pairs, start, end, exact)
                assert found == reference.passing(bound, start - 1, exact), (bound.text, start, end)


def fed(values: list[int], call: Any, state: Any) -> tuple[BasicIntervalSynopsis, Any]:
    """A synopsis with one cell per pane of one group, and a lookup over all of it."""
    synopsis = BasicIntervalSynopsis([pa.int64()])
    ids = synopsis.groups.ids([pa.array([7] * len(values), pa.int64())])
    n = np.ones(len(values), np.int64)
    panes = np.arange(len(values)) * WIDTH
    states = {PRESENCE: (n,), call.part("n"): (n,), call.part("s" if call.function == "SUM" else "v"): state}
    synopsis.deposit(Cells(panes, ids, states))
    synopsis.close(1000)
    return synopsis, (ints(0), ints(WIDTH * len(values)))


def test_too_large_sums_have_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([3, (1 << 62) + 5, 4], np.int64)
    synopsis, (starts, ends) = fed(values.tolist(), LONG_SUM, (values >> 32, values & 0xFFFFFFFF))
    bound = Bound(LONG_SUM, Comparison.MORE, Decimal(3), None)  # type: ignore[arg-type]
    test = filter_test(bound, PRESENCE)
    assert isinstance(test, FilterTest)
    assert PaneFilters().candidates(synopsis, [FilterRequest(test, starts, ends, 30)], Levels(2)) == [None]
    [after] = PaneFilters().candidates(synopsis, [FilterRequest(test, ints(20), ends, 30)], Levels(2))
    assert after is not None and after.groups.tolist() == [1]
    monkeypatch.setattr(pane_filters, "LONGEST", 5)
    small = ints(3, 4, 4)
    synopsis, _ = fed(small.tolist(), LONG_SUM, (small >> 32, small & 0xFFFFFFFF))
    filters = PaneFilters()
    assert filters.candidates(synopsis, [FilterRequest(test, ints(0), ints(20), 30)], Levels(2)) == [None]
    [after] = filters.candidates(synopsis, [FilterRequest(test, ints(20), ends, 30)], Levels(2))
    assert after is not None and after.groups.tolist() == [1]


@pytest.mark.parametrize(
    ("comparison", "value", "passes"), [(">", "1.5", False), (">=", "1.5", True), ("<", "2", True)]
)
def test_bounds_of_doubles_are_one_step_wider(comparison: str, value: str, passes: bool) -> None:
    from windrow.synopses.cells.ordering import encode_doubles

    synopsis, (starts, ends) = fed([1], DOUBLE_MAX, (encode_doubles(np.array([1.5])),))
    bound = Bound(DOUBLE_MAX, Comparison(comparison), Decimal(value), None)  # type: ignore[arg-type]
    test = filter_test(bound, PRESENCE)
    assert test is not None
    [pairs] = PaneFilters().candidates(synopsis, [FilterRequest(test, starts, ends, WIDTH)], Levels(2))
    assert pairs is not None and (pairs.groups.size == 1 or not passes)


def test_bounds_without_a_filter() -> None:
    doubles = decompose("SUM", "x", DOUBLE, None)
    for call, comparison, value in ((STAR, ">", -1), (SUM, ">=", 0), (doubles, ">", 3), (STAR, ">", 1 << 60)):
        bound = Bound(call, Comparison(comparison), Decimal(value), None)  # type: ignore[arg-type]
        assert filter_test(bound, PRESENCE) is None


def test_filters_are_dropped_and_rebuilt() -> None:
    story, filters = Story(1, 5, 0), PaneFilters()
    for _ in range(4):
        story.step()
    test = filter_test(Bound(STAR, Comparison.MORE, Decimal(1), None), PRESENCE)  # type: ignore[arg-type]
    assert test is not None
    asked = [FilterRequest(test, ints(0), ints(story.now), RANGE)]
    [before] = filters.candidates(story.synopsis, asked, Levels(2))
    assert PRESENCE in filters and filters.size
    filters.keep(())
    assert PRESENCE not in filters and not filters.size
    [after] = filters.candidates(story.synopsis, asked, Levels(2))
    assert before is not None and after is not None and np.array_equal(before.groups, after.groups)
