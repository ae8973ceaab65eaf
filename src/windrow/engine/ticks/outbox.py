"""The outbox: hands answers to sinks and subscribers, and keeps those of a query whose sink or subscriber blocks.

A call that takes longer than `sink_timeout` suspends the delivery of its query. Its answers then wait in the state
directory and are delivered in order once that call has ended. Other queries go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from windrow.crash import crash_point
from windrow.dataplane.sinks import Sink
from windrow.engine.state import QueryState, StreamState, UnpublishedStage
from windrow.engine.store.journal import Journal
from windrow.engine.store.waiting_answers import WaitingEntry
from windrow.engine.ticks.couriers import Errand, run_errands
from windrow.engine.ticks.query_answers import QueryAnswers, restored
from windrow.errors import first_line
from windrow.settings import Settings

log = logging.getLogger("windrow")

LEAST_TURN_S = 1.0
"""Waiting answers are delivered for at least this long at a time, as each costs a commit."""

Send = Callable[[QueryAnswers, int], str | None]


@dataclass(frozen=True)
class LateCall:
    """A call that did not end in time. `key`: that of the answers it carries; None: it publishes stages."""

    errand: Errand
    key: str | None


class Outbox:
    """Calls sinks and subscribers within the timeout."""

    def __init__(self, journal: Journal, settings: Callable[[], Settings], send: Send):
        self._journal = journal
        self._settings = settings
        self._send = send
        self._suspended: dict[tuple[int, int], QueryState] = {}
        """By the numbers of stream and query."""

    def _timeout_s(self) -> float | None:
        return self._settings().seconds("sink_timeout")

    def _run(
        self, stream: StreamState, calls: Sequence[Callable[[], Any]], stop_at_error: bool = False
    ) -> list[Errand]:
        return run_errands(calls, self._timeout_s(), stream.lock, stop_at_error)

    # -- before the commit ---------------------------------------------------------------------

    def send(self, stream: StreamState, delivered: Sequence[QueryAnswers]) -> tuple[list[str | None], list[int]]:
        """Send or stage answers. Return the stage of each, if any, and the indices of those that must wait."""
        queued = {item.query.id for item in stream.unpublished if item.block is not None and _can_go(item)}
        waiting, calls = list[int](), dict[int, Callable[[], str | None]]()
        for i, item in enumerate(delivered):
            query = item.query
            is_heard = query.subscribers or query.batch_subscribers or (query.sink is not None and item.table.num_rows)
            if not is_heard:
                continue
            is_held = query.is_paused or query.late_call is not None or query.delivery_error is not None
            if is_held or query.id in queued:
                waiting.append(i)
            else:
                calls[i] = partial(self._send, item, stream.tick_seq)
        stages: list[str | None] = [None] * len(delivered)
        for i, errand in zip(calls, self._run(stream, list(calls.values()), stop_at_error=True), strict=True):
            if errand.error is not None:
                raise errand.error
            if errand.has_ended:
                stages[i] = errand.result
            else:
                self._suspend(stream, delivered[i].query, LateCall(errand, delivered[i].key))
                waiting.append(i)
        return stages, sorted(waiting)

    def _suspend(self, stream: StreamState, query: QueryState, late: LateCall) -> None:
        limit = self._settings()["sink_timeout"]
        query.late_call = late
        query.metrics.sink_timeouts += 1
        self._failed(stream, query, f"a call of its sink or subscribers takes longer than {limit} (sink_timeout)")

    def _failed(self, stream: StreamState, query: QueryState, why: str) -> None:
        self._suspended[stream.id, query.id] = query
        if query.delivery_error != why:
            log.error(
                "the delivery of query '%s' is suspended, and its answers wait in the state directory: %s",
                query.name,
                why,
            )
        query.delivery_error = query.metrics.last_sink_error = why

    # -- after the commit ----------------------------------------------------------------------

    def recover(self, stream: StreamState) -> None:
        """Drop answers that waited for subscribers, which a restart ends, and publish the rest."""
        ended = {i.outbox for i in stream.unpublished if i.block is not None and not WaitingEntry.of(i).needs_sink}
        if ended:
            stream.install(self._journal.ticks.published(stream, ended))
        self.publish(stream)

    def publish(self, stream: StreamState) -> None:
        """Publish committed stages, and deliver answers that wait. A stage that a sink refuses is published at the
        start of the next tick or at the next opening; the sink stages nothing more until then. The stages of a Python
        sink that has not been given again after a restart wait, and hold nothing up."""
        suspended = [query for (number, _), query in self._suspended.items() if number == stream.id]
        for query in suspended:
            if query.late_call is not None and query.late_call.errand.has_ended:
                self._ended(stream, query)
        if stream.unpublished:
            self._publish(stream, [item for item in stream.unpublished if item.block is None])
            self._deliver_waiting(stream)
        if suspended:
            self._resume(stream, suspended)

    def _publish(self, stream: StreamState, items: Sequence[UnpublishedStage]) -> None:
        by_query: dict[int, list[UnpublishedStage]] = {}
        for item in items:
            if item.query.sink is not None and item.query.late_call is None:
                by_query.setdefault(item.query.id, []).append(item)
        published, refused = set[int](), None
        calls = [partial(_publish_all, mine, published) for mine in by_query.values()]
        for mine, errand in zip(by_query.values(), self._run(stream, calls), strict=True):
            query = mine[0].query
            if not errand.has_ended:
                self._suspend(stream, query, LateCall(errand, None))
            elif errand.error is not None and query.delivery_error is not None:
                self._failed(stream, query, first_line(errand.error))
            else:
                refused = refused or errand.error
        done = set(published)  # a late call may still add to it
        if done:
            crash_point("tick-published")
            stream.install(self._journal.ticks.published(stream, done))
        if refused is not None:
            raise refused

    def _deliver_waiting(self, stream: StreamState) -> None:
        """Deliver the answers that wait, in the order of each query, for about as long as one call may take: the other
        queries of the stream wait meanwhile."""
        started_s, timeout_s = time.monotonic(), self._timeout_s()
        limit_s = None if timeout_s is None else max(timeout_s, LEAST_TURN_S)
        held = {item.query.id for item in stream.unpublished if item.block is None}
        for item in stream.unpublished:
            if item.block is None or item.query.id in held:
                continue
            if item.query.late_call is not None or not _can_go(item) or not self._deliver_again(stream, item):
                held.add(item.query.id)
            if limit_s is not None and time.monotonic() - started_s > limit_s:
                return

    def _deliver_again(self, stream: StreamState, item: UnpublishedStage) -> bool:
        query, (entry, rows, windows) = item.query, self._journal.waiting.read(item)
        answers = restored(query, entry, rows, windows)
        errand = self._run(stream, [partial(self._send, answers, entry.seq)])[0]
        if not errand.has_ended:
            self._suspend(stream, query, LateCall(errand, entry.key))
            return False
        if errand.error is not None:
            self._failed(stream, query, first_line(errand.error))
            return False
        self._taken(stream, item, errand.result)
        return not any(one.outbox == item.outbox for one in stream.unpublished)

    def _taken(self, stream: StreamState, item: UnpublishedStage, stage: str | None) -> None:
        """Commit that waiting answers were taken; if they were staged, publish them."""
        if stage is None:
            stream.install(self._journal.ticks.published(stream, {item.outbox}))
            return
        stream.install(self._journal.waiting.staged(stream, item, stage))
        self._publish(stream, [one for one in stream.unpublished if one.outbox == item.outbox])

    def _ended(self, stream: StreamState, query: QueryState) -> None:
        """A late call has ended. If it succeeded, its answers are not delivered again."""
        late, query.late_call = query.late_call, None
        if late.errand.error is not None:
            self._failed(stream, query, first_line(late.errand.error))
            return
        for item in stream.unpublished:
            if item.query is query and item.block is not None and WaitingEntry.of(item).key == late.key:
                self._taken(stream, item, late.errand.result)
                return

    def _resume(self, stream: StreamState, suspended: Sequence[QueryState]) -> None:
        """Resume the delivery of queries for which nothing waits any more."""
        waiting = {item.query.id for item in stream.unpublished}
        for query in suspended:
            if query.late_call is None and query.id not in waiting:
                log.info("query '%s' delivers again", query.name)
                query.delivery_error = None
                del self._suspended[stream.id, query.id]


def _publish_all(items: Sequence[UnpublishedStage], published: set[int]) -> None:
    for item in items:
        sink = item.query.sink
        if sink is not None and not isinstance(sink, Sink):
            sink.publish(item.entry)
        published.add(item.outbox)


def _can_go(item: UnpublishedStage) -> bool:
    """Whether somebody is there to take waiting answers: a sink given in Python must be given again after a restart. A
    query that is paused takes none."""
    is_there = item.query.sink is not None or not WaitingEntry.of(item).needs_sink
    return is_there and not item.query.is_paused
