"""Evaluates a plan over the history of its streams: its relation at any ticks, what it streamed, its answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from windrow.cql.statements import CreateStream
from windrow.oracle.admission import Row, column_named, types_of
from windrow.oracle.bounded import bounded
from windrow.oracle.continuous.due import INFINITE, DueRange
from windrow.oracle.continuous.plan import StandingPlan, WindowMeaning
from windrow.oracle.continuous.reading import (
    FromItem,
    Scope,
    all_sources,
    reports_all,
    selects_of,
    sources_of,
    windows_on_streams,
)
from windrow.oracle.continuous.tables import EffectiveVersion
from windrow.oracle.continuous.text import AT, FROM, ORDINAL, RANK, TICK, TICKS, TO, TRACE, Writer
from windrow.oracle.revisions import without
from windrow.oracle.shapes import axis_of
from windrow.oracle.values import sort_key
from windrow.types import POINT_MAX, POINT_MIN, point_of

Answer = tuple[Any, ...]


@dataclass(frozen=True)
class StreamHistory:
    """The tuples of a stream that count for a plan, in the order of arrival; those below `since` do not."""

    statement: CreateStream
    rows: Sequence[Row]
    since: int | None = None

    def pointed(self, column: str) -> list[tuple[int, int, Row]]:
        """(number, point, tuple) on a window attribute."""
        kind = types_of(self.statement)[column]
        found = [(number, point_of(row[column], kind), row) for number, row in enumerate(self.rows)]
        return [one for one in found if self.since is None or one[1] >= self.since]


@dataclass
class Evaluation:
    """`spark` is a session; `most` bounds the values that functions make."""

    spark: Any
    plan: StandingPlan
    streams: Mapping[str, StreamHistory]
    most: int
    tables: Mapping[str, Sequence[EffectiveVersion]] = field(default_factory=dict)
    """By name in lower case, the versions of the tables that it reads."""
    nrrs: frozenset[str] = frozenset()
    by_arrival: bool = False
    """Whether count-based windows hold the last tuples that came, whatever their points: those of one-time queries."""
    _grid: list[int] = field(default_factory=list, init=False)
    _views: int = field(default=0, init=False)
    _known: dict[str, list[tuple[str, str]]] = field(default_factory=dict, init=False)

    def relations(self, ticks: Iterable[int], due: DueRange | None) -> dict[int, list[Answer]]:
        """R(b) at ticks, or at instants between them, ordered if the query has ORDER BY. What earlier ticks decide is
        decided at due ticks."""
        wanted = sorted(set(ticks))
        if not wanted:
            return {}
        every = {*wanted, *(due.among(self.candidates()) if due else ()), *self._all_ticks(due, wanted[-1])}
        grid = sorted({*(tick for tick in every if tick <= wanted[-1]), *self._instants(due, wanted[-1])})
        of_plan = sorted(tick for tick in every if self.plan.floor(tick) == tick)
        ordinals = {tick: ordinal for ordinal, tick in enumerate(of_plan)}
        columns = {TICK: range(len(grid)), AT: grid, ORDINAL: [ordinals.get(at) for at in grid]}
        self._view(TICKS, pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}))
        self._grid, self._views = grid, 0
        asked = set(wanted)
        rows = self._rows([number for number, tick in enumerate(grid) if tick in asked])
        return {grid[number]: at for number, at in rows.items()}

    def _rows(self, numbers: Sequence[int]) -> dict[int, list[Answer]]:
        """The rows at some ticks of the table of ticks, by their numbers."""
        writer = Writer(self._table, self._meaning, self._columns, self._relation, self.plan.periodic)
        block = writer.root(bounded(self.plan.query, self.most))
        count = len(self._columns(block.text)) - len(block.carried)
        names = ", ".join(f"`__c{i}`" for i in range(count))
        carried = ", ".join(f"`{name}`" for name in block.carried)
        statement = f"SELECT * FROM ({block.text}) AS `__x`({', '.join([names, carried])})"
        if block.ranked:
            statement += f" ORDER BY `{TICK}`, `{RANK}`"
        found = self.spark.sql(statement).toArrow()
        found = found.filter(pc.is_in(found.column(TICK), pa.array(numbers, found.column(TICK).type)))
        finish = writer.finishers if len(writer.finishers) == count else [None] * count
        columns = [found.column(i).to_pylist() for i in range(count)]
        done = [
            column if f is None else [f(value) for value in column] for f, column in zip(finish, columns, strict=True)
        ]
        rows: dict[int, list[Answer]] = {number: [] for number in numbers}
        for number, *row in zip(found.column(TICK).to_pylist(), *done, strict=True):
            rows[number].append(tuple(row))
        return rows if block.ranked else {number: sorted(some, key=sort_key) for number, some in rows.items()}

    def _instants(self, due: DueRange | None, last: int) -> set[int]:
        """Below an INTERNAL window a result stays, also if its parts leave before the next tick, and RESTORE reports
        what comes and goes between two ticks: each instant at which something comes or goes counts."""
        is_internal = any(one.window.internal for one in all_sources(self.plan.query) if one.window)
        if due is None or not (is_internal or self.plan.restores):
            return set()
        every = (one for versions in self.tables.values() for one in versions)
        changed = (one.first - (1 if one.at_points else self.plan.step) for one in every)
        points = {due.first - self.plan.step, *changed, *self._points(self.plan.query, {})}
        return {point + 1 for point in points if due.first - self.plan.step <= point < min(due.last, last)}

    def _all_ticks(self, due: DueRange | None, last: int) -> set[int]:
        """A window on what is there at every tick, RSTREAM or an aggregate with SLIDE, needs all of them."""
        inner = (one.query for one in all_sources(self.plan.query) if one.query is not None and one.window is not None)
        if due is None or not any(reports_all(one, self.plan.periodic) for one in inner):
            return set()
        return {tick for tick in due.all(self.plan.step) if tick <= last}

    def instants(self, due: DueRange, upto: int) -> list[int]:
        """All instants at which the relation may change, and the due ticks at which it may, up to a tick."""
        ticks = {tick for tick in due.among([due.first, *self.candidates(), due.last]) if tick <= upto}
        return sorted(ticks | self._instants(due, upto))

    def candidates(self) -> set[int]:
        """All ticks at which the relation may change."""
        shown = [versions for name, versions in self.tables.items() if name not in self.nrrs]
        changed = {self.plan.first_above(one.first - 1) for some in shown for one in some if one.first > -INFINITE}
        return {*changed, *(self.plan.first_above(point) for point in self._points(self.plan.query, {}))}

    def _points(self, query: exp.Expr, outer: Scope) -> set[int]:
        """Points such that the query's relation changes only at the first ticks above them."""
        found: set[int] = set()
        for select, scope in selects_of(query, outer):
            for source in sources_of(select, scope):
                found |= self._source_points(source)
        return found

    def _source_points(self, source: FromItem) -> set[int]:
        if source.table is not None:
            return set()
        if source.stream is not None:
            births = {point for _, point, _ in self._pointed(source)}
        else:
            assert source.query is not None
            births = self._points(source.query, source.inner_scope)
            if source.window is not None:
                births |= {self.plan.first_above(point) - 1 for point in births}
        if source.window is None:
            return births
        meaning = self._meaning(source)
        born = {point + meaning.offset for point in births}
        return born if meaning.range is None else born | {point + meaning.range for point in born}

    def points(self) -> dict[str, list[int]]:
        """The points of the tuples that count, of each stream."""
        found: dict[str, list[int]] = {name: [] for name in self.plan.streams}
        for source in stream_sources(self.plan.query):
            assert source.stream is not None
            found[source.stream.lower()] += [point for _, point, _ in self._pointed(source)]
        return found

    def slide_ends(self) -> set[int]:
        """The ticks at which a window over a stream holds a tuple; a window that never lets go holds at one tick."""
        found: set[int] = set()
        lingers = self.plan.step - 1 if (self.plan.streaming or "").endswith("restore") else 0
        for source, windows in windows_on_streams(self.plan.query):
            meaning = self.plan.effective(windows)
            for point in self._held(source, meaning):
                first = self.plan.first_above(point + meaning.offset)
                last = first if meaning.range is None else point + meaning.offset + meaning.range + lingers
                found.update(range(first, last + 1, self.plan.step))
        return found

    def endless_from(self) -> int | None:
        """The first tick at which a window that never lets go holds a tuple; None if there is none."""
        endless = [(one, self.plan.effective(windows)) for one, windows in windows_on_streams(self.plan.query)]
        found = [
            self.plan.first_above(point + meaning.offset)
            for source, meaning in endless
            if meaning.range is None
            for point in self._held(source, meaning)
        ]
        return min(found, default=None)

    def _held(self, source: FromItem, meaning: WindowMeaning) -> list[int]:
        """The points of the tuples that the window of a source may hold."""
        return [point for _, point, _ in self._pointed(source) if meaning.since is None or point >= meaning.since]

    def _meaning(self, source: FromItem) -> WindowMeaning:
        assert source.window is not None
        return self.plan.meaning(source.window)

    def _pointed(self, source: FromItem) -> list[tuple[int, int, Row]]:
        assert source.stream is not None and source.window is not None
        history = self.streams[source.stream.lower()]
        return history.pointed(axis_of(source.window, history.statement))

    def _table(self, source: FromItem) -> tuple[str, tuple[str, ...]]:
        """A view of the tuples of a stream, each with every tick b at which it is in the window: b − range ≤ point +
        offset < b, or it is one of the last rows below b."""
        assert source.stream is not None and source.window is not None
        types, meaning = types_of(self.streams[source.stream.lower()].statement), self._meaning(source)
        held: list[tuple[Row, int, int, int, str]] = []
        if meaning.rows is not None:
            held = self._last_rows(source, meaning.rows, meaning.partition)
        for number, point, row in self._pointed(source) if meaning.rows is None else ():
            born = point + meaning.offset
            exp = POINT_MAX if meaning.range is None else born + meaning.range
            until = POINT_MAX if meaning.internal else exp
            if meaning.since is None or point >= meaning.since:
                ticks = [i for i, b in enumerate(self._grid) if born < b <= exp]
                held += [(row, tick, born, until, str(number)) for tick in ticks]
        arrays = {name: pa.array([row[name] for row, *_ in held], kind.arrow) for name, kind in types.items()}
        for i, (name, kind) in enumerate(zip(TRACE, (pa.int64(), pa.int64(), pa.int64(), pa.string()), strict=True)):
            arrays[name] = pa.array([one[i + 1] for one in held], kind)
        self._views += 1
        self._view(f"windrow_oracle_w{self._views}", pa.table(arrays))
        return f"windrow_oracle_w{self._views}", tuple(types)

    def _relation(self, source: FromItem) -> tuple[str, tuple[str, ...], bool]:
        """A view of a table's rows, once for each tick at which they are there. Of a NON RETROACTIVE table: once,
        with the interval of births of the tuples that see them."""
        assert source.table is not None
        name, step = source.table.lower(), self.plan.step
        versions, is_seen = self.tables[name], name in self.nrrs
        found = []
        for one in versions:
            if is_seen:
                low, high = max(one.first - step, POINT_MIN), min(one.end - step, POINT_MAX)
                ones = [pa.array([at] * one.rows.num_rows, pa.int64()) for at in (low, high)]
                found.append(one.rows.append_column(FROM, ones[0]).append_column(TO, ones[1]))
                continue
            seen = [b if one.at_points else self.plan.first_above(b - 1) for b in self._grid]
            ticks = [i for i, b in enumerate(seen) if one.first <= b < one.end]
            for tick in ticks:
                found.append(one.rows.append_column(TICK, pa.array([tick] * one.rows.num_rows, pa.int64())))
        columns = tuple(versions[0].rows.column_names)
        self._views += 1
        view = f"windrow_oracle_w{self._views}"
        self._view(
            view,
            pa.concat_tables(found).combine_chunks()
            if found
            else versions[0].rows.append_column(TICK, pa.array([], pa.int64())),
        )
        return view, columns, is_seen

    def _last_rows(self, source: FromItem, size: int, partition: Sequence[str]) -> list[tuple[Row, int, int, int, str]]:
        """Each tick's last tuples below it, by (point, order of arrival), of each combination of values; or the last
        ones by arrival."""
        assert source.stream is not None
        columns = [column_named(self.streams[source.stream.lower()].statement, name) for name in partition]
        arrived = sorted(self._pointed(source), key=lambda one: one[0] if self.by_arrival else (one[1], one[0]))
        held: list[tuple[Row, int, int, int, str]] = []
        for tick, at in enumerate(self._grid):
            groups: dict[tuple[Any, ...], list[tuple[int, int, Row]]] = {}
            for number, point, row in arrived:
                if self.by_arrival or point < at:
                    key = tuple("NaN" if row[name] != row[name] else row[name] for name in columns)
                    groups.setdefault(key, []).append((number, point, row))
            for group in groups.values():
                held += [(row, tick, point, POINT_MAX, str(number)) for number, point, row in group[-size:]]
        return held

    def _columns(self, statement: str) -> list[tuple[str, str]]:
        if statement not in self._known:  # it is asked for again, and Spark is slow
            fields = self.spark.sql(statement).schema.fields
            self._known[statement] = [(one.name, one.dataType.typeName()) for one in fields]
        return self._known[statement]

    def _view(self, name: str, table: pa.Table) -> None:
        # Spark loses rows of a table that begins with several empty chunks.
        self.spark.createDataFrame(table.combine_chunks()).createOrReplaceTempView(name)


def stream_sources(query: exp.Expr) -> list[FromItem]:
    """The streams that the query and its sub-queries read, each with its window."""
    return [source for source in all_sources(query) if source.stream is not None]


def streamed(kind: str, relations: Mapping[int, list[Answer]]) -> list[tuple[int, Answer]]:
    """What ISTREAM, DSTREAM or RSTREAM gives at each of successive ticks (or, for ISTREAM, instants)."""
    found: list[tuple[int, Answer]] = []
    before: list[Answer] = []
    for tick, now in sorted(relations.items()):
        rows = {"istream": without(now, before), "dstream": without(before, now), "rstream": now}[kind]
        found += [(tick, row) for row in rows]
        before = now
    return found


def restored(
    plan: StandingPlan, ticks: Iterable[int], relations: Mapping[int, list[Answer]]
) -> list[tuple[int, Answer]]:
    """What RSTREAM RESTORE gives at each of the ticks: what was there at all instants since the tick before, and what
    came since. `relations` has every instant at which something may change."""
    found: list[tuple[int, Answer]] = []
    at_instants = sorted(relations.items())
    now: list[Answer] = []
    for tick in sorted(ticks):
        stayed, came = now, list[Answer]()
        for _, rows in [one for one in at_instants if tick - plan.step < one[0] <= tick]:
            came += without(rows, now)
            stayed = without(stayed, without(stayed, rows))
            now = rows
        found += [(tick, row) for row in (*stayed, *came)]
    return found
