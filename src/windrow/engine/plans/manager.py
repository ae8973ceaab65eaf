"""Continuous queries come and go; `PlanManager` owns them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from sqlite3 import Row
from typing import Any, cast

from windrow.cql import parse_one
from windrow.cql.bounds.guards import check_bounds
from windrow.cql.printer import to_text
from windrow.cql.statements import CreateQuery, Emit
from windrow.dataplane.sinks import check_given
from windrow.engine.kept.window_stores import StoreUse, WindowStores
from windrow.engine.plans.commits import STATE, PlanCommits
from windrow.engine.plans.homes import SPARK, restored
from windrow.engine.plans.planning import PlanChoices, planned
from windrow.engine.plans.query import (
    ContinuousQuery,
    HomeState,
    PlanProgress,
    PlanVersion,
    bucketed_by,
    kept_columns,
)
from windrow.engine.plans.spark_plans import restored_state
from windrow.engine.queries.query_manager import QueryManager
from windrow.engine.state import StreamState
from windrow.errors import CatalogError, Place, StateError, UnsupportedError
from windrow.logs import log_event
from windrow.operators.scan import needs_history, reach
from windrow.operators.stages.ranges import WHOLE
from windrow.operators.state import PlanState
from windrow.optimizer.pipeline import OptimizedPlan
from windrow.plan.algebra.nodes import ContinuousPlan
from windrow.plan.binder import TypesOf
from windrow.settings import Settings

_LATER = (("emit", "EMIT LATEST"), ("priority", "PRIORITY"), ("expire_after", "EXPIRE AFTER"), ("sink", "INTO"))


class PlanManager:
    """Owns the continuous queries of a state directory. `on_drop` is told the number of a query that was dropped.

    They come and go with `QueryManager.changing` held. The dict of queries is never changed, only replaced, so it can
    be read without a lock.
    """

    def __init__(self, manager: QueryManager, commits: PlanCommits, stores: WindowStores):
        self._manager = manager
        self._commits = commits
        self._stores = stores
        self._queries: dict[str, ContinuousQuery] = {}
        self.on_drop: Callable[[int], None] | None = None

    # -- names ---------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        return name.lower() in self._queries

    def all(self) -> list[ContinuousQuery]:
        return list(self._queries.values())

    def names(self) -> list[str]:
        return [query.name for query in self.all()]

    def query(self, name: str, place: Place | None = None) -> ContinuousQuery:
        found = self._queries.get(name.lower())
        if found is None:
            raise self._manager.unknown_query(name, self.names(), place)
        return found

    def readers(self, stream: StreamState) -> list[ContinuousQuery]:
        """The continuous queries that read a stream."""
        name = stream.name.lower()
        return [query for query in self.all() if any(one.lower() == name for one in query.plan.streams)]

    def of_reader(self, reader: str) -> ContinuousQuery | None:
        """The query that a reader of a window store belongs to."""
        number = int(reader.partition("/")[0])
        return next((query for query in self.all() if query.id == number), None)

    # -- coming and going ----------------------------------------------------------------------

    def bind(
        self, statement: CreateQuery, text: str, settings: Settings, types_of: TypesOf | None = None
    ) -> OptimizedPlan:
        """The checked and optimized plan of a continuous query."""
        return self._bind(statement, text, types_of or self._manager.record(), PlanChoices.of(settings))

    def _bind(self, statement: CreateQuery, text: str, types_of: TypesOf, choices: PlanChoices) -> OptimizedPlan:
        for field, what in _LATER:
            given = getattr(statement, field)
            if given is not None and given is not Emit.EVERY_WINDOW:
                raise UnsupportedError(
                    f"this version does not execute {what} in a continuous query yet", remedy="Leave it out."
                )
        return planned(statement.select, text, self._manager.definition, types_of, choices)

    def create(self, statement: CreateQuery, text: str, settings: Settings, sink: Any = None) -> ContinuousQuery:
        """Create a continuous query, or return the one that exists already."""
        if sink is not None:
            check_given(sink)
        known = self._queries.get(statement.name.lower())
        statement, if_not_exists = replace(statement, if_not_exists=False), statement.if_not_exists
        if known is not None:
            return self._known(known, statement, if_not_exists, sink)
        if self._manager.has_query(statement.name):
            raise exists_already(statement.name)
        check_bounds(statement.select, text, settings.integer("max_value_bytes"))
        check_slack(settings)
        record, choices = self._manager.record(), PlanChoices.of(settings)
        optimized = self._bind(statement, text, record, choices)
        number, saved = self._manager.next_query(), json.dumps({"types": record.saved(), **choices.saved()})
        uses = list[StoreUse]()
        with ExitStack() as held:
            streams = {name.lower(): self._manager.stream(name) for name in optimized.plan.streams}
            for stream in sorted(streams.values(), key=lambda one: one.id):
                held.enter_context(stream.batch_lock)
                held.enter_context(stream.lock)
            self._commits.add(
                number,
                statement.name,
                to_text(statement),
                saved,
                [stream.name for stream in streams.values()],
                lambda: uses.extend(self._need(number, optimized.plan)),
            )
            query = _made(number, statement, text, optimized, choices, uses)
            query.sink = sink
            self._queries = {**self._queries, query.name.lower(): query}
        log_event(
            "query_created",
            "query '{query}' is created over {streams}",
            query=query.name,
            streams=", ".join(query.plan.streams),
        )
        return query

    def _known(self, known: ContinuousQuery, statement: CreateQuery, if_not_exists: bool, sink: Any) -> ContinuousQuery:
        """The query that exists already. After a restart, a Python sink may be given to it again."""
        if sink is not None and to_text(known.statement) == to_text(statement):
            known.sink = sink
        elif not if_not_exists:
            raise exists_already(statement.name)
        return known

    def _need(self, number: int, plan: ContinuousPlan) -> list[StoreUse]:
        """Have the streams keep what the windows of a plan need."""
        uses = []
        for i, (window, history) in enumerate(zip(plan.windows, needs_history(plan), strict=True)):
            columns, predicate = kept_columns(window)
            stream, axis = self._manager.stream(window.stream), window.attribute.column
            span, keys = reach(window, history), bucketed_by(plan, i)
            uses.append(self._stores.need(stream, f"{number}/{i}", axis, columns, predicate, keys, span))
        return uses

    def drop(self, query: ContinuousQuery) -> None:
        """Drop a continuous query."""
        with ExitStack() as held:
            for name in query.plan.streams:
                held.enter_context(self._manager.stream(name).batch_lock)
            held.enter_context(query.ticking)

            def along() -> None:
                for use in query.uses:
                    self._stores.drop(use.reader)

            self._commits.drop(query.id, along)
            query.is_dropped = True
            self._queries = {name: one for name, one in self._queries.items() if one is not query}
            if self.on_drop is not None:
                self.on_drop(query.id)
        log_event("query_dropped", "query '{query}' is dropped", query=query.name)

    def refuse_read(self, stream: StreamState) -> None:
        """Raise if a continuous query reads the stream."""
        names = ", ".join(query.name for query in self.readers(stream))
        if names:
            raise CatalogError(f"stream '{stream.name}' is read by: {names}", remedy="Drop these queries first.")

    def check_settings(self, settings: Settings) -> None:
        """Raise if a continuous query does not allow these settings."""
        if self._queries:
            check_slack(settings)

    # -- recovery ------------------------------------------------------------------------------

    def recover(self) -> None:
        """Rebuild the continuous queries from the catalog and the blocks."""
        for row in self._commits.rows():
            query = self._restored(row)
            self._queries[query.name.lower()] = query

    def _restored(self, row: Row) -> ContinuousQuery:
        statement, text = cast(CreateQuery, parse_one(row["statement"])), row["statement"]
        choices = PlanChoices.restored(json.loads(row["saved"]))
        optimized = self._bind(statement, text, self._manager.record(), choices)
        found = [self._stores.use(f"{row['id']}/{i}") for i in range(len(optimized.plan.windows))]
        uses = [use for use in found if use is not None]
        if len(uses) < len(found):
            raise StateError(
                f"a window store of query '{row['name']}' is missing in the catalog",
                remedy="Restore the state directory from a copy, or DROP the query.",
            )
        query = _made(row["id"], statement, text, optimized, choices, uses)
        progress = PlanProgress(row["ticked"], row["seq"], row["error"])
        state: HomeState = PlanState()
        parts = self._commits.parts(query.id, STATE)
        if any(part.buckets != WHOLE for part in parts):
            state = restored_state(parts)
            query.home, query.home_reason, query.must_merge = SPARK, "it was there before the restart", True
        elif progress.ticked is not None:
            state = restored(query, self._commits, progress.ticked)
        kept = self._commits.shown_parts(query.id)
        changes, commits = tuple(self._commits.read(part) for part in kept), len({part.seq for part in kept})
        query.version = PlanVersion(progress, state, changes, commits)
        query.committed = query.merged_at = progress.ticked
        query.unpublished = tuple(self._commits.unpublished(query.id))
        return query


def _made(
    number: int,
    statement: CreateQuery,
    text: str,
    optimized: OptimizedPlan,
    choices: PlanChoices,
    uses: list[StoreUse],
) -> ContinuousQuery:
    version = PlanVersion(PlanProgress(), PlanState())
    return ContinuousQuery(number, statement.name, statement, text, optimized, choices, tuple(uses), version)


def exists_already(name: str) -> CatalogError:
    return CatalogError(
        f"query '{name}' exists already",
        remedy="DROP QUERY it first; or keep it: IF NOT EXISTS, in Python wr.queries[name].",
    )


def check_slack(settings: Settings) -> None:
    """Raise if late tuples may be admitted below ticks that a continuous query has passed."""
    if settings.text("slack_meaning") == "generous":
        raise UnsupportedError(
            "continuous queries tick as soon as a part of a stream is complete, and slack_meaning = 'generous' admits "
            "later tuples",
            remedy="Keep slack_meaning as it is, or give the stream a larger SLACK.",
        )
