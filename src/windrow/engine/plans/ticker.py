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
from windrow.engine.plans.commits import ANSWERS, CHANGES, STATE, VIEW, NewPart, PlanCommits, PlanPart, PlanTick
from windrow.engine.plans.delivering import PlanDelivery
from windrow.engine.plans.due import begins_at, due_upto, input_progress
from windrow.engine.plans.occupied import occupied, without_gaps
from windrow.engine.plans.ordering import ordered
from windrow.engine.plans.query import ContinuousQuery, PlanVersion
from windrow.engine.plans.tables import answers_table, append_table, changes_table, stored, view_table
from windrow.engine.progress import StreamProgress
from windrow.engine.state import CommittedState, StreamState
from windrow.engine.store.journal import Journal
from windrow.errors import SparkEndedError, StateError, first_line
from windrow.logs import log_event
from windrow.operators.advance import Advance, advance
from windrow.operators.changes import AT
from windrow.operators.layouts.parts import StatePart
from windrow.operators.scan import StreamRows, births_end, reach, split
from windrow.operators.state import compacted
from windrow.operators.tables.kernel import Kernel
from windrow.operators.ticks import DueTicks, Points
from windrow.operators.view import LiveView
from windrow.plan.algebra.nodes import ContinuousPlan, ToStream
from windrow.settings import Settings
from windrow.types import POINT_MAX, POINT_MIN, point_text

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
    ):
        self._journal = journal
        self._commits = commits
        self._stores = stores
        self._stream_of = stream_of
        self._settings = settings
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
        lifetimes = self._lifetimes(query, due)
        limit, births = self._settings().integer("tick_rows"), [one for one, _ in lifetimes]
        if due.count > 1 and sum(one.size for one in births) > limit:
            upto = query.grid.above(int(np.partition(np.concatenate(births), limit - 1)[limit - 1]))
            due = replace(due, upto=min(due.upto, max(upto, due.before + due.step)))
        if not query.plan.periodic:
            return due
        found = without_gaps(due, occupied(due, lifetimes, query.progress.covered))
        if found is None:
            self._skip(query, due.upto)
        elif found.before > due.before:
            self._skip(query, found.before)
        return found

    def _skip(self, query: ContinuousQuery, ticked: int) -> None:
        """Pass ticks at which no window holds a tuple."""
        version = query.version
        if version.progress.ticked is not None:
            state = replace(version.state, ticked=ticked)
            query.version = replace(version, progress=replace(query.progress, ticked=ticked), state=state)

    def _lifetimes(self, query: ContinuousQuery, due: DueTicks) -> list[tuple[Points, Points]]:
        """When the new tuples of each window are born, and when they leave it."""
        found = []
        for window, use in zip(query.plan.windows, query.uses, strict=True):
            lifetime = window.lifetime
            lo, hi = due.before - lifetime.offset, due.upto - lifetime.offset
            rows = self._stores.rows(use, (), lo, hi)
            births = rows.column("__t").to_numpy() + lifetime.offset
            found.append((births, births_end(births, lifetime)))
        return found

    # -- a batch -------------------------------------------------------------------------------

    def _batch(self, query: ContinuousQuery, due: DueTicks) -> None:
        started = time.monotonic()
        try:
            done = self._advance(query, due)
        except (StateError, SparkEndedError):
            raise
        except Exception as error:
            self.suspend(query, first_line(error))
            return
        advanced = time.monotonic()
        self._commit(query, due, done)
        seconds = time.monotonic() - started
        query.meter.commit_s += time.monotonic() - advanced
        query.metrics.tick_s += seconds
        query.metrics.ticks += due.count
        log_event(
            "plan_tick",
            "query '{query}': ticked up to {tick}, {rows} changes in {seconds} s",
            query=query.name,
            tick=point_text(due.upto, query.plan.point),
            rows=done.changes.num_rows,
            seconds=round(seconds, 3),
        )

    def _advance(self, query: ContinuousQuery, due: DueTicks) -> Advance:
        started = time.perf_counter()
        rows, explicit = self._rows(query, due), query.choices.explicit_expiry
        read = time.perf_counter()
        done = advance(query.plan, query.version.state, rows, due, self._kernel, explicit, query.meter)
        query.meter.add_batch(due.upto - due.before, read - started, time.perf_counter() - read)
        done = replace(done, changes=stored(done.changes))
        if query.plan.periodic:
            done = self._of_occupied(query, done, due)
            if self._is_past(query, due):
                return replace(done, changes=done.changes.slice(0, 0))
            return replace(done, changes=ordered(query.plan, done.changes, self._kernel, first="tick"))
        if self._is_past(query, due):
            return replace(done, changes=beginning(query.plan, done.changes, due.upto))
        return done

    def _is_past(self, query: ContinuousQuery, due: DueTicks) -> bool:
        """Whether these ticks were due when the query was created: they only build its state."""
        return query.choices.begins_after is not None and due.upto <= query.choices.begins_after

    def _of_occupied(self, query: ContinuousQuery, done: Advance, due: DueTicks) -> Advance:
        """The answers to windows that hold a tuple."""
        runs = occupied(due, self._lifetimes(query, due), query.progress.covered)
        query.version = replace(query.version, progress=query.progress.covering(runs.stop))
        ticks = done.changes.column(AT).to_numpy()
        kept = runs.has(ticks)
        return done if kept.all() else replace(done, changes=done.changes.filter(pa.array(kept)))

    def _rows(self, query: ContinuousQuery, due: DueTicks) -> dict[int, StreamRows]:
        """The stored tuples that each window of the plan needs for these ticks."""
        found = {}
        for i, (window, use) in enumerate(zip(query.plan.windows, query.uses, strict=True)):
            lo, hi = self._needed_from(query, i, due.before), due.upto - window.lifetime.offset
            rows = self._stores.rows(use, query.columns[i], lo, hi)
            named = rows.rename_columns(["__t", *(column.sql for column in window.schema)])
            found[i] = split(window, named, due)
        return found

    def _needed_from(self, query: ContinuousQuery, i: int, ticked: int) -> int:
        """The least point of window i that a tick above `ticked` reads."""
        below = reach(query.plan.windows[i], query.history[i])
        return POINT_MIN if below is None else ticked - below

    def suspend(self, query: ContinuousQuery, why: str) -> None:
        """Suspend a query whose plan fails; the streams and the other queries go on."""
        self._commits.suspend(query.id, why)
        query.version = replace(query.version, progress=replace(query.progress, error=why))
        log_event(
            "query_suspended", "query '{query}' is suspended: {error}", logging.ERROR, query=query.name, error=why
        )

    # -- the commit ----------------------------------------------------------------------------

    def _commit(self, query: ContinuousQuery, due: DueTicks, done: Advance) -> None:
        """Deliver, commit and install a batch. One without a change, new state or expired tuples only moves the
        progress in memory: after a restart it is processed again, to the same effect."""
        version, ended = query.version, self._overtaken(query, due.upto)
        shown = self._shown(query, due, done.changes)
        is_news = done.changes.num_rows or done.parts or ended or shown is not None
        if not is_news and not self._is_stale(query, due.upto):
            query.version = replace(version, progress=replace(query.progress, ticked=due.upto), state=done.state)
            return
        seq, plan = query.progress.seq + 1, query.plan
        rows = (answers_table if plan.periodic else changes_table)(plan, done.changes)
        staged = self._delivery.send(query, rows, shown, seq)
        crash_point("plan-staged")
        parts, drops = self._parts(query, done, rows, due.upto)
        keep = self._settings().integer("retained_changes")
        covered, deposited = query.progress.covered, None if query.derived is None else seq - 1
        tick = PlanTick(query.id, due.upto, seq, tuple(parts), tuple(drops), keep, covered, deposited)
        with ExitStack() as held:
            for stream, _ in ended:
                held.enter_context(stream.lock)
            after = [(stream, stream.progress.promised(axis, due.upto)) for stream, axis in ended]
            written, entry = self._commits.tick(tick, staged, lambda: self._along(query, after, due.upto))
            for stream, progress in after:
                stream.install(CommittedState(progress, stream.unpublished))
        kept = () if query.derived is not None else self._kept(version, written)
        query.version = PlanVersion(replace(query.progress, ticked=due.upto, seq=seq), done.state, kept)
        query.committed = due.upto
        query.unmerged = 0 if STATE in drops else query.unmerged + bool(written)
        query.merged_at = due.upto if STATE in drops or query.merged_at is None else query.merged_at
        query.metrics.rows += done.changes.num_rows
        query.metrics.last_delivery_s = time.time()
        if entry is not None and staged is not None:
            query.unshown = (*query.unshown, (entry, staged))
            self._delivery.publish(query)

    def _kept(self, version: PlanVersion, written: Sequence[PlanPart]) -> tuple[pa.Table, ...]:
        """The latest merged view, as changes, and all changes since."""
        view = [part for part in written if part.kind == VIEW]
        if view:
            return tuple(self._commits.read(part) for part in view)
        return (*version.changes, *(self._commits.read(part) for part in written if part.kind == CHANGES))

    def _shown(self, query: ContinuousQuery, due: DueTicks, changes: pa.Table) -> pa.Table | None:
        """What the query's sink gets of a tick batch; None: nothing. A view is shown when it is another than before,
        also by rows that expire."""
        plan = query.plan
        if query.sink is None:
            return None
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

    def _parts(
        self, query: ContinuousQuery, done: Advance, rows: pa.Table, ticked: int
    ) -> tuple[list[NewPart], list[str]]:
        """What a commit writes, and the kinds of parts that it replaces."""
        found, drops = list[NewPart](), list[str]()
        is_due = self._is_merging(query, ticked)
        state = compacted(done.state) if is_due else done.parts
        found += [_state_part(part) for part in state]
        if query.derived is not None:
            found += [NewPart(CHANGES, done.changes)] if done.changes.num_rows else []
        elif query.plan.periodic:
            found += [NewPart(ANSWERS, rows, lo=ticked, hi=ticked)] if rows.num_rows else []
        elif is_due:
            found += [NewPart(CHANGES, done.changes)] if done.changes.num_rows else []
            found.append(NewPart(VIEW, merged_view((*query.version.changes, done.changes), ticked)))
            drops.append(VIEW)
        elif done.changes.num_rows:
            found.append(NewPart(CHANGES, done.changes))
        if is_due:
            drops.append(STATE)
        return found, drops

    def _is_merging(self, query: ContinuousQuery, ticked: int) -> bool:
        """Whether state and view are merged now: after so many parts, or when a twentieth of a window has passed."""
        before = ticked if query.merged_at is None else query.merged_at
        ranges = [window.lifetime.range for window in query.plan.windows if window.lifetime.range is not None]
        is_late = bool(ranges) and ticked - before >= max(min(ranges) // 20, query.plan.step)
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
            needed = self._needed_from(query, i, ticked)
            if needed > POINT_MIN:
                self._stores.keep_from(use.reader, needed)


def _state_part(part: StatePart) -> NewPart:
    """A part of state to write. Rows that never expire end above all points."""
    return NewPart(STATE, part.rows, part.path, part.layout.name, part.lo, min(part.hi, POINT_MAX))


def beginning(plan: ContinuousPlan, changes: pa.Table, ticked: int) -> pa.Table:
    """The first changes of a query that begins on tuples of the past: what its answer at the tick consists of. A stream
    (ISTREAM, DSTREAM, RSTREAM) begins after the tick."""
    if isinstance(plan.root, ToStream):
        return changes.slice(0, 0)
    rows = LiveView.empty(changes.schema).after(changes, ticked).compacted()
    return rows.set_column(AT, rows.schema.field(AT), pa.array(np.full(rows.num_rows, ticked, np.int64)))


def merged_view(changes: Sequence[pa.Table], ticked: int) -> pa.Table:
    """The rows of the view, and those that are yet to expire, as changes."""
    return live_view(changes, ticked).compacted()


def live_view(changes: Sequence[pa.Table], ticked: int) -> LiveView:
    """The view after all of these changes."""
    view = LiveView.empty(changes[0].schema)
    for part in changes:
        view = view.after(part, ticked)
    return view
