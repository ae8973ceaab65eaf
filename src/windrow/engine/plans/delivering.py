"""Delivery of a continuous query's changes to its subscribers and its sink, around the commit of a tick batch.

Staging sinks stage before the commit and publish after it (exactly once). Plain sinks and subscribers are called before
it (at least once, with a key). A sink that fails or blocks fails the tick, which is tried again; other queries go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pyarrow as pa

from windrow.crash import crash_point
from windrow.dataplane.sinks import AnswerBatch, Sink
from windrow.engine.plans.commits import PlanCommits
from windrow.engine.plans.query import ContinuousQuery, Subscriber
from windrow.engine.ticks.couriers import run_errands
from windrow.engine.ticks.delivery import call_subscriber, sweep
from windrow.errors import SinkError
from windrow.settings import Settings

log = logging.getLogger("windrow")


class PlanDelivery:
    """Calls sinks and subscribers within the timeout."""

    def __init__(self, commits: PlanCommits, settings: Callable[[], Settings]):
        self._commits = commits
        self._settings = settings

    def recover(self, queries: Iterable[ContinuousQuery]) -> None:
        """Publish committed stages after opening, and remove stages that no commit names. A sink that fails does not
        prevent opening: its stages stay in the outbox, and are published before it stages anything more."""
        for query in queries:
            try:
                self.publish(query)
            except Exception as error:
                log.error("changes of query '%s' wait to be published: %s", query.name, error)
            if not query.unshown:
                sweep(query)

    def send(
        self, query: ContinuousQuery, rows: pa.Table, shown: pa.Table | None, seq: int, part: str = ""
    ) -> str | None:
        """Send the rows of a tick batch to subscribers, and send or stage what its sink is shown (None: nothing).
        Return the stage for the commit, if any. `part` tells batches of one commit apart, in the key."""
        subscribers = query.subscribers if rows.num_rows else ()
        if not subscribers and (shown is None or query.sink is None):
            return None
        key = f"{query.name}@{seq}{part}"
        batch = AnswerBatch(query.name, rows, key)
        of_sink = None if shown is None else AnswerBatch(query.name, shown, key)
        staged: str | None = self._call(query, partial(_send, query, subscribers, batch, of_sink, seq))
        return staged

    def publish(self, query: ContinuousQuery) -> None:
        """Publish the committed stages that the sink may not show yet."""
        sink = query.sink
        if sink is None or isinstance(sink, Sink):
            return
        for entry, stage in query.unshown:
            self._call(query, partial(sink.publish, stage))
            crash_point("plan-published")
            self._commits.published(entry)
            query.unshown = query.unshown[1:]

    def _call(self, query: ContinuousQuery, call: Callable[[], Any]) -> Any:
        timeout_s = self._settings().seconds("sink_timeout")
        if query.late_call is not None and not query.late_call.has_ended:
            raise self._late(query, timeout_s)
        query.late_call = None
        errand = run_errands([call], timeout_s)[0]
        if errand.has_ended and errand.error is not None:
            query.metrics.last_sink_error = str(errand.error)
            raise errand.error
        if not errand.has_ended:
            query.metrics.sink_timeouts += 1
            query.late_call = errand  # it must not run twice at the same time
            raise self._late(query, timeout_s)
        return errand.result

    def _late(self, query: ContinuousQuery, timeout_s: float | None) -> SinkError:
        return SinkError(
            f"a call of the sink or the subscribers of query '{query.name}' takes longer than {timeout_s:g} s"
            " (sink_timeout)",
            remedy="Its changes wait, and are tried again. Repair the sink, or raise sink_timeout.",
        )


def _send(
    query: ContinuousQuery, subscribers: Iterable[Subscriber], batch: AnswerBatch, shown: AnswerBatch | None, seq: int
) -> str | None:
    for subscriber in subscribers:
        call_subscriber(query, subscriber, batch, "the changes stay in q.changes()")
    sink = query.sink
    if sink is None or shown is None:
        return None
    if isinstance(sink, Sink):
        sink.write(shown)
        return None
    return sink.stage(shown, seq)
