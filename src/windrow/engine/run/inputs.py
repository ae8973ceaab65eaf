"""What comes into a stream: rows fed or deposited, micro-batches, punctuations, and the end of the input."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from windrow.cql.patterns import BadPatternError, Pattern
from windrow.dataplane.frames import frame_of
from windrow.dataplane.ingest.arrival import POSITION
from windrow.dataplane.memory import give_back
from windrow.dataplane.sources.rows import to_table
from windrow.dataplane.sources.spool import Spool
from windrow.engine.intake.deposits import Depositor
from windrow.engine.run.opening import OpenState
from windrow.engine.run.tick_loop import TickLoop
from windrow.engine.state import StreamState
from windrow.engine.store.deposit_commits import PunctuationCommit
from windrow.errors import BindError, SourceError, StateError, UnsupportedError
from windrow.plan.nodes import ROW_NUM
from windrow.synopses import StoredSynopsis
from windrow.windows import PartitionedWindow
from windrow.windows import heartbeat as moved_on
from windrow.windows.promises import FARTHEST, Told, told_by


class Inputs:
    """Owns the spools of memory streams and the depositor; has the ticks follow what it commits."""

    def __init__(self, opened: OpenState, ticks: TickLoop):
        self._opened = opened
        self._ticks = ticks
        self._depositor = Depositor(opened.journal, opened.blocks, opened.clock, opened.homes, opened.jvm)
        self._spools: dict[int, Spool] = {}
        self._feeding = threading.RLock()

    # -- rows ----------------------------------------------------------------------------------

    def feed(self, name: str, rows: Any) -> int:
        stream = self._opened.manager.stream(name)
        if stream.definition.statement.source.lower() != "memory":
            raise SourceError(
                f"stream '{stream.name}' reads from {stream.definition.statement.source}",
                remedy="feed is for streams FROM memory.",
            )
        with self._feeding:
            self._opened.lifecycle.refuse_closed()
            spool = self._spools.get(stream.id)
            if spool is None:
                spool = self._spools[stream.id] = Spool(stream.definition, stream.directory / "spool")
        return spool.write(rows, self._opened.clock.now_us() // 1000)

    def deposit(self, name: str, rows: Any, partitions: int | None = None) -> None:
        """One micro-batch given directly, without Structured Streaming: what most tests drive."""
        self._ticks.refuse_inside("deposit rows")
        stream = self._opened.manager.stream(name)
        if (stream.directory / "checkpoint").exists():
            raise StateError(f"stream '{name}' runs through Structured Streaming", remedy="Use feed and run_available.")
        table = to_table(stream.definition, rows)
        table = table.append_column(f"{POSITION}0", pa.array(range(table.num_rows), pa.int64()))
        with self._opened.jvm.watched():
            with stream.batch_lock:
                self._opened.lifecycle.refuse_closed()
                self._opened.jvm.raise_if_lost()
                df = frame_of(self._opened.spark, table, partitions)
                self.process(stream, df, stream.last_batch + 1, True, table.nbytes)
            self._ticks.drain(stream)

    def process(self, stream: StreamState, df: Any, batch_id: int, columnar: bool, size: int | None = None) -> None:
        if stream.definition.revises or stream.promises or self._opened.settings.text("slack_meaning") == "generous":
            # What late tuples find answered, and which groups are answered together before their windows, must not
            # depend on how far the ticks happen to be.
            self._ticks.catch_up(stream)
        self._depositor.deposit(stream, df, batch_id, self._opened.settings, columnar, size)
        give_back_memory(stream)
        stream.heard_us = self._opened.clock.now_us()
        self._ticks.submit(stream)

    # -- time ----------------------------------------------------------------------------------

    def punctuate(self, name: str, promises: Mapping[str, int]) -> None:
        """No more tuples below these points of the stream's axes."""
        for axis, upto in promises.items():
            if abs(upto) > FARTHEST:
                raise BindError(
                    f"a promise up to {upto} on '{axis}' is beyond 10^18",
                    remedy="Give the point that the stream has really reached.",
                )
        self._promise(name, Told(promises))

    def punctuate_pattern(self, name: str, pattern: Pattern) -> None:
        """No more tuples that meet a pattern."""
        definition = self._opened.manager.stream(name).definition
        if definition.revises:
            raise UnsupportedError(
                f"stream '{name}' says LATE REVISE: its punctuations are on the window attribute alone",
                remedy="Promise it of the whole stream, or create the stream with LATE DROP.",
            )
        try:
            self._promise(name, told_by(pattern, definition.axes))
        except BadPatternError as error:
            raise BindError(str(error), remedy="Give the point that the stream has really reached.") from None

    def _promise(self, name: str, told: Told, greatest: Mapping[str, int] | None = None) -> None:
        """`greatest`: at the end of the input, the greatest points by axis."""
        self._ticks.refuse_inside("punctuate")
        stream = self._opened.manager.stream(name)
        with self._opened.jvm.watched():
            if stream.promises:
                self._ticks.catch_up(stream)
            with stream.batch_lock, stream.lock:
                self._opened.homes.settle(stream, self._opened.settings, bool(told.promises))
                commit = PunctuationCommit(told, greatest)
                stream.install(self._opened.journal.deposits.punctuate(stream, commit))
            self._ticks.catch_up(stream)

    def heartbeat(self, stream: StreamState) -> None:
        """Move a silent stream on, between micro-batches (setting `heartbeat`)."""
        silence, now = self._opened.settings["heartbeat"], self._opened.clock.now_us()
        if silence == "off" or self._opened.jvm.has_ended():
            return
        promises = {}
        with stream.batch_lock:
            for p in stream.definition.punctuated:
                value = stream.frontiers[p.column].value
                upto = moved_on(now, stream.heard_us, int(silence), value) if p.type.is_timestamp else None
                if upto is not None:
                    promises[p.column] = upto
            if promises:
                self.punctuate(stream.name, promises)

    def end_input(self, name: str) -> None:
        """Close every pane that holds a tuple, in every window it is in."""
        stream = self._opened.manager.stream(name)
        promises, points = {}, {}
        for axis in stream.frontiers:
            if (greatest := stream.greatest(axis)) is not None:
                points[axis] = greatest
                windows = [q.plan.window for q in stream.active if q.axis == axis]
                ends = [w.closing(greatest) for w in windows if not isinstance(w, PartitionedWindow)]
                beyond = 2 if axis == ROW_NUM else 1
                promises[axis] = max([greatest + beyond, *ends])
        if not any(q.axis == ROW_NUM for q in stream.active):
            promises.pop(ROW_NUM, None)
        if promises:
            self._promise(name, Told(promises), points)

    # -- the end -------------------------------------------------------------------------------

    def forget(self, stream: StreamState) -> None:
        """Close the spool of a stream that was dropped."""
        with self._feeding:
            spool = self._spools.pop(stream.id, None)
        if spool is not None:
            spool.close()

    def close(self) -> None:
        """Close all spools, after the calls that feed."""
        with self._feeding:
            for spool in self._spools.values():
                spool.close()


def give_back_memory(stream: StreamState) -> None:
    """Give freed memory back to the system where synopses are too large for the driver. Elsewhere taking it anew costs
    more: a sixth of the time of 100 queries."""
    if any(isinstance(state.synopsis, StoredSynopsis) for state in list(stream.synopses.values())):
        give_back()
