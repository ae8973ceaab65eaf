"""Handles on standing queries and tables: what `wr.query` and `wr.table` return, `wr.queries` and `wr.tables` hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from windrow.cql.statements import Alteration
from windrow.display.charts import Chart, draw
from windrow.display.html import folded_part, note_part, table_part, text_part, title_part, whole
from windrow.display.latest import Latest, LatestAnswer, LatestView
from windrow.engine.ask import catalog_views as views
from windrow.engine.ask.create_texts import show_create
from windrow.engine.ask.plan_tables import chosen_windows, latest_end
from windrow.engine.engine import Engine
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.state import QueryState
from windrow.errors import BindError, CatalogError, QuerySuspendedError, UnsupportedError, WindrowError
from windrow.explain.continuous import RunningPlan, explain_continuous
from windrow.explain.drawing import DrawnPlan
from windrow.explain.periodic import measured_line, periodic_chain
from windrow.explain.text import ONLY_PLAN, explain_query
from windrow.result import Plan, Result
from windrow.types import point_text, value_of
from windrow.windows import PartitionedWindow


class Query:
    """A handle on a standing query that answers windows."""

    def __init__(self, engine: Engine, name: str):
        self._engine = engine
        self.name = name

    @property
    def is_continuous(self) -> bool:
        """Whether it has changes and a view, and not an answer per window."""
        return False

    def _state(self) -> QueryState:
        return self._engine.manager.query(self.name)[1]

    def _active(self) -> QueryState:
        state = self._state()
        if state.error is not None:
            raise QuerySuspendedError(
                f"query '{state.name}' is suspended, and answers no more windows: {state.error}",
                remedy="DROP it and create it again; answers() still returns its earlier answers.",
            )
        return state

    def answer(self) -> Result:
        """The answer to the latest window that was answered as a whole. Raises QuerySuspendedError if the query is
        suspended; `answers` then still returns its earlier answers."""
        table = self._engine.reads.answer(self._active())
        return Result(table, window=latest_end(table))

    def answers(self, last: int | str | timedelta | None = None, since: datetime | str | int | None = None) -> Result:
        """Retained answers, in window order. Groups that a punctuation closed early stand in order of delivery.

        `last` is a number of windows (the last that have rows), or a length such as "1 hour" up to the end of the
        latest answered window. `since` is the least window end. By default all retained answers.
        """
        return Result(self._engine.reads.answers(self._state(), last, since))

    def lookup(self, window: str | timedelta | int, at: datetime | str | int | None = None) -> Result:
        """The answer over one window, current or past, as far back as the query keeps its state.

        `window` is its length: text such as "7 minutes" or a timedelta, or a number for integer attributes and rows.
        `at` is its end; by default the latest closed end that is possible.
        """
        return Result(self._engine.reads.lookup(self._active().name, window, at))

    def lookups(self, windows: Any, at: Any = None) -> Result:
        """Many lookups at once. `windows` and `at` are lists of equal length; a single value is paired with every
        element of the other. The rows come in the order of the lists."""
        return Result(self._engine.reads.lookup(self._active().name, windows, at))

    def view(self) -> Result:
        """The latest answer, as `answer`; of a continuous query its result now."""
        return self.answer()

    def changes(self) -> Result:
        """Only continuous queries have changes."""
        raise UnsupportedError(
            f"query '{self.name}' answers windows, and has no changes",
            remedy="answers() has the answer of every window; a window without SLIDE makes a query continuous.",
        )

    def revisions(self) -> Result:
        """All retained rows in the order of delivery: `op` ('+' or '-'), `revision`, then the columns of `answers`.

        Corrections occur only if the stream has LATE REVISE; otherwise every row has '+' and 0.
        """
        return Result(self._engine.reads.revisions(self._state()))

    def subscribe(self, callback: Callable[[Any], None], *, batched: bool = False) -> None:
        """Call `callback` with the answer of every window, at least once. `batched`: one call per tick batch."""
        self._engine.refuse_live("a subscription")
        _refuse_uncallable(callback)
        state = self._active()
        (state.batch_subscribers if batched else state.subscribers).append(callback)

    def pause(self) -> bool:
        """Rest until `resume`, as ALTER QUERY … PAUSE does. Return whether it ran before."""
        return self._engine.statements.alter_query(self.name, Alteration.PAUSE)

    def resume(self) -> bool:
        """Go on after `pause`, without a missing or doubled answer. Return whether it was paused."""
        return self._engine.statements.alter_query(self.name, Alteration.RESUME)

    def explain(self, analyze: bool = False, verbose: bool = False) -> Plan:
        """The plan, as EXPLAIN QUERY gives it: a str that a notebook displays as a picture. `analyze` adds what the
        query has done since the state directory was opened, as EXPLAIN ANALYZE QUERY does; `verbose` the plans that it
        was chosen from and their costs, as EXPLAIN VERBOSE QUERY does."""
        self._engine.refuse_live("EXPLAIN")
        stream, query = self._engine.manager.query(self.name)
        text = explain_query(query.name, query.plan, stream, query, self._engine.settings)
        if analyze:
            text += f"\n{measured_line(stream, query)}"
        text += f"\n{ONLY_PLAN}" if verbose else ""
        return Plan(text, DrawnPlan(periodic_chain(query.name, query.plan, stream)))

    def plot(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        kind: str = "line",
        last: int | str | timedelta | None = None,
        since: datetime | str | int | None = None,
        groups: int = 10,
        ax: Any = None,
    ) -> Any:
        """Draw the retained answers over the ends of their windows, and return matplotlib's Axes.

        There is a line per number of the select list and group. `columns` chooses among the numbers. `kind` is line,
        step, points or bar. `last` and `since` choose windows as `answers` does. At most `groups` groups are drawn:
        those with the greatest sums. `ax` are Axes to draw on.
        """
        state = self._state()
        plan, attribute = state.plan, state.plan.scan.attribute
        keys = tuple(output.name for output in plan.outputs if output.is_of_group)
        of_what = "UTC" if attribute.type.name == "TIMESTAMP" else str(attribute)
        is_aligned = not isinstance(plan.window, PartitionedWindow)
        chart = Chart(state.name, keys, f"window end ({of_what})", is_aligned, kind, groups)
        return draw(chart, self._engine.reads.answers(state, last, since), columns, ax)

    def live(self, *, every: float = 0.5, count: int | None = None, seconds: float | None = None) -> None:
        """Show the latest answer (of a continuous query the view) and keep it up to date in place: in the output of a
        notebook's cell or on a terminal; elsewhere each answer is printed below the last one.

        It looks for a new answer `every` so many seconds. It returns after `count` refreshes, after `seconds`, or on
        an interrupt (Ctrl-C, or "interrupt the kernel"), whichever comes first. It raises QuerySuspendedError if the
        query is suspended.
        """
        from windrow.display.in_place import follow  # rich is not needed before

        follow(self.latest, every, count, seconds)

    def latest(self, shown: Latest | None = None, start: str = "wr.start()") -> Latest | None:
        """What to show now; None if it is what is shown. `start` is how the user runs streams that are stopped."""
        return self._latest(self._active(), shown, start)

    def _stopped(self, start: str) -> str | None:
        """Why no answer will come, if so."""
        if self._engine.running.is_running:
            return None
        read_only = self._engine.is_read_only
        return "no process runs the streams" if read_only else f"the streams are stopped: {start} runs them"

    def _latest(self, state: Any, shown: Latest | None = None, start: str = "wr.start()") -> Latest | None:
        """The latest answer; None if it is the one shown."""
        metrics, stopped = views.query_metrics(self._engine, state), self._stopped(start)
        found = (metrics["windows_answered"], metrics["answer_rows"], stopped, metrics["last_delivery_s"])
        if shown is not None and shown.version == found:
            return None
        return LatestAnswer(state.name, self._engine.reads.answer(state), *found)

    def metrics(self) -> dict[str, Any]:
        return views.query_metrics(self._engine, self._state())

    def __repr__(self) -> str:
        return f"<query {self.name}>"

    def _repr_html_(self) -> str:
        title = f"query {self.name}"
        try:
            state = self._state()
            latest = self._latest(state)
            assert latest is not None
            condition = views.query_metrics(self._engine, state)["state"]
        except WindrowError as error:  # it was dropped, or the state directory is closed
            return whole(title_part(title, error.message))
        window = f"[{views.window_in_words(state.plan)}] over {state.plan.scan.stream}"
        statement = show_create(
            self._engine.manager, self._engine.plans, self._engine.tables, "create query", self.name
        )
        return whole(
            title_part(title, window, condition),
            note_part(" · ".join(latest.notes)),
            table_part(latest.columns),
            folded_part("statement", text_part(statement)),
        )


class ContinuousHandle(Query):
    """A handle on a continuous query, or on a periodic one that runs as a plan (a join or a sub-query with SLIDE)."""

    @property
    def is_continuous(self) -> bool:
        return not self._query().plan.periodic

    def _query(self) -> ContinuousQuery:
        return self._engine.plans.query(self.name)

    def _running(self) -> ContinuousQuery:
        query = self._query()
        if query.error is not None:
            raise QuerySuspendedError(
                f"query '{query.name}' is suspended, and ticks no more: {query.error}",
                remedy="DROP it and create it again; changes() still returns its earlier changes.",
            )
        return query

    def view(self) -> Result:
        """The result as of the last committed tick, which `Result.window` names; of a query with SLIDE its latest
        answer."""
        query = self._running()
        table, ticked = self._engine.plan_reads.view(query)
        return Result(table, window=None if ticked is None else value_of(ticked, query.plan.point))

    def changes(self) -> Result:
        """Retained changes, in order: `op` ('+' or '-'), `ts` (when the result was born, or withdrawn), `exp` (when it
        will be gone; NULL if that is not known), then the select list."""
        return Result(self._engine.plan_reads.changes(self._query()))

    def answers(self, last: int | str | timedelta | None = None, since: datetime | str | int | None = None) -> Result:
        """Retained answers of a query with SLIDE, in window order; `last` and `since` as in `Query.answers`."""
        query = self._query()
        return Result(chosen_windows(self._engine.plan_reads.answers(query), query, last, since))

    def answer(self) -> Result:
        """The latest answer of a query with SLIDE."""
        query = self._running()
        table, last = self._engine.plan_reads.answer(query)
        return Result(table, window=None if last is None else value_of(last, query.plan.point))

    def lookup(self, window: str | timedelta | int, at: datetime | str | int | None = None) -> Result:
        raise self._no_synopsis()

    def lookups(self, windows: Any, at: Any = None) -> Result:
        raise self._no_synopsis()

    def revisions(self) -> Result:
        return self.changes()

    def _no_synopsis(self) -> UnsupportedError:
        return UnsupportedError(
            f"query '{self.name}' runs as a plan, and lookups need an aggregate with SLIDE over one stream",
            remedy="view() has its result now, changes() what led to it.",
        )

    def subscribe(self, callback: Callable[[Any], None], *, batched: bool = False) -> None:
        """Call `callback` with the changes (of a query with SLIDE: the answers) of every tick batch, at least once. The
        argument has `query`, `table` and `key`."""
        self._engine.refuse_live("a subscription")
        _refuse_uncallable(callback)
        self._running().subscribers.append(callback)

    def explain(self, analyze: bool = False, verbose: bool = False) -> Plan:
        """The plan as a tree, as EXPLAIN QUERY gives it; `analyze` adds rows, bytes and time of every operator,
        `verbose` what it costs and the plans that it was chosen from."""
        return _explained(self._engine, self._query(), analyze, verbose)

    def plot(self, *args: Any, **options: Any) -> Any:
        raise UnsupportedError(
            f"query '{self.name}' runs as a plan, and this version draws only answers of aggregates over one stream",
            remedy="view().pandas() has its result as a DataFrame.",
        )

    def _latest(self, state: Any, shown: Latest | None = None, start: str = "wr.start()") -> Latest | None:
        metrics, stopped = self.metrics(), self._stopped(start)
        seen = (metrics["ticked"], metrics["changes"], stopped)
        if shown is not None and shown.version == seen:
            return None
        table, last = self._engine.plan_reads.view(state)
        plan, came = state.plan, metrics["changes"]
        if last is None:
            as_of = "no answer yet" if plan.periodic else "no tick yet"
        else:
            as_of = f"{'window up to' if plan.periodic else 'as of'} {point_text(last, plan.point)}"
        total = f"{came:,} {'rows answered' if plan.periodic else 'changes'}"
        return LatestView(state.name, table, as_of, total, stopped, seen)

    def _active(self) -> Any:
        return self._running()

    def metrics(self) -> dict[str, Any]:
        return self._engine.plan_reads.metrics(self._query())

    def _repr_html_(self) -> str:
        title = f"query {self.name}"
        try:
            query = self._query()
            table, _ = self._engine.plan_reads.view(query)
        except WindrowError as error:
            return whole(title_part(title, error.message))
        streams = ", ".join(query.plan.streams)
        statement = show_create(
            self._engine.manager, self._engine.plans, self._engine.tables, "create query", self.name
        )
        return whole(
            title_part(title, f"over {streams}"), table_part(table), folded_part("statement", text_part(statement))
        )


def _refuse_uncallable(callback: object) -> None:
    if not callable(callback):
        raise BindError(
            f"a subscriber is a function, and this is {type(callback).__name__}",
            remedy="For example q.subscribe(print), which is called with every answer or change.",
        )


def _explained(engine: Engine, query: ContinuousQuery, analyze: bool, verbose: bool) -> Plan:
    engine.refuse_live("EXPLAIN")
    opened = engine.opened
    found = explain_continuous(RunningPlan(query, opened.stores, opened.manager.stream, analyze, verbose))
    return Plan(found.text(), DrawnPlan(found))


def explained_stream(engine: Engine, name: str, analyze: bool = False, verbose: bool = False) -> Plan:
    """The plan of a derived stream, as EXPLAIN STREAM gives it."""
    stream = engine.manager.stream(name)
    plan = engine.plans.behind(stream)
    if plan is None:
        raise CatalogError(
            f"stream '{stream.name}' has a source, and no plan",
            remedy="EXPLAIN STREAM is for streams made by a query: CREATE STREAM … AS SELECT. DESCRIBE shows this one.",
        )
    return _explained(engine, plan, analyze, verbose)


class Queries(Mapping[str, Query]):
    """The standing queries by name."""

    def __init__(self, engine: Engine):
        self._engine = engine

    def __getitem__(self, name: str) -> Query:
        try:
            return handle(self._engine, name)
        except WindrowError as error:
            raise KeyError(str(error)) from None

    def __iter__(self) -> Iterator[str]:
        return iter([*self._engine.manager.queries(), *self._engine.plans.names()])

    def __len__(self) -> int:
        return len(self._engine.manager.queries()) + len(self._engine.plans.names())


class Table:
    """A handle on a table: its rows as of the last committed change, and changes of them.

    Rows are a list of dicts or tuples, pandas, Arrow or a Spark DataFrame. A call changes all of them, or raises and
    changes nothing.
    """

    def __init__(self, engine: Engine, name: str):
        self._engine = engine
        self.name = name

    def insert(self, rows: Any) -> int:
        """Add rows, whose keys are new; returns how many."""
        return self._engine.table_statements.put(self.name, rows, replaces=False)

    def upsert(self, rows: Any) -> int:
        """Add rows; each replaces the row with the same key, if there is one. Of several with one key, the last counts.
        Returns how many."""
        return self._engine.table_statements.put(self.name, rows, replaces=True)

    def delete(self, keys: Any) -> int:
        """Delete the rows with these keys: a list of values, or of tuples or dicts for a key of several columns.
        Returns how many there were."""
        return self._engine.table_statements.remove(self.name, keys)

    def result(self) -> Result:
        """All rows, in the order of their keys."""
        return Result(self._engine.tables.table(self.name).rows)

    def arrow(self) -> pa.Table:
        return self.result().arrow()

    def pandas(self) -> Any:
        return self.result().pandas()

    def rows(self) -> list[dict[str, Any]]:
        return self.result().rows()

    def __len__(self) -> int:
        return self._engine.tables.table(self.name).version.rows.count

    def __repr__(self) -> str:
        return f"<table {self.name}: {len(self)} rows>"


class Tables(Mapping[str, Table]):
    """The tables by name."""

    def __init__(self, engine: Engine):
        self._engine = engine

    def __getitem__(self, name: str) -> Table:
        try:
            return Table(self._engine, self._engine.tables.table(name).name)
        except WindrowError as error:
            raise KeyError(str(error)) from None

    def __iter__(self) -> Iterator[str]:
        return iter([table.name for table in self._engine.tables.all()])

    def __len__(self) -> int:
        return len(self._engine.tables.all())


def handle(engine: Engine, name: str) -> Query:
    """The handle on the query of this name. Raises CatalogError if there is none."""
    if not engine.manager.has_query(name):
        return ContinuousHandle(engine, engine.plans.query(name).name)
    return Query(engine, engine.manager.query(name)[1].name)
