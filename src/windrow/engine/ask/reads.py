"""Reads from an open state directory: answers, lookups, one-time queries and dead letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from windrow.dataplane.answers.finishing import Finisher
from windrow.dataplane.answers.revisions import OP, first_answers, net_answers, revisions_of
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.frames import query_frame
from windrow.dataplane.jvm import Jvm
from windrow.engine.ask.lookup_args import pairs_of
from windrow.engine.ask.lookups import Lookups
from windrow.engine.ask.snapshots import SnapshotFit, fitting
from windrow.engine.choices.index_choice import apply_choice
from windrow.engine.queries.query_manager import QueryManager
from windrow.engine.state import QueryState, StreamState
from windrow.engine.store.journal import Journal
from windrow.engine.ticks.delivery import delivered_schema
from windrow.errors import StateError
from windrow.plan.nodes import Finalise
from windrow.settings import Settings
from windrow.windows import PartitionedWindow


class AnswerReader:
    """Reads committed state and changes nothing. `settings` returns the present settings; `refuse_closed` raises once
    the state directory is being closed."""

    def __init__(
        self,
        journal: Journal,
        blocks: BlockStore,
        manager: QueryManager,
        finisher: Finisher,
        spark: Any,
        jvm: Jvm,
        settings: Callable[[], Settings],
        refuse_closed: Callable[[], None],
    ):
        self._journal = journal
        self._blocks = blocks
        self._manager = manager
        self._finisher = finisher
        self._lookups = Lookups(finisher)
        self._spark = spark
        self._jvm = jvm
        self._settings = settings
        self._refuse_closed = refuse_closed

    def answers(self, query: QueryState) -> pa.Table:
        """All retained answers, in window order. With LATE REVISE, corrections are applied."""
        table = self._delivered(query)
        return net_answers(table, query.plan) if OP in table.column_names else table

    def revisions(self, query: QueryState) -> pa.Table:
        """All retained deliveries, in order: op, revision, then the columns of the answers."""
        table = self._delivered(query)
        return revisions_of(table if OP in table.column_names else first_answers(table))

    def _schema(self, query: QueryState) -> pa.Schema:
        return delivered_schema(self._manager.stream(query.plan.scan.stream), query)

    def _delivered(self, query: QueryState) -> pa.Table:
        schema = self._schema(query)
        parts = self._journal.answers.parts(query.id)
        while True:
            try:
                tables = [self._blocks.read_part(*part) for part in parts]
                return pa.concat_tables([schema.empty_table(), *tables])
            except StateError:
                # A tick may have retired a part after it was listed; a part that is still listed is damaged.
                parts, listed = self._journal.answers.parts(query.id), parts
                if parts == listed:
                    raise

    def answer(self, query: QueryState) -> pa.Table:
        """The answer to the latest answered window."""
        table = self.answers(query)
        if query.last_end is None:
            return table.slice(0, 0)
        if isinstance(query.plan.window, PartitionedWindow):
            return self._latest_part(query)
        ends = table.column("window_end").combine_chunks()
        points = np.asarray(ends.view(pa.int64()) if pa.types.is_timestamp(ends.type) else ends.cast(pa.int64()))
        return table.take(np.flatnonzero(points == query.last_end))

    def _latest_part(self, query: QueryState) -> pa.Table:
        """The rows answered last. Partitions advance independently, so there is no latest window end."""
        parts = self._journal.answers.parts(query.id)[-1:]
        table = pa.concat_tables([self._schema(query).empty_table(), *(self._blocks.read_part(*p) for p in parts)])
        return net_answers(table, query.plan) if OP in table.column_names else table

    def lookup(self, name: str, windows: object, ats: object) -> pa.Table:
        """A query's answers over other windows, from its synopsis, as of the last committed tick."""
        self._refuse_closed()
        stream, query = self._manager.query(name)
        lengths, ends = pairs_of(windows, ats, query.plan.scan.attribute)
        with stream.lock, self._jvm.watched():
            apply_choice(stream, self._settings())
            return self._lookups.lookup(stream, query, lengths, ends)

    def snapshot(self, select: exp.Expr, text: str) -> pa.Table:
        """The answer to a one-time query over a window, from a synopsis that fits, as of the last committed tick."""
        self._refuse_closed()
        with self._jvm.watched():
            plan = self._manager.bind_snapshot(select, text)
        stream = self._manager.stream(plan.scan.stream)
        with stream.lock, self._jvm.watched():
            apply_choice(stream, self._settings())
            fit = fitting(stream, plan, select, self._settings(), text)
            try:
                return self._lookups.answer(fit.state, fit.request(plan))
            finally:
                self._finisher.forget(plan)

    def fitted(self, select: exp.Expr, text: str) -> tuple[Finalise, StreamState, SnapshotFit]:
        """The plan of a one-time query, its stream, and the synopsis that would answer it."""
        self._refuse_closed()
        with self._jvm.watched():
            plan = self._manager.bind_snapshot(select, text)
        stream = self._manager.stream(plan.scan.stream)
        with stream.lock:
            return plan, stream, fitting(stream, plan, select, self._settings(), text)

    def dead_letters(self, name: str) -> pa.Table:
        stream = self._manager.stream(name)
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

    def select(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        with self._jvm.watched():
            return query_frame(self._spark, sql, tables)
