"""`windrow check-history`: what it prints, and how it exits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from windrow.cli import app

LATEST = "w5[0] c5 rQ1[0] w6[1] c6 rQ1[1] rQ1[2] rQ1[3] rQ1[4] cQ1"
WINDOW = "rQ1[0] w5[0] c5 rQ1[1] w6[1] c6 rQ1[2] rQ1[3] rQ1[4] cQ1"
CLAIMED = """{"op": "s", "source": "s", "first": 0, "last": 2, "upto": 2}
{"op": "b", "by": "Q1", "lengths": {"s": 2}}
{"op": "r", "by": "Q1", "source": "s", "start": 0, "end": 2}
{"op": "w", "by": "2", "source": "s", "start": 2, "end": 3}
{"op": "c", "by": "2"}
{"op": "c", "by": "Q1", "isolation": "window"}
"""


def check(tmp_path: Path, text: str, *options: str) -> Any:
    file = tmp_path / "history.txt"
    file.write_text(text, encoding="utf-8")
    return CliRunner().invoke(app, ["check-history", str(file), *options], catch_exceptions=False)


def test_latest(tmp_path: Path) -> None:
    done = check(tmp_path, LATEST)
    assert done.exit_code == 0
    assert [line.split()[-1] for line in done.stdout.splitlines()[1:]] == ["yes"] * 5
    assert done.stdout.startswith("10 operations, 2 window updates, 1 query, 0 aborted\n")


def test_not_latest_says_why(tmp_path: Path) -> None:
    done = check(tmp_path, WINDOW)
    assert done.exit_code == 1
    assert "latest-window-serializable (LWS)  no\n  TQ1 → T5: it read [0, 1), which T5 took out" in done.stdout


@pytest.mark.parametrize(("level", "code"), [("serializable", 0), ("window", 0), ("latest", 1), ("commit-order", 1)])
def test_required_level(tmp_path: Path, level: str, code: int) -> None:
    assert check(tmp_path, WINDOW, "--level", level).exit_code == code


def test_a_query_is_held_to_its_claim(tmp_path: Path) -> None:
    done = check(tmp_path, CLAIMED)
    assert done.exit_code == 0
    assert "latest-window-serializable (LWS)  no" in done.stdout
    assert check(tmp_path, CLAIMED.replace("window", "latest")).exit_code == 1


def test_many_violations_are_cut(tmp_path: Path) -> None:
    queries = [f"rQ{i}[0]" for i in range(9)], [f"rQ{i}[1] cQ{i}" for i in range(9)]
    done = check(tmp_path, f"{' '.join(queries[0])} w2[0] c2 {' '.join(queries[1])}")
    assert done.exit_code == 1 and "  and 4 more\n" in done.stdout


@pytest.mark.parametrize("text", ["rQ1[0] what", '{"op": "r"}', "\x00", ""])
def test_malformed_file(tmp_path: Path, text: str) -> None:
    done = check(tmp_path, text)
    assert done.exit_code == 1
    assert "[WR420]" in done.stderr and "history.txt" in done.stderr.replace("\n", "")


def test_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "h").write_bytes(b"\xff\xfe\x00")
    done = CliRunner().invoke(app, ["check-history", str(tmp_path / "h")], catch_exceptions=False)
    assert done.exit_code == 1 and "cannot be read" in done.stderr
