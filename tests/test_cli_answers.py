"""`windrow run --all`: every answer, as tables, CSV, JSON lines and Parquet, on standard output and in files."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from windrow.cli import app
from windrow.console.answer_files import AllAnswers
from windrow.console.formats import AnswerFormat, AnswerOutput
from windrow.errors import SinkError

ROOT = Path(__file__).resolve().parent.parent
WINDOWS, ROWS = 11, 33
"""Of the query `climate` of the sensors example, which also INTO sinks give."""


def cli(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


@pytest.fixture
def climate(tmp_path: Path) -> Path:
    """The sensors example with its first query only."""
    text = (ROOT / "examples/sensors/app.cql").read_text(encoding="utf-8").partition("-- Sensors")[0]
    path = tmp_path / "climate.cql"
    path.write_text(text.replace("examples/sensors/readings", str(ROOT / "examples/sensors/readings")))
    return path


@pytest.fixture
def both(tmp_path: Path) -> Path:
    path = tmp_path / "both.cql"
    text = (ROOT / "examples/sensors/app.cql").read_text(encoding="utf-8")
    path.write_text(text.replace("examples/sensors/readings", str(ROOT / "examples/sensors/readings")))
    return path


# -- without Spark -----------------------------------------------------------------------------------

SCHEMA = pa.schema(
    [
        ("window_start", pa.timestamp("us", "UTC")),
        ("window_end", pa.timestamp("us", "UTC")),
        ("is_revision", pa.bool_()),
        ("k", pa.string()),
        ("top", pa.list_(pa.int64())),
    ]
)


def rows(*keys: str | None) -> pa.Table:
    at = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
    made = [{"window_start": at, "window_end": at, "is_revision": False, "k": k, "top": [1, 2]} for k in keys]
    return pa.Table.from_pylist(made, SCHEMA)


@pytest.mark.parametrize(
    ("given", "path", "is_all", "format_"),
    [
        (None, None, False, AnswerFormat.TABLE),
        (AnswerFormat.CSV, None, True, AnswerFormat.CSV),
        (None, "out/answers.JSONL", True, AnswerFormat.JSONL),
        (None, "out", True, AnswerFormat.TABLE),
        (AnswerFormat.PARQUET, "out", True, AnswerFormat.PARQUET),
    ],
)
def test_format(given: AnswerFormat | None, path: str | None, is_all: bool, format_: AnswerFormat) -> None:
    wanted = AnswerOutput.of(False, given, None if path is None else Path(path))
    assert (wanted.is_all, wanted.format) == (is_all, format_)


def test_csv_values(tmp_path: Path) -> None:
    out = AllAnswers(AnswerFormat.CSV, tmp_path / "a.csv", {"q": SCHEMA}, gather=True)
    out.write("q", rows('say "a, b"', None))
    out.close()
    head, first, second = csv.reader(io.StringIO((tmp_path / "a.csv").read_text()))
    assert head == ["window_start", "window_end", "is_revision", "k", "top"]
    assert first == ["2026-03-01T12:00:00.000000Z", "2026-03-01T12:00:00.000000Z", "false", 'say "a, b"', "[1, 2]"]
    assert second[3] == ""


def test_no_answers(tmp_path: Path) -> None:
    """A query without answers has a file with its columns."""
    for format_ in (AnswerFormat.CSV, AnswerFormat.PARQUET):
        AllAnswers(format_, tmp_path / "out", {"q": SCHEMA}, gather=True).close()
    assert (tmp_path / "out/q.csv").read_text().count("\n") == 1
    assert pq.read_schema(tmp_path / "out/q.parquet").names == SCHEMA.names


def test_parquet_is_complete_or_absent(tmp_path: Path) -> None:
    out = AllAnswers(AnswerFormat.PARQUET, tmp_path / "a.parquet", {"q": SCHEMA}, gather=False)
    out.write("q", rows("a"))
    assert not (tmp_path / "a.parquet").exists()
    out.close()
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_refused_outputs(tmp_path: Path) -> None:
    two, taken = {"q": SCHEMA, "r": SCHEMA}, {"q": pa.schema([("query", pa.string())])}
    (tmp_path / "old.csv").write_text("mine")
    for format_, path, schemas, said in (
        (AnswerFormat.PARQUET, None, {"q": SCHEMA}, "Parquet goes into files"),
        (AnswerFormat.CSV, None, two, "these go to standard output: q, r"),
        (AnswerFormat.PARQUET, tmp_path / "a.parquet", two, "for a file per query"),
        (AnswerFormat.JSONL, None, taken, "have a column 'query'"),
        (AnswerFormat.CSV, tmp_path / "old.csv", {"q": SCHEMA}, "may have answers of another run"),
        (AnswerFormat.CSV, tmp_path / "old.csv" / "new.csv", {"q": SCHEMA}, "cannot be written"),
    ):
        with pytest.raises(SinkError, match=said):
            AllAnswers(format_, path, schemas, gather=True)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("old.csv", "mine")]


def test_full_disk() -> None:
    out = AllAnswers(AnswerFormat.JSONL, None, {"q": SCHEMA}, gather=True)
    out._writers[""]._stream = open("/dev/full", "w")  # type: ignore[attr-defined]
    out.write("q", rows("a"))
    assert out.has_ended
    with pytest.raises(SinkError, match="No space left"):
        out.close()


# -- with Spark --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_all_as_tables(climate: Path, tmp_path: Path, spark: Any) -> None:
    done = cli("run", climate, "--until-available", "--all", "--explain", "--state", tmp_path / "state")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("Query climate: periodic, EMIT EVERY WINDOW")
    assert f"climate: {WINDOWS} windows" in done.stdout
    assert sum(line.startswith("| 2026-") for line in done.stdout.splitlines()) == ROWS
    again = cli("run", climate, "--until-available", "--all", "--state", tmp_path / "state")
    assert sum(line.startswith("| 2026-") for line in again.stdout.splitlines()) == ROWS


@pytest.mark.slow
def test_all_beyond_what_is_retained(climate: Path, spark: Any) -> None:
    done = cli("run", climate, "--until-available", "--format", "csv", "--set", "retained_answers=1", "--explain")
    assert done.exit_code == 0, done.stderr
    found = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(found) == ROWS
    assert len({row["window_end"] for row in found}) == WINDOWS
    assert found[-1]["room"] == "server room"
    assert "Query climate: periodic" in done.stderr
    assert "In this run, by query:" in done.stderr


@pytest.mark.slow
def test_all_of_several_queries(both: Path, tmp_path: Path, spark: Any) -> None:
    done = cli("run", both, "--until-available", "--format", "json")  # the other name of jsonl
    assert done.exit_code == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [sum(line["query"] == name for line in lines) for name in ("climate", "overheating")] == [ROWS, 10]
    refused = cli("run", both, "--until-available", "--format", "csv")
    assert (refused.exit_code, "a file per query" in refused.stderr) == (1, True)
    out = tmp_path / "out"
    assert cli("run", both, "--until-available", "--format", "parquet", "--output", out).exit_code == 0
    assert {path.name: pq.read_table(path).num_rows for path in out.iterdir()} == {
        "climate.parquet": ROWS,
        "overheating.parquet": 10,
    }
    assert "exists" in cli("run", both, "--until-available", "--format", "parquet", "--output", out).stderr


@pytest.mark.slow
def test_format_names(both: Path, spark: Any) -> None:
    """`run` and `sql` accept both names of JSON lines, and name the formats when they refuse one."""
    shown = {name: cli("sql", "--format", name, "SHOW SETTINGS").stdout for name in ("json", "jsonl")}
    assert shown["json"] == shown["jsonl"] and json.loads(shown["jsonl"].splitlines()[0])["name"]
    for command in (("run", both), ("sql", "SHOW SETTINGS")):
        refused = cli(*command, "--format", "xml")
        assert refused.exit_code == 2 and "jsonl" in refused.stderr
