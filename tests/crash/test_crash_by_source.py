"""A stream with punctuations of its source, killed in deposits and ticks, answers every group once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import windrow
from crash import child as children
from crash.abandoned import run_to_kill
from crash.test_crash_late import by_window

pytestmark = [pytest.mark.slow, pytest.mark.crash]

KILLS = (
    "deposit-committed:2",
    "tick-staged:2",
    "tick-blocks-written:2",
    "tick-committed:3",
)
"""Where early answers are staged and committed; `test_crash_points.py` has the other points."""

STATEMENTS = (
    "CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, k STRING, x INT, punctuation STRING) FROM files"
    " OPTIONS (path '{root}/in', format 'parquet', maxFilesPerTrigger '1') TIMESTAMP BY ts PUNCTUATE BY SOURCE",
    "CREATE QUERY IF NOT EXISTS files AS SELECT k, SUM(x) AS total FROM s [RANGE 20 SECONDS SLIDE 5 SECONDS]"
    " GROUP BY k INTO parquet OPTIONS (path '{root}/files')",
    "CREATE QUERY IF NOT EXISTS lines AS SELECT k, COUNT(*) AS n FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS]"
    " GROUP BY k ORDER BY k INTO jsonl OPTIONS (path '{root}/lines.jsonl')",
    "CREATE QUERY IF NOT EXISTS called AS SELECT k, MAX(x) AS most FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS]"
    " GROUP BY k ORDER BY k",
    "CREATE QUERY IF NOT EXISTS whole AS SELECT COUNT(*) AS n FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS]",
)
SETTINGS = {"preaggregate": "driver", "synopsis_blocks": 4, "driver_memory": "512 MB"}


def batches() -> list[pa.Table]:
    """16 micro-batches over 80 s. Each promises a key or two, every third the whole stream; some tuples break a
    promise."""
    rng = random.Random(5)
    out = []
    for i in range(16):
        rows: list[tuple[int | None, str | None, int | None, str | None]] = []
        for _ in range(8):
            rows.append((5 * i + rng.randrange(8), rng.choice(["a", "b", "c", None]), rng.randrange(9), None))
        rows += [(5 * i - rng.randrange(1, 12), rng.choice("ab"), 1, None) for _ in range(2)]
        for key in rng.sample(["k = 'a'", "k = 'b'", "k IN ('b', 'c')", "k = NULL"], 2):
            rows.append((None, None, None, f"{key}, ts < '{_time(5 * i + rng.randrange(-2, 6))}'"))
        if i % 3 == 2:
            rows.append((None, None, None, f"ts < '{_time(5 * i - 5)}'"))
        rows += [(None, None, None, "ts before noon")] * (i == 7)
        columns = list(zip(*rows, strict=True))
        points = [None if point is None else point * 1_000_000 for point in columns[0]]
        out.append(
            pa.table(
                {
                    "ts": pa.array(points, pa.timestamp("us", "UTC")),
                    "k": pa.array(columns[1], pa.string()),
                    "x": pa.array(columns[2], pa.int32()),
                    "punctuation": pa.array(columns[3], pa.string()),
                }
            )
        )
    return out


def _time(second: int) -> str:
    return f"1970-01-01 00:{(second + 60) // 60 - 1:02d}:{second % 60:02d}" if second >= 0 else "1969-12-31 23:59:55"


def new_root(directory: Path) -> Path:
    return children.make_root(directory, batches(), STATEMENTS, ["called"], **SETTINGS)


def promises(root: Path, spark: Any) -> Any:
    with windrow.open(root / "state", spark=spark) as wr:
        return wr.metrics()["s"]["promised"]


def test_early_answers_survive_kills(spark: Any, tmp_path: Path) -> None:
    reference, root = new_root(tmp_path / "uninterrupted"), new_root(tmp_path / "root")
    children.run_uninterrupted(reference, spark)
    expected = children.outcome(reference, spark)
    early = [key for key in children.callbacks(reference) if "/early-" in key]
    assert len(early) >= 10, "the workload has groups that are answered early"
    assert expected.stream["dead_letter_reasons"]["late"] >= 10
    assert expected.stream["dead_letter_reasons"]["malformed punctuation: not a pattern"] == 1
    for number, kill in enumerate(KILLS):
        run_to_kill(root, spark, kill, group=number % 2 == 0)
    children.run_uninterrupted(root, spark)
    found = children.outcome(root, spark)
    assert (found.counted, found.stream) == (expected.counted, expected.stream)
    assert {q: by_window(rows, 2) for q, rows in found.answers.items()} == {
        q: by_window(rows, 2) for q, rows in expected.answers.items()
    }
    assert by_window(children.parquet_rows(root / "files"), 2) == by_window(expected.answers["files"], 2)
    assert (root / "lines.jsonl").read_bytes() == (reference / "lines.jsonl").read_bytes()
    assert children.callbacks(root) == children.callbacks(reference)
    assert promises(root, spark) == promises(reference, spark)
    for rows in expected.answers.values():
        assert len({(row[1], row[3]) for row in rows}) == len(rows), "a group has one row per window"
