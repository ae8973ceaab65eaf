"""Converts rows passed to `feed` (dicts, tuples, pandas, Arrow) to one table of a stream's schema.

A value means the same in every form. Where Arrow would read it differently (integers as microseconds, true as 1, 1.005
rounded), it is read as in a list of Python values. A record that does not fit is kept as text in `__bad`.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.dataplane.ingest.admission import BAD
from windrow.errors import FeedError, TableError
from windrow.types import SqlType, day_of, moment_of, point_of

Column: TypeAlias = Any
"""A list of Python values, or an Arrow ChunkedArray."""

_MISFIT = (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError, OverflowError, ArithmeticError)
_EXACT = Context(prec=76, traps=[Inexact, InvalidOperation])


class Columned(Protocol):
    """What rows are given to: it has a name and typed columns."""

    @property
    def name(self) -> str: ...

    @property
    def columns(self) -> tuple[tuple[str, SqlType], ...]: ...


@dataclass(frozen=True)
class _TableColumns:
    """Columns of a table that rows are given for."""

    name: str
    columns: tuple[tuple[str, SqlType], ...]


def table_rows(name: str, columns: tuple[tuple[str, SqlType], ...], rows: Any) -> pa.Table:
    """Rows for these columns of a table; raises TableError if one does not fit."""
    try:
        found = to_table(_TableColumns(name, columns), rows)
    except FeedError as error:
        raise TableError(
            error.message.replace("stream '", "table '").replace("feed takes", "a table takes"), remedy=error.remedy
        ) from None
    bad = found.column(BAD).drop_null()
    if len(bad):
        kinds = ", ".join(f"{column} {kind}" for column, kind in columns)
        raise TableError(
            f"a row does not fit table '{name}': {bad[0].as_py()[:200]}",
            remedy=f"Nothing was changed. Its columns: {kinds}.",
        )
    return found.drop_columns([BAD])


def to_table(stream: Columned, rows: Any) -> pa.Table:
    """Rows (dicts, tuples, pandas or Arrow) as a table of the stream's schema plus `__bad`."""
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return _from_columns(stream, rows.column_names, rows.columns, rows.num_rows)
    of_pandas = type(rows).__module__.startswith("pandas")
    if of_pandas and hasattr(rows, "columns"):
        columns = [_of_series(rows.iloc[:, i]) for i in range(rows.shape[1])]
        return _from_columns(stream, list(map(str, rows.columns)), columns, len(rows))
    if of_pandas or isinstance(rows, (str, bytes, Mapping)) or not hasattr(rows, "__iter__"):
        raise FeedError(
            f"feed takes a list of dicts or tuples, a pandas DataFrame or an Arrow table, not {type(rows).__name__}",
            remedy="For one row, give a list with one element.",
        )
    return _from_records(stream, list(rows))


# -- shapes ----------------------------------------------------------------------------------------


def _of_series(series: Any) -> Column:
    """A pandas column, with missing values as None. A column of dtype object holds Python values of any type."""
    if series.dtype != object:
        try:
            found = pa.array(series, from_pandas=True)
            if not isinstance(found.type, pa.BaseExtensionType):
                return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])
        except (pa.ArrowException, ValueError, TypeError):
            pass
    values = series.astype(object)
    return values.where(values.notna(), None).tolist()


def _from_columns(stream: Columned, names: Sequence[str], columns: Sequence[Column], rows: int) -> pa.Table:
    known = {name.lower() for name, _ in stream.columns}
    given: dict[str, Column] = {}
    for name, column in zip(names, columns, strict=True):
        if name.lower() not in known:
            shown = ", ".join(name for name, _ in stream.columns)
            raise FeedError(f"stream '{stream.name}' has no column '{name}'", remedy=f"Its columns: {shown}.")
        if name.lower() in given:
            raise FeedError(f"the column '{name}' is given twice", remedy="Keep one of them.")
        given[name.lower()] = column
    ordered = [given.get(name.lower(), [None] * rows) for name, _ in stream.columns]

    def record(row: int) -> dict[str, Any]:
        return {name: _values(column[row : row + 1])[0] for name, column in zip(names, columns, strict=True)}

    return _assembled(stream, ordered, set(), record, rows)


def _from_records(stream: Columned, rows: Sequence[Any]) -> pa.Table:
    columns, misshapen = _fields(stream, rows), set()
    if columns is None:
        each = [_fields(stream, [row]) for row in rows]
        misshapen = {n for n, fields in enumerate(each) if fields is None}
        columns = [[None if f is None else f[i][0] for f in each] for i in range(len(stream.columns))]
    return _assembled(stream, columns, misshapen, lambda n: rows[n], len(rows))


def _fields(stream: Columned, rows: Sequence[Any]) -> list[list[Any]] | None:
    """The rows' values by column; None if some row does not have the stream's columns."""
    names = {name.lower(): i for i, (name, _) in enumerate(stream.columns)}
    if all(isinstance(row, Mapping) for row in rows):
        seen = {key for row in rows for key in row}
        at = {key: names.get(key.lower()) if isinstance(key, str) else None for key in seen}
        by_name = {i: key for key, i in at.items() if i is not None}
        if len(by_name) < len(seen):  # an unknown name, or one column under two spellings
            return None
        return [
            [row.get(by_name[i]) for row in rows] if i in by_name else [None] * len(rows) for i in range(len(names))
        ]
    if all(isinstance(row, (tuple, list)) and len(row) == len(names) for row in rows):
        return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in names]
    return None


def _assembled(
    stream: Columned, columns: Sequence[Column], misshapen: set[int], record: Callable[[int], Any], rows: int
) -> pa.Table:
    """The table of the columns. Records that do not fit are null in all of them and stand as text in `__bad`."""
    arrays, bad = [], set(misshapen)
    for column, (_, kind) in zip(columns, stream.columns, strict=True):
        array, misfits = _fitted(column, kind)
        arrays.append(array)
        bad |= misfits
    texts = pa.nulls(rows, pa.string())
    if bad:
        is_bad = pa.array([n in bad for n in range(rows)])
        arrays = [pc.if_else(is_bad, pa.scalar(None, array.type), array) for array in arrays]
        texts = pa.array([_text(record(n)) if n in bad else None for n in range(rows)], pa.string())
    schema = pa.schema([*((name, kind.arrow) for name, kind in stream.columns), (BAD, pa.string())])
    return pa.Table.from_arrays([*arrays, texts], schema=schema)


def _text(row: Any) -> str:
    """A record as a dead letter shows it. Never fails."""
    try:
        text = json.dumps(row, default=str, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(row)
    return text.encode("utf-8", "backslashreplace").decode()


# -- values ----------------------------------------------------------------------------------------


def _fitted(column: Column, kind: SqlType) -> tuple[pa.Array | pa.ChunkedArray, set[int]]:
    """The column as its type, null where a value does not fit, and the indices of these values."""
    if isinstance(column, pa.ChunkedArray):
        if _is_read_alike(column.type, kind):
            try:
                cast = column.cast(kind.arrow)
                if kind.name == "STRING":
                    cast.validate(full=True)  # Arrow does not check texts by itself
                return cast, set()
            except pa.ArrowException:
                pass
        column = _values(column)
    parts: list[pa.Array] = []
    misfits: set[int] = set()
    _fit(column, 0, kind, parts, misfits)
    return pa.chunked_array(parts, kind.arrow), misfits


def _fit(values: list[Any], first: int, kind: SqlType, parts: list[pa.Array], misfits: set[int]) -> None:
    """Convert values; if some do not fit, convert each half, so that one bad value among many costs little."""
    try:
        parts.append(_array(values, kind))
    except _MISFIT:
        if len(values) == 1:
            parts.append(pa.nulls(1, kind.arrow))
            misfits.add(first)
            return
        middle = len(values) // 2
        _fit(values[:middle], first, kind, parts, misfits)
        _fit(values[middle:], first + middle, kind, parts, misfits)


def _is_read_alike(given: pa.DataType, kind: SqlType) -> bool:
    """Whether Arrow's cast means the same as `_array`. Where the cast fails, `_array` decides."""
    types, wanted = pa.types, kind.arrow
    if types.is_dictionary(given):
        given = given.value_type
    if types.is_null(given) or given == wanted:
        return True
    if types.is_timestamp(wanted):
        return types.is_timestamp(given) and (kind.name == "TIMESTAMP" or given.tz in (None, "UTC"))
    if kind.is_integer or kind.is_float:
        return bool(types.is_integer(given) or types.is_floating(given))
    if kind.is_decimal:
        return bool(types.is_decimal(given))
    return bool(kind.name == "STRING" and (types.is_large_string(given) or types.is_string_view(given)))


def _values(column: Column) -> list[Any]:
    """The column's Python values. A value that Python lacks (a time after the year 9999) becomes text, and a text that
    is not UTF-8 stays bytes."""
    if isinstance(column, list):
        return column
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        return [_decoded(one) for one in column.cast(kind).cast(pa.binary()).to_pylist()]
    except _MISFIT:
        return [_value(one) for one in column]


def _decoded(text: bytes | None) -> str | bytes | None:
    try:
        return None if text is None else text.decode()
    except UnicodeDecodeError:
        return text


def _value(one: pa.Scalar) -> Any:
    try:
        return one.as_py()
    except _MISFIT:
        return f"{one.value} {one.type}"


def _array(values: list[Any], kind: SqlType) -> pa.Array:
    if kind.is_timestamp:
        values = [_moment(v, kind) for v in values]
    elif kind.is_decimal:
        values = [_decimal(v, kind) for v in values]
    elif kind.is_integer or kind.is_float:
        values = [_number(v, kind) for v in values]
    elif kind.name == "DATE":
        values = list(map(day_of, values))
    return pa.array(values, kind.arrow)


def _number(value: Any, kind: SqlType) -> Any:
    """A value of a numeric column as a Python number. Arrow would truncate 1.5 to an integer and refuse 2^53 + 1 as a
    double."""
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_, str, bytes)):
        raise ValueError("not a number")
    if kind.is_float:
        return float(value)
    if value != int(value):
        raise ValueError("not a whole number")
    return int(value)


def _decimal(value: Any, kind: SqlType) -> Decimal | None:
    """The exact decimal; raises if it does not fit. A float stands for its shortest decimal representation."""
    if isinstance(value, (np.integer, np.floating)):
        value = value.item()
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise ValueError("not a number")
    number = value if isinstance(value, Decimal) else Decimal(repr(value) if isinstance(value, float) else value)
    return number.quantize(Decimal(1).scaleb(-kind.decimal[1]), context=_EXACT)


def _moment(value: Any, kind: SqlType) -> int | None:
    """A time given as a datetime, an ISO text, or seconds since the epoch (as Spark casts numbers)."""
    if isinstance(value, (np.integer, np.floating)):
        value = value.item()
    elif isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    elif isinstance(value, str):
        value = moment_of(value)
    if value is None:
        return None
    if isinstance(value, bool):
        raise ValueError("not a time")
    if isinstance(value, (int, float)):
        return round(value * 1_000_000)
    if not isinstance(value, dt.datetime):
        raise ValueError("not a time")
    if value != value:  # pandas' NaT
        return None
    return point_of(value.replace(tzinfo=None) if kind.name == "TIMESTAMP_NTZ" else value, kind)
