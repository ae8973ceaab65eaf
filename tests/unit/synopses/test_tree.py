"""Intervals over cells equal brute force for every accumulator, whatever cells lie outside."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.brute_force import MOMENTS, TYPES, Row, calls_of, cells_of, expected, roles_of, same, values_of

from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses.answering import tree
from windrow.synopses.answering.tree import FlatIntervals
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.groups import Groups
from windrow.synopses.results.values import result_of
from windrow.types import SqlType

KEYS = ["a", "b", None, "c"]
COUNT = Accumulator(Kind.COUNT, None, None, None)
DOUBLES = Accumulator(Kind.SUM_DOUBLE, "x", SqlType("DOUBLE"), None)
LONGS = Accumulator(Kind.SUM_INT, "x", SqlType("INT"), None)
GREATEST = Accumulator(Kind.GREATEST, "x", SqlType("INT"), None)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def plain(panes: Any, groups: Any, accumulator: Accumulator = COUNT, values: Any = None) -> Cells:
    """Cells of one accumulator with a column of values, by default COUNT."""
    column = np.ones(panes.size, np.int64) if values is None else np.asarray(values)
    return Cells(panes, groups, {accumulator: (column,)})


# -- answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_accumulator_equals_brute_force(type_: SqlType, data: Any) -> None:
    near = type_.is_float or type_.name in (
        "TINYINT",
        "SMALLINT",
    )  # values further apart lose the precision of 1e-9 in moments
    calls = [call for call in calls_of(type_) if near or call.function not in MOMENTS]
    pool = data.draw(st.lists(values_of(type_), min_size=1, max_size=12))
    random = Random(data.draw(st.integers(0, 1 << 16)))
    rows = [
        Row(random.randrange(-20, 20) * 10, (random.choice(KEYS),), random.choice(pool))
        for _ in range(random.randrange(150))
    ]
    nobody = [random.random() < 0.2 for _ in rows]
    groups = Groups([pa.string()])
    flat = FlatIntervals(cells_of(rows, roles_of(calls), type_, groups, [pa.string()], nobody))
    ids = groups.ids([pa.array(["new", *KEYS])])
    asked = [
        (random.randrange(len(KEYS) + 1), random.randrange(-21, 21) * 10, random.randrange(-21, 21) * 10)
        for _ in range(random.randrange(30))
    ]
    who = [("new", *KEYS)[i] for i, _, _ in asked]
    states = flat.answer(
        ids[[i for i, _, _ in asked]] if asked else ints(),
        ints(*(start for _, start, _ in asked)),
        ints(*(end for _, _, end in asked)),
        list(roles_of(calls)),
    )
    for call in calls:
        found = result_of(call, states).to_pylist()
        for key, (_, start, end), mine in zip(who, asked, found, strict=True):
            inside = [
                row.value
                for row, none in zip(rows, nobody, strict=True)
                if not none and row.key == (key,) and start <= row.pane < end
            ]
            right = expected(call, type_, inside)
            assert same(mine, right), (call.function, key, start, end, mine, right)


@settings(max_examples=60, deadline=None)
@given(size=st.integers(0, 70), seed=st.integers(0, 1 << 16), at_once=st.sampled_from([1, 7, 1 << 15]))
def test_all_intervals_of_one_group(size: int, seed: int, at_once: int) -> None:
    """Every [i, j) over distinct cells equals a plain slice, in batches of any size."""
    random = np.random.default_rng(seed)
    values = random.integers(-1000, 1000, size)
    panes = np.sort(random.choice(1000, size, replace=False)).astype(np.int64)
    order = random.permutation(size)
    states = {LONGS: (values[order],), GREATEST: (values[order],)}
    flat = FlatIntervals(Cells(panes[order], np.ones(size, np.int64), states))
    edges = np.append(panes, 1000)
    i, j = (a.ravel() for a in np.meshgrid(np.arange(size + 1), np.arange(size + 1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree, "AT_ONCE", at_once)
        got = flat.answer(np.ones(i.size, np.int64), edges[i], edges[j], [LONGS, GREATEST])
    assert got[LONGS][0].tolist() == [int(values[a:b].sum()) for a, b in zip(i, j, strict=True)]
    nothing = np.iinfo(np.int64).min
    assert got[GREATEST][0].tolist() == [int(values[a:b].max(initial=nothing)) for a, b in zip(i, j, strict=True)]


def test_repeated_cells_are_folded() -> None:
    flat = FlatIntervals(plain(ints(10, 0, 10, 10, 0), ints(1, 2, 1, 2, 2)))
    assert len(flat) == 3
    got = flat.answer(ints(1, 2, 2), ints(0, 0, 5), ints(11, 11, 11), [COUNT])
    assert got[COUNT][0].tolist() == [2, 3, 1]


def test_missing_cells_are_the_identity() -> None:
    flat = FlatIntervals(plain(ints(10, 20), ints(2, 2)))
    got = flat.answer(ints(1, 2, 3, 2, 2), ints(0, 0, 0, 11, 30), ints(99, 10, 99, 20, 5), [COUNT, GREATEST])
    assert got[COUNT][0].tolist() == [0] * 5
    assert got[GREATEST][0].tolist() == [np.iinfo(np.int64).min] * 5, "an accumulator that no cell has"
    empty = FlatIntervals(plain(ints(), ints()))
    assert empty.answer(ints(1), ints(0), ints(9), [COUNT])[COUNT][0].tolist() == [0]
    assert flat.answer(ints(), ints(), ints(), [COUNT])[COUNT][0].tolist() == []


def test_groups_do_not_mix() -> None:
    """With three cells a group, dyadic nodes span groups; one group's values would swamp the other's."""
    groups = np.repeat(ints(1, 2, 3), 3)
    values = np.array([1e300, 1e300, -1e300, 0.1, 0.2, 0.3, math.pi, 1e-300, 1e300])
    flat = FlatIntervals(plain(np.tile(ints(0, 10, 20), 3), groups, DOUBLES, values))
    got = flat.answer(ints(2, 2, 3), ints(0, 10, 0), ints(30, 30, 20), [DOUBLES])[DOUBLES][0]
    assert got.tolist() == pytest.approx([0.6, 0.5, math.pi], rel=1e-15)


@pytest.mark.filterwarnings("error")
def test_sums_outside_the_interval_do_not_disturb() -> None:
    big = np.finfo(np.float64).max
    values = np.array([big, big, -big, -big, -big, 1.0, 2.0, 4.0, big, big])
    flat = FlatIntervals(plain(np.arange(10), np.ones(10, np.int64), DOUBLES, values))
    got = flat.answer(ints(1, 1), ints(5, 6), ints(8, 7), [DOUBLES])[DOUBLES][0]
    assert got.tolist() == [7.0, 2.0]


def test_input_cells_are_unchanged() -> None:
    cells = plain(np.arange(9), np.ones(9, np.int64))
    for _ in range(2):
        got = FlatIntervals(cells).answer(ints(1), ints(1), ints(8), [COUNT])
        assert got[COUNT][0].tolist() == [7]
    assert cells.states[COUNT][0].tolist() == [1] * 9


# -- alive ----------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    cells=st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 5)), max_size=25),
    windows=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12),
    length=st.integers(0, 12),
    apart=st.sampled_from([1, 1000]),
)
def test_alive(cells: Any, windows: Any, length: int, apart: int) -> None:
    """Pairs are sorted in two ways, for group ids close together and far apart."""
    starts = np.cumsum([step for step, _ in windows], dtype=np.int64) - 20
    ends = starts[:1].sum() + length + np.cumsum([step for _, step in windows], dtype=np.int64)
    panes, groups = ints(*(p for p, _ in cells)), ints(*(g * apart for _, g in cells))
    window, group = FlatIntervals(plain(panes, groups)).alive(starts, ends)
    wanted = sorted(
        {
            (w, g * apart)
            for w, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True))
            for p, g in cells
            if g and start <= p < end
        }
    )
    assert list(zip(window.tolist(), group.tolist(), strict=True)) == wanted


def test_alive_of_sparse_cells() -> None:
    """Windows times group ids exceed any memory; only three pairs have a cell."""
    far = 10**11
    groups = np.append(np.zeros(100_000, np.int64), [1, far // 2, far])
    panes = np.append(np.arange(100_000), [5, 7, 5])
    starts = np.arange(100_000)
    window, group = FlatIntervals(plain(panes, groups)).alive(starts, starts + 1)
    assert window.tolist() == [5, 5, 7]
    assert group.tolist() == [1, far, far // 2]
