"""B-INT-QNT equals brute force at every step, at the costs of Arasu and Widom, VLDB 2004, Figure 1."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.counting import count_comparisons

from windrow.reference.greedy_selection import greedy, select_one
from windrow.reference.metering import Meter
from windrow.reference.quantile_intervals import QuantileSynopsis
from windrow.synopses.cells.ordering import decode_doubles, encode_doubles
from windrow.synopses.holistic.phi import Phi
from windrow.synopses.holistic.selection import select
from windrow.synopses.index.sequence import TupleWindow

PHIS = [Phi.of(phi) for phi in (0.001, "0.25", 0.29, 0.5, 0.9, 1)]
LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
CODES = st.sampled_from([LEAST, MOST, MOST - 1]) | st.integers(-5, 5)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def quantile(values: list[int], phi: Phi) -> int | None:
    """The element at position max(1, ⌊φN⌋)."""
    return sorted(values)[max(1, math.floor(phi.fraction * len(values))) - 1] if values else None


def found_in(synopsis: QuantileSynopsis, low: int, high: int) -> list[int | None]:
    answer = synopsis.lookup(ints(low), ints(high))
    return [int(code) if answer.counts[0] else None for code in answer.codes[0]]


@settings(max_examples=60, deadline=None)
@given(
    pool=st.lists(CODES | st.none(), min_size=1, max_size=9),
    windows=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 20)), min_size=1, max_size=5),
    seed=st.integers(0, 1 << 16),
)
def test_quantiles_equal_brute_force(pool: Any, windows: Any, seed: int) -> None:
    """Suffix and historical windows; nulls, ties and extremes; cells one by one and in batches longer than the span."""
    random = Random(seed)
    asked = [TupleWindow(width + right, right) for width, right in windows]
    values = [random.choice(pool) for _ in range(150)]
    synopsis = QuantileSynopsis(max(w.left for w in asked), PHIS)
    while synopsis.length < len(values):
        part = values[synopsis.length : synopsis.length + random.choice([1, 1, 3, 70])]
        synopsis.update((ints(*(v or 0 for v in part)), ints(*(v is not None for v in part))))
        for window in asked:
            low, high = window.interval(synopsis.length)
            right = [quantile([v for v in values[low:high] if v is not None], phi) for phi in PHIS]
            assert found_in(synopsis, low, high) == right
            assert [synopsis.lookup_one(low, high, phi) for phi in PHIS] == right


def test_many_intervals_at_once() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0, 10, 3000).round(1)
    synopsis = QuantileSynopsis(2000, PHIS)
    synopsis.update((encode_doubles(values),))
    lows = rng.integers(1000, 3000, 300)
    highs = np.minimum(lows + rng.integers(0, 2000, 300), 3000)
    answer = synopsis.lookup(lows, highs)
    assert answer.counts.tolist() == (highs - lows).tolist()
    for i, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
        if low < high:
            in_order = np.sort(values[low:high])
            wanted = [in_order[max(1, math.floor(phi.fraction * (high - low))) - 1] for phi in PHIS]
            assert decode_doubles(answer.codes[i]).tolist() == wanted


def test_phi_is_an_exact_decimal() -> None:
    """In doubles 0.29 · 100 is 28.999…, but the quantile of 1 … 100 is the 29th."""
    synopsis = QuantileSynopsis(100, [Phi.of(0.29), Phi.of(0.07)])
    synopsis.update((np.arange(1, 101),))
    assert synopsis.lookup(ints(0), ints(100)).codes.tolist() == [[29, 7]]
    assert Phi.of(0.29).rank(ints(100, 1, 10)).tolist() == [29, 1, 2]


def test_illegal_parameters() -> None:
    for make in (
        lambda: Phi.of(-0.1),
        lambda: Phi.of(1.1),
        lambda: Phi(Fraction(1, 10**10)),
        lambda: QuantileSynopsis(0),
    ):
        with pytest.raises(ValueError):
            make()
    synopsis = QuantileSynopsis(5)
    synopsis.update((np.arange(9),))
    with pytest.raises(ValueError, match="active"):
        synopsis.lookup(ints(3), ints(9))
    with pytest.raises(ValueError, match="active"):
        synopsis.lookup_one(3, 9, Phi.of(0.5))


@settings(max_examples=200, deadline=None)
@given(arrays=st.lists(st.lists(CODES, min_size=1, max_size=20), min_size=1, max_size=8), data=st.data())
def test_selection_from_sorted_arrays(arrays: list[list[int]], data: Any) -> None:
    """Selection for one row and for many, with empty arrays between."""
    union = sorted(value for array in arrays for value in array)
    rank = data.draw(st.integers(1, len(union)))
    in_order = [np.array(sorted(array), np.int64) for array in arrays]
    assert greedy(in_order, rank) == select_one(in_order, rank) == union[rank - 1]
    ends = np.cumsum([len(array) for array in arrays])
    begins = ends - [len(array) for array in arrays]
    begins, ends = (np.insert(x, 1, 0)[None, :] for x in (begins, ends))
    assert select(np.concatenate(in_order), begins, ends, ints(rank)).tolist() == [union[rank - 1]]


INPUTS = {
    "random": lambda n: np.random.default_rng(5).integers(0, 1 << 40, n),
    "ascending": np.arange,
    "descending": lambda n: np.arange(n)[::-1],
    "few values": lambda n: np.random.default_rng(5).integers(0, 3, n),
    "saw": lambda n: np.arange(n) % 97,
    "skewed": lambda n: (np.random.default_rng(5).pareto(0.3, n) * 10).clip(0, 1e15).astype(np.int64),
}


@pytest.mark.parametrize("name", INPUTS)
def test_costs_of_figure_1(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """O(log N_max) per update and O(log² W · log log W) per lookup, for any order of the values."""
    meter = Meter()
    count_comparisons(monkeypatch, meter)
    synopsis = QuantileSynopsis(4000, PHIS[3:4], meter)
    values = INPUTS[name](9000).astype(np.int64)
    for start in range(0, 9000, 30):
        synopsis.update((values[start : start + 30],))
    assert meter.read() <= 13 * 9000, "a comparison a level"
    assert synopsis.size <= 2 * 4000 * (math.log2(4000) + 4)
    for width in (100, 1000, 3900):
        lows = np.arange(synopsis.first, synopsis.length - width)[:100]
        bound = math.log2(width) ** 2 * math.log2(math.log2(width))
        synopsis.lookup(lows, lows + width)
        assert meter.read() / lows.size <= 4 * bound
        for low in lows[:5].tolist():
            arrays = synopsis._arrays_of(low, low + width)
            found = greedy(arrays, width // 2, meter)
            assert meter.read() <= 4 * bound
            assert found == synopsis.lookup_one(low, low + width, PHIS[3])
            assert meter.read() <= 4 * bound + 64 * (5 * math.sqrt(width) + len(arrays))
