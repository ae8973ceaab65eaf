"""Groups: dense ids for composite keys of any type; one group each for NULL, NaN and zero; compaction."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.synopses.cells.groups import NOBODY, Groups, Ids

some = settings(max_examples=40, deadline=None)

UTC = pa.timestamp("us", tz="UTC")
KEYS: list[tuple[pa.DataType, Sequence[Any]]] = [
    (pa.string(), ["a", "b", "", "é", None]),
    (pa.float64(), [0.0, -0.0, math.nan, math.inf, -1.5, None]),
    (pa.float32(), [0.0, -0.0, math.nan, 0.5, None]),
    (pa.int64(), [0, 1, -1, (1 << 63) - 1, None]),
    (pa.int8(), [0, 1, -128, None]),
    (pa.bool_(), [True, False, None]),
    (pa.date32(), [dt.date(1969, 12, 31), dt.date(2026, 1, 1), None]),
    (UTC, [dt.datetime(1969, 12, 31, tzinfo=dt.timezone.utc), dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc), None]),
    (pa.timestamp("us"), [dt.datetime(1969, 12, 31), dt.datetime(2026, 1, 1), None]),
    (pa.decimal128(12, 2), [Decimal("1.00"), Decimal("-1.00"), None]),
    (pa.decimal128(38, 3), [Decimal("1.000"), Decimal("1e30"), None]),
    (pa.binary(), [b"", b"\xff", None]),
]
by_type = pytest.mark.parametrize(("kind", "values"), KEYS, ids=[str(kind) for kind, _ in KEYS])


def canonical(value: Any) -> Any:
    """Equal for keys of the same group: there is one NaN and one zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def rows_of(columns: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return [tuple(canonical(v) for v in row) for row in zip(*columns, strict=True)]


def keys_of(groups: Groups, ids: Ids) -> list[tuple[Any, ...]]:
    return rows_of([column.to_pylist() for column in groups.key_columns(ids)])


@by_type
@some
@given(st.data())
def test_equal_keys_have_equal_ids(kind: pa.DataType, values: Sequence[Any], data: Any) -> None:
    groups = Groups([kind])
    known: dict[Any, int] = {}
    for _ in range(3):
        batch = data.draw(st.lists(st.sampled_from(values), max_size=6))
        found = groups.ids([pa.array(batch, kind)])
        for key, number in zip(rows_of([batch]), found.tolist(), strict=True):
            assert known.setdefault(key, number) == number
        assert keys_of(groups, found) == rows_of([batch])
    assert sorted(known.values()) == list(range(1, groups.count))


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[pa.DataType], list[list[list[Any]]]]:
    """Columns of up to three keys of any types, in several batches."""
    chosen = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3))
    kinds = [kind for kind, _ in chosen]
    made = []
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.integers(0, 8))
        made.append([draw(st.lists(st.sampled_from(values), min_size=size, max_size=size)) for _, values in chosen])
    return kinds, made


@settings(max_examples=80, deadline=None)
@given(batches())
def test_composite_keys(made: tuple[list[pa.DataType], list[list[list[Any]]]]) -> None:
    kinds, parts = made
    groups = Groups(kinds)
    known: dict[Any, int] = {}
    for columns in parts:
        found = groups.ids([pa.array(c, kind) for c, kind in zip(columns, kinds, strict=True)])
        for key, number in zip(rows_of(columns), found.tolist(), strict=True):
            assert known.setdefault(key, number) == number
    assert len(set(known.values())) == len(known)
    ids = np.array(sorted(known.values()), np.int64)
    assert ids.tolist() == list(range(1, groups.count))
    assert {key: i for i, key in zip(ids.tolist(), keys_of(groups, ids), strict=True)} == known


@settings(max_examples=80, deadline=None)
@given(batches(), st.data())
def test_compact_keeps_live_keys(made: tuple[list[pa.DataType], list[list[list[Any]]]], data: Any) -> None:
    kinds, parts = made
    groups = Groups(kinds)
    for columns in parts:
        groups.ids([pa.array(c, kind) for c, kind in zip(columns, kinds, strict=True)])
    before = groups.count
    living = data.draw(st.sets(st.sampled_from(range(1, before)))) if before > 1 else set()
    alive = np.array([NOBODY, *sorted(living)], np.int64)
    keys = keys_of(groups, alive[1:])
    renumber = groups.compact(alive)
    assert renumber[alive].tolist() == list(range(alive.size))
    assert sorted(np.flatnonzero(renumber < 0).tolist()) == sorted(set(range(before)) - set(alive.tolist()))
    assert groups.count == alive.size
    assert keys_of(groups, np.arange(1, alive.size)) == keys
    again = groups.ids([pa.array(list(c), kind) for c, kind in zip(parts[-1], kinds, strict=True)])
    assert keys_of(groups, again) == rows_of(parts[-1])


def test_nobody_is_id_zero() -> None:
    groups = Groups([pa.string(), pa.int64()])
    found = groups.ids([pa.array(["a", "x", "b"]), pa.array([1, 9, 2])], np.array([False, True, False]))
    assert found.tolist() == [1, NOBODY, 2]
    assert keys_of(groups, found) == [("a", 1), (None, None), ("b", 2)]
    assert groups.count == 3


def test_null_key_is_a_group() -> None:
    groups = Groups([pa.string()])
    found = groups.ids([pa.array([None, "a", None], pa.string())], np.array([False, False, True]))
    assert found.tolist() == [1, 2, NOBODY]


def test_no_keys_give_one_group() -> None:
    groups = Groups([])
    assert groups.count == 1
    assert groups.ids([], np.array([True, True])).tolist() == [NOBODY, NOBODY]
    assert groups.count == 1
    assert groups.ids([], np.array([False, True, False])).tolist() == [1, NOBODY, 1]
    assert groups.ids([], np.zeros(2, bool)).tolist() == [1, 1]
    assert groups.count == 2


def test_key_encodings() -> None:
    groups = Groups([pa.string(), pa.int64()])
    plain = groups.ids([pa.array(["a", "b"]), pa.array([1, 2])])
    coded = groups.ids([pa.array(["b", "a"]).dictionary_encode(), pa.array([2, 1], pa.int8())])
    chunked = groups.ids([pa.chunked_array([["a"], ["b"]]), pa.chunked_array([[1], [2]])])
    assert coded.tolist() == plain.tolist()[::-1] and chunked.tolist() == plain.tolist()
    assert groups.ids([pa.array([], pa.string()), pa.array([], pa.int64())]).size == 0


def test_string_keys_are_dictionary_encoded() -> None:
    groups = Groups([pa.string(), pa.float64()])
    groups.ids([pa.array(["a"]), pa.array([-0.0])])
    text, number = groups.key_columns(np.array([1, 1]))
    assert pa.types.is_dictionary(text.type) and text.to_pylist() == ["a", "a"]
    assert [math.copysign(1, v) for v in number.to_pylist()] == [1, 1]


def test_compact_many_groups() -> None:
    groups = Groups([pa.int64()])
    groups.ids([pa.array(np.arange(100_000))])
    groups.compact(np.array([NOBODY, 500, 99_999]))
    assert groups.count == 3
    assert keys_of(groups, np.array([1, 2])) == [(499,), (99_998,)]
    assert groups.ids([pa.array([499, 7])]).tolist() == [1, 3]
