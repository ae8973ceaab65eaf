"""Queries over the same streams: one join, one commit, one file; the same changes as alone."""

from __future__ import annotations

from typing import Any

import pytest

import windrow
from engine.conftest import Open
from engine.helpers import blocks_of, jobs

STREAMS = [
    f"CREATE STREAM {name} (t BIGINT, k STRING, g INT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
    for name in ("r", "s")
]
JOIN = "FROM r [RANGE 6], s [RANGE 4] WHERE r.k = s.k"
QUERIES = {
    "one": f"SELECT r.k, s.x {JOIN} AND r.g = 1",
    "two": f"SELECT s.k, r.x, s.g {JOIN} AND r.g = 2 AND r.x < s.x",
    "all_": f"SELECT r.*, s.g AS h, s.x AS y {JOIN}",
    "swapped": "SELECT COUNT(*) AS n FROM s [RANGE 4], r [RANGE 6] WHERE s.k = r.k AND s.g <> 1 GROUP BY r.g",
    "came": f"SELECT ISTREAM(r.x) {JOIN} AND s.g IN (0, 1)",
    "internal": "SELECT r.k FROM r [RANGE 6 INTERNAL], s [RANGE 4 INTERNAL] WHERE r.k = s.k AND r.g = 1",
    "wider": "SELECT r.k FROM r [RANGE 9], s [RANGE 4] WHERE r.k = s.k",
    "as_wide": "SELECT s.x FROM r [RANGE 9], s [RANGE 4] WHERE r.k = s.k AND r.g = 0",
    "windows": "SELECT COUNT(*) AS n FROM r [RANGE 6 SLIDE 3], s [RANGE 4 SLIDE 3] WHERE r.k = s.k AND r.g = 0",
}


def feed(wr: windrow.Windrow, number: int) -> None:
    for stream, name in enumerate(("r", "s")):
        rows = []
        for i in range(9):
            n = number * 9 + i
            key = None if (n + stream) % 11 == 0 else "abcde"[(n * (stream + 1)) % 5]
            rows.append((number * 5 + i // 2, key, (n + stream) % 3, (n * 7) % 5))
        wr.deposit(name, rows)


def run(wr: windrow.Windrow, queries: dict[str, str], late: str | None = None) -> dict[str, Any]:
    """What the queries gave; the query `late` is created in the middle."""
    for text in STREAMS:
        wr.sql(text)
    for name, text in queries.items():
        if name != late:
            wr.sql(f"CREATE QUERY {name} AS {text}")
    for number in range(4):
        if number == 1 and late is not None:
            wr.sql(f"CREATE QUERY {late} AS {queries[late]}")
        feed(wr, number)
    return {name: bag(wr, name) for name in queries}


def bag(wr: windrow.Windrow, name: str) -> list[str]:
    query = wr.queries[name]
    table = query.answers() if name == "windows" else query.changes()
    return sorted(map(str, table.arrow().to_pylist()))


def partners(wr: windrow.Windrow, name: str) -> set[str]:
    return set(wr._engine.plans.query(name).shares_join_with)


HOMES = ["driver", pytest.param("spark", marks=pytest.mark.slow)]


@pytest.mark.parametrize("home", HOMES)
def test_changes_are_those_of_queries_that_share_nothing(open_state: Open, home: str) -> None:
    wr = open_state(plan_home=home)
    together = run(wr, QUERIES, late="two")
    assert all(together.values())
    assert partners(wr, "one") == {"two", "all_", "swapped", "came"}
    assert "it ran once with that of " in str(wr.queries["one"].explain())
    assert partners(wr, "wider") == {"as_wide"}
    assert partners(wr, "internal") == partners(wr, "windows") == set()
    alone = open_state("alone", disabled_rules="share_joins")
    assert run(alone, QUERIES, late="two") == together
    assert partners(alone, "one") == set()


@pytest.mark.slow
def test_a_tick_of_many_queries_is_one_job_and_one_file_per_task(open_state: Open, spark: Any) -> None:
    wr = open_state(plan_home="spark")
    many = {f"q{i}": f"SELECT r.k, s.x {JOIN} AND r.g = {i % 3} AND s.x <> {i}" for i in range(12)}
    run(wr, many)
    assert len(partners(wr, "q3")) == 11
    before, files = jobs(spark), blocks_of(wr, "plans")
    feed(wr, 4)
    assert jobs(spark) - before <= 2 + 2  # a job per deposit, and one for the ticks that it makes due
    assert blocks_of(wr, "plans") <= files + 2 * 2
    for number in range(5, 9):
        feed(wr, number)
    assert blocks_of(wr, "plans") <= 2 * 2 + 1


@pytest.mark.slow
def test_a_query_that_fails_in_a_shared_job_fails_alone(open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    wr = open_state(plan_home="spark")
    for text in STREAMS:
        wr.sql(text)
    for name in ("one", "two", "swapped"):
        wr.sql(f"CREATE QUERY {name} AS {QUERIES[name]}")
    stages = wr._engine.opened.plan_homes["spark"]._stages
    run_job, tried = stages.run, list[int]()

    def run(tasks: Any, joins: Any, job: Any) -> Any:
        """The first plan fails, and the second misses a file at its first try."""
        found, second = run_job(tasks, joins, job), wr._engine.plans.query("two").id
        for task, reports in zip(tasks, found, strict=True):
            if task.number < second:
                reports[0] = {"level": 0, "place": 0, "error": "it is wrong"}
            elif task.number == second and not tried:
                reports[0] = {"level": 0, "place": 0, "missing": "a file is gone"}
        tried.append(len(tasks))
        return found

    monkeypatch.setattr(stages, "run", run)
    for number in range(3):
        feed(wr, number)
    assert wr._engine.plans.query("one").error == "it is wrong"
    assert tried[:2] == [3, 1] and set(tried[2:]) == {2}
    names = ("two", "swapped")
    alone = open_state("alone")
    for text in STREAMS:
        alone.sql(text)
    for name in names:
        alone.sql(f"CREATE QUERY {name} AS {QUERIES[name]}")
    for number in range(3):
        feed(alone, number)
    assert all(bag(wr, name) == bag(alone, name) and bag(wr, name) for name in names)


def test_many_queries_make_one_file_and_files_do_not_stay(open_state: Open) -> None:
    wr = open_state()
    many = {f"q{i}": f"SELECT r.k, s.x {JOIN} AND r.g = {i % 3} AND s.x <> {i}" for i in range(12)}
    run(wr, many)
    before = blocks_of(wr, "plans")
    feed(wr, 4)
    assert blocks_of(wr, "plans") <= before + 1
    for number in range(5, 9):
        feed(wr, number)
    assert blocks_of(wr, "plans") <= 2
    assert blocks_of(wr, "plans/shared") == blocks_of(wr, "plans")


def test_a_failing_sink_holds_only_its_own_query_back(open_state: Open) -> None:
    wr = open_state()
    for text in STREAMS:
        wr.sql(text)

    class Broken:
        def write(self, batch: Any) -> None:
            raise OSError("the disk of the sink is full")

    for i in range(3):
        wr.query(f"q{i}", f"SELECT r.k {JOIN} AND r.g = {i}", sink=Broken() if i == 0 else None)
    with pytest.raises(OSError, match="disk of the sink"):
        for number in range(3):
            feed(wr, number)
    assert not bag(wr, "q0") and bag(wr, "q1") and bag(wr, "q2")
