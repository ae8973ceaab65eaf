"""Statements that no other test would write: every outcome is an answer or a WindrowError."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import windrow
from windrow.errors import WindrowError

MANY = "9" * 5000
LONG = "9" * 39
WINDOW = "FROM s [RANGE 10 SLIDE 10]"
LETTERS = "FROM dead_letters('s')"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (f"CREATE QUERY q AS SELECT SUM({LONG}) AS n {WINDOW}", "at most 38 digits, and this one has 39"),
        (f"CREATE QUERY q AS SELECT COUNT(*) AS n {WINDOW} WHERE x < {LONG}", "at most 38 digits"),
        (f"CREATE QUERY q AS SELECT SUM(x) + 0.{LONG} AS n {WINDOW}", "at most 38 digits"),
        (f"CREATE QUERY q AS SELECT SUM(x) + 1e{LONG} AS n {WINDOW}", "exponent"),
        (f"CREATE QUERY q AS SELECT SUM(CAST(x AS DECIMAL(50, 2))) AS n {WINDOW}", "precision from 1 to 38"),
        (f"CREATE QUERY q AS SELECT CAST(SUM(x) AS DECIMAL({MANY}, 2)) AS n {WINDOW}", "precision from 1 to 38"),
        (f"CREATE QUERY q AS SELECT ROUND(AVG(x), {MANY}) AS n {WINDOW}", "at most 38 digits"),
        (f"CREATE QUERY q AS SELECT COUNT(*) AS n {WINDOW} LIMIT {MANY}", "this one has 5,000"),
        (f"CREATE QUERY q AS SELECT COUNT(*) AS n {WINDOW} LIMIT 99999999999", "LIMIT is a whole number from 0 to"),
        (f"CREATE QUERY q AS SELECT k, COUNT(*) AS n {WINDOW} GROUP BY {MANY}", "this one has 5,000"),
        (f"CREATE QUERY q AS SELECT k, COUNT(*) AS n {WINDOW} GROUP BY k ORDER BY {MANY}", "this one has 5,000"),
        (f"SELECT reason {LETTERS} LIMIT {MANY}", "this one has 5,000"),
        (f"SELECT {LONG} {LETTERS}", "at most 38 digits"),
        (f"CREATE QUERY q AS SELECT COUNT(*) AS n {WINDOW} INTO jsonl OPTIONS (path 'a\\0b')", "null byte"),
        ("CREATE STREAM f (x INT) FROM files OPTIONS (path 'a\\0b', format 'json')", "null byte"),
        ("CREATE STREAM `a\0b` (x INT) FROM memory", "null byte"),
        ("SELECT '" + "x" * 1_000_001 + f"' AS n {LETTERS}", "at most 1,000,000 are allowed"),
        ("SHOW STREAMS " + " " * 16_000_001, "at most 16,000,000 are read"),
    ],
)
def test_statement_is_refused(wr: windrow.Windrow, statement: str, said: str) -> None:
    with pytest.raises(WindrowError) as refused:
        wr.sql(statement)
    assert said in refused.value.message


def test_path_of_a_state_directory_with_a_null_byte() -> None:
    with pytest.raises(WindrowError, match="null byte"):
        windrow.open("a\0b")


NAMES = (
    "user current_user session_user current_date current_time current_timestamp current_catalog current_database "
    "current_schema localtime localtimestamp"
).split()


@pytest.mark.parametrize("name", NAMES)
def test_bare_function_over_dead_letters(wr: windrow.Windrow, name: str) -> None:
    for written in (name, f"`{name}`", name.upper()):
        for query in (
            f"SELECT {written} {LETTERS}",
            f"SELECT COUNT(*) AS n {LETTERS} WHERE {written} IS NOT NULL",
            f"SELECT reason, COUNT(*) AS n {LETTERS} GROUP BY reason, {written}",
            f"SELECT reason AS `{name}` {LETTERS} WHERE {written} IS NOT NULL",
        ):
            with pytest.raises(WindrowError) as refused:
                wr.sql(query)
            assert refused.value.code in ("WR210", "WR200"), query
            assert refused.value.message.startswith("the function "), query


def test_columns_and_aliases_over_dead_letters(wr: windrow.Windrow) -> None:
    wr.sql(
        "SELECT REASON AS why, COUNT(*) AS n FROM dead_letters('s') AS d WHERE d.batch >= 0 GROUP BY why HAVING n > 0"
    )
    wr.sql(f"SELECT * {LETTERS} ORDER BY batch")
    with pytest.raises(WindrowError, match="Did you mean 'reason'"):
        wr.sql(f"SELECT reasons {LETTERS}")


def test_stream_with_a_column_called_user(open_state: Any) -> None:
    wr = open_state()
    wr.sql("CREATE STREAM s (t INT, user STRING) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    q = wr.query("q", "SELECT user, COUNT(*) AS n FROM s [RANGE 10 SLIDE 10] WHERE user <> 'b' GROUP BY user")
    wr.deposit("s", [(1, "a"), (2, "b"), (11, "a")])
    assert [(row["user"], row["n"]) for row in q.answers().rows()] == [("a", 1)]


def test_window_that_begins_before_the_year_1(open_state: Any) -> None:
    wr = open_state()
    wr.sql("CREATE STREAM s (ts TIMESTAMP) FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED")
    q = wr.query("q", "SELECT COUNT(*) AS n FROM s [RANGE 2 DAYS SLIDE 1 DAY]")
    wr.deposit("s", [("0001-01-01 05:00:00",), ("0001-01-05 00:00:00",)])
    assert q.answers().rows()[0]["window_start"] == np.datetime64("0000-12-31")
    assert "0000-12-31 00:00:00 | 0001-01-02 00:00:00" in str(q.answers())
