"""The engine: a state directory opened, its streams run, its ticks applied."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from windrow.catalog.lock import StateLock
from windrow.catalog.store import Catalog
from windrow.clock import Clock
from windrow.cql.patterns import BadPatternError, Pattern
from windrow.cql.statements import CreateQuery, CreateStream
from windrow.dataplane.answers.revisions import OP, first_answers, net_answers, revisions_of
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.frames import frame_of, query_frame
from windrow.dataplane.ingest.arrival import POSITION
from windrow.dataplane.jvm import Jvm
from windrow.dataplane.memory import give_back
from windrow.dataplane.session import Analyser, close_session, open_session
from windrow.dataplane.sources import open_source
from windrow.dataplane.sources.registry import DATAFRAME, source_of
from windrow.dataplane.sources.rows import to_table
from windrow.dataplane.sources.spool import Spool
from windrow.dataplane.spark_home import SparkHome
from windrow.durable import sync
from windrow.engine.ask.index_choice import apply_choice
from windrow.engine.ask.lookup_args import pairs_of
from windrow.engine.ask.lookups import Lookups
from windrow.engine.ask.snapshots import Fit, fitting
from windrow.engine.intake.deposits import Depositor
from windrow.engine.intake.punctuations import text_of, told_in
from windrow.engine.queries.query_manager import QueryManager
from windrow.engine.run.lifecycle import Lifecycle, Phase
from windrow.engine.run.recovery import Recovery
from windrow.engine.run.runner import StreamRunner, Supervisor
from windrow.engine.run.tick_loop import TickLoop
from windrow.engine.state import QueryState, StreamState
from windrow.engine.store.homes import Homes
from windrow.engine.store.journal import Journal
from windrow.engine.ticks.delivery import Delivery, delivered_schema
from windrow.engine.ticks.ticker import Ticker
from windrow.errors import BindError, CatalogError, SourceError, StateError, UnsupportedError
from windrow.plan.nodes import ROW_NUM, Finalise
from windrow.settings import Settings, parse_value, spec_of
from windrow.synopses import Home
from windrow.windows import PartitionedWindow, Silence, beat, heartbeat
from windrow.windows.promises import FARTHEST, Told, told_by

log = logging.getLogger("windrow")

DEPOSITED = "deposited"
"""A file in the directory of a stream that micro-batches are deposited into; Spark has no checkpoint of it."""


class Engine:
    """Carries out what the API asks; owns the lock, the catalog and the Spark session."""

    def __init__(self, state_dir: Path, spark: Any, master: str | None, given: Mapping[str, Any], clock: Clock):
        for name, value in given.items():
            parse_value(name, str(value))
        self.state_dir = state_dir
        self._lock = StateLock(state_dir)
        self._lock.acquire()
        self._lifecycle = Lifecycle()
        try:
            self.catalog = Catalog(state_dir / "catalog.sqlite")
            self.blocks = BlockStore(state_dir, self.catalog)
            self._journal = Journal(self.catalog, self.blocks)
            stored = self.catalog.rows("SELECT name, value FROM settings")
            settings = Settings({row["name"]: parse_value(row["name"], row["value"]) for row in stored})
            for name, value in given.items():
                settings = settings.with_text(name, str(value))
            self.settings = settings
            self.spark = open_session(spark, master, settings)
            self.jvm = Jvm(self.spark)
            self._lock.record_jvm(self.jvm.pid)
            self._homes = Homes(self._journal, self.blocks, SparkHome(self.spark, state_dir))
            self.manager = QueryManager(self.catalog, self._journal, Analyser(self.spark), state_dir, self._homes)
            with self.jvm.watched():
                Recovery(self.catalog, self.blocks, self._journal, self.manager, self._homes).recover()
        except BaseException:
            self._abandon()
            raise
        self._clock = clock
        self._depositor = Depositor(self._journal, self.blocks, clock, self._homes, self.jvm)
        self._ticker = Ticker(self._journal, Delivery(self._journal, self.blocks))
        self._lookups = Lookups(self._ticker.finisher)
        self._ticks = TickLoop(self._tick)
        # DuckDB complains at exit about a connection that a script which ends without close() leaves open.
        self._finalizer = weakref.finalize(self, self._ticker.close)
        self._runners: dict[int, StreamRunner] = {}
        self._spools: dict[int, Spool] = {}
        self._supervisor: Supervisor | None = None
        self._feeding = threading.RLock()

    def _abandon(self) -> None:
        """Let go of what an opening that fails had taken."""
        if hasattr(self, "catalog"):
            self.catalog.close()
        if hasattr(self, "spark"):
            close_session(self.spark)
        self._lock.release()

    # -- settings ------------------------------------------------------------------------------

    def set(self, name: str, text: str) -> None:
        with self._changing():
            settings = self.settings.with_text(name, text)
            self.manager.check_settings(settings)
            with self.catalog.transaction() as tx:
                tx.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (spec_of(name).name, text))
            self.settings = settings

    # -- streams and queries -------------------------------------------------------------------

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Settings, streams and queries change one at a time, and not once the engine closes."""
        with self.manager.changing, self.jvm.watched():
            self._lifecycle.refuse_closed()
            yield

    def create_stream(self, statement: CreateStream, dataframe: Any = None) -> StreamState:
        self._ticks.refuse_inside("create a stream")
        with self._changing():
            known = self.manager.streams.get(statement.name.lower())
            if dataframe is not None and known is not None:
                return self._reattach(known, statement, dataframe)
            return self.manager.create_stream(statement, dataframe)

    def _reattach(self, known: StreamState, statement: CreateStream, dataframe: Any) -> StreamState:
        """After a restart, a DataFrame is given again under its stream's name; it must be of the same shape."""
        if known.definition.statement != statement:
            raise CatalogError(
                f"stream '{statement.name}' exists with other columns or clauses",
                remedy="DROP STREAM it first, or give the same ones.",
            )
        known.dataframe = dataframe
        return known

    def drop_stream(self, name: str) -> None:
        self._ticks.refuse_inside("drop a stream")
        with self._changing():
            stream = self.manager.stream(name)
            self.manager.drop_stream(stream)
        with self._feeding:
            spool = self._spools.pop(stream.id, None)
        if spool is not None:
            spool.close()
        with self._lifecycle.lock:
            runner = self._runners.pop(stream.id, None)
            if runner is not None:
                runner.stop()

    def create_query(self, statement: CreateQuery, text: str, sink: Any = None) -> QueryState:
        self._ticks.refuse_inside("create a query")
        with self._changing():
            query = self.manager.create_query(statement, text, self.settings, self._ticks.catch_up, sink)
        with self._lifecycle.lock:
            if self.is_running:
                self._start_streams()
        return query

    def bind(self, statement: CreateQuery, text: str) -> Finalise:
        """The plan of a query that is not created."""
        with self.jvm.watched():
            return self.manager.bind(statement, text)

    def drop_query(self, name: str) -> None:
        """What is due is still answered, if it can be: a query may be dropped because its sink fails."""
        self._ticks.refuse_inside("drop a query")
        with self._changing():
            stream, query = self.manager.query(name)
            with stream.batch_lock:
                try:
                    self._ticks.catch_up(stream)
                except Exception as error:
                    log.warning(
                        "query '%s' is dropped while stream '%s' has answers due that could not be given: %s",
                        query.name,
                        stream.name,
                        error,
                    )
                self.manager.drop_query(stream, query)
                self._ticker.finisher.forget(query.plan)

    # -- rows in -------------------------------------------------------------------------------

    def feed(self, name: str, rows: Any) -> int:
        stream = self.manager.stream(name)
        if stream.definition.statement.source.lower() != "memory":
            raise SourceError(
                f"stream '{stream.name}' reads from {stream.definition.statement.source}",
                remedy="feed is for streams FROM memory.",
            )
        return self._spool(stream).write(rows, self._clock.now_us() // 1000)

    def _spool(self, stream: StreamState) -> Spool:
        with self._feeding:
            self._lifecycle.refuse_closed()
            spool = self._spools.get(stream.id)
            if spool is None:
                spool = self._spools[stream.id] = Spool(stream.definition, stream.directory / "spool")
            return spool

    def _fed(self, stream: StreamState) -> Spool | None:
        """The spool of a memory stream that was ever fed."""
        is_fed = stream.definition.statement.source.lower() == "memory" and (stream.directory / "spool").exists()
        return self._spool(stream) if is_fed else None

    def deposit(self, name: str, rows: Any, partitions: int | None = None) -> None:
        """One micro-batch given directly, without Structured Streaming: what most tests drive."""
        self._ticks.refuse_inside("deposit rows")
        stream = self.manager.stream(name)
        if (stream.directory / "checkpoint").exists():
            raise StateError(f"stream '{name}' runs through Structured Streaming", remedy="Use feed and run_available.")
        table = to_table(stream.definition, rows)
        table = table.append_column(f"{POSITION}0", pa.array(range(table.num_rows), pa.int64()))
        with self.jvm.watched():
            with stream.batch_lock:
                self._lifecycle.refuse_closed()
                self.jvm.raise_if_lost()
                _mark_deposited(stream)
                df = frame_of(self.spark, table, partitions)
                self._process(stream, df, stream.last_batch + 1, True, table.nbytes)
            self._ticks.drain(stream)

    def _process(self, stream: StreamState, df: Any, batch_id: int, columnar: bool, size: int | None = None) -> None:
        if stream.definition.revises or stream.promises or self.settings.text("slack_meaning") == "generous":
            # What late tuples find answered, and which groups are answered together before their windows, must not
            # depend on how far the ticks happen to be.
            self._ticks.catch_up(stream)
        self._depositor.deposit(stream, df, batch_id, self.settings, columnar, size)
        _give_back(stream)
        stream.heard_us = self._clock.now_us()
        self._ticks.submit(stream)

    def _tick(self, stream: StreamState) -> None:
        self._ticker.tick(stream, self.settings)
        _give_back(stream)

    # -- time ----------------------------------------------------------------------------------

    def punctuate(self, name: str, promises: Mapping[str, int]) -> None:
        """No more tuples below these points of the stream's axes."""
        for axis, upto in promises.items():
            if abs(upto) > FARTHEST:
                raise BindError(
                    f"a promise up to {upto} on '{axis}' is beyond 10^18",
                    remedy="Give the point that the stream has really reached.",
                )
        self._punctuate(name, Told(promises))

    def punctuate_pattern(self, name: str, pattern: Pattern) -> None:
        """No more tuples that meet a pattern."""
        definition = self.manager.stream(name).definition
        if definition.revises:
            raise UnsupportedError(
                f"stream '{name}' says LATE REVISE: its punctuations are on the window attribute alone",
                remedy="Promise it of the whole stream, or create the stream with LATE DROP.",
            )
        try:
            told = told_by(pattern, definition.axes)
        except BadPatternError as error:
            raise BindError(str(error), remedy="Give the point that the stream has really reached.") from None
        self._punctuate(name, told)

    def _punctuate(self, name: str, told: Told) -> None:
        """Apply punctuations, or keep them behind the fed rows that wait."""
        self._ticks.refuse_inside("punctuate")
        stream = self.manager.stream(name)
        spool = self._fed(stream)
        if spool is None or not spool.punctuate(text_of(told), self._clock.now_us() // 1000, stream.last_batch):
            self._promise(name, told)

    def _has_unread(self, stream: StreamState) -> bool:
        spool = self._fed(stream)
        return spool is not None and spool.has_unread(stream.last_batch)

    def _apply_fed(self, stream: StreamState) -> bool:
        """Apply the punctuations before which all fed rows have been taken; whether there were any. A crash may have
        one applied again, which changes nothing."""
        spool, applied = self._fed(stream), False
        while spool is not None and (text := spool.next_punctuation(stream.last_batch)) is not None:
            self._promise(stream.name, told_in(text, stream.definition), applied=spool.pass_punctuation)
            applied = True
        return applied

    def _promise(
        self,
        name: str,
        told: Told,
        greatest: Mapping[str, int] | None = None,
        silences: Mapping[str, Silence] | None = None,
        applied: Callable[[], None] = lambda: None,
    ) -> None:
        """`greatest`: at the end of the input, the greatest points by axis. `silences`: what heartbeats have counted.
        `applied` is called after the commit."""
        self._ticks.refuse_inside("punctuate")
        stream = self.manager.stream(name)
        with self.jvm.watched():
            if stream.promises:
                self._ticks.catch_up(stream)
            with stream.batch_lock, stream.lock:
                self._homes.settle(stream, self.settings, bool(told.promises))
                self._journal.promise(stream, told, greatest, silences)
            applied()
            self._ticks.catch_up(stream)

    def _watch_time(self, stream: StreamState) -> None:
        """What moves a running stream's frontiers between micro-batches."""
        if not self.jvm.has_ended():
            self._apply_fed(stream)
            self._heartbeat(stream)
            if stream.definition.heartbeats:
                self._beat(stream)

    def _beat(self, stream: StreamState) -> None:
        """Have a silent stream go on by the wall clock, between micro-batches (HEARTBEAT AFTER)."""
        runner = self._runners.get(stream.id)
        is_silent = runner is not None and runner.is_silent() and not self._has_unread(stream)
        with stream.batch_lock:
            now_s, moved, counted = self._clock.monotonic_s(), {}, {}
            for p in stream.definition.heartbeats:
                assert p.heartbeat is not None
                silence = stream.silences.get(p.column, Silence())
                if not is_silent:
                    stream.silences[p.column] = silence.paused(now_s)
                    continue
                silence = silence.in_steps(now_s, p.heartbeat)
                upto = beat(stream.frontiers[p.column], p.slack, silence)
                if upto is not None and upto <= FARTHEST:
                    moved[p.column], counted[p.column] = upto, silence
            if moved:
                stream.metrics.heartbeats += 1
                self._promise(stream.name, Told(moved), silences=counted)

    def _heartbeat(self, stream: StreamState) -> None:
        """Move a silent stream on, between micro-batches (setting `heartbeat`)."""
        silence, now = self.settings["heartbeat"], self._clock.now_us()
        if silence == "off":
            return
        promises = {}
        with stream.batch_lock:
            for p in stream.definition.punctuated:
                value = stream.frontiers[p.column].value
                upto = heartbeat(now, stream.heard_us, int(silence), value) if p.type.is_timestamp else None
                if upto is not None:
                    promises[p.column] = upto
            if promises:
                self._promise(stream.name, Told(promises))

    def end_input(self, name: str) -> None:
        """Close every pane that holds a tuple, in every window it is in."""
        stream = self.manager.stream(name)
        promises, points = {}, {}
        for axis in stream.frontiers:
            if (greatest := stream.greatest(axis)) is not None:
                points[axis] = greatest
                windows = [q.plan.window for q in stream.active if q.axis == axis]
                ends = [w.closing(greatest) for w in windows]
                beyond = 2 if axis == ROW_NUM else 1
                promises[axis] = max([greatest + beyond, *ends])
        if not any(q.axis == ROW_NUM for q in stream.active):
            promises.pop(ROW_NUM, None)
        if promises:
            self._promise(name, Told(promises), points)

    # -- running -------------------------------------------------------------------------------

    def _runner(self, stream: StreamState) -> StreamRunner:
        runner = self._runners.get(stream.id)
        if runner is None:
            columnar = stream.dataframe is None and source_of(stream.definition).columnar(stream.definition)
            runner = self._runners[stream.id] = StreamRunner(
                stream,
                lambda: self._frame(stream),
                lambda df, batch_id: self._process(stream, df, batch_id, columnar),
                lambda: self.settings,
                self._ticks,
                self.jvm,
            )
        return runner

    def _frame(self, stream: StreamState) -> Any:
        if stream.dataframe is not None:
            return stream.dataframe
        self._fed(stream)
        return open_source(self.spark, stream.definition, self.settings, stream.directory / "spool")

    def _runnable(self) -> list[StreamState]:
        """Streams that some query reads, whose source is at hand and has to be read."""
        return [stream for stream in self._at_hand() if not _is_deposited(stream)]

    def _at_hand(self) -> list[StreamState]:
        """Streams that some query reads and whose source is at hand."""
        out = []
        for stream in self.manager.streams.values():
            detached = stream.definition.statement.source == DATAFRAME and stream.dataframe is None
            if stream.active and not detached:
                out.append(stream)
        return out

    def run_available(self, close: bool) -> None:
        """Read everything that is there; only when all of it was read does the input end, if it is to."""
        self._ticks.refuse_inside("run the streams")
        self._refuse_lost()
        with self._lifecycle.running_available() as refuse_interrupted, self.jvm.watched():
            self.jvm.raise_if_lost()
            streams = self._at_hand()
            for stream in streams:
                refuse_interrupted()
                self._ticks.retry(stream)
                if not _is_deposited(stream):
                    self._run_available(stream, refuse_interrupted)
                self._ticks.drain(stream)
            for stream in streams if close else []:
                self.end_input(stream.name)

    def _run_available(self, stream: StreamState, refuse_interrupted: Callable[[], None]) -> None:
        """A run for the rows between two punctuations each."""
        runner = self._runner(stream)
        runner.run_available(refuse_interrupted)
        while self._apply_fed(stream) and self._has_unread(stream):
            refuse_interrupted()
            runner.run_available(refuse_interrupted)

    def _start_streams(self) -> None:
        for stream in self._runnable():
            self._runner(stream).start()

    def start(self) -> None:
        self._ticks.refuse_inside("start the streams")
        with self._lifecycle.lock, self.jvm.watched():
            self._refuse_lost()
            if not self._lifecycle.may_start():
                return
            self.jvm.raise_if_lost()
            try:
                for stream in self._runnable():
                    stream.heard_us = self._clock.now_us()
                    self._ticks.retry(stream)
                self._start_streams()
            except BaseException:
                self._halt()
                raise
            self._supervisor = Supervisor(lambda: list(self._runners.values()), self._watch_time)
            self._lifecycle.started()

    def _refuse_lost(self) -> None:
        """Streams that were started have stopped where the JVM has ended: nothing runs, and nothing can."""
        self._lifecycle.refuse_closed()
        if self._lifecycle.phase is Phase.STARTED and self.jvm.has_ended():
            raise self.jvm.error()

    def stop(self) -> None:
        """Stop the streams; the answers to what was deposited are out, or the log says why not. Raises where they had
        stopped already, as their JVM ended."""
        self._ticks.refuse_inside("stop the streams")
        was_lost = self._lifecycle.phase is Phase.STARTED and self.jvm.has_ended()
        self._stop()
        if was_lost:
            raise self.jvm.error()

    def _stop(self) -> None:
        self._halt()
        for stream in self.manager.streams.values():
            try:
                self._ticks.drain(stream)
            except Exception as error:
                log.error("stream '%s' was stopped with answers due: %s", stream.name, error)

    def _halt(self) -> None:
        """No stream runs any more, neither started nor for what is available."""
        with self._lifecycle.lock:
            self._lifecycle.interrupt()
            if self._supervisor is not None:
                self._supervisor.stop()
                self._supervisor = None
            for runner in list(self._runners.values()):
                runner.stop()
            self._lifecycle.stopped()

    @property
    def is_running(self) -> bool:
        """Whether streams run that were started; none does where the JVM has ended."""
        return self._lifecycle.phase is Phase.STARTED and not self.jvm.has_ended()

    def close(self) -> None:
        """Stop, and let go of everything, whatever fails; a second call returns when the first is done."""
        self._ticks.refuse_inside("close the state directory")
        if not self._lifecycle.begin_closing():
            return
        with ExitStack() as last_first:
            last_first.callback(self._lifecycle.closed)
            last_first.callback(self._lock.release)
            last_first.callback(close_session, self.spark)
            last_first.callback(self.catalog.close)
            last_first.callback(self._finalizer)
            last_first.callback(self._ticks.close)
            last_first.callback(self._await_others)
            self._stop()

    def _await_others(self) -> None:
        """Calls of other threads that were under way when closing began; later ones are refused."""
        with self._feeding:
            for spool in self._spools.values():
                spool.close()
        with self.manager.changing:
            for stream in self.manager.streams.values():
                with stream.batch_lock:
                    pass

    # -- reading -------------------------------------------------------------------------------

    def answers(self, query: QueryState) -> pa.Table:
        """All retained answers, in window order; where they are revised, the rows that hold."""
        table = self._delivered(query)
        return net_answers(table, query.plan) if OP in table.column_names else table

    def revisions(self, query: QueryState) -> pa.Table:
        """All that was delivered and is retained, in order: op, revision, then the answers."""
        table = self._delivered(query)
        return revisions_of(table if OP in table.column_names else first_answers(table))

    def _schema(self, query: QueryState) -> pa.Schema:
        return delivered_schema(self.manager.stream(query.plan.scan.stream), query)

    def _delivered(self, query: QueryState) -> pa.Table:
        schema = self._schema(query)
        parts = self._answer_parts(query)
        while True:
            try:
                tables = [self.blocks.read_part(*part) for part in parts]
                return pa.concat_tables([schema.empty_table(), *tables])
            except StateError:
                # A tick may have retired a part since it was listed; one that is still listed is damaged.
                parts, listed = self._answer_parts(query), parts
                if parts == listed:
                    raise

    def _answer_parts(self, query: QueryState) -> list[tuple[str, int, int]]:
        rows = self.catalog.rows(
            "SELECT b.path, a.offset, a.length FROM answers a JOIN blocks b ON b.id = a.block"
            " WHERE a.query = ? ORDER BY a.id",
            (query.id,),
        )
        return [(row["path"], row["offset"], row["length"]) for row in rows]

    def answer(self, query: QueryState) -> pa.Table:
        """The answer to the latest window that was answered."""
        table = self.answers(query)
        if query.last_end is None:
            return table.slice(0, 0)
        if isinstance(query.plan.window, PartitionedWindow):
            return self._latest_part(query)
        ends = table.column("window_end").combine_chunks()
        points = np.asarray(ends.view(pa.int64()) if pa.types.is_timestamp(ends.type) else ends.cast(pa.int64()))
        return table.take(np.flatnonzero(points == query.last_end))

    def _latest_part(self, query: QueryState) -> pa.Table:
        """Partitions go on at their own pace: what was answered last."""
        parts = self._answer_parts(query)[-1:]
        table = pa.concat_tables([self._schema(query).empty_table(), *(self.blocks.read_part(*p) for p in parts)])
        return net_answers(table, query.plan) if OP in table.column_names else table

    def lookup(self, name: str, windows: object, ats: object) -> pa.Table:
        """A query's answers over other windows, from its synopsis; it sees every tick committed before."""
        self._lifecycle.refuse_closed()
        stream, query = self.manager.query(name)
        lengths, ends = pairs_of(windows, ats, query.plan.scan.attribute)
        with stream.lock, self.jvm.watched():
            apply_choice(stream, self.settings)
            return self._lookups.lookup(stream, query, lengths, ends)

    def snapshot(self, select: exp.Expr, text: str) -> pa.Table:
        """A one-time question over a window, from a synopsis that fits; it sees every tick committed before."""
        self._lifecycle.refuse_closed()
        with self.jvm.watched():
            plan = self.manager.bind_snapshot(select, text)
        stream = self.manager.stream(plan.scan.stream)
        with stream.lock, self.jvm.watched():
            apply_choice(stream, self.settings)
            fit = fitting(stream, plan, select, self.settings, text)
            try:
                return self._lookups.answer(fit.state, fit.asked(plan))
            finally:
                self._ticker.finisher.forget(plan)

    def fitted(self, select: exp.Expr, text: str) -> tuple[Finalise, StreamState, Fit]:
        """What would answer a one-time question."""
        self._lifecycle.refuse_closed()
        with self.jvm.watched():
            plan = self.manager.bind_snapshot(select, text)
        stream = self.manager.stream(plan.scan.stream)
        with stream.lock:
            return plan, stream, fitting(stream, plan, select, self.settings, text)

    def dead_letters(self, name: str) -> pa.Table:
        stream = self.manager.stream(name)
        rows = self.catalog.rows(
            "SELECT batch, reason, record, point, late_by, count FROM dead_letters WHERE stream = ? ORDER BY id",
            (stream.name,),
        )
        kind = stream.definition.attribute_type.arrow if stream.definition.attribute else pa.int64()
        point = pa.array([row["point"] for row in rows], pa.int64())
        return pa.table(
            {
                "batch": pa.array([row["batch"] for row in rows], pa.int64()),
                "reason": pa.array([row["reason"] for row in rows], pa.string()),
                "record": pa.array([row["record"] for row in rows], pa.string()),
                "window_attribute": point.view(kind) if pa.types.is_timestamp(kind) else point,
                "late_by": pa.array([row["late_by"] for row in rows], pa.int64()),
                "rows": pa.array([row["count"] for row in rows], pa.int64()),
            }
        )

    def dead_letter_counts(self, stream: StreamState) -> dict[str, int]:
        rows = self.catalog.rows("SELECT reason, count FROM dead_letter_counts WHERE stream = ?", (stream.name,))
        return {row["reason"]: row["count"] for row in rows}

    def select(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        with self.jvm.watched():
            return query_frame(self.spark, sql, tables)


def _mark_deposited(stream: StreamState) -> None:
    """Record that the stream is deposited into: a missing checkpoint is then no loss."""
    mark = stream.directory / DEPOSITED
    if not mark.exists():
        stream.directory.mkdir(parents=True, exist_ok=True)
        mark.touch()
        sync(stream.directory)


def _is_deposited(stream: StreamState) -> bool:
    """Whether the stream is deposited into and has nothing to read. With fed rows it is refused when run."""
    directory = stream.directory
    if stream.last_batch < 0 or not (directory / DEPOSITED).exists() or (directory / "checkpoint").exists():
        return False
    return not any((directory / "spool").glob("*feed-*"))


def _give_back(stream: StreamState) -> None:
    """Where synopses are too large for the driver its memory is dear; else taking it anew costs more (a sixth of the
    time of 100 queries)."""
    if any(state.synopsis.home is Home.SPARK for state in list(stream.synopses.values())):
        give_back()
