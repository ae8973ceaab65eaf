"""The command line: its output, its exit codes, and an orderly stop at Ctrl-C."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console
from typer.testing import CliRunner

import windrow
from windrow.cli import app
from windrow.console.benchmarks import about, benchmarks, chosen, run_benchmark
from windrow.console.demo import JOIN, QUERIES
from windrow.console.interrupts import Interrupted, Interrupts
from windrow.console.live import Flow, Joined, Standing, demo_lines, demo_screen
from windrow.console.tables import markdown, print_answers, print_table
from windrow.errors import CatalogError

ROOT = Path(__file__).resolve().parent.parent
STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, x INT) FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED;\n"
QUERY = "CREATE QUERY q AS SELECT k, SUM(x) AS total FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k;\n"


def cli(*arguments: str | Path, stdin: str | None = None) -> Any:
    """Run a command in this process; it shares the Spark session of the tests."""
    return CliRunner().invoke(app, [str(a) for a in arguments], input=stdin, catch_exceptions=False)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "app.cql"
        path.write_text(text, encoding="utf-8")
        return path

    return write


# -- without Spark -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "sql", "explain", "demo", "bench"])
def test_every_command_has_help(command: str) -> None:
    assert command in cli("--help").stdout
    done = cli(command, "--help")
    assert done.exit_code == 0
    assert f"windrow {command}" in done.stdout or f"{command} [OPTIONS]" in done.stdout


def test_version() -> None:
    assert cli("--version").stdout == f"windrow {windrow.__version__}\n"


def test_unknown_options(script: Callable[[str], Path]) -> None:
    assert cli("run", script(STREAM), "--console", "8080").exit_code == 2
    assert cli("experiments").exit_code == 2


def test_run_of_a_missing_script(tmp_path: Path) -> None:
    assert cli("run", tmp_path / "none.cql").exit_code == 2


@pytest.mark.parametrize("query", ["missing.cql", "my missing.cql", "somewhere/missing"])
def test_explain_of_a_missing_script(query: str) -> None:
    done = cli("explain", query)
    assert (done.exit_code, "does not exist" in done.stderr) == (2, True)


def test_explain_of_a_long_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windrow.cli.opened", lambda *a: pytest.fail("it was opened"))
    done = cli("explain", f"SELEKT {', '.join(['x'] * 2000)} FROM s")
    assert (done.exit_code, "Did you mean SELECT?" in done.stderr) == (1, True)


def test_syntax_error(script: Callable[[str], Path], tmp_path: Path) -> None:
    path = script(STREAM + "CREATE QUERRY q AS SELECT 1;")
    done = cli("run", path, "--state", tmp_path / "state")
    assert done.exit_code == 1
    assert "(line 2, column 8)" in done.stderr
    assert "   2 | CREATE QUERRY q AS SELECT 1;\n     |        ^^^^^^\n" in done.stderr
    assert "Did you mean QUERY?" in done.stderr
    assert done.stderr.startswith(f"error: {path}: [WR100]")
    assert not (tmp_path / "state").exists()


def test_script_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "app.cql"
    path.write_bytes(b"\xff\xfe\x00")
    done = cli("run", path)
    assert (done.exit_code, "not a text file in UTF-8" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("setting", "said"),
    [("nope=1", "there is no setting 'nope'"), ("preaggregate", "is not a setting"), ("cut_factor=x", "It takes")],
)
def test_wrong_setting(setting: str, said: str, script: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windrow.open", lambda *a, **k: pytest.fail("it was opened"))
    done = cli("run", script(STREAM + QUERY), "--set", setting)
    assert (done.exit_code, said in done.stderr) == (1, True)


def test_explain_without_a_state(tmp_path: Path) -> None:
    done = cli("explain", "SELECT 1", "--state", tmp_path)
    assert (done.exit_code, "is not a state directory" in done.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []


# -- Ctrl-C ------------------------------------------------------------------------------------------


@contextmanager
def ctrl_c_when(ready: threading.Event, after_s: float = 0.0) -> Iterator[None]:
    """Send SIGINT to this process once the event is set."""

    def send() -> None:
        if ready.wait(60):
            time.sleep(after_s)
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    yield
    thread.join(60)


def test_background_work() -> None:
    with Interrupts() as interrupts:
        assert interrupts.background(lambda: 42) == 42
        with pytest.raises(ZeroDivisionError):
            interrupts.background(lambda: 1 / 0)


def test_ctrl_c_stops_work() -> None:
    working, stopped, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        working.set()
        stopped.wait(30)
        ended.set()

    with Interrupts() as interrupts, ctrl_c_when(working):
        with pytest.raises(Interrupted):
            interrupts.background(work, stop=stopped.set)
        assert ended.is_set()
        assert interrupts.wait(30)


def test_ctrl_c_abandons_work() -> None:
    working, release = threading.Event(), threading.Event()

    def work() -> None:
        working.set()
        release.wait(30)

    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts, ctrl_c_when(working):
        started_s = time.monotonic()
        with pytest.raises(Interrupted):
            interrupts.background(work)
        assert time.monotonic() - started_s < 10
    assert signal.getsignal(signal.SIGINT) is before
    release.set()


# -- output ------------------------------------------------------------------------------------------


def drawn(render: Callable[[Console], None], width: int, is_terminal: bool = True) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=is_terminal, color_system=None)
    render(console)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


def test_markdown_table() -> None:
    lines = markdown(["name", "n"], [["a|b", "12"], ["c", "3456"]], {"n"}).splitlines()
    assert lines[:4] == ["| name |    n |", "| ---- | ---: |", "| a\\|b |   12 |", "| c    | 3456 |"]


def test_wide_table() -> None:
    table = pa.table({"first": ["a" * 30], "second": ["b" * 30]})
    assert any("first" in line and "second" in line for line in drawn(lambda c: print_table(c, table), 80))
    narrow = drawn(lambda c: print_table(c, table), 50)
    assert not any("first" in line and "second" in line for line in narrow)
    assert sum("a" * 30 in line or "b" * 30 in line for line in narrow) == 2


def test_empty_wide_table() -> None:
    table = pa.table({"a" * 30: [], "b" * 30: []})
    assert "a" * 30 in drawn(lambda c: print_table(c, table), 80)[1]
    assert drawn(lambda c: print_table(c, table), 50) == ["no rows"]


def answers(windows: int, rows: int) -> pa.Table:
    end = datetime(2026, 3, 1, tzinfo=timezone.utc)
    made = [
        {"window_start": end, "window_end": end + timedelta(minutes=w), "is_revision": False, "row": f"w{w}r{r}"}
        for w in range(windows)
        for r in range(rows)
    ]
    return pa.Table.from_pylist(made)


def test_last_windows() -> None:
    text = "\n".join(drawn(lambda c: print_answers(c, "q", answers(9, 2)), 100, is_terminal=False))
    assert "q: the last 3 of 9 windows with rows" in text
    assert re.findall(r"w\dr\d", text) == ["w6r0", "w6r1", "w7r0", "w7r1", "w8r0", "w8r1"]
    assert "is_revision" not in text
    many = "\n".join(drawn(lambda c: print_answers(c, "q", answers(1, 50)), 100, is_terminal=False))
    assert "q: 1 window, the last 20 of 50 rows" in many


def test_windows_without_rows() -> None:
    def text(answered: int) -> str:
        none = answers(1, 1).slice(0, 0)
        return "\n".join(drawn(lambda c: print_answers(c, "q", none, answered=answered), 100, is_terminal=False))

    assert "q: no answer yet" in text(0)
    assert "q: 1 window answered, none with rows" in text(1)
    assert "q: 4,330 windows answered, none with rows" in text(4330)


def standing(answered: bool) -> list[Standing]:
    end = datetime.fromtimestamp(1_000_000, timezone.utc)
    rows = [{"src": "10.0.3.250", "bytes": 61_019, "packets": 1_651}] * 3
    return [
        Standing(q.name, q.title, q.window, 53, end - timedelta(seconds=10), end, rows, 1_000_001.0)
        if answered
        else Standing(q.name, q.title, q.window, 0, None, None, (), 0.0)
        for q in QUERIES
    ]


def joined(ticked: bool) -> Joined:
    if not ticked:
        return Joined(JOIN.name, JOIN.title, JOIN.window, 0, None, (), ())
    rows = [{"src": f"10.0.2.{i}", "pairs": 1_234 - i} for i in range(3)]
    latest = [("-", {**rows[2], "pairs": 1_231}), ("+", rows[2])]
    tick = datetime.fromtimestamp(1_000_001, timezone.utc)
    return Joined(JOIN.name, JOIN.title, JOIN.window, 4_321, tick, rows, latest)


def test_progress_of_continuous_queries() -> None:
    flow = Flow(rows=10, rows_per_s=5, answers=0, dead_letters=0, frontier=None, changes=7, ticks=3)
    assert flow.line() == "5 rows/s  ·  10 rows  ·  7 changes in 3 ticks"
    assert replace(flow, changes=1, ticks=1).line() == "5 rows/s  ·  10 rows  ·  1 change in 1 tick"


def test_demo_screen() -> None:
    flow = Flow(rows=1_060_000, rows_per_s=20_013, answers=214, dead_letters=0, frontier=None)
    small = drawn(lambda c: c.print(demo_screen(flow, standing(True), joined(True), 42, 60, 1_000_002.5, 24)), 80)
    assert len(small) <= 24
    assert max(map(len, small)) == 80
    assert len([line for line in small if "2.5 s" in line]) == len(QUERIES) == 6
    assert len([line for line in small if "1.5 s ago" in line]) == 6
    assert len([line for line in small if "61,019" in line and "1,651" in line]) == 12
    large = drawn(lambda c: c.print(demo_screen(flow, standing(True), joined(True), 42, 60, 1_000_002.5, 60)), 100)
    assert len([line for line in large if "61,019" in line]) == 18
    first = "\n".join(drawn(lambda c: c.print(demo_screen(flow, standing(False), joined(False), 1, 60, 2.5, 24)), 80))
    assert first.count("waiting for the first window") == 6
    assert "On both links, waiting for the first tick of both streams" in first
    assert [line for line in small if "On both links, 4,321 changes, 1.5 s old: src 10.0.2.0, pairs 1,234; src" in line]
    assert "- src 10.0.2.2, pairs 1,231" not in "\n".join(small)
    assert [line for line in large if "pairs 1,233" in line]
    assert [line.strip("│ ") for line in large if "1,231" in line] == ["- src 10.0.2.2, pairs 1,231"]


def test_demo_lines() -> None:
    flow = Flow(rows=1_060_000, rows_per_s=20_013, answers=214, dead_letters=0, frontier=None)
    lines = demo_lines(flow, standing(True), joined(True), 42, 1_000_002.5)
    assert lines[0] == "  42 s  20,013 rows/s  1,060,000 rows in  214 answers out"
    assert "traffic [13:46:30 .. 13:46:40): src 10.0.3.250, bytes 61,019" in lines[1]
    assert lines[1].endswith("(2.5 s old)")
    assert lines[7].startswith("        both_links, 4,321 changes, 1.5 s old: src 10.0.2.0, pairs 1,234; src")
    waiting = demo_lines(flow, standing(False), joined(False), 1, 2.5)
    assert waiting[6].endswith("totals: waiting for the first window to close")
    assert waiting[7].endswith("both_links, waiting for the first tick of both streams")


# -- benchmarks --------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "fast.py").write_text(
        '"""Something fast.\n\nMore."""\nimport sys\n\n\ndef main():\n    sys.exit(len(sys.argv) + 2)\n\n\nmain()\n'
    )
    (folder / "shared.py").write_text("X = 1\n")
    return tmp_path


def test_benchmarks(checkout: Path, tmp_path: Path) -> None:
    known = benchmarks([tmp_path / "nowhere", checkout])
    assert list(known) == ["fast"]
    assert about(known["fast"]) == "Something fast."
    assert chosen("all", known) == chosen("fast", known) == [known["fast"]]
    with pytest.raises(CatalogError, match="no benchmark 'fats'\nDid you mean 'fast'"):
        chosen("fats", known)
    with pytest.raises(CatalogError, match="part of the source checkout"):
        benchmarks([tmp_path / "nowhere"])


def test_run_benchmark(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = benchmarks([checkout])
    assert run_benchmark(known["fast"], []) == 3
    monkeypatch.setattr("windrow.cli.benchmarks", lambda: known)
    assert cli("bench").stdout == "fast  Something fast.\n"
    assert cli("bench", "fast", "--packets", "7").exit_code == 5
    assert cli("bench", "slow").exit_code == 1


# -- with Spark --------------------------------------------------------------------------------------


def sensors(script: Callable[[str], Path]) -> Path:
    """The sensors example, with the path of its readings made absolute."""
    text = (ROOT / "examples/sensors/app.cql").read_text(encoding="utf-8")
    assert text.count("'examples/sensors/readings'") == 1
    return script(text.replace("examples/sensors/readings", str(ROOT / "examples/sensors/readings")))


@pytest.mark.slow
def test_sensors_example(script: Callable[[str], Path], tmp_path: Path, spark: Any) -> None:
    path, state = sensors(script), tmp_path / "state"
    done = cli("run", path, "--until-available", "--state", state)
    assert done.exit_code == 0, done.stderr
    assert "climate: the last 3 of 11 windows with rows" in done.stdout
    # The last window, computed by hand: the four readings of s5 from 08:09 on.
    assert re.search(r"08:09:00 \| 2026-03-01 08:11:00 \| server room +\| +4 \| 30.08 \| +30.48 \|", done.stdout)
    assert re.search(r"\| climate +\| +11 \| +33 \| active", done.stdout)
    assert re.search(r"\| overheating +\| +21 \| +10 \| active", done.stdout)
    assert re.search(r"\| readings +\| +197 \| +3 \| malformed record 2, null window attribute 1", done.stdout)
    assert "Traceback" not in done.stderr

    again = cli("run", path, "--until-available", "--state", state)
    assert again.exit_code == 0, again.stderr
    assert "query climate: kept, it exists with the same text" in again.stderr
    assert "climate: the last 3 of 11 windows with rows" in again.stdout
    assert re.search(r"\| climate +\| +0 \| +0 \| active", again.stdout)
    assert again.stdout.index("In this run, by query:") < again.stdout.index("In this run, by stream:")

    letters = cli("sql", "--state", state, "SELECT reason, rows FROM dead_letters('readings') ORDER BY reason")
    assert letters.stdout.count("| malformed record ") == 2

    path.write_text(path.read_text().replace("> 27", "> 28"))
    changed = cli("run", path, "--until-available", "--state", state)
    assert changed.exit_code == 1
    assert "query 'overheating' exists with another text" in changed.stderr
    assert "> 27" in changed.stderr


@pytest.mark.slow
def test_sql(tmp_path: Path, spark: Any) -> None:
    state = tmp_path / "state"
    made = cli("sql", "--state", state, STREAM, QUERY)
    assert (made.exit_code, made.stdout) == (0, "")
    assert "stream s\n" in made.stderr
    piped = cli("sql", "--state", state, stdin="SHOW STREAMS;\nEXPLAIN QUERY q; SET cut_factor = 7;")
    assert piped.exit_code == 0
    assert re.search(r"^\| s +\| memory \| ts ", piped.stdout, re.M)
    assert "Query q: periodic" in piped.stdout
    wrong = cli("sql", "--state", state, "SHOW QUERIES; SELECT SUM(z) FROM nothing('s'); SHOW TABLES")
    assert wrong.exit_code == 1
    assert "| q " in wrong.stdout
    assert "error: [WR" in wrong.stderr
    assert cli("sql", stdin="").exit_code == 1


@pytest.mark.slow
def test_stream_that_finds_its_columns(
    script: Callable[[str], Path], tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notes go to standard error, SHOW CREATE prints plain text, and the script may be run again on its state."""
    for name in ("in", "other/in"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "1.json").write_text('{"n": 7, "k": "a"}\n')
    monkeypatch.chdir(tmp_path)
    state = tmp_path / "state"
    path = script(
        "CREATE STREAM f FROM files OPTIONS (path 'in') TIMESTAMP BY n PUNCTUATE ORDERED; SHOW CREATE STREAM f;"
        "CREATE QUERY q AS SELECT k, COUNT(*) AS c FROM f [RANGE 10 SLIDE 10] WHERE k = 'b' GROUP BY k;"
    )
    done = cli("run", path, "--until-available", "--state", state)
    assert done.exit_code == 0, done.stderr
    assert "note: columns found in 1 file: k STRING, n BIGINT." in done.stderr
    assert "no PUNCTUATE" not in done.stderr
    assert done.stdout.splitlines()[:4] == [
        "CREATE STREAM f (k STRING, n BIGINT)",
        f"  FROM files OPTIONS (path '{tmp_path}/in', format 'json')",
        "  TIMESTAMP BY n",
        "  PUNCTUATE ORDERED;",
    ]
    assert "q: 1 window answered, none with rows" in done.stdout
    again = cli("run", path, "--until-available", "--state", state)
    assert (again.exit_code, "stream f: kept, it exists with the same text" in again.stderr) == (0, True)
    monkeypatch.chdir(tmp_path / "other")
    moved = cli("run", path, "--until-available", "--state", state)
    assert (moved.exit_code, "stream 'f' exists with another text" in moved.stderr) == (1, True)
    loose = cli("sql", "CREATE STREAM g (t TIMESTAMP) FROM memory TIMESTAMP BY t")
    assert "note: no PUNCTUATE" in loose.stderr


@pytest.mark.slow
def test_explain(script: Callable[[str], Path], tmp_path: Path, spark: Any) -> None:
    other = QUERY.replace("QUERY q", "QUERY r").replace("SUM(x) AS total", "MAX(x) AS most")
    into = tmp_path / "out.jsonl"
    path = script(STREAM + QUERY + other.replace(";", f" INTO jsonl OPTIONS (path '{into}');"))
    done = cli("explain", path)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count("shared with 1 other query") == 2
    assert done.stdout.index("Query q: periodic") < done.stdout.index("Query r: periodic")
    assert not into.exists()

    state = tmp_path / "state"
    cli("sql", "--state", state, STREAM)
    select = QUERY.partition(" AS ")[2]
    assert "WindowAggregate [RANGE 10 SECONDS SLIDE 5 SECONDS]" in cli("explain", "--state", state, select).stdout
    assert "Query q: periodic" in cli("explain", "--state", state, script(STREAM + QUERY)).stdout
    refused = cli("explain", "--state", state, STREAM.replace("STREAM s", "STREAM t"))
    assert (refused.exit_code, "changes nothing" in refused.stderr) == (1, True)
    assert "| q " not in cli("sql", "--state", state, "SHOW QUERIES").stdout


@pytest.mark.slow
def test_script_without_a_query(script: Callable[[str], Path], spark: Any) -> None:
    done = cli("run", script(STREAM))
    assert (done.exit_code, "nothing to run" in done.stderr) == (0, True)


@pytest.mark.slow
def test_interrupted_run_until_available(
    script: Callable[[str], Path], tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while files are read: exit 130, and no window closes early. The next run gives the whole answer."""
    readings = tmp_path / "in"
    readings.mkdir()
    for number in range(12):
        (readings / f"{number:02}.json").write_text(f'{{"n": {number}}}\n')
        os.utime(readings / f"{number:02}.json", (1_700_000_000 + number,) * 2)
    path = script(
        f"CREATE STREAM f (n INT) FROM files OPTIONS (path '{readings}', format 'json', maxFilesPerTrigger '1')"
        " TIMESTAMP BY n PUNCTUATE ORDERED;"
        "CREATE QUERY q AS SELECT COUNT(*) AS c, SUM(n) AS s FROM f [RANGE 100 SLIDE 100];"
    )
    begun = threading.Event()
    original = windrow.Windrow.metrics

    def metrics(self: windrow.Windrow) -> dict[str, Any]:
        found = original(self)
        if found["f"]["rows"]:
            begun.set()
        return found

    monkeypatch.setattr(windrow.Windrow, "metrics", metrics)
    state = tmp_path / "state"
    with ctrl_c_when(begun):
        done = cli("run", path, "--until-available", "--state", state)
    assert done.exit_code == 130, done.stdout + done.stderr
    assert "stopped" in done.stderr
    again = cli("run", path, "--until-available", "--state", state)
    assert again.exit_code == 0, again.stderr
    assert re.search(r"\| +0 \| +100 \| +12 \| +66 \|", again.stdout), again.stdout


# -- separate processes and a real Ctrl-C --------------------------------------------------------------


class Program:
    """`windrow …` in its own process group."""

    def __init__(self, folder: Path, *arguments: str | Path):
        self._out, self._err = folder / "stdout", folder / "stderr"
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
        with self._out.open("w") as out, self._err.open("w") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "windrow", *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                cwd=ROOT,
                start_new_session=True,
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def wait_for(self, pattern: str, seconds: float = 150) -> None:
        until = time.monotonic() + seconds
        while not re.search(pattern, self.out + self.err):
            assert self._process.poll() is None, f"it ended early:\n{self.out}\n{self.err}"
            assert time.monotonic() < until, f"no {pattern!r} in:\n{self.out}\n{self.err}"
            time.sleep(0.1)

    def ctrl_c(self) -> None:
        """Send SIGINT to the whole group including the JVM, as a terminal does."""
        os.killpg(self._process.pid, signal.SIGINT)

    def terminate(self) -> None:
        """Send SIGTERM to the program alone, as a service manager does."""
        self._process.send_signal(signal.SIGTERM)

    def ended(self, seconds: float) -> int:
        """Wait for the exit code; the JVM must end with the program."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            pytest.fail(f"it did not stop within {seconds} s:\n{self.out}\n{self.err}")
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                os.killpg(self._process.pid, 0)
            except ProcessLookupError:
                return code
            time.sleep(0.1)
        os.killpg(self._process.pid, signal.SIGKILL)
        pytest.fail("a process of the group outlived the program")


NOISE = re.compile(r"Traceback|Exception|WARN|FutureWarning|log4j|incubator|nanobind|Setting default", re.I)


@pytest.mark.slow
def test_packets_example(tmp_path: Path, spark: Any) -> None:
    state = tmp_path / "state"
    program = Program(tmp_path, "run", "examples/packets.cql", "--state", state)
    program.wait_for(r"proto=tcp  packets=\d+  bytes=\d+")
    program.terminate()
    assert program.ended(30) == 0, program.err
    assert re.search(r"\| traffic +\| +[1-9]\d* \| +[1-9]\d* \| active", program.out)
    assert not NOISE.search(program.err), program.err
    # The state is complete and unlocked.
    shown = cli("sql", "--state", state, "SHOW QUERIES")
    assert re.search(r"\| traffic +\| packets +\| RANGE 10 SECONDS SLIDE 2 SECONDS \| +[1-9]", shown.stdout)


@pytest.mark.slow
def test_demo(tmp_path: Path) -> None:
    program = Program(tmp_path, "demo", "--seconds", "600", "--rate", "5000")
    program.wait_for(r"both_links, [1-9][\d,]* changes, [\d.]+ s old: src 10\.\S+, pairs \d", 300)
    program.wait_for(r"totals \[\d\d:\d\d:\d\d .. \d\d:\d\d:\d\d\): packets [\d,]+, bytes")
    program.ctrl_c()
    assert program.ended(30) == 0, program.err
    for query in QUERIES:
        assert re.search(rf"\| {query.name} +\| {query.window}", program.out), program.out
    assert re.search(r"packets since the stream started, shown for \d+ s; [\d,]+ answers", program.out)
    assert re.search(r"both_links: [1-9][\d,]* changes; the view at \S+ \S+ has \d+ row", program.out), program.out
    assert "docs/tutorial.md" in program.out
    assert not NOISE.search(program.out + program.err), program.err


@pytest.mark.slow
def test_ctrl_c_while_spark_starts(tmp_path: Path) -> None:
    program = Program(tmp_path, "demo")
    program.wait_for("starting Spark")
    time.sleep(1)
    program.ctrl_c()
    assert program.ended(10) == 130
    assert not NOISE.search(program.out + program.err), program.err
