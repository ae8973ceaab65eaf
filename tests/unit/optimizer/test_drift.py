"""How far measurements have moved."""

from __future__ import annotations

from math import inf

import pytest

from windrow.optimizer.drift import NO_DRIFT, drift
from windrow.optimizer.facts import Facts, StreamFacts

BEFORE: Facts = {"a": StreamFacts(2.0, {"k": 100.0}, {"x > 0": 0.5}), "b": StreamFacts(1.0)}


@pytest.mark.parametrize(
    "now, factor, what",
    [
        (StreamFacts(2.0, {"k": 100.0}, {"x > 0": 0.5}), 1.0, ""),
        (StreamFacts(6.0, {"k": 50.0}), 3.0, "the rate of a: 3 times more than before"),
        (StreamFacts(2.0, {"k": 10.0}), 10.0, "distinct values of k in a: 10 times less than before"),
        (StreamFacts(2.0, {}, {"x > 0": 0.1}), 5.0, "the share of tuples with x > 0 in a: 5 times less than before"),
        (StreamFacts(2.0, {"g": 10.0}), inf, "distinct values of g in a: measured now, and not before"),
        (StreamFacts(), 1.0, ""),
    ],
)
def test_the_greatest_counts(now: StreamFacts, factor: float, what: str) -> None:
    found = drift(BEFORE, {"a": now, "b": StreamFacts(1.0)}, ["a", "b"])
    assert found.factor == pytest.approx(factor)
    assert what in found.what


def test_only_the_streams_of_the_plan_count() -> None:
    assert drift(BEFORE, {"c": StreamFacts(1.0)}, ["a"]) == NO_DRIFT
    assert drift({}, {"c": StreamFacts(1.0)}, ["c"]).factor == inf
    assert drift(BEFORE, {}, ["a", "b"]) == NO_DRIFT
