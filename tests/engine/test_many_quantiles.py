"""Holistic aggregates of many windows: selection and counters give the same answers, and EXPLAIN names the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .conftest import STREAM, Open
from .helpers import put, state_of

pytestmark = pytest.mark.slow

SLIDING = (
    "SELECT MEDIAN(x) AS m, QUANTILE(x, 0.9) AS q, QUANTILE(x, 0.1) FILTER (WHERE x > 0) AS p FROM s [ROWS 200 SLIDE 1]"
)
SELECTED, ROLLED = "holistic aggregates: selection from base intervals", "holistic aggregates: rolled up from counters"


@pytest.mark.parametrize("way", ["auto", "roll up"])
def test_windows_that_slide_by_a_row(open_state: Open, way: str) -> None:
    values = np.random.default_rng(7).normal(size=2000).round(6)
    wr = open_state(holistic=way)
    wr.sql("CREATE STREAM s (t BIGINT, x DOUBLE) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    query = wr.query("q", SLIDING)
    assert "decided when windows are due" in query.explain()
    for part in np.array_split(np.arange(values.size), 2):
        wr.deposit("s", [(int(i), float(values[i])) for i in part])
    found = query.answers().arrow()
    assert (SELECTED + " (by cost); for 1,000 windows, " if way == "auto" else ROLLED + " (forced)") in query.explain()
    assert found.num_rows == values.size
    for row in (0, 57, 199, 1200, 1999):
        mine = np.sort(values[max(0, row - 199) : row + 1])
        above = mine[mine > 0]
        assert found.column("m")[row].as_py() == pytest.approx(float(np.median(mine)), rel=1e-12)
        assert found.column("q")[row].as_py() == mine[max(1, int(0.9 * mine.size + 1e-9)) - 1]
        assert found.column("p")[row].as_py() == (above[max(1, above.size // 10) - 1] if above.size else None)


GROUPED = (
    "SELECT k, COUNT(*) AS n, SUM(x) AS s, MEDIAN(x) AS m, QUANTILE(x, 0.9) AS q, COUNT(DISTINCT x) AS d, "
    "MEDIAN(x) FILTER (WHERE x > 3) AS f FROM s [RANGE 20 SLIDE 2] GROUP BY k HAVING COUNT(DISTINCT x) > 1 ORDER BY k"
)
OTHER = "SELECT k, QUANTILE(x, 0.25) AS q, MAX(x) AS most FROM s [RANGE 30 SLIDE 4] GROUP BY k"


def story(open_state: Open, name: str, clause: str, **settings: Any) -> list[Any]:
    """Two queries that share a synopsis, a restart in the middle, late tuples, and lookups."""
    rng = np.random.default_rng(11)
    rows = [(t, [None, "a", "b"][rng.integers(3)], [None, *range(9)][rng.integers(10)]) for t in range(120)]
    wr = open_state(name, **settings)
    wr.sql(STREAM.replace("PUNCTUATE ORDERED", clause))
    wr.query("q", GROUPED)
    wr.query("other", OTHER)
    put(wr, *rows[:50])
    wr.close()
    wr = open_state(name, **settings)
    put(wr, *rows[50:])
    put(wr, (97, "a", 4), (99, None, 4), (118, "b", 1))
    out = [
        wr.queries[q].revisions().rows() if "REVISE" in clause else wr.queries[q].answers().rows()
        for q in ("q", "other")
    ]
    for query in ("q", "other"):
        out.append(wr.queries[query].lookups([4, 20, 8], [112, 108, 112]).rows())
        wanted = ROLLED if settings.get("holistic", "auto") != "selection" else SELECTED
        assert wanted in wr.queries[query].explain()
    wr.close()
    return out


@pytest.mark.parametrize("clause", ["PUNCTUATE WITH SLACK 3", "PUNCTUATE WITH SLACK 3 LATE REVISE"])
def test_groups_and_other_aggregates_beside(open_state: Open, clause: str) -> None:
    ways = ("auto", "selection", "roll up")
    stories = [story(open_state, way, clause, holistic=way) for way in ways]
    assert stories[0] == stories[1] == stories[2]
    assert all(len(part) > 2 for part in stories[0])


def test_batch_of_lookups_by_selection(open_state: Open) -> None:
    wr = open_state()
    wr.sql("CREATE STREAM s (t BIGINT, k STRING, x DOUBLE) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    query = wr.query("q", "SELECT k, COUNT(*) AS n, MEDIAN(x) AS m FROM s [RANGE 1000 SLIDE 10] GROUP BY k ORDER BY k")
    values = np.random.default_rng(5).random(4000)
    wr.deposit("s", [(i // 4, "ab"[i % 2], float(x)) for i, x in enumerate(values)])
    lengths, ends = [10 * (1 + i % 50) for i in range(400)], [500 + 10 * (i % 40) for i in range(400)]
    query.lookup(10)
    assert ROLLED + " (few windows of few values)" in query.explain()
    found = query.lookups(lengths, ends).rows()
    assert SELECTED + " (by cost); for 400 windows, 4,000 values in 2 groups, estimated" in query.explain()
    wr.sql("SET holistic = 'roll up'")
    assert query.lookups(lengths, ends).rows() == found and ROLLED in query.explain()
    for i in (0, 17, 399):
        mine = values[4 * (ends[i] - lengths[i]) : 4 * ends[i] : 2]
        assert tuple(found[2 * i].values())[-3:] == ("a", mine.size, pytest.approx(float(np.median(mine)), rel=1e-12))


def test_decisions_are_dropped_with_the_query(open_state: Open) -> None:
    wr = open_state(holistic="selection")
    wr.sql(STREAM)
    wr.query("q", "SELECT MEDIAN(x) AS m, TOP_K(x, 2) AS top FROM s [RANGE 2 SLIDE 2]")
    wr.query("other", "SELECT QUANTILE(x, 0.5) AS m FROM s [RANGE 4 SLIDE 2]")
    put(wr, *[(t, "a", t) for t in range(9)])
    (state,) = state_of(wr).synopses.values()
    assert set(state.holistic.decisions) == {"q", "other"}
    assert ROLLED + " (TOP_K needs the counters of all values)" in wr.queries["q"].explain()
    wr.sql("DROP QUERY q")
    put(wr, *[(t, "a", t) for t in range(9, 12)])
    assert set(state.holistic.decisions) == {"other"}


def test_due_queries_share_sorted_intervals(open_state: Open) -> None:
    """Queries with different φ and lengths, and few windows each: none alone would be worth sorting for."""
    rows = [(i // 30, "ab"[i % 2], float(x)) for i, x in enumerate(np.random.default_rng(2).random(3000))]
    found = []
    for way in ("auto", "roll up"):
        wr = open_state(way, holistic=way)
        wr.sql("CREATE STREAM s (t BIGINT, k STRING, x DOUBLE) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
        queries = [
            wr.query(
                f"q{i}", f"SELECT k, QUANTILE(x, 0.{i + 10}) AS q FROM s [RANGE {20 + 10 * i} SLIDE 30] GROUP BY k"
            )
            for i in range(16)
        ]
        wr.deposit("s", rows)
        told = [query.explain() for query in queries]
        if way == "auto":
            assert all(SELECTED + " (by cost); for 48 windows of this and 15 other queries" in one for one in told)
        else:
            assert all(ROLLED in one for one in told)
        found.append([query.answers().rows() for query in queries])
    assert found[0] == found[1] and all(found[0])
