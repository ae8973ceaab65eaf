"""The Spark home: moves by size, restarts, compaction, suspension, and synopses that stay in the driver."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest

from engine.conftest import STREAM, Open
from engine.helpers import answers, blocks_of, put, state_of
from windrow.dataplane.kernels import BucketAnswer
from windrow.errors import QueryCancelledError, QueryTimeoutError
from windrow.synopses import StoredSynopsis

pytestmark = pytest.mark.slow

QUERIES = {
    "plain": "SELECT k, COUNT(*) AS n, SUM(x) AS total, MAX(k) AS last FROM s [RANGE 9 SLIDE 3] GROUP BY k",
    "first": "SELECT k, SUM(x) + 1 AS total FROM s [RANGE 6 SLIDE 3] GROUP BY k HAVING COUNT(*) > 1"
    " ORDER BY total DESC LIMIT 2",
    "all": "SELECT COUNT(*) AS n, AVG(x) AS mean FROM s [RANGE 6 SLIDE 3] WHERE x > 3",
}


def rows(at: int, groups: int = 12, seed: int = 0) -> list[tuple[int, str, int]]:
    rng = Random(100 * seed + at)
    return [(at + i // groups, f"k{rng.randrange(groups)}", rng.randrange(9)) for i in range(2 * groups)]


def homes(wr: Any) -> list[bool]:
    return [isinstance(s.synopsis, StoredSynopsis) for s in state_of(wr).synopses.values()]


def told(wr: Any) -> dict[str, list[Any]]:
    return {name: sorted(answers(wr, name), key=str) for name in wr.queries}


def test_moves_and_restarts_change_no_answer(open_state: Open) -> None:
    """A large micro-batch moves the synopsis to Spark; when its panes have expired, it moves back."""
    chosen = {"driver_synopsis_bytes": "16 KB", "preaggregate": "spark"}
    moving, staying = open_state("moving", **chosen), open_state("staying")
    for wr in (moving, staying):
        wr.sql(STREAM)
        for name, select in QUERIES.items():
            wr.query(name, select)
    seen = []
    for at, groups in ((0, 12), (2, 80), (4, 12), (6, 12), (24, 1), (26, 1), (28, 1)):
        if at == 6:
            moving.close()
            moving = open_state("moving", **chosen)
        for wr in (moving, staying):
            put(wr, *rows(at, groups))
        seen.append(homes(moving)[0])
    assert seen[0] is False and seen[1:4] == [True] * 3 and seen[-1] is False
    assert not any(homes(staying))
    for wr in (moving, staying):
        wr.end_input("s")
    assert told(moving) == told(staying)
    assert all(told(staying).values())


def test_counts_of_cells_written_by_tasks(open_state: Open) -> None:
    """Two window attributes, late and malformed tuples, and another synopsis that stays in the driver."""
    found = []
    for home in ("spark", "driver"):
        wr = open_state(home, synopsis_home=home, preaggregate="spark")
        wr.sql(
            "CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE WITH SLACK 3"
            " PUNCTUATE ON x WITH SLACK 40"
        )
        for name, select in QUERIES.items():
            wr.query(name, select)
        wr.query("each", "SELECT k, COUNT(*) AS n FROM s [ROWS 4 SLIDE 2 PARTITION BY k] GROUP BY k")
        rng = Random(3)
        for at in range(0, 16, 4):
            batch = [(at + rng.randrange(-6, 4), rng.choice(["a", "b", None]), rng.randrange(9)) for _ in range(20)]
            put(wr, *batch, (None, "a", 1))
        assert homes(wr) == [home == "spark"] * 2 + [False]
        names = ("rows", "cells", "admitted", "late", "dead_letters", "dead_letter_reasons", "frontier")
        metrics = {name: wr.metrics()["s"][name] for name in names}
        found.append((told(wr), metrics, wr.sql("SHOW LATENESS s").rows(), wr.metrics()["s"]["preaggregated_by"]))
    assert found[0] == found[1]
    assert found[0][1]["late"] > 0 and found[0][1]["cells"] > 0


def test_blocks_stay_few(open_state: Open) -> None:
    wr = open_state(synopsis_home="spark", synopsis_blocks=4)
    wr.sql(STREAM)
    wr.query("q", "SELECT k, COUNT(*) AS n FROM s [RANGE 40 SLIDE 1] GROUP BY k")
    most = 0
    for at in range(60):
        put(wr, (at, f"k{at % 3}", at))
        most = max(most, blocks_of(wr, "synopses"))
    assert 1 < most <= 8 * wr._engine.opened.homes.spark.cores + 4
    assert wr.metrics()["s"]["compactions"] > 0
    assert sorted(answers(wr, "q")[-3:]) == [(19, 59, "k0", 13), (19, 59, "k1", 14), (19, 59, "k2", 13)]


def test_past_of_landmark_windows_is_merged(open_state: Open) -> None:
    """Answered panes take one cell per group, and one more for each later query; with a restart, and a move back."""
    wr, plain = open_state("spark", synopsis_home="spark", synopsis_blocks=4), open_state("driver")
    for one in (wr, plain):
        one.sql(STREAM)
        one.query("so_far", "SELECT k, COUNT(*) AS n, SUM(x) AS total FROM s [UNBOUNDED SLIDE 2] GROUP BY k")
    limit = 8 * wr._engine.opened.homes.spark.cores
    for at in range(limit + 4):
        if at == 5:
            wr.query("later", "SELECT k, MAX(x) AS top FROM s [UNBOUNDED SLIDE 4] GROUP BY k")
            plain.query("later", "SELECT k, MAX(x) AS top FROM s [UNBOUNDED SLIDE 4] GROUP BY k")
        if at == limit + 2:
            assert wr.metrics()["s"]["compactions"] > 0
            wr.close()
            wr = open_state("spark", synopsis_home="spark", synopsis_blocks=4)
        for one in (wr, plain):
            put(one, (at, f"k{at % 3}", at), (at, "k9", at % 7))
    assert homes(wr) == [True] and told(wr) == told(plain)
    assert "; at most 4 groups; 2 closed panes;" in wr.queries["so_far"].explain()
    rows = sum(row.rows for row in wr._engine.opened.blocks.named() if row.owner.startswith("synopses"))
    assert rows <= 2 * 4 + 2 * 6
    wr.sql("SET synopsis_home = 'driver'")
    for one in (wr, plain):
        put(one, (limit + 4, "k1", 1), (limit + 8, "k2", 2))
    assert homes(wr) == [False] and told(wr) == told(plain)


def test_queries_join_and_leave_in_the_spark_home(open_state: Open) -> None:
    wr, plain = open_state("spark", synopsis_home="spark"), open_state("driver", synopsis_home="driver")
    for one in (wr, plain):
        one.sql(STREAM)
        one.query("a", QUERIES["plain"])
        put(one, *rows(0))
        one.query("b", "SELECT k, MIN(x) AS least FROM s [RANGE 3 SLIDE 3] GROUP BY k")
        put(one, *rows(2))
        put(one, *rows(4))
        one.sql("DROP QUERY a")
        put(one, *rows(6))
        one.end_input("s")
    assert homes(wr) == [True]
    assert told(wr) == told(plain) and told(wr)["b"]
    wr.queries["b"].lookup(window=3)
    assert len(wr._engine.opened.homes.spark._told) == 1  # nothing of the lookup
    wr.sql("DROP QUERY b")
    assert blocks_of(wr, "synopses") == 0 and not wr._engine.opened.homes.spark._told


def test_failed_move_is_retried(open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        raise OSError("the disk is full")

    wr = open_state(synopsis_home="spark")
    wr.sql(STREAM)
    wr.query("q", "SELECT k, COUNT(*) AS n FROM s [RANGE 2 SLIDE 2] GROUP BY k")
    monkeypatch.setattr(wr._engine.opened.homes, "to_spark", failing)
    put(wr, (0, "a", 1), (1, "b", 2), (2, "a", 3))
    assert homes(wr) == [False]
    assert sorted(row[1:] for row in answers(wr, "q")) == [(2, "a", 1), (2, "b", 1)]
    monkeypatch.undo()
    put(wr, (4, "a", 1))
    assert homes(wr) == [True]
    assert sorted(row[1:] for row in answers(wr, "q")) == [(2, "a", 1), (2, "b", 1), (4, "a", 1)]


def test_failing_task_suspends_one_query(open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    wr = open_state(synopsis_home="spark")
    wr.sql(STREAM)
    wr.query("good", "SELECT k, COUNT(*) AS n FROM s [RANGE 2 SLIDE 2] GROUP BY k")
    wr.query("bad", "SELECT k, SUM(x) AS total FROM s [RANGE 2 SLIDE 2] GROUP BY k")
    put(wr, (0, "a", 1), (1, "b", 2))
    put(wr, (2, "a", 3))
    told = wr._engine.opened.homes.spark.answer

    def failing(*asked: Any) -> tuple[list[list[BucketAnswer]], int]:
        found, groups = told(*asked)
        return [[BucketAnswer(1, None, 0, 1, "out of luck")] if one[0].query == 1 else one for one in found], groups

    monkeypatch.setattr(wr._engine.opened.homes.spark, "answer", failing)
    put(wr, (4, "a", 1), (6, "a", 1))
    monkeypatch.undo()
    put(wr, (8, "a", 1))
    assert homes(wr) == [True]
    assert sorted(row[1:] for row in answers(wr, "good")) == [
        (2, "a", 1),
        (2, "b", 1),
        (4, "a", 1),
        (6, "a", 1),
        (8, "a", 1),
    ]
    assert sorted(row[1:] for row in answers(wr, "bad")) == [(2, "a", 1), (2, "b", 2)]
    assert wr.queries["bad"].metrics()["state"] == "suspended: out of luck"


def test_lookups_take_one_job(open_state: Open) -> None:
    wr, plain = open_state("spark", synopsis_home="spark"), open_state("driver", synopsis_home="driver")
    found = []
    for one in (wr, plain):
        one.sql(STREAM)
        for name, select in QUERIES.items():
            one.query(name, select)
        for at in range(0, 12, 2):
            put(one, *rows(at))
        asked = [one.queries[name].lookup(window=3) for name in QUERIES]
        asked.append(one.queries["plain"].lookup(window=6, at=9))
        asked.append(one.sql("SELECT k, SUM(x) AS total FROM s [RANGE 3] GROUP BY k ORDER BY total LIMIT 2"))
        found.append([sorted(map(repr, table.rows())) for table in asked])
    assert homes(wr) == [True, True]
    assert found[0] == found[1] and all(found[0])


def test_having_has_no_filter_in_the_spark_home(open_state: Open) -> None:
    wr = open_state(synopsis_home="spark", substream_filters="on", approximate_having="on")
    wr.sql(STREAM)
    query = wr.query("q", "SELECT k FROM s [RANGE 20 SLIDE 10] GROUP BY k HAVING COUNT(*) > 1")
    for at in range(0, 40, 10):
        put(wr, *rows(at))
    assert homes(wr) == [True]
    told = query.explain()
    assert "SubStream Filter: none, its state is in Spark, where every group is looked up" in told
    assert "Having a0 > 1" in told
    snapshot = str(wr.sql("EXPLAIN SELECT k, COUNT(*) AS n FROM s [RANGE 10] GROUP BY k"))
    assert "home: Spark, kept for q" in snapshot


def test_explain_of_a_synopsis_that_stays_in_the_driver(open_state: Open) -> None:
    wr = open_state(synopsis_home="spark")
    wr.sql(STREAM)
    wr.sql("CREATE STREAM r (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED LATE REVISE")
    each = wr.query("each", "SELECT k, COUNT(*) AS n FROM s [ROWS 2 SLIDE 1 PARTITION BY k] GROUP BY k")
    sliding = wr.query("sliding", "SELECT k, COUNT(*) AS n FROM s [RANGE 2 SLIDE 2] GROUP BY k")
    revised = wr.query("revised", "SELECT k, COUNT(*) AS n FROM r [RANGE 2 SLIDE 2] GROUP BY k")
    put(wr, (0, "a", 1), (1, "b", 2))
    put(wr, (0, "a", 1), (1, "b", 2), stream="r")
    assert "home: Spark, blocks in 64 buckets" in sliding.explain()
    assert "home: driver (whatever its size: its windows count the rows of each partition)" in each.explain()
    assert "home: Spark, blocks in 64 buckets" in revised.explain()
    wr.punctuate("s", 9, k="a")
    assert "home: driver (whatever its size: punctuations close groups early)" in sliding.explain()


def test_explain_names_missing_abilities(open_state: Open) -> None:
    wr = open_state(synopsis_home="spark")
    wr.sql(STREAM)
    bounded = "SELECT k, MEDIAN(x) AS m, SUM(x) AS total FROM s [RANGE 4 SLIDE 2] GROUP BY k HAVING SUM(x) > 1"
    stored = wr.query("stored", bounded)
    each = wr.query("each", "SELECT k, MEDIAN(x) AS m FROM s [ROWS 2 SLIDE 1 PARTITION BY k] GROUP BY k")
    wr.sql("SET window_evaluation = 'buffer'")
    buffered = wr.query("buffered", "SELECT k, SUM(x) AS total FROM s [RANGE 6 SLIDE 3] GROUP BY k HAVING SUM(x) > 1")
    put(wr, (0, "a", 1), (1, "b", 2))
    put(wr, (9, "a", 1))
    in_tasks, by_row = "its state is in Spark", "its windows count the rows of each partition"
    told = stored.explain()
    assert f"no index: {in_tasks}" in told and f"rolled up from counters ({in_tasks}" in told
    assert f"no index: {by_row}" in each.explain() and f"rolled up from counters ({by_row})" in each.explain()
    told, tuples = buffered.explain(), "its tuples are buffered"
    assert all(f"{what}{tuples}" in told for what in ("whatever its size: ", "no index: ", "SubStream Filter: none, "))


class LookupGate:
    """Stops the Spark jobs of one-time lookups until it is opened, and counts them."""

    def __init__(self, wr: Any, patch: pytest.MonkeyPatch):
        self.reached, self.opened = threading.Semaphore(0), threading.Event()
        self.jobs = 0
        home = wr._engine.opened.homes.spark
        answer = home.answer

        def waiting(stored: Any, name: str, *asked: Any) -> Any:
            if "lookup" in name:
                self.jobs += 1
                self.reached.release()
                assert self.opened.wait(60)
            return answer(stored, name, *asked)

        patch.setattr(home, "answer", waiting)


QUESTION = "SELECT k, COUNT(*) AS n FROM s [RANGE 3] GROUP BY k"


@pytest.mark.parametrize("level", ["latest", "window"])
def test_updates_go_on_while_a_one_time_query_reads_a_synopsis(
    open_state: Open, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    wr = open_state(synopsis_home="spark")
    wr.sql(STREAM)
    wr.query("q", "SELECT k, COUNT(*) AS n FROM s [RANGE 3 SLIDE 3] GROUP BY k")
    put(wr, (0, "a", 1), (1, "b", 2), (3, "a", 3))
    gate = LookupGate(wr, monkeypatch)
    with ThreadPoolExecutor(1) as asker:
        asked = asker.submit(wr.sql, f"{QUESTION} ISOLATION '{level}'")
        assert gate.reached.acquire(timeout=60)
        assert [row["query"] for row in wr.sql("SHOW SNAPSHOTS")] == [f"{QUESTION} ISOLATION '{level}'"]
        put(wr, (4, "c", 1), (6, "a", 3))  # its commit and its tick need the lock of the stream
        gate.opened.set()
        found = asked.result(60)
    assert found.answered_from == "synopsis"
    if level == "latest":
        assert (sorted(found["k"]), found.window, found.isolation, found.aborts) == (["a", "c"], 6, "latest", 1)
    else:
        assert (sorted(found["k"]), found.window, found.isolation, found.aborts) == (["a", "b"], 3, "window", 0)
    assert wr._engine.opened.blocks.pins.count == 0


def test_a_one_time_query_of_a_synopsis_ends_in_time(open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    wr = open_state(synopsis_home="spark")
    wr.sql(STREAM)
    wr.query("q", "SELECT k, COUNT(*) AS n FROM s [RANGE 3 SLIDE 3] GROUP BY k")
    put(wr, (0, "a", 1), (1, "b", 2), (3, "a", 3))
    gate = LookupGate(wr, monkeypatch)
    with pytest.raises(QueryTimeoutError):
        wr.sql(f"{QUESTION} TIMEOUT 1 SECOND")
    with ThreadPoolExecutor(1) as asker:
        asked = asker.submit(wr.sql, QUESTION)
        assert gate.reached.acquire(timeout=60) and gate.reached.acquire(timeout=60)
        assert wr.cancel() == 1
        with pytest.raises(QueryCancelledError):
            asked.result(60)
    gate.opened.set()
    assert wr.sql(QUESTION).answered_from == "synopsis"
    assert wr._engine.opened.blocks.pins.count == 0
