"""The first rows of every tick equal those found by looking at each tick."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from windrow.operators.tables.ranking import NOTHING, Ranked, differences, first_rows

TICKS = 23
rows = st.lists(st.tuples(st.integers(0, TICKS), st.integers(0, TICKS), st.integers(1, 4)), max_size=40)


def found_by_looking(low: np.ndarray, high: np.ndarray, counts: np.ndarray, limit: int) -> list[tuple[int, int, int]]:
    out = []
    for tick in range(TICKS):
        left = limit
        for row in np.flatnonzero((low <= tick) & (tick < high)).tolist():
            if left:
                count = min(left, int(counts[row]))
                out.append((tick, row, count))
                left -= count
    return out


def triples(ranked: Ranked) -> list[tuple[int, int, int]]:
    return list(zip(ranked.tick.tolist(), ranked.row.tolist(), ranked.count.tolist(), strict=True))


def arrays(drawn: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    low, high, counts = (np.array([one[i] for one in drawn], np.int64) for i in range(3))
    return low, high, counts


@given(rows, st.integers(1, 9))
def test_first_rows(drawn: list[tuple[int, int, int]], limit: int) -> None:
    low, high, counts = arrays(drawn)
    assert triples(first_rows(low, high, counts, TICKS, limit)) == found_by_looking(low, high, counts, limit)


@given(rows, st.integers(1, 9), st.integers(0, TICKS - 1))
def test_differences_lead_to_the_first_rows(drawn: list[tuple[int, int, int]], limit: int, upto: int) -> None:
    low, high, counts = arrays(drawn)
    listed = first_rows(low, high, counts, TICKS, limit)
    changes = differences(listed, NOTHING, TICKS)
    shown = np.zeros(len(drawn), np.int64)
    soon = changes.tick <= upto
    np.add.at(shown, changes.row[soon], changes.count[soon])
    now = listed.at(upto)
    expected = np.zeros(len(drawn), np.int64)
    expected[now.row] = now.count
    assert (changes.count != 0).all() and (shown == expected).all()


def test_many_ticks_of_many_rows() -> None:
    """Rows times ticks are ten thousand million; the work is far less."""
    size = 100_000
    low = np.random.default_rng(3).permutation(size)
    listed = first_rows(low, np.minimum(low + 10_000, size), np.ones(size, np.int64), size, 3)
    assert listed.tick.size == 3 * size - 3  # the first two ticks have one row and two
