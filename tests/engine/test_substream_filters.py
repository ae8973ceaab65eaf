"""SubStream Filters in the engine: their use, EXPLAIN, approximate answers, and queries that cannot be filtered."""

from __future__ import annotations

from typing import Any

import pytest

from windrow.synopses.answering import costs

from .conftest import Open
from .helpers import answers, put, state_of

STREAM = "CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"


def filters_of(wr: Any, query: str = "q") -> Any:
    """The filters of a query's synopsis."""
    states = state_of(wr).synopses.values()
    return next(state.having for state in states if query in dict(state.plan.queries))


def line(wr: Any, query: str) -> str:
    found = [one.strip() for one in wr.queries[query].explain().splitlines() if "SubStream Filter" in one]
    assert len(found) == 1
    return found[0]


def having(wr: Any, query: str) -> str:
    return next(one.strip() for one in wr.queries[query].explain().splitlines() if one.startswith("  Having"))


def test_thresholds_and_windows_share_one_filter(open_state: Open) -> None:
    wr = open_state(substream_filters="on", filter_epsilon="0.5")
    wr.sql(STREAM)
    wr.query("q", "SELECT k, COUNT(*) AS n FROM s [RANGE 10 SLIDE 5] GROUP BY k HAVING COUNT(*) > 1")
    wr.query("other", "SELECT k, SUM(x) AS x FROM s [RANGE 20 SLIDE 5] GROUP BY k HAVING COUNT(*) >= 3 AND k <> 'z'")
    wr.query("plain", "SELECT k, SUM(x) AS x FROM s [RANGE 20 SLIDE 5] GROUP BY k")
    put(wr, (1, "a", 1), (2, "a", 2), (3, "b", 3), (6, "a", 4), (11, "b", 5))
    assert answers(wr, "q") == [(-5, 5, "a", 2), (0, 10, "a", 3)]
    assert answers(wr, "other") == [(-10, 10, "a", 7)]
    assert len(filters_of(wr).decisions) == 1 and filters_of(wr).filters.size
    assert line(wr, "q").startswith("SubStream Filter CI-COUNT for COUNT > 1, ε 0.5, shared by 2 queries, exact; used")
    put(wr, (16, "c", 1))
    assert "of 3 groups" in line(wr, "other") and "of which pass" in line(wr, "other")
    assert "SubStream" not in wr.queries["plain"].explain()
    wr.sql("DROP QUERY other")
    assert "not shared" in line(wr, "q")


def test_unused_filter_is_dropped(open_state: Open) -> None:
    wr = open_state(substream_filters="on")
    wr.sql(STREAM)
    wr.query("q", "SELECT k FROM s [RANGE 10 SLIDE 5] GROUP BY k HAVING COUNT(*) > 1")
    wr.query("sums", "SELECT k FROM s [RANGE 10 SLIDE 5] GROUP BY k HAVING SUM(x) > 1")
    put(wr, (1, "a", 1), (2, "a", 2), (6, "a", 1))
    assert len(filters_of(wr).filters._filters) == len(filters_of(wr).filters._shares) == 2
    wr.sql("DROP QUERY sums")
    put(wr, (11, "a", 1))
    assert len(filters_of(wr).filters._filters) == len(filters_of(wr).filters._shares) == 1
    wr.sql("SET substream_filters = 'off'")
    put(wr, (16, "a", 1))
    assert not filters_of(wr).filters.size
    assert line(wr, "q") == "SubStream Filter: none, switched off"
    assert answers(wr, "q") == [(-5, 5, "a"), (0, 10, "a"), (5, 15, "a")]


def test_negative_sums_are_right_and_end_what_cannot_stand_them(open_state: Open) -> None:
    wr = open_state(substream_filters="on")
    wr.sql(STREAM)
    wr.query("q", "SELECT k, SUM(x) AS x FROM s [RANGE 10 SLIDE 5] GROUP BY k HAVING SUM(x) > 3")
    wr.query("less", "SELECT k, SUM(x) AS x FROM s [RANGE 10 SLIDE 5] GROUP BY k HAVING SUM(x) < 4")
    put(wr, (1, "a", 9), (2, "b", 4), (3, "c", 0), (4, "d", None), (6, "a", -8), (7, "b", None), (12, "b", 1))
    told = line(wr, "less")
    assert "; used, forced" in told and "answered exactly without it: they hold negative" in told
    assert "exactly without it" not in line(wr, "q")
    put(wr, (16, "c", 2), (21, "c", 3))
    assert answers(wr, "q") == [(-5, 5, "a", 9), (-5, 5, "b", 4), (0, 10, "b", 4)]
    assert sorted(answers(wr, "less")) == [
        (-5, 5, "c", 0),
        (0, 10, "a", 1),
        (0, 10, "c", 0),
        (5, 15, "a", -8),
        (5, 15, "b", 1),
        (10, 20, "b", 1),
        (10, 20, "c", 2),
    ]
    put(wr, (26, "c", 3))
    assert "exactly without it" not in line(wr, "less")  # the last window, [15, 25), holds none


def test_approximate_answers_have_everyone_who_passes_and_none_below_the_relaxed_bound(open_state: Open) -> None:
    wr = open_state(substream_filters="on", filter_epsilon="0.75", approximate_having="on")
    wr.sql(STREAM)
    wr.query("q", "SELECT k FROM s [RANGE 10 SLIDE 10] GROUP BY k HAVING COUNT(*) > 11")
    wr.query(
        "counts", "SELECT k, COUNT(*) AS n FROM s [RANGE 10 SLIDE 10] GROUP BY k HAVING COUNT(*) > 11 AND k <> 'n9'"
    )
    wr.query("between", "SELECT k FROM s [RANGE 10 SLIDE 10] GROUP BY k HAVING COUNT(*) BETWEEN 12 AND 13")
    rows = [(t % 10, f"n{number}", 1) for number in range(20) for t in range(number)]
    put(wr, *sorted(rows), (10, "n1", 1))
    named = {row[2] for row in answers(wr, "q")}
    assert {f"n{number}" for number in range(12, 20)} < named <= {f"n{number}" for number in range(3, 20)}
    shown = {row[2]: row[3] for row in answers(wr, "counts")}
    assert set(shown) == named - {"n9"} and all(name == f"n{count}" for name, count in shown.items())
    assert {row[2] for row in answers(wr, "between")} == {"n12", "n13"}
    assert "approximate: groups above 2.75 may be shown" in line(wr, "q")
    assert ", exact;" in line(wr, "between")
    relaxed = "COUNT > 11 is not compared: groups above 2.75 may be shown (approximate_having)"
    assert having(wr, "q") == f"Having {relaxed}" and having(wr, "counts") == f"Having k0 <> 'n9'; {relaxed}"
    assert having(wr, "between") == "Having a0 BETWEEN 12 AND 13"
    wr.sql("SET substream_filters = 'auto'")
    wr.query("new", "SELECT k FROM s [RANGE 10 SLIDE 10] GROUP BY k HAVING SUM(x) > 11")
    assert having(wr, "new") == "Having a0 > 11" and "approximate where it is used: groups above" in line(wr, "new")
    put(wr, (21, "n1", 1), (31, "n1", 1))
    assert having(wr, "new") == "Having a0 > 11" and ", exact; not used" in line(wr, "new")
    wr.sql("SET approximate_having = 'off'")
    assert having(wr, "q") == "Having a0 > 11" and ", exact;" in line(wr, "q")


def test_revised_streams_are_never_approximate(open_state: Open) -> None:
    wr = open_state(substream_filters="on", filter_epsilon="0.75", approximate_having="on")
    wr.sql(f"{STREAM} LATE REVISE")
    wr.query("q", "SELECT k FROM s [RANGE 10 SLIDE 10] GROUP BY k HAVING COUNT(*) > 2")
    put(wr, (1, "a", 1), (2, "a", 1), (3, "b", 1), (4, "b", 1), (5, "b", 1), (10, "a", 1))
    put(wr, (6, "a", 1), (21, "a", 1))
    assert [row[2] for row in answers(wr, "q")] == ["b", "a"]
    assert ", exact;" in line(wr, "q")


def test_auto_measures_first_and_then_goes_by_costs(open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    wr = open_state()
    wr.sql(STREAM)
    wr.query("q", "SELECT k FROM s [RANGE 10 SLIDE 5] GROUP BY k HAVING COUNT(*) > 1")
    put(wr, (1, "a", 1), (2, "a", 2), (3, "b", 3), (6, "a", 4))
    assert "not used, not measured yet" in line(wr, "q")
    put(wr, (11, "a", 1))
    assert "not used, by cost" in line(wr, "q") and "50.00% of which pass" in line(wr, "q")
    monkeypatch.setattr(costs, "FEED_NS", dict.fromkeys(costs.FEED_NS, 0.0))
    monkeypatch.setattr(costs, "LOOK_NS", 0.0)
    monkeypatch.setattr(costs, "NARROWED_NS", 0.0)
    monkeypatch.setattr(costs, "GATHERING_NS", 0.0)
    monkeypatch.setattr(costs, "FINISH_NS", 1e6)
    put(wr, (12, "b", 1), (16, "a", 1))
    assert "; used, by cost" in line(wr, "q")
    monkeypatch.setattr(costs, "FEED_NS", dict.fromkeys(costs.FEED_NS, 1e9))
    put(wr, (17, "b", 1), (21, "a", 1))
    assert "not used, by cost" in line(wr, "q")
    shown = [(-5, 5, "a"), (0, 10, "a"), (5, 15, "a"), (10, 20, "a"), (10, 20, "b")]
    assert sorted(answers(wr, "q")) == shown


def test_too_large_filters_are_dropped(open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "PASS_SLOT_NS", 1e9)
    wr = open_state(index_bytes="64 B")
    wr.sql(STREAM)
    wr.query("q", "SELECT k FROM s [RANGE 10 SLIDE 5] GROUP BY k HAVING COUNT(*) > 1")
    put(wr, *((t, k, 1) for t in range(1, 5) for k in ("a", "b")), (6, "a", 4))
    put(wr, (11, "a", 1))
    assert "; used, by cost" in line(wr, "q")
    put(wr, (12, "b", 1), (16, "a", 1))
    assert "not used, it took more than index_bytes" in line(wr, "q")
    assert wr.metrics()["s"]["filter_bytes"] == 0
    wr.sql("SET index_bytes = '1 MB'")
    put(wr, (17, "b", 1), (21, "a", 1))
    assert "; used, by cost" in line(wr, "q") and wr.metrics()["s"]["filter_bytes"] > 64
    both = [(start, start + 10, k) for start in (-5, 0, 10) for k in "ab"]
    assert sorted(answers(wr, "q")) == sorted([*both, (5, 15, "a")])


@pytest.mark.parametrize(
    ("window", "having", "why"),
    [
        ("[RANGE 6 SLIDE 2 OFFSET 3]", "COUNT(*) > 1", "only windows that end when they are answered"),
        ("[SINCE 3 SLIDE 5]", "COUNT(*) > 1", "only windows that end when they are answered"),
        ("[RANGE 5 SLIDE 1 ROW]", "COUNT(*) > 1", "only windows that end when they are answered"),
        ("[RANGE 5 SLIDE 5]", "COUNT(*) > 1 OR k = 'a'", "HAVING has no conjunct"),
        ("[RANGE 5 SLIDE 5]", "AVG(x) > 1", "HAVING has no conjunct"),
        ("[RANGE 5 SLIDE 5]", "SUM(x * 0.5D) > 1", "HAVING has no conjunct"),
        ("[RANGE 5 SLIDE 5]", "COUNT(*) > SUM(x)", "HAVING has no conjunct"),
    ],
)
def test_explain_without_a_filter(open_state: Open, window: str, having: str, why: str) -> None:
    wr = open_state(substream_filters="on")
    wr.sql(STREAM)
    wr.query("q", f"SELECT k FROM s {window} GROUP BY k HAVING {having}")
    assert line(wr, "q").startswith(f"SubStream Filter: none, {why}")
