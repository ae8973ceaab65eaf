"""Live answers: in a notebook's cell (a stub of IPython), on a terminal, and elsewhere."""

from __future__ import annotations

import io
import sys
import threading
import time
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from windrow.display import in_place
from windrow.display.in_place import follow, in_terminal, is_notebook
from windrow.display.latest import LatestAnswer, LatestView
from windrow.errors import BindError


def latest(number: int, stopped: str | None = None, rows: int = 1) -> LatestAnswer:
    table = pa.table(
        {
            "window_start": [number] * rows,
            "window_end": [number + 10] * rows,
            "is_revision": [False] * rows,
            "total": list(range(100 + number, 100 + number + rows)),
        }
    )
    return LatestAnswer("q", table, number, number, stopped)


class Script:
    """Has one answer after the other, then nothing new; an exception in the script is raised."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.looks = 0

    def __call__(self, shown: LatestAnswer | None) -> LatestAnswer | None:
        self.looks += 1
        found = self.script.pop(0) if self.script else None
        if isinstance(found, BaseException):
            raise found
        return found


class Cell:
    """The display of a stub of IPython: what each cell shows, one version after the other."""

    def __init__(self) -> None:
        self.versions: list[list[str]] = []

    def display(self, shown: Any, *, display_id: bool) -> Cell:
        assert display_id
        self.versions.append([shown._repr_html_()])
        return self

    def update(self, shown: Any) -> None:
        self.versions[-1].append(shown._repr_html_())


def ipython(monkeypatch: pytest.MonkeyPatch, shell: object) -> Cell:
    """Pretend to run in IPython with this shell."""
    cell, package, display = Cell(), ModuleType("IPython"), ModuleType("IPython.display")
    package.get_ipython = lambda: shell  # type: ignore[attr-defined]
    display.display = cell.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return cell


class ZMQInteractiveShell:
    """As a notebook's kernel has it."""


class TerminalInteractiveShell:
    """As `ipython` has it."""


def test_notebook(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cell = ipython(monkeypatch, ZMQInteractiveShell())
    follow(Script(latest(1), None, latest(2), latest(3)), 0.05, 2, None)
    (versions,) = cell.versions
    assert [f">{100 + n}</td>" in html for n, html in enumerate(versions, 1)] == [True] * 3
    assert "window 3 .. 13" in versions[-1] and "window_end" not in versions[-1]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "shell, expected", [(None, False), (TerminalInteractiveShell(), False), (ZMQInteractiveShell(), True)]
)
def test_is_notebook(shell: object, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    ipython(monkeypatch, shell)
    assert is_notebook() is expected


def test_without_ipython(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not is_notebook()


def test_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the call, in order; the last answer stays."""
    cell = ipython(monkeypatch, ZMQInteractiveShell())
    follow(Script(latest(1), latest(2), KeyboardInterrupt()), 0.05, None, None)
    assert len(cell.versions[0]) == 2


def test_printed_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    follow(Script(latest(1), latest(2, "the streams are stopped")), 0.05, 1, None)
    assert capsys.readouterr().out.splitlines() == [
        "q · window 1 .. 11 · 1 windows answered, 1 rows",
        "total",
        "-----",
        "101",
        "q · window 2 .. 12 · 2 windows answered, 2 rows · the streams are stopped",
        "total",
        "-----",
        "102",
    ]


def test_count_is_of_refreshes(capsys: pytest.CaptureFixture[str]) -> None:
    follow(Script(latest(1), latest(2)), 0.05, 0, None)
    assert capsys.readouterr().out.count("total") == 1


def test_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    """It looks once more at the end, and leaves no thread behind."""
    threads, begun_s = threading.active_count(), time.monotonic()
    script = Script(latest(1), latest(2))
    follow(script, 10, None, 0.2)
    assert 0.2 <= time.monotonic() - begun_s < 5 and script.looks == 2
    assert capsys.readouterr().out.count("total") == 2 and threading.active_count() == threads


def test_errors_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BindError, match="dropped"):
        follow(Script(latest(1), BindError("dropped")), 0.05, None, None)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((0, None, None), "every=0: it takes 0.05 to 86,400 seconds"),
        (("1", None, None), "every='1'"),
        ((float("nan"), None, None), "every=nan"),
        ((1, -1, None), "count=-1"),
        ((1, 1.5, None), "count=1.5"),
        ((1, True, None), "count=True"),
        ((1, None, -1), "seconds=-1"),
        ((1, None, float("nan")), "seconds=nan"),
        ((1, None, "1 hour"), "seconds='1 hour'"),
    ],
)
def test_refused(arguments: Any, message: str) -> None:
    script = Script(latest(1))
    with pytest.raises(BindError, match=message):
        follow(script, *arguments)
    assert script.looks == 0


def test_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn over the last one, cut to the height, without threads and without control characters."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=60, height=10, highlight=False)
    threads: list[int] = []
    before = threading.active_count()
    with in_terminal(console) as draw:
        draw("first", ["a\x1b[31mb"])
        draw("second", [f"line {n}" for n in range(20)])
        threads.append(threading.active_count())
    text = out.getvalue()
    assert threads == [before] and "a\\x1b[31mb" in text and "\x1b[31m" not in text
    again = text[text.index("first") :]
    assert "\x1b[1A" in again  # the cursor goes up: the second is drawn over the first
    assert "line 5" in text and "line 6" not in text and "… 14 more lines" in text


def test_terminal_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    ipython(monkeypatch, TerminalInteractiveShell())
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(
        in_place, "Console", lambda **options: Console(force_terminal=True, width=80, height=20, **options)
    )
    follow(Script(latest(1), latest(2), KeyboardInterrupt()), 0.05, None, None)
    text = screen.getvalue()
    assert "window 1 .. 11" in text and "window 2 .. 12" in text and "Ctrl-C stops" in text and "\x1b[1A" in text


def test_columns_that_differ_are_shown() -> None:
    table = pa.table({"window_start": [0, 1], "window_end": [10, 11], "is_revision": [False, True], "n": [1, 2]})
    assert LatestAnswer("q", table, 2, 2, None).columns.equals(table)
    empty = LatestAnswer("q", table.slice(0, 0), 3, 0, None)
    assert (
        "the latest window has no rows" in empty.heading
        and "no answer yet" in LatestAnswer("q", table.slice(0, 0), 0, 0, None).heading
    )


def test_view_has_no_window(capsys: Any) -> None:
    view = LatestView("q", pa.table({"k": ["a"]}), "as of 12", "3 changes", None, (12, 3, None))
    follow(Script(view), 0.05, 0, None)
    assert capsys.readouterr().out == "q · as of 12 · 3 changes\nk\n-\na\n"
    assert "as of 12" in view._repr_html_() and repr(view) == str(view)
