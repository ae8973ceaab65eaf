"""Delivery of a continuous query's changes to its subscribers and its sink, around the commit of a tick batch.

Staging sinks stage before the commit and publish after it (exactly once). Plain sinks and subscribers are called before
it (at least once, with a key). A sink that fails or blocks fails the tick, which is tried again; other queries go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from windrow.dataplane.sinks import AnswerBatch, Sink
from windrow.engine.plans.commits import PlanCommits
from windrow.engine.plans.query import ContinuousQuery, Subscriber
from windrow.engine.ticks.couriers import run_errands
from windrow.errors import SinkError
from windrow.settings import Settings

log = logging.getLogger("windrow")


class PlanDelivery:
    """Calls sinks and subscribers within the timeout."""

    def __init__(self, commits: PlanCommits, settings: Callable[[], Settings]):
        self._commits = commits
        self._settings = settings

    def send(self, query: ContinuousQuery, rows: pa.Table, seq: int) -> str | None:
        """Send or stage the rows of a tick batch. Return the stage for the commit, if any."""
        if not rows.num_rows or (query.sink is None and not query.subscribers):
            return None
        batch = AnswerBatch(query.name, rows, f"{query.name}@{seq}")
        staged: str | None = self._call(query, partial(_send, query, batch, seq))
        return staged

    def publish(self, query: ContinuousQuery) -> None:
        """Publish the committed stages that the sink may not show yet."""
        sink = query.sink
        if sink is None or isinstance(sink, Sink):
            return
        for entry, stage in query.unpublished:
            self._call(query, partial(sink.publish, stage))
            self._commits.published(entry)
            query.unpublished = query.unpublished[1:]

    def _call(self, query: ContinuousQuery, call: Callable[[], Any]) -> Any:
        timeout_s = self._settings().seconds("sink_timeout")
        errand = run_errands([call], timeout_s)[0]
        if errand.error is not None:
            query.metrics.last_sink_error = str(errand.error)
            raise errand.error
        if not errand.has_ended:
            query.metrics.sink_timeouts += 1
            raise SinkError(
                f"a call of the sink or the subscribers of query '{query.name}' takes longer than {timeout_s:g} s"
                " (sink_timeout)",
                remedy="Its changes wait, and are tried again. Repair the sink, or raise sink_timeout.",
            )
        return errand.result


def _send(query: ContinuousQuery, batch: AnswerBatch, seq: int) -> str | None:
    for subscriber in query.subscribers:
        _notify(query, subscriber, batch)
    sink = query.sink
    if sink is None:
        return None
    if isinstance(sink, Sink):
        sink.write(batch)
        return None
    return sink.stage(batch, seq)


def _notify(query: ContinuousQuery, subscriber: Subscriber, batch: AnswerBatch) -> None:
    try:
        subscriber(batch)
    except BaseException as error:  # also SystemExit: a subscriber does not stop the query
        query.metrics.callback_errors += 1
        query.metrics.last_callback_error = f"{type(error).__name__}: {error}"
        log.exception("a subscriber of query '%s' raised; the changes stay in q.changes()", query.name)
