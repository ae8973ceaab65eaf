"""Reads from an open state directory: answers, lookups, one-time queries and dead letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from windrow.cql.bounds.guards import check_bounds
from windrow.dataplane.answers.finishing import Finisher
from windrow.dataplane.answers.revisions import OP, first_answers, revisions_of
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.jvm import Jvm
from windrow.engine.ask.finished_tables import FinishedTables, is_whole_table
from windrow.engine.ask.kept_answers import AnsweredQuery, AnswerScan, KeptAnswers
from windrow.engine.ask.lookup_args import pairs_of
from windrow.engine.ask.lookups import Lookups
from windrow.engine.ask.plan_tables import PlanTables
from windrow.engine.ask.snapshots import SnapshotFit, fitting
from windrow.engine.choices.index_choice import apply_choice
from windrow.engine.queries.query_manager import QueryManager
from windrow.engine.state import QueryState, StreamState
from windrow.engine.store.journal import Journal
from windrow.engine.tables.manager import TableManager
from windrow.errors import CatalogError, Place
from windrow.plan.nodes import Finalise
from windrow.settings import Settings


class SparkSource(Protocol):
    """Has a Spark session and its JVM."""

    @property
    def spark(self) -> Any: ...

    @property
    def jvm(self) -> Jvm: ...


class AnswerReader:
    """Reads committed state and changes nothing. `settings` returns the present settings; `refuse` raises if the state
    in memory cannot be asked: it is being closed, or in another process. `refresh` reads the catalog anew, if it is a
    copy. `plans` has the tables of continuous queries, `tables` gives those that users change."""

    def __init__(
        self,
        journal: Journal,
        blocks: BlockStore,
        manager: QueryManager,
        finisher: Finisher,
        spark: SparkSource,
        settings: Callable[[], Settings],
        refuse: Callable[[], None],
        plans: PlanTables,
        tables: Callable[[], TableManager],
        refresh: Callable[[], object] = lambda: None,
    ):
        self._journal = journal
        self._manager = manager
        self._finisher = finisher
        self._lookups = Lookups(finisher)
        self._spark = spark
        self._settings = settings
        self._refuse = refuse
        self._refresh = refresh
        self.kept = KeptAnswers(journal.answers, blocks, refresh)
        self.finished = FinishedTables(
            self.kept,
            lambda: spark.spark,
            self._query,
            self.dead_letters,
            lambda: settings().integer("max_value_bytes"),
            plans,
            tables,
        )

    def answers(self, query: QueryState, last: object = None, since: object = None) -> pa.Table:
        """Retained answers, in window order: all, the last windows, or those that end from `since` on. With LATE
        REVISE, corrections are applied."""
        return self.kept.answers(self._answered(query), last, since)

    def revisions(self, query: QueryState) -> pa.Table:
        """All retained deliveries, in order: op, revision, then the columns of the answers."""
        table = self.kept.delivered(self._answered(query))
        return revisions_of(table if OP in table.column_names else first_answers(table))

    def answer(self, query: QueryState) -> pa.Table:
        """The answer to the latest answered window."""
        return self.kept.table(AnswerScan(self._answered(query), is_latest=True))

    def _answered(self, query: QueryState) -> AnsweredQuery:
        revises = self._manager.definition(query.plan.scan.stream).revises
        return AnsweredQuery(query.id, query.name, query.plan, revises)

    def _query(self, name: str, place: Place | None) -> AnsweredQuery:
        """The query that a SELECT names. A stream of that name is not meant: its windows are answered by `snapshot`."""
        if self._manager.has_query(name):
            return self._answered(self._manager.query(name, place)[1])
        stream = self._manager.streams.get(name.lower())
        if stream is not None:
            raise CatalogError(
                f"'{stream.name}' is a stream, and answers are of queries",
                place=place,
                remedy=f"Its queries: {', '.join(stream.queries) or 'none yet'}.",
            )
        raise self._manager.unknown_source(name, place)

    def lookup(self, name: str, windows: object, ats: object) -> pa.Table:
        """A query's answers over other windows, from its synopsis, as of the last committed tick."""
        self._refuse()
        stream, query = self._manager.query(name)
        lengths, ends = pairs_of(windows, ats, query.plan.scan.attribute)
        with stream.lock, self._spark.jvm.watched():
            apply_choice(stream, self._settings())
            return self._lookups.lookup(stream, query, lengths, ends)

    def snapshot(self, select: exp.Expr, text: str) -> pa.Table:
        """The answer to a one-time query over a window, from a synopsis that fits, as of the last committed tick."""
        self._refuse()
        check_bounds(select, text, self._settings().integer("max_value_bytes"))
        with self._spark.jvm.watched():
            plan = self._manager.bind_snapshot(select, text)
        stream = self._manager.stream(plan.scan.stream)
        with stream.lock, self._spark.jvm.watched():
            apply_choice(stream, self._settings())
            fit = fitting(stream, plan, select, self._settings(), text)
            try:
                return self._lookups.answer(fit.state, fit.request(plan))
            finally:
                self._finisher.forget(plan)

    def fitted(self, select: exp.Expr, text: str) -> tuple[Finalise, StreamState, SnapshotFit]:
        """The plan of a one-time query, its stream, and the synopsis that would answer it."""
        self._refuse()
        with self._spark.jvm.watched():
            plan = self._manager.bind_snapshot(select, text)
        stream = self._manager.stream(plan.scan.stream)
        with stream.lock:
            return plan, stream, fitting(stream, plan, select, self._settings(), text)

    def select(self, select: exp.Expr, text: str) -> tuple[pa.Table, object]:
        """The answer to a one-time query over retained answers, views, changes and dead letters, and the tick of the
        views."""
        if is_whole_table(select):
            return self.finished.select(select, text)
        with self._spark.jvm.watched():
            return self.finished.select(select, text)

    def explain_select(self, select: exp.Expr, text: str) -> str:
        """How `select` would be answered."""
        with self._spark.jvm.watched():
            return self.finished.explain(select, text)

    def dead_letters(self, name: str, place: Place | None = None) -> pa.Table:
        stream = self._manager.stream(name, place)
        rows = self._journal.dead_letters.kept(stream.name)
        kind = stream.definition.attribute_type.arrow if stream.definition.attribute else pa.int64()
        point = pa.array([row["point"] for row in rows], pa.int64())
        return pa.table(
            {
                "batch": pa.array([row["batch"] for row in rows], pa.int64()),
                "reason": pa.array([row["reason"] for row in rows], pa.string()),
                "record": pa.array([row["record"] for row in rows], pa.string()),
                "window_attribute": point.view(kind) if pa.types.is_timestamp(kind) else point,
                "late_by": pa.array([row["late_by"] for row in rows], pa.int64()),
                "rows": pa.array([row["count"] for row in rows], pa.int64()),
                "file": pa.array([row["file"] for row in rows], pa.string()),
                "line": pa.array([row["line"] for row in rows], pa.int64()),
            }
        )

    def dead_letter_counts(self, stream: StreamState) -> dict[str, int]:
        return self._journal.dead_letters.counts(stream.name)
