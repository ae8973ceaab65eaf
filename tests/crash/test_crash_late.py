"""A stream with LATE REVISE, killed in deposits and ticks, loses and duplicates no correction, in either home."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.matrix import is_full

import windrow
from crash import child as children
from crash.abandoned import run_to_kill

pytestmark = [pytest.mark.slow, pytest.mark.crash, pytest.mark.matrix]

KILLS = (
    "deposit-committed:3",
    "tick-staged:2",
    "deposit-blocks-written:2",
    "tick-blocks-written:1",
    "tick-committed:3",
    "tick-published:2",
)
STATEMENTS = (
    "CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, k STRING, x INT) FROM files"
    " OPTIONS (path '{root}/in', format 'parquet', maxFilesPerTrigger '1')"
    " TIMESTAMP BY ts PUNCTUATE ORDERED LATE REVISE FOR 30 SECONDS",
    "CREATE QUERY IF NOT EXISTS files AS SELECT k, SUM(x) AS total FROM s [RANGE 20 SECONDS SLIDE 5 SECONDS]"
    " GROUP BY k INTO parquet OPTIONS (path '{root}/files')",
    "CREATE QUERY IF NOT EXISTS lines AS SELECT COUNT(*) AS n FROM s [RANGE 6 SECONDS SLIDE 1 ROW]"
    " INTO jsonl OPTIONS (path '{root}/lines.jsonl')",
    "CREATE QUERY IF NOT EXISTS called AS SELECT SUM(x) AS total FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS]",
)
SETTINGS = {"preaggregate": "driver", "synopsis_blocks": 4, "driver_memory": "512 MB"}


def batches() -> list[pa.Table]:
    """14 micro-batches over 70 s. Most have late tuples, some beyond the reach of LATE REVISE FOR."""
    rng = random.Random(3)
    out = []
    for i in range(14):
        points = [5 * i + rng.randrange(6) for _ in range(6)] + [5 * i - rng.randrange(1, 40) for _ in range(3)]
        rows = {
            "ts": pa.array([point * 1_000_000 for point in points], pa.timestamp("us", "UTC")),
            "k": pa.array([rng.choice(["a", "b", None]) for _ in points], pa.string()),
            "x": pa.array([rng.randrange(9) for _ in points], pa.int32()),
        }
        out.append(pa.table(rows))
    return out


IN_BOTH = (
    *(("driver", kill) for kill in ("deposit-committed:3", "tick-staged:2", "deposit-blocks-written:1")),
    *(("spark", kill) for kill in ("deposit-committed:2", "tick-blocks-written:1", "tick-committed:2")),
)
"""In the driver first, then in the Spark home: while late blocks wait, before and after their commit."""

CHAINS = [IN_BOTH, *([tuple((home, kill) for kill in KILLS) for home in ("driver", "spark")] if is_full() else [])]


def new_root(directory: Path) -> Path:
    return children.make_root(directory, batches(), STATEMENTS, ["called"], **SETTINGS, synopsis_home="driver")


@pytest.fixture(scope="module")
def reference(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = new_root(tmp_path_factory.mktemp("late") / "uninterrupted")
    children.run_uninterrupted(root, spark)
    return root


def revisions(root: Path, spark: Any) -> dict[str, list[tuple[Any, ...]]]:
    with windrow.open(root / "state", spark=spark) as wr:
        assert wr._engine.catalog.value("SELECT count(*) FROM blocks WHERE owner LIKE '%/late'") == 0
        return {name: children.rows_of(query.revisions().arrow()) for name, query in wr.queries.items()}


def by_window(rows: list[tuple[Any, ...]], head: int) -> list[Any]:
    """Runs of rows with an equal head (window, op, revision). Without ORDER BY a run has no order."""
    runs = itertools.groupby(rows, key=lambda row: row[:head])
    return [(key, sorted(map(str, run))) for key, run in runs]


@pytest.mark.parametrize("kills", CHAINS, ids=lambda kills: kills[0][0] + "-" + kills[-1][0])
def test_corrections_survive_kills(
    spark: Any, tmp_path: Path, reference: Path, kills: Sequence[tuple[str, str]]
) -> None:
    root = new_root(tmp_path / "root")
    expected, wanted = children.outcome(reference, spark), revisions(reference, spark)
    assert all(sum(row[0] == "-" for row in rows) >= 5 for rows in wanted.values()), "the workload has corrections"
    assert expected.stream["dead_letter_reasons"]["late"] >= 2
    for number, (home, kill) in enumerate(kills):
        children.change_settings(root, synopsis_home=home)
        run_to_kill(root, spark, kill, group=number % 2 == 0)
    children.run_uninterrupted(root, spark)
    found = children.outcome(root, spark)
    assert (found.counted, found.stream) == (expected.counted, expected.stream)
    assert {q: by_window(rows, 2) for q, rows in found.answers.items()} == {
        q: by_window(rows, 2) for q, rows in expected.answers.items()
    }
    assert {q: by_window(rows, 4) for q, rows in revisions(root, spark).items()} == {
        q: by_window(rows, 4) for q, rows in wanted.items()
    }
    written, ought = (by_window(children.parquet_rows(r / "files"), 5) for r in (root, reference))
    assert written == ought
    read = children.rows_of(windrow.read_answers(root / "files").arrow())
    assert by_window(read, 2) == by_window(expected.answers["files"], 2)
    assert (root / "lines.jsonl").read_bytes() == (reference / "lines.jsonl").read_bytes()
    assert children.callbacks(root) == children.callbacks(reference)
    with windrow.open(root / "state", spark=spark) as wr:
        assert {row["home"] for row in wr.sql("SHOW SHARING").rows()} == {kills[-1][0].replace("spark", "Spark")}
