"""Reads of continuous queries: changes, views and answers, all of them committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from itertools import groupby
from typing import Any

import pyarrow as pa

from windrow.engine.plans.commits import ANSWERS, CHANGES, PlanCommits
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.plans.tables import answers_schema, answers_table, changes_schema, changes_table, view_schema
from windrow.errors import CatalogError, StateError, UnsupportedError
from windrow.operators.changes import HEAD, in_order
from windrow.operators.view import live_view
from windrow.types import point_text


class PlanReads:
    """Reads committed versions, and changes nothing."""

    def __init__(self, commits: PlanCommits):
        self._commits = commits

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

    def view(self, query: ContinuousQuery) -> pa.Table:
        """The result as of the last committed tick; of a query with SLIDE its latest answer."""
        plan, version = query.plan, query.version
        if plan.periodic:
            return self.answer(query).select(view_schema(plan).names)
        if version.progress.ticked is None or not version.changes:
            return view_schema(plan).empty_table()
        return live_view(version.changes, version.progress.ticked).at(version.progress.ticked)

    def answers(self, query: ContinuousQuery, last: object = None, since: object = None) -> pa.Table:
        """All retained answers of a query with SLIDE, in window order."""
        self._refuse_continuous(query)
        table = pa.concat_tables([answers_schema(query.plan).empty_table(), *self._parts(query, ANSWERS)])
        if last is not None or since is not None:
            raise UnsupportedError(
                f"this version has all answers of query '{query.name}' or none", remedy="Leave last and since out."
            )
        return table

    def answer(self, query: ContinuousQuery) -> pa.Table:
        """The latest answer of a query with SLIDE."""
        self._refuse_continuous(query)
        parts = self._commits.parts(query.id, ANSWERS)
        if not parts:
            return answers_schema(query.plan).empty_table()
        last = [part for part in parts if part.seq == parts[-1].seq]
        table = _ordered(query, [(part.seq, self._commits.read(part)) for part in last])[0]
        ends = table.column("window_end")
        return table.filter(pa.compute.equal(ends, pa.compute.max(ends)))

    def metrics(self, query: ContinuousQuery) -> dict[str, Any]:
        """Counters since opening, totals, and the size of the state."""
        row = self._commits.row(query.id)
        if row is None:
            raise CatalogError(f"there is no query '{query.name}'", remedy="It was dropped just now.")
        ticked = query.progress.ticked
        return {
            **asdict(query.metrics),
            "changes": row["changes"],
            "ticked": None if ticked is None else point_text(ticked, query.plan.point),
            "state_bytes": query.version.state.nbytes,
            "state": "active" if query.error is None else f"suspended: {query.error}",
        }

    def _refuse_continuous(self, query: ContinuousQuery) -> None:
        if not query.plan.periodic:
            raise UnsupportedError(
                f"query '{query.name}' is continuous: it has no windows to answer",
                remedy="view() has its result now, changes() what led to it; with SLIDE it answers windows.",
            )

    def _parts(self, query: ContinuousQuery, kind: str) -> list[pa.Table]:
        """The parts of a kind. A tick may retire one after it was listed; then they are listed again."""
        parts = _again(lambda: [(p.seq, self._commits.read(p)) for p in self._commits.parts(query.id, kind)])
        return _ordered(query, parts)


def _ordered(query: ContinuousQuery, parts: list[tuple[int, pa.Table]]) -> list[pa.Table]:
    """A table per commit, of parts that may have been written in several places. Answers that tasks wrote have the form
    of changes."""
    found = []
    for _, some in groupby(parts, key=lambda one: one[0]):
        table = in_order([rows for _, rows in some])
        is_raw = query.plan.periodic and table.column_names[0] == HEAD[0]
        found.append(answers_table(query.plan, table) if is_raw else table)
    return found


def _again(read: Callable[[], list[tuple[int, pa.Table]]]) -> list[tuple[int, pa.Table]]:
    for _ in range(3):
        try:
            return read()
        except StateError:
            continue
    return read()
