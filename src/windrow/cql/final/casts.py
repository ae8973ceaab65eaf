"""Casts as DuckDB SQL with Spark's results (ANSI off): values out of range wrap, saturate or become NULL."""

from __future__ import annotations

from windrow.cql.final.types import INTEGER_BITS, Final, duckdb_type
from windrow.types import SqlType

_MAX_EXACT_DIGITS = 15
_MAX_PLAIN_SCALE = 6


def wrap(sql: str, type_: SqlType) -> str:
    """An integer of a wider type, cut to the bits of `type_` like in Java."""
    bits = INTEGER_BITS[type_.name]
    wide = "HUGEINT" if bits == 64 else "BIGINT"
    half, mask = 1 << (bits - 1), (1 << bits) - 1
    low_bits = f"CAST({sql} AS {wide}) & CAST({mask} AS {wide})"
    return f"CAST(xor({low_bits}, CAST({half} AS {wide})) - CAST({half} AS {wide}) AS {duckdb_type(type_)})"


def wide(sql: str, type_: SqlType) -> str:
    """An integer operand cast to a type in which one operation cannot overflow."""
    return f"CAST({sql} AS {'HUGEINT' if type_.name == 'BIGINT' else 'BIGINT'})"


def cast_sql(value: Final, target: SqlType) -> str | None:
    """The DuckDB SQL of Spark's CAST(value AS target); None if the results would differ."""
    source = value.type
    plain = f"CAST({value.sql} AS {duckdb_type(target)})"
    if source == target:
        return value.sql
    if source.name == "VOID":
        return f"CAST(NULL AS {duckdb_type(target)})"
    if source.is_timestamp and target.is_timestamp:
        return value.sql
    if target.is_timestamp and source.name == "DATE":
        return plain
    if target.name == "DATE" and source.is_timestamp:
        return plain
    if target.name == "STRING":
        return _to_string(value)
    if source.name == "STRING":
        return _from_string(value, target)
    if target.name == "BOOLEAN" and source.is_numeric:
        return f"({value.sql} <> 0)"
    if source.name == "BOOLEAN" and (target.is_integer or target.is_float):
        return plain
    if source.is_numeric and target.is_numeric:
        return _number(value, target)
    return None


def _number(value: Final, target: SqlType) -> str | None:
    source = value.type
    if target.is_integer:
        return _to_integer(value, target)
    plain = f"CAST({value.sql} AS {duckdb_type(target)})"
    if target.is_float:
        if source.is_decimal and source.decimal[0] > _MAX_EXACT_DIGITS:
            return f"CAST(CAST({value.sql} AS VARCHAR) AS {duckdb_type(target)})"
        # For a double that a float cannot hold, DuckDB fails and Java returns an infinity.
        if target.name == "FLOAT" and source.name == "DOUBLE":
            return None
        return plain
    if source.is_float:
        return f"TRY_CAST(CAST({value.sql} AS VARCHAR) AS {target})" if source.name == "DOUBLE" else None
    return f"TRY_CAST({value.sql} AS {target})"


def _to_integer(value: Final, target: SqlType) -> str | None:
    source, sql = value.type, value.sql
    if source.is_integer:
        if INTEGER_BITS[source.name] <= INTEGER_BITS[target.name]:
            return f"CAST({sql} AS {duckdb_type(target)})"
        return wrap(sql, target)
    if source.is_float:
        return saturate(f"trunc({double_sql(value)})", target) if target.name in ("INT", "BIGINT") else None
    precision, scale = source.decimal
    if target.name != "BIGINT" or precision - scale > 18:
        return None
    return f"CAST(trunc({sql}) AS BIGINT)"


def saturate(sql: str, target: SqlType) -> str:
    """A whole DOUBLE as an integer, like in Java: NaN becomes 0, values out of range the least or greatest integer."""
    bits = INTEGER_BITS[target.name]
    low, high, name = -(1 << (bits - 1)), (1 << (bits - 1)) - 1, duckdb_type(target)
    return (
        f"CASE WHEN isnan({sql}) THEN CAST(0 AS {name}) "
        f"WHEN {sql} >= CAST({high} AS DOUBLE) THEN CAST({high} AS {name}) "
        f"WHEN {sql} <= CAST({low} AS DOUBLE) THEN CAST({low} AS {name}) ELSE CAST({sql} AS {name}) END"
    )


def double_sql(value: Final) -> str:
    """The SQL of a numeric value as DOUBLE."""
    if value.type.name == "DOUBLE":
        return value.sql
    if value.type.is_decimal and value.type.decimal[0] > _MAX_EXACT_DIGITS:
        return f"CAST(CAST({value.sql} AS VARCHAR) AS DOUBLE)"
    return f"CAST({value.sql} AS DOUBLE)"


def _to_string(value: Final) -> str | None:
    source = value.type
    if source.is_integer or source.name in ("BOOLEAN", "DATE"):
        return f"CAST({value.sql} AS VARCHAR)"
    if source.is_decimal and source.decimal[1] <= _MAX_PLAIN_SCALE:
        return f"CAST({value.sql} AS VARCHAR)"
    return None


def _from_string(value: Final, target: SqlType) -> str | None:
    """A string as an integer, like Spark: blanks, control characters and a fraction are dropped, bad text is NULL."""
    if target.name not in ("INT", "BIGINT"):
        return None
    name = duckdb_type(target)
    text = rf"regexp_replace({value.sql}, '^[\x00-\x20\x7F]+|[\x00-\x20\x7F]+$', '', 'g')"
    digits = rf"regexp_extract({text}, '^([+-]?[0-9]+)(\.[0-9]*)?$', 1)"
    only_fraction = rf"regexp_full_match({text}, '[+-]?\.[0-9]*')"
    return f"CASE WHEN {only_fraction} THEN CAST(0 AS {name}) ELSE TRY_CAST({digits} AS {name}) END"
