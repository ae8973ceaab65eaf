"""Functions over aggregates as DuckDB SQL with Spark's results (ANSI off).

Each function takes translated arguments and returns a `Final`, or None if it cannot be exact for their types.
tests/unit/cql/test_final_functions.py compares each with Spark.
"""

from __future__ import annotations

from collections.abc import Callable

from windrow.cql.final.casts import cast_sql, double_sql, saturate, wide, wrap
from windrow.cql.final.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    MAX_PRECISION,
    STRING,
    VOID,
    Final,
    common_type,
    duckdb_type,
)
from windrow.types import UNITS_US, SqlType, decimal_type

Arguments = list[Final]
Function = Callable[[Arguments], Final | None]

_MAX_ROUND_DIGITS = 15
_EXACT_INTEGERS = 2**53
_DIFFERENCE_UNITS_US = {unit: size_us for unit, size_us in UNITS_US.items() if unit != "WEEK"}


def cast_all(values: Arguments, type_: SqlType) -> list[str] | None:
    """The SQL of all values cast to one type; None if a cast cannot be exact."""
    casts = [cast_sql(value, type_) for value in values]
    return [sql for sql in casts if sql is not None] if None not in casts else None


def _unified(form: str) -> Function:
    """A function whose arguments and result have one common type; {0} in `form` is the list of arguments."""

    def build(args: Arguments) -> Final | None:
        type_ = common_type(args)
        casts = cast_all(args, type_) if type_ is not None else None
        if type_ is None or casts is None or type_.name == "BINARY":
            return None
        return Final(form.format(", ".join(casts)), type_)

    return build


def _real(form: str) -> Function:
    """A function of one number; {0} in `form` is the number as a DOUBLE."""

    def build(args: Arguments) -> Final | None:
        if len(args) != 1 or not args[0].type.is_numeric:
            return None
        return Final(form.format(double_sql(args[0])), DOUBLE)

    return build


def _absolute(args: Arguments) -> Final | None:
    (value,) = args if len(args) == 1 else (None,)
    if value is None or not value.type.is_numeric:
        return None
    if value.type.is_integer:
        return Final(wrap(f"abs({wide(value.sql, value.type)})", value.type), value.type)
    return Final(f"abs({value.sql})", value.type)


def _whole(function: str) -> Function:
    """FLOOR or CEIL: a BIGINT, or a DECIMAL without a fraction."""

    def build(args: Arguments) -> Final | None:
        if len(args) != 1 or not args[0].type.is_numeric:
            return None
        (value,) = args
        if value.type.is_integer:
            return Final(f"CAST({value.sql} AS BIGINT)", BIGINT)
        if value.type.is_float:
            return Final(saturate(f"{function}({double_sql(value)})", BIGINT), BIGINT)
        precision, scale = value.type.decimal
        type_ = decimal_type(min(precision - scale + 1, MAX_PRECISION), 0)
        return Final(f"CAST({function}({value.sql}) AS {type_})", type_)

    return build


def _round(args: Arguments) -> Final | None:
    """Round half away from zero, on the decimal digits with which a DOUBLE is printed, like Spark."""
    digits = _literal_int(args[1]) if len(args) == 2 else 0
    if len(args) not in (1, 2) or digits is None or not 0 <= digits <= _MAX_ROUND_DIGITS:
        return None
    value = args[0]
    if value.type.is_integer:
        return Final(value.sql, value.type)
    if value.type.is_decimal:
        precision, scale = value.type.decimal
        kept = min(scale, digits)
        type_ = decimal_type(min(precision - scale + 1 + kept, MAX_PRECISION), kept)
        return Final(f"CAST(round({value.sql}, {kept}) AS {type_})", type_)
    if value.type != DOUBLE:
        return None
    exact = f"CAST(CAST(CAST(CAST({value.sql} AS VARCHAR) AS DECIMAL(38,{digits})) AS VARCHAR) AS DOUBLE)"
    large = f"abs({value.sql}) >= {_EXACT_INTEGERS} OR isnan({value.sql})"
    return Final(f"CASE WHEN {large} THEN {value.sql} ELSE {exact} END", DOUBLE)


def _literal_int(value: Final) -> int | None:
    return int(value.literal) if value.literal is not None else None


def _logarithm(args: Arguments) -> Final | None:
    if len(args) == 1:
        return _LN(args)
    if len(args) != 2 or not all(value.type.is_numeric for value in args):
        return None
    base, value = (f"ln({_POSITIVE.format(double_sql(arg))})" for arg in args)
    return Final(f"({value} / {base})", DOUBLE)


def _power(args: Arguments) -> Final | None:
    """Java's pow returns NaN where C's returns 1: if the exponent is NaN, and for ±1 with an infinite exponent."""
    if len(args) != 2 or not all(value.type.is_numeric for value in args):
        return None
    base, exponent = (double_sql(value) for value in args)
    nan = f"isnan({exponent}) OR (abs({base}) = 1 AND isinf({exponent}))"
    return Final(f"CASE WHEN {nan} THEN {base} * CAST('NaN' AS DOUBLE) ELSE pow({base}, {exponent}) END", DOUBLE)


def _nullif(args: Arguments) -> Final | None:
    type_ = common_type(args, comparing=True) if len(args) == 2 else None
    casts = cast_all(args, type_) if type_ is not None and type_ != VOID else None
    if casts is None or args[0].type == VOID:
        return None
    return Final(f"CASE WHEN {casts[0]} = {casts[1]} THEN NULL ELSE {args[0].sql} END", args[0].type)


def conditional(condition: Final, then: Final, otherwise: Final) -> Final | None:
    type_ = common_type([then, otherwise])
    casts = cast_all([then, otherwise], type_) if type_ is not None else None
    if type_ is None or casts is None or condition.type not in (BOOLEAN, VOID):
        return None
    return Final(f"CASE WHEN {condition.sql} THEN {casts[0]} ELSE {casts[1]} END", type_)


def _nvl2(args: Arguments) -> Final | None:
    if len(args) != 3:
        return None
    return conditional(Final(f"({args[0].sql} IS NOT NULL)", BOOLEAN), args[1], args[2])


def _null_test(form: str) -> Function:
    return lambda args: Final(form.format(args[0].sql), BOOLEAN) if len(args) == 1 else None


def _is_nan(args: Arguments) -> Final | None:
    if len(args) != 1 or not args[0].type.is_float:
        return None
    return Final(f"coalesce(isnan({args[0].sql}), FALSE)", BOOLEAN)


def _nanvl(args: Arguments) -> Final | None:
    if len(args) != 2 or any(value.type != DOUBLE for value in args):
        return None
    return Final(f"CASE WHEN isnan({args[0].sql}) THEN {args[1].sql} ELSE {args[0].sql} END", DOUBLE)


def _zero(args: Arguments) -> Final | None:
    zero = Final("CAST(0 AS INTEGER)", INT)
    return FUNCTIONS["COALESCE"]([args[0], zero]) if len(args) == 1 and args[0].type.is_numeric else None


def _null_zero(args: Arguments) -> Final | None:
    if len(args) != 1 or not args[0].type.is_numeric:
        return None
    return Final(f"nullif({args[0].sql}, CAST(0 AS {duckdb_type(args[0].type)}))", args[0].type)


def concatenation(args: Arguments) -> Final | None:
    casts = cast_all(args, STRING)
    if not casts or any(value.type == VOID for value in args):
        return None
    return Final("(" + " || ".join(casts) + ")", STRING)


def _length(args: Arguments) -> Final | None:
    if len(args) != 1 or args[0].type != STRING:
        return None
    return Final(f"CAST(length({args[0].sql}) AS INTEGER)", INT)


def _octet_length(args: Arguments) -> Final | None:
    casts = cast_all(args, STRING) if len(args) == 1 else None
    return Final(f"CAST(strlen({casts[0]}) AS INTEGER)", INT) if casts else None


def _substring(args: Arguments) -> Final | None:
    """SUBSTRING with literal, non-negative numbers; position 0 is 1."""
    numbers = [_literal_int(value) for value in args[1:]]
    if len(args) not in (2, 3) or args[0].type != STRING or any(n is None or not 0 <= n < 2**31 for n in numbers):
        return None
    start = max(numbers[0] or 0, 1)
    length = f", {numbers[1]}" if len(numbers) == 2 else ""
    return Final(f"substring({args[0].sql}, {start}{length})", STRING)


def _end(function: str) -> Function:
    def build(args: Arguments) -> Final | None:
        count = _literal_int(args[1]) if len(args) == 2 else None
        if count is None or not 0 <= count < 2**31 or args[0].type != STRING:
            return None
        return Final(f"{function}({args[0].sql}, {count})", STRING)

    return build


def _replace(args: Arguments) -> Final | None:
    if len(args) not in (2, 3) or any(value.type != STRING for value in args):
        return None
    new = args[2].sql if len(args) == 3 else "''"
    return Final(f"replace({args[0].sql}, {args[1].sql}, {new})", STRING)


def _text_test(function: str) -> Function:
    """A condition on two texts."""

    def build(args: Arguments) -> Final | None:
        if len(args) != 2 or any(value.type != STRING for value in args):
            return None
        return Final(f"{function}({args[0].sql}, {args[1].sql})", BOOLEAN)

    return build


def _day_difference(args: Arguments) -> Final | None:
    """Days from the second date to the first; the day of a timestamp is that in UTC."""
    if len(args) != 2 or not all(value.type == DATE or value.type.name == "TIMESTAMP" for value in args):
        return None
    end, start = (f"CAST({value.sql} AS DATE)" for value in args)
    return Final(f"CAST({end} - {start} AS INTEGER)", INT)


def _date_part(part: str, *, of_date: bool) -> Function:
    def build(args: Arguments) -> Final | None:
        if len(args) != 1 or not (args[0].type.is_timestamp or (of_date and args[0].type == DATE)):
            return None
        return Final(f"CAST(date_part('{part}', {args[0].sql}) AS INTEGER)", INT)

    return build


def _unix(size_us: int) -> Function:
    """Whole units since the epoch, rounded down, also before the epoch."""

    def build(args: Arguments) -> Final | None:
        if len(args) != 1 or args[0].type.name != "TIMESTAMP":
            return None
        us = f"epoch_us({args[0].sql})"
        if size_us == 1:
            return Final(us, BIGINT)
        return Final(
            f"CASE WHEN {us} >= 0 THEN {us} // {size_us} ELSE -((-{us} + {size_us - 1}) // {size_us}) END",
            BIGINT,
        )

    return build


def timestamp_difference(unit: str, start: Final, end: Final) -> Final | None:
    """Whole units from start to end, rounded towards zero."""
    size_us = _DIFFERENCE_UNITS_US.get(unit.upper())
    if size_us is None or not (start.type.is_timestamp and end.type.is_timestamp):
        return None
    return Final(f"((epoch_us({end.sql}) - epoch_us({start.sql})) // {size_us})", BIGINT)


_POSITIVE = "CASE WHEN {0} > 0 THEN {0} END"
_LN = _real(f"ln({_POSITIVE})")

FUNCTIONS: dict[str, Function] = {
    "OCTET_LENGTH": _octet_length,
    "ABS": _absolute,
    "CEIL": _whole("ceil"),
    "FLOOR": _whole("floor"),
    "ROUND": _round,
    "SQRT": _real("CASE WHEN {0} < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt({0}) END"),
    "EXP": _real("exp({0})"),
    "LN": _LN,
    "LOG": _logarithm,
    "LOG2": _real(f"log2({_POSITIVE})"),
    "LOG10": _real(f"log10({_POSITIVE})"),
    "POWER": _power,
    "SIGN": _real("CASE WHEN isnan({0}) THEN {0} ELSE CAST(sign({0}) AS DOUBLE) END"),
    "COALESCE": _unified("coalesce({})"),
    "GREATEST": _unified("greatest({})"),
    "LEAST": _unified("least({})"),
    "NULLIF": _nullif,
    "NVL2": _nvl2,
    "ISNULL": _null_test("({} IS NULL)"),
    "ISNOTNULL": _null_test("({} IS NOT NULL)"),
    "ISNAN": _is_nan,
    "NANVL": _nanvl,
    "NULLIFZERO": _null_zero,
    "ZEROIFNULL": _zero,
    "CONCAT": concatenation,
    "LENGTH": _length,
    "SUBSTRING": _substring,
    "LEFT": _end("left"),
    "RIGHT": _end("right"),
    "REPLACE": _replace,
    "CONTAINS": _text_test("contains"),
    "STARTSWITH": _text_test("starts_with"),
    "ENDSWITH": _text_test("ends_with"),
    "DATEDIFF": _day_difference,
    "YEAR": _date_part("year", of_date=True),
    "MONTH": _date_part("month", of_date=True),
    "DAY": _date_part("day", of_date=True),
    "DAYOFMONTH": _date_part("day", of_date=True),
    "HOUR": _date_part("hour", of_date=False),
    "MINUTE": _date_part("minute", of_date=False),
    "SECOND": _date_part("second", of_date=False),
    "UNIX_MICROS": _unix(1),
    "UNIX_MILLIS": _unix(1_000),
    "UNIX_SECONDS": _unix(1_000_000),
}
"""Functions by Spark's name. `sql.py` translates IF, CAST, DIV and MOD as operators, and TIMESTAMPDIFF by its unit."""
