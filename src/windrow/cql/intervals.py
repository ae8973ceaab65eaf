"""Convert lengths of time ("5 seconds", "0.5 SECONDS") to whole microseconds and back.

Days have 24 hours and weeks seven days. Months and years have no fixed length and are refused.
"""

from __future__ import annotations

import re
from decimal import Decimal

from windrow.errors import ParseError, Place
from windrow.types import UNITS_US

MAX_AMOUNT = 2**63 - 1
"""Lengths and counts fit into a BIGINT, like the window attributes to which they are added."""

_SHORT_FORMS = {
    "US": "MICROSECOND",
    "MS": "MILLISECOND",
    "S": "SECOND",
    "SEC": "SECOND",
    "SECS": "SECOND",
    "MIN": "MINUTE",
    "MINS": "MINUTE",
    "H": "HOUR",
    "D": "DAY",
}
_NO_FIXED_LENGTH = {"MONTH", "MONTHS", "QUARTER", "QUARTERS", "YEAR", "YEARS"}

UNIT_WORDS = frozenset([*UNITS_US, *(unit + "S" for unit in UNITS_US)])
"""The units written in full, for suggestions."""

_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+", re.ASCII)
_INTERVAL = re.compile(r"\s*([+-]?[0-9.][0-9.eE_]*)\s*([^\s0-9]+)\s*", re.ASCII)


def unit_us(word: str) -> int | None:
    """The microseconds in a unit (any case; singular, plural or short form); None if it is not a unit."""
    upper = word.upper()
    upper = _SHORT_FORMS.get(upper, upper)
    return UNITS_US.get(upper) or UNITS_US.get(upper.removesuffix("S"))


def unit_remedy(word: str) -> str | None:
    """What to write instead of a word that is not a unit, if that is known."""
    upper = word.upper()
    if upper in _NO_FIXED_LENGTH:
        return "Months and years have no fixed length; write days (a day is 24 hours)."
    if upper == "M":
        return "'m' could be minutes or months; write MINUTES."
    return None


def to_microseconds(number: str, unit: str, place: Place | None = None) -> int:
    """`number` (an unsigned decimal) of `unit` in whole microseconds; raises ParseError."""
    size_us = unit_us(unit)
    if size_us is None:
        raise ParseError(
            f"'{unit}' is not a unit of time",
            place=place,
            remedy=unit_remedy(unit) or f"Units are {', '.join(u + 'S' for u in UNITS_US)}.",
        )
    if not _NUMBER.fullmatch(number) or len(number) > 100:
        raise ParseError(f"'{number[:40]}' is not a plain number", place=place)
    amount = Decimal(number) * size_us
    if amount != amount.to_integral_value():
        raise ParseError(f"{number} {unit} is not a whole number of microseconds", place=place)
    if amount > MAX_AMOUNT:
        raise ParseError(f"{number} {unit} is too long", place=place)
    return int(amount)


def parse_interval(text: str) -> int:
    """The microseconds of a text such as "5 seconds" or "250 ms"; raises ParseError, also for negative lengths."""
    match = _INTERVAL.fullmatch(text)
    if match is None:
        raise ParseError(f"'{text}' is not a length of time", remedy='For example "5 seconds".')
    number, unit = match.groups()
    if number.startswith("-"):
        raise ParseError(f"a length of time is not negative: '{text}'")
    return to_microseconds(number.removeprefix("+"), unit)


def format_interval(amount_us: int) -> str:
    """The length as a whole number of the largest possible unit: 90,000,000 is "90 SECONDS"."""
    if amount_us < 0:
        raise ValueError("a length of time is not negative")
    if amount_us == 0:
        return "0 SECONDS"
    for unit, size_us in reversed(UNITS_US.items()):
        if amount_us % size_us == 0:
            count = amount_us // size_us
            return f"{count} {unit}{'' if count == 1 else 'S'}"
    raise AssertionError("a microsecond divides every length")
