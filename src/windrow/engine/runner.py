"""Structured Streaming, one query per stream: run what is available, or keep running and restart what dies."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from windrow.engine.state import StreamState
from windrow.errors import ExecutionError, WindrowError
from windrow.settings import Settings

log = logging.getLogger("windrow")

FIRST_BACKOFF_S = 1.0
POLL_S = 0.2


class StreamRunner:
    """The streaming query of one stream. `start_query(available_now)` starts it and gives Spark's handle."""

    def __init__(
        self,
        stream: StreamState,
        open_frame: Callable[[], Any],
        process: Callable[[Any, int], None],
        settings: Callable[[], Settings],
    ):
        self.stream = stream
        self._open_frame = open_frame
        self._process = process
        self._settings = settings
        self._handle: Any = None
        self._failure: BaseException | None = None
        self._backoff_s = FIRST_BACKOFF_S
        self._retry_at_s = 0.0

    def _batch(self, df: Any, batch_id: int) -> None:
        try:
            self._process(df, batch_id)
            self._backoff_s = FIRST_BACKOFF_S
        except BaseException as error:
            self._failure = error
            raise

    def _start(self, available_now: bool) -> Any:
        self._failure = None
        partitions = self._settings().integer("shuffle_partitions")
        frame = self._open_frame()
        if partitions:
            frame.sparkSession.conf.set("spark.sql.shuffle.partitions", partitions)
        writer = frame.writeStream.foreachBatch(self._batch).queryName(f"windrow-{self.stream.name}-{self.stream.id}")
        writer = writer.option("checkpointLocation", str(self.stream.directory / "checkpoint"))
        if available_now:
            return writer.trigger(availableNow=True).start()
        interval_us = self._settings().integer("trigger_interval")
        return writer.trigger(processingTime=f"{interval_us} microseconds").start()

    def run_available(self) -> None:
        """Process everything available now; raises what went wrong, with nothing lost."""
        self._handle = self._start(True)
        try:
            while not self._handle.awaitTermination(POLL_S):
                pass
        except KeyboardInterrupt:
            self.stop()
            raise
        except Exception as error:
            raise self._error(error) from error
        finally:
            self._handle = None

    def _error(self, error: BaseException) -> WindrowError:
        if isinstance(self._failure, WindrowError):
            return self._failure
        cause = self._failure or error
        first = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        return ExecutionError(
            f"stream '{self.stream.name}' stopped: {first}", remedy="Mend the cause and run again; nothing is lost."
        )

    def start(self) -> None:
        if self._handle is None or not self._handle.isActive:
            self._handle = self._start(False)

    def watch(self) -> None:
        """Restart a query that died, after a pause that doubles up to the setting."""
        handle = self._handle
        if handle is None or handle.isActive:
            return
        now = time.monotonic()
        if self._retry_at_s == 0.0:
            error = self._error(handle.exception() or RuntimeError("it ended"))
            self.stream.metrics.last_error = str(error)
            log.error("%s Restarting in %.0f s.", error, self._backoff_s)
            self._retry_at_s = now + self._backoff_s
            self._backoff_s = min(2 * self._backoff_s, self._settings().integer("restart_backoff") / 1e6)
        elif now >= self._retry_at_s:
            self._retry_at_s = 0.0
            self.stream.metrics.restarts += 1
            try:
                self._handle = self._start(False)
            except Exception as error:
                log.error("stream '%s' did not restart: %s", self.stream.name, error)

    @property
    def is_active(self) -> bool:
        return self._handle is not None and bool(self._handle.isActive)

    def stop(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            try:
                handle.stop()
            except Exception as error:
                log.warning("stream '%s' did not stop cleanly: %s", self.stream.name, error)


class Supervisor:
    """Watches running streams from a thread of its own."""

    def __init__(self, runners: Callable[[], list[StreamRunner]]):
        self._runners = runners
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="windrow-supervisor", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(POLL_S):
            for runner in self._runners():
                runner.watch()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)
