"""Frequency counts and FREQUENT_ITEMS equal brute force; Algorithm 6 never reports a false positive."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.reference.frequency_counts import Frequencies, FrequencySynopsis
from windrow.reference.frequent_items import FrequentItems, FrequentItemsSynopsis, TopList, panes_of_rows
from windrow.reference.metering import Meter
from windrow.synopses.having.tables import TableIntervals
from windrow.synopses.holistic.phi import Phi

PHIS = [Phi.of(phi) for phi in (0.01, 0.29, 0.5, 1)]


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


# -- frequency counts ---------------------------------------------------------------------------------------

Pane = list[tuple[int, int, int]]
PANES = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(1, 4)), max_size=12), min_size=1, max_size=30
)


def table(pane: Pane, weighted: bool) -> Frequencies:
    groups, values, weights = (ints(*column) for column in zip(*pane, strict=True)) if pane else (ints(),) * 3
    return Frequencies.of(groups, values, weights if weighted else None)


def brute_force(rows: Pane, weighted: bool) -> dict[int, Counter[int]]:
    """group → value → count, or total weight."""
    found: dict[int, Counter[int]] = {}
    for group, value, weight in rows:
        found.setdefault(group, Counter())[value] += weight if weighted else 1
    return found


def check(found: Frequencies, rows: Pane, weighted: bool, order: Any) -> None:
    right = brute_force(rows, weighted)
    rank = (lambda v: v) if order is None else (lambda v: int(order[v]))
    assert dict(zip(*(c.tolist() for c in found.count_distinct()), strict=True)) == {
        g: len(c) for g, c in right.items()
    }
    for k in (1, 3, 100):
        wanted = [
            (g, v, n) for g in sorted(right) for v, n in sorted(right[g].items(), key=lambda p: (-p[1], rank(p[0])))[:k]
        ]
        assert list(zip(*(c.tolist() for c in found.top_k(k, order)), strict=True)) == wanted
    for phi in PHIS:
        by_value = {g: position(phi, sorted(c.elements(), key=rank)) for g, c in right.items()}
        assert dict(zip(*(c.tolist() for c in found.quantile(phi, order)), strict=True)) == by_value
        by_total = {g: position(phi, sorted(c, key=lambda v, c=c: (c[v], rank(v)))) for g, c in right.items()}
        assert dict(zip(*(c.tolist() for c in found.quantile_of_totals(phi, order)), strict=True)) == by_total


def position(phi: Phi, in_order: list[int]) -> int:
    return in_order[max(1, math.floor(phi.fraction * len(in_order))) - 1]


@settings(max_examples=40, deadline=None)
@given(
    panes=PANES,
    weighted=st.booleans(),
    ordered=st.booleans(),
    windows=st.lists(st.tuples(st.integers(1, 12), st.integers(0, 6)), min_size=1, max_size=4),
)
def test_frequencies_equal_brute_force(panes: list[Pane], weighted: bool, ordered: bool, windows: Any) -> None:
    """Suffix and historical windows at every step; ids that are ranks, and ids with a separate order."""
    order = np.array([3, 1, 6, 0, 2, 5, 4]) if ordered else None
    synopsis = FrequencySynopsis(max(width + right for width, right in windows))
    for m in range(1, len(panes) + 1):
        synopsis.update([table(panes[m - 1], weighted)])
        asked = [(max(m - width - right, 0), max(m - right, 0)) for width, right in windows]
        answers = synopsis.lookup(ints(*(low for low, _ in asked)), ints(*(high for _, high in asked)))
        for (low, high), found in zip(asked, answers, strict=True):
            check(found, [row for pane in panes[low:high] for row in pane], weighted, order)


def test_costs_equal_an_interval_synopsis() -> None:
    meter = Meter()
    synopsis = FrequencySynopsis(100, meter)
    one = Frequencies.of(ints(0), ints(1))
    synopsis.update([one] * 1000)
    assert meter.read() <= 1000
    for low, high in ((900, 1000), (901, 999), (950, 951)):
        assert synopsis.lookup_one(low, high).counts.tolist() == [high - low]
        assert meter.read() <= 2 * (high - low).bit_length()
    assert synopsis.size <= 2 * 2 * 100
    with pytest.raises(ValueError, match="active"):
        synopsis.lookup_one(899, 1000)


def test_tables_of_a_span_of_one() -> None:
    tree = TableIntervals[int](lambda a, b: a + b)
    for i in range(20):
        tree.append(i)
        tree.forget(tree.length - 1)
        assert tree.parts(i, i + 1) == [i] and len(tree.tables()) == 1


def test_ids_must_be_dense() -> None:
    for groups, values in ((ints(-1), ints(0)), (ints(0), ints(1 << 31))):
        with pytest.raises(ValueError, match="dense"):
            Frequencies.of(groups, values)
    with pytest.raises(ValueError):
        Frequencies.of(ints(0), ints(0)).top_k(0)


# -- frequent items -----------------------------------------------------------------------------------------


def by_algorithm_6(panes: list[list[int]], k: int) -> tuple[dict[int, int], int]:
    """The global counters above δ, and δ, by definition: the sum of the lists of a window's panes."""
    counters: Counter[int] = Counter()
    delta = 0
    for pane in panes:
        best = sorted(Counter(pane).items(), key=lambda p: (-p[1], p[0]))[:k]
        counters.update(dict(best))
        delta += best[-1][1] if len(best) == k else 0
    return {item: count for item, count in counters.items() if count > delta}, delta


def check_items(found: FrequentItems, panes: list[list[int]], k: int) -> None:
    wanted, delta = by_algorithm_6(panes, k)
    true = Counter(item for pane in panes for item in pane)
    assert found.delta == delta
    assert dict(zip(found.items.tolist(), found.counts.tolist(), strict=True)) == wanted
    for item, count, most in zip(found.items.tolist(), found.counts.tolist(), found.most.tolist(), strict=True):
        assert true[item] > found.delta, "no false positive"
        assert count <= true[item] <= most
    assert found.counts.tolist() == sorted(found.counts.tolist(), reverse=True)


@settings(max_examples=80, deadline=None)
@given(
    panes=st.lists(st.lists(st.integers(0, 3) | st.integers(0, 30), max_size=25), min_size=1, max_size=25),
    k=st.integers(1, 6),
    span=st.integers(1, 12),
)
def test_no_false_positives(panes: list[list[int]], k: int, span: int) -> None:
    """Panes of any size, also empty, as in time-based windows; checked at every step."""
    synopsis = FrequentItemsSynopsis(k, span)
    for m in range(1, len(panes) + 1):
        synopsis.update([ints(*panes[m - 1])])
        first = max(m - span, 0)
        assert (synopsis.first, synopsis.length) == (first, m)
        check_items(synopsis.current(), panes[first:m], k)
        lows, highs = ints(first, (first + m) // 2, first), ints(m, m, (first + m) // 2)
        for low, high, found in zip(lows, highs, synopsis.lookup(lows, highs), strict=True):
            check_items(found, panes[low:high], k)


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.integers(0, 5), max_size=100), size=st.integers(1, 9), k=st.integers(1, 4))
def test_tuple_based_sub_windows(rows: list[int], size: int, k: int) -> None:
    """N = 5·b tuples in whole sub-windows of b, as in Algorithm 6."""
    synopsis = FrequentItemsSynopsis(k, 5)
    synopsis.update(list(panes_of_rows(ints(*rows), size)))
    panes = [rows[i * size : (i + 1) * size] for i in range(len(rows) // size)]
    check_items(synopsis.current(), panes[-5:], k)


def test_figure_6_1_of_the_dissertation() -> None:
    """Twelve minutes with k = 1: one site leads in five of them, one in four, one in three.

    δ is the sum of all counts in the lists, so no total is surely above it and nothing is reported.
    """
    ebay, cnn, google = 0, 1, 2
    tops = [ebay, cnn, ebay, google, ebay, cnn, cnn, ebay, google, cnn, ebay, google]
    synopsis = FrequentItemsSynopsis(1, 12)
    for top in tops:
        synopsis.add(TopList.of(ints(top), ints(10), 1))
    assert synopsis.current().items.size == 0 and synopsis.current().delta == 120
    assert Counter(tops) == {ebay: 5, cnn: 4, google: 3}


def test_repeated_winner() -> None:
    """k = 3, thirteen sub-windows as in Figure 6.2: the leader of every list is above the sum of the third places."""
    synopsis = FrequentItemsSynopsis(3, 13)
    for i in range(13):
        synopsis.add(TopList.of(ints(7, 10 + i, 30 + i, 50 + i), ints(9, 4, 2, 1), 3))
    found = synopsis.current()
    assert (found.items.tolist(), found.counts.tolist(), found.delta) == ([7], [117], 26)
    assert found.most.tolist() == [117], "its count is exact, because it is in every list"


def test_fewer_items_than_places() -> None:
    synopsis = FrequentItemsSynopsis(5, 3)
    synopsis.update([ints(1, 1, 2), ints(2), ints()])
    found = synopsis.current()
    assert (
        found.delta == 0 and found.items.tolist() == [1, 2] and found.counts.tolist() == found.most.tolist() == [2, 2]
    )


def test_space_is_bounded_by_the_lists() -> None:
    rng = np.random.default_rng(2)
    synopsis = FrequentItemsSynopsis(4, 10)
    synopsis.update([rng.zipf(1.3, 500).clip(0, 10**6) for _ in range(40)])
    assert synopsis.size <= 2 * 4 * 10 + 3 * 4 * 10


def test_illegal_configurations() -> None:
    for make in (
        lambda: FrequentItemsSynopsis(0, 3),
        lambda: FrequentItemsSynopsis(3, 0),
        lambda: list(panes_of_rows(ints(1), 0)),
        lambda: FrequencySynopsis(0),
    ):
        with pytest.raises(ValueError):
            make()
    synopsis = FrequentItemsSynopsis(1, 2)
    synopsis.update([ints(1)] * 4)
    with pytest.raises(ValueError, match="active"):
        synopsis.lookup_one(1, 4)
