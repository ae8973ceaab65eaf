"""One-time queries over windows, answered from the synopses of standing queries."""

from __future__ import annotations

from typing import Any

import pytest

from windrow.engine.ask import snapshots
from windrow.engine.ask.onetime import asking
from windrow.errors import BindError, CatalogError, UnsupportedError

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


def test_select_over_a_window_without_slide(asked: Any) -> None:
    found = asked.sql(f"{SELECT} [RANGE 20] GROUP BY k ORDER BY k")
    assert looked(found) == [(70, 90, *row) for row in brute(70, 90)]
    assert asked.sql(f"{SELECT} [RANGE 60] GROUP BY k ORDER BY k").rows() == sorted(
        asked.queries["q"].answer().rows(), key=lambda row: row["k"]
    )


def test_offset_selects_a_historical_window(asked: Any) -> None:
    found = asked.sql(f"{SELECT} [RANGE 20 OFFSET 30] GROUP BY k ORDER BY k")
    assert looked(found) == [(40, 60, *row) for row in brute(40, 60)]


def test_other_aggregates_of_kept_accumulators(asked: Any) -> None:
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


def test_missing_accumulator_proposes_a_query(asked: Any) -> None:
    with pytest.raises(UnsupportedError, match="does not keep the least of `x`") as told:
        asked.sql("SELECT k, MIN(x) AS m FROM s [RANGE 40] GROUP BY k ORDER BY m LIMIT 1")
    assert told.value.remedy == (
        "Create the stream with RETAIN 40, which keeps its tuples for questions. "
        "This standing query would keep what it needs, too: "
        "CREATE QUERY name AS SELECT k, MIN(x) AS m FROM s [RANGE 40 SLIDE 1] GROUP BY k ORDER BY m LIMIT 1"
    )
    with pytest.raises(UnsupportedError, match="longer than what is kept"):
        asked.sql(f"{SELECT} [RANGE 70] GROUP BY k")
    with pytest.raises(UnsupportedError, match="windows can begin and end only every"):
        asked.sql(f"{SELECT} [RANGE 15] GROUP BY k")
    with pytest.raises(UnsupportedError, match="is grouped by"):
        asked.sql("SELECT x, COUNT(*) AS n FROM s [RANGE 20] GROUP BY x")
    with pytest.raises(UnsupportedError, match="does not keep the count where `x` > 6"):
        asked.sql("SELECT SUM(x) AS s FROM s [RANGE 20] WHERE x > 6")


def test_proposed_query_makes_it_answerable(open_state: Open) -> None:
    wr = open_state()
    wr.sql("CREATE STREAM e (ts TIMESTAMP, k STRING) FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED")
    question = "SELECT k, COUNT(*) AS n FROM e [RANGE 7 MINUTES OFFSET 2 MINUTES] GROUP BY k HAVING COUNT(*) > 1"
    with pytest.raises(UnsupportedError, match="no standing query can answer this: none with SLIDE reads 'e'") as told:
        wr.sql(question)
    assert told.value.remedy is not None
    wr.sql(told.value.remedy.split(": ", 1)[1].replace("name", "q"))
    wr.deposit("e", [(f"2026-01-01 12:{m:02}:00", "ab"[m % 2]) for m in range(30)])
    assert [(row["k"], row["n"]) for row in wr.sql(question).rows()] == [("a", 4), ("b", 3)]


def test_error_place_is_the_stream_and_window(asked: Any) -> None:
    with pytest.raises(UnsupportedError, match="no standing query can answer") as told:
        asked.sql("SELECT k, MIN(x) AS m\nFROM s [RANGE 40]\nGROUP BY k")
    place = told.value.place
    assert place is not None and (place.line, place.column, place.length) == (2, 6, len("s [RANGE 40]"))


def test_value_columns_are_not_named_as_groups(asked: Any) -> None:
    asked.sql(
        "CREATE QUERY m AS SELECT k, MEDIAN(x) AS m, COUNT(DISTINCT t) AS d FROM s [RANGE 60 SLIDE 10] GROUP BY k"
    )
    with pytest.raises(UnsupportedError) as told:
        asked.sql("SELECT k, MEDIAN(x) AS m FROM s [RANGE 20] GROUP BY k")
    assert "the state of q counts the values of no column, and this needs those of `x`" in told.value.message
    assert "the state of m counts the values of `x`, `t` together, and this needs those of `x`" in told.value.message
    with pytest.raises(UnsupportedError, match="the state of m is grouped by `k`"):
        asked.sql("SELECT MEDIAN(x) AS m FROM s [RANGE 20]")
    asked.sql("DROP QUERY q")
    with pytest.raises(UnsupportedError, match="the state of m counts .* together, and this needs no such counts"):
        asked.sql("SELECT k, SUM(x) AS s FROM s [RANGE 20] GROUP BY k")


@pytest.mark.parametrize("offset", [0, 7])
def test_wait_after_creating_the_proposed_query(asked: Any, offset: int) -> None:
    question = "SELECT MIN(x) AS m FROM s [RANGE 5]".replace("]", f" OFFSET {offset}]" if offset else "]")
    with pytest.raises(UnsupportedError, match="no standing query can answer") as told:
        asked.sql(question)
    assert told.value.remedy is not None
    asked.sql(told.value.remedy.split(": ", 1)[1].replace("name", "least"))
    with pytest.raises(UnsupportedError) as told:
        asked.sql(question)
    first = "the state of least has what it needs from 95 on: its first complete window of 5 is [95, 100)"
    assert told.value.message.split("; ")[0].endswith(first)
    assert told.value.remedy == f"Ask again when the stream is closed up to {100 + offset}; now it is up to 94."
    for t in range(95, 100 + offset):
        put(asked, (t, "a", t))
        with pytest.raises(UnsupportedError, match="first complete window of 5"):
            asked.sql(question)
    put(asked, (100 + offset, "a", 1))
    assert looked(asked.sql(question)) == [(95, 100, 95)]


def test_nothing_closed_yet(wr: Any) -> None:
    wr.sql("CREATE QUERY q AS SELECT SUM(x) AS s FROM s [RANGE 10 SLIDE 1]")
    with pytest.raises(UnsupportedError, match="has what it needs, but stream 's' has no closed window") as told:
        wr.sql("SELECT SUM(x) AS s FROM s [RANGE 10]")
    assert told.value.remedy == "Lookups read closed windows: feed rows, or punctuate."


def test_window_longer_than_kept(asked: Any) -> None:
    asked.sql("CREATE QUERY least AS SELECT MIN(x) AS m FROM s [RANGE 10 SLIDE 10]")
    with pytest.raises(UnsupportedError, match="longer than what is kept") as told:
        asked.sql("SELECT MIN(x) AS m FROM s [RANGE 400]")
    assert told.value.remedy is not None and "CREATE QUERY name" in told.value.remedy


def test_no_derivation_with_ss4_off(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for x in (1, 2):
        asked.sql(f"CREATE QUERY v{x} AS SELECT COUNT(*) AS n FROM s [RANGE 60 SLIDE 10] WHERE x = {x}")
    put(asked, *[(t, "a", t % 3) for t in range(96, 200)])
    question = "SELECT COUNT(*) AS n FROM s [RANGE 10] WHERE x = 1 OR x = 2"
    assert looked(asked.sql(question)) == [(180, 190, sum(t % 3 > 0 for t in range(180, 190)))]
    asked.sql("SET disabled_rules = 'SS4'")
    with pytest.raises(UnsupportedError, match="does not keep the count"):
        asked.sql(question)
    asked.sql("SET disabled_rules = ''")
    searched: list[object] = []
    monkeypatch.setattr(snapshots, "derivations_of", lambda *given: searched.append(given) or ())
    with pytest.raises(UnsupportedError, match="is grouped by"):
        asked.sql("SELECT x, t, COUNT(*) AS n FROM s [RANGE 20] GROUP BY x, t")
    assert not searched  # a synopsis that does not fit is rejected before the search for covers


def test_freshest_synopsis_answers(asked: Any) -> None:
    asked.sql("SET cut_factor = 1")
    asked.sql("CREATE QUERY fine AS SELECT k, COUNT(*) AS n FROM s [RANGE 40 SLIDE 2] GROUP BY k")
    put(asked, *[(t, "a", 1) for t in range(95, 178)])
    assert looked(asked.sql("SELECT k, COUNT(*) AS n FROM s [RANGE 20] GROUP BY k")) == [(156, 176, "a", 20)]


def test_explain_names_the_synopsis(asked: Any) -> None:
    told = str(asked.sql(f"EXPLAIN {SELECT} [RANGE 20 OFFSET 10] GROUP BY k"))
    assert "Snapshot query" in told and "[RANGE 20 OFFSET 10]" in told and "kept for q" in told
    assert "answers [60, 80)" in told and "windows from 30 to 90 can be looked up" in told
    plan = asked.sql("EXPLAIN SELECT k, MIN(x) AS m FROM s [RANGE 20] GROUP BY k").plan
    assert plan.startswith("Query query: continuous") and "GroupBy by k" in plan
    assert "Asked once: no standing query can answer this: the state of q" in plan


@pytest.mark.parametrize(
    ("window", "told"),
    [
        ("", "needs a window"),
        ("[RANGE 20 SLIDE 10]", "does not slide"),
        ("[NOW]", "no tuples of stream 's' are kept"),
        ("[UNBOUNDED]", "no tuples of stream 's' are kept"),
        ("[ROWS 10 PARTITION BY k]", "no tuples of stream 's' are kept"),
        ("[RANGE 10 MINUTES]", "RANGE on 't' \\(BIGINT\\) is a plain number"),
        ("[RANGE 10 OFFSET 1 MINUTE]", "OFFSET on 't' \\(BIGINT\\) is a plain number"),
        ("[SINCE 10]", "no tuples of stream 's' are kept"),
    ],
)
def test_other_windows_are_refused(asked: Any, window: str, told: str) -> None:
    with pytest.raises(BindError, match=told) as error:
        asked.sql(f"SELECT COUNT(*) AS n FROM s {window}")
    assert error.value.remedy and error.value.place is not None
    assert "SLIDE" not in error.value.remedy or "SLIDE" in window


def test_unknown_stream(asked: Any) -> None:
    with pytest.raises(CatalogError, match="there is no stream or query 'nowhere'") as refused:
        asked.sql("SELECT COUNT(*) AS n FROM nowhere")
    assert "s" in (refused.value.remedy or "").removeprefix("Known: ").rstrip(".").split(", ")


def test_finisher_forgets_statements(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was generated for a text goes with its plan."""
    monkeypatch.setattr(asking, "MOST_TEXTS", 1)
    finisher = asked._engine.ticker.finisher
    question = "SELECT k, SUM(x) * 2 AS d FROM s [RANGE 30] GROUP BY k HAVING COUNT(*) > {} AND SUM(x) + 1 > 2"
    for n in range(3):
        assert asked.sql(question.format(n)).rows()
    assert len(finisher._tests) == 1, "only the last text is remembered"
    query = asked.query("h", question.format(1).replace("RANGE 30", "RANGE 30 SLIDE 10"))
    put(asked, *[(t, "a", 1) for t in range(95, 131)])
    assert query.answers().rows() and finisher._texts and finisher._tests
    asked.sql("DROP QUERY h")
    assert len(finisher._tests) == 1, "only the last text is remembered"
