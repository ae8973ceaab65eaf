"""Tables of continuous queries in a one-time SELECT: views, changes, and answers of queries that run as plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from windrow.engine.ask.as_of import ShownResult
from windrow.engine.ask.kept_answers import WINDOW_END, Ends, last_windows, window_count, within
from windrow.engine.ask.lookup_args import end_of, length_of
from windrow.engine.plans.manager import PlanManager
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.plans.reading import PlanReads
from windrow.errors import CatalogError, Place, QuerySuspendedError, WindrowError
from windrow.types import SqlType, point_text


@dataclass(frozen=True)
class PlanTable:
    """The rows of a table, and what they are, in words. `shown`: as of when they are, of a view or a latest answer.
    `tick` is the tick, as a point of type `point`, of the view of a continuous query alone."""

    rows: pa.Table
    what: str
    shown: ShownResult | None = None
    tick: int | None = None
    point: SqlType | None = None


class PlanTables:
    """Reads what is committed of the continuous queries; `plans` gives their manager as of now."""

    def __init__(self, plans: Callable[[], PlanManager], reads: PlanReads):
        self._plans = plans
        self._reads = reads

    def view(self, name: str, place: Place | None) -> PlanTable | None:
        """The view of a continuous query, or the latest answer of one with SLIDE; None if there is no such query."""
        query = self._query(name)
        if query is None:
            return None
        if query.error is not None:
            earlier = "answers" if query.plan.periodic else "changes"
            raise QuerySuspendedError(
                f"query '{query.name}' is suspended, and ticks no more: {query.error}",
                place=place,
                remedy=f"FROM {earlier}('{query.name}') shows what it gave before. DROP it and create it again.",
            )
        kind = query.plan.point
        if query.plan.periodic:
            rows, last = self._reads.answer(query)
            return PlanTable(rows, f"the latest answer of query {query.name}", ShownResult.of_plan(query, last))
        rows, ticked = self._reads.view(query)
        as_of = ", which has not ticked yet" if ticked is None else f" as of tick {point_text(ticked, kind)}"
        what = f"the view of query {query.name}{as_of}"
        return PlanTable(rows, what, ShownResult.of_plan(query, ticked), ticked, kind)

    def changes(self, name: str, place: Place | None) -> PlanTable:
        """The retained changes of a continuous query. Raises CatalogError if there is no such query."""
        query = self._query(name)
        if query is None:
            raise CatalogError(
                f"'{name}' is no continuous query, and has no changes",
                place=place,
                remedy=f"Queries that run as plans: {', '.join(self._plans().names()) or 'none yet'}. Those with SLIDE "
                "have answers('name') instead. A stream has neither: SELECT * FROM its name [RANGE …].",
            )
        return PlanTable(self._at(place, lambda: self._reads.changes(query)), f"changes of query {query.name}")

    def answers(self, name: str, place: Place | None) -> PlanTable | None:
        """The retained answers of a query with SLIDE that runs as a plan; None if no plan has this name."""
        query = self._query(name)
        if query is None:
            return None
        return PlanTable(self._at(place, lambda: self._reads.answers(query)), f"answers of query {query.name}")

    def has(self, name: str) -> bool:
        """Whether there is a continuous query of this name."""
        return self._plans().has(name)

    def _query(self, name: str) -> ContinuousQuery | None:
        plans = self._plans()
        return plans.query(name) if plans.has(name) else None

    def _at(self, place: Place | None, read: Callable[[], pa.Table]) -> pa.Table:
        """What `read` returns; its error is shown at the place."""
        try:
            return read()
        except WindrowError as error:
            error.place = error.place or place
            raise


def chosen_windows(answers: pa.Table, query: ContinuousQuery, last: object, since: object) -> pa.Table:
    """Of a query's answers, those to the last windows with rows, or of the last so long time, and those whose windows
    end from `since` on; arguments as of `Query.answers`."""
    attribute = query.plan.windows[0].attribute
    count = window_count(query.name, attribute.type.is_timestamp, False, last)
    ends = Ends(low=None if since is None else end_of(since, attribute))
    if last is not None and count is None:
        length, end = length_of(last, attribute), pc.max(answers.column(WINDOW_END).cast(pa.int64())).as_py()
        ends = ends if end is None else ends.and_(Ends(low=end - length + 1))
    if not ends.is_open:
        answers = answers.filter(within(answers.column(WINDOW_END), ends))
    return last_windows(answers, count)


def latest_end(answers: pa.Table) -> object:
    """The latest window end of answers; None if there are none."""
    return pc.max(answers.column(WINDOW_END)).as_py()
