"""The memory source: rows given to `feed`, spooled as Parquet files under the state directory.

`feed` returns once its rows are on disk, so nothing that was taken is lost in a crash. A record that does
not fit the schema is spooled as text in `__bad` and becomes a dead letter; the others go on.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import threading
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from windrow.catalog.definitions import StreamDef
from windrow.dataplane.ingest import BAD
from windrow.dataplane.sources.files import placed, schema_text
from windrow.durable import sync
from windrow.errors import FeedError, SourceError, StateError
from windrow.settings import Settings
from windrow.types import SqlType, point_of

_NAME = re.compile(r"feed-(\d{15})-[0-9a-f]{8}\.parquet")


def check(stream: StreamDef) -> None:
    if stream.statement.options:
        raise SourceError("a memory stream takes no options", remedy="Write FROM memory.")


def open_spool(spark: SparkSession, stream: StreamDef, settings: Settings, spool_dir: Path) -> DataFrame:
    spool_dir.mkdir(parents=True, exist_ok=True)
    reader = spark.readStream.schema(schema_text(stream, True)).format("parquet")
    reader = reader.option("maxBytesPerTrigger", str(settings.integer("bytes_per_trigger")))
    reader = reader.option("cleanSource", "delete").option("maxFileAge", "3650d")
    return placed(reader.load(str(spool_dir)))


class Spool:
    """Writes a stream's fed rows, one numbered file per `feed`."""

    def __init__(self, stream: StreamDef, directory: Path):
        self._stream = stream
        self._directory = directory
        self._lock = threading.Lock()
        directory.mkdir(parents=True, exist_ok=True)
        for leftover in directory.glob(".feed-*.tmp"):
            leftover.unlink()
        self._last_ms = max((int(m[1]) for m in map(_NAME.fullmatch, os.listdir(directory)) if m), default=0)

    def write(self, rows: Any, now_ms: int) -> int:
        """Spool rows durably; returns how many. Files are taken in the order of `feed`."""
        table = to_table(self._stream, rows)
        if table.num_rows == 0:
            return 0
        with self._lock:
            self._write(table, now_ms)
        return int(table.num_rows)

    def _write(self, table: pa.Table, now_ms: int) -> None:
        # Spark takes files by modification time, which must move on while any waits, and knows those it has
        # read by name, for ever: a name must be new even where the clock was put back.
        self._last_ms = moment = max(now_ms, self._last_ms + 1)
        name = f"feed-{moment:015d}-{uuid.uuid4().hex[:8]}"
        final, staged = self._directory / f"{name}.parquet", self._directory / f".{name}.tmp"
        try:
            pq.write_table(table, staged)
            os.utime(staged, ns=(moment * 1_000_000, moment * 1_000_000))
            sync(staged)
            os.replace(staged, final)
            sync(self._directory)
        except OSError as error:
            staged.unlink(missing_ok=True)
            raise StateError(
                f"the fed rows could not be spooled: {error.strerror}",
                remedy="Free space under the state directory; nothing was taken.",
            ) from error


def to_table(stream: StreamDef, rows: Any) -> pa.Table:
    """Rows (dicts, tuples, pandas or Arrow) as a table of the stream's schema plus `__bad`."""
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    of_pandas = type(rows).__module__.startswith("pandas")
    if of_pandas and hasattr(rows, "columns"):
        rows, of_pandas = pa.Table.from_pandas(rows, preserve_index=False), False
    if isinstance(rows, pa.Table):
        return _from_arrow(stream, rows)
    if of_pandas or isinstance(rows, (str, bytes, Mapping)) or not hasattr(rows, "__iter__"):
        raise FeedError(
            f"feed takes a list of dicts or tuples, a pandas DataFrame or an Arrow table, not {type(rows).__name__}",
            remedy="For one row, give a list with one element.",
        )
    return _from_records(stream, list(rows))


def _from_arrow(stream: StreamDef, table: pa.Table) -> pa.Table:
    given = {name.lower(): name for name in table.column_names}
    unknown = [n for low, n in given.items() if low not in {c.lower() for c, _ in stream.columns}]
    if unknown:
        raise FeedError(
            f"stream '{stream.name}' has no column '{unknown[0]}'", remedy=f"Its columns: {_names(stream)}."
        )
    try:
        columns = [
            table.column(given[name.lower()]).cast(kind.arrow)
            if name.lower() in given
            else pa.nulls(table.num_rows, kind.arrow)
            for name, kind in stream.columns
        ]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _from_records(stream, table.to_pylist())
    return pa.Table.from_arrays([*columns, pa.nulls(table.num_rows, pa.string())], schema=_schema(stream))


def _schema(stream: StreamDef) -> pa.Schema:
    return pa.schema([*((name, kind.arrow) for name, kind in stream.columns), (BAD, pa.string())])


def _names(stream: StreamDef) -> str:
    return ", ".join(name for name, _ in stream.columns)


def _from_records(stream: StreamDef, rows: Sequence[Any]) -> pa.Table:
    """Column by column where every value fits; record by record, to find the bad ones, where not."""
    columns = _columns(stream, rows)
    if columns is not None:
        try:
            arrays = [_array(values, kind) for values, (_, kind) in zip(columns, stream.columns, strict=True)]
            return pa.Table.from_arrays([*arrays, pa.nulls(len(rows), pa.string())], schema=_schema(stream))
        except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError, OverflowError, ArithmeticError):
            pass
    return _record_by_record(stream, rows)


def _columns(stream: StreamDef, rows: Sequence[Any]) -> list[list[Any]] | None:
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


def _array(values: list[Any], kind: SqlType) -> pa.Array:
    if kind.is_timestamp:
        values = [_moment(v, kind) for v in values]
    elif kind.is_decimal:
        values = [Decimal(str(v)) if isinstance(v, (int, str)) and not isinstance(v, bool) else v for v in values]
    elif kind.is_integer or kind.is_float:
        values = [_number(v, kind) for v in values]
    elif kind.name == "DATE":
        values = [dt.date.fromisoformat(v) if isinstance(v, str) else v for v in values]
    return pa.array(values, kind.arrow)


def _number(value: Any, kind: SqlType) -> Any:
    """A value of a numeric column as Python's own; Arrow would truncate 1.5 to an integer, and refuse 2^53 + 1
    as a double."""
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_, str, bytes)):
        raise ValueError("not a number")
    if kind.is_float:
        return float(value)
    if value != int(value):
        raise ValueError("not a whole number")
    return int(value)


def _moment(value: Any, kind: SqlType) -> Any:
    """A time given as a datetime, an ISO text, or seconds since the epoch (as Spark casts numbers)."""
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value.replace("Z", "+00:00"))
    if isinstance(value, bool):
        raise ValueError("not a time")
    if isinstance(value, (int, float)):
        return round(value * 1_000_000)
    if isinstance(value, dt.datetime) and value != value:  # pandas' NaT
        return None
    if value is None or isinstance(value, dt.datetime):
        if kind.name == "TIMESTAMP_NTZ" and value is not None:
            value = value.replace(tzinfo=None)
        return None if value is None else point_of(value, kind)
    raise ValueError("not a time")


def _text(row: Any) -> str:
    """A record as a dead letter shows it, whatever it holds."""
    try:
        text = json.dumps(row, default=str, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(row)
    return text.encode("utf-8", "backslashreplace").decode()


def _record_by_record(stream: StreamDef, rows: Sequence[Any]) -> pa.Table:
    good: list[list[Any]] = [[] for _ in stream.columns]
    bad: list[str | None] = []
    for row in rows:
        columns = _columns(stream, [row])
        try:
            if columns is None:
                raise ValueError("the fields are not the stream's columns")
            arrays = [_array(values, kind) for values, (_, kind) in zip(columns, stream.columns, strict=True)]
        except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError, OverflowError, ArithmeticError):
            arrays = [pa.nulls(1, kind.arrow) for _, kind in stream.columns]
            bad.append(_text(row))
        else:
            bad.append(None)
        for column, array in zip(good, arrays, strict=True):
            column.append(array)
    arrays = [
        pa.concat_arrays(c) if c else pa.nulls(0, k.arrow) for c, (_, k) in zip(good, stream.columns, strict=True)
    ]
    return pa.Table.from_arrays([*arrays, pa.array(bad, pa.string())], schema=_schema(stream))
