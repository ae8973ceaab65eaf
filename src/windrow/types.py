"""Column types: Spark SQL's names, their Arrow types, and points of window attributes.

A point of a window attribute is always an int64: microseconds since the epoch (UTC) for TIMESTAMP and TIMESTAMP_NTZ,
the value itself for integer columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
POINT_MIN, POINT_MAX = -(1 << 63), (1 << 63) - 1
UNITS_US: dict[str, int] = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
"""Units of time, ascending, in microseconds."""

_INTEGERS = {"TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64()}
_SIMPLE: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    **_INTEGERS,
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(-?\d+)\)")


_ARRAY, _STRUCT = "ARRAY<", "STRUCT<"


@dataclass(frozen=True)
class SqlType:
    """A Spark SQL type in its canonical spelling: a scalar, or an ARRAY or STRUCT that an aggregate returns."""

    name: str

    def __post_init__(self) -> None:
        if self.is_nested:
            _ = self.arrow  # raises ValueError if a part of the name is not a type
        elif self.name not in _SIMPLE and not _DECIMAL.fullmatch(self.name) and self.name != "VOID":
            raise ValueError(f"not a column type: {self.name}")

    @property
    def is_nested(self) -> bool:
        return self.name.startswith((_ARRAY, _STRUCT)) and self.name.endswith(">")

    @property
    def element(self) -> SqlType:
        """The type of an ARRAY's elements."""
        if not self.name.startswith(_ARRAY):
            raise ValueError(f"{self.name} is not an ARRAY")
        return SqlType(self.name[len(_ARRAY) : -1])

    @property
    def fields(self) -> tuple[tuple[str, SqlType], ...]:
        """The names and types of a STRUCT's fields."""
        if not self.name.startswith(_STRUCT):
            raise ValueError(f"{self.name} is not a STRUCT")
        parts = (part.partition(": ") for part in _outermost(self.name[len(_STRUCT) : -1]))
        return tuple((name, SqlType(kind)) for name, _, kind in parts)

    @property
    def arrow(self) -> pa.DataType:
        if self.name.startswith(_ARRAY):
            return pa.list_(self.element.arrow)
        if self.name.startswith(_STRUCT):
            return pa.struct([pa.field(name, kind.arrow) for name, kind in self.fields])
        if self.name == "VOID":
            return pa.null()
        simple = _SIMPLE.get(self.name)
        return simple if simple is not None else pa.decimal128(*self.decimal)

    @property
    def decimal(self) -> tuple[int, int]:
        """Precision and scale of a DECIMAL."""
        match = _DECIMAL.fullmatch(self.name)
        if match is None:
            raise ValueError(f"{self.name} is not a DECIMAL")
        return int(match[1]), int(match[2])

    @property
    def is_decimal(self) -> bool:
        return self.name.startswith("DECIMAL")

    @property
    def is_integer(self) -> bool:
        return self.name in _INTEGERS

    @property
    def is_float(self) -> bool:
        return self.name in ("FLOAT", "DOUBLE")

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_float or self.is_decimal

    @property
    def is_timestamp(self) -> bool:
        return self.name in ("TIMESTAMP", "TIMESTAMP_NTZ")

    @property
    def bound(self) -> SqlType:
        """The type of a window's start and end. For integers it is BIGINT: an extent may exceed the column's range."""
        return self if self.is_timestamp else SqlType("BIGINT")

    @property
    def is_window_attribute(self) -> bool:
        return self.is_integer or self.is_timestamp

    def __str__(self) -> str:
        return self.name


def decimal_type(precision: int, scale: int) -> SqlType:
    return SqlType(f"DECIMAL({precision},{scale})")


def scalar_type(name: str) -> SqlType:
    """The scalar type of this name; raises ValueError for an ARRAY or a STRUCT."""
    kind = SqlType(name)
    if kind.is_nested:
        raise ValueError(f"not a scalar type: {name}")
    return kind


def array_type(element: SqlType) -> SqlType:
    return SqlType(f"{_ARRAY}{element}>")


def struct_type(**fields: SqlType) -> SqlType:
    return SqlType(f"{_STRUCT}{', '.join(f'{name}: {kind}' for name, kind in fields.items())}>")


def _outermost(text: str) -> list[str]:
    """Split the text at the commas outside brackets: the fields of a STRUCT."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def point_text(point: int, attribute: SqlType) -> str:
    """Display text of a point: a UTC time, or the integer."""
    if not attribute.is_timestamp:
        return str(point)
    try:
        moment = EPOCH + timedelta(microseconds=point)
    except OverflowError:
        return _moment_text(np.datetime64(point, "us"))
    return moment.isoformat(sep=" ").replace("+00:00", "")


def value_of(point: int, attribute: SqlType) -> datetime | int:
    """A point as a datetime (aware for TIMESTAMP); the integer itself if datetime cannot hold it."""
    if not attribute.is_timestamp:
        return point
    try:
        moment = EPOCH + timedelta(microseconds=point)
    except OverflowError:
        return point
    return moment if attribute.name == "TIMESTAMP" else moment.replace(tzinfo=None)


def time_of(point: int, attribute: SqlType) -> datetime | np.datetime64 | int:
    """A point for display: a datetime, a NumPy datetime64 (UTC) if datetime cannot hold it, or the integer."""
    value = value_of(point, attribute)
    return np.datetime64(point, "us") if attribute.is_timestamp and isinstance(value, int) else value


def _moment_text(moment: np.datetime64) -> str:
    """A time as datetime prints it: without a fraction of zero."""
    return str(moment).replace("T", " ").removesuffix(".000000")


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as dicts; a time that datetime cannot hold (before year 1, after 9999) is a NumPy datetime64, in UTC."""
    columns = {name: column_values(table.column(name)) for name in table.column_names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def column_values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column, as `rows_of` has them."""
    if not pa.types.is_timestamp(column.type):
        return _listed(column)
    kind = SqlType("TIMESTAMP" if column.type.tz else "TIMESTAMP_NTZ")
    points = column.cast(kind.arrow).cast(pa.int64()).to_pylist()
    return [None if p is None else time_of(p, kind) for p in points]


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _listed(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):  # a nested time that datetime cannot hold: show all times as microseconds
        return list(column.cast(_with_points(column.type)).to_pylist())


def _with_points(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_with_points(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _with_points(part.type)) for part in kind])
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def number_text(number: float) -> str:
    """A measured number as people write it: three digits, and no exponent."""
    if number == 0 or abs(number) >= 100:
        return f"{number:,.0f}"
    if abs(number) < 0.001:
        return "less than 0.001"
    return f"{number:.3g}"


def value_text(value: object) -> str:
    """Display text of a value: times are UTC without a zone, arrays and structs show their parts."""
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {value_text(part)}' for name, part in value.items())}}}"
    if isinstance(value, np.datetime64):
        return _moment_text(value)
    return str(value).removesuffix("+00:00") if isinstance(value, datetime) else str(value)


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """The text without control characters, which a terminal would obey: each is shown as its escape."""
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


_FRACTION = re.compile(r"(?<=\.)\d+")


def moment_of(text: str) -> datetime:
    """Parse ISO text. Python before 3.11 accepts neither Z nor a fraction of other than three or six digits."""
    text = text.replace("Z", "+00:00")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.fromisoformat(_FRACTION.sub(lambda match: match[0][:6].ljust(6, "0"), text, count=1))


def day_of(value: Any) -> date | None:
    """A date given as one, as ISO text, or as a datetime at midnight; raises ValueError for anything else."""
    if isinstance(value, str):
        return date.fromisoformat(value)
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime):
        if value != value:  # pandas' NaT
            return None
        if value.time() != time():
            raise ValueError("it has a time of day")
        return value.date()
    if value is None or isinstance(value, date):
        return value
    raise ValueError("not a date")


def point_of(value: datetime | int, attribute: SqlType) -> int:
    """The point of a Python value; a naive datetime is taken as UTC."""
    if isinstance(value, datetime):
        if not attribute.is_timestamp:
            raise ValueError("the window attribute is an integer, not a time")
        aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return (aware - EPOCH) // timedelta(microseconds=1)
    return int(value)
