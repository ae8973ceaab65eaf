"""Column types and points: Spark's names, Arrow's types, and times as microseconds since the epoch."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.types import (
    EPOCH,
    POINT_MAX,
    POINT_MIN,
    SqlType,
    array_type,
    decimal_type,
    moment_of,
    point_of,
    point_text,
    scalar_type,
    struct_type,
)

some = settings(max_examples=80, deadline=None)
TIMESTAMP, NTZ, BIGINT = SqlType("TIMESTAMP"), SqlType("TIMESTAMP_NTZ"), SqlType("BIGINT")


@pytest.mark.parametrize(
    ("name", "arrow", "traits"),
    [
        ("BOOLEAN", pa.bool_(), ""),
        ("TINYINT", pa.int8(), "integer numeric attribute"),
        ("SMALLINT", pa.int16(), "integer numeric attribute"),
        ("INT", pa.int32(), "integer numeric attribute"),
        ("BIGINT", pa.int64(), "integer numeric attribute"),
        ("FLOAT", pa.float32(), "float numeric"),
        ("DOUBLE", pa.float64(), "float numeric"),
        ("DECIMAL(12,2)", pa.decimal128(12, 2), "decimal numeric"),
        ("DECIMAL(38, 10)", pa.decimal128(38, 10), "decimal numeric"),
        ("STRING", pa.string(), ""),
        ("BINARY", pa.binary(), ""),
        ("DATE", pa.date32(), ""),
        ("TIMESTAMP", pa.timestamp("us", tz="UTC"), "timestamp attribute"),
        ("TIMESTAMP_NTZ", pa.timestamp("us"), "timestamp attribute"),
        ("VOID", pa.null(), ""),
    ],
)
def test_every_type(name: str, arrow: pa.DataType, traits: str) -> None:
    type_ = SqlType(name)
    assert type_.arrow == arrow and str(type_) == name
    found = {
        "integer": type_.is_integer,
        "float": type_.is_float,
        "decimal": type_.is_decimal,
        "numeric": type_.is_numeric,
        "timestamp": type_.is_timestamp,
        "attribute": type_.is_window_attribute,
    }
    assert {trait for trait, has in found.items() if has} == set(traits.split())


@pytest.mark.parametrize("bad", ["int", "VARCHAR", "DECIMAL", "DECIMAL(5)", "ARRAY<VARCHAR>", ""])
def test_bad_names(bad: str) -> None:
    with pytest.raises(ValueError, match="not a column type"):
        SqlType(bad)


def test_arrays_and_structs() -> None:
    entry = struct_type(item=decimal_type(12, 2), count=SqlType("BIGINT"))
    found = struct_type(threshold=SqlType("BIGINT"), items=array_type(entry))
    assert str(found) == "STRUCT<threshold: BIGINT, items: ARRAY<STRUCT<item: DECIMAL(12,2), count: BIGINT>>>"
    assert found.is_nested and [name for name, _ in found.fields] == ["threshold", "items"]
    assert found.fields[1][1].element == entry
    inner = pa.struct([("item", pa.decimal128(12, 2)), ("count", pa.int64())])
    assert found.arrow == pa.struct([("threshold", pa.int64()), ("items", pa.list_(inner))])
    for wrong in (lambda: entry.element, lambda: array_type(entry).fields, lambda: scalar_type("ARRAY<INT>")):
        with pytest.raises(ValueError, match="is not|not a scalar"):
            wrong()


def test_decimals() -> None:
    assert decimal_type(12, 2) == SqlType("DECIMAL(12,2)") and decimal_type(12, 2).decimal == (12, 2)
    with pytest.raises(ValueError, match="not a DECIMAL"):
        _ = BIGINT.decimal


@some
@given(st.datetimes(timezones=st.just(timezone.utc)))
def test_time_to_point_and_back(moment: datetime) -> None:
    point = point_of(moment, TIMESTAMP)
    assert EPOCH + timedelta(microseconds=point) == moment
    assert pa.array([point]).view(TIMESTAMP.arrow)[0].as_py() == moment
    assert point_of(moment.replace(tzinfo=None), NTZ) == point
    text = point_text(point, TIMESTAMP)
    assert datetime.fromisoformat(text).replace(tzinfo=timezone.utc) == moment


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2026-01-01 00:00:00", 0),
        ("2026-01-01T00:00:00.5", 500_000),
        ("2026-01-01 00:00:00.25Z", 250_000),
        ("2026-01-01 02:00:00.1234+02:00", 123_400),
        ("2026-01-01 00:00:00.123456789", 123_456),
        ("2026-01-01", 0),
    ],
)
def test_moment_of(text: str, micros: int) -> None:
    moment = moment_of(text)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    assert aware - datetime(2026, 1, 1, tzinfo=timezone.utc) == timedelta(microseconds=micros)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-01 00:00:00.5.5", "2026-13-01 00:00:00.5"])
def test_moment_of_bad_text(text: str) -> None:
    with pytest.raises(ValueError):
        moment_of(text)


@some
@given(st.integers(POINT_MIN, POINT_MAX))
def test_integer_point(point: int) -> None:
    assert point_of(point, BIGINT) == point
    assert point_text(point, BIGINT) == str(point)
    assert point_text(point, TIMESTAMP)


def test_other_zones_and_before_the_epoch() -> None:
    there = timezone(timedelta(hours=2))
    assert point_of(datetime(1970, 1, 1, 2, tzinfo=there), TIMESTAMP) == 0
    assert point_of(datetime(1969, 12, 31, 23, 59, 59, 999_999), TIMESTAMP) == -1
    assert point_text(-1, TIMESTAMP) == "1969-12-31 23:59:59.999999"
    assert point_text(0, NTZ) == "1970-01-01 00:00:00"


def test_time_on_integer_attribute() -> None:
    with pytest.raises(ValueError, match="integer, not a time"):
        point_of(datetime(2026, 1, 1), BIGINT)


def test_points_beyond_the_calendar() -> None:
    assert point_text(POINT_MAX, TIMESTAMP) == "294247-01-10 04:00:54.775807"
