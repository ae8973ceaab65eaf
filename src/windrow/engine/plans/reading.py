"""Reads of continuous queries: changes, views and answers, all of them committed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pyarrow as pa

from windrow.engine.ask.kept_answers import last_windows
from windrow.engine.plans.commits import ANSWERS, CHANGES, PlanCommits
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.plans.tables import answers_schema, answers_table, changes_schema, changes_table, view_schema
from windrow.errors import UnsupportedError
from windrow.operators.view import View
from windrow.types import point_text


class PlanReads:
    """Reads committed versions, and changes nothing."""

    def __init__(self, commits: PlanCommits):
        self._commits = commits

    def changes(self, query: ContinuousQuery) -> pa.Table:
        """All retained changes, in order."""
        self._refuse_periodic(query, "changes()", "answers() has the answer of every window.")
        parts = [changes_table(query.plan, part) for part in self._parts(query, CHANGES)]
        return pa.concat_tables([changes_schema(query.plan).empty_table(), *parts])

    def view(self, query: ContinuousQuery) -> pa.Table:
        """The result as of the last committed tick; of a query with SLIDE its latest answer."""
        if query.plan.periodic:
            return self.answer(query).select(view_schema(query.plan).names)
        version = query.version
        schema = view_schema(query.plan)
        if version.progress.ticked is None:
            return schema.empty_table()
        return View.of(query.plan, version.changes).at(version.progress.ticked).cast(schema)
