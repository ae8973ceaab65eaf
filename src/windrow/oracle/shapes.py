"""Turns the window clause of a query into a shape on an axis: a column, row numbers, or ranks in a partition."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.cql.statements import CreateStream
from windrow.cql.window_clause import Measure, Unit, WindowClause, WindowKind
from windrow.errors import UnsupportedError
from windrow.oracle.admission import attributes_of, column_named, types_of
from windrow.oracle.extents import ByTuple, Landmark, Shape, Sliding
from windrow.types import SqlType, moment_of, point_of

_ROW_NUMBER = {"row_num", "row-num", "rownum", "row_number"}


@dataclass(frozen=True)
class Window:
    """If `column` is None, the axis is the row number, or with `partition` the rank within it."""

    shape: Shape
    column: str | None
    partition: tuple[str, ...] = ()


def window_shape(clause: WindowClause, stream: CreateStream) -> Window:
    """The window of a clause. Raises UnsupportedError if it has no periodic meaning (no SLIDE, mixed clauses)."""
    if clause.internal:
        raise UnsupportedError("the oracle evaluates no INTERNAL windows")
    if clause.kind is WindowKind.ROWS:
        return _of_rows(clause, stream)
    if clause.pattr:
        raise UnsupportedError("PARTITION BY goes with ROWS")
    column = axis_of(clause, stream)
    kind = types_of(stream)[column]
    if _slides_by_tuple(clause):
        return Window(_by_tuple(clause, stream, column), column)
    if clause.slide is None or clause.rattr or clause.sattr:
        raise UnsupportedError("the oracle evaluates [RANGE r SLIDE s]")
    origin = _point(clause.origin, kind, 0)
    if clause.kind in (WindowKind.SINCE, WindowKind.UNBOUNDED):
        begin = None if clause.since is None else _point(clause.since, kind, 0)
        return Window(Landmark(begin, clause.slide.amount, origin), column)
    return Window(Sliding(_range(clause), clause.slide.amount, origin, _amount(clause.offset)), column)


def _slides_by_tuple(clause: WindowClause) -> bool:
    if clause.kind not in (WindowKind.RANGE, WindowKind.NOW):
        return False
    if clause.slide is None:
        return clause.kind is WindowKind.NOW
    return clause.slide.unit is Unit.ROWS


def _by_tuple(clause: WindowClause, stream: CreateStream, column: str) -> ByTuple:
    if clause.offset is not None or clause.origin is not None:
        raise UnsupportedError("a window that slides by tuples has no OFFSET and no ORIGIN")
    every = 1 if clause.slide is None else clause.slide.amount
    if clause.sattr_is_rank:
        if clause.sattr is None or column_named(stream, clause.sattr) != column:
            raise UnsupportedError("SATTR rank(c) needs c to be the range attribute")
    elif clause.sattr is not None and clause.sattr.lower() not in _ROW_NUMBER:
        raise UnsupportedError("SATTR is row_num or rank(c)")
    return ByTuple(_range(clause), every, clause.sattr_is_rank)


def _of_rows(clause: WindowClause, stream: CreateStream) -> Window:
    if clause.slide is None or clause.slide.unit is not Unit.ROWS or clause.wattr or clause.rattr or clause.sattr:
        raise UnsupportedError("the oracle evaluates [ROWS n SLIDE m]")
    origin = 1 if clause.origin is None else int(clause.origin)
    shape = Sliding(_range(clause), clause.slide.amount, origin, _amount(clause.offset))
    return Window(shape, None, tuple(column_named(stream, name) for name in clause.pattr))


def axis_of(clause: WindowClause, stream: CreateStream) -> str:
    """The column that the window is on."""
    named = clause.rattr or clause.wattr or stream.timestamp_by
    if named is None:
        raise UnsupportedError("the stream has no TIMESTAMP BY column and the window names none")
    column = column_named(stream, named)
    if column not in attributes_of(stream):
        raise UnsupportedError(f"no PUNCTUATE covers '{column}'")
    return column


def _range(clause: WindowClause) -> int:
    return 1 if clause.range is None else clause.range.amount


def _amount(measure: Measure | None) -> int:
    return 0 if measure is None else measure.amount


def _point(written: str | int | None, kind: SqlType, default: int) -> int:
    if written is None:
        return default
    return written if isinstance(written, int) else point_of(moment_of(written), kind)
