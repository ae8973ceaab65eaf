"""Ticks of continuous queries: all due ticks of a plan together, in slices of bounded size, each one commit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from windrow.engine.kept.window_stores import WindowStores
from windrow.engine.plans.commits import CHANGES, STATE, VIEW, PlanCommits, PlanPart, PlanTick
from windrow.engine.plans.delivering import PlanDelivery
from windrow.engine.plans.due import InputProgress, begins_at, due_upto
from windrow.engine.plans.homes import PlanBatch, PlanHomes, needed_from, read_from
from windrow.engine.plans.query import ContinuousQuery, PlanVersion
from windrow.engine.plans.tables import answers_table, changes_table
from windrow.engine.progress import StreamProgress
from windrow.engine.state import CommittedState, StreamState
from windrow.engine.store.journal import Journal
from windrow.errors import SessionError, StateError, first_line
from windrow.logs import log_event
from windrow.operators.ticks import DueTicks, Points
from windrow.plan.algebra.nodes import StreamWindow
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
        self._delivery = PlanDelivery(commits, settings)
        self._homes = homes

    def tick(self, query: ContinuousQuery) -> int:
        """Process all due ticks; return their number. An error of the plan itself suspends the query."""
        with query.ticking:
            if query.is_dropped:
                return 0
            self._delivery.publish(query)
            done = 0
            while query.error is None and (due := self._due(query)) is not None:
                self._batch(query, due)
                done += due.count
            return done

    # -- what is due ---------------------------------------------------------------------------

    def _due(self, query: ContinuousQuery) -> DueTicks | None:
        grid = query.grid
        inputs = [self._input(window) for window in query.plan.windows]
        upto, before = due_upto(inputs, grid), query.progress.ticked
        if before is None:
            before = begins_at(inputs, grid)
            if before is not None and query.since is not None:
                before = max(before, grid.ceil(query.since))
        if upto is None or before is None or upto <= before:
            return None
        return self._bounded(query, DueTicks(before, upto, grid.step, grid.origin))

    def _input(self, window: StreamWindow) -> InputProgress:
        progress, axis = self._stream_of(window.stream).progress, window.attribute.column
        frontier = progress.frontiers[axis]
        return InputProgress(frontier.value, progress.least.get(axis), frontier.greatest, progress.has_ended)

    def _bounded(self, query: ContinuousQuery, due: DueTicks) -> DueTicks:
        """So many of the due ticks that at most `tick_rows` new tuples belong to them, but at least one."""
        limit, births = self._settings().integer("tick_rows"), list[Points]()
        spans, most = list[tuple[int, int]](), 0
        for window, use in zip(query.plan.windows, query.uses, strict=True):
            lo, hi = due.before - window.lifetime.offset, due.upto - window.lifetime.offset
            spans.append((lo, hi))
            most += sum(file.rows for file in self._stores.files(use) if file.hi >= lo and file.lo < hi)
        if most <= limit or due.count == 1:
            return due
        for window, use, (lo, hi) in zip(query.plan.windows, query.uses, spans, strict=True):
            points = self._stores.rows(use, (), read_from(query, lo), hi).column("__t").to_numpy()
            births.append(points + window.lifetime.offset)
        if sum(one.size for one in births) <= limit:
            return due
        upto = query.grid.above(int(np.partition(np.concatenate(births), limit - 1)[limit - 1]))
        return replace(due, upto=min(due.upto, max(upto, due.before + due.step)))

    # -- a batch -------------------------------------------------------------------------------

    def _batch(self, query: ContinuousQuery, due: DueTicks) -> None:
        started = time.monotonic()
        home, why = self._homes.choose(query, due)
        merging = home != query.home or query.must_merge or self._is_merging(query, due.upto)
        try:
            done = self._homes[home].advance(query, due, merging)
        except (StateError, SessionError):
            raise
        except Exception as error:
            self.suspend(query, first_line(error))
            return
        self._commit(query, due, done, home, merging)
        query.home_reason = why
        seconds = time.monotonic() - started
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
        is_news = done.count or done.is_written or ended or merging
        if not is_news and not self._is_stale(query, due.upto):
            query.version = replace(version, progress=replace(query.progress, ticked=due.upto), state=done.state)
            return
        seq = query.progress.seq + 1
        staged = self._send(query, done, seq)
        keep = self._settings().integer("retained_changes")
        tick = PlanTick(query.id, due.upto, seq, done.parts, done.drops, keep, done.blocks)
        with ExitStack() as held:
            for stream, _ in ended:
                held.enter_context(stream.lock)
            after = [(stream, stream.progress.promised(axis, due.upto)) for stream, axis in ended]
            written, entry = self._commits.tick(tick, staged, lambda: self._along(query, after, due.upto))
            for stream, progress in after:
                stream.install(CommittedState(progress, stream.unpublished))
        query.version = self._version(query, due.upto, done, written)
        query.home, query.must_merge, query.committed = home, False, due.upto
        if merging:
            query.merged_at = due.upto
        query.metrics.rows += done.count
        query.metrics.last_delivery_s = time.time()
        if entry is not None and staged is not None:
            query.unpublished = (*query.unpublished, (entry, staged))
            self._delivery.publish(query)

    def _send(self, query: ContinuousQuery, done: PlanBatch, seq: int) -> str | None:
        """Send the changes to whom they concern; otherwise nobody reads them."""
        if not done.count or (query.sink is None and not query.subscribers):
            return None
        rows = (answers_table if query.plan.periodic else changes_table)(query.plan, done.changes())
        return self._delivery.send(query, rows, seq)

    def _version(
        self, query: ContinuousQuery, ticked: int, done: PlanBatch, written: Sequence[PlanPart]
    ) -> PlanVersion:
        """What readers see after a commit."""
        version, is_merged = query.version, VIEW in done.drops
        kinds = (VIEW,) if is_merged else (CHANGES,)
        changes = tuple(self._commits.read(part) for part in written if part.kind in kinds)
        progress = replace(query.progress, ticked=ticked, seq=query.progress.seq + 1)
        if STATE in done.drops:
            return PlanVersion(progress, done.state, changes if is_merged else version.changes, 1)
        return PlanVersion(progress, done.state, (*version.changes, *changes), version.commits + 1)

    def _is_merging(self, query: ContinuousQuery, ticked: int) -> bool:
        """Whether state and view are merged now: after so many parts, or when a twentieth of a window has passed."""
        if query.merged_at is None:
            query.merged_at = ticked
        ranges = [window.lifetime.range for window in query.plan.windows if window.lifetime.range is not None]
        is_late = bool(ranges) and ticked - query.merged_at >= max(min(ranges) // 20, query.plan.step)
        return (is_late and query.version.commits > 1) or query.version.commits >= MERGED_PARTS

    def _overtaken(self, query: ContinuousQuery, ticked: int) -> list[tuple[StreamState, str]]:
        """The ended streams whose frontier the plan has overtaken: a tuple that came below its tick would be lost, so
        it must be late."""
        found = dict[tuple[str, str], tuple[StreamState, str]]()
        for window in query.plan.windows:
            stream, axis = self._stream_of(window.stream), window.attribute.column
            frontier = stream.progress.frontiers[axis].value
            if stream.progress.has_ended and (frontier is None or frontier < ticked):
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
