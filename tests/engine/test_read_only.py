"""A state directory read from outside: while its process runs, after it has closed, and after it was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import windrow
from windrow.cli import app
from windrow.errors import ReadOnlyError, StateError, WindrowError

STREAM = (
    "CREATE STREAM s (t TIMESTAMP, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE WITH SLACK 1 SECOND;"
    "CREATE QUERY q AS SELECT k, SUM(x) + 1 AS total FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k ORDER BY k;"
    "CREATE QUERY r AS SELECT COUNT(*) AS n, MAX(UPPER(k)) AS last FROM s [ROWS 2 SLIDE 2]"
)
ROWS = [(f"2026-03-01 12:00:{second:02}", "ab"[second % 2], second) for second in range(40)]


def rows_of(*queries: Any) -> list[list[dict[str, Any]]]:
    return [query.answers().rows() for query in queries]


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file, with its size and time."""
    found = (file for file in folder.rglob("*") if file.is_file())
    return {str(file): (file.stat().st_size, file.stat().st_mtime_ns) for file in found}


def cli(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


@pytest.fixture
def owner(tmp_path: Path, spark: Any) -> Iterator[windrow.Windrow]:
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        wr.sql(STREAM)
        wr.deposit("s", ROWS)
        wr.deposit("s", [("2026-03-01 11:00:00", "a", 1), ("bad", "a", 1)])
        yield wr


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windrow.engine.read_only.open_session", lambda *a: pytest.fail("Spark was started"))


@pytest.fixture
def reader(owner: windrow.Windrow, without_spark: None) -> Iterator[windrow.Windrow]:
    with windrow.open(owner.state_dir, read_only=True) as wr:
        yield wr


def test_answers(owner: windrow.Windrow, reader: windrow.Windrow) -> None:
    for name in ("q", "r"):
        mine, theirs = owner.queries[name], reader.queries[name]
        assert theirs.answers().arrow().equals(mine.answers().arrow())
        assert theirs.answer().arrow().equals(mine.answer().arrow())
        assert theirs.revisions().arrow().equals(mine.revisions().arrow())
    assert len(reader.queries["q"].answers()) > 5


def test_views(owner: windrow.Windrow, reader: windrow.Windrow) -> None:
    for text in (
        "SHOW QUERIES",
        "SHOW SHARING",
        "SHOW SETTINGS",
        "SHOW LATENESS s",
        "DESCRIBE s",
        "DESCRIBE q",
        "DESCRIBE r",
        "SELECT * FROM dead_letters('s')",
    ):
        assert reader.sql(text).arrow().equals(owner.sql(text).arrow()), text
    mine, theirs = (wr.sql("SHOW STREAMS").rows()[0] for wr in (owner, reader))
    assert theirs.pop("state") == f"running, process {os.getpid()}"
    mine.pop("state")
    assert theirs == mine
    assert len(reader.sql("SELECT * FROM dead_letters('s')")) == 2


def test_metrics(owner: windrow.Windrow, reader: windrow.Windrow) -> None:
    mine, theirs = owner.metrics()["s"], reader.metrics()["s"]
    assert set(theirs) == set(mine)
    for name in ("batches", "rows", "admitted", "late", "dead_letters", "dead_letter_reasons", "frontier", "synopses"):
        assert theirs[name] == mine[name], name
    assert theirs["groups"] > 0
    for name in ("q", "r"):
        mine, theirs = owner.queries[name].metrics(), reader.queries[name].metrics()
        assert theirs.pop("last_delivery_s") == pytest.approx(mine.pop("last_delivery_s"), abs=1)
        assert theirs == mine


def test_metrics_of_a_new_run(owner: windrow.Windrow, spark: Any) -> None:
    """Counters since opening begin anew, totals do not."""
    directory = owner.state_dir
    owner.close()
    with windrow.open(directory, spark=spark), windrow.open(directory, read_only=True) as reader:
        found = reader.metrics()["s"]
        assert (found["batches"], found["rows"], found["admitted"]) == (0, 0, 40)
        assert (reader.queries["q"].metrics()["windows"], reader.queries["q"].metrics()["windows_answered"]) == (0, 7)


def test_later_commits_are_seen(owner: windrow.Windrow, reader: windrow.Windrow) -> None:
    before = reader.queries["q"].metrics()["windows_answered"]
    owner.deposit("s", [("2026-03-01 12:01:30", "c", 5)])
    assert reader.queries["q"].metrics()["windows_answered"] > before
    assert reader.queries["q"].answers().arrow().equals(owner.queries["q"].answers().arrow())
    owner.sql("CREATE QUERY late AS SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS]; DROP QUERY r")
    assert list(reader.queries) == ["q", "late"]
    assert reader.sql("DESCRIBE late").rows()[-1]["column"] == "n"


@pytest.mark.parametrize(
    "text",
    [
        "CREATE STREAM z (t INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED",
        "CREATE QUERY z AS SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS]",
        "DROP QUERY q",
        "DROP STREAM s",
        "SET cut_factor = 7",
        "EXPLAIN QUERY q",
        "SELECT SUM(x) AS total FROM s [RANGE 10 SECONDS]",
    ],
)
def test_refused_statements(owner: windrow.Windrow, reader: windrow.Windrow, text: str) -> None:
    with pytest.raises(ReadOnlyError, match="read-only") as refused:
        reader.sql(text)
    assert refused.value.code == "WR410"
    assert len(owner.queries) == 2


def test_refused_calls(owner: windrow.Windrow, reader: windrow.Windrow) -> None:
    query = reader.queries["q"]
    calls: tuple[Callable[[], Any], ...] = (
        lambda: reader.feed("s", ROWS),
        lambda: reader.deposit("s", ROWS),
        lambda: reader.punctuate("s", "2026-03-01 13:00:00"),
        lambda: reader.end_input("s"),
        lambda: reader.query("z", "SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS]"),
        reader.run_available,
        reader.start,
        reader.stop,
        lambda: query.subscribe(print),
        lambda: query.lookup("5 seconds"),
        query.explain,
    )
    for call in calls:
        with pytest.raises(ReadOnlyError, match="read-only"):
            call()
    assert reader.is_running
    assert reader.is_read_only


def test_nothing_is_written(owner: windrow.Windrow, without_spark: None) -> None:
    """Also in a directory that may not be written."""
    directory = owner.state_dir
    answers = rows_of(owner.queries["q"], owner.queries["r"])
    owner.close()
    before = files(directory)
    directory.chmod(0o500)
    try:
        with windrow.open(directory, read_only=True) as reader:
            assert rows_of(reader.queries["q"], reader.queries["r"]) == answers
            assert not reader.is_running
            assert reader.sql("SHOW STREAMS").rows()[0]["state"] == "stopped"
            with pytest.raises(ReadOnlyError, match="Open it without read_only"):
                reader.sql("DROP QUERY q")
    finally:
        directory.chmod(0o700)
    assert files(directory) == before


def test_spark_where_it_is_needed(owner: windrow.Windrow, spark: Any) -> None:
    """Other SELECTs over dead letters, and queries of a version that saved no types."""
    directory = owner.state_dir
    with owner._engine.catalog.transaction() as tx:
        tx.execute("UPDATE queries SET types = NULL")
    with windrow.open(directory, read_only=True, spark=spark) as reader:
        found = reader.sql("SELECT reason, COUNT(*) AS n FROM dead_letters('s') GROUP BY reason ORDER BY reason")
        assert [row["n"] for row in found.rows()] == [1, 1]
        assert reader.sql("DESCRIBE q").arrow().equals(owner.sql("DESCRIBE q").arrow())
    owner.close()
    with windrow.open(directory, spark=spark) as again:
        assert again._engine.catalog.value("SELECT count(*) FROM queries WHERE types IS NULL") == 0


def test_closed(reader: windrow.Windrow) -> None:
    query = reader.queries["q"]
    reader.close()
    reader.close()
    for call in (query.answers, lambda: reader.sql("SHOW STREAMS")):
        with pytest.raises(StateError, match="is closed"):
            call()


def test_no_state_directory(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="is not a state directory"):
        windrow.open(tmp_path / "none", read_only=True)
    with pytest.raises(StateError, match="needs a state directory"):
        windrow.open(read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_command_line(owner: windrow.Windrow, without_spark: None) -> None:
    directory = owner.state_dir
    shown = cli("status", "--state", directory)
    assert (shown.exit_code, f"running, process {os.getpid()}" in shown.stdout) == (0, True), shown.stdout
    assert "| 2026-03-01 12:00:35 |" in shown.stdout
    found = json.loads(cli("status", "--state", directory, "--json").stdout)
    assert (found["state"], found["pid"], found["streams"][0]["admitted"]) == ("running", os.getpid(), 40)
    assert [query["windows_answered"] for query in found["queries"]] == [7, 20]
    read = cli("sql", "--state", directory, "--read-only", "SHOW SHARING", "SELECT * FROM dead_letters('s')")
    assert read.exit_code == 0, read.stderr
    assert "malformed record" in read.stdout
    refused = cli("sql", "--state", directory, "--read-only", "DROP QUERY q")
    assert (refused.exit_code, "[WR410]" in refused.stderr) == (1, True)
    assert "--state" in cli("sql", "--read-only", "SHOW STREAMS").stderr
    owner.close()
    assert ": stopped;" in cli("status", "--state", directory).stdout
    assert cli("status", "--state", directory / "none").exit_code == 1


OWNER = """
import sys, windrow
wr = windrow.open(sys.argv[1], master="local[1]", settings={"retained_answers": "30"})
wr.sql(sys.argv[2])
second = 0
print("ready", flush=True)
while True:
    wr.deposit("s", [(f"2026-03-01 {12 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}", "a", second)])
    second += 5
    print(second, flush=True)
"""


@pytest.mark.slow
def test_state_of_another_process(tmp_path: Path, without_spark: None) -> None:
    """Each reading is one of whole windows, while the owner commits and deletes blocks; then the owner is killed."""
    state = tmp_path / "state"
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), state, STREAM], stdout=subprocess.PIPE, text=True
    )
    try:
        assert owner.stdout is not None
        for _ in range(12):
            assert owner.stdout.readline()
        with windrow.open(state, read_only=True) as reader:
            latest, until = set(), time.monotonic() + 8
            while time.monotonic() < until:
                found = reader.queries["q"].answers().rows()
                ends = [row["window_end"] for row in found]
                assert ends == sorted(set(ends))
                assert [b - a for a, b in zip(ends, ends[1:], strict=False)] == [ends[1] - ends[0]] * (len(ends) - 1)
                latest.add(ends[-1])
            assert len(latest) > 3
            assert json.loads(cli("status", "--state", state, "--json").stdout)["pid"] == owner.pid
            with pytest.raises(WindrowError, match=f"Process {owner.pid} has it open"):
                reader.sql("DROP QUERY q")
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        before = files(state)
        assert f"died, process {owner.pid} ended without closing it" in cli("status", "--state", state).stdout
        with windrow.open(state, read_only=True) as reader:
            assert reader.queries["q"].answers().rows()[-1]["window_end"] >= max(latest)
            assert not reader.is_running
        assert files(state) == before
    finally:
        owner.kill()
        owner.wait()
