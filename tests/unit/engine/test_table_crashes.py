"""Processes that are killed in a statement about a table: all of it is there afterwards, or nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from unit.engine.test_tables import Tables

from windrow.crash import CRASH_AT

STATEMENTS = (
    "INSERT INTO t VALUES ('a', 1), ('b', 2)",
    "UPDATE t SET n = n + 10",
    "DELETE FROM t WHERE k = 'a'",
    "INSERT INTO t VALUES ('c', 3)",
)
VERSIONS = ([], [("a", 1), ("b", 2)], [("a", 11), ("b", 12)], [("b", 12)], [("b", 12), ("c", 3)])
CHILD = """
import sys
from pathlib import Path
from unit.engine.test_table_crashes import STATEMENTS
from unit.engine.test_tables import Tables
from windrow.engine.tables import commits

commits.FEW_CHANGES = 2  # changes are folded into the base on the way
tables = Tables(Path(sys.argv[1]), int(sys.argv[2]))
for text in STATEMENTS:
    tables.sql(text)
"""


@pytest.mark.parametrize("passes", range(1, len(STATEMENTS) + 1))
@pytest.mark.parametrize(
    ("point", "done", "most"),
    [("table-blocks-written", 0, 8 << 20), ("table-committed", 1, 8 << 20), ("table-blocks-written", 0, 0)],
)
def test_killed_in_a_statement(tmp_path: Path, point: str, done: int, most: int, passes: int) -> None:
    """`most`: the bytes of a table that is not bucketed; 0: the base is written anew with every change."""
    tables = Tables(tmp_path, most)
    tables.sql("CREATE TABLE t (k STRING PRIMARY KEY, n INT) NON RETROACTIVE")
    tables.catalog.close()
    paths = os.pathsep.join([str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, CRASH_AT: f"{point}:{passes}", "PYTHONPATH": paths}
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), str(most)], env=environment, capture_output=True
    )
    assert child.returncode == -9, child.stderr.decode()
    tables.reopen()
    executed = passes - 1 + done
    assert tables.rows() == VERSIONS[executed]
    named = {row["path"] for row in tables.catalog.rows("SELECT path FROM blocks")}
    on_disk = {str(file.relative_to(tmp_path)) for file in (tmp_path / "tables").rglob("*.arrow")}
    assert on_disk == named, "what no commit names is swept"
    for text in STATEMENTS[executed:]:
        tables.sql(text)
    assert tables.rows() == VERSIONS[-1]
    tables.catalog.close()
