"""The oracle: the same statements and the same input as the engine, evaluated by definition.

It is naive on purpose and shares nothing with the engine below `cql/`: it keeps the whole history of every
stream, replays admission in plain Python (`admission`), enumerates windows by their definition
(`extents`), and asks Spark SQL for all windows of a query in one statement over the full history
(`spark_sql`). Cost is no concern; plainness is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

from windrow.clock import Clock, SystemClock
from windrow.cql import parse
from windrow.cql.dialect import window_of
from windrow.cql.statements import CreateQuery, CreateStream, Drop, SetSetting, Statement
from windrow.cql.window_clause import WindowClause, WindowKind
from windrow.errors import CatalogError, UnsupportedError
from windrow.oracle import spark_sql
from windrow.oracle.admission import (
    Admitted,
    Batch,
    DeadLetter,
    End,
    Event,
    Punctuation,
    admit,
    attributes_of,
    column_named,
    types_of,
)
from windrow.oracle.extents import Extent, closed, extents_of, first_edge_above, with_empty
from windrow.oracle.values import sort_key
from windrow.settings import Settings
from windrow.types import EPOCH, SqlType, point_of

_INTEGER_TYPES = {"byte", "tinyint", "short", "smallint", "integer", "int", "long", "bigint"}


@dataclass(frozen=True)
class Answers:
    """All answers of a query so far: `window_start`, `window_end`, then the select list, in answer order."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


@dataclass
class _Stream:
    statement: CreateStream
    history: list[Event] = field(default_factory=list)


@dataclass(frozen=True)
class _Window:
    column: str
    range: int
    slide: int
    origin: int


@dataclass
class _Query:
    statement: CreateQuery
    stream: str
    window: _Window
    since: int | None
    closed_by: int | None


class Oracle:
    """Takes a Spark session (any object with `sql` and `createDataFrame`), ANSI mode off, time zone UTC."""

    def __init__(self, spark: Any, clock: Clock | None = None):
        self._spark = spark
        self._clock: Clock = clock or SystemClock()
        self._settings = Settings()
        self._streams: dict[str, _Stream] = {}
        self._queries: dict[str, _Query] = {}

    def sql(self, text: str) -> None:
        """Run CREATE STREAM, CREATE QUERY, DROP and SET; others change no answer and are refused."""
        for statement in parse(text):
            self._run(statement)

    def _run(self, statement: Statement) -> None:
        if isinstance(statement, CreateStream):
            self._streams[statement.name.lower()] = _Stream(statement)
        elif isinstance(statement, CreateQuery):
            self._create_query(statement)
        elif isinstance(statement, Drop):
            held = self._queries if statement.kind.upper() == "QUERY" else self._streams
            held.pop(statement.name.lower(), None)
        elif isinstance(statement, SetSetting):
            self._settings = self._settings.with_text(statement.name, statement.value)
        else:
            raise UnsupportedError(f"the oracle does not run {type(statement).__name__}")

    def _create_query(self, statement: CreateQuery) -> None:
        table = spark_sql.table_of(statement.select)
        stream = self._stream(table.name)
        clause = window_of(table)
        if clause is None:
            raise UnsupportedError("the oracle evaluates windowed queries")
        window = _window(clause, stream.statement)
        state = admit(stream.statement, stream.history)
        points = _points(state, window.column, stream.statement)
        since = first_edge_above(max(points), window.range, window.slide, window.origin) if points else None
        closed_by = state.frontiers[window.column]
        self._queries[statement.name.lower()] = _Query(statement, table.name, window, since, closed_by)

    def begin(self, query: str, since: int | None) -> None:
        """Say from which point of the window attribute on a query counts tuples; None: from the first.

        A query that was added while the stream ran begins at a cut above the greatest tuple by then. Which
        cut that is depends on what it shares, and the engine says it; by default it is the query's next edge.
        """
        self._query(query).since = since

    def deposit(self, stream: str, rows: Sequence[Mapping[str, Any] | Sequence[Any]]) -> None:
        """One micro-batch."""
        limit = self._settings["max_future"]
        batch = Batch(list(rows), self._clock.now_us(), None if limit == "off" else int(limit))
        self._stream(stream).history.append(batch)

    def punctuate(self, stream: str, upto: datetime | int, column: str | None = None) -> None:
        """A punctuation by hand, on the stream's default attribute unless another is named."""
        statement = self._stream(stream).statement
        name = column or statement.timestamp_by
        if name is None:
            raise UnsupportedError("the stream has no TIMESTAMP BY column")
        name = column_named(statement, name)
        point = point_of(upto, types_of(statement)[name])
        self._stream(stream).history.append(Punctuation(name, point))

    def end_input(self, stream: str) -> None:
        self._stream(stream).history.append(End())

    def dead_letters(self, stream: str) -> list[DeadLetter]:
        held = self._stream(stream)
        return admit(held.statement, held.history).dead

    def answers(self, query: str) -> Answers:
        """Every answer of the query at this instant."""
        held = self._query(query)
        stream = self._stream(held.stream).statement
        state = admit(stream, self._stream(held.stream).history)
        types = types_of(stream)
        parts = spark_sql.take_apart(held.statement.select, {name.lower() for name in types})
        extents = self._extents(held, stream, state, ungrouped=parts.aggregated and not parts.grouped)
        columns = ("window_start", "window_end", *parts.names)
        if not extents:
            return Answers(columns, [])
        self._view(spark_sql.ROWS, _rows_table(state, held, types))
        self._view(spark_sql.EXTENTS, _extents_table(extents))
        statement = spark_sql.spark_statement(parts, lambda texts: self._are_integer(texts, parts.table_alias))
        found = self._spark.sql(statement).toArrow().to_pydict()
        attribute = types[held.window.column]
        for edge in (spark_sql.LO, spark_sql.HI):
            found[edge] = [_value_at(point, attribute) for point in found[edge]]
        rows = list(zip(*found.values(), strict=True))
        return Answers(columns, rows if parts.numbered else sorted(rows, key=_window_order))

    def _extents(self, held: _Query, stream: CreateStream, state: Admitted, ungrouped: bool) -> list[Extent]:
        """The extents to answer now: not those that had closed before the query was there."""
        window = held.window
        points = [t for t in _points(state, window.column, stream) if held.since is None or t >= held.since]
        frontier = state.frontiers[window.column]
        extents = extents_of(points, window.range, window.slide, window.origin)
        if ungrouped and self._settings.text("empty_windows") == "emit":
            extents = with_empty(extents, window.slide, frontier, state.ended)
        extents = [one for one in extents if held.closed_by is None or one[1] > held.closed_by]
        return closed(extents, frontier, state.ended)

    def _are_integer(self, texts: list[str], alias: str) -> list[bool]:
        listed = ", ".join(f"{text} AS `__s{i}`" for i, text in enumerate(texts))
        schema = self._spark.sql(f"SELECT {listed} FROM {spark_sql.ROWS} AS `{alias}`").schema
        return [one.dataType.typeName() in _INTEGER_TYPES for one in schema.fields]

    def _view(self, name: str, table: pa.Table) -> None:
        self._spark.createDataFrame(table).createOrReplaceTempView(name)

    def _stream(self, name: str) -> _Stream:
        if name.lower() not in self._streams:
            raise CatalogError(f"there is no stream '{name}'")
        return self._streams[name.lower()]

    def _query(self, name: str) -> _Query:
        if name.lower() not in self._queries:
            raise CatalogError(f"there is no query '{name}'")
        return self._queries[name.lower()]


def _window(clause: WindowClause, stream: CreateStream) -> _Window:
    """The window of a periodic query; anything else is not the oracle's yet."""
    named = clause.wattr or stream.timestamp_by
    plain = clause.offset is None and clause.rattr is None and clause.sattr is None and not clause.pattr
    if clause.kind is not WindowKind.RANGE or clause.range is None or clause.slide is None or not plain or not named:
        raise UnsupportedError("the oracle evaluates [RANGE r SLIDE s]")
    column = column_named(stream, named)
    if column not in attributes_of(stream):
        raise UnsupportedError(f"no PUNCTUATE covers '{column}'")
    return _Window(column, clause.range.amount, clause.slide.amount, _origin(clause, types_of(stream)[column]))


def _origin(clause: WindowClause, attribute: SqlType) -> int:
    if clause.origin is None:
        return 0
    if isinstance(clause.origin, int):
        return clause.origin
    return point_of(datetime.fromisoformat(clause.origin), attribute)


def _points(state: Admitted, column: str, stream: CreateStream) -> list[int]:
    kind = types_of(stream)[column]
    return [point_of(row[column], kind) for row in state.rows]


def _rows_table(state: Admitted, held: _Query, types: Mapping[str, SqlType]) -> pa.Table:
    """The admitted rows that count for the query, with the window attribute's point beside them."""
    column, kind = held.window.column, types[held.window.column]
    pairs = [(point_of(row[column], kind), row) for row in state.rows]
    kept = [(t, row) for t, row in pairs if held.since is None or t >= held.since]
    arrays = {name: pa.array([row[name] for _, row in kept], one.arrow) for name, one in types.items()}
    return pa.table({**arrays, spark_sql.POINT: pa.array([t for t, _ in kept], pa.int64())})


def _extents_table(extents: list[Extent]) -> pa.Table:
    return pa.table(
        {
            spark_sql.LO: pa.array([lo for lo, _ in extents], pa.int64()),
            spark_sql.HI: pa.array([hi for _, hi in extents], pa.int64()),
        }
    )


def _window_order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (row[1], sort_key(row[2:]))


def _value_at(point: int, attribute: SqlType) -> Any:
    if not attribute.is_timestamp:
        return point
    moment = EPOCH + timedelta(microseconds=point)
    return moment if attribute.name == "TIMESTAMP" else moment.astimezone(timezone.utc).replace(tzinfo=None)
