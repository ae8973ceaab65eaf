"""Ticks of continuous queries: all due ticks of a plan together, in slices of bounded size, each one commit.

Queries over the same streams that are due for the same ticks are processed and committed together.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np

from windrow.engine.kept.window_stores import WindowStores
from windrow.engine.plans.commits import PlanCommits
from windrow.engine.plans.committer import PlanCommitter, ProcessedBatch
from windrow.engine.plans.delivering import PlanDelivery
from windrow.engine.plans.due import begins_at, due_upto, inputs_of, occupied, without_gaps
from windrow.engine.plans.homes import PlanDelay, PlanFailure, PlanHomes, is_silent, lifetimes, new_rows, reads_tuples
from windrow.engine.plans.query import ContinuousQuery, counts_ticks
from windrow.engine.state import StreamState
from windrow.engine.store.journal import Journal
from windrow.engine.tables.stored import StoredTable
from windrow.logs import log_event, logs_events
from windrow.operators.ticks import DueTicks
from windrow.settings import Settings
from windrow.types import point_text

MERGED_PARTS = 20
"""So many parts of changes or of state are merged into one."""

TOGETHER = 500
"""At most so many queries are in one commit."""


class PlanTicker:
    """Ticks plans; the loop of plans calls it for one at a time. `queries`: all that there are."""

    def __init__(
        self,
        journal: Journal,
        commits: PlanCommits,
        stores: WindowStores,
        stream_of: Callable[[str], StreamState],
        settings: Callable[[], Settings],
        homes: PlanHomes,
        queries: Callable[[], Iterable[ContinuousQuery]],
    ):
        self._commits = commits
        self._stores = stores
        self._stream_of = stream_of
        self._settings = settings
        self._homes = homes
        self._queries = queries
        self.delivery = PlanDelivery(commits, settings)
        self._committer = PlanCommitter(journal, commits, stores, self.delivery, stream_of, settings)
        self.follow: Callable[[ContinuousQuery, bool], None] = lambda query, ended: None
        """Makes tuples of a derived stream of what its plan has committed; `ended`: nothing more comes."""
        self.feed: Callable[[StoredTable], object] = lambda table: None
        """Brings a table up to the stream that feeds it."""

    def tick(self, query: ContinuousQuery) -> int:
        """Process all due ticks; return their number. An error of the plan itself suspends the query."""
        with query.ticking:
            if query.is_dropped or query.is_paused:
                return 0
            self.delivery.publish(query)
            done = 0
            for table in query.fed_tables:
                self.feed(table)
            self._follow(query)
            while query.error is None and (due := self._due(query)) is not None:
                with self._with_peers(query, due) as together:
                    self._batch(together, due)
                self._follow(query)
                done += due.count
            self._follow(query, ended=query.error is None and self._has_ended(query))
            for name in query.plan.streams if done else ():
                self._stores.tidy_silent(self._stream_of(name))
            return done

    def recover(self, queries: Sequence[ContinuousQuery]) -> None:
        """Publish what is committed and not published, at opening."""
        self.delivery.recover(queries)

    def _follow(self, query: ContinuousQuery, ended: bool = False) -> None:
        """Hand what is committed to the derived stream, if the query has one."""
        if query.derived is not None:
            self.follow(query, ended)

    def _has_ended(self, query: ContinuousQuery) -> bool:
        return all(self._stream_of(name).progress.input_ended for name in query.read_streams)

    # -- what is due ---------------------------------------------------------------------------

    def _due(self, query: ContinuousQuery) -> DueTicks | None:
        grid, plan = query.grid, query.plan
        inputs = inputs_of(plan, query.fed_tables, self._stream_of)
        upto, before = due_upto(inputs, grid, plan.periodic), query.progress.ticked
        if before is None:
            before = begins_at(inputs, grid)
        if upto is None or before is None or upto <= before:
            return None
        past = query.choices.begins_after
        if past is not None and before < past:
            due = DueTicks(before, min(upto, past), grid.step, grid.origin)
            if plan.periodic or is_silent(query, due):
                return self._bounded(query, due)
            return due if due.upto == past else None  # its answer at that tick is the first
        return self._bounded(query, DueTicks(before, upto, grid.step, grid.origin))

    def _bounded(self, query: ContinuousQuery, due: DueTicks) -> DueTicks | None:
        """So many of the due ticks that at most `tick_rows` new tuples belong to them, but at least one; of a periodic
        plan, without long gaps between its windows. None: no window holds a tuple."""
        limit = self._settings().integer("tick_rows")
        due = _repeated_upto(query, self._stores, due, limit) if query.repeating else due
        if not query.plan.periodic and (due.count == 1 or new_rows(query, self._stores, due) <= limit):
            return due
        lived = lifetimes(query, self._stores, due)
        births = [one for one, _ in lived]
        if due.count > 1 and sum(one.size for one in births) > limit:
            upto = query.grid.above(int(np.partition(np.concatenate(births), limit - 1)[limit - 1]))
            due = replace(due, upto=min(due.upto, max(upto, due.before + due.step)))
        if not query.plan.periodic or counts_ticks(query.plan):
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
            query.tell_watchers()

    # -- a batch -------------------------------------------------------------------------------

    @contextmanager
    def _with_peers(self, query: ContinuousQuery, due: DueTicks) -> Iterator[list[ContinuousQuery]]:
        """The query and those over the same streams that are due for the same ticks, which no other thread ticks
        meanwhile. A query that lags behind, or whose sink has not published, goes alone."""
        with ExitStack() as held:
            found = [query]
            for other in self._queries() if query.derived is None else ():
                if len(found) == TOGETHER:
                    break
                if other is not query and _may_join(query, other) and other.ticking.acquire(blocking=False):
                    held.callback(other.ticking.release)
                    if not other.is_dropped and (_is_due_alike(query, other, due) or self._due(other) == due):
                        found.append(other)
            yield found

    def _batch(self, queries: Sequence[ContinuousQuery], due: DueTicks) -> None:
        """Process and commit the ticks of these queries, as far as they are in the home of the first."""
        started = time.monotonic()
        chosen = self._homes.choose(queries, due)
        home = chosen[queries[0].id][0]
        queries = [query for query in queries if chosen[query.id][0] == home and query.home == queries[0].home]
        merging = home != queries[0].home or any(self._is_merging(query, due) for query in queries)
        done, delay = list[ProcessedBatch](), None
        for query, batch in zip(queries, self._homes[home].advance(queries, due, merging), strict=True):
            if isinstance(batch, PlanFailure):
                self.suspend(query, batch.why)
            elif isinstance(batch, PlanDelay):  # the others meet theirs again in their own ticks
                delay = batch.error if query is queries[0] else delay
            else:
                done.append(ProcessedBatch(query, due, batch, home, merging))
        advanced = time.monotonic()
        try:
            self._committer.commit(done, queries[0])
        finally:
            for one in done:
                one.query.tell_watchers()
        ended = time.monotonic()
        for one in done:
            one.query.lags.note(ended, due.upto - due.before)
            one.query.home_reason = chosen[one.query.id][1]
            one.query.meter.commit_s += (ended - advanced) / len(done)
            one.query.metrics.tick_s += (ended - started) / len(done)
            one.query.metrics.ticks += due.count
        if logs_events():
            self._log(done, due, (ended - started) / max(1, len(done)))
        if delay is not None:
            raise delay

    def _log(self, done: Sequence[ProcessedBatch], due: DueTicks, seconds: float) -> None:
        texts = {point: point_text(due.upto, point) for point in {one.query.plan.point for one in done}}
        for one in done:
            log_event(
                "plan_tick",
                "query '{query}': ticked up to {tick}, {rows} changes in {seconds} s",
                query=one.query.name,
                tick=texts[one.query.plan.point],
                rows=one.done.count,
                seconds=round(seconds, 3),
            )

    def suspend(self, query: ContinuousQuery, why: str) -> None:
        """Suspend a query whose plan fails; the streams and the other queries go on."""
        self._commits.suspend(query.id, why)
        query.version = replace(query.version, progress=replace(query.progress, error=why))
        log_event(
            "query_suspended", "query '{query}' is suspended: {error}", logging.ERROR, query=query.name, error=why
        )

    def _is_merging(self, query: ContinuousQuery, due: DueTicks) -> bool:
        """Whether state and view are merged now: after so many parts, or if rows that are gone would else be on record
        for more than a twentieth of the shortest window, and for more than a tick. Changes that are kept in any case do
        not count."""
        if query.must_merge or query.unmerged >= MERGED_PARTS:
            return True
        most = query.twentieth
        if most is None:
            return False
        keep = query.unmerged_rows(self._settings().integer("retained_changes"))
        if query.version.stays_first(due.upto, keep) < due.upto - most or self._merges_state(query, due.upto):
            return True
        is_long = due.upto - due.before > most  # rows may come and go within the batch
        return is_long and (query.holds_rows or reads_tuples(query, self._stores, due.before))

    def _merges_state(self, query: ContinuousQuery, ticked: int) -> bool:
        """Whether state is due to be merged that may have expired rows: parts by key, which are not dropped whole, and
        lists."""
        if query.merged_at is None or query.twentieth is None or ticked - query.merged_at < query.twentieth:
            return False
        if query.keeps_lists and query.keeps_expiring:
            return True
        return query.unmerged > 0 and (query.has_new_state or query.keeps_expiring)


def _repeated_upto(query: ContinuousQuery, stores: WindowStores, due: DueTicks, limit: int) -> DueTicks:
    """So many of the due ticks that a query that makes every live row anew at every tick makes at most about `limit`
    rows, but at least one tick. What is alive is what the state of RSTREAM has, and what comes."""
    sizes, few, many = query.version.state.sizes, 1, due.count
    alive = sum(sizes[path][0] for path in query.repeating if path in sizes)
    while few < many:
        count = (few + many + 1) // 2
        first = replace(due, upto=due.before + count * due.step)
        fits = count * (alive + new_rows(query, stores, first)) <= limit
        few, many = (count, many) if fits else (few, count - 1)
    return replace(due, upto=due.before + few * due.step)


def _may_join(query: ContinuousQuery, other: ContinuousQuery) -> bool:
    """Whether another query may be due for the same ticks; cheap, since all queries are asked."""
    mine, its = query.progress, other.progress
    if (
        its.ticked != mine.ticked
        or other.derived is not None
        or other.error is not None
        or other.is_paused
        or other.unshown
    ):
        return False
    return other.home == query.home and other.streams == query.streams and other.grid == query.grid


def _is_due_alike(query: ContinuousQuery, other: ContinuousQuery, due: DueTicks) -> bool:
    """Whether another query that has ticked as far is due for this one tick, since its windows wait for the same
    frontiers. Of several ticks, those that it has time for depend on its tuples."""
    if (
        query.fed_tables
        or other.fed_tables
        or due.count > 1
        or query.plan.periodic
        or other.plan.periodic
        or other.axes != query.axes
    ):
        return False
    return all(one.choices.begins_after is None or one.choices.begins_after <= due.before for one in (query, other))
