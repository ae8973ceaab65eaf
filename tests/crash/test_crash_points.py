"""A workload killed at every point of the commit protocol, alone or with its JVM, ends as if it had not been killed."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.matrix import is_full

from crash import child as children
from crash.abandoned import run_to_kill
from windrow.types import EPOCH

pytestmark = [pytest.mark.slow, pytest.mark.crash]

SOURCE = Path(__file__).resolve().parents[2] / "src" / "windrow"

POINTS = (
    "deposit-blocks-written",
    "tick-staged",
    "deposit-committed",
    "tick-blocks-written",
    "compaction-written",
    "tick-committed",
    "tick-published",
    "answers-compaction-written",
)

FIRST = {"tick-staged": 2, "tick-blocks-written": 2, "tick-committed": 2}
"""The pass at which the chain of kills uses a point, if it is not the first."""

PROCESSES = ("deposit-committed", "tick-committed")
"""Where the chain kills a process, with its JVM and alone. At the other points a run in this process is abandoned."""

STATEMENTS = (
    "CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, k STRING, x INT, y DOUBLE) FROM files"
    " OPTIONS (path '{root}/in', format 'parquet', maxFilesPerTrigger '1')"
    " TIMESTAMP BY ts PUNCTUATE WITH SLACK 4 SECONDS",
    "CREATE QUERY IF NOT EXISTS files AS SELECT k, SUM(x) AS total, AVG(y) AS mean"
    " FROM s [RANGE 40 SECONDS SLIDE 10 SECONDS] GROUP BY k INTO parquet OPTIONS (path '{root}/files')",
    "CREATE QUERY IF NOT EXISTS lines AS SELECT COUNT(*) AS n, MAX(k) AS last, MIN(x) AS least"
    " FROM s [RANGE 7 SECONDS SLIDE 3 SECONDS] WHERE x > 2 INTO jsonl OPTIONS (path '{root}/lines.jsonl')",
    "CREATE QUERY IF NOT EXISTS ranked AS SELECT k, COUNT(*) AS n, SUM(x) AS total"
    " FROM s [ROWS 12 SLIDE 5 PARTITION BY k]",
    "CREATE QUERY IF NOT EXISTS so_far AS SELECT COUNT(*) AS n, MAX(y) AS most FROM s [UNBOUNDED SLIDE 3 SECONDS]",
    "CREATE QUERY IF NOT EXISTS called AS SELECT k, COUNT(*) AS n FROM s [RANGE 20 SECONDS SLIDE 5 SECONDS] GROUP BY k",
)
SETTINGS = {"preaggregate": "driver", "synopsis_blocks": 4, "driver_memory": "512 MB"}


def batches() -> list[pa.Table]:
    """20 micro-batches over 100 s, in disorder; some rows are late or have no time."""
    rng = random.Random(20)
    out = []
    for i in range(20):
        points = [int(1e6 * (5 * i + rng.uniform(-4, 5))) for _ in range(30)]
        points += [int(1e6 * (5 * i - 30))] * (i % 5 == 4)
        rows = {
            "ts": pa.array([*points, *([None] * (i % 7 == 3))], pa.timestamp("us", "UTC")),
            "k": None,
            "x": None,
            "y": None,
        }
        count = len(rows["ts"])
        rows["k"] = pa.array([rng.choice(["a", "b", "c", None]) for _ in range(count)], pa.string())
        rows["x"] = pa.array([rng.choice([None, *range(9)]) for _ in range(count)], pa.int32())
        rows["y"] = pa.array([rng.randrange(100) / 4 for _ in range(count)], pa.float64())
        out.append(pa.table(rows))
    return out


def new_root(directory: Path) -> Path:
    return children.make_root(directory, batches(), STATEMENTS, ["called"], **SETTINGS)


@pytest.fixture(scope="module")
def expected(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, children.Outcome]:
    root = new_root(tmp_path_factory.mktemp("crash") / "uninterrupted")
    children.run_uninterrupted(root, spark)
    return root, children.outcome(root, spark)


def by_partition(rows: list[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    return {k: [row for row in rows if row[3] == k] for k in {row[3] for row in rows}}


def check(root: Path, spark: Any, expected: tuple[Path, children.Outcome]) -> None:
    """Sinks hold every answer once; callbacks get every answer at least once, under its key."""
    reference, outcome = expected
    found = children.outcome(root, spark)
    # Each partition has its own windows in their order; how partitions interleave depends on the ticks.
    assert by_partition(found.answers.pop("ranked")) == by_partition(outcome.answers["ranked"])
    assert found.answers == {name: rows for name, rows in outcome.answers.items() if name != "ranked"}
    assert found.counted == outcome.counted
    assert found.stream == outcome.stream
    assert children.parquet_rows(root / "files") == outcome.answers["files"]
    assert (root / "lines.jsonl").read_bytes() == (reference / "lines.jsonl").read_bytes()
    assert children.callbacks(root) == children.callbacks(reference)
    assert not list(root.rglob("*.staged"))


HOMES = {"home-blocks-written", "home-moved"}
"""The points of moves between homes are in `test_crash_homes.py`."""

STORES = {"store-files-written", "store-merge-written", "store-merged"}
"""The points of window stores are in `test_crash_stores.py`."""


PLANS = {"plan-staged", "plan-blocks-written", "plan-committed", "plan-published"}
"""The points of continuous queries are in `test_crash_plans.py`."""


TABLES = {"table-blocks-written", "table-committed"}
"""The points of statements over tables are in `tests/unit/engine/test_table_crashes.py`."""


REPLACED = {"plan-swapping", "query-replacing"}
"""The points of queries that take the place of others are in `test_crash_replacing.py`."""


def test_every_crash_point_of_the_code_is_tested() -> None:
    text = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    assert set(re.findall(r"crash_point\(\"([a-z-]+)\"\)", text)) == {
        *POINTS,
        *HOMES,
        *STORES,
        *PLANS,
        *TABLES,
        *REPLACED,
    }


def test_workload_reaches_every_part(expected: tuple[Path, children.Outcome]) -> None:
    reference, outcome = expected
    assert all(len(rows) >= 30 for rows in outcome.answers.values())
    assert outcome.stream["dead_letter_reasons"] == {"late": 4, "null window attribute": 3}
    lines = (reference / "lines.jsonl").read_text().splitlines()
    assert len(lines) == len(outcome.answers["lines"])
    assert len(children.parquet_rows(reference / "files")) == len(outcome.answers["files"])
    assert outcome.answers["files"][0][0] >= EPOCH.replace(year=1969)


def test_killed_at_every_point_in_turn(spark: Any, tmp_path: Path, expected: tuple[Path, children.Outcome]) -> None:
    """Kill one state directory once at each point, alone and with its group in turn."""
    root = new_root(tmp_path / "root")
    for number, point in enumerate(POINTS):
        kill = f"{point}:{FIRST.get(point, 1)}"
        if point in PROCESSES:
            children.run_to_crash(root, kill, group=number % 2 == 0)
        else:
            run_to_kill(root, spark, kill, group=number % 2 == 0)
    children.run_to_end(root)
    check(root, spark, expected)


def every_kill() -> list[tuple[str, int, bool]]:
    """(point, pass, whole group) of every kill in the full matrix. By default the chain above covers the points."""
    return list(itertools.product(POINTS, (1, 2), (False, True))) if is_full() else []


@pytest.mark.matrix
@pytest.mark.parametrize(("point", "passes", "group"), every_kill())
def test_killed_twice_at_one_point(
    spark: Any,
    tmp_path: Path,
    expected: tuple[Path, children.Outcome],
    point: str,
    passes: int,
    group: bool,
) -> None:
    root = new_root(tmp_path / "root")
    children.run_to_crash(root, f"{point}:{passes}", group)
    if point != "answers-compaction-written":  # the point is not reached again
        children.run_to_crash(root, f"{point}:1", not group)
    children.run_to_end(root)
    check(root, spark, expected)
