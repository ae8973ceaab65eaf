"""What scripts/check_docs.py says about source files that pages name."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
checker: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "check_docs.py"))

README = "**`a/`** Has `x.py` and\n`y.py`.\n\n**`b/`** All of it.\n\n**`top.py`** One file.\n"
STEPS = "| 1 | `a/x.py`: `X.f` | First. |\n| 2 | `a/x.py`, `b/z.py`: `f`, `g` | Second. |\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout in which everything is in step."""
    package = tmp_path / "src" / "windrow"
    files = {"a/x.py": "class X:\n    def f(self): ...\n", "a/y.py": "", "b/z.py": "def g(): ...\n", "top.py": ""}
    for name, text in {**files, "a/__init__.py": "", "README.md": README}.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text, encoding="utf-8")
    (tmp_path / "docs" / "internals").mkdir(parents=True)
    (tmp_path / "docs" / "internals" / "architecture.md").write_text(STEPS, encoding="utf-8")
    return tmp_path


def test_in_step(root: Path) -> None:
    assert checker["check_rooms"](root) == checker["check_steps"](root) == []


def test_two_tables_have_steps_of_their_own(root: Path) -> None:
    page = root / "docs" / "internals" / "architecture.md"
    page.write_text(f"{STEPS * 12}\nText.\n\n{STEPS * 12}", encoding="utf-8")
    assert checker["check_steps"](root) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("`x.py`", "`x.py`, `z.py`", ["a/: no such file a/z.py"]),
        ("`x.py` and\n", "", ["a/x.py is not named"]),
        ("`b/`", "`c/`", ["c/: no such folder", "b/z.py is not named"]),
        ("`top.py`", "`tip.py`", ["tip.py: no such file tip.py", "top.py is not named"]),
    ],
)
def test_rooms_out_of_step(root: Path, old: str, new: str, expected: list[str]) -> None:
    (root / "src" / "windrow" / "README.md").write_text(README.replace(old, new), encoding="utf-8")
    assert checker["check_rooms"](root) == [f"src/windrow/README.md: {problem}" for problem in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("| 1 | `a/x.py`: `X.h` | x |\n", "step 1: no function X.h in a/x.py"),
        ("| 1 | `a/q.py`: | x |\n", "step 1: no such file in `a/q.py`:"),
        ("| 1 | `a/x.py` | x |\n", "step 1 names no function"),
        ("", "0 steps of a row, 1 to 25"),
        ("| 1 | `a/x.py`: `X.f` | x |\n" * 26, "26 steps of a row, 1 to 25"),
        (STEPS + "\n| 1 | `a/x.py`: `X.h` | x |\n", "step 1: no function X.h in a/x.py"),
    ],
)
def test_steps_out_of_step(root: Path, text: str, expected: str) -> None:
    (root / "docs" / "internals" / "architecture.md").write_text(text, encoding="utf-8")
    assert f"docs/internals/architecture.md: {expected}" in checker["check_steps"](root)
