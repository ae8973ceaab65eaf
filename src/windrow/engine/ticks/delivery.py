"""Delivery of answers to sinks, subscribers and the retained answers, around the commit of a tick batch.

Staging sinks stage before the commit and publish after it (exactly once). Plain sinks and subscribers are called before
it (at least once, with a key). An error in a subscriber is counted and does not stop the stream.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.crash import crash_point
from windrow.dataplane.answers.finishing import answer_schema, plain
from windrow.dataplane.answers.revisions import revised_schema
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.sinks import AnswerBatch, Sink
from windrow.engine.state import QueryState, StreamState
from windrow.engine.store.journal import Journal
from windrow.engine.store.tick_commits import AnswerPart, Expiry, LateMerge, PromiseUpdate, TickCommit
from windrow.settings import Settings
from windrow.types import point_text, time_of
from windrow.windows import Points

log = logging.getLogger("windrow")


@dataclass(frozen=True)
class QueryAnswers:
    """One query's answers to the windows with these ends; `window` is the index of each row's window.

    `revisions`: the revision number of each window (0: a first answer); None: all are first answers. `early`: these are
    rows of groups that promises closed, and the windows themselves are answered later; its value is the number of
    promises heard so far.
    """

    query: QueryState
    ends: Points
    window: Points
    table: pa.Table
    overflows: int
    revisions: Points | None = None
    early: int | None = None

    @property
    def first_answers(self) -> int:
        if self.early is not None:
            return 0
        return int(self.ends.size if self.revisions is None else (self.revisions == 0).sum())

    @property
    def last_end(self) -> int | None:
        """The end of the latest answered window; a correction may be of an earlier one."""
        if self.early is not None:
            return self.query.last_end
        last = int(self.ends[-1])
        return last if self.query.last_end is None or self.revisions is None else max(last, self.query.last_end)

    @property
    def revised(self) -> tuple[tuple[int, int], ...]:
        """(end, revision number) of the corrected windows."""
        if self.revisions is None:
            return ()
        return tuple((e, r) for e, r in zip(self.ends.tolist(), self.revisions.tolist(), strict=True) if r)

    def key_of(self, window: int) -> str:
        """The suffix of the key that distinguishes corrections and early rows from the first answer to a window."""
        if self.early is not None:
            return f"/early-{self.early}"
        revision = 0 if self.revisions is None else int(self.revisions[window])
        return f"/{revision}" if revision else ""


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

    def __init__(self, journal: Journal, blocks: BlockStore):
        self._journal = journal
        self._blocks = blocks

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
        staged = [self._send(stream, item) for item in delivered]
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
        crash_point("tick-blocks-written")
        parts = [
            AnswerPart(i.query, i.first_answers, i.table.num_rows, i.overflows, i.last_end, place, stage, i.revised)
            for i, place, stage in zip(delivered, stored, staged, strict=True)
        ]
        keep = settings.integer("retained_answers")
        commit = TickCommit(axis, upto, parts, block, expired, applied, left, keep)
        committed = self._journal.ticks.tick(stream, commit)
        crash_point("tick-committed")
        stream.install(committed)
        for item in delivered:
            item.query.metrics.windows += item.first_answers
            item.query.metrics.rows += item.table.num_rows
            item.query.metrics.last_delivery_s = time.time()

    def _send(self, stream: StreamState, item: QueryAnswers) -> str | None:
        """Call plain sinks and subscribers, and stage for a staging sink. Returns the stage for the commit, if any."""
        query = item.query
        batch = AnswerBatch(query.name, item.table, f"{query.name}@{item.ends[0]}..{item.ends[-1]}{item.key_of(0)}")
        for subscriber in query.batch_subscribers:
            _call(query, subscriber, batch)
        if query.subscribers:
            for answer in split(item):
                for subscriber in query.subscribers:
                    _call(query, subscriber, answer)
        sink = query.sink
        if sink is None or item.table.num_rows == 0:
            return None
        if isinstance(sink, Sink):
            sink.write(batch)
            return None
        return sink.stage(batch, stream.tick_seq)

    def publish(self, stream: StreamState) -> None:
        """Publish committed stages. A stage that a sink refuses is published at the start of the next tick or at the
        next opening; the sink stages nothing more until then. The stages of a Python sink that has not been given again
        after a restart wait, and hold nothing up."""
        if not stream.unpublished:
            return
        published: set[int] = set()
        refused: Exception | None = None
        for item in stream.unpublished:
            sink = item.query.sink
            try:
                if sink is None:
                    continue
                if not isinstance(sink, Sink):
                    sink.publish(item.entry)
                published.add(item.outbox)
            except Exception as error:
                refused = refused or error
        if published:
            crash_point("tick-published")
            stream.install(self._journal.ticks.published(stream, published))
        if refused is not None:
            raise refused


def sweep(query: QueryState) -> None:
    """Remove the stages of a query that no commit names."""
    if query.sink is None or isinstance(query.sink, Sink):
        return
    try:
        query.sink.sweep()
    except Exception as error:
        log.warning("stages of query '%s' are left behind: %s", query.name, error)


def _call(query: QueryState, subscriber: Any, argument: Any) -> None:
    try:
        subscriber(argument)
    except BaseException as error:  # also SystemExit: a subscriber does not stop the stream
        query.metrics.callback_errors += 1
        query.metrics.last_callback_error = f"{type(error).__name__}: {error}"
        log.exception("a subscriber of query '%s' raised; the answer stays in q.answers()", query.name)


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
    schema = answer_schema(query.plan.outputs, query.plan.scan.attribute.type)
    return revised_schema(schema) if stream.definition.revises else schema


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
