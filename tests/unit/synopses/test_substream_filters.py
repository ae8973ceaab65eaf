"""SubStream Filters (Arasu and Widom, VLDB 2004, section 4): CI-COUNT and CI-SUM, exact answers, extremes, costs."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.counting import count_entries

from windrow.plan.having import Comparison
from windrow.reference import substream_extremes
from windrow.reference.metering import Meter
from windrow.reference.substream_extremes import ExtremesFilter
from windrow.reference.substream_filters import Range, SubstreamFilter
from windrow.reference.substreams import Substreams
from windrow.synopses.having import runs
from windrow.synopses.having.collective_index import CollectiveIndex, Levels

REACH = 60
THRESHOLDS = (*range(25), 31, 32, 33, 100)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


class Elements:
    """The elements that a test has appended so far: (key, stamp, weight)."""

    def __init__(self, random: Random, keys: int, heaviest: int = 1):
        self.random, self.keys, self.heaviest = random, keys, heaviest
        self.rows: list[tuple[int, int, int]] = []
        self.clock = 1000

    def more(self, size: int) -> tuple[Any, Any, Any]:
        """A batch in which one key is more frequent than the others, and stamps repeat and leap."""
        batch = []
        for _ in range(size):
            self.clock += self.random.choice([0, 0, 0, 1, 1, 3, 20])
            key = 0 if self.random.random() < 0.4 else self.random.randrange(self.keys)
            batch.append((key, self.clock, self.random.randint(1, self.heaviest)))
        self.rows += batch
        return tuple(ints(*column) for column in zip(*batch, strict=True))

    def sums(self, since: int) -> Counter[int]:
        """The sum of the weights with stamp > since per key; the count where all weights are one."""
        found: Counter[int] = Counter()
        for key, stamp, weight in self.rows:
            if stamp > since:
                found[key] += weight
        return found


def check_guarantees(index: CollectiveIndex, elements: Elements, since: int) -> None:
    """Section 4.1: the answer (1) is a superset, (2) lies within the relaxed range; and has every key once."""
    epsilon, totals = index.levels.epsilon, elements.sums(since)
    for value in THRESHOLDS:
        found = index.more_than(value, since).tolist()
        assert len(found) == len(set(found))
        assert set(found) >= {key for key, total in totals.items() if total > value}
        assert all(totals[key] > value * (1 - epsilon) for key in found), (value, since)
    for value in THRESHOLDS[1:]:
        found = index.less_than(value, since).tolist()
        assert len(found) == len(set(found))
        assert set(found) >= {key for key, total in totals.items() if total < value}
        assert all(0 < totals[key] < value / (1 - epsilon) for key in found), (value, since)


@pytest.mark.parametrize("p", [1, 2, 4, 8])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1 << 16), keys=st.integers(1, 6), waiting=st.sampled_from([1, 8, 256]))
def test_ci_count(p: int, seed: int, keys: int, waiting: int) -> None:
    """At every step, with elements in batches and one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "WAITING", waiting)
        elements = Elements(Random(seed), keys)
        index = CollectiveIndex(Levels(p), REACH)
        for _ in range(8):
            size = elements.random.choice([1, 1, 5, 40])
            batch, stamps, _ = elements.more(size)
            if size == 1:
                index.update_one(int(batch[0]), int(stamps[0]))
            else:
                index.update(batch, stamps)
            for window in (1, 7, REACH):
                check_guarantees(index, elements, elements.clock + elements.random.choice([0, 2]) - window)


@pytest.mark.parametrize("p", [1, 2, 4, 8])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1 << 16), heaviest=st.sampled_from([1, 3, 50]))
def test_ci_sum(p: int, seed: int, heaviest: int) -> None:
    elements = Elements(Random(seed), 4, heaviest)
    index = CollectiveIndex(Levels(p), REACH)
    for _ in range(6):
        index.update(*elements.more(elements.random.choice([1, 3, 20])))
        for window in (1, 7, REACH):
            check_guarantees(index, elements, elements.clock - window)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1 << 16), p=st.integers(1, 9))
def test_single_updates_equal_batches(seed: int, p: int) -> None:
    elements = Elements(Random(seed), 3)
    single, whole = CollectiveIndex(Levels(p), REACH), CollectiveIndex(Levels(p), REACH)
    for _ in range(5):
        keys, stamps, _ = elements.more(elements.random.choice([2, 30]))
        whole.update(keys, stamps)
        for key, stamp in zip(keys.tolist(), stamps.tolist(), strict=True):
            single.update_one(key, stamp)
        for value in THRESHOLDS:
            since = elements.clock - 30
            assert sorted(single.more_than(value, since)) == sorted(whole.more_than(value, since))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 16), p=st.sampled_from([1, 2, 5]), summed=st.booleans())
def test_exact_answers(seed: int, p: int, summed: bool) -> None:
    elements = Elements(Random(seed), 5, 9 if summed else 1)
    found = SubstreamFilter(Levels(p), REACH, summed)
    for _ in range(6):
        keys, stamps, weights = elements.more(elements.random.choice([1, 4, 50]))
        if summed or keys.size > 1:
            found.update(keys, stamps, weights if summed else None)
        else:
            found.update_one(int(keys[0]), int(stamps[0]))
        since = elements.clock - elements.random.choice([1, 10, REACH])
        totals = elements.sums(since)
        for comparison in Comparison:
            for value in (-1, 0, 1, 2, 5, 16, 40):
                range_ = Range(comparison, value)
                passing = {k: t for k, t in totals.items() if eval(f"{t} {comparison.value} {value}")}
                answer = found.lookup(range_, since)
                assert answer.keys.tolist() == sorted(passing)
                assert answer.values is not None and dict(zip(answer.keys, answer.values, strict=True)) == passing
                rough = found.lookup(range_, since, exact=False)
                assert rough.values is None and set(rough.keys.tolist()) >= set(passing)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 16))
def test_substreams_equal_brute_force(seed: int) -> None:
    elements = Elements(Random(seed), 7, 20)
    substreams = Substreams(REACH)
    for _ in range(10):
        keys, stamps, weights = elements.more(elements.random.choice([1, 1, 6, 80]))
        if keys.size == 1:
            substreams.update_one(int(keys[0]), int(stamps[0]), int(weights[0]))
        else:
            substreams.update(keys, stamps, weights)
        for window in (1, 5, REACH):
            since = elements.clock - window
            every = np.arange(substreams.keys)
            totals = elements.sums(since)
            counts = Counter(key for key, stamp, _ in elements.rows if stamp > since)
            assert substreams.sums(every, since).tolist() == [totals[key] for key in every.tolist()]
            assert substreams.counts(every, since).tolist() == [counts[key] for key in every.tolist()]


@pytest.mark.parametrize("batch", [1, 3])
def test_reach(batch: int) -> None:
    """With one element per stamp, the oldest element within reach is counted at every step while rings fill up."""
    substreams = Substreams(10)
    for start in range(0, 300, batch):
        stamps = np.arange(start, start + batch)
        substreams.update(np.zeros(batch, np.int64), stamps)
        newest = start + batch - 1
        for window in (1, 9, 10):
            assert substreams.counts(ints(0), newest - window).tolist() == [min(window, newest + 1)]
    assert substreams.size < 300, "elements out of reach are dropped"


def test_tuple_based_windows() -> None:
    """GROUP BY k HAVING COUNT(*) > v over the last 20 rows of the stream."""
    random = Random(3)
    rows = [random.randrange(4) for _ in range(200)]
    found = SubstreamFilter(Levels(4), 50)
    for number, key in enumerate(rows, 1):
        found.update_one(key, number)
        last = Counter(rows[max(number - 20, 0) : number])
        answer = found.lookup(Range(Comparison.MORE, 5), number - 20)
        assert answer.keys.tolist() == sorted(key for key, count in last.items() if count > 5)


# -- the paper's example -------------------------------------------------------------------------------------


def test_figure_8() -> None:
    """Example 4.1. The figure is lost in our scan; these substreams have the stamps that the text gives.

    The 11th elements from the end have stamps 90, 85 and 68, and TSTAMP[k3, 2] = 85. LOOKUP(106, 20, 11) gives {k1, k2}; only
    k1 is correct.
    """
    newest_first = {
        1: [106, 105, 104, 103, 102, 100, 99, 97, 95, 92, 90, 88],
        2: [106, 104, 103, 101, 99, 97, 95, 91, 89, 87, 85, 80],
        3: [105, 103, 96, 86, 85, 84, 83, 80, 75, 70, 68, 60],
    }
    assert [stamps[10] for stamps in newest_first.values()] == [90, 85, 68]
    found = SubstreamFilter(Levels(1), 100)
    for stamp, key in sorted((stamp, key) for key, stamps in newest_first.items() for stamp in stamps):
        found.update_one(key, stamp)
    assert found.index.levels.for_more_than(11) == 2, "⌊log₂ 11⌋ − 1"
    # With 12 elements level 2 has positions 6 to 9, the 4th to 7th from the end; 8 is the multiple of 4.
    assert [found.index._sizes[2].stamp_of(key, 2) for key in (1, 2, 3)] == [102, 99, 85]
    assert sorted(found.index.more_than(11, 106 - 20)) == [1, 2]
    assert found.lookup(Range(Comparison.MORE, 11), 106 - 20).keys.tolist() == [1]


def test_levels_of_the_paper() -> None:
    """Definition 4.1 for p = 1: 2^ℓ positions belong to level ℓ. Errors: 3/4, 1/2, then roughly 2/p."""
    one = Levels(1)
    assert [one.of(d) for d in range(1, 9)] == [0, 1, 1, 2, 2, 2, 2, 3]
    two = Levels(2)
    assert [two.of(d) for d in range(1, 16)] == [0, 1, 2, 2, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6]
    assert [Levels(p).epsilon for p in (1, 2, 8, 38)] == [0.75, 0.5, 0.2, 0.05]
    for p in (1, 2, 3, 4, 8):
        levels = Levels(p)
        for distance in range(1, 500):
            level = levels.of(distance)
            assert levels.start(level) <= distance < levels.start(level + 1)
    for value in (2, 3, 5, 11, 100, 1000):
        assert one.for_more_than(value) >= value.bit_length() - 2, "a level at least as far from the end as in Figure 7"


def test_levels_for_an_error() -> None:
    for epsilon in (0.9, 0.75, 0.7, 0.5, 0.4, 0.2, 0.1, 0.01):
        levels = Levels.within(epsilon)
        assert levels.epsilon <= epsilon
        assert levels.p == 1 or Levels(levels.p - 1).epsilon > epsilon, "no fewer levels suffice"


# -- costs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 4, 8])
def test_ci_count_costs_of_figure_1(p: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """O((1/ε)·log |K|) per update: two entries, each moved O(log) times. A lookup costs far less than |K|."""
    keys, elements = 2000, 40_000
    random = np.random.default_rng(7)
    meter = Meter()
    count_entries(monkeypatch, meter)
    index = CollectiveIndex(Levels(p), 1 << 40)
    who = (random.random(elements) ** 3 * keys).astype(np.int64)
    for start in range(0, elements, 500):
        index.update(who[start : start + 500], np.arange(start, start + 500))
    assert meter.read() / elements <= 2 * (p + 1) * np.log2(keys)
    counts = np.bincount(who, minlength=keys)
    value = int(np.sort(counts)[-40])
    found = index.more_than(value, -1)
    assert 20 < found.size < 300
    assert meter.read() <= 300 + 40 + 3 * p * int((counts > value * (1 - index.levels.epsilon) / 2).sum())
    assert index.size <= 20 * p * keys * np.log2(elements)


def test_ci_sum_costs_grow_with_the_logarithm_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = Meter()
    count_entries(monkeypatch, meter)
    for heavy in (10, 1000, 100_000):
        index = CollectiveIndex(Levels(2), 1 << 40)
        for n in range(50):
            index.update(ints(0), ints(n), ints(heavy))
        assert 1 <= meter.read() / 50 <= 2 * 2 * (np.log2(heavy) + 2)


# -- extremes -----------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 16), cell=st.sampled_from([1, 4, 512]))
def test_extremes_equal_brute_force(seed: int, cell: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(substream_extremes, "CELL", cell)
        elements = Elements(Random(seed), 5, 20)
        most, least = ExtremesFilter(REACH), ExtremesFilter(REACH)
        for _ in range(8):
            keys, stamps, codes = elements.more(elements.random.choice([1, 5, 60]))
            most.update(keys, stamps, codes)
            least.update(keys, stamps, ~codes)
            since = elements.clock - elements.random.choice([1, 9, REACH])
            held: dict[int, list[int]] = {}
            for key, stamp, code in elements.rows:
                if stamp > since:
                    held.setdefault(key, []).append(code)
            for v in (0, 3, 10, 20, 21):
                assert most.at_least(v + 1, since).tolist() == sorted(k for k, c in held.items() if max(c) > v)
                assert most.below(v, since).tolist() == sorted(k for k, c in held.items() if max(c) < v)
                assert least.at_least(~(v - 1), since).tolist() == sorted(k for k, c in held.items() if min(c) < v)
                assert least.below(~v, since).tolist() == sorted(k for k, c in held.items() if min(c) > v)


def test_extremes_costs_of_figure_1() -> None:
    """O(log² N) per update and O(log² N + |K_o|·log N) per lookup, for N elements within reach."""
    meter, n = Meter(), 40_000
    rng = np.random.default_rng(5)
    most = ExtremesFilter(1 << 40, meter)
    for start in range(0, n, 1000):
        most.update(rng.integers(0, 3000, 1000), np.arange(start, start + 1000), rng.integers(0, 1 << 30, 1000))
    assert meter.read() / n <= np.log2(n) ** 2
    passing = most.at_least((1 << 30) - (1 << 20), -1).size
    assert 10 < passing < 100
    assert meter.read() <= 2 * 512 + np.log2(n) ** 2 + passing * np.log2(n)
    assert most.size <= 5 * n * np.log2(n)


def test_illegal_requests() -> None:
    index = CollectiveIndex(Levels(2), 10)
    index.update(ints(0, 1), ints(100, 101))
    for ask in (
        lambda: index.more_than(-1, 100),
        lambda: index.less_than(0, 100),
        lambda: index.more_than(1, 90),
        lambda: index.update(ints(0), ints(102), ints(0)),
        lambda: Levels(0),
        lambda: Levels.within(1.0),
        lambda: CollectiveIndex(Levels(1), 0),
        lambda: Substreams(0),
        lambda: ExtremesFilter(0),
        lambda: SubstreamFilter(Levels(1), 9, summed=True).update(ints(1), ints(1)),
        lambda: SubstreamFilter(Levels(1), 9).update(ints(1), ints(1), ints(1)),
    ):
        with pytest.raises(ValueError):
            ask()
    assert index.more_than(1000, 95).tolist() == []
    index.update(ints(), ints())
