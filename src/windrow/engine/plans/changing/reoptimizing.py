"""A plan is chosen again when what is measured of its streams has drifted from what it was chosen by.

After ticks, at most once in a twentieth of the shortest window, the facts are measured anew. If one of them has changed
by the factor of the setting `reoptimize_drift`, the query is planned with the new facts; if that gives another plan, it
takes the place of the old one as CREATE OR REPLACE QUERY does, at the last tick, with the state carried over.

The answer must not change. So nothing is done if a window whose state has to be built anew is not kept whole; nor in a
join with a table that is NON RETROACTIVE, of which the versions that results have met may be gone; nor for a derived
stream, a query that is run by another strategy than the default, or one that is paused or suspended; nor if the state
of a query in Spark is too large for the driver, and Spark cannot build that of the new plan. Locks are only tried: if a
statement or a micro-batch holds one, the next ticks try again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from windrow.cql.printer import to_text
from windrow.engine.plans.changing.swapping import PlanSwaps
from windrow.engine.plans.changing.takeover import PlanTakeover
from windrow.engine.plans.locking import in_order, tried
from windrow.engine.plans.manager import PlanManager, made_query
from windrow.engine.plans.planning import saved_query
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.queries.query_manager import QueryManager
from windrow.errors import WindrowError
from windrow.logs import log_event
from windrow.operators.scan import reach
from windrow.optimizer.drift import Drift, drift
from windrow.optimizer.execution import UPA, execution_of
from windrow.plan.algebra.nodes import NrrJoin, walk
from windrow.settings import Settings


class Reoptimizer:
    """Chooses plans again."""

    def __init__(self, queries: QueryManager, plans: PlanManager, swaps: PlanSwaps, settings: Callable[[], Settings]):
        self._queries = queries
        self._plans = plans
        self._swaps = swaps
        self._settings = settings

    def after_ticks(self, query: ContinuousQuery) -> ContinuousQuery | None:
        """Choose the plan of a query again if that is due; return the query that takes its place. The caller holds no
        lock."""
        factor = self._settings().factor("reoptimize_drift")
        if factor is None or not self._is_due(query):
            return None
        locks = in_order(query.read_tables, self._plans.streams_of(query.plan), [query])
        with tried([self._queries.changing, *locks]) as is_held:
            return self._again(query, factor) if is_held and not query.is_dropped else None

    def _is_due(self, query: ContinuousQuery) -> bool:
        ticked = query.progress.ticked
        if ticked is None or query.derived is not None or query.error or query.is_paused:
            return False
        if len(query.plan.windows) < 2 or query.unshown or execution_of(query.plan) != UPA:
            return False
        if any(isinstance(one, NrrJoin) for one in walk(query.plan.root)):
            return False
        return query.weighed_at is None or ticked - query.weighed_at >= (query.twentieth or query.plan.step)

    def _again(self, old: ContinuousQuery, factor: float) -> ContinuousQuery | None:
        ticked, facts = old.progress.ticked, self._plans.facts(old.statement)
        assert ticked is not None
        known = old.choices.facts if old.weighed is None else old.weighed
        found = drift(known, facts, old.plan.streams)
        old.weighed_at = ticked
        if found.factor < factor:
            return None
        old.weighed = facts
        choices = replace(old.choices, facts=facts, begins_after=ticked)
        optimized, types = self._plans.planned_by(old.statement, old.text, choices)
        if optimized.plan == old.plan:
            return None
        new = made_query(old.id, old.statement, old.text, optimized, choices, [])
        new.tables = self._plans.table_uses(new.plan)
        new.sink, new.subscribers, new.metrics = old.sink, old.subscribers, old.metrics
        new.ticking, new.late_call, new.weighed_at = old.ticking, old.late_call, ticked
        taken = self._prepared(old, new, ticked)
        if taken is None or not _keeps_all(taken, ticked):
            return None
        saved = saved_query(new.plan, types, choices)
        self._swaps.swap(old, new, taken, to_text(old.statement), saved)
        new.chosen_again = found.what
        self._plans.take_over(old, new)
        _log(new, found)
        return new

    def _prepared(self, old: ContinuousQuery, new: ContinuousQuery, ticked: int) -> PlanTakeover | None:
        """What the new plan takes over; None if that cannot be made. A query goes on by its old plan then: a better one
        is worth no failed tick."""
        takeovers = self._swaps.takeovers
        try:
            return (takeovers.prepared if takeovers.fits_driver(old) else takeovers.built)(old, new, ticked)
        except WindrowError as error:
            log_event(
                "plan_kept",
                "query '{query}': it keeps its plan, since the state of a better one cannot be built: {why}",
                query=old.name,
                why=str(error),
            )
            return None


def _keeps_all(taken: PlanTakeover, ticked: int) -> bool:
    """Whether every window that is not carried over has all its tuples."""
    for i, (window, reader) in enumerate(zip(taken.plan.windows, taken.readers, strict=True)):
        length = reach(window)
        is_kept = reader.since is None or (length is not None and reader.since <= ticked - length)
        if i not in taken.carried.windows and not is_kept:
            return False
    return True


def _log(query: ContinuousQuery, found: Drift) -> None:
    log_event(
        "plan_chosen_again", "query '{query}': its plan is chosen again, since {why}", query=query.name, why=found.what
    )
