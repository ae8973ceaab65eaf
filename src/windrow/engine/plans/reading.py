"""Reads of continuous queries: changes, views and answers, all of them committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from windrow.engine.plans.commits import ANSWERS, CHANGES, PlanCommits, PlanPart
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.plans.tables import (
    answers_schema,
    answers_table,
    changes_schema,
    changes_table,
    ordered,
    view_schema,
    view_table,
)
from windrow.errors import CatalogError, StateError, UnsupportedError
from windrow.operators.changes import AT, HEAD, OP, in_order
from windrow.operators.tables.kernel import Kernel
from windrow.operators.view import view_at
from windrow.plan.algebra.nodes import ContinuousPlan
from windrow.types import point_text

ATTEMPTS = 5
"""How often parts are listed again because some were retired before they were read."""


class PlanReads:
    """Reads committed versions, and changes nothing. `refresh` reads the catalog anew, if it is a copy: then the memory
    has no state, and all is read from the catalog. `refuse_closed` raises if the state directory is closed, which views
    in memory outlive."""

    def __init__(
        self,
        commits: PlanCommits,
        refresh: Callable[[], object] | None = None,
        refuse_closed: Callable[[], None] = lambda: None,
    ):
        self._commits = commits
        self._refresh = refresh
        self._refuse_closed = refuse_closed
        self._kernel = Kernel()

    def changes(self, query: ContinuousQuery) -> pa.Table:
        """All retained changes, in order."""
        plan = query.plan
        if plan.periodic:
            raise UnsupportedError(
                f"query '{query.name}' has a SLIDE: it answers windows, and has no changes",
                remedy="answers() has the answer of every window; leave SLIDE out for a continuous query.",
            )
        parts = [changes_table(plan, part) for part in self._parts(query, CHANGES)]
        return pa.concat_tables([changes_schema(plan).empty_table(), *parts])

    def view(self, query: ContinuousQuery) -> tuple[pa.Table, int | None]:
        """The result as of the last committed tick, and that tick; None if there is none yet. Of a query with SLIDE its
        latest answer."""
        plan = query.plan
        if plan.periodic:
            found, last = self.answer(query)
            return found.select(view_schema(plan).names), last
        if self._refresh is not None:
            ticked, changes = self._stored(query)
            return self._shown(plan, changes, ticked), ticked
        self._refuse_closed()
        version = query.version
        if not version.shown:
            version.shown.append(self._shown(plan, version.changes, version.progress.ticked))
        return version.shown[0], version.progress.ticked

    def _shown(self, plan: ContinuousPlan, changes: Sequence[pa.Table], ticked: int | None) -> pa.Table:
        """The view that changes make at a tick, as users see it."""
        if ticked is None or not changes:
            return view_schema(plan).empty_table()
        return ordered(plan, view_table(plan, view_at(changes, ticked)), self._kernel)

    def _stored(self, query: ContinuousQuery) -> tuple[int | None, Sequence[pa.Table]]:
        """From the catalog, the last tick, and the changes that make the view as of it."""
        ticked = None

        def read() -> list[pa.Table]:
            nonlocal ticked
            row = self._commits.row(query.id)
            tables = [self._commits.read(part) for part in self._commits.view_parts(query.id)]
            if row != self._commits.row(query.id):
                raise StateError(f"query '{query.name}' has ticked meanwhile", remedy="Ask again.")
            ticked = None if row is None else row["ticked"]
            return tables

        tables = self._again(read)
        return ticked, tables

    def answers(self, query: ContinuousQuery) -> pa.Table:
        """All retained answers of a query with SLIDE, in window order."""
        self._refuse_continuous(query)
        return pa.concat_tables([answers_schema(query.plan).empty_table(), *self._parts(query, ANSWERS)])

    def answer(self, query: ContinuousQuery) -> tuple[pa.Table, int | None]:
        """The latest answer of a query with SLIDE, and the end of its window; None if there is none yet."""
        self._refuse_continuous(query)

        def read() -> list[pa.Table]:
            parts = self._commits.parts(query.id, ANSWERS)
            return self._read(query, [part for part in parts if part.seq == parts[-1].seq])

        tables, last = self._again(read), self._last_window(query)
        if not tables or last is None:
            return answers_schema(query.plan).empty_table(), last
        ends = tables[0].column("window_end").cast(pa.int64())
        return tables[0].filter(pc.equal(ends, last)), last

    def _last_window(self, query: ContinuousQuery) -> int | None:
        """The end of the latest window that was answered; None if none was. Its answer may be empty."""
        ticked, covered = query.progress.ticked, query.progress.covered
        if self._refresh is not None:
            row = self._commits.row(query.id)
            ticked, covered = (None, None) if row is None else (row["ticked"], row["covered"])
        if ticked is None or covered is None:
            return None
        return min(ticked, covered - query.plan.step)

    def metrics(self, query: ContinuousQuery) -> dict[str, Any]:
        """Counters since opening, totals, and the size of the state."""
        row = self._commits.row(query.id)
        if row is None:
            raise CatalogError(f"there is no query '{query.name}'", remedy="It was dropped just now.")
        ticked = query.progress.ticked
        return {
            **asdict(query.metrics),
            "changes": row["changes"],
            "overflows": row["overflows"],
            "ticked": None if ticked is None else point_text(ticked, query.plan.point),
            "state_bytes": query.version.state.nbytes,
            "state": "suspended: " + query.error
            if query.error is not None
            else "paused"
            if query.is_paused
            else "active",
        }

    def _refuse_continuous(self, query: ContinuousQuery) -> None:
        if not query.plan.periodic:
            raise UnsupportedError(
                f"query '{query.name}' is continuous: it has no windows to answer",
                remedy=f"Its result now is SELECT … FROM {query.name}, in Python view(); what led to it is "
                f"SELECT … FROM changes('{query.name}'), in Python changes(). With SLIDE a query answers windows.",
            )

    def _parts(self, query: ContinuousQuery, kind: str) -> list[pa.Table]:
        """The parts of a kind, those of one commit as one."""
        return self._again(lambda: self._read(query, self._commits.parts(query.id, kind)))

    def _read(self, query: ContinuousQuery, parts: Sequence[PlanPart]) -> list[pa.Table]:
        """A table per commit, of parts that may have been written in several places, in order. Answers that tasks
        wrote have the form of changes; others have been ordered."""
        found, read = [], self._commits.reader()
        for _, some in groupby(parts, key=lambda one: one.seq):
            tables = [read(part) for part in some]
            if tables[0].column_names[0] != HEAD[OP]:
                found += tables
                continue
            table = in_order(tables)
            if query.plan.periodic:
                table = answers_table(query.plan, ordered(query.plan, table, self._kernel, first=HEAD[AT]))
            found.append(table)
        return found

    def _again(self, read: Callable[[], list[pa.Table]]) -> list[pa.Table]:
        """What `read` returns. A tick may retire a part after it was listed; then it is called again."""
        for _ in range(ATTEMPTS):
            try:
                return read()
            except StateError:
                if self._refresh is not None:
                    self._refresh()
        return read()
