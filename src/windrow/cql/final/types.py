"""Spark SQL's typing of the expressions that are finished in the driver: literals, and common types.

Where Spark would mix a string with another type, or lose digits of a DECIMAL, there is no common type here:
such an expression is refused rather than evaluated a little differently.
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
    """An expression as DuckDB SQL, with the type that Spark gives it.

    `literal` is the value of a number that is written out: Spark gives it fewer digits as a DECIMAL.
    """

    sql: str
    type: SqlType
    literal: Decimal | None = None


def duckdb_type(type_: SqlType) -> str:
    return _DUCKDB_NAMES.get(type_.name, type_.name)


def number_literal(text: str) -> Final | None:
    """A number as Spark reads it: by its suffix, else INT, BIGINT or DECIMAL by its size, or DOUBLE."""
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
    """Precision and scale of a DECIMAL or integer operand; of a literal as many digits as it has."""
    if value.type.is_decimal:
        return value.type.decimal
    if value.literal is not None:
        return max(len(value.literal.as_tuple().digits), 1), 0
    return _INTEGER_DIGITS[value.type.name], 0


def common_type(values: Iterable[Final], *, comparing: bool = False) -> SqlType | None:
    """The type that Spark brings the values to; None where there is none that keeps every value.

    `comparing`: in arithmetic and comparisons a literal integer beside a DECIMAL has only its own digits.
    """
    found: Final | None = None
    for value in values:
        found = value if found is None else _wider(found, value, comparing)
        if found is None:
            return None
    return found.type if found is not None else None


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
