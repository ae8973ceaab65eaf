"""Delivery of answers to sinks, subscribers and the retained answers, around the commit of a tick batch.

Staging sinks stage before the commit and publish after it (exactly once). Plain sinks and subscribers are called before
it (at least once, with a key). An error in a subscriber is counted and does not stop the stream. If a call blocks, the
commit keeps its answers, and the outbox delivers them later.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from windrow.crash import crash_point
from windrow.dataplane.answers.finishing import plain
from windrow.dataplane.answers.revisions import revised_schema
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.sinks import AnswerBatch, Sink, StagingSink
from windrow.engine.state import QueryState, StreamState
from windrow.engine.store.journal import Journal
from windrow.engine.store.tick_commits import AnswerPart, Expiry, LateMerge, PromiseUpdate, TickCommit
from windrow.engine.store.waiting_answers import WaitingEntry
from windrow.engine.ticks.couriers import run_errands
from windrow.engine.ticks.outbox import Outbox
from windrow.engine.ticks.query_answers import QueryAnswers
from windrow.logs import log_event, logs_events
from windrow.settings import Settings
from windrow.types import point_text, time_of
from windrow.windows import Points

log = logging.getLogger("windrow")

SWEEP_S = 10.0
"""How long the removal of stages may take."""

ANSWER_KEPT = "the answer stays in q.answers()"


@dataclass(frozen=True)
class Answer:
    """The answer to one window, as a subscriber gets it. `key` is the same when it is delivered again."""

    query: str
    window_start: Any
    window_end: Any
    table: pa.Table
    key: str


class Delivery:
    """Delivers and commits tick batches."""

    def __init__(self, journal: Journal, blocks: BlockStore, settings: Callable[[], Settings]):
        self._journal = journal
        self._blocks = blocks
        self._outbox = Outbox(journal, settings, self._send)

    def recover(self, streams: Iterable[StreamState]) -> None:
        """Publish committed stages after opening, and remove stages that no commit names.

        A stage that a sink refuses stays in the outbox; it is published before the sink stages anything more. A path
        that cannot be written must not prevent opening, or its query could not even be dropped.
        """
        for stream in streams:
            try:
                with stream.lock:
                    self._outbox.recover(stream)
            except Exception as error:
                log.error("answers wait to be published: %s", error)
            waiting = {item.query.id for item in stream.unpublished}
            for query in stream.queries.values():
                if query.id not in waiting:
                    sweep(query)

    def publish(self, stream: StreamState) -> None:
        """Hand over all committed answers that wait: publish stages, and deliver again what nobody took."""
        self._outbox.publish(stream)

    def commit(
        self,
        stream: StreamState,
        axis: str,
        upto: int | None,
        delivered: Sequence[QueryAnswers],
        expired: Sequence[Expiry],
        settings: Settings,
        applied: Sequence[LateMerge] = (),
        left: PromiseUpdate | None = None,
    ) -> None:
        """Send or stage a tick batch, commit it, and install it in memory. `publish` must follow."""
        staged, late = self._outbox.send(stream, delivered)
        crash_point("tick-staged")
        kept = [_retained(stream, item, settings.integer("retained_answers")) for item in delivered]
        stored: list[tuple[int, int, int, int, int] | None] = [None] * len(delivered)
        block = None
        if any(table is not None for table in kept):
            tables = [table for table in kept if table is not None]
            block, places = self._blocks.write_many("answers", tables)
            at = iter(places)
            stored = [
                None if t is None else (*next(at), *_facts(t, item)) for t, item in zip(kept, delivered, strict=True)
            ]
        waiting_block, waiting = self._journal.waiting.write([_waiting(stream, delivered[i]) for i in late])
        entries = dict(zip(late, waiting, strict=True))
        crash_point("tick-blocks-written")
        parts = [
            AnswerPart(
                item.query,
                item.first_answers,
                item.table.num_rows,
                item.overflows,
                item.last_end,
                stored[i],
                staged[i],
                item.revised,
                entries[i].text() if i in entries else None,
            )
            for i, item in enumerate(delivered)
        ]
        keep = settings.integer("retained_answers")
        commit = TickCommit(axis, upto, parts, block, expired, applied, left, keep, waiting_block)
        committed = self._journal.ticks.tick(stream, commit)
        crash_point("tick-committed")
        stream.install(committed)
        if logs_events():
            log_event(
                "tick_commit",
                "stream '{stream}': tick {tick} of {axis} is committed, {rows} rows of {queries} queries",
                stream=stream.name,
                tick=stream.tick_seq,
                axis=axis,
                rows=sum(item.table.num_rows for item in delivered),
                queries=len(delivered),
            )
        for item in delivered:
            item.query.metrics.windows += item.first_answers
            item.query.metrics.rows += item.table.num_rows
            item.query.metrics.last_delivery_s = time.time()

    def _send(self, item: QueryAnswers, seq: int) -> str | None:
        """Call plain sinks and subscribers, and stage for a staging sink. Returns the stage for the commit, if any."""
        query = item.query
        batch = AnswerBatch(query.name, item.table, item.key)
        for subscriber in query.batch_subscribers:
            call_subscriber(query, subscriber, batch, ANSWER_KEPT)
        if query.subscribers:
            for answer in split(item):
                for subscriber in query.subscribers:
                    call_subscriber(query, subscriber, answer, ANSWER_KEPT)
        sink = query.sink
        if sink is None or item.table.num_rows == 0:
            return None
        if isinstance(sink, Sink):
            sink.write(batch)
            return None
        return sink.stage(batch, seq)


def _waiting(stream: StreamState, item: QueryAnswers) -> tuple[WaitingEntry, pa.Table, pa.Table]:
    """Answers that wait, with all that their delivery needs."""
    entry = WaitingEntry(item.key, stream.tick_seq, item.query.sink is not None, item.early)
    rows = plain(item.table, delivered_schema(stream, item.query)).combine_chunks()
    return entry, *item.saved(rows)


class SweptQuery(Protocol):
    """A query whose sink may have stages."""

    name: str
    sink: Sink | StagingSink | None
    late_call: Any


def sweep(query: SweptQuery) -> None:
    """Remove the stages of a query that no commit names."""
    if query.sink is None or isinstance(query.sink, Sink):
        return
    errand = run_errands([query.sink.sweep], SWEEP_S)[0] if query.late_call is None else None
    if errand is None or not errand.has_ended:
        log.warning("stages of query '%s' are left behind: its sink does not respond", query.name)
    elif errand.error is not None:
        log.warning("stages of query '%s' are left behind: %s", query.name, errand.error)


class SubscribedQuery(Protocol):
    """A query that subscribers are called for."""

    name: str
    metrics: Any


def call_subscriber(query: SubscribedQuery, subscriber: Callable[[Any], object], argument: Any, kept: str) -> None:
    """Call a subscriber. An error of it is counted and logged; `kept` says where its argument can still be read."""
    try:
        subscriber(argument)
    except BaseException as error:  # also SystemExit: a subscriber does not stop the stream or the query
        query.metrics.callback_errors += 1
        query.metrics.last_callback_error = f"{type(error).__name__}: {error}"
        log.exception("a subscriber of query '%s' raised; %s", query.name, kept)


def split(item: QueryAnswers) -> list[Answer]:
    """One answer per window, including windows without rows."""
    query, kind = item.query, item.query.plan.scan.attribute.type
    first = np.searchsorted(item.window, np.arange(item.ends.size), side="left")
    last = np.searchsorted(item.window, np.arange(item.ends.size), side="right")
    whole = plain(item.table)
    return [
        Answer(
            query.name,
            None if (start := query.plan.window.start_of(int(end))) is None else time_of(start, kind),
            time_of(int(end), kind),
            whole.slice(int(first[i]), int(last[i] - first[i])),
            f"{query.name}@{point_text(int(end), kind)}{item.key_of(i)}",
        )
        for i, end in enumerate(item.ends)
    ]


def _row_ends(table: pa.Table) -> Points:
    column = table.column("window_end")
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return np.asarray(whole.view(pa.int64()) if pa.types.is_timestamp(whole.type) else whole)


def _retained(stream: StreamState, item: QueryAnswers, keep: int) -> pa.Table | None:
    """The rows of the last windows, at most `keep` rows, but at least the latest window with rows; None if there are no
    rows."""
    table = item.table
    if table.num_rows == 0:
        return None
    if table.num_rows > keep:
        table = table.slice(_first_kept(table, keep))
    return plain(table, delivered_schema(stream, item.query)).combine_chunks()


def delivered_schema(stream: StreamState, query: QueryState) -> pa.Schema:
    """The schema of a query's delivered answers."""
    return revised_schema(query.answer_schema) if stream.definition.revises else query.answer_schema


def _first_kept(table: pa.Table, keep: int) -> int:
    """The first row of the earliest window from which at most `keep` rows follow."""
    row_ends = _row_ends(table)
    cut = row_ends[row_ends.size - max(keep, 1)]
    first = int(np.searchsorted(row_ends, cut, side="left"))
    if row_ends.size - first > keep and cut != row_ends[-1]:
        first = int(np.searchsorted(row_ends, cut, side="right"))
    return first


def _facts(table: pa.Table, item: QueryAnswers) -> tuple[int, int, int]:
    ends = _row_ends(table)
    return table.num_rows, int(ends[0]), int(ends[-1])
