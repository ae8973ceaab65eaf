"""CREATE OR REPLACE QUERY and ALTER QUERY of continuous queries."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from windrow.cql.bounds.guards import check_bounds
from windrow.cql.printer import to_text
from windrow.cql.statements import CreateQuery
from windrow.dataplane.sinks import check_given
from windrow.dataplane.sinks.ownership import Claim
from windrow.engine.plans.changing.checks import refuse_other_kind, refuse_other_sink, tick_of
from windrow.engine.plans.changing.swapping import PlanSwaps
from windrow.engine.plans.commits import PlanCommits
from windrow.engine.plans.locking import held
from windrow.engine.plans.manager import PlanManager, check_slack, made_query
from windrow.engine.plans.planning import saved_query
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.queries.query_manager import QueryManager
from windrow.engine.queries.sink_paths import refuse_loop
from windrow.engine.tables.stored import StoredTable
from windrow.errors import CatalogError
from windrow.logs import log_event
from windrow.settings import Settings

log = logging.getLogger("windrow")


class QueryChanges:
    """Replaces, pauses and resumes continuous queries, with `QueryManager.changing` held. `settle` processes what is
    due of a query, `feed` brings a table up to the stream that feeds it."""

    def __init__(
        self,
        queries: QueryManager,
        plans: PlanManager,
        commits: PlanCommits,
        swaps: PlanSwaps,
        settle: Callable[[ContinuousQuery], None],
        feed: Callable[[StoredTable], None],
    ):
        self._queries = queries
        self._plans = plans
        self._commits = commits
        self._swaps = swaps
        self._settle = settle
        self._feed = feed

    # -- CREATE OR REPLACE ---------------------------------------------------------------------

    def replace(self, statement: CreateQuery, text: str, settings: Settings, sink: Any = None) -> ContinuousQuery:
        """Put a query in the place of the one of its name. It goes on from the last tick of the old one; everything
        due is processed before."""
        if sink is not None:
            check_given(sink)
        old = self._plans.query(statement.name)
        if old.is_paused:
            raise CatalogError(
                f"query '{old.name}' is paused", remedy=f"ALTER QUERY {old.name} RESUME first, or DROP it."
            )
        statement = replace(statement, name=old.name, or_replace=False)
        check_bounds(statement.select, text, settings.integer("max_value_bytes"))
        check_slack(settings)
        optimized, choices, types = self._plans.planned(statement, text, settings)
        refuse_other_kind(old, optimized.plan)
        new = made_query(old.id, statement, text, optimized, choices, [])
        self._check_sink(old, new)
        if old.error is None:
            self._settle(old)
        new.tables = self._plans.table_uses(new.plan)
        for table in new.fed_tables:
            self._feed(table)
        tables, streams = (*old.read_tables, *new.read_tables), self._plans.streams_of(old.plan, new.plan)
        with held(tables, streams, [old]):
            ticked = tick_of(old, new.plan, new.fed_tables, self._queries.stream)
            new.choices = replace(choices, begins_after=ticked)
            if ticked is None:
                new.choices = self._plans.beginning(new.plan, choices)
            new.sink, new.subscribers, new.metrics = sink or old.sink, old.subscribers, old.metrics
            new.ticking, new.late_call = old.ticking, old.late_call
            taken = self._swaps.takeovers.prepared(old, new, ticked)
            saved = saved_query(new.plan, types, new.choices)
            self._swaps.swap(old, new, taken, to_text(statement), saved)
            self._plans.take_over(old, new)
        log_event(
            "query_replaced",
            "query '{query}' is replaced: {kept} of its windows go on, {rebuilt} operators are built anew",
            query=new.name,
            kept=len(taken.carried.windows),
            rebuilt=len(taken.carried.rebuilt),
        )
        return new

    def _check_sink(self, old: ContinuousQuery, new: ContinuousQuery) -> None:
        def claims() -> tuple[Claim, Claim]:
            first, second = (self._plans.claim(one.statement, one.plan, begun=True) for one in (old, new))
            return first, second

        refuse_other_sink(old.name, old.statement, new.statement, old.mode, claims)
        others = [paths for paths in self._queries.paths() if paths.name.lower() != old.name.lower()]
        refuse_loop(self._plans.paths_of(new), self._queries.streams, others)

    # -- ALTER ---------------------------------------------------------------------------------

    def pause(self, query: ContinuousQuery) -> bool:
        """Tick no more, after everything due now. Return whether it ticked before. If its sink fails, which may be the
        reason to pause, what is due waits, too."""
        if query.is_paused:
            return False
        if query.error is None:
            try:
                self._settle(query)
            except Exception as error:
                log.warning("query '%s' is paused while ticks are due that failed: %s", query.name, error)
        with query.ticking:
            self._commits.pause(query.id, True, query.progress.ticked)
            query.is_paused, query.committed = True, query.progress.ticked
        log_event("query_paused", "query '{query}' is paused", query=query.name)
        return True

    def resume(self, query: ContinuousQuery) -> bool:
        """Tick again, and process everything that has become due. Return whether it was paused."""
        if not query.is_paused:
            return False
        with query.ticking:
            self._commits.pause(query.id, False, query.progress.ticked)
            query.is_paused = False
        log_event("query_resumed", "query '{query}' is resumed", query=query.name)
        self._settle(query)
        return True
