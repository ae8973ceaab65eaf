"""The memory source: rows passed to `feed`, spooled as Parquet files under the state directory.

`feed` returns once its rows are on disk, so no accepted row is lost in a crash. A record that does not fit the schema
is spooled as text in `__bad` and becomes a dead letter.

A punctuation that comes while fed rows wait is also a file, behind them. Spark ignores files whose names begin with
`_`: it sees neither the punctuation nor the rows fed after it, which are held back until the punctuation has been
applied. So no micro-batch has rows from both sides of a punctuation.
"""

from __future__ import annotations

import json
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from windrow.catalog.definitions import StreamDef
from windrow.dataplane.ingest.arrival import POSITION
from windrow.dataplane.sources.files import schema_text
from windrow.dataplane.sources.rows import to_table
from windrow.dataplane.sources.source_log import log_lines
from windrow.durable import sync
from windrow.errors import SourceError, StateError
from windrow.settings import Settings

_NAME = re.compile(r"_?(?:feed|punctuation)-(\d{15})-[0-9a-f]{8}\.(?:parquet|json)")
_FED, _HELD, _PUNCTUATION = "feed-", "_feed-", "_punctuation-"
"""How file names begin: rows that Spark may read, rows held back, punctuations. A timestamp follows."""


def check(stream: StreamDef) -> None:
    if stream.source_options:
        raise SourceError("a stream from 'memory' takes no options", remedy="Write FROM memory.")


def open_spool(spark: SparkSession, stream: StreamDef, settings: Settings, spool_dir: Path) -> DataFrame:
    spool_dir.mkdir(parents=True, exist_ok=True)
    reader = spark.readStream.schema(schema_text(stream, True)).format("parquet")
    reader = reader.option("maxBytesPerTrigger", str(settings.integer("bytes_per_trigger")))
    reader = reader.option("cleanSource", "delete").option("maxFileAge", "3650d")
    # The file's name contains the time of `feed`. As a number it is cheap; the path as text would cost more than the
    # rows.
    fed = "CAST(substring(_metadata.file_name, 6, 15) AS BIGINT)"
    places = (fed, "_metadata.file_block_start")
    return reader.load(str(spool_dir)).selectExpr("*", *(f"{sql} AS {POSITION}{i}" for i, sql in enumerate(places)))


class Spool:
    """Writes a stream's fed rows, one numbered file per `feed`, and the punctuations between them."""

    def __init__(self, stream: StreamDef, directory: Path):
        self._stream = stream
        self._directory = directory
        self._lock = threading.RLock()
        self._closed = False
        directory.mkdir(parents=True, exist_ok=True)
        for leftover in directory.glob(".*-*.tmp"):
            leftover.unlink()
        self._last_ms = max((int(m[1]) for m in map(_NAME.fullmatch, os.listdir(directory)) if m), default=0)
        self._punctuations = self._names(_PUNCTUATION)
        self._release()

    def write(self, rows: Any, now_ms: int) -> int:
        """Spool rows durably and return how many. Files are processed in the order of `feed`."""
        table = to_table(self._stream, rows)
        if table.num_rows == 0:
            return 0
        with self._lock:
            self._refuse_closed()
            begins = _HELD if self._punctuations else _FED
            self._write(begins, ".parquet", lambda path: pq.write_table(table, path), now_ms)
        return int(table.num_rows)

    def punctuate(self, text: str, now_ms: int, last_batch: int) -> bool:
        """Queue a punctuation behind the waiting rows. Return False if none wait; it is then not queued. `last_batch`
        is the last processed micro-batch."""
        with self._lock:
            self._refuse_closed()
            if not self._punctuations and not self._has_unread(last_batch):
                return False
            name = self._write(_PUNCTUATION, ".json", lambda path: path.write_text(text, encoding="utf-8"), now_ms)
            self._punctuations.append(name)
            return True

    def next_punctuation(self, last_batch: int) -> str | None:
        """The first queued punctuation, if all rows before it have been processed."""
        with self._lock:
            if self._closed or not self._punctuations or self._has_unread(last_batch):
                return None
            return (self._directory / self._punctuations[0]).read_text(encoding="utf-8")

    def pass_punctuation(self) -> None:
        """Remove the first punctuation after it was applied, and release the rows up to the next one."""
        with self._lock:
            (self._directory / self._punctuations.pop(0)).unlink(missing_ok=True)
            self._release()

    def has_unread(self, last_batch: int) -> bool:
        """Whether rows or punctuations wait."""
        with self._lock:
            return bool(self._punctuations) or self._has_unread(last_batch)

    def close(self) -> None:
        """Refuse further rows. Rows being written are on disk when this returns."""
        with self._lock:
            self._closed = True

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StateError(
                f"stream '{self._stream.name}' takes no more rows: it was dropped, or the state directory closed",
                remedy="Open the state directory again; no row was stored.",
            )

    def _names(self, begins: str) -> list[str]:
        """The files of a kind, in the order of `feed`."""
        return sorted(name for name in os.listdir(self._directory) if name.startswith(begins))

    def _release(self) -> None:
        """Let Spark see the rows before the first punctuation."""
        upto = self._punctuations[0].removeprefix(_PUNCTUATION) if self._punctuations else None
        for name in self._names(_HELD):
            place = name.removeprefix(_HELD)
            if upto is None or place < upto:
                os.replace(self._directory / name, self._directory / (_FED + place))
        sync(self._directory)

    def _has_unread(self, last_batch: int) -> bool:
        """Whether Spark sees a file that no micro-batch up to `last_batch` has read."""
        left = set(self._names(_FED))
        for name in _taken(self._directory.parent / "checkpoint", last_batch) if left else ():
            left.discard(name)
            if not left:
                break
        return bool(left)

    def _write(self, begins: str, ends: str, write: Callable[[Path], object], now_ms: int) -> str:
        # Spark orders files by modification time, so it must increase. Spark also remembers the names of files that it
        # has read for ever, so a name must be new even if the clock was set back.
        self._last_ms = moment = max(now_ms, self._last_ms + 1)
        place = f"{moment:015d}-{uuid.uuid4().hex[:8]}"
        name, staged = f"{begins}{place}{ends}", self._directory / f".feed-{place}.tmp"
        try:
            write(staged)
            os.utime(staged, ns=(moment * 1_000_000, moment * 1_000_000))
            sync(staged)
            os.replace(staged, self._directory / name)
            sync(self._directory)
        except OSError as error:
            staged.unlink(missing_ok=True)
            what = "punctuation" if begins == _PUNCTUATION else "fed rows"
            raise StateError(
                f"the {what} could not be spooled: {error.strerror}",
                remedy="Free space under the state directory; nothing was stored.",
            ) from error
        return name


def _taken(checkpoint: Path, last_batch: int) -> Iterator[str]:
    """The names of the files that Spark's micro-batches up to this one have read, roughly latest first.

    A file stays in the spool until Spark deletes it, so only Spark's logs tell whether it was read: `offsets` has the
    source's position at each micro-batch, `sources` the files up to it.
    """
    offset = checkpoint / "offsets" / str(last_batch)
    if last_batch < 0 or not offset.exists():
        return
    upto = json.loads(offset.read_text(encoding="utf-8").splitlines()[-1])["logOffset"]
    logs = [path for path in (checkpoint / "sources" / "0").iterdir() if path.name.split(".")[0].isdigit()]
    for log in sorted(logs, key=lambda path: int(path.name.split(".")[0]), reverse=True):
        for line in log_lines(log):
            entry = json.loads(line)
            if entry["batchId"] <= upto:
                yield entry["path"].rpartition("/")[2]
