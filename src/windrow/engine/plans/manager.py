"""Continuous queries come and go; `PlanManager` owns them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from sqlite3 import Row
from typing import Any, cast

from windrow.cql import parse_one
from windrow.cql.bounds.guards import check_bounds
from windrow.cql.printer import to_text
from windrow.cql.statements import CreateQuery, Emit
from windrow.dataplane.stores import KeptColumn
from windrow.engine.plans.commits import CHANGES, VIEW, PlanCommits
from windrow.engine.plans.planning import PlanChoices, planned
from windrow.engine.plans.query import ContinuousQuery, PlanProgress, PlanVersion
from windrow.engine.queries.query_manager import QueryManager
from windrow.engine.state import StreamState
from windrow.engine.store.windows.window_stores import StoreUse, WindowStores
from windrow.errors import CatalogError, Place, UnsupportedError
from windrow.logs import log_event
from windrow.operators.advance import PlanState, restore
from windrow.plan.algebra.nodes import ContinuousPlan, StreamWindow
from windrow.plan.binder import TypesOf
from windrow.plan.continuous import bind_continuous
from windrow.settings import Settings
from windrow.types import SqlType

BOOLEAN = SqlType("BOOLEAN")


class PlanManager:
    """Owns the continuous queries of a state directory.

    The dict of queries is never changed, only replaced, so it can be read without a lock. They come and go with
    `QueryManager.changing` held.
    """

    def __init__(self, manager: QueryManager, commits: PlanCommits, stores: WindowStores):
        self._manager = manager
        self._commits = commits
        self._stores = stores
        self._queries: dict[str, ContinuousQuery] = {}

    # -- names ---------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        return name.lower() in self._queries

    def names(self) -> list[str]:
        return [query.name for query in self._queries.values()]

    def all(self) -> list[ContinuousQuery]:
        return list(self._queries.values())

    def query(self, name: str, place: Place | None = None) -> ContinuousQuery:
        found = self._queries.get(name.lower())
        if found is None:
            raise self._manager.unknown_query(name, self.names(), place)
        return found

    def readers(self, stream: StreamState) -> list[ContinuousQuery]:
        """The continuous queries that read a stream."""
        return [query for query in self._queries.values() if stream.name in query.streams]

    # -- coming and going ----------------------------------------------------------------------

    def bind(
        self, statement: CreateQuery, text: str, types_of: TypesOf, choices: PlanChoices
    ) -> ContinuousPlan:
        """The checked and optimized plan of a continuous query."""
        for present, what in (
            (statement.emit is Emit.LATEST, "EMIT LATEST"),
            (statement.priority is not None, "PRIORITY"),
            (statement.expire_after is not None, "EXPIRE AFTER"),
        ):
            if present:
                raise UnsupportedError(f"this version does not execute {what} yet", remedy="Leave it out.")
        return planned(bind_continuous(statement.select, text, self._manager.definition, types_of), choices)

    def create(self, statement: CreateQuery, text: str, settings: Settings, sink: Any = None) -> ContinuousQuery:
        """Create a continuous query. Call it with `QueryManager.changing` held."""
        check_bounds(statement.select, text, settings.integer("max_value_bytes"))
        record, choices = self._manager.record(), PlanChoices.of(settings)
        plan = self.bind(statement, text, record, choices)
        streams = [self._manager.stream(name) for name in plan.streams]
        number = self._manager.next_query()
        uses = list[StoreUse]()

        def along() -> None:
            uses.extend(self._need(number, i, window) for i, window in enumerate(plan.windows))

        with ExitStack() as held:
            for stream in sorted(streams, key=lambda one: one.id):
                held.enter_context(stream.batch_lock)
                held.enter_context(stream.lock)
            saved = json.dumps({"types": record.saved(), **choices.saved()})
            self._commits.add(number, statement.name, to_text(statement), saved, plan.streams, along)
            query = self._made(number, statement, text, plan, tuple(uses), choices)
            query.sink = sink
            self._queries = {**self._queries, query.name.lower(): query}
        log_event(
            "query_created",
            "query '{query}' is created over {streams}",
            query=query.name,
            streams=", ".join(plan.streams),
        )
        return query

    def _need(self, number: int, i: int, window: StreamWindow) -> StoreUse:
        """Have the stream keep what a window of the plan needs."""
        columns, predicate = kept_columns(window)
        stream = self._manager.stream(window.stream)
        return self._stores.need(stream, f"{number}/{i}", window.attribute.column, columns, predicate, ())

    def drop(self, query: ContinuousQuery) -> None:
        """Drop a continuous query. Call it with `QueryManager.changing` held."""
        with query.ticking:
            readers = [f"{query.id}/{i}" for i in range(len(query.plan.windows))]

            def along() -> None:
                for reader in readers:
                    self._stores.drop(reader)

            self._commits.drop(query.id, along)
            query.is_dropped = True
            self._queries = {name: one for name, one in self._queries.items() if one is not query}
        log_event("query_dropped", "query '{query}' is dropped", query=query.name)

    # -- recovery ------------------------------------------------------------------------------

    def recover(self) -> None:
        """Rebuild the continuous queries from the catalog and the blocks."""
        for row in self._commits.rows():
            query = self._restored(row)
            self._queries[query.name.lower()] = query

    def _restored(self, row: Row) -> ContinuousQuery:
        statement = cast(CreateQuery, parse_one(row["statement"]))
        choices = PlanChoices.restored(json.loads(row["saved"]))
        plan = self.bind(statement, row["statement"], self._manager.record(), choices)
        uses = tuple(self._stores.use(f"{row['id']}/{i}") for i in range(len(plan.windows)))
        query = self._made(row["id"], statement, row["statement"], plan, uses, choices)
        progress = PlanProgress(row["ticked"], row["seq"], row["error"])
        state = query.version.state
        if progress.ticked is not None:
            state = restore(plan, self._commits.state_parts(query.id), progress.ticked)
        changes = tuple(self._commits.read(part) for part in self._commits.parts(query.id, VIEW, CHANGES))
        query.version = PlanVersion(progress, state, changes)
        query.unpublished = tuple(self._commits.unpublished(query.id))
        return query

    def _made(
        self,
        number: int,
        statement: CreateQuery,
        text: str,
        plan: ContinuousPlan,
        uses: tuple[StoreUse, ...],
        choices: PlanChoices,
    ) -> ContinuousQuery:
        since = [use.since for use in uses if use.since is not None]
        version = PlanVersion(PlanProgress(), PlanState.empty(plan), ())
        return ContinuousQuery(
            number, statement.name, statement, text, plan, uses, max(since, default=None), version, choices=choices
        )


def kept_columns(window: StreamWindow) -> tuple[list[KeptColumn], KeptColumn | None]:
    """What a window store keeps for a window: its columns in order, and its predicate."""
    columns = [KeptColumn(one.sql, one.column.type) for one in window.columns]
    predicate = None if window.predicate is None else KeptColumn(window.predicate, BOOLEAN)
    return columns, predicate
