"""Killed while a synopsis moves to Spark, and in the commits of its Spark home, a workload has the driver home's
answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.matrix import is_full

from crash import child as children
from crash.abandoned import run_to_kill
from crash.test_crash_points import HOMES, batches

pytestmark = [pytest.mark.slow, pytest.mark.crash]

KILLS = (*sorted(HOMES), "deposit-blocks-written", "tick-blocks-written", "compaction-written")
STATEMENTS = (
    "CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, k STRING, x INT, y DOUBLE) FROM files"
    " OPTIONS (path '{root}/in', format 'parquet', maxFilesPerTrigger '1')"
    " TIMESTAMP BY ts PUNCTUATE WITH SLACK 4 SECONDS",
    "CREATE QUERY IF NOT EXISTS long AS SELECT k, SUM(x) AS total, COUNT(*) AS n, MAX(y) AS most"
    " FROM s [RANGE 40 SECONDS SLIDE 10 SECONDS] GROUP BY k INTO parquet OPTIONS (path '{root}/files')",
    "CREATE QUERY IF NOT EXISTS short AS SELECT k, MIN(x) AS least"
    " FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS] WHERE x > 2 GROUP BY k ORDER BY k LIMIT 2",
    "CREATE QUERY IF NOT EXISTS so_far AS SELECT k, COUNT(*) AS n FROM s [UNBOUNDED SLIDE 5 SECONDS] GROUP BY k",
    "CREATE QUERY IF NOT EXISTS ranked AS SELECT k, SUM(x) AS total"
    " FROM s [RANGE 20 SECONDS SLIDE 5 ROWS SATTR rank(ts)] GROUP BY k",
)
SETTINGS = {"preaggregate": "spark", "synopsis_blocks": 4, "driver_memory": "512 MB"}
SPARK = {**SETTINGS, "driver_synopsis_bytes": "1 KB"}
"""The synopsis exceeds this size within the first micro-batches."""


def sorted_rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: tuple(map(str, row)))


@pytest.fixture(scope="module")
def expected(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> children.Outcome:
    root = tmp_path_factory.mktemp("homes") / "driver"
    children.make_root(root, batches(), STATEMENTS, **SETTINGS, synopsis_home="driver")
    children.run_uninterrupted(root, spark)
    return children.outcome(root, spark)


def check(root: Path, spark: Any, expected: children.Outcome) -> None:
    found = children.outcome(root, spark)
    for name, rows in expected.answers.items():
        assert sorted_rows(found.answers[name]) == sorted_rows(rows) and len(rows) > 20
    assert (found.counted, found.stream) == (expected.counted, expected.stream)
    assert sorted_rows(children.parquet_rows(root / "files")) == sorted_rows(expected.answers["long"])


def test_killed_at_every_point_of_the_spark_home(spark: Any, tmp_path: Path, expected: children.Outcome) -> None:
    root = children.make_root(tmp_path / "root", batches(), STATEMENTS, **SPARK)
    for number, point in enumerate(KILLS):
        run_to_kill(root, spark, f"{point}:1", group=number % 2 == 0)
    children.run_uninterrupted(root, spark)
    check(root, spark, expected)
    named = {row.path for row in _blocks(root, spark)}
    held = {str(path.relative_to(root / "state")) for path in (root / "state" / "synopses").rglob("*.arrow")}
    assert held == named


def _blocks(root: Path, spark: Any) -> list[Any]:
    import windrow

    with windrow.open(root / "state", spark=spark, settings=SPARK) as wr:
        assert {row["home"] for row in wr.sql("SHOW SHARING").rows()} == {"Spark"}
        return [row for row in wr._engine.opened.blocks.named() if row.owner.startswith("synopses")]


@pytest.mark.matrix
@pytest.mark.parametrize("point", KILLS if is_full() else ())
def test_killed_twice_at_one_point(spark: Any, tmp_path: Path, expected: children.Outcome, point: str) -> None:
    root = children.make_root(tmp_path / "root", batches(), STATEMENTS, **SPARK)
    children.run_to_crash(root, f"{point}:1", True)
    if point not in HOMES:  # it moves only once
        children.run_to_crash(root, f"{point}:2", False)
    children.run_to_end(root)
    check(root, spark, expected)
