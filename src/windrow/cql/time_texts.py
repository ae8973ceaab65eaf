"""Texts that are dates and times, as Spark reads them; and those that it would read by the clock."""

from __future__ import annotations

import re
from calendar import monthrange

_DATE = re.compile(r"\s*[+-]?(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](.*))?)?)?\s*", re.S)
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2}))?)?(?!\d).*", re.S)
_TIME_OF_DAY = re.compile(r"\s*T?\d{1,2}:.*", re.S)
_WORDS = ("now", "today", "tomorrow", "yesterday")
EPOCH = "epoch"
"""The word that Spark reads as 1970-01-01."""


def is_read_by_clock(text: str, is_date: bool) -> bool:
    """Whether the text is another time whenever it is read: 'now', or as a TIMESTAMP '12:00', which is of today."""
    return text.strip().lower() in _WORDS or (not is_date and _TIME_OF_DAY.fullmatch(text) is not None)


def is_time_text(text: str, is_date: bool) -> bool:
    """Whether the text is a day of the calendar, with a time of day or without. In doubt, as of zones, yes. Of a DATE,
    Spark ignores the time of day."""
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = int(match[1]), int(match[2] or 1), int(match[3] or 1)
    if not 1 <= month <= 12 or not 1 <= day <= monthrange(2000 + year % 400, month)[1]:
        return False
    return is_date or _is_clock((match[4] or "").strip())


def _is_clock(text: str) -> bool:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return not text
    hour, minute, second = (int(part or 0) for part in match.groups())
    return hour < 24 and minute < 60 and second < 60


def by_clock(text: str) -> str:
    """Why a text that is read by the clock is refused."""
    return f"'{text}' is another time whenever it is read, and the same input must always give the same answer"


def how_to_write(is_date: bool) -> str:
    """The remedy for a text that is none."""
    return f"Write {'the date as' if is_date else 'the time as'} '2026-03-01{'' if is_date else ' 08:00:00'}'."
