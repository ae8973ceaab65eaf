"""Queries over the same windows and tuples are looked up once, and each gets what it asked for (CS1, CS3)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from unit.synopses.test_late_cells import COUNT, GREATEST, KEYS, cells_of, lookup

from windrow.synopses import BasicIntervalSynopsis
from windrow.synopses.lookups import asked_once


def filled(rng: Random) -> BasicIntervalSynopsis:
    synopsis = BasicIntervalSynopsis([pa.string()])
    synopsis.deposit(cells_of(synopsis, [(rng.randrange(50), rng.choice(KEYS), rng.randrange(9)) for _ in range(200)]))
    synopsis.close(50)
    return synopsis


@pytest.mark.parametrize("seed", range(10))
def test_together_is_as_one_by_one(seed: int) -> None:
    rng = Random(seed)
    synopsis = filled(rng)
    windows = [([0, 10], [20, 30]), ([5, 10], [20, 30]), ([0, 10], [20, 30])]
    reads = [(COUNT,), (COUNT, GREATEST), (GREATEST, COUNT)]
    lookups = [
        replace(lookup(*windows[i % 3]), query=f"q{i}", reads=rng.choice(reads)) for i in range(rng.randrange(1, 12))
    ]
    found = {looked.query: looked for looked in synopsis.answer(lookups)}
    assert list(found) and set(found) == {one.query for one in lookups}
    for one in lookups:
        alone = next(iter(synopsis.answer([one])))
        assert set(found[one.query].states) == set(alone.states) == {one.presence, *one.reads}
        assert np.array_equal(found[one.query].window, alone.window)
        assert np.array_equal(found[one.query].groups, alone.groups)
        for a, state in alone.states.items():
            assert all(np.array_equal(x, y) for x, y in zip(state, found[one.query].states[a], strict=True))


def test_what_is_alike_is_asked_once() -> None:
    same, other = lookup([0], [20]), lookup([1], [20])
    lookups = [
        replace(same, query="sum", reads=(GREATEST,)),
        replace(same, query="count", reads=(COUNT,)),
        replace(other, query="other"),
    ]
    shared = asked_once(lookups)
    assert [(one.asked.query, set(one.asked.reads)) for one in shared.values()] == [
        ("sum", {COUNT, GREATEST}),
        ("other", {COUNT, GREATEST}),
    ]
    found = filled(Random(1)).answer(lookups)
    assert [looked.query for looked in found] == ["sum", "count", "other"]
