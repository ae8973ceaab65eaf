"""Lists the benchmarks of a source checkout and runs each as a separate program."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from windrow.errors import CatalogError

CHECKOUT = Path(__file__).resolve().parents[3]


def benchmarks(roots: Sequence[Path] = (CHECKOUT, Path())) -> dict[str, Path]:
    """The scripts by name, from the first root that has any. Raises CatalogError if none has."""
    for root in roots:
        found = sorted((root / "benchmarks").glob("*.py"))
        named = {path.stem: path.resolve() for path in found if not path.stem.startswith("_") and has_main(path)}
        if named:
            return named
    raise CatalogError(
        "there are no benchmarks here: they are part of the source checkout, not of the installed package",
        remedy="Run it from a checkout, which has a folder benchmarks.",
    )


def has_main(path: Path) -> bool:
    """Whether the file is a benchmark; modules that benchmarks share have no `main`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body)


def about(path: Path) -> str:
    """The first line of the script's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def chosen(name: str, known: dict[str, Path]) -> list[Path]:
    """The script of that name; `all` stands for every script."""
    if name == "all":
        return list(known.values())
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise CatalogError(f"there is no benchmark '{name}'", remedy=f"{hint}There are: {', '.join(known)}.")
    return [known[name]]


def run_benchmark(path: Path, arguments: Sequence[str]) -> int:
    """Run a script with this Python, wait for its end and return its exit code. A Ctrl-C reaches the script too."""
    process = subprocess.Popen([sys.executable, str(path), *arguments])
    code = process.wait()
    return 128 - code if code < 0 else code
