"""Row numbers of gathered rows follow the order in which Spark would sort them."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.dataplane.ingest.arrival import ORDER, numbers, order_columns

some = settings(max_examples=60, deadline=None)

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "places": (pa.int64(), [0, 1, 2, -5]),
    "times": (pa.timestamp("us", "UTC"), [datetime(2026, 1, d, tzinfo=timezone.utc) for d in (1, 2, 3)]),
    "paths": (pa.string(), ["file:/a", "file:/b", "file:/B", "file:/é", ""]),
    "doubles": (pa.float64(), [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5]),
    "floats": (pa.float32(), [math.nan, 1.5, -2.0]),
    "decimals": (pa.decimal128(12, 2), [Decimal("1.50"), Decimal("-2.25")]),
    "days": (pa.date32(), [date(2026, 1, 1), date(1969, 12, 31)]),
    "flags": (pa.bool_(), [True, False]),
    "bytes": (pa.binary(), [b"", b"\x00", b"\xff", b"a"]),
}


def rank(value: Any) -> Any:
    """Spark's ascending order of one column."""
    if value is None:
        return (0, 0)
    if isinstance(value, float):
        return (2, 0) if math.isnan(value) else (1, value)
    return (1, value.encode() if isinstance(value, str) else value)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[list[Any]], pa.Table]:
    """Rows of one to three order columns, with repeated positions, as a table of two chunks."""
    kinds = [KINDS[name] for name in draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))]
    row = st.tuples(*(st.none() | st.sampled_from(values) for _, values in kinds))
    rows = [list(one) for one in draw(st.lists(row, max_size=8)) for _ in range(draw(st.integers(1, 3)))]
    columns = [pa.array([one[i] for one in rows], kind) for i, (kind, _) in enumerate(kinds)]
    halves = [pa.chunked_array([c.slice(0, len(rows) // 2), c.slice(len(rows) // 2)]) for c in columns]
    return rows, pa.table({f"{ORDER}{i}": half for i, half in enumerate(halves)} | {"other": [0] * len(rows)})


@some
@given(tables())
def test_numbers_follow_sparks_order(made: tuple[list[list[Any]], pa.Table]) -> None:
    rows, table = made
    order = sorted(range(len(rows)), key=lambda at: [rank(value) for value in rows[at]])
    expected = {at: number for number, at in enumerate(order, 1)}
    assert numbers(table).tolist() == [expected[at] for at in range(len(rows))]


def test_numbers_without_order_columns() -> None:
    assert numbers(pa.table({"x": [5, 3, 4]})).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("sequence_by", "expected"), [(None, ["__pos0", "__pos1"]), ("a b", ["`a b`", "__pos0", "__pos1"])]
)
def test_order_columns(sequence_by: str | None, expected: list[str]) -> None:
    assert order_columns(["__pos1", "a b", "__pos0", "x"], sequence_by) == expected
