"""Release of the cells of early-answered groups; windows still to be answered do not change."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from unit.synopses.test_late_cells import KEYS, answered, cells_of, lookup, rows_of

from windrow.synopses import BasicIntervalSynopsis
from windrow.synopses.lookups import merged
from windrow.types import POINT_MIN


def filled(rng: Random, closed: int) -> BasicIntervalSynopsis:
    synopsis = BasicIntervalSynopsis([pa.string()])
    for _ in range(4):
        rows = [(rng.randrange(100), rng.choice(KEYS), rng.randrange(50)) for _ in range(100)]
        synopsis.deposit(cells_of(synopsis, rows))
    synopsis.close(closed)
    return synopsis


def cells_held(synopsis: BasicIntervalSynopsis) -> int:
    held = [*synopsis._pending, *(chunk.cells() for chunk in synopsis._chunks)]
    return sum(int((cells.groups != 0).sum()) for cells in held)


@pytest.mark.parametrize("seed", range(10))
def test_release_keeps_needed_cells(seed: int) -> None:
    rng = Random(seed)
    synopsis = filled(rng, rng.randrange(60))
    alone = synopsis.open_alone(np.ones(synopsis.groups.count, bool))
    panes = np.union1d(synopsis.closed_panes, alone.closed_panes)
    needed = np.array([POINT_MIN, *(rng.choice([POINT_MIN, 30, 70, 95]) for _ in KEYS)], np.int64)
    asked = lookup([95], [100])
    before = rows_of(synopsis, merged(answered(synopsis, asked), answered(alone, asked)))
    had = cells_held(synopsis)
    synopsis.release(needed)
    alone = synopsis.open_alone(np.ones(synopsis.groups.count, bool))
    assert np.array_equal(np.union1d(synopsis.closed_panes, alone.closed_panes), panes)
    assert rows_of(synopsis, merged(answered(synopsis, asked), answered(alone, asked))) == before
    assert cells_held(synopsis) < had or (needed == POINT_MIN).all()
    for cells in synopsis._pending:
        assert not (cells.panes < needed[cells.groups]).any()


def test_open_cells_of_some_groups() -> None:
    synopsis = filled(Random(1), 0)
    wanted = np.zeros(synopsis.groups.count, bool)
    wanted[synopsis.groups.ids([pa.array(["b"])])[0]] = True
    found = rows_of(synopsis, answered(synopsis.open_alone(wanted), lookup([0], [100])))
    assert {key for _, key, _, _ in found} == {"b"}
    assert not rows_of(synopsis, answered(synopsis, lookup([0], [100])))


def test_release_shrinks_a_chunk() -> None:
    synopsis = BasicIntervalSynopsis([pa.string()])
    synopsis.deposit(cells_of(synopsis, [(p, "a", p) for p in range(20)] + [(3, "b", 1)]))
    synopsis.close(20)
    needed = np.full(synopsis.groups.count, POINT_MIN, np.int64)
    needed[synopsis.groups.ids([pa.array(["a"])])[0]] = 1 << 62
    assert cells_held(synopsis) == 21
    synopsis.release(needed)
    assert rows_of(synopsis, answered(synopsis, lookup([0], [20]))) == {(0, "b", 1, 1)}
    assert synopsis.closed_panes.tolist() == list(range(20))
