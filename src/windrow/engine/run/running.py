"""Runs streams: over the data available now, or in the background until they are stopped."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from windrow.dataplane.sources import open_source
from windrow.dataplane.sources.registry import DATAFRAME, source_of
from windrow.dataplane.streaming_frames import attaching
from windrow.engine.run.inputs import Inputs, is_deposited
from windrow.engine.run.lifecycle import Phase
from windrow.engine.run.opening import OpenState
from windrow.engine.run.runner import StreamRunner, Supervisor
from windrow.engine.run.stream_ticks import StreamTicks
from windrow.engine.run.stream_time import StreamTime
from windrow.engine.state import StreamState
from windrow.errors import ExecutionError, SourceError, WindrowError

log = logging.getLogger("windrow")


class RunningStreams:
    """Owns the runner of each stream, and the supervisor that restarts failed streams."""

    def __init__(self, opened: OpenState, ticks: StreamTicks, inputs: Inputs, time: StreamTime):
        self._opened = opened
        self._ticks = ticks
        self._inputs = inputs
        self._time = time
        self._runners: dict[int, StreamRunner] = {}
        self._supervisor: Supervisor | None = None

    def _runner(self, stream: StreamState) -> StreamRunner:
        runner = self._runners.get(stream.id)
        if runner is None:
            columnar = stream.dataframe is None and source_of(stream.definition).columnar(stream.definition)
            runner = self._runners[stream.id] = StreamRunner(
                stream,
                lambda: self._frame(stream),
                self._inputs,
                columnar,
                lambda: self._opened.settings,
                self._ticks,
                self._opened.jvm,
            )
        return runner

    def _frame(self, stream: StreamState) -> Any:
        if stream.dataframe is not None:
            return stream.dataframe
        self._inputs.fed(stream)
        return open_source(self._opened.spark, stream.definition, self._opened.settings, stream.directory / "spool")

    def _runnable(self) -> list[StreamState]:
        """Attached streams with a query that are not deposited into."""
        return [stream for stream in self._at_hand() if not is_deposited(stream)]

    def _at_hand(self) -> list[StreamState]:
        """Streams that are read, except DataFrame streams that are not attached, and derived ones, which run with the
        streams of their queries."""
        found = (s for s in self._opened.manager.streams.values() if not s.definition.is_derived)
        return [s for s in found if s.is_read and not is_detached(s)]

    def _refuse_detached(self) -> None:
        """Raise if a query reads a stream whose DataFrame is not attached: it would never get an answer."""
        for stream in self._opened.manager.streams.values():
            if stream.is_read and is_detached(stream) and not is_deposited(stream):
                error = detached(stream)
                stream.metrics.last_error = str(error)
                raise error

    def run_available(self, close: bool) -> None:
        """Read all available data of every stream; with `close`, then end the input. A stream that fails does not hold
        up the others: its error is raised when they are done, and its input does not end."""
        self._ticks.refuse_inside("run the streams")
        self._refuse_lost()
        with self._opened.lifecycle.running_available() as refuse_interrupted, self._opened.jvm.watched():
            self._opened.jvm.raise_if_lost()
            self._refuse_detached()
            done, failed = list[StreamState](), list[WindrowError]()
            for streams in self._together():
                refuse_interrupted()
                for stream, error in zip(streams, self._run_together(streams, refuse_interrupted), strict=True):
                    if error is None:
                        done.append(stream)
                    else:
                        self._opened.jvm.raise_if_lost(error)
                        refuse_interrupted()
                        failed.append(error)
            for stream in done if close else []:
                self._time.end_input(stream.name)
            if failed:
                raise failed[0]

    def _together(self) -> list[list[StreamState]]:
        """The streams to run, in groups that continuous queries connect: a join needs the tuples of all its streams
        at about the same time, or must keep those of one until the others come."""
        groups = [[stream] for stream in self._at_hand()]
        for query in self._opened.plans.all():
            names = {name.lower() for name in query.read_streams}
            met = [group for group in groups if any(stream.name.lower() in names for stream in group)]
            if len(met) > 1:
                groups = [group for group in groups if group not in met]
                groups.append([stream for group in met for stream in group])
        return groups

    def _run_together(
        self, streams: list[StreamState], refuse_interrupted: Callable[[], None]
    ) -> list[WindrowError | None]:
        """Run streams over their available data, at the same time. Return the error of each."""
        begun = list[Any]()
        try:
            for stream in streams:
                begun.append(self._attempted(stream, partial(self._begin, stream, refuse_interrupted)))
            found = list[WindrowError | None]()
            for stream, run in zip(streams, begun, strict=True):
                if not isinstance(run, WindrowError):
                    run = self._attempted(stream, partial(self._finish, stream, run, refuse_interrupted))
                found.append(run)
            return found
        except BaseException:
            for stream in streams[: len(begun)]:
                if not is_deposited(stream):
                    self._runner(stream).stop()
            raise

    def _attempted(self, stream: StreamState, step: Callable[[], Any]) -> Any:
        """What a step of a stream returns, or its error."""
        try:
            with _noted(stream):
                return step()
        except (SourceError, ExecutionError) as error:
            return error

    def _begin(self, stream: StreamState, refuse_interrupted: Callable[[], None]) -> Any:
        self._ticks.retry(stream)
        return None if is_deposited(stream) else self._runner(stream).begin_available(refuse_interrupted)

    def _finish(self, stream: StreamState, run: Any, refuse_interrupted: Callable[[], None]) -> None:
        """Wait for a run; run again for the fed rows behind each punctuation."""
        if run is not None:
            runner = self._runner(stream)
            runner.await_available(run)
            while self._time.apply_fed(stream) and self._inputs.has_unread(stream):
                runner.await_available(runner.begin_available(refuse_interrupted))
        self._ticks.drain(stream)

    def start_runners(self) -> None:
        for stream in self._runnable():
            with _noted(stream):
                self._runner(stream).start()

    def start(self) -> None:
        self._ticks.refuse_inside("start the streams")
        with self._opened.lifecycle.lock, self._opened.jvm.watched():
            self._refuse_lost()
            if not self._opened.lifecycle.may_start():
                return
            self._opened.jvm.raise_if_lost()
            self._refuse_detached()
            try:
                for stream in self._runnable():
                    stream.heard_us = self._opened.clock.now_us()
                    self._ticks.retry(stream)
                self.start_runners()
            except BaseException:
                self._halt()
                raise
            self._supervisor = Supervisor(lambda: list(self._runners.values()), self._watch_time)
            self._opened.lifecycle.started()
            atexit.register(self.stop_all)

    def _watch_time(self, stream: StreamState) -> None:
        """Apply fed punctuations and heartbeats between micro-batches."""
        if self._opened.lifecycle.phase is Phase.STARTED and not self._opened.jvm.has_ended():
            self._time.apply_fed(stream)
            self._time.heartbeat(stream)
            if stream.definition.heartbeats:
                self._beat(stream)

    def _beat(self, stream: StreamState) -> None:
        runner = self._runners.get(stream.id)
        is_silent = runner is not None and runner.is_silent() and not self._inputs.has_unread(stream)
        self._time.beat(stream, is_silent)

    def _refuse_lost(self) -> None:
        """Raise if the JVM of started streams has ended, or the engine is closed."""
        self._opened.lifecycle.refuse_closed()
        if self._opened.lifecycle.phase is Phase.STARTED and self._opened.jvm.has_ended():
            raise self._opened.jvm.error()

    def stop(self) -> None:
        """Stop the streams and deliver all due answers; a failure to do so is logged. Raises if the streams had stopped
        already because their JVM ended."""
        self._ticks.refuse_inside("stop the streams")
        was_lost = self._opened.lifecycle.phase is Phase.STARTED and self._opened.jvm.has_ended()
        self.stop_all()
        if was_lost:
            raise self._opened.jvm.error()

    def stop_all(self) -> None:
        self._halt()
        for stream in self._opened.manager.streams.values():
            try:
                self._ticks.drain(stream)
            except Exception as error:
                stream.metrics.last_error = str(error)
                log.error("stream '%s' was stopped with answers due: %s", stream.name, error)

    def _halt(self) -> None:
        """Stop all streams, those in the background and a `run_available`."""
        with self._opened.lifecycle.lock:
            atexit.unregister(self.stop_all)
            self._opened.lifecycle.interrupt()
            if self._supervisor is not None:
                self._supervisor.stop()
                self._supervisor = None
            for runner in list(self._runners.values()):
                runner.begin_stop()
            for runner in list(self._runners.values()):
                runner.stop()
            self._opened.lifecycle.stopped()

    @property
    def is_running(self) -> bool:
        """Whether streams run in the background, or wait to be restarted; False if the JVM has ended."""
        return self._opened.lifecycle.phase is Phase.STARTED and not self._opened.jvm.has_ended()

    def condition(self, stream: StreamState) -> str:
        """What a stream does now, in words, for SHOW STREAMS."""
        if is_detached(stream):
            return f"detached: call wr.stream('{stream.name}', …) with its DataFrame again"
        plan = self._opened.plans.behind(stream)
        if plan is not None and plan.error is not None:
            return f"suspended: {plan.error}"
        if not stream.is_read and plan is None:
            return "idle: no query reads it"
        if self._opened.jvm.has_ended():
            return "stopped: the Spark JVM has ended"
        if not self.is_running:
            return "stopped"
        if is_deposited(stream) or plan is not None:
            return "running"  # deposit() brings its rows
        runner = self._runners.get(stream.id)
        return "starting" if runner is None else runner.condition()

    def start_new(self) -> None:
        """Start the streams that have got a query, if streams run in the background."""
        with self._opened.lifecycle.lock:
            if self.is_running:
                self.start_runners()

    def forget(self, stream: StreamState) -> None:
        """Stop the runner of a dropped stream."""
        with self._opened.lifecycle.lock:
            runner = self._runners.pop(stream.id, None)
            if runner is not None:
                runner.stop()


@contextmanager
def _noted(stream: StreamState) -> Iterator[None]:
    """Note an error as the stream's last one. `stop` interrupts without an error of the stream."""
    try:
        yield
    except WindrowError as error:
        if not stream.stopping.is_set():
            stream.metrics.last_error = str(error)
        raise


def is_detached(stream: StreamState) -> bool:
    """Whether the stream waits for its DataFrame, which is not kept in the state directory."""
    return stream.definition.statement.source == DATAFRAME and stream.dataframe is None


def detached(stream: StreamState) -> SourceError:
    readers = ", ".join([*(query.name for query in stream.active), *sorted(stream.readers)])
    return SourceError(
        f"the DataFrame of stream '{stream.name}' is not attached, so its queries ({readers}) would get no answers",
        remedy=f"Call {attaching(stream.definition)} first, or DROP the queries that read it.",
    )
