"""The memory source: rows given to `feed`, spooled as Parquet files under the state directory.

`feed` returns once its rows are on disk, so nothing that was taken is lost in a crash. A record that does
not fit the schema is spooled as text in `__bad` and becomes a dead letter; the others go on.
"""

from __future__ import annotations

import os
import re
import threading
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from windrow.catalog.definitions import StreamDef
from windrow.dataplane.ingest.arrival import POSITION
from windrow.dataplane.sources.files import schema_text
from windrow.dataplane.sources.rows import to_table
from windrow.durable import sync
from windrow.errors import SourceError, StateError
from windrow.settings import Settings

_NAME = re.compile(r"feed-(\d{15})-[0-9a-f]{8}\.parquet")


def check(stream: StreamDef) -> None:
    if stream.source_options:
        raise SourceError("a stream from 'memory' takes no options", remedy="Write FROM memory.")


def open_spool(spark: SparkSession, stream: StreamDef, settings: Settings, spool_dir: Path) -> DataFrame:
    spool_dir.mkdir(parents=True, exist_ok=True)
    reader = spark.readStream.schema(schema_text(stream, True)).format("parquet")
    reader = reader.option("maxBytesPerTrigger", str(settings.integer("bytes_per_trigger")))
    reader = reader.option("cleanSource", "delete").option("maxFileAge", "3650d")
    # A file's name says when it was fed: a number per row, where the path as text would cost more than the rows.
    fed = "CAST(substring(_metadata.file_name, 6, 15) AS BIGINT)"
    places = (fed, "_metadata.file_block_start")
    return reader.load(str(spool_dir)).selectExpr("*", *(f"{sql} AS {POSITION}{i}" for i, sql in enumerate(places)))


class Spool:
    """Writes a stream's fed rows, one numbered file per `feed`."""

    def __init__(self, stream: StreamDef, directory: Path):
        self._stream = stream
        self._directory = directory
        self._lock = threading.RLock()
        self._closed = False
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
            if self._closed:
                raise StateError(
                    f"stream '{self._stream.name}' takes no more rows: it was dropped, or the state directory closed",
                    remedy="Open the state directory again; nothing was taken.",
                )
            self._write(table, now_ms)
        return int(table.num_rows)

    def close(self) -> None:
        """Take no more; what is being written is on disk when this returns."""
        with self._lock:
            self._closed = True

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
