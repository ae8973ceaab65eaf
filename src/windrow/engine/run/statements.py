"""Statements that change the catalog: settings, streams and queries."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from windrow.cql.bounds.guards import check_bounds
from windrow.cql.statements import Alteration, CreateDerivedStream, CreateQuery, CreateStream
from windrow.dataplane.answers.finishing import Finisher
from windrow.dataplane.sources.completing import CompletedStream, as_completed, complete
from windrow.engine.ask.catalog_views import between_ticks, completeness, completeness_of_plan
from windrow.engine.plans.changing.checks import other_kind
from windrow.engine.plans.changing.query_changes import QueryChanges
from windrow.engine.plans.derived import query_of
from windrow.engine.plans.manager import check_slack
from windrow.engine.run.inputs import Inputs
from windrow.engine.run.opening import OpenState
from windrow.engine.run.running import RunningStreams
from windrow.engine.run.stream_ticks import StreamTicks
from windrow.engine.state import StreamState
from windrow.errors import CatalogError
from windrow.logs import log_event
from windrow.optimizer.pipeline import OptimizedPlan
from windrow.plan.continuous import has_slide, is_periodic_chain, refuse_unless_monotonic
from windrow.plan.nodes import Finalise
from windrow.settings import spec_of

log = logging.getLogger("windrow")


class Statements:
    """Executes statements one at a time, and updates the inputs and the running streams."""

    def __init__(
        self,
        opened: OpenState,
        ticks: StreamTicks,
        inputs: Inputs,
        running: RunningStreams,
        finisher: Finisher,
        changes: QueryChanges,
    ):
        self._opened = opened
        self._ticks = ticks
        self._inputs = inputs
        self._running = running
        self._finisher = finisher
        self._changes = changes

    def set(self, name: str, text: str) -> None:
        with self._changing():
            settings = self._opened.settings.with_text(name, text)
            self._opened.manager.check_settings(settings)
            self._opened.plans.check_settings(settings)
            self._opened.journal.entries.save_setting(spec_of(name).name, text)
            self._opened.settings = settings

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Serialise changes of settings, streams and queries; raises once the engine is closing."""
        with self._opened.manager.changing, self._opened.jvm.watched():
            self._opened.lifecycle.refuse_closed()
            yield

    def create_stream(self, statement: CreateStream) -> tuple[StreamState, tuple[str, ...]]:
        """Create a stream from a statement, completed by its source; with what the user should know of it."""
        self._ticks.refuse_inside("create a stream")
        self._refuse_table(statement.name)
        known = self._opened.manager.streams.get(statement.name.lower())
        if known is not None:
            completed = CompletedStream(as_completed(statement, known.definition.statement))
        else:
            with self._opened.jvm.watched():
                self._opened.lifecycle.refuse_closed()
                completed = complete(self._opened.spark, statement)
        with self._changing():
            if completed.statement.retain is not None:
                check_slack(self._opened.settings)
            stream = self._opened.manager.create_stream(completed.statement)
            self._opened.retention.begin(stream)
        if stream.definition.retained is not None:
            self._running.start_new()
        return stream, completed.notes

    def create_derived(self, statement: CreateDerivedStream, text: str) -> tuple[StreamState, bool]:
        """Create a derived stream; returns it, and whether it is new."""
        self._ticks.refuse_inside("create a stream")
        with self._changing():
            self._refuse_table(statement.name)
            known = self._opened.manager.streams.get(statement.name.lower())
            if known is not None and statement.if_not_exists:
                return known, False
            if known is not None:
                raise CatalogError(
                    f"stream '{known.name}' exists already", remedy="DROP STREAM it first, or use IF NOT EXISTS."
                )
            statement = replace(statement, if_not_exists=False)
            query = self._opened.plans.create_stream(statement, text, self._opened.settings)
            self._ticks.settle(query)
        self._running.start_new()
        return self._opened.manager.stream(statement.name), True

    def attach(self, statement: CreateStream, dataframe: Any) -> StreamState:
        """Create a stream from a DataFrame, or give an existing one its DataFrame again."""
        self._ticks.refuse_inside("create a stream")
        with self._changing():
            known = self._opened.manager.streams.get(statement.name.lower())
            if known is None:
                return self._opened.manager.create_stream(statement, dataframe)
            stream = self._reattach(known, statement, dataframe)
        self._running.start_new()
        return stream

    def _reattach(self, known: StreamState, statement: CreateStream, dataframe: Any) -> StreamState:
        """Attach a DataFrame to its stream after a restart. Columns and clauses must be the same."""
        if known.definition.statement != statement:
            raise CatalogError(
                f"stream '{statement.name}' exists with other columns or clauses",
                remedy="DROP STREAM it first, or give the same ones.",
            )
        known.dataframe = dataframe
        return known

    def drop_stream(self, name: str) -> None:
        self._ticks.refuse_inside("drop a stream")
        with self._changing():
            stream = self._opened.manager.stream(name)
            self._opened.plans.refuse_read(stream)
            plan = self._opened.plans.behind(stream)
            if plan is None:
                self._opened.retention.end(stream)
                self._opened.manager.drop_stream(stream)
            else:
                self._opened.plans.drop(plan)
        self._inputs.forget(stream)
        self._running.forget(stream)

    def create_query(self, statement: CreateQuery, text: str, sink: Any = None) -> tuple[str, str | None]:
        """Create a query, periodic or continuous; returns which answers are complete, and a note if the query shows
        less than its user may expect."""
        self._ticks.refuse_inside("create a query")
        with self._changing():
            told = self._create(statement, text, sink)
        self._running.start_new()
        return told

    def _create(self, statement: CreateQuery, text: str, sink: Any) -> tuple[str, str | None]:
        settings, plans, manager = self._opened.settings, self._opened.plans, self._opened.manager
        self._refuse_table(statement.name)
        is_known = manager.has_query(statement.name)
        plans.refuse_derived(statement.name)
        is_chain = is_periodic_chain(statement.select)
        if statement.or_replace and plans.has(statement.name) and is_chain:
            raise other_kind(statement.name, plans.query(statement.name).plan.periodic, is_chain)
        if statement.or_replace and is_known and not is_chain:
            raise other_kind(statement.name, True, has_slide(statement.select))
        if plans.has(statement.name) or not (is_known or is_chain):
            if statement.or_replace and plans.has(statement.name):
                query = self._changes.replace(statement, text, settings, sink)
            else:
                query = plans.create(replace(statement, or_replace=False), text, settings, sink)
            self._ticks.settle(query)
            note = between_ticks(query.plan)
            if note is not None:
                log_event("short_windows", "query '{query}': {note}", logging.WARNING, query=query.name, note=note)
            return completeness_of_plan(query), note
        before = manager.query(statement.name)[1].plan if is_known else None
        made = manager.create_query(statement, text, settings, self._ticks.catch_up_stream, sink)
        if before is not None and made.plan is not before:
            self._finisher.forget(before)
        return completeness(made), None

    def alter_query(self, name: str, alteration: Alteration) -> bool:
        """Pause or resume a query. Return whether that changed anything."""
        self._ticks.refuse_inside("alter a query")
        pauses = alteration is Alteration.PAUSE
        with self._changing():
            if not self._opened.manager.has_query(name):
                query = self._opened.plans.query(name)
                return self._changes.pause(query) if pauses else self._changes.resume(query)
            stream, known = self._opened.manager.query(name)
            if known.is_paused == pauses:
                return False
            with stream.batch_lock:
                self._ticks.catch_up_stream(stream)
                with stream.lock:
                    self._opened.manager.pause(known, pauses)
                self._ticks.catch_up_stream(stream)
            return True

    def query_of(self, statement: CreateDerivedStream, text: str) -> CreateQuery:
        """The query that would make a derived stream; raises if its output is no stream."""
        query = query_of(statement)
        refuse_unless_monotonic(self._opened.plans.bind(query, text, self._opened.settings).plan.root, statement.name)
        return query

    def _refuse_table(self, name: str) -> None:
        """A name in FROM means one thing, so a table has a name of its own."""
        if self._opened.tables.find(name) is not None:
            raise CatalogError(f"there is a table '{name}' already", remedy="Choose another name.")

    def bind(self, statement: CreateQuery, text: str) -> Finalise | OptimizedPlan:
        """The plan of a query, without creating it."""
        check_bounds(statement.select, text, self._opened.settings.integer("max_value_bytes"))
        with self._opened.jvm.watched():
            if is_periodic_chain(statement.select):
                return self._opened.manager.bind(statement, text)
            return self._opened.plans.bind(statement, text, self._opened.settings)

    def drop_query(self, name: str) -> None:
        """Drop a query. Due windows are answered first if possible; a failing sink does not prevent the drop."""
        self._ticks.refuse_inside("drop a query")
        with self._changing():
            if not self._opened.manager.has_query(name):
                self._opened.plans.drop(self._opened.plans.query(name))
                return
            stream, query = self._opened.manager.query(name)
            with stream.batch_lock:
                try:
                    self._ticks.catch_up_stream(stream)
                except Exception as error:
                    log.warning(
                        "query '%s' is dropped while stream '%s' has answers due that could not be given: %s",
                        query.name,
                        stream.name,
                        error,
                    )
                self._opened.manager.drop_query(stream, query)
                self._finisher.forget(query.plan)
