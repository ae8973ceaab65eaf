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
from windrow.engine.plans.homes import PlanDelay, PlanFailure, PlanHomes, lifetimes, new_rows
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.state import StreamState
from windrow.engine.store.journal import Journal
from windrow.engine.tables.stored import StoredTable
from windrow.logs import log_event
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
        self._delivery = PlanDelivery(commits, settings)
        self._committer = PlanCommitter(journal, commits, stores, self._delivery, stream_of, settings)
        self.follow: Callable[[ContinuousQuery, bool], None] = lambda query, ended: None
        """Makes tuples of a derived stream of what its plan has committed; `ended`: nothing more comes."""
        self.feed: Callable[[StoredTable], object] = lambda table: None
        """Brings a table up to the stream that feeds it."""

    def tick(self, query: ContinuousQuery) -> int:
        """Process all due ticks; return their number. An error of the plan itself suspends the query."""
        with query.ticking:
            if query.is_dropped:
                return 0
            self._delivery.publish(query)
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
        self._delivery.recover(queries)

    def _follow(self, query: ContinuousQuery, ended: bool = False) -> None:
        """Hand what is committed to the derived stream, if the query has one."""
        if query.derived is not None:
            self.follow(query, ended)

    def _has_ended(self, query: ContinuousQuery) -> bool:
        return all(self._stream_of(name).progress.input_ended for name in query.streams)

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

    @contextmanager
    def _with_peers(self, query: ContinuousQuery, due: DueTicks) -> Iterator[list[ContinuousQuery]]:
        """The query and those over the same streams that are due for the same ticks, which no other thread ticks
        meanwhile. A query that lags behind, or whose sink has not published, goes alone."""
        with ExitStack() as held:
            found = [query]
            streams = {name.lower() for name in query.streams}
            for other in self._queries() if query.derived is None else ():
                if len(found) == TOGETHER:
                    break
                if other is not query and _may_join(query, streams, other) and other.ticking.acquire(blocking=False):
                    held.callback(other.ticking.release)
                    if not other.is_dropped and self._due(other) == due:
                        found.append(other)
            yield found

    def _batch(self, queries: Sequence[ContinuousQuery], due: DueTicks) -> None:
        """Process and commit the ticks of these queries, as far as they are in the home of the first."""
        started = time.monotonic()
        chosen = {query.id: self._homes.choose(query, due) for query in queries}
        home = chosen[queries[0].id][0]
        queries = [query for query in queries if chosen[query.id][0] == home and query.home == queries[0].home]
        merging = home != queries[0].home or any(self._is_merging(query, due.upto) for query in queries)
        done, delay = list[ProcessedBatch](), None
        for query, batch in zip(queries, self._homes[home].advance(queries, due, merging), strict=True):
            if isinstance(batch, PlanFailure):
                self.suspend(query, batch.why)
            elif isinstance(batch, PlanDelay):  # the others meet theirs again in their own ticks
                delay = batch.error if query is queries[0] else delay
            else:
                done.append(ProcessedBatch(query, due, batch, home, merging))
        advanced = time.monotonic()
        self._committer.commit(done, queries[0])
        ended = time.monotonic()
        for one in done:
            one.query.home_reason = chosen[one.query.id][1]
            one.query.meter.commit_s += (ended - advanced) / len(done)
            one.query.metrics.tick_s += (ended - started) / len(done)
            one.query.metrics.ticks += due.count
            self._log(one, (ended - started) / len(done))
        if delay is not None:
            raise delay

    def _log(self, one: ProcessedBatch, seconds: float) -> None:
        log_event(
            "plan_tick",
            "query '{query}': ticked up to {tick}, {rows} changes in {seconds} s",
            query=one.query.name,
            tick=point_text(one.due.upto, one.query.plan.point),
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

    def _is_merging(self, query: ContinuousQuery, ticked: int) -> bool:
        """Whether state and view are merged now: after so many parts, or when a twentieth of a window has passed."""
        if query.must_merge:
            return True
        before = ticked if query.merged_at is None else query.merged_at
        is_late = query.twentieth is not None and ticked - before >= query.twentieth
        return query.unmerged >= (1 if is_late else MERGED_PARTS)


def _may_join(query: ContinuousQuery, streams: set[str], other: ContinuousQuery) -> bool:
    """Whether another query may be due for the same ticks; cheap, since all queries are asked."""
    if other.grid != query.grid or other.progress.ticked != query.progress.ticked or other.derived is not None:
        return False
    is_ready = other.error is None and not other.unshown and other.home == query.home
    return is_ready and {name.lower() for name in other.streams} == streams
