"""Every kind of window and aggregate that may be in the Spark home: answers always equal the driver home's, with
restarts and moves."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from engine.conftest import Open
from engine.helpers import put
from windrow.synopses import StoredSynopsis

pytestmark = pytest.mark.slow

STREAM = "CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE WITH SLACK 2"
KINDS = {
    "since": "SELECT k, COUNT(*) AS n, MAX(x) AS top FROM s [SINCE 5 SLIDE 3] GROUP BY k",
    "unbounded": "SELECT COUNT(DISTINCT x) AS n, SUM(x) AS total FROM s [UNBOUNDED SLIDE 4]",
    "rank": "SELECT k, COUNT(*) AS n FROM s [RANGE 6 SLIDE 3 ROWS SATTR rank(t)] WHERE x > 0 GROUP BY k",
    "rows": "SELECT k, SUM(x) AS total FROM s [RANGE 6 SLIDE 3 ROWS] GROUP BY k ORDER BY total DESC LIMIT 2",
}
LISTS = {
    "items": "SELECT k, FREQUENT_ITEMS(x, 2) AS found, COUNT(*) AS n FROM s [RANGE 12 SLIDE 4] GROUP BY k",
    "of_rows": "SELECT FREQUENT_ITEMS(x, 3) AS found FROM s [ROWS 20 SLIDE 10]",
}


def batches(seed: int) -> list[list[tuple[int, str, int]]]:
    rng = Random(seed)
    return [
        [(max(0, at + rng.randrange(-4, 4)), f"k{rng.randrange(5)}", min(rng.randrange(9), 5)) for _ in range(14)]
        for at in range(0, 24, 4)
    ]


def told(wr: Any, revised: bool) -> dict[str, list[str]]:
    tables = {name: query.revisions() if revised else query.answers() for name, query in wr.queries.items()}
    return {name: sorted(map(repr, table.rows())) for name, table in tables.items()}


def homes(wr: Any) -> set[bool]:
    return {isinstance(s.synopsis, StoredSynopsis) for s in wr._engine.manager.stream("s").synopses.values()}


@pytest.mark.parametrize(
    ("queries", "late", "mode"),
    [(KINDS, " LATE REVISE FOR 9", "driver"), (KINDS | LISTS, "", "driver"), (LISTS, "", "spark")],
    ids=["revised", "dropped", "lists"],
)
def test_answers_equal_the_driver_home(open_state: Open, queries: Mapping[str, str], late: str, mode: str) -> None:
    chosen = {"synopsis_home": "spark", "preaggregate": mode}
    wr, plain = open_state("moving", **chosen), open_state("plain", synopsis_home="driver", preaggregate="driver")
    for one in (wr, plain):
        one.sql(STREAM + late)
        for name, select in queries.items():
            one.query(name, select)
    for number, rows in enumerate(batches(len(queries))):
        if number in (3, 4):
            wr.sql(f"SET synopsis_home = '{'driver' if number == 3 else 'spark'}'")
        if number in (2, 5):
            wr.close()
            wr = open_state("moving", **chosen)
        for one in (wr, plain):
            put(one, *rows)
        assert homes(wr) == {number != 3} and homes(plain) == {False}
        assert told(wr, bool(late)) == told(plain, bool(late)), f"after micro-batch {number}"
    found = told(wr, bool(late))
    assert all(len(rows) > 3 for rows in found.values())
    assert not late or any("'op': '-'" in row for rows in found.values() for row in rows)
    if "items" in queries:
        assert "frequent items, home: Spark" in wr.queries["items"].explain()
        asked = [one.queries["items"].lookup(window=8).rows() for one in (wr, plain)]
        assert sorted(map(repr, asked[0])) == sorted(map(repr, asked[1])) and asked[0]
