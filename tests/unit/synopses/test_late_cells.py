"""Late cells in closed panes: once merged, the synopsis equals one that got them in time."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses import BasicIntervalSynopsis, Cells, Lookup, LookupAnswer
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.lookups import merged
from windrow.types import SqlType

COUNT = Accumulator(Kind.COUNT, None, None, None)
GREATEST = Accumulator(Kind.GREATEST, "x", SqlType("BIGINT"), None)
KEYS = ["a", "b", "c", "d"]


def cells_of(synopsis: BasicIntervalSynopsis, rows: list[tuple[int, str, int]]) -> Cells:
    """A cell per row: pane, key, value."""
    panes = np.array([row[0] for row in rows], np.int64)
    groups = synopsis.groups.ids([pa.array([row[1] for row in rows])], np.zeros(len(rows), bool))
    values = np.array([row[2] for row in rows], np.int64)
    return Cells(panes, groups, {COUNT: (np.ones(len(rows), np.int64),), GREATEST: (values,)})


def rows_of(synopsis: BasicIntervalSynopsis, looked: LookupAnswer) -> set[tuple[int, str, int, int]]:
    keys = synopsis.groups.key_columns(looked.groups)[0].to_pylist()
    counts, greatest = looked.states[COUNT][0].tolist(), looked.states[GREATEST][0].tolist()
    return set(zip(looked.window.tolist(), keys, counts, greatest, strict=True))


def lookup(starts: list[int], ends: list[int]) -> Lookup:
    return Lookup("q", np.array(starts), np.array(ends), COUNT, (COUNT, GREATEST), False)


def answered(synopsis: BasicIntervalSynopsis, asked: Lookup) -> LookupAnswer:
    return next(iter(synopsis.answer([asked])))


@pytest.mark.parametrize("seed", range(30))
def test_merged_late_cells_equal_early_cells(seed: int) -> None:
    rng = Random(seed)
    span = rng.choice([5, 60, 300])
    row = lambda: (rng.randrange(span), rng.choice(KEYS), rng.randrange(100))  # noqa: E731
    early, late = [row() for _ in range(rng.randrange(200))], [row() for _ in range(rng.randrange(1, 40))]
    one, other = BasicIntervalSynopsis([pa.string()]), BasicIntervalSynopsis([pa.string()])
    for upto in sorted(rng.sample(range(span + 1), 3)) + [span]:
        one.deposit(cells_of(one, [r for r in early if r[0] < upto]))
        early = [r for r in early if r[0] >= upto]
        one.close(upto)
    kept = [chunk.cells() for chunk in one._chunks]
    asked = lookup([-5, 0, span // 3, span // 2], [1, span // 4 + 1, span // 2 + 1, span])
    before = answered(one, asked)
    one.hold_late(cells_of(one, late[: len(late) // 2]))
    one.hold_late(cells_of(one, late[len(late) // 2 :]))
    foretold = rows_of(one, merged(before, answered(one.late_alone(), asked)))
    assert rows_of(one, answered(one, asked)) == rows_of(one, before), "what is held apart is not seen"
    one.merge_late()
    assert not one.has_late
    for cells in kept:
        keys = one.groups.key_columns(cells.groups)[0]
        other.deposit(Cells(cells.panes, other.groups.ids([keys], np.zeros(len(cells), bool)), cells.states))
    other.deposit(cells_of(other, late))
    other.close(span)
    assert one.closed_panes.tolist() == other.closed_panes.tolist() == sorted(set(one.closed_panes.tolist()))
    assert rows_of(one, answered(one, asked)) == rows_of(other, answered(other, asked)) == foretold


def test_other_states_keep_every_bit() -> None:
    total = Accumulator(Kind.SUM_DOUBLE, "y", SqlType("DOUBLE"), None)
    looked = lambda groups, sums: LookupAnswer(  # noqa: E731
        "q",
        1,
        np.zeros(len(groups), np.int64),
        np.array(groups),
        {total: tuple(np.array(sums) if i == 0 else c for i, c in enumerate(fold_of(total).identity(len(groups))))},
    )
    found = merged(looked([1, 3], [0.1 + 0.2, 5.0]), looked([2, 3], [1.0, 0.5]))
    assert found.groups.tolist() == [1, 2, 3]
    assert found.states[total][0].tolist() == [0.1 + 0.2, 1.0, 5.5]


def test_late_cells_in_empty_synopsis() -> None:
    synopsis = BasicIntervalSynopsis([pa.string()])
    synopsis.hold_late(cells_of(synopsis, [(7, "a", 1), (3, "b", 2)]))
    synopsis.merge_late()
    assert synopsis.closed_panes.tolist() == [3, 7]
