"""Texts of dates and times are those that Spark reads, and reads alike whenever it does."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest

from windrow.cql import parse_one
from windrow.cql.functions import check_functions
from windrow.cql.time_texts import is_read_by_clock, is_time_text
from windrow.errors import BindError
from windrow.types import day_of

TEXTS = (
    *("2026-03-01", " 2026-03-01 ", "2026-3-1", "2026-03", "2026", "+2026-03-01", "12026-03-01"),
    *("2024-02-29", "2026-02-29", "2026-02-30", "2000-02-29", "1900-02-29", "2026-13-01", "2026-00-01", "2026-04-31"),
    *(
        "2026-03-00",
        "2026-03-32",
        "26-03-01",
        "20260301x",
        "xyz",
        "2026-03-01x",
        "2026/03/01",
        "01.03.2026",
        "2026-3-1-1",
    ),
    *("2026-03-01 10:00:00", "2026-03-01T10:00:00", "2026-03-01 10:00:00.25", "2026-03-01 10:00", "2026-03-01 1:2:3"),
    *("2026-03-01 24:00:00", "2026-03-01 10:60:00", "2026-03-01 10:00:60", "2026-02-30 10:00:00"),
    *("2026-03-01T10:00:00Z", "2026-03-01 10:00:00+02:00", "2026-03-01 10:00:00 Europe/Rome", "2026-03-01 "),
)
BY_CLOCK = ("12:00", "T12:00:00", " 9:30", "now", "today", "Tomorrow", "yesterday ")


def test_spark_reads_them(spark: Any) -> None:
    frame = spark.createDataFrame([(text,) for text in TEXTS], "t STRING")
    rows = frame.selectExpr("t", "CAST(t AS DATE) IS NULL AS d", "CAST(t AS TIMESTAMP) IS NULL AS s").collect()
    read = {(row.t, is_date): not (row.d if is_date else row.s) for row in rows for is_date in (True, False)}
    assert {(text, is_date): is_time_text(text, is_date) for text, is_date in read} == read
    assert not any(is_read_by_clock(text, is_date) for text, is_date in read)


def test_the_clock() -> None:
    assert all(is_read_by_clock(text, False) for text in BY_CLOCK)
    assert [text for text in BY_CLOCK if is_read_by_clock(text, True)] == list(BY_CLOCK[3:])
    assert not any(is_time_text(text, is_date) for text in BY_CLOCK for is_date in (True, False))


@pytest.mark.parametrize(
    ("literal", "why"),
    [
        ("DATE '2026-02-30'", "'2026-02-30' is no DATE"),
        ("TIMESTAMP '2026-02-30 12:00:00'", "is no TIMESTAMP"),
        ("CAST('xyz' AS DATE)", "'xyz' is no DATE"),
        ("TIMESTAMP 'now'", "'now' is another time whenever it is read"),
        ("TIMESTAMP '12:00'", "'12:00' is another time whenever it is read"),
        ("TRY_CAST('today' AS DATE)", "'today' is another time whenever it is read"),
        ("TIMESTAMP_NTZ '2026-13-01 00:00:00'", "is no TIMESTAMP"),
    ],
)
def test_refused_literals(literal: str, why: str) -> None:
    text = f"CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 1 HOUR SLIDE 1 HOUR] WHERE x = {literal}"
    with pytest.raises(BindError, match=why) as raised:
        check_functions(parse_one(text).select, text)
    assert raised.value.place is not None and raised.value.remedy


@pytest.mark.parametrize(
    "literal",
    [
        "DATE '2026-02-28'",
        "TIMESTAMP '2026-02-28 12:00:00'",
        "TRY_CAST('xyz' AS DATE)",
        "TIMESTAMP 'epoch'",
        "CAST(x AS DATE)",
    ],
)
def test_other_literals(literal: str) -> None:
    text = f"CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 1 HOUR SLIDE 1 HOUR] WHERE x = {literal}"
    check_functions(parse_one(text).select, text)


def test_days() -> None:
    day = date(2026, 3, 1)
    for value in (
        day,
        "2026-03-01",
        pd.Timestamp("2026-03-01"),
        np.datetime64("2026-03-01"),
        pd.Timestamp("2026-03-01", tz="UTC"),
    ):
        assert day_of(value) == day
    assert day_of(None) is None and day_of(pd.NaT) is None
    for value in (20_000, 1.5, True, "2026-03-01 10:00:00", "2026-02-30", pd.Timestamp("2026-03-01 10:00")):
        with pytest.raises(ValueError):
            day_of(value)
