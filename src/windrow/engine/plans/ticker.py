"""Ticks of continuous queries: all due ticks of a plan together, in slices of bounded size, each one commit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pyarrow as pa

from windrow.crash import crash_point
from windrow.dataplane.sinks import SinkMode
from windrow.engine.kept.window_stores import WindowStores
from windrow.engine.plans.commits import CHANGES, STATE, VIEW, PlanCommits, PlanPart, PlanTick
from windrow.engine.plans.delivering import PlanDelivery
from windrow.engine.plans.due import begins_at, due_upto, input_progress
from windrow.engine.plans.homes import PlanBatch, PlanHomes, lifetimes, needed_from, new_rows
from windrow.engine.plans.occupied import occupied, without_gaps
from windrow.engine.plans.ordering import ordered
from windrow.engine.plans.query import ContinuousQuery, PlanVersion
from windrow.engine.plans.tables import answers_table, append_table, changes_table, view_table
from windrow.engine.progress import StreamProgress
from windrow.engine.state import CommittedState, StreamState
from windrow.engine.store.journal import Journal
from windrow.errors import SessionError, StateError, first_line
from windrow.logs import log_event
from windrow.operators.changes import changes_schema, stored
from windrow.operators.tables.kernel import Kernel
from windrow.operators.ticks import DueTicks
from windrow.operators.view import live_view
from windrow.settings import Settings
from windrow.types import POINT_MIN, point_text

MERGED_PARTS = 20
"""So many parts of changes or of state are merged into one."""


class PlanTicker:
    """Ticks plans, one at a time; the loop of plans calls it."""

    def __init__(
        self,
        journal: Journal,
        commits: PlanCommits,
        stores: WindowStores,
        stream_of: Callable[[str], StreamState],
        settings: Callable[[], Settings],
        homes: PlanHomes,
    ):
        self._journal = journal
        self._commits = commits
        self._stores = stores
        self._stream_of = stream_of
        self._settings = settings
        self._homes = homes
        self._delivery = PlanDelivery(commits, settings)
        self._kernel = Kernel(settings().integer("max_value_bytes"))
        self.follow: Callable[[ContinuousQuery, bool], None] = lambda query, ended: None
        """Makes tuples of a derived stream of what its plan has committed; `ended`: nothing more comes."""

    def tick(self, query: ContinuousQuery) -> int:
        """Process all due ticks; return their number. An error of the plan itself suspends the query."""
        with query.ticking:
            if query.is_dropped:
                return 0
            self._delivery.publish(query)
            done = 0
            self._follow(query)
            while query.error is None and (due := self._due(query)) is not None:
                self._batch(query, due)
                self._follow(query)
                done += due.count
            self._follow(query, ended=query.error is None and self._has_ended(query))
            for name in query.plan.streams if done else ():
                self._stores.tidy_silent(self._stream_of(name))
            return done

    def recover(self, queries: Sequence[ContinuousQuery]) -> None:
        """Publish what is committed and not published, at opening."""
        self._delivery.recover(queries)

    def _follow(self, query: ContinuousQuery, ended: bool = False) -> None:
        """Hand what is committed to the derived stream, if the query has one."""
        if query.derived is not None:
            self.follow(query, ended)

    def _has_ended(self, query: ContinuousQuery) -> bool:
        return all(self._stream_of(name).progress.input_ended for name in query.plan.streams)

    # -- what is due ---------------------------------------------------------------------------

    def _due(self, query: ContinuousQuery) -> DueTicks | None:
        grid, plan = query.grid, query.plan
        inputs = [input_progress(window, self._stream_of(window.stream).progress) for window in plan.windows]
        upto, before = due_upto(inputs, grid, plan.periodic), query.progress.ticked
        if before is None:
            before = begins_at(inputs, grid)
        if upto is None or before is None or upto <= before:
            return None
        past = query.choices.begins_after
        if past is not None and before < past:
            due = DueTicks(before, min(upto, past), grid.step, grid.origin)
            return self._bounded(query, due) if plan.periodic else due
        return self._bounded(query, DueTicks(before, upto, grid.step, grid.origin))

    def _bounded(self, query: ContinuousQuery, due: DueTicks) -> DueTicks | None:
        """So many of the due ticks that at most `tick_rows` new tuples belong to them, but at least one; of a periodic
        plan, without long gaps between its windows. None: no window holds a tuple."""
        limit = self._settings().integer("tick_rows")
        if not query.plan.periodic and (due.count == 1 or new_rows(query, self._stores, due) <= limit):
            return due
        lived = lifetimes(query, self._stores, due)
        births = [one for one, _ in lived]
        if due.count > 1 and sum(one.size for one in births) > limit:
            upto = query.grid.above(int(np.partition(np.concatenate(births), limit - 1)[limit - 1]))
            due = replace(due, upto=min(due.upto, max(upto, due.before + due.step)))
        if not query.plan.periodic:
            return due
        found = without_gaps(due, occupied(due, lived, query.progress.covered))
        if found is None:
            self._skip(query, due.upto)
        elif found.before > due.before:
            self._skip(query, found.before)
        return found

    def _skip(self, query: ContinuousQuery, ticked: int) -> None:
        """Pass ticks at which no window holds a tuple."""
        version = query.version
        if version.progress.ticked is not None:
            state = version.state.skipped_to(ticked)
            query.version = replace(version, progress=replace(query.progress, ticked=ticked), state=state)

    # -- a batch -------------------------------------------------------------------------------

    def _batch(self, query: ContinuousQuery, due: DueTicks) -> None:
        started = time.monotonic()
        home, why = self._homes.choose(query, due)
        merging = home != query.home or query.must_merge or self._is_merging(query, due)
        try:
            done = self._homes[home].advance(query, due, merging)
        except (StateError, SessionError):
            raise
        except Exception as error:
            self.suspend(query, first_line(error))
            return
        advanced = time.monotonic()
        self._commit(query, due, done, home, merging)
        query.home_reason = why
        seconds = time.monotonic() - started
        query.meter.commit_s += time.monotonic() - advanced
        query.metrics.tick_s += seconds
        query.metrics.ticks += due.count
        log_event(
            "plan_tick",
            "query '{query}': ticked up to {tick}, {rows} changes in {seconds} s",
            query=query.name,
            tick=point_text(due.upto, query.plan.point),
            rows=done.count,
            seconds=round(seconds, 3),
        )

    def suspend(self, query: ContinuousQuery, why: str) -> None:
        """Suspend a query whose plan fails; the streams and the other queries go on."""
        self._commits.suspend(query.id, why)
        query.version = replace(query.version, progress=replace(query.progress, error=why))
        log_event(
            "query_suspended", "query '{query}' is suspended: {error}", logging.ERROR, query=query.name, error=why
        )

    # -- the commit ----------------------------------------------------------------------------

    def _commit(self, query: ContinuousQuery, due: DueTicks, done: PlanBatch, home: str, merging: bool) -> None:
        """Deliver, commit and install a batch. One without a change, new state or expired tuples only moves the
        progress in memory: after a restart it is processed again, to the same effect."""
        version, ended = query.version, self._overtaken(query, due.upto)
        progress = replace(query.progress.covering(done.covered), ticked=due.upto)
        shown = self._shown(query, due, done)
        is_news = done.count or done.is_written or ended or merging or shown is not None
        if not is_news and not self._is_stale(query, due.upto):
            query.version = replace(version, progress=progress, state=done.state)
            return
        seq = query.progress.seq + 1
        staged = self._send(query, done, shown, seq)
        crash_point("plan-staged")
        keep = self._settings().integer("retained_changes")
        deposited = None if query.derived is None else seq - 1
        tick = PlanTick(query.id, due.upto, seq, done.parts, done.drops, keep, progress.covered, deposited, done.blocks)
        with ExitStack() as held:
            for stream, _ in ended:
                held.enter_context(stream.lock)
            after = _promised(ended, due.upto)
            written, entry = self._commits.tick(tick, staged, lambda: self._along(query, after, due.upto))
            for stream, moved in after:
                stream.install(CommittedState(moved, stream.unpublished))
        kept = () if query.derived is not None else self._kept(version, written)
        query.version = PlanVersion(replace(progress, seq=seq), done.state, kept)
        query.home, query.must_merge, query.committed = home, False, due.upto
        query.unmerged = 0 if STATE in done.drops else query.unmerged + bool(written)
        query.merged_at = due.upto if STATE in done.drops or query.merged_at is None else query.merged_at
        query.metrics.rows += done.count
        query.metrics.last_delivery_s = time.time()
        if entry is not None and staged is not None:
            query.unshown = (*query.unshown, (entry, staged))
            self._delivery.publish(query)

    def _send(self, query: ContinuousQuery, done: PlanBatch, shown: pa.Table | None, seq: int) -> str | None:
        """Send what concerns somebody; otherwise nobody reads the changes."""
        if shown is None and (not done.count or not query.subscribers):
            return None
        plan = query.plan
        changes = done.changes() if query.subscribers else changes_schema(plan.schema).empty_table()
        rows = (answers_table if plan.periodic else changes_table)(plan, stored(changes))
        return self._delivery.send(query, rows, shown, seq)

    def _kept(self, version: PlanVersion, written: Sequence[PlanPart]) -> tuple[pa.Table, ...]:
        """The latest merged view, as changes, and all changes since."""
        view = [part for part in written if part.kind == VIEW]
        if view:
            return tuple(self._commits.read(part) for part in view)
        return (*version.changes, *(self._commits.read(part) for part in written if part.kind == CHANGES))

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

    def _is_merging(self, query: ContinuousQuery, due: DueTicks) -> bool:
        """Whether state and view are merged now: after so many parts, or when a twentieth of a window has passed; then
        also the only part, if nothing comes that would make others, since what it holds expires."""
        before = due.upto if query.merged_at is None else query.merged_at
        ranges = [window.lifetime.range for window in query.plan.windows if window.lifetime.range is not None]
        is_late = bool(ranges) and due.upto - before >= max(min(ranges) // 20, query.plan.step)
        if is_late and query.unmerged == 1:
            return not new_rows(query, self._stores, due)
        return (is_late and query.unmerged > 1) or query.unmerged >= MERGED_PARTS

    def _overtaken(self, query: ContinuousQuery, ticked: int) -> list[tuple[StreamState, str]]:
        """The ended streams whose frontier the plan has overtaken: a tuple that came below its tick would be lost, so
        it must be late."""
        found = dict[tuple[str, str], tuple[StreamState, str]]()
        for window in query.plan.windows:
            stream, axis = self._stream_of(window.stream), window.attribute.column
            frontier = stream.progress.frontiers[axis].value
            if stream.progress.input_ended and (frontier is None or frontier < ticked):
                found[stream.name, axis] = stream, axis
        return list(found.values())

    def _is_stale(self, query: ContinuousQuery, ticked: int) -> bool:
        """Whether the catalog lags behind: tuples have expired that its progress still needs."""
        ranges = [window.lifetime.range or 0 for window in query.plan.windows]
        known = query.committed
        return known is None or ticked - known >= max(max(ranges) // 20, query.plan.step)

    def _along(self, query: ContinuousQuery, after: Sequence[tuple[StreamState, StreamProgress]], ticked: int) -> None:
        """In the transaction of a tick: raise the frontiers of ended streams, and let go of tuples."""
        for stream, progress in after:
            self._journal.progress.save(stream.name, stream.progress, progress)
        for i, use in enumerate(query.uses):
            needed = needed_from(query, i, ticked)
            if needed > POINT_MIN:
                self._stores.keep_from(use.reader, needed)


def _promised(ended: Sequence[tuple[StreamState, str]], upto: int) -> list[tuple[StreamState, StreamProgress]]:
    """The progress of ended streams when no tuple below the tick comes any more on these axes."""
    found = dict[int, tuple[StreamState, StreamProgress]]()
    for stream, axis in ended:
        progress = found.get(stream.id, (stream, stream.progress))[1]
        found[stream.id] = stream, progress.promised(axis, upto)
    return list(found.values())
