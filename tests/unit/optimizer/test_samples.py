"""Coordinated samples: how tuples of two streams meet, against all pairs; and that the optimizer uses them."""

from __future__ import annotations

import json
from math import exp

import numpy as np
import pyarrow as pa
import pytest
from support.plan_builder import Maker, join, plan, semi

from windrow.engine.kept.measured_facts import looked_at, value_samples
from windrow.optimizer.cost import plan_cost
from windrow.optimizer.estimates import Estimator
from windrow.optimizer.facts import StreamFacts, sampled
from windrow.optimizer.samples import MOST_VALUES, ValueSample, firsts, matched, meeting
from windrow.plan.algebra.nodes import Distinct

SIZE = 20_000


def drawn(low: int, high: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, SIZE)


def sample(values: np.ndarray) -> ValueSample:
    found = value_samples(pa.chunked_array([pa.array(values)]), np.unique(values).size, {})[None]
    assert found is not None
    return found


@pytest.mark.parametrize(
    "one, other",
    [((0, 40), (0, 40)), ((0, 2_000), (0, 2_000)), ((0, 2_000), (1_500, 3_500)), ((0, 1_000), (500, 3_000))],
)
def test_samples_tell_how_streams_meet(one: tuple[int, int], other: tuple[int, int]) -> None:
    mine, theirs = drawn(*one, seed=1), drawn(*other, seed=2)
    shares = [np.bincount(values, minlength=4_000) / SIZE for values in (mine, theirs)]
    met = float((shares[0] * shares[1]).sum())
    part = float(shares[0][shares[1] > 0].sum())
    first = float((shares[0] * shares[1] * np.exp(-500 * shares[1])).sum())
    found = sample(mine), sample(theirs)
    assert meeting(*found) == pytest.approx(met, rel=0.5)
    assert matched(*found) == pytest.approx(part, abs=0.15)
    assert firsts(*found, 500.0) == pytest.approx(first, rel=0.5)
    assert all(len(one.counts) <= MOST_VALUES for one in found)


def test_few_values_are_counted_exactly() -> None:
    one, other = sample(np.array([1, 1, 2, 3])), sample(np.array([1, 2, 2, 9]))
    assert (one.bound, meeting(one, other), matched(one, other)) == (1.0, (2 * 1 + 1 * 2) / 16, 0.75)
    assert firsts(one, other, 4) == pytest.approx((2 * exp(-1) + 2 * exp(-2)) / 16)


def test_streams_that_never_meet() -> None:
    one, other = sample(drawn(0, 2_000, 1)), sample(drawn(5_000, 7_000, 2))
    assert meeting(one, other) == matched(one, other) == firsts(one, other, 10.0) == 0.0


def test_too_small_to_tell() -> None:
    """Too few values of one lie below the bound of the other."""
    one, other = sample(drawn(0, 30, 1)), sample(drawn(10, 3_000, 2))
    assert meeting(one, other) is None and matched(one, other) is None and firsts(one, other, 1.0) is None


def test_facts_are_saved_with_their_samples() -> None:
    values = {"k": pa.chunked_array([drawn(0, 100, 1)]), "x > 1": pa.chunked_array([drawn(0, 2, 2) > 0])}
    facts = looked_at(values, StreamFacts(2.0))
    assert set(facts.samples) == {"k", sampled("k", "x > 1")}
    assert facts.samples[sampled("k", "x > 1")].rows == pytest.approx(SIZE / 2, rel=0.1)
    assert StreamFacts.restored(json.loads(json.dumps(facts.saved()))) == facts
    assert StreamFacts.restored({"rate": 1.0, "distinct": {}, "selectivity": {}}) == StreamFacts(1.0)


def test_estimates_know_that_streams_hardly_meet() -> None:
    """By distinct values alone, two streams with as many values would meet all the time."""
    m = Maker()
    facts = {
        name: StreamFacts(1.0, {"k": 2_000.0}, {}, {"k": sample(drawn(low, low + 2_000, seed))})
        for seed, (name, low) in enumerate((("a", 0), ("b", 1_900), ("c", 1_000)))
    }
    joined, negated = join(m.window("a", 10_000), m.window("b", 10_000)), m.window("c", 10_000)
    estimator = Estimator(joined, facts)
    assert 0 <= estimator.of(joined).live < 0.2 * 10_000 * 10_000 / 2_000
    left = semi(m.window("a", 10_000), negated, is_anti=True)
    assert Estimator(left, facts).of(left).live == pytest.approx(5_000, rel=0.3)
    assert plan_cost(plan(joined), facts).total < plan_cost(plan(joined), _without_samples(facts)).total


def _without_samples(facts: dict[str, StreamFacts]) -> dict[str, StreamFacts]:
    return {name: StreamFacts(one.rate, one.distinct, one.selectivity) for name, one in facts.items()}


def test_distinct_matches_change_nothing_of_what_is_shown() -> None:
    m = Maker()
    facts = {name: StreamFacts(1.0, {"k": 2_000.0}, {}, {"k": sample(drawn(0, 2_000, ord(name)))}) for name in "ac"}
    window, other = m.window("a", 10_000), m.window("c", 10_000)
    plain, once = semi(window, other, is_anti=True), semi(window, Distinct(other), is_anti=True)
    for facts_of in (facts, _without_samples(facts)):
        assert Estimator(plain, facts_of).of(plain) == Estimator(once, facts_of).of(once)
