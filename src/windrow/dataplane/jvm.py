"""The JVM under a Spark session: whether it is alive, the error when it has ended, and how PySpark forgets it.

A JVM may be killed, or exit when it is out of memory (`session.java_options`). Then calls fail in many ways (Py4J's
errors, closed sockets, broken Arrow streams). All of these become one `SparkEndedError`. Committed state is safe, and
opening the state directory again starts a new JVM.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from subprocess import Popen
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession, SQLContext

from windrow.errors import ExecutionError, SparkEndedError, WindrowError

OUT_OF_MEMORY = (3, 52)
"""Exit codes: of the JVM's option ExitOnOutOfMemoryError, and of Spark when a task's thread is out of memory."""

DYING_S = 10.0
"""How long to wait for the end of a JVM that no longer answers: its sockets close before it exits."""


_TOLD_BY_US = ("Exception while sending command.", "There was an exception while executing the Python Proxy")


class Jvm:
    """The JVM of one session, known by its process."""

    def __init__(self, spark: SparkSession):
        gateway = SparkContext._gateway
        assert gateway is not None
        self._process: Popen[str] | None = gateway.proc
        self._view = gateway.jvm
        self.pid = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]

    def has_ended(self) -> bool:
        """Whether the process is gone. This does not call the JVM."""
        if self._process is not None:
            return self._process.poll() is not None
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return False

    def is_lost(self) -> bool:
        """Whether the JVM has ended or is about to. Use it after a call has failed."""
        if self.has_ended():
            return True
        try:
            self._view.java.lang.System.nanoTime()
        except Exception:
            until = time.monotonic() + DYING_S
            while not self.has_ended() and time.monotonic() < until:
                time.sleep(0.02)
        return self.has_ended()

    def error(self) -> SparkEndedError:
        """The error that says that the JVM has ended, why, and what to do."""
        code = None if self._process is None else self._process.poll()
        remedy = (
            "Nothing that was committed is lost: close() and open the state directory again. That starts a new JVM"
            " (if you passed your own Spark session, pass a new one) and continues after the last commit."
        )
        if code in OUT_OF_MEMORY:
            remedy += " Raise the setting driver_memory, or use smaller micro-batches."
        return SparkEndedError(f"the Spark JVM (process {self.pid}) has ended{_reason(code)}", remedy=remedy)

    def raise_if_lost(self, error: BaseException | None = None) -> None:
        """Raise SparkEndedError if the JVM has ended."""
        if self.is_lost() if error is not None else self.has_ended():
            raise self.error() from error

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Turn errors inside into SparkEndedError if the JVM has ended."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, WindrowError) or isinstance(error, ExecutionError):
                self.raise_if_lost(error)
            raise


def _reason(code: int | None) -> str:
    if code is None:
        return ""
    if code in OUT_OF_MEMORY:
        return ": it ran out of memory"
    if code < 0:
        return f": it was killed ({signal.Signals(-code).name})"
    return f" with exit code {code}"


def quieten(context: SparkContext) -> None:
    """For Windrow's own JVM: keep PySpark from printing stacks of errors that are also raised, or that do not matter.

    Py4J logs a failed call, or what a micro-batch raised, to the root logger before it raises it. The server of
    accumulators prints that its only client has gone.
    """
    server: Any = context._accumulatorServer
    as_before = server.handle_error

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError):
            as_before(request, client_address)

    server.handle_error = handle_error
    for name in (None, "py4j.clientserver"):
        logging.getLogger(name).addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_TOLD_BY_US)


def forget_ended() -> bool:
    """Let PySpark forget a JVM that has ended, so that this process can start another. Return whether there was one."""
    gateway = SparkContext._gateway
    process: Popen[str] | None = None if gateway is None else gateway.proc
    if gateway is None or process is None or process.poll() is None:
        return False
    context = SparkContext._active_spark_context
    if context is not None:
        context._jsc = None
        with suppress(Exception):
            context._accumulatorServer.shutdown()
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SQLContext._instantiatedContext = None
    return True
