"""Reads from an open state directory: answers, lookups, one-time queries and dead letters."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from windrow.dataplane.answers.finishing import Finisher
from windrow.dataplane.answers.revisions import OP, first_answers, revisions_of
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.jvm import Jvm
from windrow.engine.ask.as_of import ShownResult, least_window, worst_staleness
from windrow.engine.ask.finished_tables import FinishedTables, TakenTables, is_whole_table, named_tables
from windrow.engine.ask.freshness_view import freshness_table
from windrow.engine.ask.kept_answers import AnsweredQuery, AnswerScan, KeptAnswers
from windrow.engine.ask.lookup_args import pairs_of
from windrow.engine.ask.lookups import Lookups
from windrow.engine.ask.onetime.asking import WINDOW, Answered, AskedState, Asking
from windrow.engine.ask.onetime.choosing import DRIVER, SPARK, VIEW, Chosen
from windrow.engine.ask.onetime.sources import is_window
from windrow.engine.ask.onetime.synopsis_answers import SynopsisAnswers
from windrow.engine.ask.plan_tables import PlanTables
from windrow.engine.ask.snapshots import SnapshotFit
from windrow.engine.ask.tables_read import TablesRead
from windrow.engine.choices.index_choice import apply_choice
from windrow.engine.isolation.asked import Terms
from windrow.engine.isolation.coordinator import Coordinator
from windrow.engine.isolation.interface import PinnedVersion
from windrow.engine.queries.query_manager import QueryManager
from windrow.engine.state import QueryState, StreamState
from windrow.engine.store.journal import Journal
from windrow.engine.tables.manager import TableManager
from windrow.errors import CatalogError, Place, QueryCancelledError, ResultLimitError, WindrowError
from windrow.plan.nodes import Finalise
from windrow.settings import Settings


class SparkSource(Protocol):
    """Has a Spark session and its JVM."""

    @property
    def spark(self) -> Any: ...

    @property
    def jvm(self) -> Jvm: ...


@dataclass(frozen=True)
class PinnedFrame:
    """A Spark DataFrame, and what lets go the version that it reads."""

    frame: Any
    release: Callable[[], None]


class AnswerReader:
    """Reads committed state and changes nothing. `settings` returns the present settings; `refuse` raises if the state
    in memory cannot be asked: it is being closed, or in another process. `refresh` reads the catalog anew, if it is a
    copy. `plans` has the tables of continuous queries, `tables` gives those that users change; `asked` is what one-time
    queries read of the streams."""

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
        asked: AskedState,
        refresh: Callable[[], object] = lambda: None,
        coordinator: Coordinator | None = None,
    ):
        self._journal = journal
        self._coordinator = coordinator
        self._asked = asked
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
            lambda: freshness_table(asked.manager, asked.plans),
        )
        self.asking = Asking(asked, self.finished, SynopsisAnswers(manager, finisher, settings), settings, coordinator)

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
        with self._spark.jvm.watched():
            with stream.lock:
                apply_choice(stream, self._settings())
                found = self._lookups.lookup(stream, query, lengths, ends)
            try:
                return found.rows()
            finally:
                found.release()

    def ask(self, select: exp.Expr, text: str, terms: Terms | None = None) -> Answered:
        """The answer to a one-time query over anything, on these terms. None: as of now, in the thread of the
        caller."""
        if not self.reads_windows(select):
            return self._of_tables(select, text, terms)
        self._refuse()
        with self._spark.jvm.watched():
            return self.asking.ask(select, text, terms)

    def _of_tables(self, select: exp.Expr, text: str, terms: Terms | None) -> Answered:
        """The answer to a query that reads no window. It follows updates if it reads views and tables alone; anything
        else is read as it is when it is evaluated."""
        done = list[tuple[str, list[ShownResult]]]()

        def evaluate(taken: TakenTables, version: PinnedVersion) -> pa.Table:
            rows, answered_from, shown = self._selected(select, text, taken, version)
            done[:] = [(answered_from, shown)]
            return rows

        read = TablesRead(lambda: self.finished.taken(select, text), evaluate, self.finished.views(select))
        if terms is None or self._coordinator is None:
            rows = read.answer((), read.pin())
            answered_from, shown = done[0]
            return Answered(rows, least_window(shown), answered_from, isolation=WINDOW)
        found = self._coordinator.answer(self._coordinator.ask(read, terms, text))
        answered_from, shown = done[0]
        (taken,) = found.version.reading
        follows = bool(read.views) and all(one.is_table or one.shown is not None for one in taken.values())
        return Answered(
            found.table,
            least_window(shown),
            answered_from,
            isolation=found.isolation.value if follows else WINDOW,
            stale_by=worst_staleness(shown, self._manager.streams),
            aborts=found.aborts,
        )

    def frame(self, select: exp.Expr, text: str) -> PinnedFrame:
        """The answer to a one-time query as a lazy Spark DataFrame over a pinned version."""
        self._refuse()
        with self._spark.jvm.watched():
            return PinnedFrame(*self.asking.frame(select, text))

    def explained(self, select: exp.Expr, text: str) -> Chosen | tuple[Finalise, StreamState, SnapshotFit]:
        """How a one-time query over windows would be answered now."""
        self._refuse()
        with self._spark.jvm.watched():
            return self.asking.explained(select, text)

    def reads_windows(self, select: exp.Expr) -> bool:
        """Whether a one-time query reads windows of streams."""
        return any(is_window(table, self.asking.is_stream) for table in named_tables(select))

    def _selected(
        self, select: exp.Expr, text: str, taken: TakenTables, version: PinnedVersion
    ) -> tuple[pa.Table, str, list[ShownResult]]:
        """The answer to a one-time query over retained answers, views, changes and dead letters, as they were taken;
        what it was answered from; and as of when the views and latest answers are."""
        shown = [one.shown for one in taken.values() if one.shown is not None]
        # All of one table is read though Spark has not started.
        with nullcontext() if is_whole_table(select) else self._spark.jvm.watched():
            chosen, found = None, None
            try:
                chosen = self.asking.over_tables(select, text, taken, version)
                if chosen.read is not None:
                    found = chosen.read.of_tables(version)
            except (QueryCancelledError, ResultLimitError):
                raise
            except WindrowError:
                chosen = None  # if Spark SQL cannot either, it says why
            if chosen is not None and found is not None:
                return found, chosen.answered_from, shown
            rows, latest = self.finished.select(select, text, taken)
            return rows, SPARK if chosen is None else chosen.answered_from, [*shown, *latest]

    def explain_select(self, select: exp.Expr, text: str) -> str:
        """How `select` would be answered."""
        read = TablesRead(lambda: self.finished.taken(select, text), lambda *_: None, ())
        version = read.pin()
        (taken,) = version.reading
        with self._spark.jvm.watched():
            chosen = self.asking.over_tables(select, text, taken, version)
            where = {VIEW: "as it is", DRIVER: "in the driver", SPARK: "by Spark SQL"}[chosen.answered_from]
            return self.finished.explain(select, text, taken, where, chosen.reason)

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
