"""Lengths of time: text to microseconds and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.cql.intervals import MAX_AMOUNT, format_interval, parse_interval
from windrow.errors import ParseError


@pytest.mark.parametrize(
    ("text", "amount_us"),
    [
        ("5 seconds", 5_000_000),
        ("1 SECOND", 1_000_000),
        ("0.5 SECONDS", 500_000),
        (".25 s", 250_000),
        ("250ms", 250_000),
        ("7 us", 7),
        ("333 milliseconds", 333_000),
        ("2 Minutes", 120_000_000),
        ("1.5 hours", 5_400_000_000),
        ("3 days", 259_200_000_000),
        ("1 week", 604_800_000_000),
        ("  10   min ", 600_000_000),
        ("+4 h", 14_400_000_000),
        ("0 seconds", 0),
    ],
)
def test_parse_interval(text: str, amount_us: int) -> None:
    assert parse_interval(text) == amount_us


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a length of time"),
        ("5", "not a length of time"),
        ("seconds", "not a length of time"),
        ("-5 seconds", "not negative"),
        ("5 fortnights", "not a unit"),
        ("1 month", "not a unit"),
        ("2 years", "not a unit"),
        ("5 m", "minutes or months"),
        ("0.0000001 seconds", "whole number of microseconds"),
        ("1e3 seconds", "not a plain number"),
        ("1.2.3 seconds", "not a plain number"),
        ("9999999999999 weeks", "too long"),
        ("٣ seconds", "not a length of time"),
    ],
)
def test_bad_intervals(text: str, says: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_interval(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("amount_us", "text"),
    [
        (0, "0 SECONDS"),
        (1, "1 MICROSECOND"),
        (1_500, "1500 MICROSECONDS"),
        (90_000_000, "90 SECONDS"),
        (60_000_000, "1 MINUTE"),
        (14 * 86_400_000_000, "2 WEEKS"),
    ],
)
def test_format_interval(amount_us: int, text: str) -> None:
    assert format_interval(amount_us) == text


@given(st.integers(0, MAX_AMOUNT))
def test_format_and_parse(amount_us: int) -> None:
    assert parse_interval(format_interval(amount_us)) == amount_us
