"""Takes rows into streams: fed, deposited, or read by Structured Streaming."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa

from windrow.dataplane.frames import frame_of
from windrow.dataplane.ingest.arrival import POSITION
from windrow.dataplane.sources.registry import DATAFRAME
from windrow.dataplane.sources.rows import to_table
from windrow.dataplane.sources.spool import Spool
from windrow.durable import sync
from windrow.engine.intake.deposits import Depositor
from windrow.engine.intake.whole_files import WholeFiles
from windrow.engine.run.opening import OpenState
from windrow.engine.run.stream_ticks import StreamTicks
from windrow.engine.state import StreamState
from windrow.engine.store.homes import give_back_memory
from windrow.errors import SourceError, StateError

DEPOSITED = "deposited"
"""The file that marks the directory of a stream with direct deposits; such a stream has no Spark checkpoint."""


class Inputs:
    """Owns the spools of memory streams and the way into the depositor, and submits ticks after each commit."""

    def __init__(self, opened: OpenState, ticks: StreamTicks):
        self._opened = opened
        self._ticks = ticks
        clock, homes, stores = opened.clock, opened.homes, opened.stores
        self._depositor = Depositor(opened.journal, opened.blocks, clock, homes, opened.jvm, stores)
        self._files = WholeFiles(self._depositor, opened.journal.bad_files)
        self._spools: dict[int, Spool] = {}
        self._feeding = threading.RLock()

    # -- rows ----------------------------------------------------------------------------------

    def feed(self, name: str, rows: Any) -> int:
        stream = self._opened.manager.stream(name)
        refuse_derived(stream, "feed")
        if stream.definition.statement.source.lower() != "memory":
            raise SourceError(
                f"stream '{stream.name}' reads from {stream.definition.statement.source}",
                remedy="feed is for streams FROM memory.",
            )
        return self._spool(stream).write(rows, self._opened.clock.now_us() // 1000)

    def _spool(self, stream: StreamState) -> Spool:
        with self._feeding:
            self._opened.lifecycle.refuse_closed()
            spool = self._spools.get(stream.id)
            if spool is None:
                spool = self._spools[stream.id] = Spool(stream.definition, stream.directory / "spool")
            return spool

    def fed(self, stream: StreamState) -> Spool | None:
        """The spool of a memory stream; None if it was never fed."""
        is_fed = stream.definition.statement.source.lower() == "memory" and (stream.directory / "spool").exists()
        return self._spool(stream) if is_fed else None

    def has_unread(self, stream: StreamState) -> bool:
        """Whether some fed rows are in no micro-batch yet."""
        spool = self.fed(stream)
        return spool is not None and spool.has_unread(stream.last_batch)

    def refuse_unread(self, name: str) -> None:
        """Raise if some fed rows are in no micro-batch yet: the end of the input would make them late."""
        if self.has_unread(self._opened.manager.stream(name)):
            raise StateError(
                f"stream '{name}' has fed rows that are not read yet",
                remedy="Call run_available(close=True), which reads them and then ends the input.",
            )

    def deposit(self, name: str, rows: Any, partitions: int | None = None) -> None:
        """Take in one micro-batch directly, without Structured Streaming. Most tests use this."""
        self._ticks.refuse_inside("deposit rows")
        stream = self._opened.manager.stream(name)
        refuse_derived(stream, "deposit")
        if (stream.directory / "checkpoint").exists():
            raise StateError(f"stream '{name}' runs through Structured Streaming", remedy="Use feed and run_available.")
        table = _positioned(stream, rows)
        with self._opened.jvm.watched():
            with stream.batch_lock:
                self._opened.lifecycle.refuse_closed()
                self._opened.jvm.raise_if_lost()
                _mark_deposited(stream)
                df = frame_of(self._opened.spark, table, partitions)
                self.process(stream, df, stream.last_batch + 1, True, table.nbytes)
            self._ticks.drain(stream)

    def derive(self, stream: StreamState, rows: pa.Table, batch_id: int) -> None:
        """Take in one micro-batch of a derived stream. The caller submits its ticks."""
        table = _positioned(stream, rows)
        with stream.batch_lock:
            self._opened.jvm.raise_if_lost()
            df = frame_of(self._opened.spark, table, None)
            self._files.deposit(stream, df, batch_id, self._opened.settings, True, table.nbytes)
        give_back_memory(stream)
        stream.heard_us = self._opened.clock.now_us()
        self._depositor.tidy_stores(stream)

    def process(self, stream: StreamState, df: Any, batch_id: int, columnar: bool, size: int | None = None) -> None:
        """Take in one micro-batch, and submit its ticks."""
        if stream.definition.revises or stream.promises or self._opened.settings.text("slack_meaning") == "generous":
            # Corrections and early answers must not depend on how far the ticks happen to be.
            self._ticks.catch_up_stream(stream)
        self._files.deposit(stream, df, batch_id, self._opened.settings, columnar, size)
        give_back_memory(stream)
        stream.heard_us = self._opened.clock.now_us()
        self._ticks.submit(stream)
        self._ticks.give_way(stream)
        self._depositor.tidy_stores(stream)

    # -- the end -------------------------------------------------------------------------------

    def forget(self, stream: StreamState) -> None:
        """Close the spool of a dropped stream."""
        with self._feeding:
            spool = self._spools.pop(stream.id, None)
        if spool is not None:
            spool.close()

    def close(self) -> None:
        """Close all spools; waits for calls that feed."""
        with self._feeding:
            for spool in self._spools.values():
                spool.close()


def _positioned(stream: StreamState, rows: Any) -> pa.Table:
    """Rows as a table of the stream, with their order."""
    table = to_table(stream.definition, rows)
    return table.append_column(f"{POSITION}0", pa.array(range(table.num_rows), pa.int64()))


def refuse_derived(stream: StreamState, what: str) -> None:
    """Raise if the stream is the output of a query: its tuples and its frontier are the query's."""
    if stream.definition.is_derived:
        raise SourceError(
            f"stream '{stream.name}' is the output of a query: {what} is not for it",
            remedy="Its tuples and its time come from the streams of its query (SHOW CREATE STREAM).",
        )


def _mark_deposited(stream: StreamState) -> None:
    """Mark the stream as deposited into, so that a missing checkpoint is not taken for a loss."""
    mark = stream.directory / DEPOSITED
    if not mark.exists():
        stream.directory.mkdir(parents=True, exist_ok=True)
        mark.touch()
        sync(stream.directory)


def is_deposited(stream: StreamState) -> bool:
    """Whether the stream is deposited into and has nothing to read. A stream with a source of its own, or with fed rows
    too, is refused when it is run: skipping it would lose data."""
    if stream.definition.statement.source.lower() not in ("memory", DATAFRAME):
        return False
    directory = stream.directory
    if stream.last_batch < 0 or not (directory / DEPOSITED).exists() or (directory / "checkpoint").exists():
        return False
    return not any((directory / "spool").glob("*feed-*"))
