"""An engine that only reads: the state directory of another process, or one that no process has open.

It takes no lock, writes nothing, and starts Spark only for a statement that needs it. What it shows is committed: it
works on a copy of the catalog, which is taken anew when the catalog has changed.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from sqlite3 import Row
from typing import Any, NoReturn, cast

from windrow.catalog.definitions import define_stream
from windrow.catalog.lock import Owner, OwnerState, owner_of
from windrow.catalog.snapshot import CATALOG, CatalogSnapshot
from windrow.cql import parse_one
from windrow.cql.statements import CreateStream
from windrow.dataplane.analysing import Analyser
from windrow.dataplane.answers.finishing import Finisher
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.jvm import Jvm
from windrow.dataplane.session import close_session, open_session
from windrow.engine.ask.plan_tables import PlanTables
from windrow.engine.ask.reads import AnswerReader
from windrow.engine.engine import Engine
from windrow.engine.kept.window_stores import WindowStores
from windrow.engine.plans.commits import PlanCommits
from windrow.engine.plans.manager import PlanManager
from windrow.engine.plans.reading import PlanReads
from windrow.engine.queries.query_manager import QueryManager, synopsis_for
from windrow.engine.run.opening import OpenState
from windrow.engine.run.recovery import progress_of, query_of, synopsis_progress, weight_of
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.engine.store.journal import Journal
from windrow.engine.store.run_metrics import restore_metrics, restored_query_metrics
from windrow.engine.store.spark_synopsis import SparkStore, SparkSynopsis
from windrow.engine.tables.commits import TableCommits
from windrow.engine.tables.manager import TableManager
from windrow.errors import ReadOnlyError
from windrow.plan.type_record import RecordedTypes
from windrow.settings import Settings, parse_value
from windrow.synopses import Synopsis
from windrow.types import SqlType


class SparkOnDemand:
    """A Spark session that is opened when it is first needed."""

    def __init__(self, given: Any, master: str | None, settings: Settings):
        self._given = given
        self._master = master
        self._settings = settings
        self._lock = threading.RLock()
        self._opened: Any = None

    @property
    def spark(self) -> Any:
        with self._lock:
            if self._opened is None:
                self._opened = open_session(self._given, self._master, self._settings)
            return self._opened

    @cached_property
    def jvm(self) -> Jvm:
        return Jvm(self.spark)

    @cached_property
    def _analyser(self) -> Analyser:
        return Analyser(self.spark, lambda: self._settings.integer("max_value_bytes"))

    def types_of(self, columns: Any, expressions: Any) -> list[SqlType]:
        return self._analyser(columns, expressions)

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                close_session(self._opened)
                self._opened = None


class ReadOnlyState:
    """A copy of the catalog, and the streams and queries in it. `refresh` follows the catalog."""

    def __init__(self, state_dir: Path, spark: Any, master: str | None, given: Mapping[str, Any]):
        for name, value in given.items():
            parse_value(name, str(value))
        self._given = given
        self.state_dir = state_dir
        self.catalog = CatalogSnapshot(state_dir / CATALOG)
        self.blocks = BlockStore(state_dir, self.catalog)
        self.journal = Journal(self.catalog, self.blocks)
        self._lock = threading.RLock()
        self._read_settings()
        self._on_demand = SparkOnDemand(spark, master, self.settings)
        self.manager = self._manager()
        expressions = cast(Any, None)  # only changes need them
        commits = TableCommits(self.catalog, self.blocks, lambda: self.settings.integer("broadcast_table_bytes"))
        self.tables = TableManager(commits, expressions, lambda: self.spark)
        self.plan_commits = PlanCommits(self.catalog, self.blocks)
        self.stores = WindowStores(self.catalog, self.blocks)
        self.plans = PlanManager(self.manager, self.plan_commits, self.stores, self.tables)
        self._read()

    @property
    def spark(self) -> Any:
        return self._on_demand.spark

    @property
    def jvm(self) -> Jvm:
        return self._on_demand.jvm

    def refresh(self) -> None:
        """Read what has been committed since the last call."""
        with self._lock:
            if self.catalog.refresh():
                self._read_settings()
                self._read()

    def close(self) -> None:
        self._on_demand.close()
        self.catalog.close()

    def _manager(self) -> QueryManager:
        homes = cast(Any, None)  # only changes need them
        return QueryManager(self.journal, self._on_demand.types_of, self.state_dir, homes)

    def _read_settings(self) -> None:
        stored = {name: str(value) for name, value in self.journal.entries.settings().items()}
        texts = {**stored, **{name: str(value) for name, value in self._given.items()}}
        self.settings = Settings({name: parse_value(name, text) for name, text in texts.items()})

    def _read(self) -> None:
        """Replace the streams and queries by those of the catalog. Plans of known queries are kept."""
        known, manager = self.manager.queries(), self._manager()
        plans = {query.id: query for _, query in known.values()}
        for row in self.journal.entries.stream_rows():
            definition = define_stream(cast(CreateStream, parse_one(row["statement"])))
            stream = manager.attach(row["id"], definition, self.journal.progress.read(definition))
            for entry in self.journal.entries.queries(stream.name):
                manager.adopt(stream, self._query(entry, manager, plans.get(entry["id"])))
            for entry in self.journal.synopses.rows(stream.name):
                manager.keep(stream, self._synopsis(entry, stream))
            restore_metrics(stream, row["metrics"])
        self.stores.recover(manager.streams.values())
        self.tables.recover()
        self.manager.replace(manager)
        self.plans.read(self._on_demand.types_of)

    def _query(self, row: Row, manager: QueryManager, known: QueryState | None) -> QueryState:
        if known is None or known.text != row["statement"]:
            types = RecordedTypes(row["types"], self._on_demand.types_of)
            known = query_of(row, manager, types)
        paused = bool(row["paused"])
        return replace(known, progress=progress_of(row), metrics=restored_query_metrics(row), is_paused=paused)

    def _synopsis(self, row: Row, stream: StreamState) -> SynopsisState:
        """A synopsis without its cells."""
        first, progress = synopsis_progress(row, stream, self.journal)
        synopsis: Synopsis = synopsis_for(first, progress.plan.style)
        if row["buckets"] is not None:
            jobs = cast(Any, None)  # no job is run
            store = SparkStore(self.blocks, jobs, "", "")
            synopsis = SparkSynopsis(store, progress.plan, row["buckets"], weight_of(row), row["groups_seen"] or 0)
        return SynopsisState(progress, synopsis)


class _Refused:
    """The part of an engine that would change something: any call of it raises ReadOnlyError."""

    def __init__(self, engine: ReadOnlyEngine):
        self._engine = engine

    def __getattr__(self, name: str) -> NoReturn:
        self._engine.refuse_change(name.replace("_", " "))

    @property
    def is_running(self) -> bool:
        """Whether a process has the state directory open."""
        return self._engine.owner.state is OwnerState.RUNNING

    def condition(self, stream: StreamState) -> str:
        """What the stream does, as far as the state directory tells."""
        return str(self._engine.owner) if stream.is_read else "idle: no query reads it"


class ReadOnlyEngine(Engine):
    """Reads what is committed. Its `manager` is as of the last commit each time it is asked for."""

    is_read_only = True

    def __init__(self, state_dir: Path, spark: Any, master: str | None, given: Mapping[str, Any]):
        state = ReadOnlyState(state_dir, spark, master, given)
        self.opened = cast(OpenState, state)
        self._state = state
        finisher = Finisher(lambda: state.settings.integer("max_value_bytes"))
        self._finalizer = weakref.finalize(self, finisher.close)
        self.statements = self.table_statements = cast(Any, _Refused(self))
        self.inputs = self.time = self.running = cast(Any, _Refused(self))
        self.plan_reads = PlanReads(state.plan_commits, state.refresh)
        self.reads = AnswerReader(
            state.journal,
            state.blocks,
            state.manager,
            finisher,
            state,
            lambda: state.settings,
            lambda: self.refuse_live("an answer over another window"),
            PlanTables(lambda: self.plans, self.plan_reads),
            lambda: self.tables,
            state,
            state.refresh,
        )

    @property
    def manager(self) -> QueryManager:
        self._state.refresh()
        return self._state.manager

    @property
    def plans(self) -> PlanManager:
        self._state.refresh()
        return self._state.plans

    @property
    def tables(self) -> TableManager:
        self._state.refresh()
        return self._state.tables

    @property
    def owner(self) -> Owner:
        """Who has the state directory open."""
        return owner_of(self.opened.state_dir)

    def refuse_change(self, what: str) -> NoReturn:
        owner = self.owner
        remedy = "Open it without read_only."
        if owner.state is OwnerState.RUNNING:
            remedy = f"Process {owner.pid} has it open: make the change there, or stop it first."
        raise ReadOnlyError(
            f"'{what}' would change the state directory {self.opened.state_dir}, which is open read-only",
            remedy=remedy,
        )

    def refuse_live(self, what: str) -> None:
        raise ReadOnlyError(
            f"{what} needs the memory of the process that runs the state, and this is open read-only",
            remedy="Ask in that process; or stop it, and open the state without read_only. Retained answers, dead "
            "letters, metrics, SHOW and DESCRIBE can be read here.",
        )

    def close(self) -> None:
        self._finalizer()
        self._state.close()
