"""Queries created and dropped while the stream runs: others are unaffected, and a new one states what it sees."""

from __future__ import annotations

import random
from typing import Any

import pytest

from engine.conftest import STREAM
from engine.helpers import answers, put, state_of

pytestmark = pytest.mark.slow

ROWS = [(t, random.Random(t).choice("abc"), t % 7) for t in range(0, 400, 3)]
STEADY = {
    "coarse": "SELECT k, SUM(x) AS total FROM s [RANGE 60 SLIDE 20] GROUP BY k",
    "fine": "SELECT COUNT(*) AS n, MAX(x) AS top FROM s [RANGE 15 SLIDE 5]",
}
PASSING = [
    "SELECT k, COUNT(*) AS n FROM s [RANGE 21 SLIDE 7] GROUP BY k",
    "SELECT k, SUM(x) AS total FROM s [RANGE 10 SLIDE 30] GROUP BY k",
    "SELECT MIN(x) AS least FROM s [RANGE 100 SLIDE 50] WHERE x > 2",
]


def steady_answers(wr: Any, disturb: bool) -> dict[str, list[Any]]:
    wr.sql(STREAM)
    for name, select in STEADY.items():
        wr.sql(f"CREATE QUERY {name} AS {select}")
    for number, at in enumerate(range(0, len(ROWS), 12)):
        put(wr, *ROWS[at : at + 12])
        if disturb and number % 2 == 0:
            wr.sql(f"CREATE QUERY passing{number} AS {PASSING[number // 2 % 3]}")
        if disturb and number % 2 == 1 and number > 2:
            wr.sql(f"DROP QUERY passing{number - 3}")
    wr.end_input("s")
    return {name: answers(wr, name) for name in STEADY}


def test_other_queries_are_unaffected(open_state: Any) -> None:
    assert steady_answers(open_state("a"), False) == steady_answers(open_state("b"), True)


def by_definition(rows: list[Any], since: int, closed: int, size: int, slide: int) -> list[Any]:
    """(start, end, count) of every window that ends after `closed` and holds a tuple from `since` on."""
    seen = [t for t, _, _ in rows if t >= since]
    out = []
    for end in range(closed // slide * slide + slide, rows[-1][0] + size + slide, slide):
        count = sum(end - size <= t < end for t in seen)
        if count:
            out.append((end - size, end, count))
    return out


@pytest.mark.parametrize(("size", "slide"), [(30, 10), (21, 7), (10, 30), (25, 10)])
def test_completeness_of_a_new_query(wr: Any, size: int, slide: int) -> None:
    wr.sql(f"CREATE QUERY coarse AS {STEADY['coarse']}")
    for at in range(0, 48, 12):
        put(wr, *ROWS[at : at + 12])
    wr.sql(f"CREATE QUERY new AS SELECT COUNT(*) AS n FROM s [RANGE {size} SLIDE {slide}]")
    for at in range(48, len(ROWS), 12):
        put(wr, *ROWS[at : at + 12])
    wr.end_input("s")
    since, greatest = state_of(wr).queries["new"].since, ROWS[47][0]
    assert since is not None and since > greatest
    assert answers(wr, "new") == by_definition(ROWS, since, greatest, size, slide)
    first_whole = min(end for end in range(0, 600, slide) if end - size >= since)
    told = {row["name"]: row["completeness"] for row in wr.sql("SHOW QUERIES").rows()}
    assert told["new"] == f"windows that end before {first_whole} are partial"


def test_new_query_over_kept_cells(wr: Any) -> None:
    wr.sql("CREATE QUERY old AS SELECT COUNT(*) AS n FROM s [RANGE 60 SLIDE 10]")
    put(wr, *ROWS[:40])
    created = wr.sql("CREATE QUERY new AS SELECT COUNT(*) AS n FROM s [RANGE 30 SLIDE 10]")
    put(wr, *ROWS[40:])
    wr.end_input("s")
    since = state_of(wr).queries["new"].since
    assert since < ROWS[39][0] - 30 and "partial" in str(created)
    assert answers(wr, "new") == by_definition(ROWS, 0, ROWS[39][0], 30, 10)


def test_cells_between_windows_after_restart(wr: Any, open_state: Any) -> None:
    """The first query needs nothing in 0..60, but the cells that the second one needs there must be kept."""
    wr.sql("CREATE QUERY gaps AS SELECT COUNT(*) AS n FROM s [RANGE 30 SLIDE 90]")
    put(wr, (-1, "a", 1), (1, "a", 1))
    wr.sql("CREATE QUERY new AS SELECT COUNT(*) AS n FROM s [RANGE 30 SLIDE 30]")
    put(wr, (40, "a", 1), (41, "a", 1))
    wr.close()
    again = open_state()
    put(again, (61, "a", 1))
    again.end_input("s")
    assert answers(again, "new") == [(0, 30, 1), (30, 60, 2), (60, 90, 1)]
    assert answers(again, "gaps") == [(-30, 0, 1), (60, 90, 1)]


def test_compaction_keeps_cells_of_a_new_query(open_state: Any) -> None:
    wr = open_state(synopsis_blocks=4)
    wr.sql(STREAM)
    wr.sql("CREATE QUERY gaps AS SELECT COUNT(*) AS n FROM s [RANGE 30 SLIDE 90]")
    put(wr, (1, "a", 1))
    wr.sql("CREATE QUERY new AS SELECT COUNT(*) AS n FROM s [RANGE 30 SLIDE 30]")
    for t in range(32, 52, 2):
        put(wr, (t, "a", 1))
    assert wr.metrics()["s"]["compactions"] > 0
    wr.close()
    again = open_state(synopsis_blocks=4)
    put(again, (61, "a", 1))
    assert answers(again, "new") == [(0, 30, 1), (30, 60, 10)]


def test_incommensurate_slides_do_not_share(wr: Any) -> None:
    wr.sql("CREATE STREAM e (ts TIMESTAMP, x INT) FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED")
    window = "SELECT SUM(x) AS total FROM e [RANGE {} SLIDE {}]"
    wr.query("second", window.format("10 SECONDS", "1 SECOND"))
    wr.query("odd", window.format("999 MILLISECONDS", "333 MILLISECONDS"))
    wr.query("half", window.format("5 SECONDS", "500 MILLISECONDS"))
    synopses = [[name for name, _ in s.plan.queries] for s in state_of(wr, "e").synopses.values()]
    assert synopses == [["second", "half"], ["odd"]]
    wr.deposit("e", [{"ts": i * 0.25, "x": 1} for i in range(60)])
    panes = {s.plan.queries[0][0]: s.synopsis.closed_panes for s in state_of(wr, "e").synopses.values()}
    assert {int(d) for d in set(panes["second"][1:] - panes["second"][:-1])} == {500_000}
    assert all(row[2] == 40 for row in answers(wr, "second") if row[0].timestamp() >= 0)


def test_drop_query_removes_its_state(wr: Any) -> None:
    wr.sql("CREATE QUERY q AS SELECT k, SUM(x) AS total FROM s [RANGE 50 SLIDE 10] GROUP BY k")
    put(wr, *ROWS[:40])
    assert wr._engine.catalog.value("SELECT count(*) FROM blocks") > 0
    wr.sql("DROP QUERY q")
    assert wr._engine.catalog.value("SELECT count(*) FROM blocks") == 0
    assert not list(wr.state_dir.rglob("blk-*"))
    assert state_of(wr).synopses == {}


def test_tuples_while_no_query_reads_the_stream(wr: Any) -> None:
    """Event time advances between the last DROP and the next CREATE; the new query begins where it says."""
    wr.sql("CREATE QUERY first AS SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]")
    put(wr, (1, "a", 1))
    wr.sql("DROP QUERY first")
    put(wr, (15, "a", 1), (25, "a", 1))
    wr.sql("CREATE QUERY second AS SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]")
    put(wr, (3, "a", 1), (26, "a", 1), (31, "a", 1), (41, "a", 1))
    assert answers(wr, "second") == [(30, 40, 1)]
    assert wr.metrics()["s"]["late"] == 1


@pytest.mark.parametrize("mode", ["driver", "spark"])
def test_empty_windows_start_at_the_first_tuple(open_state: Any, mode: str) -> None:
    """They do not start at the first micro-batch, nor at the pane of a query with long panes."""
    wr = open_state(preaggregate=mode, empty_windows="emit")
    wr.sql(STREAM.replace("ORDERED", "WITH SLACK 20"))
    wr.sql("CREATE QUERY coarse AS SELECT COUNT(*) AS n FROM s [RANGE 1000 SLIDE 1000]")
    wr.sql("CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 7 SLIDE 7]")
    put(wr, (1050, "a", 1))
    put(wr, (1034, "a", 1))
    wr.close()
    wr = open_state(preaggregate=mode, empty_windows="emit")
    put(wr, (1080, "a", 1))
    assert [(row[1], row[2]) for row in answers(wr, "q")] == [(1036, 1), (1043, 0), (1050, 0), (1057, 1)]


def test_query_that_starts_at_zero(open_state: Any) -> None:
    wr = open_state(empty_windows="emit")
    wr.sql(STREAM)
    wr.sql("CREATE QUERY old AS SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]")
    put(wr, (-15, "a", 1), (-5, "a", 1))
    wr.sql("CREATE QUERY new AS SELECT SUM(x) AS total FROM s [RANGE 20 SLIDE 20]")
    assert state_of(wr).queries["new"].since == 0
    put(wr, (25, "a", 2), (45, "a", 4))
    assert answers(wr, "new") == [(0, 20, None), (20, 40, 2)]


def test_axis_without_a_query_is_not_ticked(
    open_state: Any,
) -> None:
    wr = open_state()
    wr.sql(
        "CREATE STREAM two (t BIGINT, m BIGINT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED PUNCTUATE ON m ORDERED"
        " LATE REVISE FOR 100"
    )
    wr.query("by_t", "SELECT SUM(x) AS total FROM two [RANGE 10 SLIDE 10]")
    for t in range(3):
        wr.deposit("two", [(10 * t, 100 + 10 * t, 1)])
    state = state_of(wr, "two")
    assert (state.ticked, state.metrics.tick_batches) == ({"t": 20}, 3)
    by_m = "CREATE QUERY by_m AS SELECT SUM(x) AS total FROM two [RANGE 20 SLIDE 10 WATTR m]"
    wr.sql(by_m)
    assert state.ticked == {"t": 20, "m": 120} and state.queries["by_m"].closed_by == 120
    wr.close()
    wr = open_state()
    assert state_of(wr, "two").ticked == {"t": 20, "m": 120}
    wr.deposit("two", [(30, 135, 2), (31, 114, 4)])
    wr.deposit("two", [(40, 150, 8), (41, 131, 16)])
    assert answers(wr, "by_t") == [(0, 10, 1), (10, 20, 1), (20, 30, 1), (30, 40, 6)]
    assert answers(wr, "by_m") == [(120, 140, 18), (130, 150, 18)]
    wr.sql("DROP QUERY by_m")
    wr.deposit("two", [(50, 190, 1)])
    assert state_of(wr, "two").ticked["m"] == 150
    wr.sql(by_m)
    assert state_of(wr, "two").ticked["m"] == 190
