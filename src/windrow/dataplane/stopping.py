"""Stops streaming queries between micro-batches.

Spark's own stop() interrupts a query wherever it is. What is interrupted logs stack traces (broadcasts, processes that
Hadoop starts), and the error of the micro-batch may overflow the JVM's stack (`BatchStopped`). So a query is told to
begin no more triggers, and is interrupted only while it waits for the next one, or if its micro-batch takes too long.
"""

from __future__ import annotations

import logging
import time
from typing import Any

log = logging.getLogger("windrow")

PATIENCE_S = 10.0
"""How long the micro-batch under way may take to end before it is interrupted."""

LOOK_S = 0.05


class BatchStopped(Exception):
    """What a micro-batch raises to Spark if its query has been told to end.

    Spark takes it for an interruption by its text, which it finds by a regular expression that needs stack for every
    character. The text of a real error, with its traceback, would overflow a stack of the JVM's default size of 1 MB.
    """

    def __init__(self) -> None:
        super().__init__("py4j.protocol.Py4JJavaError: An error occurred while calling: java.lang.InterruptedException")


def begin_no_more(query: Any) -> None:
    """Tell a query to end after its trigger under way, as Spark itself ends one with the trigger AvailableNow."""
    try:
        state = query._jsq.streamingQuery().state()
        of_state = state.get().getClass()
        ended = of_state.getClassLoader().loadClass(of_state.getPackageName() + ".TERMINATED$")
        state.set(ended.getField("MODULE$").get(None))
    except Exception as error:  # an internal of Spark's: stop() does without
        log.debug("a streaming query cannot be told to end: %s", error)


def stop_query(query: Any) -> None:
    """Stop a query that was told to begin no more triggers."""
    try:
        until_s = time.monotonic() + PATIENCE_S
        while _works(query) and time.monotonic() < until_s:
            time.sleep(LOOK_S)
    finally:
        query.stop()


def _works(query: Any) -> bool:
    """Whether the query has not ended, nor waits for its next trigger. (`isActive` is False before it has ended.)"""
    if not query._jsq.streamingQuery().queryExecutionThread().isAlive():
        return False
    status = query.status
    return bool(status["isTriggerActive"]) or not status["message"].startswith("Waiting for next")


def log_no_stops() -> None:
    """Keep Py4J from logging the stack of a `BatchStopped`."""
    logging.getLogger("py4j.clientserver").addFilter(_is_no_stop)


def _is_no_stop(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], BatchStopped))
