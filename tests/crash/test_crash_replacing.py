"""Processes killed while a query takes the place of another, in both homes, also over a table that a stream feeds: it is
the old one or the new one afterwards, and sinks hold every change once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import windrow
from crash import child as children
from crash.abandoned import run_to_kill
from crash.test_crash_plans import batches

pytestmark = [pytest.mark.slow, pytest.mark.crash]

STREAM = (
    "CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, k STRING, x INT, y DOUBLE) FROM files"
    " OPTIONS (path '{root}/in', format 'parquet', maxFilesPerTrigger '1')"
    " TIMESTAMP BY ts PUNCTUATE WITH SLACK 4 SECONDS"
)
GROUPS = "SELECT k, COUNT(*) AS n, SUM(x) AS total FROM s [RANGE 20 SECONDS] GROUP BY k"
WINDOWS = "SELECT k, COUNT(*) AS n FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS]"
TABLE = "CREATE TABLE IF NOT EXISTS last (k STRING PRIMARY KEY, x INT) FROM STREAM s DELETE WHEN x = 0"
LATEST = (
    "SELECT s.k, COUNT(*) AS n, MAX(last.x) AS latest FROM s [RANGE 20 SECONDS] JOIN last ON s.k = last.k{} GROUP BY s.k"
    " INTO jsonl OPTIONS (path '{{root}}/latest.jsonl')"
)
CHANGES = "INTO jsonl OPTIONS (path '{root}/changes.jsonl')"
VIEW = "INTO jsonl OPTIONS (path '{root}/view.jsonl', mode 'view')"
BEFORE = (
    STREAM,
    TABLE,
    f"CREATE QUERY IF NOT EXISTS f AS {LATEST.format('')}",
    f"CREATE QUERY IF NOT EXISTS c AS {GROUPS} {CHANGES}",
    f"CREATE QUERY IF NOT EXISTS v AS {GROUPS} {VIEW}",
    f"CREATE QUERY IF NOT EXISTS w AS {WINDOWS} GROUP BY k INTO parquet OPTIONS (path '{{root}}/w')",
)
AFTER = (
    STREAM,
    TABLE,
    f"CREATE OR REPLACE QUERY f AS {LATEST.format(' WHERE s.x <= last.x')}",
    f"CREATE OR REPLACE QUERY c AS {GROUPS} HAVING n > 5 {CHANGES}",
    f"CREATE OR REPLACE QUERY v AS {GROUPS} ORDER BY n DESC, k LIMIT 2 {VIEW}",
    f"CREATE OR REPLACE QUERY w AS {WINDOWS} WHERE x > 3 GROUP BY k INTO parquet OPTIONS (path '{{root}}/w')",
)
KILLS = ("plan-swapping", "plan-committed", "query-replacing")


def ran_before(root: Path, spark: Any) -> Path:
    """A directory whose queries have run over half of the tuples, and are to be replaced in the next run."""
    first, rest = batches()[:6], batches()[6:]
    children.make_root(root, first, BEFORE, preaggregate="driver", driver_memory="512 MB")
    with windrow.open(root / "state", spark=spark) as wr:
        for statement in BEFORE:
            wr.sql(statement.replace("{root}", str(root)))
        wr.run_available()
    for number, batch in enumerate(rest, len(first)):
        file = root / "in" / f"{number:05d}.parquet"
        pq.write_table(batch, file)
        os.utime(file, (1_000_000 + number, 1_000_000 + number))  # the order in which Spark reads them
    children.change_statements(root, AFTER)
    return root


def outcome(root: Path, spark: Any) -> dict[str, Any]:
    with windrow.open(root / "state", spark=spark) as wr:
        found = {
            "changes": children.rows_of(wr.queries["c"].changes().arrow()),
            "latest": children.rows_of(wr.queries["f"].changes().arrow()),
            "view": children.rows_of(wr.queries["v"].view().arrow()),
            "windows": children.rows_of(wr.queries["w"].answers().arrow()),
        }
    assert not list(root.rglob("*.staged"))
    lines = (root / "changes.jsonl").read_text().splitlines()
    latest = (root / "latest.jsonl").read_text().splitlines()
    assert len(lines) == len(found["changes"]) and len(latest) == len(found["latest"])
    return found | {
        "lines": [*lines, *latest],
        "shown": (root / "view.jsonl").read_text(),
        "w": children.parquet_rows(root / "w"),
    }


def test_killed_while_queries_are_replaced(spark: Any, tmp_path: Path) -> None:
    reference, root = (ran_before(tmp_path / name, spark) for name in ("reference", "root"))
    children.run_uninterrupted(reference, spark)
    for number, point in enumerate(KILLS):
        if number == 1:
            children.change_settings(root, plan_home="spark", driver_plan_bytes="1 B")
        run_to_kill(root, spark, point, group=number % 2 == 0)
    children.run_uninterrupted(root, spark)
    expected, found = outcome(reference, spark), outcome(root, spark)
    assert found == expected
    assert expected["changes"] and expected["latest"] and expected["windows"] and expected["w"]
