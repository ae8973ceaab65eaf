"""One-time questions over windows, answered from the synopses of standing queries."""

from __future__ import annotations

from typing import Any

import pytest

from windrow.errors import BindError, UnsupportedError

from .conftest import Open
from .helpers import put
from .test_lookups import ROWS, brute, looked


@pytest.fixture
def asked(wr: Any) -> Any:
    wr.sql("CREATE QUERY q AS SELECT k, SUM(x) AS s, COUNT(*) AS n, MAX(x) AS m FROM s [RANGE 60 SLIDE 10] GROUP BY k")
    wr.sql("CREATE QUERY r AS SELECT COUNT(*) AS n FROM s [ROWS 20 SLIDE 5]")
    wr.sql("CREATE QUERY u AS SELECT SUM(x) AS s FROM s [RANGE 60 SLIDE 10] WHERE x > 5")
    put(wr, *ROWS)
    return wr


SELECT = "SELECT k, SUM(x) AS s, COUNT(*) AS n, MAX(x) AS m FROM s"


def test_a_select_over_a_window_without_slide_is_answered_from_a_synopsis(asked: Any) -> None:
    found = asked.sql(f"{SELECT} [RANGE 20] GROUP BY k ORDER BY k")
    assert looked(found) == [(70, 90, *row) for row in brute(70, 90)]
    assert asked.sql(f"{SELECT} [RANGE 60] GROUP BY k ORDER BY k").rows() == sorted(
        asked.queries["q"].answer().rows(), key=lambda row: row["k"]
    )


def test_an_offset_asks_for_a_historical_window(asked: Any) -> None:
    found = asked.sql(f"{SELECT} [RANGE 20 OFFSET 30] GROUP BY k ORDER BY k")
    assert looked(found) == [(40, 60, *row) for row in brute(40, 60)]


def test_other_aggregates_of_the_same_accumulators_are_there_too(asked: Any) -> None:
    found = asked.sql(
        "SELECT k, AVG(x) AS a, SUM(x) * 2 AS d FROM s [RANGE 30] GROUP BY k HAVING n > 0 ORDER BY k".replace(
            "HAVING n > 0", "HAVING COUNT(*) > 0"
        )
    )
    assert looked(found) == [(60, 90, k, s / n, s * 2) for k, s, n, _ in brute(60, 90)]
    assert looked(asked.sql("SELECT SUM(x) AS s FROM s [RANGE 10] WHERE x > 5")) == [
        (80, 90, sum(x for t, _, x in ROWS if 80 <= t < 90 and x > 5))
    ]


def test_windows_of_rows(asked: Any) -> None:
    assert looked(asked.sql("SELECT COUNT(*) AS n FROM s [ROWS 10]")) == [(86, 96, 10)]


def test_what_is_missing_is_said_with_the_query_that_would_have_it(asked: Any) -> None:
    with pytest.raises(UnsupportedError, match="does not keep the least of `x`") as told:
        asked.sql("SELECT k, MIN(x) AS m FROM s [RANGE 40] GROUP BY k ORDER BY m LIMIT 1")
    assert told.value.remedy == (
        "This standing query would keep what it needs: "
        "CREATE QUERY name AS SELECT k, MIN(x) AS m FROM s [RANGE 40 SLIDE 1] GROUP BY k ORDER BY m LIMIT 1"
    )
    with pytest.raises(UnsupportedError, match="longer than what is kept"):
        asked.sql(f"{SELECT} [RANGE 70] GROUP BY k")
    with pytest.raises(UnsupportedError, match="has an edge inside a pane"):
        asked.sql(f"{SELECT} [RANGE 15] GROUP BY k")
    with pytest.raises(UnsupportedError, match="is grouped by"):
        asked.sql("SELECT x, COUNT(*) AS n FROM s [RANGE 20] GROUP BY x")
    with pytest.raises(UnsupportedError, match="does not keep the count where `x` > 6"):
        asked.sql("SELECT SUM(x) AS s FROM s [RANGE 20] WHERE x > 6")


def test_the_query_that_is_proposed_makes_the_question_answerable(open_state: Open) -> None:
    wr = open_state()
    wr.sql("CREATE STREAM e (ts TIMESTAMP, k STRING) FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED")
    question = "SELECT k, COUNT(*) AS n FROM e [RANGE 7 MINUTES OFFSET 2 MINUTES] GROUP BY k HAVING COUNT(*) > 1"
    with pytest.raises(UnsupportedError, match="no standing query reads 'e'") as told:
        wr.sql(question)
    assert told.value.remedy is not None
    wr.sql(told.value.remedy.split(": ", 1)[1].replace("name", "q"))
    wr.deposit("e", [(f"2026-01-01 12:{m:02}:00", "ab"[m % 2]) for m in range(30)])
    assert [(row["k"], row["n"]) for row in wr.sql(question).rows()] == [("a", 4), ("b", 3)]


def test_the_freshest_of_the_synopses_that_fit_answers(asked: Any) -> None:
    asked.sql("SET cut_factor = 1")
    asked.sql("CREATE QUERY fine AS SELECT k, COUNT(*) AS n FROM s [RANGE 40 SLIDE 2] GROUP BY k")
    put(asked, *[(t, "a", 1) for t in range(95, 178)])
    assert looked(asked.sql("SELECT k, COUNT(*) AS n FROM s [RANGE 20] GROUP BY k")) == [(156, 176, "a", 20)]


def test_explain_shows_which_synopsis_would_answer(asked: Any) -> None:
    told = str(asked.sql(f"EXPLAIN {SELECT} [RANGE 20 OFFSET 10] GROUP BY k"))
    assert "Snapshot query" in told and "[RANGE 20 OFFSET 10]" in told and "kept for q" in told
    assert "answers [60, 80)" in told and "windows from 30 to 90 can be looked up" in told
    with pytest.raises(UnsupportedError, match="no synopsis can answer this"):
        asked.sql("EXPLAIN SELECT k, MIN(x) AS m FROM s [RANGE 20] GROUP BY k")


@pytest.mark.parametrize(
    ("window", "told"),
    [
        ("", "needs a window"),
        ("[RANGE 20 SLIDE 10]", "does not slide"),
        ("[NOW]", "over \\[RANGE r\\]"),
        ("[UNBOUNDED]", "over \\[RANGE r\\]"),
        ("[ROWS 10 PARTITION BY k]", "over \\[RANGE r\\]"),
        ("[RANGE 10 MINUTES]", "a plain number"),
    ],
)
def test_other_windows_are_refused_with_what_to_do(asked: Any, window: str, told: str) -> None:
    with pytest.raises(BindError, match=told) as error:
        asked.sql(f"SELECT COUNT(*) AS n FROM s {window}")
    assert error.value.remedy


def test_nothing_is_known_of_a_stream_that_is_not_there(asked: Any) -> None:
    with pytest.raises(UnsupportedError, match="a window of a stream, or dead_letters"):
        asked.sql("SELECT COUNT(*) AS n FROM nowhere")
