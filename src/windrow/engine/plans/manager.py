"""Continuous queries come and go; `PlanManager` owns them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from sqlite3 import Row
from typing import Any, cast

from sqlglot import exp

from windrow.catalog.definitions import StreamDef
from windrow.cql import parse_one
from windrow.cql.bounds.guards import check_bounds
from windrow.cql.printer import to_text
from windrow.cql.statements import CreateDerivedStream, CreateQuery, Emit
from windrow.dataplane.sinks import Sink, StagingSink, check_given, open_sink
from windrow.dataplane.sinks.outputs import remove_output
from windrow.dataplane.sinks.ownership import Claim
from windrow.engine.kept.measured_facts import measured_facts
from windrow.engine.kept.retention import RETAIN
from windrow.engine.kept.window_stores import StoreUse, WindowStores
from windrow.engine.plans.commits import STATE, VIEW, PlanCommits, PlanPart
from windrow.engine.plans.derived import query_of, stream_of
from windrow.engine.plans.due import TickGrid, due_upto, inputs_of
from windrow.engine.plans.homes import SPARK, restored
from windrow.engine.plans.locking import held, in_order, tried
from windrow.engine.plans.output import mode_of, sink_columns
from windrow.engine.plans.planning import PLAN, PlanChoices, is_plan_of, kept_plan, planned, saved_query, with_plan
from windrow.engine.plans.query import (
    ContinuousQuery,
    HomeState,
    PlanProgress,
    PlanVersion,
    ShownPart,
    kept_columns,
    wanted_rows,
)
from windrow.engine.plans.spark_plans import restored_state
from windrow.engine.progress import start_of
from windrow.engine.queries.query_manager import QueryManager
from windrow.engine.queries.sink_paths import QueryPaths, check_paths
from windrow.engine.state import StreamState
from windrow.engine.tables.manager import TableManager
from windrow.engine.tables.stored import StoredTable
from windrow.engine.tables.uses import TableUse, known_from, seen_from, table_uses
from windrow.engine.ticks.delivery import sweep
from windrow.errors import BindError, CatalogError, Place, StateError, UnsupportedError, WindrowError
from windrow.logs import log_event
from windrow.operators.carrying.fitting import misfits
from windrow.operators.stages.ranges import WHOLE
from windrow.operators.state import PlanState
from windrow.optimizer.facts import NOTHING_MEASURED, Facts
from windrow.optimizer.pipeline import OptimizedPlan
from windrow.plan.algebra.nodes import ContinuousPlan
from windrow.plan.binder import TypesOf
from windrow.plan.continuous import refuse_unless_monotonic
from windrow.plan.type_record import RecordedTypes
from windrow.settings import Settings
from windrow.windows.frontier import max_or_none

_LATER = (("emit", "EMIT LATEST"), ("priority", "PRIORITY"), ("expire_after", "EXPIRE AFTER"))


class PlanManager:
    """Owns the continuous queries of a state directory. `on_drop` is told the number of a query that was dropped.

    They come and go with `QueryManager.changing` held. The dict of queries is never changed, only replaced, so it can
    be read without a lock.
    """

    def __init__(self, manager: QueryManager, commits: PlanCommits, stores: WindowStores, tables: TableManager):
        self._manager = manager
        self._tables = tables
        tables.held = self._held
        self._commits = commits
        self._stores = stores
        self._queries: dict[str, ContinuousQuery] = {}
        self.on_drop: Callable[[int], None] | None = None
        manager.more_paths = self._paths
        manager.other_names = self._names
        tables.kinds = manager.kinds

    # -- names ---------------------------------------------------------------------------------

    def _names(self) -> dict[str, str]:
        """The names of tables and continuous queries, each with its kind."""
        return {table.name: "table" for table in self._tables.all()} | dict.fromkeys(self.names(), "query")

    @property
    def named(self) -> Mapping[str, ContinuousQuery]:
        """By name in lower case; replaced when a query comes, goes or changes."""
        return self._queries

    def has(self, name: str) -> bool:
        """Whether there is a continuous query of this name; the plan of a derived stream is none."""
        found = self._queries.get(name.lower())
        return found is not None and found.derived is None

    def all(self) -> list[ContinuousQuery]:
        """The continuous queries, and the plans of derived streams."""
        return list(self._queries.values())

    def queries(self) -> list[ContinuousQuery]:
        """The continuous queries."""
        return [query for query in self.all() if query.derived is None]

    def names(self) -> list[str]:
        return [query.name for query in self.queries()]

    def behind(self, stream: StreamState) -> ContinuousQuery | None:
        """The plan whose output a derived stream is; None for other streams."""
        return self._queries.get(stream.name.lower()) if stream.definition.is_derived else None

    def into(self, query: ContinuousQuery) -> StreamState | None:
        """The derived stream that a plan's output is; None for a query."""
        return None if query.derived is None else self._manager.streams.get(query.name.lower())

    def _paths(self) -> list[QueryPaths]:
        return [self.paths_of(query) for query in self.all()]

    def query(self, name: str, place: Place | None = None) -> ContinuousQuery:
        found = self._queries.get(name.lower())
        if found is None:
            raise self._manager.unknown_query(name, self.names(), place)
        if found.derived is not None:
            raise CatalogError(
                f"there is no query '{name}': {found.name} is a derived stream",
                place=place,
                remedy=f"DROP STREAM {found.name} drops it; a query over a window of it shows its tuples.",
            )
        return found

    def readers(self, stream: StreamState) -> list[ContinuousQuery]:
        """The continuous queries that read a stream."""
        name = stream.name.lower()
        return [query for query in self.all() if any(one.lower() == name for one in query.read_streams)]

    def readers_of_table(self, name: str) -> list[str]:
        """The names of the continuous queries and derived streams that read a table."""
        found = [query for query in self.all() if _reads_table(query, name)]
        return [query.name if query.derived is None else f"stream {query.name}" for query in found]

    @contextmanager
    def _held(self, table: StoredTable) -> Iterator[Callable[[], None]]:
        """No plan that reads the table ticks. Their last ticks are committed with the statement, so that it takes
        effect at the same tick after a crash. The caller holds the table's `changing`, so no other plan comes to read
        it."""
        readers = self._reading(table)
        with held(queries=readers):
            ahead = [query for query in readers if query.progress.ticked not in (None, query.committed)]

            def along() -> None:
                for query in ahead:
                    self._commits.moved(query.id, query.progress.ticked)

            yield along
            for query in ahead:
                query.committed = query.progress.ticked

    def idle(self, table: StoredTable) -> AbstractContextManager[bool]:
        """Whether no plan that reads the table ticks, nor begins to. It waits for none. The caller holds the table's
        `changing`."""
        return tried(in_order(queries=self._reading(table)))

    def _reading(self, table: StoredTable) -> list[ContinuousQuery]:
        """The plans that read a table."""
        return [query for query in self.all() if _reads_table(query, table.name)]

    def of_reader(self, reader: str) -> list[ContinuousQuery]:
        """The queries that a reader of a window store belongs to: one, those that read its table, or, for RETAIN,
        none."""
        owner, _, part = reader.partition("/")
        if owner == RETAIN:
            return []
        if owner == "table":
            return [query for query in self.all() if any(use.table.id == int(part) for use in query.tables)]
        return [query for query in self.all() if query.id == int(owner)]

    # -- coming and going ----------------------------------------------------------------------

    def bind(
        self, statement: CreateQuery, text: str, settings: Settings, types_of: TypesOf | None = None
    ) -> OptimizedPlan:
        """The checked and optimized plan of a continuous query."""
        choices = PlanChoices.of(settings, self.facts(statement))
        return self._bind(statement, text, types_of or self._manager.record(), choices)

    def planned(self, statement: CreateQuery, text: str, settings: Settings) -> tuple[OptimizedPlan, PlanChoices, str]:
        """The plan of a new query, what it depends on besides the text, and what Spark said of its types."""
        choices = PlanChoices.of(settings, self.facts(statement))
        optimized, types = self.planned_by(statement, text, choices)
        return optimized, choices, types

    def planned_by(self, statement: CreateQuery, text: str, choices: PlanChoices) -> tuple[OptimizedPlan, str]:
        """The plan of a query by these choices, and what Spark said of its types."""
        record = self._manager.record()
        return self._bind(statement, text, record, choices), record.saved()

    def facts(self, statement: CreateQuery) -> Facts:
        """What is measured of the streams of a query. Only plans of two and more inputs depend on it."""
        named = [table.name.lower() for table in statement.select.find_all(exp.Table)]
        streams = {name: self._manager.streams[name] for name in named if name in self._manager.streams}
        return measured_facts(streams.values(), self._stores) if len(named) > 1 else NOTHING_MEASURED

    def _bind(self, statement: CreateQuery, text: str, types_of: TypesOf, choices: PlanChoices) -> OptimizedPlan:
        for field, what in _LATER:
            given = getattr(statement, field)
            if given is not None and given is not Emit.EVERY_WINDOW:
                raise UnsupportedError(
                    f"this version does not execute {what} in a continuous query yet", remedy="Leave it out."
                )
        tables = self._tables.definition
        found = planned(statement.select, text, self._manager.definition, types_of, choices, tables)
        if statement.sink is not None:
            open_sink(statement.name, statement.sink, mode=mode_of(statement, found.plan))
        return found

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
        return self._add(statement, None, text, settings, sink)

    def create_stream(self, statement: CreateDerivedStream, text: str, settings: Settings) -> ContinuousQuery:
        """Create a derived stream and its plan. The caller knows that there is no stream of that name."""
        if self._manager.has_query(statement.name) or self.has(statement.name):
            raise CatalogError(
                f"there is a query '{statement.name}', and a derived stream has a query of its own name",
                remedy="Choose another name for the stream.",
            )
        return self._add(query_of(statement), statement, text, settings)

    def refuse_derived(self, name: str) -> None:
        """Raise if a derived stream has this name, which its own query has then."""
        found = self._queries.get(name.lower())
        if found is not None and found.derived is not None:
            raise CatalogError(
                f"'{found.name}' is a derived stream, whose query has its name", remedy="Choose another name."
            )

    def _add(
        self,
        statement: CreateQuery,
        derived: CreateDerivedStream | None,
        text: str,
        settings: Settings,
        sink: Any = None,
    ) -> ContinuousQuery:
        check_bounds(statement.select, text, settings.integer("max_value_bytes"))
        check_slack(settings)
        optimized, choices, types = self.planned(statement, text, settings)
        plan = optimized.plan
        definition = None if derived is None else self._definition(derived, plan)
        old_output = self._check_sink(statement, plan, settings)
        number = self._manager.next_query()
        uses, stream_number = list[StoreUse](), self._manager.next_stream()

        def along() -> None:
            uses.extend(self._need(number, plan))
            for table in tables:
                self._tables.commits.read_by(number, table)
            if definition is not None:
                self._manager.save_stream(stream_number, definition)

        streams, tables = self.streams_of(plan), [self._tables.table(name) for name in plan.tables]
        with held(tables, streams, states=streams):
            remove_output(old_output)
            names = [stream.name for stream in streams]
            choices = self.beginning(plan, choices)
            saved = saved_query(plan, types, choices)
            self._commits.add(number, statement.name, to_text(derived or statement), saved, names, along)
            query = made_query(number, statement, text, optimized, choices, uses)
            query.derived = derived
            query.tables = self.table_uses(plan)
            query.sink = sink if sink is not None else self._open_sink(query, begun=False)
            if definition is not None:
                self._manager.attach(stream_number, definition, start_of(definition))
            self._queries = {**self._queries, query.name.lower(): query}
        log_event(
            "query_created",
            "query '{query}' is created over {streams}",
            query=query.name,
            streams=", ".join(query.read_streams),
        )
        return query

    def take_over(self, old: ContinuousQuery, new: ContinuousQuery) -> None:
        """See a query in place of the one of its number, after the commit that put it there."""
        old.is_dropped = True
        self._queries = {name: new if one is old else one for name, one in self._queries.items()}
        if self.on_drop is not None:
            self.on_drop(old.id)

    def table_uses(self, plan: ContinuousPlan) -> tuple[TableUse, ...]:
        return table_uses(plan, {name.lower(): self._tables.table(name) for name in plan.tables})

    def streams_of(self, *plans: ContinuousPlan) -> list[StreamState]:
        """The streams of the windows of plans."""
        return list({name.lower(): self._manager.stream(name) for plan in plans for name in plan.streams}.values())

    def due_now(self, plan: ContinuousPlan) -> int | None:
        """The last tick of a new plan that is due already; None if its streams have no tuple yet."""
        tables = [self._tables.table(name) for name in plan.tables]
        inputs = inputs_of(plan, tables, self._manager.stream)
        if all(one.greatest is None for one in inputs[: len(plan.windows)]):
            return None
        return due_upto(inputs, TickGrid(plan.step, plan.origin), plan.periodic)

    def beginning(self, plan: ContinuousPlan, choices: PlanChoices) -> PlanChoices:
        """The choices of a plan that begins now. It reports nothing of ticks that are due already, nor of those at
        which nobody knows any more what was in its tables."""
        past, known = self.due_now(plan), known_from(map(self._tables.table, plan.tables))
        if known is not None:
            past = max_or_none(past, TickGrid(plan.step, plan.origin).ceil(known))
        return replace(choices, begins_after=past, known_from=known)

    def _definition(self, derived: CreateDerivedStream, plan: ContinuousPlan) -> StreamDef:
        refuse_unless_monotonic(plan.root, derived.name)
        return stream_of(derived, plan)

    # -- sinks ---------------------------------------------------------------------------------

    def _check_sink(self, statement: CreateQuery, plan: ContinuousPlan, settings: Settings) -> list[Path]:
        """Check that the query may write to its sink's path, and return the old output that `overwrite` deletes."""
        if statement.sink is None:
            return []
        mode = mode_of(statement, plan)
        paths, claim = _paths_of(statement, plan), self.claim(statement, plan, begun=False)
        timeout_s, others = settings.seconds("sink_timeout"), self._manager.paths()
        return check_paths(paths, claim, self._manager.streams, others, timeout_s, mode)

    def paths_of(self, query: ContinuousQuery) -> QueryPaths:
        """What a query reads and writes."""
        return _paths_of(query.statement, query.plan, query.derived is not None)

    def claim(self, statement: CreateQuery, plan: ContinuousPlan, begun: bool) -> Claim:
        """The claim by which a query may write to its output; `begun`: it has written there before."""
        mode, stream = mode_of(statement, plan), self._manager.stream(plan.streams[0])
        name = None if mode is None else mode.value
        return self._manager.claim(statement.name, stream, sink_columns(plan, mode), begun, name)

    def _open_sink(self, query: ContinuousQuery, begun: bool) -> Sink | StagingSink | None:
        """The sink that the statement names. `begun`: it has rows in it already."""
        statement, plan = query.statement, query.plan
        if statement.sink is None:
            return None
        return open_sink(statement.name, statement.sink, self.claim(statement, plan, begun), query.mode)

    def _known(self, known: ContinuousQuery, statement: CreateQuery, if_not_exists: bool, sink: Any) -> ContinuousQuery:
        """The query that exists already. After a restart, a Python sink may be given to it again."""
        if sink is not None and to_text(known.statement) == to_text(statement):
            known.sink = sink
        elif not if_not_exists:
            raise exists_already(statement.name)
        return known

    def _need(self, number: int, plan: ContinuousPlan) -> list[StoreUse]:
        """Have the streams keep what the windows of a plan need."""
        uses, seen = [], seen_from(plan, map(self._tables.table, plan.tables))
        for i, window in enumerate(plan.windows):
            wanted = wanted_rows(plan, i, self._manager.stream(window.stream))
            use = self._stores.need_rows(replace(wanted, ignored_below=seen[i]), f"{number}/{i}")
            uses.append(replace(use, predicate=kept_columns(window)[1]))
        return uses

    def drop(self, query: ContinuousQuery) -> None:
        """Drop a continuous query; that of a derived stream with its stream."""
        stream = self.into(query)
        made = [] if stream is None else [stream]
        with held(query.read_tables, [*self.streams_of(query.plan), *made], [query], made):

            def along() -> None:
                for use in query.uses:
                    self._stores.drop(use.reader)
                self._tables.commits.unread_by(query.id)
                if stream is not None:
                    self._manager.remove_stream(stream)

            self._commits.drop(query.id, along)
            query.is_dropped = True
            self._queries = {name: one for name, one in self._queries.items() if one is not query}
            if stream is not None:
                self._manager.forget(stream)
            if self.on_drop is not None:
                self.on_drop(query.id)
        sweep(query)
        log_event("query_dropped", "query '{query}' is dropped", query=query.name)

    def refuse_read(self, stream: StreamState) -> None:
        """Raise if a query or a derived stream reads the stream."""
        plans = self.readers(stream)
        names = [*stream.queries, *(query.name for query in plans if query.derived is None)]
        names += [f"stream {query.name}" for query in plans if query.derived is not None]
        tables = [f"table {table.name}" for table in self._tables.fed_by(stream.name)]
        names += tables
        if names:
            raise CatalogError(
                f"stream '{stream.name}' is read by: {', '.join(names)}",
                remedy="Drop these first." if tables or any(p.derived for p in plans) else "Drop these queries first.",
            )

    def check_settings(self, settings: Settings) -> None:
        """Raise if a continuous query, a table that a stream feeds, or a stream with RETAIN does not allow these
        settings."""
        is_fed = any(table.feed is not None for table in self._tables.all())
        is_retained = any(one.definition.retained is not None for one in self._manager.streams.values())
        if self._queries or is_fed or is_retained:
            check_slack(settings)

    # -- recovery ------------------------------------------------------------------------------

    def recover(self) -> None:
        """Rebuild the continuous queries from the catalog and the blocks. One whose state cannot be that of its plan is
        suspended as long as this version has the state open; the catalog stays as it is for one that can read it."""
        for row in self._commits.rows():
            query = self._restored(row)
            self._queries[query.name.lower()] = query

    def _restored(self, row: Row) -> ContinuousQuery:
        query = self._read_row(row, self._manager.record())
        progress, parts = query.progress, self._commits.parts(query.id, STATE)
        if query.has_own_state and (what := self._misfit(query, parts)) is not None:
            query.halted, query.has_own_state = _other_state(what), False
        state: HomeState = PlanState()
        if not query.has_own_state:
            pass
        elif any(part.buckets != WHOLE for part in parts):
            state = restored_state(parts, progress.ticked)
            query.home, query.home_reason, query.must_merge = SPARK, "it was there before the restart", True
        elif progress.ticked is not None:
            state = restored(query, self._commits, progress.ticked)
        kept = [] if query.derived is not None else self._commits.view_parts(query.id)
        shown = [(part, ShownPart.of(self._commits.read(part), part)) for part in kept]
        merged = tuple(one for part, one in shown if part.kind == VIEW)
        query.version = PlanVersion(progress, state, merged, tuple(one for part, one in shown if part.kind != VIEW))
        query.committed = query.merged_at = progress.ticked
        query.unmerged = len({part.seq for part in kept if part.kind != VIEW})
        # When its state was merged is not known.
        query.must_merge = query.must_merge or len({part.seq for part in parts}) > 1 or query.keeps_lists
        query.unshown = tuple(self._commits.unpublished(query.id))
        query.sink = self._open_sink(query, begun=row["changes"] > 0)
        self._note_plan(query)
        return query

    def _misfit(self, query: ContinuousQuery, parts: Sequence[PlanPart]) -> str | None:
        """Why what is on disk cannot be of a query's plan; None if it may be."""
        for i, (window, use) in enumerate(zip(query.plan.windows, query.uses, strict=True)):
            if not self._stores.serves(use, wanted_rows(query.plan, i, self._manager.stream(window.stream))):
                return f"it reads other tuples of stream '{window.stream}'"
        last = {(part.operator, part.layout): part for part in parts}
        paths = misfits(query.plan, map(self._commits.state_part, last.values()))
        return f"its operators keep other rows, at {', '.join(paths)}" if paths else None

    def _note_plan(self, query: ContinuousQuery) -> None:
        """Save the plan of a query from a version that saved none. Log what is not as usual."""
        saved, name = json.loads(query.saved), query.name
        if PLAN not in saved and query.has_own_state:
            query.saved = with_plan(saved, query.plan)
            self._commits.save(query.id, query.saved)
        if query.halted is not None:
            told = "query '{query}' is suspended: {error}"
            log_event("query_suspended", told, logging.ERROR, query=name, error=query.halted)
        elif not query.optimized.trace:
            told = "query '{query}' keeps the plan of its state, which this version of Windrow would not choose"
            log_event("plan_kept", told, query=name)

    def _read_row(self, row: Row, types_of: TypesOf) -> ContinuousQuery:
        """A query of the catalog, with its progress, without its state and its sink."""
        text, saved = row["statement"], json.loads(row["saved"])
        choices = PlanChoices.restored(saved)
        statement = cast(CreateQuery | CreateDerivedStream, parse_one(text))
        derived = statement if isinstance(statement, CreateDerivedStream) else None
        query = statement if isinstance(statement, CreateQuery) else query_of(statement)
        optimized, halted = self._planned_again(query, text, types_of, choices, saved)
        found = [self._stores.use(f"{row['id']}/{i}") for i in range(len(optimized.plan.windows))]
        windows = zip(optimized.plan.windows, found, strict=True)
        uses = [replace(use, predicate=kept_columns(window)[1]) for window, use in windows if use is not None]
        if len(uses) < len(found):
            raise StateError(
                f"a window store of query '{row['name']}' is missing in the catalog",
                remedy="Restore the state directory from a copy, or DROP the query.",
            )
        made = made_query(row["id"], query, text, optimized, choices, uses)
        made.saved, made.halted = row["saved"], halted
        made.has_own_state = is_plan_of(saved, optimized.plan)
        made.derived = derived
        made.tables = self.table_uses(optimized.plan)
        made.is_paused = bool(row["paused"])
        made.version = PlanVersion(self._progress(row), PlanState())
        return made

    def _planned_again(
        self, statement: CreateQuery, text: str, types_of: TypesOf, choices: PlanChoices, saved: Mapping[str, Any]
    ) -> tuple[OptimizedPlan, str | None]:
        """The plan of a saved query, which is that of its state, whatever this version would choose; and why the query
        cannot go on, if it cannot: its text is refused now, or the plan cannot be read."""
        try:
            found = self._bind(statement, text, types_of, choices)
        except BindError as error:
            if PLAN not in saved:
                raise
            return kept_plan(saved, choices.facts), f"this version of Windrow refuses it: {error.message}"
        if is_plan_of(saved, found.plan):
            return found, None
        try:
            return kept_plan(saved, choices.facts), None
        except WindrowError as error:
            return found, _other_state(error.message)

    def read(self, types_of: TypesOf) -> None:
        """Read the queries of the catalog without their state, to show what is committed. Plans of known queries are
        kept."""
        known, found = {query.id: query for query in self.all()}, dict[str, ContinuousQuery]()
        for row in self._commits.rows():
            query = known.get(row["id"])
            if query is None or (query.text, query.saved) != (row["statement"], row["saved"]):
                types = RecordedTypes(json.loads(row["saved"])["types"], types_of)
                query = self._read_row(row, types)
            query.version = replace(query.version, progress=self._progress(row))
            query.is_paused = bool(row["paused"])
            found[query.name.lower()] = query
        self._queries = found

    def _progress(self, row: Row) -> PlanProgress:
        effects = self._tables.commits.in_effect(row["id"])
        return PlanProgress(row["ticked"], row["seq"], row["error"], row["covered"], effects)


def made_query(
    number: int,
    statement: CreateQuery,
    text: str,
    optimized: OptimizedPlan,
    choices: PlanChoices,
    uses: list[StoreUse],
) -> ContinuousQuery:
    """A query that has not ticked."""
    version, mode = PlanVersion(PlanProgress(), PlanState()), mode_of(statement, optimized.plan)
    return ContinuousQuery(number, statement.name, statement, text, optimized, choices, tuple(uses), version, mode)


def _paths_of(statement: CreateQuery, plan: ContinuousPlan, is_derived: bool = False) -> QueryPaths:
    streams = frozenset(name.lower() for name in plan.streams)
    return QueryPaths(statement.name, statement.sink, streams, statement.name.lower() if is_derived else None)


def _reads_table(query: ContinuousQuery, name: str) -> bool:
    return any(one.lower() == name.lower() for one in query.plan.tables)


def exists_already(name: str) -> CatalogError:
    return CatalogError(
        f"query '{name}' exists already",
        remedy="CREATE OR REPLACE QUERY replaces it; or keep it: IF NOT EXISTS, in Python wr.queries[name].",
    )


def check_slack(settings: Settings) -> None:
    """Raise if late tuples may be admitted below ticks that a continuous query, or a question, has passed."""
    if settings.text("slack_meaning") == "generous":
        raise UnsupportedError(
            "continuous queries, and questions over streams with RETAIN, see a part of a stream as soon as it is "
            "complete, and slack_meaning = 'generous' admits later tuples",
            remedy="Keep slack_meaning as it is, or give the stream a larger SLACK.",
        )


def _other_state(what: str) -> str:
    """Why a query does not go on from its state."""
    return (
        f"its state is not of the plan that this version of Windrow has of it ({what}): open the directory with the "
        "version that wrote it, or make it anew (CREATE OR REPLACE QUERY; a derived stream by DROP and CREATE)"
    )
