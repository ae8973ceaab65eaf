"""The arguments of a lookup, the lengths and ends of windows, as points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from numbers import Integral
from typing import Any

from windrow.cql.intervals import parse_interval
from windrow.errors import BindError, WindrowError
from windrow.plan.bind_window import MOST_POINTS
from windrow.plan.nodes import Attribute
from windrow.types import POINT_MAX, POINT_MIN, moment_of, point_of


def length_of(window: object, attribute: Attribute) -> int:
    """The length of a window in points: "7 minutes" or a timedelta on a timestamp, else a whole number."""
    is_time, length = attribute.type.is_timestamp, None
    try:
        if is_time and isinstance(window, str):
            length = parse_interval(window)
        elif is_time and isinstance(window, timedelta):
            length = window // timedelta(microseconds=1)
        elif not is_time and isinstance(window, Integral) and not isinstance(window, bool):
            length = int(window)
    except (WindrowError, OverflowError):
        pass
    if length is None or not 0 < length <= MOST_POINTS:
        takes = (
            'a length such as "7 minutes" or a timedelta' if is_time else f"a whole number from 1 to {MOST_POINTS:,}"
        )
        raise BindError(f"{window!r} is not a window length on {attribute}", remedy=f"Give {takes}.")
    return length


def end_of(at: object, attribute: Attribute) -> int | None:
    """The end of a window as a point; None stays None."""
    if at is None:
        return None
    kind = attribute.type
    try:
        value: Any = moment_of(at) if kind.is_timestamp and isinstance(at, str) else at
        fits = isinstance(value, datetime) if kind.is_timestamp else isinstance(value, Integral)
        if fits and not isinstance(value, bool) and value == value:  # not pandas' NaT
            point = point_of(value, kind)
            if POINT_MIN // 2 <= point <= POINT_MAX // 2:
                return point
    except (ValueError, OverflowError):
        pass
    takes = "a datetime, or its text such as '2026-03-01 12:00:00'" if kind.is_timestamp else "a whole number"
    raise BindError(f"{at!r} is no point of {attribute}, which is {kind}", remedy=f"Give {takes}.")


def pairs_of(windows: object, ats: object, attribute: Attribute) -> tuple[list[int], list[int | None]]:
    """The lengths and ends of many windows. A single length applies to every end, a single end (or None) to every
    length."""
    lengths, ends = _listed(windows), _listed(ats)
    if lengths is None and ends is None:
        lengths, ends = [windows], [ats]
    elif lengths is None:
        lengths = [windows] * len(ends or ())
    elif ends is None:
        ends = [ats] * len(lengths)
    assert lengths is not None and ends is not None
    if len(lengths) != len(ends):
        raise BindError(
            f"{len(lengths)} windows and {len(ends)} ends",
            remedy="Give as many ends as windows, or one for all (itself, not a list of one).",
        )
    length_points: dict[object, int] = {length: length_of(length, attribute) for length in dict.fromkeys(lengths)}
    end_points: dict[object, int | None] = {end: end_of(end, attribute) for end in dict.fromkeys(ends)}
    return [length_points[length] for length in lengths], [end_points[end] for end in ends]


def _listed(given: object) -> Sequence[Any] | None:
    """Several values as a list; None for a single value."""
    if given is None or isinstance(given, (str, timedelta, datetime, Integral)) or not isinstance(given, Iterable):
        return None
    return given.tolist() if hasattr(given, "tolist") else list(given)
