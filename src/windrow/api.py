"""The Python interface: `Windrow` and its query handles. `windrow.open` is in `lazy`."""

from __future__ import annotations

import logging
import shutil
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from numbers import Integral
from pathlib import Path
from typing import Any

import pyarrow as pa

from windrow.catalog.definitions import StreamDef
from windrow.cql import CQL, parse
from windrow.cql.intervals import parse_interval
from windrow.cql.patterns import BadPatternError, Condition, equals
from windrow.cql.printer import to_text
from windrow.cql.statements import (
    Alteration,
    AlterQuery,
    ColumnDef,
    CreateDerivedStream,
    CreateQuery,
    CreateStream,
    CreateTable,
    DeleteRows,
    Describe,
    Drop,
    Explain,
    InsertRows,
    LoadRows,
    Policy,
    Punctuate,
    Select,
    SetSetting,
    Show,
    Statement,
    UpdateRows,
)
from windrow.cql.tokens import named_place
from windrow.cql.window_clause import Measure, Unit
from windrow.dataplane.streaming_frames import frame_columns
from windrow.display.html import note_part, table_part, title_part, whole
from windrow.engine.ask import catalog_views as views
from windrow.engine.ask.create_texts import NOTE, punctuation_notes, show_create
from windrow.engine.ask.finished_tables import named_tables
from windrow.engine.ask.lateness_chart import lateness_chart
from windrow.engine.ask.onetime.choosing import Chosen
from windrow.engine.ask.onetime.driver_read import DriverRead
from windrow.engine.ask.onetime.frame_leases import FrameLeases
from windrow.engine.engine import Engine
from windrow.engine.isolation.asked import Terms
from windrow.engine.isolation.recording import history_file
from windrow.engine.read_only import ReadOnlyEngine
from windrow.engine.ticks.delivery import sweep
from windrow.errors import (
    BindError,
    CatalogError,
    ParseError,
    SpanError,
    SparkEndedError,
    StateError,
    UnsupportedError,
    WindrowError,
)
from windrow.explain.continuous import explain_plan
from windrow.explain.drawing import DrawnPlan
from windrow.explain.periodic import periodic_chain
from windrow.explain.snapshot import asked_lines, explain_snapshot, isolation_line
from windrow.explain.text import ONLY_PLAN, explain_query
from windrow.handles import Queries, Query, Table, Tables, explained_stream, handle
from windrow.optimizer.pipeline import OptimizedPlan
from windrow.result import Asked, Plan, Result
from windrow.schedulers.history import Isolation
from windrow.types import POINT_MAX, POINT_MIN, SqlType, moment_of, point_of, value_of
from windrow.windows.lateness import Lateness

log = logging.getLogger("windrow")


class Windrow:
    """An open state directory: streams, standing queries and their answers. `windrow.open` makes it."""

    def __init__(self, engine: Engine | ReadOnlyEngine, temporary: str | None = None):
        """`temporary`: a directory to remove with the engine, or on close."""
        self._engine = engine
        self._temporary = temporary
        if temporary:  # streams that run need it, also when nobody holds this object
            weakref.finalize(engine.running, shutil.rmtree, temporary, ignore_errors=True)
        self._closed = False
        self._frames = FrameLeases(FRAME_LEASE_S)
        self._texts: dict[str, list[Statement]] = {}
        self.queries = Queries(self._engine)
        self.tables = Tables(self._engine)

    @property
    def spark(self) -> Any:
        """The Spark session."""
        return self._engine.opened.spark

    @property
    def state_dir(self) -> Path:
        return self._engine.opened.state_dir

    @property
    def is_read_only(self) -> bool:
        return self._engine.is_read_only

    def _opened(self) -> Engine:
        if self._closed:
            raise StateError(
                f"the state directory {self.state_dir} is closed", remedy="Open it again: windrow.open(…)."
            )
        return self._engine

    # -- statements ----------------------------------------------------------------------------

    def sql(self, text: str) -> Result:
        """Execute one or more statements and return the result of the last one."""
        _check_text(text)
        statements = self._parsed(text)
        if not statements:
            raise ParseError("there is no statement", remedy="Give one, such as SHOW STREAMS.")
        results = [self.execute(statement, text) for statement in statements]
        return results[-1]

    def _parsed(self, text: str) -> list[Statement]:
        """The statements of a text. Those of a SELECT are remembered: questions are asked again and again."""
        known = self._texts.get(text)
        if known is None:
            known = parse(text)
            if len(known) == 1 and isinstance(known[0], Select):
                while len(self._texts) >= MOST_TEXTS:
                    self._texts.pop(next(iter(self._texts)), None)
                self._texts[text] = known
        return known

    def execute(self, statement: Statement, text: str | None = None) -> Result:
        """Execute a parsed statement. Errors show their place in `text`, from which it was parsed."""
        text = to_text(statement) if text is None else text
        try:
            return self._execute(statement, text)
        except WindrowError as error:
            if error.place is None:
                error.place = named_place(error.message, text, CQL())
            raise

    def _execute(self, statement: Statement, text: str) -> Result:
        engine = self._opened()
        if isinstance(statement, CreateStream):
            known = engine.manager.streams.get(statement.name.lower())
            before = None if known is None else known.definition
            stream, notes = engine.statements.create_stream(statement)
            if before is None:
                notes += punctuation_notes(stream.definition)
                return Result.messages(f"stream {statement.name}", *(NOTE + note for note in notes))
            changed = stream.definition is not before
            left = (
                "was changed: which columns may be missing, or whether bad files are skipped"
                if changed
                else "exists already and was not changed"
            )
            return Result.message(f"stream {statement.name} {left}")
        if isinstance(statement, CreateDerivedStream):
            _, is_new = engine.statements.create_derived(statement, text)
            return Result.message(f"stream {statement.name}{'' if is_new else ' exists already and was not changed'}")
        if isinstance(statement, CreateQuery):
            told, note = engine.statements.create_query(statement, text)
            more = [] if note is None else [NOTE + note]
            return Result.messages(f"query {statement.name}: {told}", *more)
        if isinstance(statement, AlterQuery):
            is_changed = engine.statements.alter_query(statement.name, statement.alteration)
            done, was = _ALTERED[statement.alteration]
            return Result.message(f"query {statement.name} is {done if is_changed else was}")
        if isinstance(statement, CreateTable):
            _, is_new = engine.table_statements.create(statement)
            return Result.message(f"table {statement.name}{'' if is_new else ' exists already and was not changed'}")
        if isinstance(statement, InsertRows | UpdateRows | DeleteRows | LoadRows):
            return Result.message(engine.table_statements.change(statement, text))
        if isinstance(statement, Select):
            return self._select(statement, text)
        if isinstance(statement, Drop):
            return self._drop(statement)
        if isinstance(statement, Show) and statement.name is not None:
            if statement.what == "lateness":
                return Result.lines("lateness", self._lateness(statement.name))
            text = show_create(engine.manager, engine.plans, engine.tables, statement.what, statement.name)
            return Result(pa.table({"statement": text.split("\n")}), is_text=True)
        if isinstance(statement, Show):
            return Result(views.show(engine, statement.what))
        if isinstance(statement, Describe):
            return Result(views.describe(engine, statement.name))
        if isinstance(statement, Explain):
            return Result.lines("plan", self._explain(statement, text))
        assert isinstance(statement, SetSetting)
        engine.statements.set(statement.name, statement.value)
        return Result.message(f"{statement.name} = {statement.value}")

    def _drop(self, statement: Drop) -> Result:
        kind = statement.kind.lower()
        statements = self._engine.statements
        drop = {
            "stream": statements.drop_stream,
            "query": statements.drop_query,
            "table": self._engine.table_statements.drop,
        }
        try:
            drop[kind](statement.name)
        except CatalogError as error:
            if statement.if_exists and error.message.startswith("there is no"):
                return Result.message(f"no {kind} {statement.name}")
            raise
        return Result.message(f"dropped {kind} {statement.name}")

    def _explain(self, statement: Explain, text: str) -> Plan:
        self._engine.refuse_live("EXPLAIN")
        if statement.name is not None:
            if statement.is_stream:
                return explained_stream(self._engine, statement.name, statement.analyze, statement.verbose)
            return handle(self._engine, statement.name).explain(statement.analyze, statement.verbose)
        inner, only = statement.statement, f"\n{ONLY_PLAN}" if statement.verbose else ""
        is_stream = isinstance(inner, CreateDerivedStream)
        if isinstance(inner, CreateDerivedStream):
            inner = self._engine.statements.query_of(inner, text)
        if isinstance(inner, Select):
            self._refuse_without_source(inner)
            if not self._engine.reads.reads_windows(inner.select):
                return Plan(self._engine.reads.explain_select(inner.select, text) + only)
            return self._explain_one_time(inner, text, statement.verbose)
        assert inner is not None
        plan = self._engine.statements.bind(inner, text)
        if isinstance(plan, OptimizedPlan):
            explicit = self._engine.settings.text("explicit_expiry") == "on"
            found = explain_plan(inner.name, plan, explicit, is_stream, statement.verbose)
            return Plan(found.text(), DrawnPlan(found))
        stream = self._engine.manager.stream(plan.scan.stream)
        drawn = DrawnPlan(periodic_chain(inner.name, plan, stream))
        return Plan(explain_query(inner.name, plan, stream, None, self._engine.settings) + only, drawn)

    def _explain_one_time(self, statement: Select, text: str, verbose: bool) -> Plan:
        """How a one-time query is answered; if nothing can answer it now, its plan as a standing query, and why."""
        explicit, only = self._engine.settings.text("explicit_expiry") == "on", f"\n{ONLY_PLAN}" if verbose else ""
        unanswered: WindrowError | None = None
        try:
            found = self._engine.reads.explained(statement.select, text)
            if not isinstance(found, Chosen):
                return Plan(explain_snapshot(*found) + only)
            isolation = Isolation(statement.isolation or self._engine.settings.text("isolation"))
            lines = [*asked_lines(found), isolation_line(found.read, isolation)]
            if not isinstance(found.read, DriverRead):
                return Plan("\n".join(lines) + only)
            would = explain_plan("query", found.read.optimized, explicit, verbose=verbose)
            return Plan("\n".join([*lines, would.text()]), DrawnPlan(would))
        except (UnsupportedError, SpanError) as error:
            unanswered = error
        try:
            inner = CreateQuery("query", statement.select)
            plan = self._engine.statements.bind(inner, text)
        except SparkEndedError:
            raise
        except WindrowError:
            raise unanswered from None
        if not isinstance(plan, OptimizedPlan):
            stream = self._engine.manager.stream(plan.scan.stream)
            drawn = DrawnPlan(periodic_chain(inner.name, plan, stream))
            return Plan(explain_query(inner.name, plan, stream, None, self._engine.settings) + only, drawn)
        would = explain_plan("query", plan, explicit, verbose=verbose)
        would = replace(would, more=(*would.more, f"Asked once: {unanswered.message}"))
        return Plan(would.text(), DrawnPlan(would))

    def _select(self, statement: Select, text: str) -> Result:
        """The answer to a one-time query."""
        self._refuse_without_source(statement)
        timeout_us = None if statement.timeout is None else statement.timeout.amount
        terms = Terms.of(self._engine.settings, statement.isolation, statement.priority, timeout_us)
        found = self._engine.reads.ask(statement.select, text, terms)
        asked = Asked(
            found.answered_from, found.isolation, found.complete_from, found.stale_by, found.rescans, found.aborts
        )
        return Result(found.rows, window=found.window, asked=asked)

    def _refuse_without_source(self, statement: Select) -> None:
        """Raise if a one-time query has no FROM."""
        if not named_tables(statement.select):
            raise UnsupportedError(
                "a one-time query reads a window of a stream, a query, a table, answers('query'), changes('query') or "
                "dead_letters('stream')",
                remedy="For example SELECT COUNT(*) AS n FROM packets [RANGE 10 MINUTES]; SHOW STREAMS lists them.",
            )

    def frame(self, text: str) -> Any:
        """The answer to one SELECT as a lazy Spark DataFrame over one version of what it reads.

        The version stays until `release(frame)` or `close` is called, or for ten minutes after the frame is gone:
        frames that were made of it may still be used.
        """
        _check_text(text)
        statements = parse(text)
        if len(statements) != 1 or not isinstance(statements[0], Select):
            raise ParseError("frame takes one SELECT", remedy="sql(…) executes other statements.")
        self._opened()
        self._refuse_without_source(statements[0])
        _refuse_terms(statements[0])
        found = self._engine.reads.frame(statements[0].select, text)
        self._frames.hold(found.frame, found.release)
        return found.frame

    def release(self, frame: Any) -> None:
        """Let go the version that a frame of `frame` reads; its files may then be deleted."""
        self._frames.give_back(frame)

    # -- streams and queries from Python -------------------------------------------------------

    def stream(self, name: str, df: Any, *, timestamp: str, slack: str | int | None = None) -> None:
        """Create a stream from a Spark streaming DataFrame. After a restart, call this again with the same name."""
        engine = self._opened()
        columns = tuple(ColumnDef(n, t) for n, t in frame_columns(df))
        measure = None
        if slack is not None:
            measure = (
                Measure(slack, Unit.VALUES) if isinstance(slack, int) else Measure(parse_interval(slack), Unit.TIME)
            )
        policy = Punctuate(Policy.SLACK if measure else Policy.ORDERED, slack=measure)
        statement = CreateStream(name, columns, "dataframe", timestamp_by=timestamp, punctuate=(policy,))
        engine.statements.attach(statement, df)

    def query(self, name: str, select: str, *, sink: Any = None, replace: bool = False) -> Query:
        """Register a standing query. `sink` is an object with write(batch); pass it again after a restart.

        `replace`: if there is a query of this name, the new one takes its place, as with CREATE OR REPLACE QUERY. It
        keeps its subscribers, and its sink unless another one is given.
        """
        _check_text(name)
        _check_text(select)
        head = f"CREATE {'OR REPLACE ' if replace else ''}QUERY `{name.replace('`', '``')}` AS "
        text = head + select
        try:
            statements = parse(text)
            if len(statements) != 1 or not isinstance(statements[0], CreateQuery):
                raise ParseError("query takes one SELECT")
            self._opened().statements.create_query(statements[0], text, sink)
            return handle(self._engine, statements[0].name)
        except WindrowError as error:
            if error.place is not None and error.place.text == text:
                error.place = error.place.without_head(head)
            raise

    def table(self, name: str) -> Table:
        """The handle on a table, to read it and to change its rows."""
        _check_text(name)
        return Table(self._opened(), self._opened().tables.table(name).name)

    def _lateness(self, name: str) -> str:
        stream = self._engine.manager.stream(name)
        charts = [
            lateness_chart(
                stream.name, p.column, p.type, stream.lateness.get(p.column, Lateness()), stream.last_batch + 1
            )
            for p in stream.definition.punctuated
        ]
        return "\n\n".join(charts) or f"stream '{stream.name}' has no window attribute that is punctuated"

    def feed(self, stream: str, rows: Any) -> int:
        """Append rows to a memory stream. Return how many, once they are on disk."""
        return self._opened().inputs.feed(stream, rows)

    def punctuate(self, stream: str, upto: datetime | str | int, column: str | None = None, **pattern: Any) -> None:
        """Promise that no more tuples come with `column` (default: the stream's window attribute) below `upto`.

        `upto` is a datetime (a naive one is UTC) or its ISO text, or an integer for an integer attribute. With
        `pattern` (column=value) the promise covers only tuples that have these values, and closes only their groups.
        """
        definition = self._opened().manager.stream(stream).definition
        name = column or definition.attribute
        if name is None:
            raise CatalogError(f"stream '{stream}' has no window attribute")
        attribute = next((p for p in definition.punctuated if p.column.lower() == name.lower()), None)
        if attribute is None:
            raise CatalogError(f"no PUNCTUATE covers '{name}'", remedy="Create the stream with one.")
        point = _promised(upto, attribute.column, attribute.type)
        if not pattern:
            self._engine.time.punctuate(stream, {attribute.column: point})
            return
        below = Condition(attribute.column, "<", (value_of(point, attribute.type),))
        self._engine.time.punctuate_pattern(stream, (*_conditions(definition, pattern), below))

    def deposit(self, stream: str, rows: Any, partitions: int | None = None) -> None:
        """Process rows as one micro-batch, without Structured Streaming. For tests."""
        self._opened().inputs.deposit(stream, rows, partitions)

    def end_input(self, stream: str) -> None:
        """End a stream's input. All panes that hold a tuple close."""
        engine = self._opened()
        engine.inputs.refuse_unread(stream)
        engine.time.end_input(stream)

    # -- one-time queries that run -------------------------------------------------------------

    def cancel(self, number: int | None = None) -> int:
        """Cancel a one-time query of another thread by its id in SHOW SNAPSHOTS; without an id, all that run. Whoever
        waits for its answer gets QueryCancelledError. Return how many were cancelled."""
        engine = self._opened()
        engine.refuse_live("cancel")
        return engine.coordinator.cancel(number)

    def cancel_of(self, thread: int) -> int:
        """Cancel the one-time queries that a thread has asked and waits for. Return how many there were."""
        return 0 if self._closed or self.is_read_only else self._engine.coordinator.cancel(thread=thread)

    @contextmanager
    def record_history(self, path: str | Path) -> Iterator[None]:
        """Within the block, write the history of all one-time queries to a file: what they read, and which updates came
        meanwhile. `windrow check-history` reads it. It begins when no one-time query runs."""
        engine = self._opened()
        engine.refuse_live("a history")
        with history_file(engine.coordinator, Path(path)):
            yield

    # -- running -------------------------------------------------------------------------------

    def run_available(self, close: bool = False) -> None:
        """Process everything available now, then return. `close` also ends the input, which closes all panes."""
        self._opened().running.run_available(close)

    def start(self) -> None:
        """Run in the background until `stop`."""
        self._opened().running.start()

    @property
    def is_running(self) -> bool:
        """Whether the streams run in the background, or wait to be restarted after an error. False before `start`,
        after `stop`, and once the Spark JVM has ended. SHOW STREAMS has the state of each stream.
        Read-only: whether a process has the state directory open."""
        return self._engine.running.is_running

    def stop(self) -> None:
        """Stop the streams. Raises SparkEndedError if the Spark JVM ended while they ran."""
        self._engine.running.stop()

    def close(self) -> None:
        """Stop and release the state directory, and what frames read. A temporary one is removed."""
        self._frames.close()
        self._engine.close()
        self._closed = True
        if self._temporary:
            for stream, query in self._engine.manager.queries().values():
                if any(item.query is query and item.block is not None for item in stream.unpublished):
                    log.error("answers of query '%s' were never taken, and go with the temporary state", query.name)
                sweep(query)
            for plan in self._engine.plans.all():
                sweep(plan)
            shutil.rmtree(self._temporary, ignore_errors=True)

    def metrics(self) -> dict[str, Any]:
        """Counters of every stream."""
        return {name: views.stream_metrics(self._engine, s) for name, s in self._engine.manager.streams.items()}

    def _state(self) -> str:
        if self._closed:
            return "closed"
        state = "running" if self.is_running else "stopped"
        return f"read-only, {'a' if self.is_running else 'no'} process runs it" if self.is_read_only else state

    def __repr__(self) -> str:
        return f"<windrow {self.state_dir}: {self._state()}>"

    def _repr_html_(self) -> str:
        title = title_part("Windrow", str(self.state_dir), self._state())
        if self._closed:
            return whole(title)
        parts = []
        for what in ("streams", "tables", "queries") if len(self.tables) else ("streams", "queries"):
            table = views.show(self._engine, what)
            parts.append(title_part(what) + table_part(table) if table.num_rows else note_part(f"no {what} yet"))
        return whole(title, *parts)

    def __enter__(self) -> Windrow:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


_ALTERED = {Alteration.PAUSE: ("paused", "paused already"), Alteration.RESUME: ("resumed", "not paused")}
"""What is said of an altered query, and of one that was so before."""


MOST_TEXTS = 256
"""The most questions whose statements are remembered."""

FRAME_LEASE_S = 600.0
"""How long the version of a DataFrame stays after the DataFrame is gone."""


def _refuse_terms(statement: Select) -> None:
    """Raise for clauses that say how a question is answered: a frame is of one version, and evaluated by its user."""
    given = {"ISOLATION": statement.isolation, "PRIORITY": statement.priority, "TIMEOUT": statement.timeout}
    named = [name for name, value in given.items() if value is not None]
    if named:
        raise UnsupportedError(
            f"a frame has no {named[0]}: it shows the version at its start, and Spark evaluates it when it is used",
            remedy=f"Leave {named[0]} out, or use sql(…).",
        )


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise ParseError(f"this takes text, not {type(text).__name__}", remedy="Give it as a str.")


def _promised(upto: object, column: str, kind: SqlType) -> int:
    """The point below which a punctuation promises no more tuples."""
    try:
        value = moment_of(upto) if isinstance(upto, str) else upto
        fits = isinstance(value, datetime) if kind.is_timestamp else isinstance(value, Integral)
        if fits and not isinstance(value, bool) and value == value:  # not pandas' NaT
            point = point_of(value, kind)  # type: ignore[arg-type]
            if POINT_MIN <= point <= POINT_MAX:
                return point
    except (ValueError, OverflowError):
        pass
    takes = "a datetime, or its text such as '2026-03-01 12:00:00'" if kind.is_timestamp else "an integer within ±10^18"
    raise BindError(f"{upto!r} is no point of '{column}', which is {kind}", remedy=f"Give {takes}.")


def _conditions(stream: StreamDef, values: Mapping[str, Any]) -> list[Condition]:
    try:
        return [equals(name, value, dict(stream.columns)) for name, value in values.items()]
    except BadPatternError as error:
        columns = ", ".join(f"{name} {kind}" for name, kind in stream.columns)
        raise BindError(str(error), remedy=f"The columns of '{stream.name}': {columns}.") from None
