"""The window clause against the window attribute: units checked, forms of later versions refused by name."""

from __future__ import annotations

from datetime import datetime

from windrow.cql.window_clause import Measure, Unit, WindowClause, WindowKind
from windrow.errors import BindError, UnsupportedError
from windrow.plan.nodes import Attribute
from windrow.types import point_of
from windrow.windows import SlidingWindow

_EXAMPLE = "For example [RANGE 10 MINUTES SLIDE 1 MINUTE]."
MOST_POINTS = 1 << 60
"""Windows longer than this (36,000 years, or 10^18 units) would leave the range of int64 points."""


def bind_window(clause: WindowClause | None, attribute: Attribute, stream: str) -> SlidingWindow:
    """The sliding window that a clause denotes on this attribute."""
    if clause is None:
        raise BindError(f"'{stream}' is a stream: a query needs a window on it", remedy=_EXAMPLE)
    _refuse_later_forms(clause)
    assert clause.range is not None and clause.slide is not None
    size = _points(clause.range, "RANGE", attribute, clause)
    slide = _points(clause.slide, "SLIDE", attribute, clause)
    return SlidingWindow(size, slide, _origin(clause, attribute))


def _refuse_later_forms(clause: WindowClause) -> None:
    forms = (
        (clause.kind is not WindowKind.RANGE, f"[{clause.kind.name} …] windows"),
        (
            clause.kind is WindowKind.RANGE and clause.slide is None,
            "continuous queries (a window without SLIDE)",
        ),
        (clause.slide is not None and clause.slide.unit is Unit.ROWS, "windows that slide by rows"),
        (clause.range is not None and clause.range.unit is Unit.ROWS, "windows of rows"),
        (clause.offset is not None, "OFFSET"),
        (clause.internal, "INTERNAL"),
        (bool(clause.pattr), "partitioned windows"),
        (bool(clause.rattr or clause.sattr), "RATTR and SATTR"),
    )
    for present, what in forms:
        if present:
            raise UnsupportedError(f"this version does not execute {what} yet", place=clause.place, remedy=_EXAMPLE)


def _points(measure: Measure, word: str, attribute: Attribute, clause: WindowClause) -> int:
    wanted = Unit.TIME if attribute.type.is_timestamp else Unit.VALUES
    if measure.unit is not wanted:
        need = "an interval such as 10 MINUTES" if wanted is Unit.TIME else "a plain number"
        raise BindError(
            f"{word} on '{attribute.column}' ({attribute.type}) is {need}",
            place=clause.place,
            remedy=_EXAMPLE,
        )
    if not 0 < measure.amount <= MOST_POINTS:
        raise BindError(f"{word} is positive, and at most {MOST_POINTS:,} points", place=clause.place)
    return measure.amount


def _origin(clause: WindowClause, attribute: Attribute) -> int:
    origin = clause.origin
    if origin is None:
        return 0
    if isinstance(origin, int) != (not attribute.type.is_timestamp):
        need = "a time such as '2026-01-01 00:00:00'" if attribute.type.is_timestamp else "a whole number"
        raise BindError(f"ORIGIN on '{attribute.column}' is {need}", place=clause.place)
    if isinstance(origin, int):
        return origin
    try:
        return point_of(datetime.fromisoformat(origin), attribute.type)
    except ValueError:
        raise BindError(
            f"ORIGIN '{origin}' is not a time",
            place=clause.place,
            remedy="Write it as '2026-01-01 00:00:00' (UTC).",
        ) from None
