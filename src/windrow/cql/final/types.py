"""Spark SQL's types for expressions that the driver computes: literals and common types.

Where Spark would mix a string with another type, or lose digits of a DECIMAL, there is no common type here, so that the
expression is refused: its result might differ from Spark's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from windrow.types import SqlType, decimal_type

BOOLEAN, INT, BIGINT = SqlType("BOOLEAN"), SqlType("INT"), SqlType("BIGINT")
FLOAT, DOUBLE, STRING = SqlType("FLOAT"), SqlType("DOUBLE"), SqlType("STRING")
DATE, TIMESTAMP, VOID = SqlType("DATE"), SqlType("TIMESTAMP"), SqlType("VOID")

MAX_PRECISION = 38
INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}
_INTEGERS = tuple(INTEGER_BITS)
_MAX_FLOAT, _MAX_DOUBLE = Decimal("3.4028234663852886e38"), Decimal("1.7976931348623157e308")
_SUFFIXES = {"L": "BIGINT", "S": "SMALLINT", "Y": "TINYINT"}
_NUMBER = re.compile(r"(-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)", re.ASCII)
_DUCKDB_NAMES = {
    "INT": "INTEGER",
    "STRING": "VARCHAR",
    "BINARY": "BLOB",
    "TIMESTAMP_NTZ": "TIMESTAMP",
    "VOID": "INTEGER",
}


@dataclass(frozen=True)
class Final:
    """The DuckDB SQL of an expression, and its type in Spark.

    `literal` is the value of an integer literal: as a DECIMAL, Spark gives it only its own digits.
    """

    sql: str
    type: SqlType
    literal: Decimal | None = None


def duckdb_type(type_: SqlType) -> str:
    return _DUCKDB_NAMES.get(type_.name, type_.name)


def number_literal(text: str) -> Final | None:
    """A number literal with Spark's type: by its suffix, or else INT, BIGINT or DECIMAL by its size, or DOUBLE."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    digits, suffix = match.group(1), match.group(2).upper()
    if suffix in _SUFFIXES:
        return _integer_literal(digits, SqlType(_SUFFIXES[suffix]))
    if suffix in ("F", "D") or ("e" in digits.lower() and suffix != "BD"):
        type_ = FLOAT if suffix == "F" else DOUBLE
        if abs(Decimal(digits)) > (_MAX_FLOAT if type_ == FLOAT else _MAX_DOUBLE):
            return None
        return Final(f"CAST('{digits}' AS {type_})", type_)
    if digits.lstrip("-").isdigit() and suffix != "BD":
        small = -(2**31) <= int(digits) < 2**31
        integer = _integer_literal(digits, INT if small else BIGINT)
        if integer is not None:
            return integer
    return _decimal_literal(Decimal(digits))


def _integer_literal(digits: str, type_: SqlType) -> Final | None:
    half = 1 << (INTEGER_BITS[type_.name] - 1)
    if not digits.lstrip("-").isdigit() or not -half <= int(digits) < half:
        return None
    return Final(f"CAST({int(digits)} AS {duckdb_type(type_)})", type_, Decimal(digits))


def _decimal_literal(value: Decimal) -> Final | None:
    _, digits, exponent = value.as_tuple()
    scale = -int(exponent)
    precision = max(len(digits), scale, 1)
    if precision > MAX_PRECISION or scale < 0:
        return None
    type_ = decimal_type(precision, scale)
    return Final(f"CAST('{value:f}' AS {type_})", type_)


def as_decimal(value: Final) -> tuple[int, int]:
    """Precision and scale of a DECIMAL or integer operand; a literal has the precision of its digits."""
    if value.type.is_decimal:
        return value.type.decimal
    if value.literal is not None:
        return max(len(value.literal.as_tuple().digits), 1), 0
    return _INTEGER_DIGITS[value.type.name], 0


def common_type(values: Iterable[Final], *, comparing: bool = False) -> SqlType | None:
    """The common type of the values in Spark; None if no type keeps every value.

    `comparing`: in arithmetic and comparisons an integer literal beside a DECIMAL has only its own digits.
    """
    widest: Final | None = None
    for value in values:
        widest = value if widest is None else _wider(widest, value, comparing)
        if widest is None:
            return None
    return widest.type if widest is not None else None


def _wider(one: Final, other: Final, comparing: bool) -> Final | None:
    first, second = one.type, other.type
    if first == second or second == VOID:
        return one if first == second and one.literal is None else Final("", first)
    if first == VOID:
        return Final("", second)
    if first.is_integer and second.is_integer:
        return Final("", max(first, second, key=lambda type_: _INTEGERS.index(type_.name)))
    if first.is_numeric and second.is_numeric:
        if first.is_float or second.is_float:
            double = DOUBLE in (first, second) or first.is_decimal or second.is_decimal
            return Final("", DOUBLE if double else FLOAT)
        return _wider_decimal(one, other, comparing)
    times = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}
    if first.name in times and second.name in times:
        return Final("", TIMESTAMP)
    return None


def _wider_decimal(one: Final, other: Final, comparing: bool) -> Final | None:
    if not comparing:
        one, other = Final("", one.type), Final("", other.type)
    (precision1, scale1), (precision2, scale2) = as_decimal(one), as_decimal(other)
    scale = max(scale1, scale2)
    precision = max(precision1 - scale1, precision2 - scale2) + scale
    return Final("", decimal_type(precision, scale)) if precision <= MAX_PRECISION else None
