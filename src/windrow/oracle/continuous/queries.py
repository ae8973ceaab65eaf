"""The continuous queries of an oracle: what each has to show, from the full history of the streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from windrow.cql.dialect import StreamTable
from windrow.cql.statements import CreateQuery, CreateStream, CreateTable
from windrow.cql.window_clause import WindowKind
from windrow.errors import CatalogError, UnsupportedError
from windrow.oracle.admission import Admitted, column_named
from windrow.oracle.continuous.changelogs import Fed, fed
from windrow.oracle.continuous.due import INFINITE, DueRange, due_of, reached_after
from windrow.oracle.continuous.evaluation import (
    Answer,
    Evaluation,
    StreamHistory,
    restored,
    stream_sources,
    streamed,
)
from windrow.oracle.continuous.plan import StandingPlan, standing_plan
from windrow.oracle.continuous.reading import all_sources
from windrow.oracle.continuous.tables import EffectiveVersion, TableHistory
from windrow.oracle.shapes import axis_of

Since = Mapping[str, int | None]


class ContinuousQueries:
    """`log` has the stream of every event so far, in lower case. `replay` replays a stream's history. `tables` has the
    tables by name in lower case."""

    def __init__(
        self,
        spark: Any,
        log: Sequence[str],
        statement_of: Callable[[str], CreateStream],
        replay: Callable[[str], Admitted],
        tables: Mapping[str, TableHistory],
    ):
        self._tables = tables
        self._spark, self._log = spark, log
        self._statement_of, self._replay = statement_of, replay
        self._plans: dict[str, StandingPlan] = {}
        self._known: dict[tuple[str, int, int, int], dict[int, list[Answer]]] = {}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._plans

    def create(self, statement: CreateQuery) -> None:
        """Add a query. Over streams that have tuples it counts from the first tick above them on; see `begin`."""
        plan = standing_plan(statement.select, self._statement_of, len(self._log))
        found = self._evaluation(plan, 0).points()
        since = {name: plan.first_above(max(points)) if points else None for name, points in found.items()}
        self._plans[statement.name.lower()] = replace(plan, since=since)

    def drop(self, name: str) -> None:
        self._plans.pop(name.lower(), None)

    def begin(self, name: str, since: int | None | Since) -> None:
        """Set the point from which the query counts tuples, for all its streams or for each; None: from the first."""
        plan = self.plan(name)
        each = since if isinstance(since, Mapping) else dict.fromkeys(plan.streams, since)
        lower = {stream.lower(): point for stream, point in each.items()}
        self._plans[name.lower()] = replace(plan, since={**plan.since, **lower})

    def plan(self, name: str) -> StandingPlan:
        if name.lower() not in self._plans:
            raise CatalogError(f"there is no continuous query '{name}'")
        return self._plans[name.lower()]

    def due(self, name: str, most: int) -> DueRange | None:
        """The ticks that the query has processed; None if none."""
        return self._due(self._evaluation(self.plan(name), most))

    def ticks(self, name: str, most: int) -> list[int]:
        """The due ticks at which the relation may change, with the first and the last. RSTREAM: all due ticks."""
        made = self._evaluation(self.plan(name), most)
        due = self._due(made)
        if due is None:
            return []
        if made.plan.streaming in ("rstream", "rstream restore"):
            return list(due.all(made.plan.step))
        return due.among([due.first, *made.candidates(), due.last])

    def relations(self, name: str, ticks: Iterable[int], most: int) -> dict[int, list[Answer]]:
        """R(b) at the ticks. That of ISTREAM, DSTREAM and RSTREAM is all that they gave up to b."""
        wanted = sorted(set(ticks))
        known = self._known.get(self._state(name, most), {})
        if not known.keys() >= set(wanted):
            known = self._relations(name, wanted, most)
            self._known = {self._state(name, most): known}
        return {tick: known[tick] for tick in wanted}

    def _state(self, name: str, most: int) -> tuple[str, int, int, int]:
        """What a relation depends on: it is asked for again and again, and Spark is slow."""
        changes = sum(len(table.versions) for table in self._tables.values())
        return name.lower(), id(self.plan(name)), len(self._log) + (changes << 32), most

    def _relations(self, name: str, wanted: list[int], most: int) -> dict[int, list[Answer]]:
        made = self._evaluation(self.plan(name), most)
        due = self._due(made)
        kind = made.plan.streaming
        if kind is None or due is None:
            return made.relations(wanted, due)
        given = self._streamed(made, kind, due, {*wanted, *self.ticks(name, most)})
        return {tick: [row for at, row in given if at <= tick] for tick in wanted}

    def _streamed(self, made: Evaluation, kind: str, due: DueRange, ticks: Iterable[int]) -> list[tuple[int, Answer]]:
        """What ISTREAM and the like give at the ticks; what RESTORE gives at an instant is given at the next tick."""
        asked = {tick for tick in ticks if due.first <= tick <= due.last}
        if not kind.endswith("restore"):
            inner = made.relations(ticks, due)
            return streamed(kind, {tick: rows for tick, rows in inner.items() if tick in asked})
        plan, upto = made.plan, max(asked, default=due.first)
        inner = made.relations({*made.instants(due, upto), *asked}, due)
        if kind == "rstream restore":
            return restored(plan, asked, inner)
        return [(plan.first_above(at - 1), row) for at, row in streamed("istream", inner)]

    def answers(self, name: str, most: int) -> list[tuple[int | None, int, list[Answer]]]:
        """(window start, window end, rows) of every window that was answered. For queries with SLIDE."""
        made = self._evaluation(self.plan(name), most)
        due = self._due(made)
        if due is None:
            return []
        ends, endless = made.slide_ends(), made.endless_from()
        if endless is not None:
            ends.update(tick for tick in due.all(made.plan.step) if tick >= endless)
        kind, asked = made.plan.streaming, due.among(ends)
        if kind is None:
            found = made.relations(asked, due)
        else:
            given = self._streamed(made, kind, due, due.all(made.plan.step))
            found = {end: [row for at, row in given if at == end] for end in asked}
        return [(made.plan.window_start(end), end, rows) for end, rows in found.items()]

    def ask(self, select: exp.Expr, instant: int | None, most: int) -> tuple[int | None, list[Answer]]:
        """A query that is asked once: the instant of its windows, and its rows then. Without an instant, the last one
        that is complete; None: all its windows go by arrival, which no instant bounds. Tables are as they are now;
        those that streams feed as of the instant."""
        plan = standing_plan(select, self._statement_of)
        is_read = len(list(select.find_all(StreamTable))) == len(stream_sources(plan.query))
        if not is_read or select.find(exp.Window) is not None:
            raise UnsupportedError("the oracle reads windows in FROM, EXISTS and IN, and has no OVER")
        admitted, axes = self._admitted(plan)
        by_arrival = all(
            one.window is not None and one.window.kind is WindowKind.ROWS for one in stream_sources(plan.query)
        )
        if instant is None and not by_arrival:
            instant = reached_after(plan, self._log, admitted, axes)[-1]
            if all(one.ended for one in admitted.values()):
                greatest = [point for name in admitted for point in self._points(name)]
                instant = max([instant, *(plan.first_above(point) for point in greatest)])
        histories = {name: self._history(name, None) for name in plan.streams}
        tables = {table.statement.name.lower(): self._present(table, plan) for table in self._named_tables(plan)}
        made = Evaluation(self._spark, plan, histories, most, tables, by_arrival=True)
        at = plan.step if by_arrival or instant is None else instant
        return None if by_arrival else instant, made.relations([at], None)[at]

    def _present(self, table: TableHistory, plan: StandingPlan) -> list[EffectiveVersion]:
        """A table as a query sees it that is asked now."""
        if table.statement.stream is not None:
            return self.fed(table).effective(plan, table.rows, is_exact=False)
        return [EffectiveVersion(table.rows, -INFINITE, INFINITE)]

    def _due(self, made: Evaluation) -> DueRange | None:
        plan = made.plan
        admitted, axes = self._admitted(plan)
        ends = made.slide_ends() if plan.periodic else set()
        points = made.points()
        for name in admitted.keys() - points.keys():
            points[name] = self._points(name)
        return due_of(plan, self._log, admitted, axes, points, max(ends, default=None))

    def _points(self, name: str) -> list[int]:
        """The points of all tuples of a stream, on its default attribute."""
        statement = self._statement_of(name)
        assert statement.timestamp_by is not None
        return [
            point for _, point, _ in self._history(name, None).pointed(column_named(statement, statement.timestamp_by))
        ]

    def _admitted(self, plan: StandingPlan) -> tuple[dict[str, Admitted], dict[str, set[str]]]:
        """The replayed history of its streams, and their window attributes."""
        axes: dict[str, set[str]] = {name: set() for name in plan.streams}
        for source in stream_sources(plan.query):
            assert source.stream is not None and source.window is not None
            axes[source.stream.lower()].add(axis_of(source.window, self._statement_of(source.stream)))
        for table in self._named_tables(plan):
            if table.statement.stream is not None:
                stream = self._statement_of(table.statement.stream)
                assert stream.timestamp_by is not None
                axes.setdefault(stream.name.lower(), set()).add(column_named(stream, stream.timestamp_by))
        return {name: self._replay(name) for name in axes}, axes

    def _named_tables(self, plan: StandingPlan) -> list[TableHistory]:
        named = {one.table.lower() for one in all_sources(plan.query) if one.table is not None}
        if not named <= self._tables.keys():
            raise UnsupportedError("the oracle reads windows of streams, and tables")
        return [self._tables[name] for name in sorted(named)]

    def _history(self, name: str, since: int | None) -> StreamHistory:
        rows = [one.row for one in self._replay(name).arrivals if not one.late]
        return StreamHistory(self._statement_of(name), rows, since)

    def create_table(self, statement: CreateTable) -> TableHistory:
        """A new table. One that a stream feeds counts tuples above those that the stream has."""
        points = [] if statement.stream is None else self._points(statement.stream.lower())
        return TableHistory(statement, since=max(points) + 1 if points else None)

    def fed(self, table: TableHistory) -> Fed:
        """What its stream has made of a table."""
        assert table.statement.stream is not None
        history = self._history(table.statement.stream.lower(), None)
        return fed(self._spark, table.statement, history.statement, history.rows, table.since)

    def _evaluation(self, plan: StandingPlan, most: int) -> Evaluation:
        histories = {name: self._history(name, plan.since.get(name)) for name in plan.streams}
        named = {table.statement.name.lower(): table for table in self._named_tables(plan)}
        reached = reached_after(plan, self._log, *self._admitted(plan), at_end=INFINITE) if named else []
        tables = {name: self._effective(table, plan, reached) for name, table in named.items()}
        nrrs = frozenset(name for name, table in named.items() if not table.statement.retroactive)
        return Evaluation(self._spark, plan, histories, most, tables, nrrs)

    def _effective(self, table: TableHistory, plan: StandingPlan, reached: Sequence[int]) -> list[EffectiveVersion]:
        if table.statement.stream is None:
            return table.effective(reached, plan.step)
        return self.fed(table).effective(plan, table.rows, is_exact=not table.statement.retroactive)
