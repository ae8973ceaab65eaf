"""The oracle: evaluates the statements and the input of the engine by definition.

It is naive on purpose and shares nothing with the engine below `cql/`. It keeps the whole history of every stream,
replays admission in plain Python (`admission`), enumerates windows by their definition (`extents`) and the instants at
which each is answered (`looks`), and evaluates all windows of a query in one Spark SQL statement over the full history
(`spark_sql`). Continuous queries are evaluated tick by tick (`continuous`). It prefers plainness to speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

from windrow.clock import Clock, SystemClock
from windrow.cql import parse
from windrow.cql.dialect import window_of
from windrow.cql.statements import (
    CreateQuery,
    CreateStream,
    CreateTable,
    DeleteRows,
    Drop,
    InsertRows,
    Late,
    Select,
    SetSetting,
    Statement,
    UpdateRows,
)
from windrow.errors import CatalogError, UnsupportedError
from windrow.oracle import holistic, spark_sql
from windrow.oracle.admission import (
    Admitted,
    Batch,
    End,
    Event,
    OracleDeadLetter,
    Punctuation,
    Row,
    admit,
    attributes_of,
    column_named,
    types_of,
)
from windrow.oracle.bounded import bounded_parts
from windrow.oracle.continuous import ContinuousQueries, DueRange, StandingPlan, TableHistory, is_continuous
from windrow.oracle.looks import Counted, Look, Looks, OracleQuery, axis_frontier, counted, is_open
from windrow.oracle.patterns import pattern_of
from windrow.oracle.revisions import LookResult, Revised, revisions_of
from windrow.oracle.shapes import window_shape
from windrow.oracle.spark_sql import Parts
from windrow.oracle.values import sort_key
from windrow.settings import SPECS, Settings
from windrow.types import EPOCH, SqlType, point_of


@dataclass(frozen=True)
class Answers:
    """All answers of a query so far: `window_start`, `window_end`, then the select list, in answer order."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


@dataclass
class _Stream:
    statement: CreateStream
    history: list[Event] = field(default_factory=list)


@dataclass
class _Query:
    """`dropped` is the event at which the query was dropped."""

    statement: CreateQuery
    stream: str
    asker: OracleQuery
    parts: Parts
    dropped: int | None = None


class Oracle:
    """`spark` is a session (any object with `sql` and `createDataFrame`) with ANSI mode off and time zone UTC."""

    def __init__(self, spark: Any, clock: Clock | None = None):
        self._spark = spark
        self._clock: Clock = clock or SystemClock()
        self._settings = Settings()
        self._streams: dict[str, _Stream] = {}
        self._queries: dict[str, _Query] = {}
        self._dropped: list[_Query] = []
        self._log: list[str] = []
        self._tables: dict[str, TableHistory] = {}
        self._continuous = ContinuousQueries(
            spark,
            self._log,
            lambda name: self._stream(name).statement,
            lambda name: self._replay(name),
            self._tables,
        )

    def sql(self, text: str) -> None:
        """Run CREATE, INSERT, UPDATE, DELETE, DROP and SET. Others change no answer and are refused."""
        for statement in parse(text):
            self._run(statement)

    def _run(self, statement: Statement) -> None:
        if isinstance(statement, CreateStream):
            self._streams[statement.name.lower()] = _Stream(statement)
        elif isinstance(statement, CreateQuery):
            self._create_query(statement)  # OR REPLACE: a continuous query begins anew where it was (see `begin`)
        elif isinstance(statement, CreateTable):
            self._tables[statement.name.lower()] = self._continuous.create_table(statement)
        elif isinstance(statement, InsertRows | UpdateRows | DeleteRows):
            self._tables[statement.table.lower()].change(self._spark, statement, len(self._log))
        elif isinstance(statement, Drop) and statement.kind.upper() == "TABLE":
            self._tables.pop(statement.name.lower(), None)
        elif isinstance(statement, Drop) and statement.kind.upper() == "QUERY":
            self._drop_query(statement.name.lower())
        elif isinstance(statement, Drop):
            self._streams.pop(statement.name.lower(), None)
        elif isinstance(statement, SetSetting):
            self._settings = self._settings.with_text(statement.name, statement.value)
        else:
            raise UnsupportedError(f"the oracle does not run {type(statement).__name__}")

    def _create_query(self, statement: CreateQuery) -> None:
        if is_continuous(statement.select):
            self._continuous.create(statement)
            return
        table = spark_sql.table_of(statement.select)
        stream = self._stream(table.name)
        clause = window_of(table)
        if clause is None:
            raise UnsupportedError("the oracle evaluates windowed queries")
        window = window_shape(clause, stream.statement)
        types = types_of(stream.statement)
        parts = spark_sql.take_apart(statement.select, {name.lower() for name in types}, bool(window.partition))
        state = self._replay(table.name)
        plain = OracleQuery(window, None, None, len(stream.history))
        points = [one.point for one in counted(plain, state, types)]
        since = window.shape.first_edge_above(max(points)) if points else None
        if window.partition:
            since = len(state.arrivals) + 1 if points else None
        attributes = frozenset(attributes_of(stream.statement))
        asker = replace(
            plain,
            since=since,
            closed_by=None if window.partition else axis_frontier(window, state),
            group_columns=frozenset() if parts.limit is not None else _named(types, parts.plain_keys) - attributes,
        )
        self._queries[statement.name.lower()] = _Query(statement, table.name, asker, parts)

    def _drop_query(self, name: str) -> None:
        self._continuous.drop(name)
        held = self._queries.pop(name, None)
        if held is not None:
            held.dropped = len(self._stream(held.stream).history)
            self._dropped.append(held)

    def begin(self, query: str, since: int | None | Mapping[str, int | None]) -> None:
        """Set the point of its axis from which a query counts tuples; None: from the first.

        A query that is added to a running stream begins at a cut above the greatest tuple. Which cut depends on what
        the query shares, so the test passes the engine's. The default is the query's next edge. On row numbers the
        point is a row number, and a partitioned window counts its ranks from there. A continuous query may begin at
        another point of each stream.
        """
        if query in self._continuous:
            self._continuous.begin(query, since)
            return
        if isinstance(since, Mapping):
            raise UnsupportedError("a query over one stream begins at one point")
        held = self._query(query)
        held.asker = replace(held.asker, since=since)

    def deposit(self, stream: str, rows: Sequence[Mapping[str, Any] | Sequence[Any]]) -> None:
        """One micro-batch."""
        limit = self._settings["max_future"]
        generous = "slack_meaning" in SPECS and self._settings.text("slack_meaning") == "generous"
        batch = Batch(list(rows), self._clock.now_us(), None if limit == "off" else int(limit), generous)
        self._happened(stream, batch)

    def punctuate(self, stream: str, upto: datetime | int, column: str | None = None, **pattern: Any) -> None:
        """A punctuation by hand, on the stream's default attribute unless `column` names another.

        With `pattern` (column=value) the promise covers only tuples that have these values.
        """
        statement = self._stream(stream).statement
        name = column or statement.timestamp_by
        if name is None:
            raise UnsupportedError("the stream has no TIMESTAMP BY column")
        name, types = column_named(statement, name), types_of(statement)
        promise = Punctuation(name, point_of(upto, types[name]), pattern_of(pattern, types))
        self._happened(stream, promise)

    def end_input(self, stream: str) -> None:
        self._happened(stream, End())

    def _happened(self, stream: str, event: Event) -> None:
        self._stream(stream).history.append(event)
        self._log.append(stream.lower())

    def dead_letters(self, stream: str) -> list[OracleDeadLetter]:
        """Dead letters, and tuples that a table could not take: below the frontier, where they are applied."""
        state, found = self._replay(stream), list[OracleDeadLetter]()
        for table in self._tables.values():
            if (table.statement.stream or "").lower() == stream.lower():
                axis = column_named(self._stream(stream).statement, self._stream(stream).statement.timestamp_by or "")
                frontier = state.frontiers.get(axis)
                refused = self._continuous.fed(table).refused
                found += [one for point, one in refused if state.ended or (frontier is not None and point < frontier)]
        return [*state.dead, *found]

    def frontiers(self, stream: str) -> dict[str, int | None]:
        """The present frontier of each window attribute; None: nothing is promised yet."""
        return self._replay(stream).frontiers

    def answers(self, query: str) -> Answers:
        """Every answer of the query so far, in the order of delivery.

        Under LATE REVISE these are the net answers, in window order.
        """
        if query in self._continuous:
            return self._answers_of_plan(query)
        held = self._query(query)
        revising = self._stream(held.stream).statement.late is Late.REVISE
        looks = self._looks(held)
        last = {(look.extent, look.part): look for look in looks.all()}
        together: dict[Any, list[Look]] = {}
        for (extent, part), look in last.items():
            if not look.gone:
                apart = part if held.asker.window.partition else None
                together.setdefault((extent, apart, None if revising else look.first), []).append(look)
        seen = self._see(held, looks.tuples, list(together.values()))
        seen.sort(key=lambda one: (0 if revising else one.look.first, one.look.extent.end, one.look.part))
        rows = [(*one.bounds, *row) for one in seen for row in one.rows]
        return Answers(("window_start", "window_end", *held.parts.names), rows)

    def revisions(self, query: str) -> list[Revised]:
        """All that was delivered, in order: (op, revision, window_start, window_end, the select list).

        The first answer of a window has '+' and revision 0. Each correction takes rows back ('-') and gives new ones
        ('+'), with the window's next revision number. A correction that changes no row is not delivered.
        """
        held = self._query(query)
        looks = self._looks(held)
        every = looks.all()
        seen = self._see(held, looks.tuples, [[look] for look in every if not look.gone])
        gone = [LookResult(look, self._bounds(held, look), []) for look in every if look.gone]
        return revisions_of([*seen, *gone])

    def plan(self, query: str) -> StandingPlan:
        """What a continuous query is: its streams, the type of their window attributes, its ticks."""
        return self._continuous.plan(query)

    def ticks(self, query: str) -> list[int]:
        """The ticks of a continuous query that are due and at which its relation may change, with the first and the
        last."""
        return self._continuous.ticks(query, self._most)

    def due(self, query: str) -> DueRange | None:
        """The first and the last tick that a continuous query has processed; None: none yet."""
        return self._continuous.due(query, self._most)

    def relation(self, query: str, tick: int) -> list[tuple[Any, ...]]:
        """R(b) of a continuous query: its rows at a tick, in order if it has ORDER BY.

        That of ISTREAM, DSTREAM and RSTREAM, and of a query with INTERNAL windows, is all that ever appeared.
        """
        return self.relations(query, [tick])[tick]

    def relations(self, query: str, ticks: Iterable[int]) -> dict[int, list[tuple[Any, ...]]]:
        """R(b) at each of the ticks, by one Spark SQL statement."""
        return self._continuous.relations(query, ticks, self._most)

    def ask(self, text: str, instant: int | None = None) -> tuple[Any, list[tuple[Any, ...]]]:
        """The rows of a SELECT over windows and tables that is asked once, in order if it has ORDER BY, and the instant
        of its windows: the given one, or the last one that is complete; None: all windows go by arrival."""
        (statement,) = parse(text)
        assert isinstance(statement, Select)
        at, rows = self._continuous.ask(statement.select, instant, self._most)
        return at, rows

    def _answers_of_plan(self, query: str) -> Answers:
        plan = self._continuous.plan(query)
        if not plan.periodic:
            raise UnsupportedError(f"query '{query}' has no SLIDE: it has ticks and relations")
        found = self._continuous.answers(query, self._most)
        ends = [(None if start is None else _value_at(start, plan.attribute), end, rows) for start, end, rows in found]
        listed = [(start, _value_at(end, plan.attribute), *row) for start, end, rows in ends for row in rows]
        return Answers(("window_start", "window_end"), listed)

    @property
    def _most(self) -> int:
        return self._settings.integer("max_value_bytes")

    def _looks(self, held: _Query) -> Looks:
        emit = held.parts.ungrouped and self._settings.text("empty_windows") == "emit"
        types = types_of(self._stream(held.stream).statement)
        return Looks(replace(held.asker, emit_empty=emit), self._replay(held.stream), types)

    def _see(self, held: _Query, tuples: list[Counted], looks: list[list[Look]]) -> list[LookResult]:
        """The rows of the query by one Spark SQL statement. Each inner list of looks makes one answer."""
        if not looks:
            return []
        types = types_of(self._stream(held.stream).statement)
        self._view(spark_sql.ROWS, _rows_table(tuples, types))
        self._view(spark_sql.LOOKS, _looks_table(looks))
        parts = bounded_parts(held.parts, self._settings.integer("max_value_bytes"))
        statement = spark_sql.spark_statement(
            parts, lambda texts: self._type_names(texts, parts.table_alias), held.asker.window.partition
        )
        found = self._spark.sql(statement).toArrow().to_pydict()
        rows: dict[int, list[tuple[Any, ...]]] = {}
        finish = [holistic.finisher(item, held.asker.window.shape) for item in parts.items]
        for number, *row in zip(*found.values(), strict=True):
            done = (value if f is None else f(value) for f, value in zip(finish, row, strict=False))
            rows.setdefault(number, []).append(tuple(done))
        if not parts.numbered:
            rows = {number: sorted(unsorted, key=sort_key) for number, unsorted in rows.items()}
        return [LookResult(one[0], self._bounds(held, one[0]), rows.get(i, [])) for i, one in enumerate(looks)]

    def _bounds(self, held: _Query, look: Look) -> tuple[Any, Any]:
        start, end, column = look.extent.start, look.extent.end, held.asker.window.column
        if column is None:
            return start, end
        kind = types_of(self._stream(held.stream).statement)[column]
        return (None if start is None else _value_at(start, kind)), _value_at(end, kind)

    def _replay(self, stream: str) -> Admitted:
        """Replay the stream's history. A late tuple under generous slack counts if a query of that time holds it."""
        held = self._stream(stream)
        name, types = stream.lower(), types_of(held.statement)
        queries = [q for q in (*self._queries.values(), *self._dropped) if q.stream.lower() == name]

        def is_held(row: Row, event: int, state: Admitted) -> bool:
            there = [q for q in queries if q.asker.created <= event and (q.dropped is None or event < q.dropped)]
            return any(is_open(q.asker, row, state, types) for q in there)

        return admit(held.statement, held.history, is_held)

    def _type_names(self, texts: list[str], alias: str) -> list[str]:
        listed = ", ".join(f"{text} AS `__s{i}`" for i, text in enumerate(texts))
        schema = self._spark.sql(f"SELECT {listed} FROM {spark_sql.ROWS} AS `{alias}`").schema
        return [one.dataType.typeName() for one in schema.fields]

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


def _named(types: Mapping[str, SqlType], lower: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in types if name.lower() in lower)


def _rows_table(tuples: list[Counted], types: Mapping[str, SqlType]) -> pa.Table:
    """The tuples that count for the query, with the columns on which they are joined with its looks."""
    arrays = {name: pa.array([one.arrival.row[name] for one in tuples], kind.arrow) for name, kind in types.items()}
    return pa.table(
        {
            **arrays,
            spark_sql.POINT: pa.array([one.point for one in tuples], pa.int64()),
            spark_sql.PART: pa.array([one.part for one in tuples], pa.int64()),
            spark_sql.ARRIVED: pa.array([one.arrival.event for one in tuples], pa.int64()),
            spark_sql.LASTING: pa.array([one.arrival.lasting for one in tuples], pa.bool_()),
        }
    )


def _looks_table(looks: list[list[Look]]) -> pa.Table:
    listed = [(i, look) for i, together in enumerate(looks) for look in together]
    columns = {
        spark_sql.ID: [i for i, _ in listed],
        spark_sql.LO: [look.extent.lo for _, look in listed],
        spark_sql.HI: [look.extent.hi for _, look in listed],
        spark_sql.OF_PART: [look.part for _, look in listed],
        spark_sql.FIRST: [look.first for _, look in listed],
        spark_sql.AT: [look.at for _, look in listed],
    }
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def _value_at(point: int, attribute: SqlType) -> Any:
    if not attribute.is_timestamp:
        return point
    moment = EPOCH + timedelta(microseconds=point)
    return moment if attribute.name == "TIMESTAMP" else moment.astimezone(timezone.utc).replace(tzinfo=None)
