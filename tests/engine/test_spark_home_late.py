"""LATE REVISE in the Spark home: it delivers the same answers and corrections as the driver home."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from engine.conftest import Open
from engine.helpers import answers, jobs, put, state_of
from windrow.synopses import StoredSynopsis

pytestmark = pytest.mark.slow

QUERIES = {
    "plain": "SELECT k, COUNT(*) AS n, SUM(x) AS total, MAX(k) AS last FROM s [RANGE 9 SLIDE 3] GROUP BY k",
    "bag": "SELECT SUM(x) AS total FROM s [RANGE 6 SLIDE 3] GROUP BY k",
    "first": "SELECT k, SUM(x) + 1 AS total FROM s [RANGE 6 SLIDE 3] GROUP BY k HAVING COUNT(*) > 1"
    " ORDER BY total DESC LIMIT 2",
    "sorted": "SELECT k, AVG(x) AS mean FROM s [RANGE 6 SLIDE 6] WHERE x > 1 GROUP BY k ORDER BY COUNT(*), k",
    "all": "SELECT COUNT(*) AS n, MIN(x) AS least FROM s [RANGE 6 SLIDE 3] WHERE x > 3",
    "values": "SELECT k, MEDIAN(x) AS middle, COUNT(DISTINCT x) AS n FROM s [RANGE 6 SLIDE 3] GROUP BY k",
    "each": "SELECT k, COUNT(*) AS n FROM s [RANGE 4 SLIDE 1 ROW] GROUP BY k",
    "far": "SELECT k, MAX(x) AS top FROM s [RANGE 6 SLIDE 7] GROUP BY k",
}
STREAM = "CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED LATE REVISE{}"


def delivered(wr: Any) -> dict[str, list[str]]:
    return {name: sorted(map(repr, wr.queries[name].revisions().rows())) for name in wr.queries}


def batches(seed: int, count: int = 6) -> list[list[tuple[int, str, int]]]:
    """Most rows in order, some late, a few by more than a reach of 12; one batch has only late rows."""
    rng, out = Random(seed), []
    for at in range(0, 4 * count, 4):
        some = [(at + rng.randrange(4), f"k{rng.randrange(7)}", rng.randrange(6)) for _ in range(12)]
        late = [(max(0, at - rng.randrange(1, 16)), f"k{rng.randrange(9)}", rng.randrange(6)) for _ in range(5)]
        out.append(late if at == 8 else some + late)
    return out


def open_with(open_state: Open, name: str, reach: str, queries: Sequence[str], **settings: Any) -> Any:
    wr = open_state(name, **settings)
    wr.sql(STREAM.format(reach))
    for query in queries:
        wr.query(query, QUERIES[query])
    return wr


@pytest.mark.parametrize(
    ("mode", "reach", "queries"),
    [("spark", "", ["plain", "bag", "first", "each"]), ("driver", " FOR 12", list(QUERIES))],
)
def test_corrections_equal_the_driver_home(open_state: Open, mode: str, reach: str, queries: Sequence[str]) -> None:
    """With restarts, and moves while late cells wait to be merged."""
    plain = open_with(open_state, "plain", reach, queries, synopsis_home="driver", preaggregate="driver")
    wr = open_with(open_state, "moving", reach, queries, synopsis_home="spark", preaggregate=mode)
    for number, rows in enumerate(batches(len(reach))):
        if number in (3, 4):
            wr.sql(f"SET synopsis_home = '{'driver' if number == 3 else 'spark'}'")
        if number in (2, 5):
            wr.close()
            wr = open_state("moving", synopsis_home="spark", preaggregate=mode)
        for one in (plain, wr):
            put(one, *rows)
        home = {isinstance(state.synopsis, StoredSynopsis) for state in state_of(wr).synopses.values()}
        assert home == {number != 3}
        assert delivered(wr) == delivered(plain), f"after micro-batch {number}"
    for one in (plain, wr):
        one.end_input("s")
    assert delivered(wr) == delivered(plain)
    corrected = {name for name, rows in delivered(wr).items() if any("'op': '-'" in row for row in rows)}
    assert corrected == set(queries)
    for name in queries:
        assert sorted(answers(wr, name), key=str) == sorted(answers(plain, name), key=str)


def test_corrections_take_one_job(open_state: Open, spark: Any) -> None:
    wr = open_state(synopsis_home="spark")
    wr.sql(STREAM.format(""))
    for i in range(4):
        wr.query(f"q{i}", f"SELECT k, COUNT(*) AS n FROM s [RANGE {3 * i + 3} SLIDE 3] GROUP BY k")
    for at in range(0, 24, 6):
        put(wr, (at, "a", 1), (at + 1, "b", 2))
    before = jobs(spark)
    put(wr, (18, "a", 1))
    quiet = jobs(spark) - before
    put(wr, (2, "a", 1), (9, "c", 1))
    assert jobs(spark) - before - quiet == quiet + 1
    told = [row for i in range(4) for row in wr.queries[f"q{i}"].revisions().rows() if row["revision"]]
    assert {row["window_end"] for row in told} >= {3, 6, 12, 15}


def test_failing_correction_suspends_one_query(open_state: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    from windrow.dataplane.kernels import BucketCorrection

    wr = open_state(synopsis_home="spark")
    wr.sql(STREAM.format(""))
    wr.query("good", "SELECT k, COUNT(*) AS n FROM s [RANGE 2 SLIDE 2] GROUP BY k")
    wr.query("bad", "SELECT k, SUM(x) AS total FROM s [RANGE 2 SLIDE 2] GROUP BY k")
    put(wr, (0, "a", 1), (4, "b", 2))
    told = wr._engine.opened.homes.spark.revise

    def failing(*asked: Any) -> list[list[BucketCorrection]]:
        return [
            [BucketCorrection(1, None, None, "out of luck")] if parts and parts[0].query == 1 else parts
            for parts in told(*asked)
        ]

    monkeypatch.setattr(wr._engine.opened.homes.spark, "revise", failing)
    put(wr, (1, "a", 1))
    monkeypatch.undo()
    put(wr, (0, "b", 1))
    put(wr, (6, "b", 1))
    assert sorted(row[1:] for row in answers(wr, "good")) == [(2, "a", 2), (2, "b", 1), (6, "b", 1)]
    assert wr.queries["bad"].metrics()["state"] == "suspended: out of luck"
