"""Directories such as `k=a` give columns where Spark's file source says so, and nowhere else."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from engine.helpers import answers, wait_until
from windrow.errors import SourceError

pytestmark = pytest.mark.slow

QUERY = "CREATE QUERY q AS SELECT k, SUM(x) AS total FROM s [RANGE 10 SLIDE 10] GROUP BY k ORDER BY k"
JSON = '{"t":1,"x":5}\n'


def put(folder: Path, name: str, data: str | bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


def create(wr: Any, path: Path | str, kind: str, options: str = "") -> None:
    wr.sql(
        f"CREATE STREAM s (t BIGINT, k STRING, x INT) FROM files OPTIONS (path '{path}', format '{kind}'{options})"
        " TIMESTAMP BY t PUNCTUATE ORDERED LATE REVISE"
    )
    wr.sql(QUERY)


def totals(wr: Any) -> dict[str | None, int]:
    wr.run_available(close=True)
    return {row[2]: row[3] for row in answers(wr, "q")}


@pytest.mark.parametrize("where", ["above the path", "by recursiveFileLookup"])
def test_directories_that_give_no_column(open_state: Any, tmp_path: Path, where: str) -> None:
    """CSV that is matched by name is read by another reader than Spark's own stream."""
    is_above = where == "above the path"
    base = tmp_path / "k=z" if is_above else tmp_path / "in"
    put(base, "in/a.csv" if is_above else "k=z/a.csv", "x,k,t\n5,a,1\n")
    wr = open_state()
    options = ", header 'true'" + ("" if is_above else ", recursiveFileLookup 'true'")
    create(wr, base / "in" if is_above else base, "csv", options)
    assert totals(wr) == {"a": 5}


def test_a_skipped_file_below_a_directory_that_gives_no_column(open_state: Any, tmp_path: Path) -> None:
    folder = tmp_path / "k=z" / "in"
    put(folder, "a.json", '{"t":1,"k":"a","x":5}\n')
    put(folder, "b.json.gz", gzip.compress(JSON.encode() * 9)[:-4])
    wr = open_state()
    create(wr, folder, "json", ", on_bad_file 'skip'")
    assert totals(wr) == {"a": 5}


def test_a_pattern_needs_the_base(open_state: Any, tmp_path: Path) -> None:
    put(tmp_path / "in", "k=a/f.json", JSON)
    wr = open_state()
    create(wr, f"{tmp_path}/in/k=*/*.json", "json")
    with pytest.raises(SourceError, match="has the declared column 'k'") as error:
        wr.run_available()
    assert f"add the option basePath '{tmp_path}/in'" in str(error.value.remedy)
    wr = open_state("other")
    create(wr, f"{tmp_path}/in/k=*/*.json", "json", f", basePath '{tmp_path}/in'")
    assert totals(wr) == {"a": 5}


def test_a_base_above_the_path(open_state: Any, tmp_path: Path) -> None:
    put(tmp_path / "in", "k=a/f.json", JSON)
    wr = open_state()
    create(wr, tmp_path / "in" / "k=a", "json", f", basePath '{tmp_path}/in'")
    assert totals(wr) == {"a": 5}


def test_a_quoted_header_with_a_long_separator(open_state: Any, tmp_path: Path) -> None:
    put(tmp_path / "in", "f.csv", '"x"||"k"||"t"\n5||"a"||1\n')
    wr = open_state()
    create(wr, tmp_path / "in", "csv", ", header 'true', sep '||'")
    assert totals(wr) == {"a": 5}


@pytest.mark.parametrize("kind", ["json", "csv"])
@pytest.mark.parametrize("bad", [True, False])
def test_files_beside_the_directories(open_state: Any, tmp_path: Path, kind: str, bad: bool) -> None:
    """Spark alone reads them with NULL for the column, or fails."""

    def text(row: dict[str, Any]) -> str:
        return json.dumps(row) + "\n" if kind == "json" else f"{','.join(row)}\n{','.join(map(str, row.values()))}\n"

    folder = tmp_path / "in"
    put(folder, f"a.{kind}", text({"t": 1, "k": "root", "x": 1}))
    put(folder, f"k=a/b.{kind}", text({"t": 2, "x": 2}))
    put(folder, f"k=b/c.{kind}", text({"x": 4, "t": 3}))
    if bad:
        put(folder, f"k=b/d.{kind}.gz", gzip.compress(text({"t": 1, "x": 9}).encode() * 9)[:-4])
    wr = open_state()
    create(wr, folder, kind, ", on_bad_file 'skip'" + (", header 'true'" if kind == "csv" else ""))
    assert totals(wr) == {"root": 1, "a": 2, "b": 4}
    put(folder, f"e.{kind}", text({"t": 4, "k": "late", "x": 8}))
    assert totals(wr)["late"] == 8


def test_directories_that_appear_while_the_stream_runs(open_state: Any, tmp_path: Path) -> None:
    """Spark found no column of directories at the start, and then has values in wrong columns."""
    folder = tmp_path / "in"
    folder.mkdir()
    wr = open_state(trigger_interval="100 milliseconds")
    create(wr, folder, "json")
    wr.start()
    wait_until(lambda: (tmp_path / "state").exists() and wr.is_running)
    put(folder, "k=a/.b.json", JSON)
    os.rename(folder / "k=a" / ".b.json", folder / "k=a" / "b.json")
    wait_until(lambda: wr.metrics()["s"]["admitted"] + wr.metrics()["s"]["dead_letters"] == 1)
    wr.stop()
    assert totals(wr) == {"a": 5}


def test_directories_that_spark_refuses(open_state: Any, tmp_path: Path) -> None:
    put(tmp_path / "in", "k=a/f.json", JSON)
    put(tmp_path / "in", "k=a/j=1/f.json", JSON)
    wr = open_state()
    create(wr, tmp_path / "in", "json")
    with pytest.raises(SourceError, match="Conflicting partition column names") as error:
        wr.run_available()
    assert "recursiveFileLookup" in str(error.value.remedy)
