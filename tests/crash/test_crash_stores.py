"""Killed while it writes, commits and merges the files of window stores, a workload keeps every admitted row once."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from support.matrix import is_full

import windrow
from crash import child as children
from crash import workload
from crash.abandoned import run_to_kill
from crash.test_crash_points import STORES, batches
from windrow.dataplane.stores import KeptColumn
from windrow.types import POINT_MAX, POINT_MIN, SqlType

pytestmark = [pytest.mark.slow, pytest.mark.crash, pytest.mark.matrix]

KILLS = ("deposit-committed", *sorted(STORES))
MODES = ("driver", "spark")
CHAIN = [*itertools.product(KILLS, MODES)] if is_full() else [(kill, MODES[i % 2]) for i, kill in enumerate(KILLS)]
STREAM = (
    "CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, k STRING, x INT, y DOUBLE) FROM files"
    " OPTIONS (path '{root}/in', format 'parquet', maxFilesPerTrigger '1')"
    " TIMESTAMP BY ts PUNCTUATE WITH SLACK 4 SECONDS"
)
QUERY = (
    "CREATE QUERY IF NOT EXISTS q AS SELECT k, SUM(x) AS total FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS]"
    " GROUP BY k ORDER BY k"
)
COLUMN = "concat_ws(',', k, x, y)"


def new_root(directory: Path, queried: bool) -> Path:
    statements = [STREAM, *([QUERY] if queried else [])]
    how = {"preaggregate": "driver", "driver_memory": "512 MB"}
    return children.make_root(directory, batches(), statements, readers=[("r", COLUMN)], **how)


def kept(root: Path, spark: Any) -> tuple[list[tuple[int, str]], Any]:
    """The rows of the store, and the progress of the stream; each file on disk is one that the catalog names."""
    with windrow.open(root / "state", spark=spark) as wr:
        use, stores = workload.read(wr, "r", COLUMN), wr._engine.opened.stores
        found = stores.rows(use, [KeptColumn(COLUMN, SqlType("STRING"))], POINT_MIN, POINT_MAX)
        named = {file.path for file in stores.files(use)}
        assert {str(file) for file in (root / "state" / "stores").resolve().rglob("*.arrow")} == named
        rows = sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))
        assert len(rows) == wr.metrics()["s"]["admitted"] and use.since is None
    return rows, children.outcome(root, spark)


@pytest.mark.parametrize("queried", [True, *([False] if is_full() else [])])
def test_killed_at_every_point_of_window_stores(spark: Any, tmp_path: Path, queried: bool) -> None:
    """The driver or a task writes the files; kills find either in turn."""
    reference = new_root(tmp_path / "reference", queried)
    children.run_uninterrupted(reference, spark)
    root = new_root(tmp_path / "root", queried)
    for number, (point, mode) in enumerate(CHAIN):
        children.change_settings(root, preaggregate=mode)
        run_to_kill(root, spark, f"{point}:1", group=number % 2 == 0)
    children.run_uninterrupted(root, spark)
    expected = kept(reference, spark)
    assert kept(root, spark) == expected and len(expected[0]) > 500
