"""The clock of a continuous plan: at what points it ticks (DESIGN 5, "Ticks of continuous plans")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from windrow.catalog.definitions import StreamDef
from windrow.catalog.relations import TableDef
from windrow.cql.dialect import WindowedQuery, window_of
from windrow.cql.tokens import nearest_place
from windrow.cql.window_clause import Unit, WindowClause
from windrow.cql.window_syntax import measure_text
from windrow.errors import BindError, CatalogError, Place, UnsupportedError
from windrow.plan.algebra.nodes import Lifetime
from windrow.plan.bind_window import BoundLifetime, bind_lifetime, bind_output_lifetime
from windrow.plan.continuous.shape import NEAR
from windrow.types import UNITS_US, SqlType

SourceOf = Callable[[str, Place | None], StreamDef]
TableOf = Callable[[str], TableDef | None]


def no_tables(name: str) -> TableDef | None:
    """There is no table."""
    return None


@dataclass(frozen=True)
class PlanClock:
    """The points at which a plan ticks: `origin` + multiples of `step`."""

    point: SqlType
    step: int
    origin: int = 0
    periodic: bool = False

    def lifetime(self, bound: BoundLifetime) -> Lifetime:
        """[NOW] is one tick long; with SLIDE, it is the last instant before each end."""
        now = 1 if self.periodic else self.step
        length = now if bound.is_now else bound.range
        return Lifetime(length, bound.offset, bound.internal, bound.since, bound.is_now)

    def of_output(self, clause: WindowClause) -> Lifetime:
        """The window on a sub-query; without a SLIDE it goes by the clock of the sub-query."""
        bound = bind_output_lifetime(clause, self.point)
        if bound.since is not None:
            raise BindError("SINCE is of a stream", place=clause.place, remedy="Write [UNBOUNDED].")
        if bound.slide is not None and (bound.slide, bound.origin) != (self.step, self.origin):
            raise _other_slide(clause)
        return self.lifetime(bound)

    def rows_of_output(self, clause: WindowClause) -> int:
        """How many results the window [ROWS n] on a sub-query holds."""
        bound = bind_output_lifetime(clause, self.point)
        assert bound.rows is not None
        return bound.rows


@dataclass(frozen=True)
class _Window:
    clause: WindowClause
    stream: StreamDef
    bound: BoundLifetime


def window_on(table: exp.Table, text: str, source_of: SourceOf, once: bool = False) -> tuple[StreamDef, BoundLifetime]:
    """The stream of a table in FROM, and its window; raises BindError at the place of a mistake. `once`: the query is
    asked once."""
    if not isinstance(table.this, exp.Identifier):
        raise UnsupportedError(
            "a standing query reads a stream, not a function",
            place=nearest_place(table, text),
            remedy="A SELECT by itself reads answers('query') and dead_letters('stream').",
        )
    place = nearest_place(table.this, text)
    stream = _stream(table, place, source_of)
    clause = window_of(table)
    if stream.revises:
        raise UnsupportedError(
            f"'{stream.name}' has LATE REVISE: a {'question' if once else 'continuous query'} over it comes with a "
            "later version",
            place=place,
            remedy="Create the stream with LATE DROP, or write an aggregate over it alone, with a SLIDE."
            if not once
            else "Create the stream with LATE DROP, or ask for an aggregate that a standing query keeps.",
        )
    try:
        return stream, bind_lifetime(clause, stream, once)
    except BindError as error:
        raise type(error)(error.message, place=error.place or place, remedy=error.remedy) from None


def _stream(table: exp.Table, place: Place | None, source_of: SourceOf) -> StreamDef:
    try:
        return source_of(table.name, place)
    except CatalogError as error:
        if near := table.meta.get(NEAR):
            error.remedy = f"Did you mean '{near}' of WITH?"
        raise


def clock_of(
    query: exp.Expr, text: str, source_of: SourceOf, table_of: TableOf = no_tables, once: bool = False
) -> PlanClock:
    """The clock of a query without WITH; raises BindError if its windows do not fit each other. Tables have none; a
    query that is asked once may read nothing else."""
    tables = [table for table in _tables(query) if table_of(table.name) is None]
    if not tables and not once:
        raise BindError(
            "a standing query reads a stream", place=nearest_place(query, text), remedy="Add FROM stream [RANGE …]."
        )
    found = clock_over(tables, text, source_of, once)
    if not found.periodic:
        _refuse_late_slide(query)
    return found


def clock_over(tables: Sequence[exp.Table], text: str, source_of: SourceOf, once: bool) -> PlanClock:
    """The clock of a query over windows of these streams; of one that is asked once and reads no window, any."""
    windows = [_window(table, text, source_of, once) for table in tables]
    if not windows:
        return PlanClock(SqlType("TIMESTAMP"), 1)
    first = windows[0]
    for other in windows[1:]:
        if other.bound.attribute.type.is_timestamp != first.bound.attribute.type.is_timestamp:
            raise BindError(
                f"the windows of a query are of one unit: '{first.bound.attribute.column}' of '{first.stream.name}' is "
                f"{first.bound.attribute.type}, '{other.bound.attribute.column}' of '{other.stream.name}' is "
                f"{other.bound.attribute.type}",
                place=other.clause.place,
                remedy="Name a window attribute of the same unit with WATTR.",
            )
    point = _point(windows)
    slides = _slides(windows)
    if not slides:
        return PlanClock(point, _step(windows))
    return PlanClock(point, *slides[0], periodic=True)


def _window(table: exp.Table, text: str, source_of: SourceOf, once: bool) -> _Window:
    stream, bound = window_on(table, text, source_of, once)
    clause = window_of(table)
    assert clause is not None
    return _Window(clause, stream, bound)


def _tables(query: exp.Expr) -> Iterator[exp.Table]:
    """The streams of a query, in the order of its text."""
    yield from query.find_all(exp.Table, bfs=False)


def _point(windows: list[_Window]) -> SqlType:
    kinds = {window.bound.attribute.type.bound for window in windows}
    return kinds.pop() if len(kinds) == 1 else SqlType("TIMESTAMP")


def _slides(windows: list[_Window]) -> list[tuple[int, int]]:
    """The SLIDE and ORIGIN that all windows share; empty if none has a SLIDE."""
    sliding = [window for window in windows if window.bound.slide is not None]
    slides = [(window.bound.slide or 0, window.bound.origin) for window in sliding]
    for window, slide in zip(sliding, slides, strict=True):
        if slide != slides[0]:
            raise _other_slide(window.clause)
    for window in windows if slides else ():
        if window.bound.slide is None:
            raise BindError(
                "some windows of this query have a SLIDE, and this one has none",
                place=window.clause.place,
                remedy="Give all windows the same SLIDE, or none of them.",
            )
    return slides


def _other_slide(clause: WindowClause) -> BindError:
    return BindError(
        "the windows of a query have the same SLIDE and ORIGIN", place=clause.place, remedy="Give them the same SLIDE."
    )


def _refuse_late_slide(query: exp.Expr) -> None:
    for windowed in query.find_all(WindowedQuery):
        clause = window_of(windowed)
        if clause is not None and clause.slide is not None:
            raise BindError(
                "the window on a sub-query has a SLIDE, and the windows inside have none",
                place=clause.place,
                remedy="Give all windows the same SLIDE, or none of them.",
            )


def _step(windows: list[_Window]) -> int:
    """The largest TICK, which is a multiple of the others."""
    ticks = [(_tick(window), window) for window in windows]
    most, slowest = max(ticks, key=lambda tick: tick[0])
    for tick, window in ticks:
        if most % tick:
            raise BindError(
                f"the TICK of '{slowest.stream.name}' ({_tick_text(slowest)}) is not a multiple of the TICK of "
                f"'{window.stream.name}' ({_tick_text(window)})",
                place=window.clause.place,
                remedy="Create the streams with ticks of which the largest is a multiple of the others; or give all "
                "windows the same SLIDE.",
            )
    return most


def _tick(window: _Window) -> int:
    return tick_of(window.stream, window.bound.attribute.type)


def tick_of(stream: StreamDef, kind: SqlType) -> int:
    """How often continuous queries over a column of this type of a stream are refreshed (TICK), in points."""
    tick, is_time = stream.statement.tick, kind.is_timestamp
    if tick is None or tick.unit is not (Unit.TIME if is_time else Unit.VALUES):
        return UNITS_US["SECOND"] if is_time else 1
    return tick.amount


def _tick_text(window: _Window) -> str:
    tick = window.stream.statement.tick
    return measure_text(tick) if tick is not None else "1 SECOND by default"
