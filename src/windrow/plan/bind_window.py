"""Bind a window clause to a stream: find the axis and the kind of window, and check the units."""

from __future__ import annotations

from dataclasses import dataclass, replace

from windrow.catalog.definitions import StreamDef
from windrow.cql.tokens import nearest
from windrow.cql.window_clause import Measure, Unit, WindowClause, WindowKind
from windrow.errors import BindError, UnsupportedError
from windrow.plan.nodes import ROWS_AXIS, Attribute
from windrow.types import SqlType, moment_of, point_of
from windrow.windows import LandmarkWindow, PartitionedWindow, SlideByTuple, SlideOver, SlidingWindow, Window

_OF_TIME, _OF_VALUES = "For example [RANGE 10 MINUTES SLIDE 1 MINUTE].", "For example [RANGE 1000 SLIDE 100]."
_ONCE_OF_TIME, _ONCE_OF_VALUES = "For example [RANGE 10 MINUTES].", "For example [RANGE 1000]."
MOST_POINTS = 1 << 60
"""Windows longer than this (36,000 years, or 10^18 units) would leave the range of int64 points."""

ROW_NUM_NAMES = ("row-num", "row_num", "rownum")


@dataclass(frozen=True)
class BoundWindow:
    """A window, its axis, and the columns of PARTITION BY."""

    attribute: Attribute
    window: Window
    partition: tuple[str, ...] = ()


@dataclass(frozen=True)
class BoundLifetime:
    """The window of a continuous plan: how long a tuple lives, and at what the plan ticks.

    `range` None: for ever. `is_now`: for one step of the plan, `range` says nothing. Tuples below `since` do not count.
    `rows`: it is the last so many tuples by the attribute, of each value of `partition`, and `range` says nothing.
    """

    attribute: Attribute
    range: int | None
    offset: int = 0
    internal: bool = False
    slide: int | None = None
    origin: int = 0
    since: int | None = None
    is_now: bool = False
    rows: int | None = None
    partition: tuple[str, ...] = ()


def bind_window(clause: WindowClause | None, stream: StreamDef) -> BoundWindow:
    """The window of a clause on this stream; raises BindError at the place of a mistake."""
    if clause is None:
        raise BindError(f"'{stream.name}' is a stream: a query needs a window on it", remedy=_example(stream, False))
    return _Binding(clause, stream).bind()


def bind_snapshot_window(clause: WindowClause | None, stream: StreamDef) -> BoundWindow:
    """The window of a snapshot query: it has a length and an OFFSET but no SLIDE, as only the latest is answered."""
    if clause is None:
        message = f"'{stream.name}' is a stream: a question needs a window on it"
        raise BindError(message, remedy=_example(stream, one_time=True))
    refuse_sliding(clause)
    if clause.kind not in (WindowKind.RANGE, WindowKind.ROWS) or clause.pattr or clause.internal or clause.origin:
        raise UnsupportedError(
            "this version answers one-time questions over [RANGE r], [RANGE r OFFSET d], [ROWS n] and "
            "[ROWS n OFFSET m]",
            place=clause.place,
            remedy="For other windows, create a standing query: CREATE QUERY name AS SELECT …",
        )
    return _Binding(replace(clause, slide=clause.range), stream, one_time=True).bind()


def bind_lifetime(clause: WindowClause | None, stream: StreamDef, once: bool = False) -> BoundLifetime:
    """The window of a clause on a stream in a continuous plan; raises BindError at the place of a mistake. `once`: the
    plan is evaluated at one instant, so the window does not slide."""
    if clause is None:
        what = "question" if once else "query"
        raise BindError(f"'{stream.name}' is a stream: a {what} needs a window on it", remedy=_example(stream, True))
    if once:
        refuse_sliding(clause)
    return _Binding(clause, stream, one_time=True, once=once).lifetime()


def refuse_sliding(clause: WindowClause) -> None:
    """Refuse what a window of a one-time query cannot have."""
    if clause.slide is not None:
        raise UnsupportedError(
            "a one-time question is of one window, which does not slide",
            place=clause.place,
            remedy="Leave SLIDE out; or create a standing query: CREATE QUERY name AS SELECT …",
        )
    if clause.internal:
        raise UnsupportedError(
            "INTERNAL says what a standing query keeps in memory; a one-time question sees what is in the window",
            place=clause.place,
            remedy="Leave INTERNAL out.",
        )


def bind_output_lifetime(clause: WindowClause, point: SqlType) -> BoundLifetime:
    """The window of a clause on the output of a sub-query, whose attribute is the time of the results."""
    return _Binding(clause, None, one_time=True).lifetime(Attribute("ts", point))


def _example(stream: StreamDef | None, one_time: bool) -> str:
    """A window that fits the stream's window attribute."""
    is_time = stream is None or stream.attribute is None or stream.attribute_type.is_timestamp
    return _example_of(is_time, one_time)


def _example_of(is_time: bool, one_time: bool) -> str:
    if one_time:
        return _ONCE_OF_TIME if is_time else _ONCE_OF_VALUES
    return _OF_TIME if is_time else _OF_VALUES


class _Binding:
    """`one_time`: the clause is of a snapshot query or a continuous plan, so examples in remedies have no SLIDE.
    `once`: it is of a plan that is evaluated at one instant. `given` is None for a window on a sub-query."""

    def __init__(self, clause: WindowClause, given: StreamDef | None, one_time: bool = False, once: bool = False):
        self._clause = clause
        self._given = given
        self._one_time = one_time
        self._once = once

    def _error(self, message: str, remedy: str | None = None) -> BindError:
        return BindError(message, place=self._clause.place, remedy=remedy or _example(self._given, self._one_time))

    @property
    def _stream(self) -> StreamDef:
        assert self._given is not None
        return self._given

    def bind(self) -> BoundWindow:
        clause = self._clause
        self._refuse_later_forms()
        if clause.kind is WindowKind.ROWS:
            return self._rows()
        self._refuse_partition()
        if clause.slide is None or clause.slide.unit is Unit.ROWS:
            return self._by_tuple()
        self._refuse(clause.rattr or clause.sattr, "RATTR and SATTR", "SLIDE n ROWS")
        attribute = self._attribute(clause.wattr)
        size = 1 if clause.range is None else self._points(clause.range, "RANGE", attribute)
        slide = self._points(clause.slide, "SLIDE", attribute)
        origin = self._point_of_literal(clause.origin, "ORIGIN", attribute) if clause.origin is not None else 0
        if clause.kind is WindowKind.SINCE:
            assert clause.since is not None
            return BoundWindow(
                attribute, LandmarkWindow(self._point_of_literal(clause.since, "SINCE", attribute), slide, origin)
            )
        if clause.kind is WindowKind.UNBOUNDED:
            return BoundWindow(attribute, LandmarkWindow(None, slide, origin))
        offset = 0 if clause.offset is None else self._points(clause.offset, "OFFSET", attribute, zero=True)
        return BoundWindow(attribute, SlidingWindow(size, slide, origin, offset))

    def _refuse_later_forms(self) -> None:
        clause = self._clause
        is_continuous = clause.slide is None and clause.kind is not WindowKind.NOW
        for present, what in (
            (is_continuous, "continuous queries (a window without SLIDE)"),
            (clause.internal, "INTERNAL"),
        ):
            if present:
                raise UnsupportedError(
                    f"this version does not execute {what} yet",
                    place=clause.place,
                    remedy=_example(self._stream, self._one_time),
                )

    def _refuse_partition(self) -> None:
        clause = self._clause
        if clause.pattr:
            columns = ", ".join(clause.pattr)
            same = f"Leave it out and write GROUP BY {columns}, which says the same here."
            if clause.slide is not None and clause.slide.unit is Unit.ROWS:
                same = (
                    f"Leave it out. GROUP BY {columns} is something else: windows end at tuples of any group, "
                    "and each group in a window has a row."
                )
            raise self._error("PARTITION BY goes with [ROWS n SLIDE m PARTITION BY …]", same)

    def _refuse(self, given: object, what: str, goes_with: str) -> None:
        if given:
            raise self._error(f"{what} goes with {goes_with}", "Leave it out.")

    # -- continuous ----------------------------------------------------------------------------

    def lifetime(self, attribute: Attribute | None = None) -> BoundLifetime:
        """The lifetime on this attribute; by default on that of the stream, or the one that WATTR names."""
        clause = self._clause
        self._refuse_later_windows()
        self._refuse(clause.rattr or clause.sattr, "RATTR and SATTR", "SLIDE n ROWS")
        self._refuse(clause.origin is not None and clause.slide is None, "ORIGIN", "SLIDE")
        if clause.kind is WindowKind.ROWS:
            return self._last_rows() if attribute is None else self._last_results(attribute)
        self._refuse_partition()
        if clause.kind is WindowKind.SINCE and clause.slide is None and not self._once:
            raise self._error("SINCE needs a SLIDE", "For example [SINCE '2026-01-01' SLIDE 1 HOUR].")
        if attribute is not None:
            self._refuse(clause.wattr, "WATTR", "a stream: results of a sub-query are ordered by their own time")
        attribute = attribute or self._attribute(clause.wattr)
        return BoundLifetime(
            attribute,
            None if clause.range is None else self._points(clause.range, "RANGE", attribute),
            0 if clause.offset is None else self._points(clause.offset, "OFFSET", attribute, zero=True),
            clause.internal,
            None if clause.slide is None else self._points(clause.slide, "SLIDE", attribute),
            0 if clause.origin is None else self._point_of_literal(clause.origin, "ORIGIN", attribute),
            None if clause.since is None else self._point_of_literal(clause.since, "SINCE", attribute),
            clause.kind is WindowKind.NOW,
        )

    def _refuse_later_windows(self) -> None:
        clause = self._clause
        if clause.slide is not None and clause.slide.unit is Unit.ROWS:
            raise UnsupportedError(
                "a window that slides by rows in anything but an aggregate over one stream comes with a later version",
                place=clause.place,
                remedy=self._instead_of_rows(),
            )

    def _instead_of_rows(self) -> str:
        """What to write for a window that slides by rows."""
        clause = self._clause
        if clause.kind is not WindowKind.ROWS or clause.range is None:
            return _example(self._given, self._one_time)
        rows = f"Leave SLIDE out: [ROWS {clause.range.amount}] changes with every tick."
        is_time = self._given is None or self._given.attribute is None or self._given.attribute_type.is_timestamp
        return f"{rows} Or let it slide by time: [ROWS {clause.range.amount} SLIDE 1 MINUTE]." if is_time else rows

    def _last_results(self, attribute: Attribute) -> BoundLifetime:
        """Bind `[ROWS n]` on a sub-query: its last n results by (their time, then all columns)."""
        clause = self._clause
        assert clause.range is not None
        for given, what in (
            (clause.offset is not None, "OFFSET"),
            (clause.internal, "INTERNAL"),
            (bool(clause.pattr), "PARTITION BY"),
            (clause.wattr is not None, "WATTR"),
            (clause.slide is not None, "SLIDE"),
        ):
            if given:
                raise self._error(f"{what} does not go with [ROWS n] on the output of a query", "Leave it out.")
        return BoundLifetime(attribute, None, rows=self._within(clause.range.amount, "ROWS"))

    def _last_rows(self) -> BoundLifetime:
        """Bind `[ROWS n]` or `[ROWS n PARTITION BY …]`: the last n tuples by (window attribute, arrival)."""
        clause = self._clause
        assert clause.range is not None
        if clause.offset is not None:
            raise self._error("OFFSET does not go with [ROWS n] in a continuous query, nor in a join", "Leave it out.")
        if clause.wattr is not None and clause.wattr.lower() in ROW_NUM_NAMES:
            raise self._error(
                "[ROWS n] in a continuous query is the last n tuples by a window attribute",
                "Leave WATTR out, or name a column that a PUNCTUATE covers.",
            )
        attribute = self._attribute(clause.wattr)
        self._check_sequence("windows of ROWS")
        return BoundLifetime(
            attribute,
            None,
            internal=clause.internal,
            slide=None if clause.slide is None else self._points(clause.slide, "SLIDE", attribute),
            origin=0 if clause.origin is None else self._point_of_literal(clause.origin, "ORIGIN", attribute),
            rows=self._within(clause.range.amount, "ROWS"),
            partition=tuple(dict.fromkeys(self._column(name) for name in clause.pattr)),
        )

    # -- rows ----------------------------------------------------------------------------------

    def _rows(self) -> BoundWindow:
        clause = self._clause
        assert clause.range is not None and clause.slide is not None
        if clause.slide.unit is not Unit.ROWS:
            raise self._error("a window of ROWS slides by rows", "For example [ROWS 100 SLIDE 10].")
        self._refuse(clause.rattr or clause.sattr, "RATTR and SATTR", "[RANGE … SLIDE n ROWS]")
        self._refuse(clause.origin is not None, "ORIGIN", "a window attribute: rows are counted from 1")
        if clause.wattr is not None and clause.wattr.lower() not in ROW_NUM_NAMES:
            raise self._error("a window of ROWS is on the row number", "Leave out WATTR, or write [RANGE n SLIDE m].")
        self._check_sequence("windows of ROWS")
        size, slide = (self._within(m.amount, w) for m, w in ((clause.range, "ROWS"), (clause.slide, "SLIDE")))
        offset = 0 if clause.offset is None else self._within(clause.offset.amount, "OFFSET", zero=True)
        if clause.offset is not None and clause.offset.unit is not Unit.ROWS:
            raise self._error("the OFFSET of a window of ROWS is a number of rows", "For example OFFSET 10.")
        if clause.pattr:
            partition = tuple(dict.fromkeys(self._column(name) for name in clause.pattr))
            return BoundWindow(ROWS_AXIS, PartitionedWindow(size, slide, offset), partition)
        return BoundWindow(ROWS_AXIS, SlidingWindow(size, slide, 1, offset))

    def _by_tuple(self) -> BoundWindow:
        """Bind `[RANGE … SLIDE n ROWS]` or `[NOW]`."""
        clause = self._clause
        self._refuse(clause.offset is not None, "OFFSET", "a SLIDE on the window attribute, or [ROWS …]")
        self._refuse(clause.origin is not None, "ORIGIN", "a SLIDE on the window attribute")
        if clause.kind not in (WindowKind.RANGE, WindowKind.NOW):
            raise self._error(f"[{clause.kind.name} …] slides on the window attribute, not by rows")
        if clause.wattr is not None and clause.rattr is not None:
            raise self._error("WATTR and RATTR name the same thing here", "Leave one of them out.")
        attribute = self._attribute(clause.rattr or clause.wattr)
        size = 1 if clause.range is None else self._points(clause.range, "RANGE", attribute)
        every = 1 if clause.slide is None else self._within(clause.slide.amount, "SLIDE")
        return BoundWindow(attribute, SlideByTuple(size, every, self._over(attribute, every)))

    def _over(self, attribute: Attribute, every: int) -> SlideOver:
        clause = self._clause
        if clause.sattr_is_rank:
            assert clause.sattr is not None
            if self._column(clause.sattr) != attribute.column:
                raise self._error("SATTR rank(…) is over the range attribute", f"Write SATTR rank({attribute.column}).")
            return SlideOver.VALUE if every == 1 else SlideOver.RANK
        if clause.sattr is not None and clause.sattr.lower() not in ROW_NUM_NAMES:
            raise self._error(
                f"SATTR is the row number or a rank, not '{clause.sattr}'",
                f"Leave it out, or write SATTR rank({attribute.column}).",
            )
        if every == 1:
            return SlideOver.VALUE
        self._check_sequence("windows that slide by rows")
        return SlideOver.ROW

    def _check_sequence(self, what: str) -> None:
        """Row numbers need an order of arrival that is the same on replay."""
        if not self._stream.has_arrival:
            raise self._error(
                f"stream '{self._stream.name}' has no order of arrival that a replay repeats, so {what} are refused",
                "Create the stream with SEQUENCE BY column.",
            )

    # -- attributes ----------------------------------------------------------------------------

    def _column(self, wanted: str) -> str:
        names = {name.lower(): name for name, _ in self._stream.columns}
        if wanted.lower() not in names:
            near = nearest(wanted.lower(), names)
            hint = f"Did you mean '{names[near]}'? " if near else ""
            raise self._error(
                f"stream '{self._stream.name}' has no column '{wanted}'",
                f"{hint}Its columns: {', '.join(names.values())}.",
            )
        return names[wanted.lower()]

    def _attribute(self, named: str | None) -> Attribute:
        wanted = named or self._stream.attribute
        if wanted is None:
            raise BindError(
                f"stream '{self._stream.name}' has no window attribute",
                remedy="Declare it with TIMESTAMP BY column PUNCTUATE ORDERED.",
            )
        name = self._column(wanted)
        if self._stream.punctuation_of(name) is None:
            raise self._error(
                f"no PUNCTUATE covers '{name}', so a window on it could never close",
                f"Create the stream with PUNCTUATE ON {name} ORDERED (or WITH SLACK …).",
            )
        return Attribute(name, self._stream.type_of(name))

    def _points(self, measure: Measure, word: str, attribute: Attribute, zero: bool = False) -> int:
        wanted = Unit.TIME if attribute.type.is_timestamp else Unit.VALUES
        if measure.unit is not wanted:
            need = "an interval such as 10 MINUTES" if wanted is Unit.TIME else "a plain number"
            message = f"{word} on '{attribute.column}' ({attribute.type}) is {need}"
            raise self._error(message, _example_of(wanted is Unit.TIME, self._one_time))
        return self._within(measure.amount, word, zero)

    def _within(self, amount: int, word: str, zero: bool = False) -> int:
        if not (0 if zero else 1) <= amount <= MOST_POINTS:
            raise self._error(f"{word} is positive, and at most {MOST_POINTS:,} points")
        return amount

    def _point_of_literal(self, literal: str | int, word: str, attribute: Attribute) -> int:
        """The point of the literal after `word`; raises BindError unless it has the attribute's type."""
        if isinstance(literal, int) != (not attribute.type.is_timestamp):
            need = "a time such as '2026-01-01 00:00:00'" if attribute.type.is_timestamp else "a whole number"
            example = "'2026-01-01 00:00:00'" if attribute.type.is_timestamp else "100"
            raise self._error(f"{word} on '{attribute.column}' is {need}", f"For example {word} {example}.")
        if isinstance(literal, int):
            return literal
        try:
            return point_of(moment_of(literal), attribute.type)
        except ValueError:
            raise self._error(f"{word} '{literal}' is not a time", "Write it as '2026-01-01 00:00:00' (UTC).") from None
