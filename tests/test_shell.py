"""The shell of `windrow sql`: keys in a terminal, its commands, and what Ctrl-C cancels."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.terminals import CTRL_C, CTRL_D, ENTER, TAB, UP, Terminal

import windrow
from windrow.console.interrupts import Cancels, Interrupted, Interrupts
from windrow.console.shell.session import Shell, steps_of
from windrow.console.shell.terminal import converse
from windrow.engine.ask.onetime.driver_read import DriverRead
from windrow.errors import ParseError, StateError, WindrowError

STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, x INT) FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED;"
QUERY = "CREATE QUERY q AS SELECT k, SUM(x) AS total FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k;"


# -- keys in a terminal, without Spark ---------------------------------------------------------------


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(
        ["tests.support.scripted_shell", str(tmp_path)],
        {"HOME": str(tmp_path), "PAGER": f"tee {tmp_path}/paged"},
    )
    made.wait_for("windrow>")
    yield made
    made.close()


def tabbed(terminal: Terminal, typed: str, completed: str) -> None:
    """Type a text and Tab, and see it completed."""
    terminal.type(typed)
    terminal.wait_for(typed.split()[-1])
    terminal.type(TAB)
    terminal.wait_for(completed)


def test_keys(terminal: Terminal, tmp_path: Path) -> None:
    tabbed(terminal, "SHO", "W")
    tabbed(terminal, " STREA", "MS")
    terminal.type(ENTER)
    terminal.wait_for(r"\.\.\.>")
    terminal.type(";" + ENTER)
    assert "│ streams 1 │ 1 │" in terminal.wait_for("2 rows")
    terminal.wait_for("windrow>")
    terminal.type(UP)
    terminal.wait_for("STREAMS")
    terminal.type(CTRL_C)
    terminal.wait_for("windrow>")
    tabbed(terminal, "SELECT tempe", "rature")
    terminal.type(CTRL_C)
    for _ in range(3):
        terminal.wait_for("windrow>")
        terminal.type(CTRL_C)
    terminal.wait_for("windrow>")
    terminal.type("SHOW NOTHING;" + ENTER)
    terminal.wait_for(r"error: \[WR100\]")
    terminal.wait_for("windrow>")
    terminal.type(CTRL_D)
    terminal.wait_for("left in order")
    assert terminal.ended() == 0
    assert "+SHOW STREAMS" in (tmp_path / ".windrow_history").read_text()
    assert (tmp_path / ".windrow_history").stat().st_mode & 0o077 == 0


def test_ctrl_c_cancels_the_statement_alone(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("SELECT COUNT(*) FROM readings [ROWS 5]; SHOW QUERIES;" + ENTER)
    terminal.wait_for("selecting")
    terminal.type(CTRL_C)
    terminal.type(CTRL_C)
    assert "queries" not in terminal.wait_for("cancelled")
    assert (tmp_path / "cancelled").exists()
    terminal.wait_for("windrow>")
    terminal.type("SHOW QUERIES;" + ENTER)
    terminal.wait_for("queries 1")
    terminal.wait_for("windrow>")
    terminal.type("SET cut_factor = 7; SHOW TABLES;" + ENTER)
    terminal.wait_for("setting")
    terminal.type(CTRL_C)
    assert "tables" not in terminal.wait_for("cut_factor = 7")  # a change goes on to its end, what follows does not
    terminal.wait_for("cancelled")
    terminal.wait_for("windrow>")
    terminal.type("SET cut_factor = 8;" + ENTER)
    terminal.wait_for("setting")
    terminal.type(CTRL_C)
    terminal.wait_for("cut_factor = 8")
    terminal.wait_for("too late to cancel it: it is done")
    terminal.wait_for("windrow>")
    terminal.type("SHOW QUERIES; \\watch 0.2" + ENTER)
    terminal.wait_for(r"every 0\.2 s")
    terminal.wait_for(r"every 0\.2 s")
    terminal.type(CTRL_C)
    terminal.wait_for("windrow>")
    terminal.type("\\q" + ENTER)
    assert terminal.ended() == 0


def test_a_long_answer_is_paged(terminal: Terminal, tmp_path: Path) -> None:
    terminal.type("SHOW QUERIES;" + ENTER)
    terminal.wait_for("2 rows")
    assert not (tmp_path / "paged").exists()
    terminal.type("SHOW SETTINGS;" + ENTER)
    terminal.wait_for("500 rows")
    assert len((tmp_path / "paged").read_text().splitlines()) == 504
    (tmp_path / "paged").unlink()
    terminal.type("\\pager off" + ENTER + "SHOW SETTINGS;" + ENTER)
    terminal.wait_for("500 rows")
    assert not (tmp_path / "paged").exists()


def test_sigterm_leaves(terminal: Terminal) -> None:
    terminal.signal(signal.SIGTERM)
    terminal.wait_for("left in order")
    assert terminal.ended() == 0


# -- the loop, without a terminal --------------------------------------------------------------------


class Recorded(Shell):
    """A shell that records what it executes; `bad` fails, `slow` is cancelled."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.notes: list[str] = []
        self.draft = self.last_text = ""

    def execute(self, steps: Any) -> None:
        for step in steps:
            text = step.script.text if step.script else step.command.name
            self.done.append(text)
            if "SETTINGS" in text:
                raise StateError("bad")
            if "SHARING" in text:
                raise Interrupted
            if "LATENESS" in text:
                raise ZeroDivisionError("by zero")
            if step.command is not None:
                step.command.run(self, step.argument)

    def note(self, text: str, style: str = "") -> None:
        self.notes.append(text)


def test_neither_errors_nor_ctrl_c_end_the_shell() -> None:
    typed: list[Any] = [
        "",
        KeyboardInterrupt,
        KeyboardInterrupt,
        "SHOW STREAMS;",
        "SHOW SETTINGS;",
        "SHOW",
        "\\nonsense",
        "; ;",
        "SHOW SHARING; SHOW TABLES;",
        "SHOW LATENESS s;",
        "SHOW QUERIES;",
        "exit",
        "SHOW TABLES;",
    ]
    errors: list[WindrowError] = []

    def read(draft: str) -> str:
        item = typed.pop(0)
        if isinstance(item, str):
            return item
        raise item

    shell = Recorded()
    converse(shell, Cancels(Interrupts()), read, errors.append)
    shared = "SHOW SHARING; SHOW TABLES;"
    assert shell.done == ["SHOW STREAMS;", "SHOW SETTINGS;", shared, "SHOW LATENESS s;", "SHOW QUERIES;", "q"]
    assert [error.code for error in errors] == ["WR400", "WR100", "WR100", "WR700"]
    assert "unexpected ZeroDivisionError: by zero" in errors[-1].message
    assert shell.notes == ["cancelled"]
    assert shell.last_text == "SHOW QUERIES;"
    assert typed == ["SHOW TABLES;"]


def test_nothing_is_executed_before_all_is_parsed() -> None:
    with pytest.raises(ParseError, match=r"no command \\strat\nDid you mean \\start"):
        steps_of("SHOW STREAMS;\n\\strat")
    with pytest.raises(ParseError, match=r"line 3, column 6"):
        steps_of("SHOW STREAMS;\n\\d\nSHOW STREEMS;")


def test_what_cannot_be_cancelled_ends_first() -> None:
    cancels = Cancels(Interrupts())
    begun = threading.Event()

    def change() -> str:
        begun.set()
        time.sleep(0.5)
        return "changed"

    threading.Thread(target=lambda: begun.wait(30) and cancels._note(2, None), daemon=True).start()
    assert cancels.attempt(change) == "changed"
    assert cancels.requested


def test_what_ignores_its_cancellation_is_left() -> None:
    cancels = Cancels(Interrupts())
    release, asked = threading.Event(), threading.Event()
    cancels._note(2, None)
    cancels._note(2, None)
    started_s = time.monotonic()
    with pytest.raises(Interrupted):
        cancels.attempt(lambda: release.wait(60), cancel=asked.set, patience_s=0.2)
    assert time.monotonic() - started_s < 30 and asked.is_set()
    cancels.clear()
    assert not cancels.requested
    release.set()


# -- with Spark --------------------------------------------------------------------------------------


class Pressed(Cancels):
    """Ctrl-C by a call."""

    def __init__(self) -> None:
        super().__init__(Interrupts())

    def press(self) -> None:
        self._note(signal.SIGINT, None)


@pytest.fixture
def shell(tmp_path: Path, spark: Any) -> Iterator[Shell]:
    with windrow.open(tmp_path / "state", spark=spark) as wr:
        yield Shell(wr, Pressed())


def run(shell: Shell, text: str) -> None:
    shell.execute(steps_of(text))


def fed(shell: Shell) -> None:
    shell.wr.feed("s", [(f"2026-03-01 12:00:{second:02}", "ab"[second % 2], second) for second in range(0, 40, 3)])


@pytest.mark.slow
def test_commands(shell: Shell, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(text: str) -> tuple[str, str]:
        run(shell, text)
        return capsys.readouterr()

    app = tmp_path / "app.cql"
    app.write_text(STREAM + "\n\\timing on\n" + QUERY)
    out, err = said(f"\\i {app}")
    assert "stream s\n" in err and "query q: every window is complete" in err and "time: " in err
    shell.view.timing = False
    fed(shell)
    assert "rows" in said("\\run")[1]
    out, _ = said("\\answers q 1")
    assert "q: the last 1 of 7 windows" in out and "| b " in out
    out, _ = said("\\d")
    assert (
        "| s    | stream | from memory, ordered" in out
        and "| q    | query  | s [RANGE 10 SECONDS SLIDE 5 SECONDS]" in out
    )
    out, _ = said("\\d q")
    assert "| total " in out and "CREATE QUERY q AS SELECT" in out
    assert "CREATE STREAM s (ts TIMESTAMP" in said("\\d s")[0]
    assert "skip" in said("\\d empty_windows")[0]
    with pytest.raises(WindrowError, match="no stream, table, query or setting 'r'"):
        run(shell, "\\d r")
    assert "DROP {STREAM | QUERY | TABLE}" in said("\\h drop")[0]
    assert "\\watch [SECONDS] [QUERY | STATEMENT]" in said("\\?")[0]
    assert said("\\format csv \n SHOW QUERIES;")[0].startswith("name,stream,window,")
    for name in ("jsonl", "json"):
        assert '"name":"q"' in said(f"\\format table\n\\format {name}\nSHOW QUERIES;")[0]
    said(f"\\format table\n\\o {tmp_path}/out\n\\x on\nSHOW QUERIES;\n\\o")
    assert "name              │ q" in (tmp_path / "out").read_text()
    names = shell.names()
    assert (names.streams, names.queries["q"][-1]) == ({"s": ("ts", "k", "x")}, "total")
    app.write_text(f"\\i {app}")
    with pytest.raises(ParseError, match="includes itself"):
        run(shell, f"\\i {app}")


@pytest.mark.slow
def test_start_watch_stop(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, STREAM + QUERY)
    run(shell, "\\start")
    assert shell.wr.is_running
    fed(shell)
    seen: list[str] = []

    def press_when_answered() -> None:
        until = time.monotonic() + 120
        while time.monotonic() < until and not re.search(r"\| a +\|", "".join(seen)):
            seen.append(capsys.readouterr().out)
            time.sleep(0.1)
        shell.interrupts.press()  # type: ignore[attr-defined]

    thread = threading.Thread(target=press_when_answered, daemon=True)
    thread.start()
    run(shell, "\\watch q")  # returns after the Ctrl-C, and forgets it
    thread.join(60)
    assert re.search(r"q · window 2026-03-01 .* windows answered", "".join(seen))
    assert re.search(r"\| a +\| +\d+ \|", "".join(seen))
    assert not shell.interrupts.requested and shell.wr.is_running
    run(shell, "\\stop")
    assert not shell.wr.is_running
    with pytest.raises(WindrowError, match="no query 'p'"):
        run(shell, "\\watch p")


@pytest.mark.slow
def test_ctrl_c_cancels_the_spark_jobs_of_a_select(shell: Shell, spark: Any) -> None:
    tracker = spark.sparkContext.statusTracker()
    pressed = shell.interrupts

    def press_when_running() -> None:
        until = time.monotonic() + 120
        while time.monotonic() < until and not tracker.getActiveJobsIds():
            time.sleep(0.05)
        pressed.press()  # type: ignore[attr-defined]

    thread = threading.Thread(target=press_when_running, daemon=True)
    thread.start()
    with pytest.raises(Interrupted):
        shell.read(lambda: spark.range(10**13).selectExpr("sum(id * id)").collect())
    thread.join(60)
    until = time.monotonic() + 60
    while tracker.getActiveJobsIds():
        assert time.monotonic() < until, "the job still runs"
        time.sleep(0.05)
    pressed.clear()  # type: ignore[attr-defined]
    run(shell, STREAM + QUERY + "SHOW STREAMS;")


@pytest.mark.slow
def test_ctrl_c_cancels_a_question_that_waits_for_its_answer(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, coordinator = threading.Event(), shell.wr._engine.coordinator
    answer = DriverRead.answer

    def waiting(read: DriverRead, *arguments: Any) -> Any:
        assert opened.wait(60)
        return answer(read, *arguments)

    monkeypatch.setattr(DriverRead, "answer", waiting)
    run(shell, STREAM.replace(";", " RETAIN 1 HOUR;"))
    fed(shell)
    run(shell, "\\run")

    def press_when_asked() -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until and not coordinator.running:
            time.sleep(0.01)
        shell.interrupts.press()  # type: ignore[attr-defined]

    thread = threading.Thread(target=press_when_asked, daemon=True)
    thread.start()
    with pytest.raises(Interrupted):
        run(shell, "SELECT COUNT(*) AS n FROM s [RANGE 10 SECONDS];")
    thread.join(60)
    assert not coordinator.running
    opened.set()
    shell.interrupts.clear()  # type: ignore[attr-defined]
    run(shell, "SELECT COUNT(*) AS n FROM s [RANGE 10 SECONDS];")


@pytest.mark.slow
def test_ctrl_c_stops_run_in_order(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number:02}.json").write_text(f'{{"n": {number}}}\n')
    run(
        shell,
        f"CREATE STREAM f (n INT) FROM files OPTIONS (path '{folder}', format 'json', maxFilesPerTrigger '1')"
        " TIMESTAMP BY n PUNCTUATE WITH SLACK 100;"
        "CREATE QUERY c AS SELECT COUNT(*) AS n FROM f [RANGE 100 SLIDE 100];",
    )
    original = windrow.Windrow.metrics

    def metrics(self: windrow.Windrow) -> dict[str, Any]:
        found = original(self)
        if found["f"]["rows"]:
            shell.interrupts.press()  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(windrow.Windrow, "metrics", metrics)
    with pytest.raises(Interrupted):
        run(shell, "\\run close")
    monkeypatch.undo()
    shell.interrupts.clear()  # type: ignore[attr-defined]
    run(shell, "\\run close")
    assert [row["n"] for row in shell.wr.queries["c"].answers().rows()] == [12]


@pytest.mark.slow
def test_whole_session(tmp_path: Path) -> None:
    """`windrow sql` on a terminal: a stream that runs, live answers, Ctrl-C, and an orderly end."""
    terminal = Terminal(["windrow", "sql", "--state", str(tmp_path / "state")], {"HOME": str(tmp_path), "PAGER": "cat"})
    try:
        terminal.wait_for("windrow>", 300)
        terminal.type("CREATE STREAM packets (ts TIMESTAMP, proto STRING, length INT)" + ENTER)
        terminal.wait_for(r"\.\.\.>")
        terminal.type("FROM packets OPTIONS (rate '200') TIMESTAMP BY ts PUNCTUATE ORDERED;" + ENTER)
        terminal.wait_for("stream packets")
        terminal.wait_for("windrow>")
        terminal.type("CREATE QUERY busy AS SELECT proto, COUNT(*) AS n" + ENTER)
        terminal.wait_for(r"\.\.\.>")
        tabbed(terminal, "FROM pack", "ets")
        terminal.type(" [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY proto;" + ENTER)
        terminal.wait_for("query busy: every window is complete")
        terminal.wait_for("windrow>")
        terminal.type("\\start" + ENTER)
        terminal.wait_for("the streams are running", 180)
        terminal.type("\\watch busy" + ENTER)
        terminal.wait_for(r"[1-9]\d* windows answered", 180)
        terminal.wait_for(r"│ tcp ")
        terminal.type(CTRL_C)
        terminal.wait_for("windrow>")
        for _ in range(2):
            terminal.type(CTRL_C)
            terminal.wait_for("windrow>")
        terminal.type("\\stop" + ENTER)
        terminal.wait_for("the streams are stopped", 180)
        terminal.type("\\q" + ENTER)
        assert terminal.ended(180) == 0
        assert "Traceback" not in terminal.seen
    finally:
        terminal.close()
