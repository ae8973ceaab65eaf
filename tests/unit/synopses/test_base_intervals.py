"""Base intervals: an interval is their disjoint union, in each of the three forms; and running sums."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from windrow.synopses.index.base_intervals import base_intervals, base_intervals_of, heap_slots_of
from windrow.synopses.index.running import differences, sums_before

SLOTS = 1 << 10
intervals = st.lists(st.tuples(st.integers(0, 900), st.integers(0, 100)), min_size=1, max_size=20)


def cells(slot: int) -> range:
    """The cells of a node of a heap over SLOTS cells."""
    size = 1 << (SLOTS.bit_length() - slot.bit_length())
    first = slot * size - SLOTS
    return range(first, first + size)


def check(low: int, high: int, nodes: list[range]) -> None:
    assert sorted(cell for node in nodes for cell in node) == list(range(low, high))
    sizes = [len(node) for node in nodes]
    assert all(sizes.count(size) <= 2 and size & (size - 1) == 0 for size in sizes)


@given(intervals)
def test_all_forms_give_the_disjoint_union(asked: list[tuple[int, int]]) -> None:
    low = np.array([first for first, _ in asked])
    high = low + np.array([width for _, width in asked])
    dropped: list[list[range]] = [[] for _ in asked]
    for level, _, which, nodes in base_intervals_of(low, high):
        for i, node in zip(which.tolist(), nodes.tolist(), strict=True):
            dropped[i].append(range(node << level, (node + 1) << level))
    beside: list[list[range]] = [[] for _ in asked]
    for slots in heap_slots_of(low, high, SLOTS):
        for row in slots.tolist():
            for i, slot in enumerate(row):
                beside[i] += [cells(slot)] if slot else []
    for i, (start, end) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        check(start, end, [cells(slot) for slot in base_intervals(start, end, SLOTS)])
        check(start, end, dropped[i])
        check(start, end, beside[i])


@given(intervals, st.sampled_from([(), (3,)]))
def test_differences_of_running_sums(asked: list[tuple[int, int]], shape: tuple[int, ...]) -> None:
    column = np.random.default_rng(7).integers(-(1 << 62), 1 << 62, (1000, *shape))
    sums = sums_before(column)
    evenly = [(first, 5) for first in range(0, 100, 5)]
    together = [(900 - width, width) for width in range(50)]
    for windows in (asked, evenly, together, [(3, 4)] * 3):
        low = np.array([first for first, _ in windows])
        high = low + np.array([width for _, width in windows])
        out = np.empty((low.size, *shape), np.int64)
        differences(sums, low, high, out)
        expected = [column[a:b].sum(axis=0) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        assert (out == np.array(expected)).all()


def test_running_sums_along_another_axis() -> None:
    column = np.arange(24).reshape(2, 3, 4)
    sums = sums_before(column, axis=1)
    assert sums.shape == (2, 4, 4) and not sums[:, 0].any()
    assert (sums[:, 3] == column.sum(axis=1)).all()
