"""Continuous queries killed at every point of their commits, in both homes: sinks and derived streams hold everything
exactly once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import windrow
from crash import child as children
from crash.abandoned import run_to_kill
from crash.test_crash_points import PLANS

pytestmark = [pytest.mark.slow, pytest.mark.crash]

JOIN = "SELECT s.k, x, y, z FROM s [RANGE 6 SECONDS] JOIN d [RANGE 9 SECONDS] ON s.k = d.k AND x < z"
STATEMENTS = (
    "CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, k STRING, x INT, y DOUBLE) FROM files"
    " OPTIONS (path '{root}/in', format 'parquet', maxFilesPerTrigger '1')"
    " TIMESTAMP BY ts PUNCTUATE WITH SLACK 4 SECONDS",
    "CREATE STREAM IF NOT EXISTS d AS SELECT k, x + 1 AS z FROM s [UNBOUNDED] WHERE x > 4",
    f"CREATE QUERY IF NOT EXISTS lines AS {JOIN} INTO jsonl OPTIONS (path '{{root}}/lines.jsonl')",
    f"CREATE QUERY IF NOT EXISTS files AS {JOIN} INTO parquet OPTIONS (path '{{root}}/files')",
    "CREATE QUERY IF NOT EXISTS view AS SELECT k, COUNT(*) AS n, SUM(z) AS total FROM d [RANGE 30 SECONDS] GROUP BY k"
    " ORDER BY k INTO jsonl OPTIONS (path '{root}/view.jsonl', mode 'view')",
    "CREATE TABLE IF NOT EXISTS last (k STRING PRIMARY KEY, z INT) FROM STREAM d",
    "CREATE TABLE IF NOT EXISTS past (k STRING PRIMARY KEY, z INT) NON RETROACTIVE FROM STREAM d DELETE WHEN z = 9",
    "CREATE QUERY IF NOT EXISTS lasting AS SELECT s.k, x, z FROM s [RANGE 6 SECONDS] JOIN last ON s.k = last.k",
    "CREATE QUERY IF NOT EXISTS seen AS SELECT s.k, x, z FROM s [RANGE 6 SECONDS] LEFT JOIN past ON s.k = past.k",
    "CREATE QUERY IF NOT EXISTS windows AS SELECT k, COUNT(*) AS n FROM d [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k",
)


KILLS = (
    ("driver", "table-committed", 2),
    *(("spark", point, 2 + number) for number, point in enumerate(sorted(PLANS))),
    ("driver", "plan-blocks-written", 6),
)
"""Where, and at which pass: all points of plans in the Spark home, where tasks have written the blocks; in the driver
that at which it writes itself, and that between the commit of a table that the derived stream feeds and the ticks that
read it.
The other points are the same code in both."""


HELD = ("lines", "files", "lasting", "seen")


def batches() -> list[pa.Table]:
    """12 micro-batches over 60 s, in disorder."""
    rng = random.Random(12)
    out = []
    for i in range(12):
        points = [int(1e6 * (5 * i + rng.uniform(-3, 5))) for _ in range(20)]
        rows = {
            "ts": pa.array(points, pa.timestamp("us", "UTC")),
            "k": pa.array([rng.choice(["a", "b", "c", None]) for _ in points], pa.string()),
            "x": pa.array([rng.choice([None, *range(9)]) for _ in points], pa.int32()),
            "y": pa.array([rng.randrange(100) / 4 for _ in points], pa.float64()),
        }
        out.append(pa.table(rows))
    return out


def new_root(directory: Path) -> Path:
    return children.make_root(directory, batches(), STATEMENTS, preaggregate="driver", driver_memory="512 MB")


def outcome(root: Path, spark: Any) -> dict[str, Any]:
    """What sinks, queries and the derived stream have. How a tick batch is cut depends on kills; a view, on its tick."""
    with windrow.open(root / "state", spark=spark) as wr:
        changes = {name: children.rows_of(wr.queries[name].changes().arrow()) for name in HELD}
        found = {
            **{name: sorted(map(repr, rows)) for name, rows in changes.items()},
            "view": children.rows_of(wr.queries["view"].view().arrow()),
            "windows": sorted(children.rows_of(wr.queries["windows"].answers().arrow()), key=repr),
            "admitted": wr.metrics()["d"]["admitted"],
            "late": wr.metrics()["d"]["late"],
            "refused": wr.metrics()["d"]["dead_letter_reasons"],
            "tables": {name: wr.table(name).rows() for name in ("last", "past")},
        }
        assert sorted(map(repr, children.parquet_rows(root / "files"))) == found["files"]
        assert len((root / "lines.jsonl").read_text().splitlines()) == len(changes["lines"])
    found["line"] = sorted((root / "lines.jsonl").read_text().splitlines())
    found["shown"] = (root / "view.jsonl").read_text()
    assert not list(root.rglob("*.staged"))
    return found


def test_killed_at_every_point_of_plans(spark: Any, tmp_path: Path) -> None:
    reference = new_root(tmp_path / "reference")
    children.run_uninterrupted(reference, spark)
    root = new_root(tmp_path / "root")
    for number, (home, point, passes) in enumerate(KILLS):
        children.change_settings(root, plan_home=home)
        run_to_kill(root, spark, f"{point}:{passes}", group=number % 2 == 0)
    children.run_uninterrupted(root, spark)
    expected = outcome(reference, spark)
    assert outcome(root, spark) == expected
    assert len(expected["line"]) > 50 and expected["shown"] and expected["late"] == 0 < expected["admitted"]
    assert len(expected["refused"]) == 3 and len(expected["tables"]["last"]) == 3 and len(expected["lasting"]) > 50
