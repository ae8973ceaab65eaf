"""Continuous queries in both homes: the same changes, through restarts and moves between ticks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.runner import in_ranges

import windrow
from engine.conftest import Open
from engine.helpers import blocks_of, jobs

pytestmark = pytest.mark.slow

STREAMS = [
    f"CREATE STREAM {name} (t BIGINT, k STRING, g INT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
    for name in ("r", "s", "u")
]
QUERIES = {
    "joined": "SELECT r.k, r.x, s.x AS y FROM r [RANGE 6], s [RANGE 4] WHERE r.k = s.k AND r.x <> s.x",
    "three": "SELECT r.k, s.x, u.x AS y FROM r [RANGE 6], s [RANGE 4], u [RANGE 5] WHERE r.k = s.k AND s.g = u.g",
    "grouped": "SELECT s.g, COUNT(*) AS n, SUM(r.x) AS total FROM r [RANGE 6], s [RANGE 4] WHERE r.k = s.k GROUP BY s.g",
    "counts": "SELECT COUNT(*) AS n, MAX(x) AS top FROM r [RANGE 6] GROUP BY k",
    "medians": "SELECT g, MEDIAN(x) AS m FROM r [RANGE 6] GROUP BY g HAVING COUNT(*) > 1",
    "once": "SELECT DISTINCT k, g FROM r [RANGE 5]",
    "totals": "SELECT COUNT(*) AS n, SUM(r.x) AS total FROM r [RANGE 6], s [RANGE 4] WHERE r.k = s.k",
    "first": "SELECT r.k, r.x FROM r [RANGE 6], s [RANGE 4] WHERE r.k = s.k ORDER BY x DESC, k LIMIT 3",
    "came": "SELECT ISTREAM(r.k, s.x) FROM r [RANGE 6], s [RANGE 4] WHERE r.k = s.k",
    "went": "SELECT DSTREAM(k, g) FROM r [RANGE 5]",
    "plain": "SELECT k, x + 1 AS z FROM r [RANGE 7] WHERE x > 1",
    "product": "SELECT r.x, u.x AS y FROM r [RANGE 3], u [RANGE 3]",
    "both": "SELECT k, g FROM r [RANGE 5] UNION ALL SELECT k, g FROM s [RANGE 3]",
}
WINDOWS = {
    "windows": "SELECT r.k, COUNT(*) AS n FROM r [RANGE 6 SLIDE 3], s [RANGE 6 SLIDE 3] WHERE r.k = s.k GROUP BY r.k",
}


def batch(number: int, stream: int) -> list[tuple[Any, ...]]:
    """Rows with ties, NULL keys and silence; no chance, so that every story is the same."""
    rows = []
    for i in range(9):
        n = number * 9 + i
        t = number * 5 + i // 2 + (20 if number > 3 else 0)
        key = None if (n + stream) % 11 == 0 else "abcde"[(n * (stream + 1)) % 5]
        rows.append((t, key, (n + stream) % 3, (n * 7) % 5))
    return rows


def feed(wr: windrow.Windrow, number: int) -> None:
    for i, name in enumerate(("r", "s", "u")):
        wr.deposit(name, batch(number, i))


def create(wr: windrow.Windrow, queries: dict[str, str]) -> None:
    for text in STREAMS:
        wr.sql(text)
    for name, text in queries.items():
        wr.sql(f"CREATE QUERY {name} AS {text}")


def results(wr: windrow.Windrow, queries: dict[str, str]) -> dict[str, Any]:
    """Changes in their order, and the view as a bag; or the answers."""
    found: dict[str, Any] = {}
    for name in queries:
        query = wr.queries[name]
        if name in WINDOWS:
            found[name] = query.answers().arrow().to_pylist()
            continue
        found[name] = query.changes().arrow().to_pylist()
        if name not in ("came", "went"):
            found[name + " view"] = sorted(map(str, query.view().arrow().to_pylist()))
    return found


def home_of(wr: windrow.Windrow, name: str) -> str:
    return wr._engine.plans.query(name).home


Happening = Callable[[windrow.Windrow, int], windrow.Windrow]


def play(wr: windrow.Windrow, queries: dict[str, str], happens: Happening = lambda wr, i: wr) -> dict[str, Any]:
    create(wr, queries)
    for i in range(6):
        wr = happens(wr, i)
        feed(wr, i)
    return results(wr, queries)


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert any(expected.values())
    for name, rows in expected.items():
        assert found[name] == rows, name


def test_same_changes(open_state: Open) -> None:
    queries = {**QUERIES, **WINDOWS}
    expected = play(open_state("driver", plan_home="driver"), queries)
    spark = open_state("spark", plan_home="spark")
    same(play(spark, queries), expected)
    assert {home_of(spark, name) for name in queries} == {"spark"}


def test_moves_and_restarts(open_state: Open) -> None:
    """From the driver to Spark, a restart there, back, and a restart that moves again."""
    queries = {name: QUERIES[name] for name in ("three", "grouped", "counts", "medians", "once", "first", "went")}
    homes = list[str]()

    def happens(wr: windrow.Windrow, i: int) -> windrow.Windrow:
        homes.append(home_of(wr, "counts"))
        if i in (1, 4):
            wr.sql(f"SET plan_home = '{'spark' if i == 1 else 'driver'}'")
        if i in (2, 5):
            wr.close()
            wr = open_state("moved", plan_home="spark")
        return wr

    expected = play(open_state("driver", plan_home="driver"), queries)
    same(play(open_state("moved", plan_home="driver"), queries, happens), expected)
    assert homes == ["driver", "driver", "spark", "spark", "spark", "driver"]


def test_another_number_of_ranges_after_a_restart(open_state: Open) -> None:
    """As on a machine with more cores, or fewer: state moves between ranges."""
    some, found = {name: QUERIES[name] for name in ("grouped", "once")}, list[dict[str, Any]]()
    for home in ("driver", "spark"):
        for number, count in enumerate((3, 1)):
            wr = open_state(home, plan_home=home)
            if not number:
                create(wr, some)
            with in_ranges(count):
                for i, name in enumerate("rs"):
                    wr.deposit(name, batch(number, i))
            state = [wr._engine.plans.query(name).version.state for name in some]
            assert home == "driver" or [len(one.ranges) for one in state] == [count, count]
            found.append(results(wr, some))
            wr.close()
    assert found[:2] == found[2:] and found[1]["once"]


def test_overflows_are_counted(open_state: Open) -> None:
    """In both homes, through a restart; of a sub-plan that queries share, and of groups that HAVING removes."""
    wr = open_state(plan_home="driver")
    wr.sql("CREATE STREAM big (t BIGINT, k STRING, x BIGINT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    for name, having in (("few", "SUM(x) > 5"), ("all", "COUNT(*) > 0")):
        wr.query(name, f"SELECT k, SUM(x) AS s, COUNT(*) AS n FROM big [RANGE 3] GROUP BY k HAVING {having}")
    wr.deposit("big", [(1, "a", 2**62), (1, "a", 2**62), (1, "b", 1), (2, "b", 1)])
    assert {row["name"]: row["overflows"] for row in wr.sql("SHOW QUERIES").rows()} == {"few": 1, "all": 1}
    wr.close()
    wr = open_state(plan_home="spark")
    wr.deposit("big", [(5, "a", 2**62), (5, "a", 2**62), (6, "b", 1)])
    assert [wr.queries[name].metrics()["overflows"] for name in ("few", "all")] == [2, 2]


def test_large_plan_moves_to_spark_and_back(open_state: Open) -> None:
    queries = {name: QUERIES[name] for name in ("joined", "grouped")}

    def happens(wr: windrow.Windrow, i: int) -> windrow.Windrow:
        if i in (2, 4):
            wr.sql(f"SET driver_plan_bytes = '{'1 B' if i == 2 else '1 GB'}'")
        return wr

    expected = play(open_state("driver", plan_home="driver"), queries)
    auto = open_state("auto", plan_home="auto")
    same(play(auto, queries, happens), expected)
    query = auto._engine.plans.query("grouped")
    assert query.home == "driver" and "driver_plan_bytes" in query.home_reason


def test_subscribers_get_changes_in_order(open_state: Open) -> None:
    got: dict[str, list[Any]] = {}
    for home in ("driver", "spark"):
        wr = open_state(home, plan_home=home)
        create(wr, {"joined": QUERIES["joined"]})
        rows = got.setdefault(home, [])
        wr.queries["joined"].subscribe(lambda batch, rows=rows: rows.extend(batch.table.to_pylist()))
        for i in range(3):
            feed(wr, i)
    assert got["spark"] == got["driver"] and got["driver"]


def test_a_tick_is_one_job(open_state: Open, spark: Any) -> None:
    wr = open_state(plan_home="spark")
    create(wr, {"three": QUERIES["three"]})
    feed(wr, 0)
    feed(wr, 1)
    query, before = wr._engine.plans.query("three"), jobs(spark)
    ticked = query.progress.seq
    wr.deposit("r", [(30, "a", 1, 1)])
    wr.deposit("s", [(30, "a", 1, 1)])
    wr.deposit("u", [(30, "a", 1, 1)])
    assert query.progress.seq == ticked + 1
    assert jobs(spark) - before <= 1 + 3  # and one per deposit


def test_failing_expression_suspends_the_query(open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    wr = open_state(plan_home="spark")
    create(wr, {"once": QUERIES["once"]})
    stages = wr._engine.opened.plan_homes["spark"]._stages
    run = stages.run
    monkeypatch.setattr(stages, "run", lambda *job: [[{"level": 0, "place": 0, "error": "it is wrong"}]])
    feed(wr, 0)
    assert wr._engine.plans.query("once").error == "it is wrong"
    monkeypatch.setattr(stages, "run", run)


def test_dropped_query_leaves_nothing(open_state: Open) -> None:
    wr = open_state(plan_home="spark")
    create(wr, {"grouped": QUERIES["grouped"]})
    for i in range(3):
        feed(wr, i)
    assert blocks_of(wr, "plans")
    wr.sql("DROP QUERY grouped")
    assert not blocks_of(wr, "plans") and not wr._engine.opened.plan_homes["spark"]._stages._told


def test_queries_with_one_key_share_a_store(open_state: Open) -> None:
    wr = open_state()
    create(wr, {"joined": QUERIES["joined"], "totals": QUERIES["totals"], "counts": QUERIES["counts"]})
    stores = {(one.stream, tuple(key.sql for key in one.keys)) for one in wr._engine.opened.stores.stores}
    assert stores == {("r", ("`k`",)), ("s", ("`k`",))}
