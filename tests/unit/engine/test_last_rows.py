"""The last tuples by arrival, of what is kept."""

from __future__ import annotations

import pyarrow as pa
import pytest

from windrow.dataplane.stores import ARRIVAL
from windrow.engine.ask.onetime.reading import last_rows, may_lack_rows


def rows(*numbers: int) -> pa.Table:
    return pa.table({ARRIVAL.id: pa.array(numbers, pa.int64()), "k": ["ab"[n % 2] for n in numbers]})


@pytest.mark.parametrize(
    ("kept", "came", "size", "expected", "first"),
    [
        ((1, 2, 3), 3, 2, [2, 3], 1),
        ((3, 1, 2), 3, 10, [1, 2, 3], 1),
        ((1, 4, 5), 5, 3, [4, 5], 4),  # 3 is gone, so 1 does not count
        ((1, 2), 5, 3, [], 6),  # the last ones are gone
        ((4, 5, 6, 7), 5, 1, [5], 4),  # 6 and 7 came later
        ((), 0, 3, [], 1),
    ],
)
def test_last_rows(kept: tuple[int, ...], came: int, size: int, expected: list[int], first: int) -> None:
    found, begins = last_rows(rows(*kept), came, size, [])
    assert sorted(found.column(ARRIVAL.id).to_pylist()) == expected
    assert begins == first


def test_last_rows_of_each_partition() -> None:
    found, _ = last_rows(rows(1, 2, 3, 5, 7, 4, 6), 7, 2, ["k"])
    assert sorted(found.column(ARRIVAL.id).to_pylist()) == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("kept", "size", "partition", "expected"),
    [
        ((4, 5, 6, 7), 4, [], False),
        ((4, 5, 6, 7), 5, [], True),
        ((1, 2, 3, 4, 5, 6, 7), 100, [], False),  # all that came
        ((4, 5, 6, 7), 2, ["k"], False),
        ((5, 6, 7), 2, ["k"], True),  # 4 is gone, or was never there
        ((1, 2, 3, 4, 5, 6, 7), 100, ["k"], False),
        ((), 1, ["k"], True),
    ],
)
def test_rows_that_have_gone_are_missed(kept: tuple[int, ...], size: int, partition: list[str], expected: bool) -> None:
    found, first = last_rows(rows(*kept), 7, size, partition)
    assert may_lack_rows(found, first, 7, size, partition) is expected
