"""Runs one Structured Streaming query per stream, once over the available data or in the background with restarts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Generic, TypeVar

from windrow.dataplane.jvm import Jvm
from windrow.dataplane.stopping import PATIENCE_S, BatchStopped, begin_no_more, log_no_stops, stop_query
from windrow.engine.run.inputs import Inputs
from windrow.engine.run.lifecycle import interrupted
from windrow.engine.run.stream_ticks import StreamTicks
from windrow.engine.state import StreamState
from windrow.errors import ExecutionError, StateError, WindrowError, first_line
from windrow.logs import log_event
from windrow.settings import Settings

log = logging.getLogger("windrow")

FULL_DISK = ("No space left on device", "Disk quota exceeded")
FIRST_BACKOFF_S = 1.0
POLL_S = 0.2
INTERRUPT_S = 1.0
"""How long a cancelled micro-batch waits for `stop`: PySpark's handler of Ctrl-C cancels all jobs before it raises
KeyboardInterrupt. (Windrow's own session is without that handler.)"""

REDELIVER_S = 1.0
"""The pause before answers whose delivery is suspended are tried again."""

_starts = count(1)

T = TypeVar("T")


class StreamRunner:
    """The streaming query of one stream. `columnar`: its source reads only the columns that a job needs."""

    def __init__(
        self,
        stream: StreamState,
        open_frame: Callable[[], Any],
        inputs: Inputs,
        columnar: bool,
        settings: Callable[[], Settings],
        ticks: StreamTicks,
        jvm: Jvm,
    ):
        self.stream = stream
        self._jvm = jvm
        self._open_frame = open_frame
        self._inputs = inputs
        self._columnar = columnar
        self._settings = settings
        self._ticks = ticks
        self._guard = threading.RLock()
        self._handle: Any = None
        self._failure: BaseException | None = None
        self._backoff_s = FIRST_BACKOFF_S
        self._retry_at_s = 0.0
        self._failures_seen = 0
        self._retick_at_s: float | None = None
        self._has_looked = False
        self._redeliver_at_s = 0.0
        self._is_ending = threading.Event()
        """Set when the streaming query has been told to end."""
        log_no_stops()

    def _batch(self, df: Any, batch_id: int) -> None:
        try:
            if not self.stream.stopping.is_set():
                self._inputs.process(self.stream, df, batch_id, self._columnar)
                self._backoff_s = FIRST_BACKOFF_S
                return
        except BaseException as error:
            self._failure = error
            if not self.stream.stopping.wait(INTERRUPT_S if _is_cancelled(error) else 0):
                raise
        self._is_ending.wait(PATIENCE_S)
        raise BatchStopped from None

    def _start(self, available_now: bool) -> Any:
        self._failure, self._has_looked = None, False
        checkpoint = self.stream.directory / "checkpoint"
        if self.stream.last_batch >= 0 and not checkpoint.exists():
            # Spark would number its micro-batches from 0 again, and those up to `last_batch` would be skipped.
            raise StateError(
                f"stream '{self.stream.name}' has micro-batches, but its checkpoint {checkpoint} is missing",
                remedy="If it was filled by deposit(), continue with deposit(). If it was run, restore the state"
                " directory from a copy. Or DROP STREAM and create it again.",
            )
        self.stream.stopping.clear()
        self._is_ending.clear()
        partitions = self._settings().integer("shuffle_partitions")
        frame = self._open_frame()
        if partitions:
            frame.sparkSession.conf.set("spark.sql.shuffle.partitions", partitions)
        # Another state directory in the same session may have such a stream, too.
        name = f"windrow-{self.stream.name}-{self.stream.id}-{next(_starts)}"
        writer = frame.writeStream.foreachBatch(self._batch).queryName(name)
        writer = writer.option("checkpointLocation", str(checkpoint))
        log_event("stream_started", "stream '{stream}' has started", stream=self.stream.name)
        if available_now:
            return writer.trigger(availableNow=True).start()
        interval_us = self._settings().integer("trigger_interval")
        return writer.trigger(processingTime=f"{interval_us} microseconds").start()

    def begin_available(self, refuse_interrupted: Callable[[], None]) -> Any:
        """Begin to process everything available now; `await_available` waits for the run that is returned."""
        with self._guard:
            refuse_interrupted()
            starting = _CallApart(lambda: self._start(True))
            try:
                self._handle = starting.result()
            except KeyboardInterrupt:
                self._handle = starting.result()
                self.stop()
                raise
            return self._handle

    def await_available(self, handle: Any) -> None:
        """Wait until a run has processed everything. Raises the error of a failed micro-batch, or `interrupted` if it
        was stopped; nothing is lost."""
        try:
            _CallApart(handle.awaitTermination).result()
        except KeyboardInterrupt:
            self.stop()
            raise
        except Exception as error:
            if self.stream.stopping.is_set():
                raise interrupted() from error
            raise self._error(error) from error
        finally:
            with self._guard:
                self._handle = None
        if self.stream.stopping.is_set():
            raise interrupted()

    def _error(self, error: BaseException) -> WindrowError:
        """The error to report for an error of Spark: that of the micro-batch, if that ended the stream."""
        if self._jvm.is_lost():
            return self._jvm.error()
        cause = self._failure or error
        first = first_line(cause)
        full = next((sign for sign in FULL_DISK for one in _chain(cause) if sign in str(one)), None)
        if isinstance(cause, WindrowError) and (full is None or full in first):
            return cause
        if full is not None or isinstance(cause, OSError):
            return StateError(
                f"stream '{self.stream.name}' stopped: {full or first}",
                remedy="Fix the disk of the state directory, or of Spark (spark.local.dir); nothing is lost.",
            )
        return ExecutionError(
            f"stream '{self.stream.name}' stopped: {first}", remedy="Fix the cause and run again; nothing is lost."
        )

    def start(self) -> None:
        with self._guard:
            if self._handle is None or not self._handle.isActive:
                self._handle = self._start(False)

    def is_silent(self) -> bool:
        """Whether the streaming query runs and found no data at its last trigger. False at the first call after its
        first trigger: silence counts from then on, since data may have been waiting before."""
        with self._guard:
            if self._handle is None or not self._handle.isActive:
                return False
            status, has_looked = self._handle.status, self._has_looked
            self._has_looked = has_looked or status["message"].startswith("Waiting for")
            return has_looked and not status["isDataAvailable"]

    def watch(self) -> None:
        """Restart a failed streaming query or tick after a pause, which doubles up to the setting `restart_backoff`. If
        the JVM has ended, log it once and stop."""
        with self._guard:
            handle = self._handle
            if handle is None:
                return
            try:
                if handle.isActive:
                    self._watch_ticks(time.monotonic())
                else:
                    self._watch_query(handle, time.monotonic())
            except Exception:
                if not self._jvm.is_lost():
                    raise
                self._handle, error = None, self._jvm.error()
                self.stream.metrics.last_error = str(error)
                log.error("stream '%s' has stopped: %s", self.stream.name, error)

    def _longest_pause_s(self) -> float:
        return self._settings().integer("restart_backoff") / 1e6

    def _watch_query(self, handle: Any, now: float) -> None:
        if self._retry_at_s == 0.0:
            self._put_off(self._error(handle.exception() or RuntimeError("it ended")), now)
        elif now >= self._retry_at_s:
            self._retry_at_s = 0.0
            self.stream.metrics.restarts += 1
            try:
                self._handle = self._start(False)
            except Exception as error:
                self._put_off(self._error(error), now)

    def _put_off(self, error: WindrowError, now: float) -> None:
        """Note the error, and restart after a pause."""
        self.stream.metrics.last_error = str(error)
        log.error("%s Restarting in %.0f s.", error, self._backoff_s)
        self._retry_at_s = now + self._backoff_s
        self._backoff_s = min(2 * self._backoff_s, self._longest_pause_s())

    def condition(self) -> str:
        """What the streaming query does under `start()`, in words."""
        if self._retry_at_s:
            wait_s = max(0.0, self._retry_at_s - time.monotonic())
            return f"failed, restarts in {wait_s:.0f} s: {(self.stream.metrics.last_error or '').splitlines()[0]}"
        return "stopped" if self._handle is None else "running"

    def _watch_ticks(self, now: float) -> None:
        """Retry a failed tick if no micro-batch comes that would retry it."""
        failures = self._ticks.failures(self.stream)
        if failures != self._failures_seen:
            self._failures_seen = failures
            error = self._ticks.error(self.stream)
            if error is not None:
                self.stream.metrics.last_error = str(error)
            pause_s = min(FIRST_BACKOFF_S * 2.0 ** min(failures - 1, 30), self._longest_pause_s())
            self._retick_at_s = now + pause_s if failures else None
        elif self._retick_at_s is not None and now >= self._retick_at_s:
            self._retick_at_s = None
            error = self._ticks.retry(self.stream)
            log.error("stream '%s' tries to answer again after: %s", self.stream.name, error)
        elif not failures and now >= self._redeliver_at_s:
            self._redeliver_at_s = now + REDELIVER_S
            if any(query.delivery_error is not None for query in self.stream.queries.values()):
                self._ticks.submit(self.stream)

    def begin_stop(self) -> None:
        """Take no more micro-batches; the one under way goes on."""
        with self._guard:
            self._retry_at_s = 0.0
            if self._handle is not None and not self.stream.stopping.is_set():
                self.stream.stopping.set()
                if not self._jvm.has_ended():
                    begin_no_more(self._handle)
                self._is_ending.set()

    def stop(self) -> None:
        with self._guard:
            self.begin_stop()
            handle, self._handle = self._handle, None
        if handle is not None and not self._jvm.has_ended():
            try:
                stop_query(handle)
            except Exception as error:
                log.warning("stream '%s' did not stop cleanly: %s", self.stream.name, error)
            log_event("stream_stopped", "stream '{stream}' has stopped", stream=self.stream.name)


class Supervisor:
    """Watches running streams in its own thread."""

    def __init__(self, runners: Callable[[], list[StreamRunner]], heartbeat: Callable[[StreamState], None]):
        self._runners = runners
        self._heartbeat = heartbeat
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="windrow-supervisor", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(POLL_S):
            for runner in self._runners():
                try:
                    runner.watch()
                    self._heartbeat(runner.stream)
                except Exception:
                    log.exception("stream '%s' could not be watched", runner.stream.name)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class _CallApart(Generic[T]):
    """A call of the JVM in a thread of its own.

    PySpark's handler of Ctrl-C calls the JVM from the main thread, so it must not interrupt a call of that thread.
    """

    def __init__(self, call: Callable[[], T]):
        self._call = call
        self._has_ended = threading.Event()
        self._results, self._errors = list[T](), list[Exception]()
        threading.Thread(target=self._run, name="windrow-run-available", daemon=True).start()

    def _run(self) -> None:
        try:
            self._results.append(self._call())
        except Exception as error:
            self._errors.append(error)
        finally:
            self._has_ended.set()

    def result(self) -> T:
        """Wait for the call; return its result, or raise its error. Ctrl-C ends the wait, not the call."""
        while not self._has_ended.wait(POLL_S):
            pass
        if self._errors:
            raise self._errors[0]
        return self._results[0]


def _is_cancelled(error: BaseException) -> bool:
    """Whether somebody cancelled the job of a micro-batch."""
    return any("SPARK_JOB_CANCELLED" in str(one) for one in _chain(error))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
