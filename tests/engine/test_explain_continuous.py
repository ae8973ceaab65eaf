"""EXPLAIN and EXPLAIN ANALYZE of continuous queries that run, DESCRIBE and SHOW CREATE."""

from __future__ import annotations

import re
from typing import Any

import pytest

from windrow.console.scripts import derived_plans
from windrow.errors import CatalogError, WindrowError

STREAM = "CREATE STREAM {} (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
SELECT = "SELECT a.k, COUNT(*) AS n, MAX(b.x) AS m FROM a [RANGE 10] JOIN b [RANGE 5] ON a.k = b.k GROUP BY a.k"


@pytest.fixture
def running(wr: Any) -> Any:
    for name in "ab":
        wr.sql(STREAM.format(name))
    wr.query("q", SELECT)
    wr.feed("a", [(1, "u", 1), (3, "v", 2), (6, "u", 3)])
    wr.feed("b", [(2, "u", 10), (4, "v", 20), (7, "u", 30)])
    wr.run_available()
    return wr


def test_running_query(running: Any) -> None:
    plan = running.queries["q"].explain()
    assert "Query q: continuous, a tick every 1, home: driver" in plan
    assert "STR ─ GroupBy by a.k: count(*), max(b.x)" in plan
    assert "count(*) by what came and went; max(b.x) recomputed" in plan
    assert re.search(r"keeps  groups: newest per key; 2 rows, \d+ bytes", plan)
    assert re.search(r"window store: FIFO, tuples of 10; 3 rows, .* on disk", plan)
    assert "frontiers: a 6, b 7; waits for a" in plan
    assert "Complete: every answer is complete" in plan
    assert re.search(r"Home: driver, since a tick reads [\d,]+ bytes, at most 268,435,456 \(driver_plan_bytes\)", plan)
    assert "ran " not in plan and "Since opening" not in plan
    assert "<svg" in plan._repr_html_()
    assert plan == "\n".join(running.sql("EXPLAIN QUERY q")["plan"])
    verbose = running.sql("EXPLAIN VERBOSE QUERY q").plan
    assert verbose.startswith(plan) and "Costs, in rows handled per point" in verbose and "Candidates: " in verbose
    assert verbose == running.queries["q"].explain(verbose=True)


def test_analyze_counts_rows_and_time(running: Any) -> None:
    plan = running.sql("EXPLAIN ANALYZE QUERY q").plan
    batches, taken, given = re.search(
        r"Join .*?ran +(\d+) batch(?:es)?, (\d+) rows in, (\d+) rows out", plan, re.S
    ).groups()
    meter = running._engine.plans.query("q").meter
    assert int(batches) == meter.batches >= 1
    # Of those below 6: a at 1 and 3, b at 2 and 4; each meets one.
    assert (int(taken), int(given)) == (4, 2)
    assert all(meter.of(path).seconds > 0 for path in ("0", "0.0", "0.0.0", "0.0.0.0"))
    assert re.search(r"Since opening: \d+ ticks, batches: \d+, changes: \d+; reading .*, operators .*, commits ", plan)


@pytest.mark.slow
def test_analyze_in_spark_counts_batches_not_tasks(wr: Any) -> None:
    """The join and GROUP BY are in different stages, of two tasks each."""
    wr.sql("SET plan_home = 'spark'")
    for name in "ab":
        wr.sql(STREAM.format(name))
    wr.query("q", SELECT.replace("a.k,", "a.x,").replace("BY a.k", "BY a.x"))
    wr.deposit("a", [(t, k, x) for t in (1, 2) for k in "uvwxyz" for x in range(3)] + [(3, None, 0)])
    wr.deposit("b", [(t, k, 1) for t in (1, 2) for k in "uvwxyz"] + [(3, None, 0)])
    meter, plan = wr._engine.plans.query("q").meter, wr.sql("EXPLAIN ANALYZE QUERY q").plan
    assert {one.calls for one in meter.counts.values()} == {meter.batches}
    assert all(one.seconds > 0 for one in meter.counts.values())
    ran = [line for line in plan.splitlines() if " ran " in line]
    assert len(ran) == 5 and not any(", 0 ms" in line for line in ran)
    assert "Home: Spark, since plan_home = 'spark'" in plan


def test_analyze_of_a_periodic_query(running: Any) -> None:
    running.query("p", "SELECT COUNT(*) AS n FROM a [RANGE 2 SLIDE 2]")
    assert "Since opening: " in running.sql("EXPLAIN ANALYZE QUERY p").plan
    assert "Since opening: " not in running.sql("EXPLAIN QUERY p").plan
    assert "Candidates: this plan alone" in running.sql("EXPLAIN VERBOSE QUERY p").plan


def test_analyze_of_no_query(wr: Any) -> None:
    with pytest.raises(CatalogError, match="no query"):
        wr.sql("EXPLAIN ANALYZE QUERY q")


def test_select_is_explained_as_a_standing_query(running: Any) -> None:
    assert "Query query: continuous" in running.sql("EXPLAIN SELECT DISTINCT k FROM a [RANGE 10]").plan
    assert "└─ WKS ─ " in running.sql("EXPLAIN SELECT k FROM a [RANGE 10]").plan
    verbose = running.sql("EXPLAIN VERBOSE SELECT a.k FROM a [RANGE 10] JOIN b [RANGE 5] ON a.k = b.k").plan
    assert "Join a ⋈ b: processing" in verbose


def test_query_that_has_not_ticked(wr: Any) -> None:
    for name in "ab":
        wr.sql(STREAM.format(name))
    plan = wr.query("q", SELECT).explain()
    assert "has not ticked yet; frontiers: a nothing seen yet, b nothing seen yet; waits for a, b" in plan
    assert "rate" not in plan


def test_note_on_results_between_two_ticks(wr: Any) -> None:
    wr.sql("CREATE STREAM z (t BIGINT, k STRING) FROM memory TIMESTAMP BY t TICK 10 PUNCTUATE ORDERED")
    select = "SELECT x.k FROM z [RANGE {0}] AS x JOIN z [RANGE {0}] AS y ON x.k = y.k"
    note = "the shortest window is 10 and a tick is 10: what comes and goes between two ticks is not shown"
    told = wr.sql(f"CREATE QUERY short AS {select.format(10)}")["result"]
    assert told[0] == "query short: every answer is complete" and told[1].startswith(f"note: {note}")
    assert f"Note: {note}" in wr.queries["short"].explain()
    assert f"Note: {note}" in wr.sql(f"EXPLAIN CREATE QUERY other AS {select.format(10)}").plan
    assert len(wr.sql(f"CREATE QUERY long AS {select.format(100)}")) == 1
    assert "Note:" not in wr.queries["long"].explain()
    plan = wr.sql(f"EXPLAIN CREATE QUERY every AS {select.format(10).replace('x.k', 'ISTREAM RESTORE(x.k)', 1)}").plan
    assert "Note:" not in plan and "ISTREAM RESTORE what came at every instant" in plan
    plan = wr.sql(f"EXPLAIN CREATE QUERY last AS {select.format(10).replace('x.k', 'WSTREAM(x.k)[ROWS 3]', 1)}").plan
    assert "Window over the results [ROWS 3]" in plan and "STR" in plan


def test_derived_stream(running: Any) -> None:
    create = "CREATE STREAM d AS SELECT k, x FROM a [RANGE 10 INTERNAL] WHERE x > 0"
    planned = running.sql(f"EXPLAIN {create}").plan
    assert planned.startswith("Stream d: continuous") and "Window a [RANGE 10 INTERNAL]" in planned
    running.sql(create)
    plan = running.sql("EXPLAIN STREAM d").plan
    assert plan.startswith("Stream d: continuous") and "<svg" in plan._repr_html_()
    assert "Since opening" in running.sql("EXPLAIN ANALYZE STREAM d").plan
    assert [one.splitlines()[0].split(":")[0] for one in derived_plans(running)] == ["Stream d"]
    with pytest.raises(CatalogError, match="has a source"):
        running.sql("EXPLAIN STREAM a")
    with pytest.raises(WindrowError, match="cannot be a stream"):
        running.sql("EXPLAIN CREATE STREAM e AS SELECT k FROM a [RANGE 10]")


def test_shared_join_is_not_shown_as_zeros(wr: Any) -> None:
    for name in "ab":
        wr.sql(STREAM.format(name))
    wr.query("q", SELECT)
    wr.query("p", "SELECT a.x FROM a [RANGE 10] JOIN b [RANGE 5] ON a.k = b.k")
    wr.deposit("a", [(9, "u", 1), (12, "u", 1)])
    wr.deposit("b", [(9, "u", 10), (12, "u", 20)])
    plan = wr.sql("EXPLAIN ANALYZE QUERY p").plan
    assert "it ran once with that of q" in plan
    assert plan.count("read once for all queries of the shared join") == 2
    assert "0 batches" not in plan and "0 rows in" not in plan


def test_rules_that_are_off(wr: Any) -> None:
    wr.sql(STREAM.format("a"))
    wr.sql("SET disabled_rules = 'merge_joins'")
    q = wr.query("q", "SELECT DISTINCT k FROM a [RANGE 10]")
    wr.sql("SET disabled_rules = ''")
    assert re.search(r"merge_joins +off", q.explain())


def test_describe(running: Any) -> None:
    rows = running.sql("DESCRIBE q").rows()
    assert [(row["column"], row["type"]) for row in rows] == [
        ("op", "STRING"),
        ("ts", "BIGINT"),
        ("exp", "BIGINT"),
        ("k", "STRING"),
        ("n", "BIGINT"),
        ("m", "INT"),
    ]
    names = [row["column"] for row in rows if row["note"] is None]
    assert names == running.queries["q"].view().columns
    running.query("p", "SELECT DISTINCT k FROM a [RANGE 4 SLIDE 2]")
    assert running.sql("DESCRIBE p")["column"] == running.queries["p"].answers().columns


def test_show_create(running: Any) -> None:
    text = "\n".join(running.sql("SHOW CREATE QUERY q")["statement"])
    running.sql("DROP QUERY q")
    running.sql(text)
    assert "\n".join(running.sql("SHOW CREATE QUERY q")["statement"]) == text
