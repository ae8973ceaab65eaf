"""Queries over the same streams: one join, one commit, one file; the same changes as alone."""

from __future__ import annotations

from typing import Any

import pytest

import windrow
from engine.conftest import Open
from engine.helpers import blocks_of

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


def test_changes_are_those_of_queries_that_share_nothing(open_state: Open) -> None:
    wr = open_state()
    together = run(wr, QUERIES, late="two")
    assert all(together.values())
    assert partners(wr, "one") == {"two", "all_", "swapped", "came"}
    assert "it ran once with that of " in str(wr.queries["one"].explain())
    assert partners(wr, "wider") == {"as_wide"}
    assert partners(wr, "internal") == partners(wr, "windows") == set()
    alone = open_state("alone", disabled_rules="share_joins")
    assert run(alone, QUERIES, late="two") == together
    assert partners(alone, "one") == set()


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
