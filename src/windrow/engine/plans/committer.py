"""Delivers and commits a batch of ticks of the plans that are due for it, and installs what it gave."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import dropwhile

import pyarrow as pa

from windrow.crash import crash_point
from windrow.dataplane.sinks import SinkMode
from windrow.engine.kept.window_stores import WindowStores
from windrow.engine.plans.commits import (
    ANSWERS,
    CHANGES,
    SMALL_ROWS,
    STATE,
    VIEW,
    CommittedTick,
    PlanCommits,
    PlanPart,
    PlanTick,
    TableEffect,
    Tidied,
)
from windrow.engine.plans.delivering import PlanDelivery
from windrow.engine.plans.homes import PlanBatch, needed_from, reads_tuples
from windrow.engine.plans.locking import held
from windrow.engine.plans.query import ContinuousQuery, PlanProgress, PlanVersion, ShownPart
from windrow.engine.plans.tables import answers_table, append_table, changes_table, ordered, view_table
from windrow.engine.progress import StreamProgress
from windrow.engine.state import CommittedState, StreamState
from windrow.engine.store.journal import Journal
from windrow.operators.changes import changes_schema, stored
from windrow.operators.tables.kernel import Kernel
from windrow.operators.ticks import DueTicks
from windrow.operators.view import live_view
from windrow.settings import Settings
from windrow.types import POINT_MIN

StreamAxis = tuple[StreamState, str]
_Read = Callable[[PlanPart], pa.Table]

UNMAPPED_BYTES = 64 << 10
"""Changes up to this size, if they are few, are kept in memory until they are merged with others; of larger ones the
file is mapped."""


@dataclass(frozen=True)
class ProcessedBatch:
    """What the due ticks of a query gave, in which home. `merging`: its state is written anew, and what
    `ContinuousQuery.view_merge` says of its view."""

    query: ContinuousQuery
    due: DueTicks
    done: PlanBatch
    home: str
    merging: bool

    @cached_property
    def progress(self) -> PlanProgress:
        """How far the query is after it."""
        after = self.query.progress.covering(self.done.covered)
        return replace(after, ticked=self.due.upto, effects=self.done.effects)


@dataclass(frozen=True)
class _Delivered:
    """A batch whose rows were sent, and the tick to commit. `overtaken`: the ended streams whose frontier it passes."""

    batch: ProcessedBatch
    tick: PlanTick
    overtaken: tuple[StreamAxis, ...]


class PlanCommitter:
    """Commits batches. One without a change, new state or expired tuples only moves the progress in memory: after a
    restart it is processed again, to the same effect."""

    def __init__(
        self,
        journal: Journal,
        commits: PlanCommits,
        stores: WindowStores,
        delivery: PlanDelivery,
        stream_of: Callable[[str], StreamState],
        settings: Callable[[], Settings],
    ):
        self._journal = journal
        self._commits = commits
        self._stores = stores
        self._delivery = delivery
        self._stream_of = stream_of
        self._settings = settings
        self._kernel = Kernel(settings().integer("max_value_bytes"))

    def commit(self, batches: Sequence[ProcessedBatch], first: ContinuousQuery) -> None:
        """Commit batches of the same ticks in one transaction. A query whose sink fails stays where it is, and the
        others go on. The error of the query `first` is raised; the others meet theirs again in their own ticks."""
        delivered, failure, read = list[_Delivered](), None, self._commits.reader()
        for batch in batches:
            try:
                one = self._deliver(batch, read)
            except Exception as error:
                failure = error if batch.query is first else failure
                continue
            if one is None:
                query = batch.query
                query.version = replace(query.version, progress=batch.progress, state=batch.done.state)
            else:
                delivered.append(one)
        if delivered:
            self._commit(delivered)
        for one in delivered:
            try:
                self._delivery.publish(one.batch.query)
            except Exception as error:  # its own next tick publishes before all else
                failure = error if one.batch.query is first else failure
        if failure is not None:
            raise failure

    def _commit(self, delivered: Sequence[_Delivered]) -> None:
        crash_point("plan-staged")
        upto = delivered[0].batch.due.upto
        overtaken = {(stream.id, axis): (stream, axis) for one in delivered for stream, axis in one.overtaken}
        with held(states=[stream for stream, _ in overtaken.values()]):
            after = _promised(list(overtaken.values()), upto)

            def along() -> None:
                for stream, progress in after:
                    self._journal.progress.save(stream.name, stream.progress, progress)
                self._stores.keep_from(_needs([one.batch.query for one in delivered], upto))

            written = self._commits.tick([one.tick for one in delivered], along)
            for stream, moved in after:
                stream.install(CommittedState(moved, stream.unpublished))
        read = self._commits.reader()
        for one, committed in zip(delivered, written, strict=True):
            self._install(one, committed, read)

    def _install(self, one: _Delivered, committed: CommittedTick, read: _Read) -> None:
        query, done, due, entry = one.batch.query, one.batch.done, one.batch.due, committed.entry
        merged, since = query.version.merged, query.version.since
        if query.derived is None and not query.plan.periodic:
            merged, since = _shown_by(query, one, committed, read)
        query.version = PlanVersion(replace(one.batch.progress, seq=one.tick.seq), done.state, merged, since)
        query.home, query.must_merge, query.committed = one.batch.home, False, due.upto
        is_merged, has_state = one.batch.merging, any(part.kind == STATE for part in committed.parts)
        query.unmerged = 0 if is_merged else query.unmerged + bool(committed.parts)
        query.has_new_state = not is_merged and (query.has_new_state or has_state)
        query.merged_at = due.upto if is_merged or query.merged_at is None else query.merged_at
        query.metrics.rows += done.count
        query.metrics.last_delivery_s = time.time()
        if entry is not None and one.tick.staged is not None:
            query.unshown = (*query.unshown, (entry, one.tick.staged))

    # -- delivery ------------------------------------------------------------------------------

    def _deliver(self, batch: ProcessedBatch, read: _Read) -> _Delivered | None:
        """Send what a batch gives, and say what to commit; None: nothing."""
        query, due, done = batch.query, batch.due, batch.done
        overtaken, shown = self._overtaken(query, due.upto), self._shown(query, due, done)
        is_news = done.count or done.is_written or overtaken or batch.merging or shown is not None
        effects = {one: now for one, now in done.effects.items() if query.progress.effects.get(one) != now}
        fed = {table.id for table in query.fed_tables}
        is_news = is_news or bool(effects.keys() - fed)
        if not is_news and not self._is_stale(query, due.upto):
            return None
        seq, keep = query.progress.seq + 1, self._settings().integer(query.retention)
        shown_from = _shown_from(batch, keep)
        tick = PlanTick(
            query.id,
            due.upto,
            seq,
            done.parts,
            done.drops,
            keep=keep,
            shown_from=shown_from,
            covered=batch.progress.covered,
            deposited=None if query.derived is None else seq - 1,
            blocks=done.blocks,
            tidied=self._tidied(batch, read, shown_from) if batch.merging and query.derived is None else Tidied(),
            staged=self._send(query, done, shown, seq),
            effects=tuple(
                TableEffect(table, due.before + due.step, **{"upto" if table in fed else "seq": now})
                for table, now in effects.items()
            ),
            overflows=done.overflows,
        )
        return _Delivered(batch, tick, tuple(overtaken))

    def _tidied(self, batch: ProcessedBatch, read: _Read, shown_from: int) -> Tidied:
        query = batch.query
        return self._commits.tidied(query.id, ANSWERS if query.plan.periodic else CHANGES, read, shown_from - 1)

    def _send(self, query: ContinuousQuery, done: PlanBatch, shown: pa.Table | None, seq: int) -> str | None:
        """Send what concerns somebody; otherwise nobody reads the changes."""
        if shown is None and (not done.count or not query.subscribers):
            return None
        plan = query.plan
        changes = done.changes() if query.subscribers else changes_schema(plan.schema).empty_table()
        rows = (answers_table if plan.periodic else changes_table)(plan, stored(changes))
        return self._delivery.send(query, rows, shown, seq)

    def _shown(self, query: ContinuousQuery, due: DueTicks, done: PlanBatch) -> pa.Table | None:
        """What the query's sink gets of a tick batch; None: nothing. A view is shown when it is another than before,
        also by rows that expire."""
        plan = query.plan
        if query.sink is None:
            return None
        changes = done.changes()
        if query.mode is not SinkMode.VIEW:
            if not changes.num_rows:
                return None
            table = answers_table if plan.periodic else append_table if query.mode is SinkMode.APPEND else changes_table
            return table(plan, changes)
        before = live_view((*query.version.changes, changes.slice(0, 0)), due.before)
        rows = before.after(changes, due.upto).at(due.upto)
        if query.committed is not None and not changes.num_rows and before.at(due.before).num_rows == rows.num_rows:
            return None
        return ordered(plan, view_table(plan, rows), self._kernel)

    # -- what a commit moves -------------------------------------------------------------------

    def _overtaken(self, query: ContinuousQuery, ticked: int) -> list[StreamAxis]:
        """The ended streams whose frontier the plan has overtaken: a tuple that came below its tick would be lost, so
        it must be late."""
        found = dict[tuple[str, str], StreamAxis]()
        read = [(window.stream, window.attribute.column) for window in query.plan.windows]
        read += [(table.feed.stream, table.feed.axis) for table in query.fed_tables if table.feed is not None]
        for name, axis in read:
            stream = self._stream_of(name)
            frontier = stream.progress.frontiers[axis].value
            if stream.progress.input_ended and (frontier is None or frontier < ticked):
                found[stream.name, axis] = stream, axis
        return list(found.values())

    def _is_stale(self, query: ContinuousQuery, ticked: int) -> bool:
        """Whether the catalog must be brought up to date: it still holds back tuples that have expired, or parts of
        the state or the view that a commit would drop."""
        known, most = query.committed, query.twentieth
        longest = max(window.lifetime.range or 0 for window in query.plan.windows)
        if known is None or ticked - known >= max(longest // 20, query.plan.step):
            return True
        if most is None:
            return False
        if query.version.goes_first(query.unmerged_rows(self._settings().integer("retained_changes"))) < ticked - most:
            return True
        has_passed = any((ticked + 1) // width > (known + 1) // width for width in (most, *query.intervals))
        return has_passed and (query.keeps_expiring or reads_tuples(query, self._stores, known))


def _shown_by(
    query: ContinuousQuery, delivered: _Delivered, committed: CommittedTick, read: _Read
) -> tuple[tuple[ShownPart, ...], tuple[ShownPart, ...]]:
    """The merged view and all changes since, after a commit."""
    ticked, done, version = delivered.batch.due.upto, delivered.batch.done, query.version
    merged = () if VIEW in done.drops else tuple(part for part in version.merged if part.ends >= ticked)
    since = _staying(delivered.batch, delivered.tick.keep)
    if done.merge is not None:
        views = (part for part in committed.parts if part.kind == VIEW)
        merged = (*merged, *(ShownPart.of(read(part), part) for part in views))
    if committed.tidied:
        since = _tidy(since, delivered.tick.tidied, committed.tidied, read)
    if not done.shows_new:
        new = (part for part in committed.parts if part.kind == CHANGES)
        since += [ShownPart.of(_changes_of(part, done, read), part) for part in new]
    return merged, tuple(since)


def _staying(batch: ProcessedBatch, keep: int) -> list[ShownPart]:
    """The changes before a batch of which the view is still made after it, beside its merged parts. The first of those
    that are kept anyway are left out when they have expired; others that have stay until they are merged."""
    version, merge = batch.query.version, batch.done.merge
    left = version.left_upto(batch.query.unmerged_rows(keep))
    since = dropwhile(lambda part: left < part.seq and part.ends < batch.due.upto, version.since)
    return [part for part in since if merge is None or part.seq > merge.upto]


def _shown_from(batch: ProcessedBatch, keep: int) -> int:
    """The number of the oldest commit whose changes are still needed, beside the merged parts, to make the view after
    this batch."""
    seq = batch.query.progress.seq + 1
    own = seq + 1 if batch.done.shows_new else seq
    return next((part.seq for part in _staying(batch, keep)), own)


def _tidy(since: list[ShownPart], tidied: Tidied, written: Sequence[PlanPart], read: _Read) -> list[ShownPart]:
    """The changes since the view was merged when some of them have become one part."""
    placed = {part.seq: part for part in written}
    for new, first in zip(tidied.parts, tidied.firsts, strict=True):
        at = [i for i, part in enumerate(since) if first <= part.seq <= (new.seq or 0)]
        if at:
            part = placed[new.seq or 0]
            since[at[0] : at[-1] + 1] = [ShownPart.of(read(part), part)]
    return since


def _changes_of(part: PlanPart, done: PlanBatch, read: _Read) -> pa.Table:
    """The changes of a part: few as they were made, since mapping them costs more than their memory."""
    is_small = part.length <= UNMAPPED_BYTES and part.rows <= SMALL_ROWS
    table = next((one.table for one in done.parts if one.kind == CHANGES and is_small), None)
    return read(part) if table is None else table


def _needs(queries: Sequence[ContinuousQuery], ticked: int) -> dict[str, int]:
    """The points below which windows of these queries need no tuples after a tick, by reader."""
    found = ((use.reader, needed_from(one, i, ticked)) for one in queries for i, use in enumerate(one.uses))
    return {reader: point for reader, point in found if point > POINT_MIN}


def _promised(ended: Sequence[StreamAxis], upto: int) -> list[tuple[StreamState, StreamProgress]]:
    """The progress of ended streams when no tuple below the tick comes any more on these axes."""
    found = dict[int, tuple[StreamState, StreamProgress]]()
    for stream, axis in ended:
        progress = found.get(stream.id, (stream, stream.progress))[1]
        found[stream.id] = stream, progress.promised(axis, upto)
    return list(found.values())
