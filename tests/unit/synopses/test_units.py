"""Coarse units: every group with more than v is found, and every group that is found has nearly v."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses.having.collective_index import CollectiveIndex, Levels
from windrow.synopses.having.filter_tests import FilterKind, FilterTest
from windrow.synopses.having.units import FINEST, Units, coarseness, level_of

Table = list[list[int]]
SUMMED = Accumulator(Kind.COUNT, None, None, None)
elements = st.lists(st.lists(st.integers(0, 90), min_size=3, max_size=3), min_size=1, max_size=25)
"""The weights of three groups in each pane; 0 means no cell."""


def outer(value: int) -> FilterTest:
    return FilterTest(FilterKind.SUM, SUMMED, SUMMED, True, value)


@given(elements, st.integers(FINEST, 2000), st.sampled_from([1, 2, 4, 8]), st.data())
def test_filter_in_coarse_units(weights: Table, value: int, p: int, data: st.DataObject) -> None:
    table, levels = np.array(weights, np.int64), Levels(p)
    shift, index = coarseness(outer(value), exact=True), CollectiveIndex(levels, 100)
    units, at = Units(shift), 0
    assert 1 << shift <= value / FINEST < 2 << shift
    while at < len(table):
        many = data.draw(st.integers(1, 4))
        pane, group = np.nonzero(table[at : at + many])
        passed = units.passed(pane + at, group, table[at : at + many][pane, group])
        index.update(group[passed > 0], (pane + at)[passed > 0], passed[passed > 0])
        at += many
    start = data.draw(st.integers(0, len(table)))
    found = set(index.newer(level_of(outer(value), levels, shift), start - 1).tolist())
    totals = table[start:].sum(0)
    assert {g for g in range(3) if totals[g] > value} <= found
    least = value * (1 - levels.epsilon) - (2 << shift)
    assert all(totals[g] > least for g in found)


@given(elements, st.integers(1, 6))
def test_units_of_running_totals(weights: Table, shift: int) -> None:
    table = np.array(weights, np.int64)
    running = np.cumsum(table, 0) >> shift
    expected = np.diff(np.vstack([np.zeros((1, 3), np.int64), running]), axis=0)
    at_once, one_by_one = Units(shift), Units(shift)
    pane, group = np.nonzero(table)
    assert at_once.passed(pane, group, table[pane, group]).tolist() == expected[pane, group].tolist()
    for i, row in enumerate(table):
        (present,) = np.nonzero(row)
        assert (
            one_by_one.passed(np.full(present.size, i), present, row[present]).tolist() == expected[i, present].tolist()
        )


def test_coarseness() -> None:
    inner = FilterTest(FilterKind.SUM, SUMMED, SUMMED, False, 10_000)
    assert [coarseness(outer(v), True) for v in (0, 15, 16, 31, 32, 1_000)] == [0, 0, 0, 0, 1, 5]
    assert coarseness(outer(1_000), False) == coarseness(inner, True) == 0
