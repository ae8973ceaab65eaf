"""Which Python values fit a column type, and when two answers are equal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import numpy as np

from windrow.types import SqlType

RELATIVE = 1e-9

_WIDE = Context(prec=76)
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


class Misfit(ValueError):
    """The value does not fit the column's type."""


def fit(value: Any, kind: SqlType) -> Any:
    """`value` as a value of the column's type, without parsing, rounding or wrapping. Raises Misfit."""
    if value is None:
        return None
    if kind.is_integer:
        return _integer(value, _BITS[kind.name])
    if kind.is_float:
        return _float(value, kind.name)
    if kind.is_decimal:
        return _decimal(value, *kind.decimal)
    if kind.is_timestamp:
        return _timestamp(value, kind.name)
    plain: dict[str, type] = {"BOOLEAN": bool, "STRING": str, "BINARY": bytes, "DATE": date}
    wanted = plain.get(kind.name)
    if wanted is None or not isinstance(value, wanted) or isinstance(value, datetime):
        raise Misfit(f"{value!r} is not a {kind}")
    return value


def _integer(value: Any, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise Misfit(f"{value!r} is not an integer")
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise Misfit(f"{value!r} does not fit {bits} bits")
    return int(value)


def _float(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise Misfit(f"{value!r} is not a number")
    return float(np.float32(value)) if name == "FLOAT" else float(value)


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise Misfit(f"{value!r} is not a decimal")
    exact = Decimal(value)
    try:
        scaled = exact.quantize(Decimal(1).scaleb(-scale), context=_WIDE)
    except InvalidOperation:
        raise Misfit(f"{value!r} is not a DECIMAL({precision},{scale})") from None
    if scaled != exact or len(scaled.as_tuple().digits) > precision:
        raise Misfit(f"{value!r} is not a DECIMAL({precision},{scale})")
    return scaled


def _timestamp(value: Any, name: str) -> datetime:
    if not isinstance(value, datetime):
        raise Misfit(f"{value!r} is not a timestamp")
    aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    utc = aware.astimezone(timezone.utc)
    return utc if name == "TIMESTAMP" else utc.replace(tzinfo=None)


def equal_values(a: Any, b: Any, relative: float = RELATIVE) -> bool:
    """Exact equality, except that doubles are compared to 1e-9 relative, NaN = NaN, −0.0 = 0.0, and a naive datetime is
    UTC.

    An integer never equals a double, and a DECIMAL equals neither: the type is part of an answer.
    """
    if a is None or b is None:
        return a is None and b is None
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and equal_rows(list(a.values()), list(b.values()), relative)
    if _is_row(a) and _is_row(b):
        return equal_rows(a, b, relative)
    if isinstance(a, float) or isinstance(b, float):
        return isinstance(a, float) and isinstance(b, float) and _equal_floats(a, b, relative)
    if isinstance(a, bool) is not isinstance(b, bool) or isinstance(a, Decimal) is not isinstance(b, Decimal):
        return False
    if isinstance(a, datetime) and isinstance(b, datetime):
        return _utc(a) == _utc(b)
    return bool(a == b)


def _equal_floats(a: float, b: float, relative: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    if math.isinf(a) or math.isinf(b):
        return a == b
    return abs(a - b) <= relative * max(abs(a), abs(b))


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment


def equal_rows(a: Sequence[Any], b: Sequence[Any], relative: float = RELATIVE) -> bool:
    """Whether two rows, or two lists of rows, are equal. The order of rows counts (see `sort_key`)."""
    if len(a) != len(b):
        return False
    return all(equal_values(x, y, relative) for x, y in zip(a, b, strict=True))


def _is_row(value: Any) -> bool:
    return isinstance(value, tuple | list)


def sort_key(row: Sequence[Any]) -> tuple[tuple[int, Any], ...]:
    """A sort key of rows that ignores the last digits of doubles: NULL first, then values, NaN last."""
    return tuple(_value_key(value) for value in row)


def _value_key(value: Any) -> tuple[int, Any]:
    if value is None:
        return (0, 0)
    if isinstance(value, float):
        return (2, 0) if math.isnan(value) else (1, float(f"{value:.7g}") + 0.0)
    if isinstance(value, datetime):
        return (1, _utc(value))
    if isinstance(value, dict):
        return (1, sort_key(list(value.values())))
    if _is_row(value):
        return (1, sort_key(value))
    return (1, value)
