"""Answers depend on event time alone: the same input in any micro-batches, on any number of partitions, killed three
times at random moments, gives the same answers, and they are the oracle's.

20,000 tuples, shuffled within a slack of 10 s; with WINDROW_MATRIX=full 60,000 and every combination, with
WINDROW_MATRIX=product 200,000.
"""

from __future__ import annotations

import itertools
import random
import time
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from crash import child as children
from support.matrix import is_full, sized

import windrow
from windrow.oracle import Oracle, equal_rows
from windrow.oracle.values import sort_key
from windrow.testing import ManualClock

pytestmark = [pytest.mark.slow, pytest.mark.matrix]

SIZE = sized(20_000, 60_000, 200_000)
SLACK_US = 10_000_000
BEGIN_US = 1_700_000_000_000_000
BATCHES = (1_000, sized(5_000, 10_000, 20_000), None)
PARTITIONS = (1, 2, 7)

COLUMNS = "ts TIMESTAMP, src STRING, dst STRING, n INT, big BIGINT, y DOUBLE, d DECIMAL(10,2)"
CLAUSES = "TIMESTAMP BY ts PUNCTUATE WITH SLACK 10 SECONDS"
QUERIES = {
    "grouped": "SELECT src, SUM(n) AS s, COUNT(*) AS c, AVG(y) AS m"
    " FROM s [RANGE 30 SECONDS SLIDE 10 SECONDS] GROUP BY src",
    "whole": "SELECT COUNT(*) AS c, SUM(big) AS s, MIN(y) AS lo, MAX(y) AS hi, STDDEV(y) AS sd"
    " FROM s [RANGE 25 SECONDS SLIDE 7 SECONDS]",
    "sampled": "SELECT dst, MAX(src) AS last, SUM(d) AS total"
    " FROM s [RANGE 5 SECONDS SLIDE 20 SECONDS] WHERE n > 10 GROUP BY dst",
    "computed": "SELECT src, length(dst) AS len, SUM(y) / COUNT(*) AS mean"
    " FROM s [RANGE 60 SECONDS SLIDE 30 SECONDS] WHERE y < 50 GROUP BY src, length(dst) HAVING COUNT(*) > 3",
    "ranked": "SELECT src, SUM(n) AS s FROM s [RANGE 40 SECONDS SLIDE 20 SECONDS] GROUP BY src ORDER BY s DESC LIMIT 3",
    "fine": "SELECT COUNT(n) FILTER (WHERE dst IS NULL) AS c, MIN(dst) AS first"
    " FROM s [RANGE 1 SECOND SLIDE 333 MILLISECONDS]",
}
INTO = {
    "grouped": " INTO parquet OPTIONS (path '{root}/grouped')",
    "ranked": " INTO jsonl OPTIONS (path '{root}/ranked.jsonl')",
}


@cache
def tuples() -> pa.Table:
    """50 tuples a second with ties and a silence of an hour, each up to 10 s out of its place."""
    rng = np.random.default_rng(11)
    points = np.sort(rng.integers(0, SIZE * 20, SIZE)) * 1000 + BEGIN_US
    points[SIZE // 2 :] += 3_600_000_000
    arrival = np.argsort(points + rng.integers(0, SLACK_US, SIZE), kind="stable")
    hosts = np.array([f"10.0.0.{i}" for i in range(12)])
    missing = lambda share: rng.random(SIZE) < share  # noqa: E731
    columns = {
        "ts": pa.array(points).view(pa.timestamp("us", "UTC")),
        "src": pa.array(hosts[rng.integers(0, 12, SIZE)]),
        "dst": pa.array(hosts[rng.integers(0, 12, SIZE)], mask=missing(0.3)),
        "n": pa.array(rng.integers(-20, 100, SIZE).astype(np.int32), mask=missing(0.1)),
        "big": pa.array(rng.integers(-(1 << 61), 1 << 61, SIZE), mask=missing(0.9)),
        "y": pa.array(rng.integers(0, 10_000, SIZE) / 97.0, mask=missing(0.05)),
        "d": pa.array([Decimal(v).scaleb(-2) for v in rng.integers(0, 10**6, SIZE).tolist()], pa.decimal128(10, 2)),
    }
    return pa.table(columns).take(pa.array(arrival))


def cut(batch: int | None) -> list[pa.Table]:
    rows, size = tuples(), batch or SIZE
    return [rows.slice(at, size) for at in range(0, SIZE, size)]


def in_order(query: str, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows, sorted within each window unless the query has ORDER BY. The windows must be in order."""
    ends = [row[1] for row in rows]
    assert ends == sorted(ends), f"the windows of {query} are not in order"
    return rows if query == "ranked" else sorted(rows, key=lambda row: (row[1], sort_key(row[2:])))


@pytest.fixture(scope="module")
def expected(spark: Any) -> dict[str, list[tuple[Any, ...]]]:
    """The oracle's answers to the whole input at once."""
    oracle = Oracle(spark, ManualClock("2030-01-01 00:00:00"))
    oracle.sql(f"CREATE STREAM s ({COLUMNS}) FROM memory {CLAUSES}")
    for name, select in QUERIES.items():
        oracle.sql(f"CREATE QUERY {name} AS {select}")
    oracle.deposit("s", tuples().to_pylist())
    oracle.end_input("s")
    assert oracle.dead_letters("s") == []
    answers = {name: in_order(name, oracle.answers(name).rows) for name in QUERIES}
    assert all(len(rows) > 30 for rows in answers.values())
    return answers


def check(found: dict[str, list[tuple[Any, ...]]], expected: dict[str, list[tuple[Any, ...]]], how: str) -> None:
    for name, rows in expected.items():
        mine = in_order(name, found[name])
        assert len(mine) == len(rows), f"{name}: {len(mine)} rows, not {len(rows)} ({how})"
        wrong = [(a, b) for a, b in zip(mine, rows, strict=True) if not equal_rows(a, b)]
        assert not wrong, f"{name}, {how}: {len(wrong)} rows differ, the first: {wrong[0]}"


def variations() -> list[Any]:
    if is_full():
        return list(itertools.product(BATCHES, PARTITIONS, ("spark", "driver", "auto")))
    return list(zip(BATCHES, (2, 7, 1), ("driver", "spark", "auto"), strict=True))


@pytest.mark.parametrize(("batch", "partitions", "preaggregate"), variations())
def test_any_micro_batches_and_partitions(
    spark: Any,
    tmp_path: Path,
    expected: dict[str, list[tuple[Any, ...]]],
    batch: int | None,
    partitions: int,
    preaggregate: str,
) -> None:
    settings = {"preaggregate": preaggregate, "retained_answers": 10**9}
    with windrow.open(tmp_path, spark=spark, settings=settings, clock=ManualClock("2030-01-01")) as wr:
        wr.sql(f"CREATE STREAM s ({COLUMNS}) FROM memory {CLAUSES}")
        for name, select in QUERIES.items():
            wr.sql(f"CREATE QUERY {name} AS {select}")
        for rows in cut(batch):
            wr.deposit("s", rows, partitions=partitions)
        wr.end_input("s")
        answers = {name: wr.queries[name].answers().arrow().drop_columns(["is_revision"]) for name in QUERIES}
        assert wr.metrics()["s"]["dead_letters"] == 0
    check({n: children.rows_of(t) for n, t in answers.items()}, expected, f"{batch}, {partitions}, {preaggregate}")


ALONE, GROUP, MIXED = (False, False, False), (True, True, True), (False, True, False)


def killed() -> list[Any]:
    """Micro-batches, and for each of the three kills whether it takes the whole group."""
    if is_full():
        return list(itertools.product(BATCHES, (ALONE, GROUP)))
    return [(1_000, MIXED)]


@pytest.mark.crash
@pytest.mark.parametrize(("batch", "groups"), killed())
def test_three_kills_at_random_moments(
    spark: Any,
    tmp_path: Path,
    expected: dict[str, list[tuple[Any, ...]]],
    batch: int | None,
    groups: tuple[bool, bool, bool],
) -> None:
    seed = f"{batch}-{groups}"
    stream = (
        f"CREATE STREAM IF NOT EXISTS s ({COLUMNS}) FROM files"
        f" OPTIONS (path '{{root}}/in', format 'parquet', maxFilesPerTrigger '1') {CLAUSES}"
    )
    queries = [f"CREATE QUERY IF NOT EXISTS {n} AS {q}{INTO.get(n, '')}" for n, q in QUERIES.items()]
    batches = cut(batch)
    settings = {"retained_answers": 10**9, "driver_memory": "512 MB" if len(batches) > 1 else "1 GB"}
    root = children.make_root(tmp_path / "root", batches, [stream, *queries], **settings)
    moments = [kill_at_random(root, len(batches), i, group, seed) for i, group in enumerate(groups)]
    children.run_to_end(root)
    outcome = children.outcome(root, spark)
    assert outcome.stream["dead_letters"] == 0 and outcome.stream["admitted"] == SIZE
    found = {name: [(*row[:2], *row[3:]) for row in rows] for name, rows in outcome.answers.items()}
    check(found, expected, f"{seed}, killed at {moments}")
    assert children.parquet_rows(root / "grouped") == outcome.answers["grouped"]
    assert len((root / "ranked.jsonl").read_text().splitlines()) == len(outcome.answers["ranked"])


def kill_at_random(root: Path, batches: int, number: int, group: bool, seed: str) -> tuple[int, float]:
    """Start a child and kill it some time after a random micro-batch of this quarter of the work."""
    rng = random.Random(f"{seed}-{number}")
    target, pause_s = int(batches * (number + rng.random()) / 4), rng.uniform(0, 1.0)
    commits = root / "state" / "streams" / "1" / "checkpoint" / "commits"

    def reached() -> bool:
        done = [int(path.name) for path in commits.glob("*") if path.name.isdigit()]
        return (root / "ready").exists() and max(done, default=-1) + 1 >= target

    with children.child(root) as process:
        assert children.wait_for(process, reached), f"the child ended by itself:\n{children.tail(root)}"
        time.sleep(pause_s)
        assert process.poll() is None, f"the child ended before it was killed ({target} + {pause_s} s)"
        children.kill(process, group)
    return target, pause_s
