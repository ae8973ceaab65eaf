"""The pages run: every Python and SQL block of README.md, of NEXMark's and of docs/*.md is executed, what is shown is compared.

A page is executed from top to bottom in a folder of its own that holds `examples/`, with one set of Python
names per page, on the Spark session of the whole run. The conventions, as comments that no reader sees:

    ```python                executed; `wr` is the state directory that SQL blocks go to
    ```sql                   executed by `wr.sql`; what it gives is printed
    ```sh                    its `windrow …` lines are executed, in this process, if `<!-- run -->` stands before it
    <!-- output -->          before a text block: it is what the block before it prints
    <!-- error -->           before a block: it fails, and what it prints is the error
    <!-- file: app.cql -->   before a block: it is not executed but written to that file
    <!-- not run -->         before a block: it is only read

`WINDROW_WRITE_DOCS=1 pytest tests/test_docs.py` writes what is printed into the pages; then read it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.readwriter import DataStreamReader

import windrow
from windrow.cql import functions
from windrow.errors import WindrowError

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "examples/nexmark/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WRITE = os.environ.get("WINDROW_WRITE_DOCS") == "1"

BLOCK = re.compile(r"(?:^<!-- (?P<mark>[^\n]+?) -->\n)?^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.M | re.S)
MARKS = re.compile(r"run|output|error|not run|file: [\w./-]+")
EXECUTED = ("python", "sql")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the comment before it, its text, and the place of the text in the page."""

    language: str
    mark: str
    body: str
    start: int
    line: int

    @property
    def file(self) -> str | None:
        return self.mark.removeprefix("file: ") if self.mark.startswith("file: ") else None

    @property
    def is_executed(self) -> bool:
        if self.mark == "not run" or self.file:
            return False
        return self.language in EXECUTED or (self.language == "sh" and self.mark in ("run", "error"))


def blocks_of(text: str) -> list[Block]:
    found = []
    for match in BLOCK.finditer(text):
        mark = match["mark"] or ""
        if not MARKS.fullmatch(mark):
            mark = ""
        line = text.count("\n", 0, match.start("body")) + 1
        found.append(Block(match["language"], mark, match["body"], match.start("body"), line))
    return found


class Page:
    """Executes the blocks of one page in order."""

    def __init__(self, path: Path):
        self.path = path
        self.names: dict[str, Any] = {"__name__": path.stem}

    def run(self, block: Block) -> str:
        """The output of the block, including an error that it should end with."""
        printed = io.StringIO()
        failed = False
        with contextlib.redirect_stdout(printed):
            try:
                self._execute(block)
            except (WindrowError, SystemExit) as error:
                if block.mark != "error":
                    raise AssertionError(f"{self.at(block)} fails:\n{error}") from error
                failed = True
                if isinstance(error, WindrowError):
                    print(error)
        if block.mark == "error" and not failed:
            raise AssertionError(f"{self.at(block)} was to fail and did not")
        lines = [line.rstrip() for line in printed.getvalue().strip("\n").splitlines()]
        return "".join(line + "\n" for line in lines)

    def _execute(self, block: Block) -> None:
        if block.language == "python":
            source = "\n" * (block.line - 1) + block.body
            exec(compile(source, str(self.path), "exec"), self.names)
        elif block.language == "sql":
            print(self.names["wr"].sql(block.body))
        else:
            self._commands(block.body)

    def _commands(self, body: str) -> None:
        from windrow.cli import app

        for line in body.replace("\\\n", " ").splitlines():
            program, *arguments = shlex.split(line, comments=True) or [""]
            assert program in ("windrow", ""), f"only windrow commands are executed, not {program}"
            if program:
                try:
                    app(arguments)
                except SystemExit as ended:
                    if ended.code:
                        raise

    def at(self, block: Block) -> str:
        return f"{self.path.name}, line {block.line}"

    def close(self) -> None:
        for value in list(self.names.values()):
            if isinstance(value, windrow.Windrow):
                value.close()


def written(text: str) -> list[str]:
    """The non-empty lines: blank lines around a table are not worth a failing test."""
    return [line for line in text.splitlines() if line.strip()]


def execute(path: Path) -> str:
    """Execute a page. Return its text with the actual output in place of the shown output."""
    text = path.read_text(encoding="utf-8")
    page, printed, shown, wanted = Page(path), None, text, 0
    try:
        for block in blocks_of(text):
            if block.file:
                target = Path(block.file)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(block.body, encoding="utf-8")
            elif block.is_executed:
                printed = page.run(block)
            elif block.mark == "output":
                assert printed is not None, f"{page.at(block)} is the output of nothing"
                if written(printed) == written(block.body):
                    continue
                at = block.start + wanted
                shown = shown[:at] + printed + shown[at + len(block.body) :]
                wanted += len(printed) - len(block.body)
    finally:
        page.close()
    return shown


@pytest.fixture
def folder(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to run a page in. `windrow.open()` finds the session of the test run and shares it.

    The session's JVM keeps the working directory that it was started in, so paths that it is given are made
    absolute here. A reader starts Python where the page says, and needs no such thing.
    """
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    load = DataStreamReader.load

    def load_from_here(self: DataStreamReader, path: str | None = None) -> Any:
        return load(self, None if path is None else str(Path(path).absolute()))

    monkeypatch.setattr(DataStreamReader, "load", load_from_here)
    monkeypatch.chdir(tmp_path)
    yield tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page(path: Path, folder: Path) -> None:
    shown = execute(path)
    if WRITE:
        path.write_text(shown, encoding="utf-8")
    assert shown.splitlines() == path.read_text(encoding="utf-8").splitlines()


FUNCTIONS = re.compile(r"(<!-- functions: (?P<name>\w+) -->\n)(?P<body>.*?)(<!-- /functions -->)", re.S)


def with_functions(text: str) -> str:
    """The page with the allow-list's functions in its lists, filled into lines."""

    def listed(match: re.Match[str]) -> str:
        names = " ".join(sorted(getattr(functions, match["name"])))
        lines = textwrap.wrap(names, 108, break_on_hyphens=False)
        return f"{match[1]}```text\n" + "\n".join(lines) + f"\n```\n{match[4]}"

    return FUNCTIONS.sub(listed, text)


def test_functions() -> None:
    page = ROOT / "docs" / "cql.md"
    wanted = with_functions(page.read_text(encoding="utf-8"))
    if WRITE:
        page.write_text(wanted, encoding="utf-8")
    found = {match["name"] for match in FUNCTIONS.finditer(wanted)}
    assert found == {"AGGREGATES", "FINAL_FUNCTIONS", "FINISHED_FUNCTIONS", "ROW_FUNCTIONS"}
    assert wanted == page.read_text(encoding="utf-8")


def test_citations() -> None:
    """Users have no files of the papers, so docs and the help of benchmarks cite no file names."""
    pages = [*PAGES, *(ROOT / "benchmarks").glob("*.*"), *ROOT.glob("*.md"), ROOT / "src/windrow/README.md"]
    assert len(pages) > 20
    named = re.compile(r"\b00\d_[0-9a-f]{16}|\bof 00\d\b|\b00\d section")
    assert [page.name for page in pages if named.search(page.read_text("utf-8"))] == []


WORDS = re.compile(r"\*?\b(synops[ei]s|cuts?|cells?|homes?)\b\*?(?! directory)", re.I)
"""Words of the internals. `home` may be a directory."""


@pytest.mark.parametrize(
    "path", [page for page in PAGES if page.parent.name != "internals"], ids=lambda path: path.stem
)
def test_words_are_explained(path: Path) -> None:
    """A page for users says *synopsis* where it explains the word, and only after that synopsis."""
    prose = re.sub(
        r"^```.*?^```$|`[^`\n]+`|\]\([^)]*\)|nothing is cut off", "", path.read_text("utf-8"), flags=re.M | re.S
    )
    first: dict[str, str] = {}
    for match in WORDS.finditer(prose):
        first.setdefault(match[1].lower().replace("synopses", "synopsis").rstrip("s"), match[0])
    assert [word for word in first.values() if not word.startswith("*")] == []


@pytest.mark.slow
def test_every_room_is_described() -> None:
    """src/windrow/README.md has a paragraph for each folder and each top-level module, and for nothing else."""
    source = ROOT / "src" / "windrow"
    text = (source / "README.md").read_text(encoding="utf-8")
    rooms = {f"{path.parent.relative_to(source)}/" for path in source.glob("*/**/__init__.py")}
    files = {path.name for path in source.glob("*.py")} - {"__init__.py", "__main__.py"}
    described = re.findall(r"^\*\*`([\w./]+)`\*\*", text, re.M)
    assert sorted(described) == sorted(rooms | files)


@pytest.mark.parametrize("path", [*PAGES, ROOT / "src" / "windrow" / "README.md"], ids=lambda path: path.stem)
def test_blocks_are_found(path: Path) -> None:
    """No Python or SQL block escapes the test through an odd fence or a misspelt comment."""
    text = path.read_text(encoding="utf-8")
    fences = re.findall(r"^\s*(?:`{3,}|~{3,})\s*(\w*)", text, re.M)
    opened = [language for language in fences if language in EXECUTED]
    assert len(opened) == sum(block.language in EXECUTED for block in blocks_of(text))
    comments = re.findall(r"^<!-- (.+?) -->\n```", text, re.M)
    generated = ("cli:", "functions:", "settings", "errors", "statements", "commands")
    odd = [c for c in comments if not MARKS.fullmatch(c) and not c.startswith(generated)]
    assert not odd
