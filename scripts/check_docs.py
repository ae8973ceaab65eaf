"""Keeps the documentation in step with the code.

`python scripts/check_docs.py` prints one line per thing out of step and exits with 1 if there is any:

- help text between `<!-- cli: windrow run --help -->` and `<!-- /cli -->` is what the command prints;
- the tables in docs/settings.md and docs/errors.md, between their markers, are those of the code; so are the syntax of
  the statements in docs/cql.md and the commands of the shell in docs/cli.md;
- every relative link, and every heading it points to, exists;
- src/windrow/README.md names every file of the source, in its own room, and no other;
- each step in the tables of docs/internals/architecture.md names a function of the file it names, in at most 25 steps.

`--write` brings the generated parts up to date first. `--root DIR` checks another checkout's pages.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

BESIDE_DOCS = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md"),
    *("src/windrow/README.md", "tests/README.md", "tests/cql/README.md", "examples/nexmark/README.md"),
)
CODE = Path(__file__).resolve().parent.parent / "src"
WIDTH = "100"
REMEDY = "run `python scripts/check_docs.py --write`"
RUN_CLI = "import sys; sys.argv[0] = 'windrow'; from windrow.cli import main; sys.exit(main())"
CLI_BLOCK = re.compile(r"(?P<open><!-- cli: (?P<command>[^\n]+?) -->\n)(?P<body>.*?)(?P<close><!-- /cli -->)", re.S)
FENCE = re.compile(r"^(?P<mark>`{3,}|~{3,})[^\n]*\n.*?^(?P=mark)[^\n]*$", re.M | re.S)
COMMENT = re.compile(r"<!--.*?-->", re.S)
INLINE_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.S)
LINKS = (
    re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)"),  # [text](target "title"), images too
    re.compile(r"^ {0,3}\[[^\]^]+\]:\s*<?([^\s>]+)", re.M),  # [name]: target
    re.compile(r"<(?:a|img)\b[^>]*?\b(?:href|src)=[\"']([^\"']+)[\"']", re.I),
)


class NotInStepError(Exception):
    """Something that the code should say cannot be got from it; the message says why."""


# Pages


def pages(root: Path) -> list[Path]:
    """The pages of the documentation, in a stable order."""
    return [*(root / name for name in BESIDE_DOCS if (root / name).exists()), *sorted((root / "docs").rglob("*.md"))]


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def settle(page: Path, root: Path, wanted: str, write: bool) -> list[str]:
    """A page that should read `wanted`: rewritten if `write`, else reported when it differs."""
    if page.exists() and read(page) == wanted:
        return []
    if write:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(wanted, encoding="utf-8")
        print(f"docs: wrote {page.relative_to(root)}")
        return []
    return [f"{page.relative_to(root)}: not in step with the code; {REMEDY}"]


# Help of the commands


def check_cli(root: Path, write: bool) -> list[str]:
    """Every pasted help text is what the command prints."""
    found: list[str] = []
    for page in pages(root):
        text = read(page)
        name = page.relative_to(root)
        if text.count("<!-- cli:") != len(CLI_BLOCK.findall(text)):
            found.append(f"{name}: a `<!-- cli: … -->` marker is without its `<!-- /cli -->`")
            continue
        try:
            wanted = CLI_BLOCK.sub(cli_block, text)
        except NotInStepError as error:
            found.append(f"{name}: {error}")
            continue
        found += settle(page, root, wanted, write)
    return found


def cli_block(match: re.Match[str]) -> str:
    return f"{match['open']}```text\n{command_output(match['command'])}```\n{match['close']}"


@functools.cache
def command_output(command: str) -> str:
    """What a `windrow …` command prints, at a fixed width and without colours."""
    program, *arguments = shlex.split(command)
    if program != "windrow":
        raise NotInStepError(f"`{command}` is not a windrow command")
    forced = {"FORCE_COLOR", "PY_COLORS", "CLICOLOR_FORCE", "GITHUB_ACTIONS", "_TYPER_FORCE_DISABLE_TERMINAL"}
    environment = {name: value for name, value in os.environ.items() if name not in forced}
    environment |= {"COLUMNS": WIDTH, "TERMINAL_WIDTH": WIDTH, "NO_COLOR": "1", "TERM": "dumb"}
    environment |= {"PYTHONPATH": str(CODE), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-c", RUN_CLI, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    if done.returncode != 0:
        said = [line.strip("│ ") for line in done.stderr.splitlines() if re.search(r"\w", line)]
        raise NotInStepError(f"`{command}` exits with {done.returncode}: {said[-1] if said else 'no message'}")
    lines = [line.rstrip() for line in done.stdout.strip("\n").splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


# Tables made from the code


def check_table(
    root: Path, write: bool, name: str, title: str, make: Callable[[], str], page_name: str | None = None
) -> list[str]:
    """docs/<name>.md (or `page_name`) holds, between `<!-- name -->` and `<!-- /name -->`, what is made from the
    code."""
    page = root / "docs" / f"{page_name or name}.md"
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    if not page.exists() and not write:
        return [f"docs/{page.name}: does not exist; {REMEDY}"]
    text = read(page) if page.exists() else f"# {title}\n\n{opening}\n{closing}\n"
    before, start, rest = text.partition(opening)
    _, end, after = rest.partition(closing)
    if not start or not end:
        return [f"docs/{page.name}: the markers `{opening}` and `{closing}` are missing"]
    try:
        table = make()
    except Exception as error:
        return [f"docs/{page.name}: the code does not give its {name}: {error!r}"]
    return settle(page, root, f"{before}{opening}\n{table}{closing}{after}", write)


def settings_table() -> str:
    """All settings with their defaults, as text that the setting itself takes."""
    from windrow.settings import SPECS

    rows = (f"| `{spec.name}` | {default_text(spec)} | {cell(spec.doc)} |" for spec in SPECS.values())
    return "\n".join(["| setting | default | meaning |", "| --- | --- | --- |", *rows]) + "\n"


def default_text(spec: object) -> str:
    """The default as one would write it after SET: sizes and intervals in their largest whole unit."""
    value, parse = spec.default, spec.parse  # type: ignore[attr-defined]
    if isinstance(value, str):
        return f"`'{value}'`"
    for unit, size in UNITS:
        if value % size == 0 and (value or unit == "seconds"):
            count = value // size
            text = f"{count} {unit.removesuffix('s') if count == 1 else unit}"
            try:
                if parse(text) == value:
                    return f"`'{text}'`"
            except ValueError:
                continue
    return f"`{str(value).lower()}`"


UNITS = (
    ("days", 86_400_000_000),
    ("hours", 3_600_000_000),
    ("minutes", 60_000_000),
    ("seconds", 1_000_000),
    ("milliseconds", 1_000),
    ("GB", 1 << 30),
    ("MB", 1 << 20),
    ("KB", 1 << 10),
)


def errors_table() -> str:
    """All errors by code, with the contract that their docstrings state."""
    from windrow import errors

    known = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.WindrowError) and kind.__module__ == errors.__name__
    ]
    rows = (
        f"| {kind.code} | `{kind.__name__}` | {cell(kind.__doc__ or '')} |"
        for kind in sorted(known, key=lambda kind: (kind.code, kind.__name__))
    )
    return "\n".join(["| code | class | meaning |", "| --- | --- | --- |", *rows]) + "\n"


def statements_section() -> str:
    """The syntax of every statement, as `\\h` shows it."""
    from windrow.console.shell.statement_help import statements_section as made

    return f"\n{made()}\n"


def commands_section() -> str:
    """The commands of the shell, as `\\?` shows them."""
    from windrow.console.shell.commands import command_lines

    return "```text\n" + "\n".join(command_lines()) + "\n```\n"


def cell(text: str) -> str:
    """Text as one cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


# Links


def check_links(root: Path) -> list[str]:
    """Every relative link leads to a file of the checkout, and to a heading where it names one."""
    found: list[str] = []
    for page in pages(root):
        for target in relative_links(read(page)):
            problem = link_problem(root, page, target)
            if problem:
                found.append(f"{page.relative_to(root)}: link {target}: {problem}")
    return found


def relative_links(text: str) -> Iterator[str]:
    """The targets of a page's links that are not addresses; code and comments hold no links."""
    prose = INLINE_CODE.sub("", COMMENT.sub("", FENCE.sub("", text)))
    for pattern in LINKS:
        for target in pattern.findall(prose):
            if not re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//", target):
                yield target


def link_problem(root: Path, page: Path, target: str) -> str | None:
    """What is wrong with a relative link; None if it leads somewhere."""
    path, _, anchor = unquote(target).partition("#")
    goal = (page.parent / path).resolve() if path else page.resolve()
    if not goal.is_relative_to(root.resolve()):
        return "leads out of the project"
    if not goal.exists():
        return "no such file"
    if anchor and goal.suffix == ".md" and anchor not in anchors(read(goal)):
        return "no such heading"
    return None


def anchors(text: str) -> set[str]:
    """The anchors of a page, made from its headings the way GitHub makes them."""
    prose = COMMENT.sub("", FENCE.sub("", text))
    seen: dict[str, int] = {}
    names = set(re.findall(r"<a\s+(?:id|name)=[\"']([^\"']+)[\"']", prose))
    for heading in re.findall(r"^ {0,3}#{1,6}\s+(.+?)\s*#*\s*$", prose, re.M):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        names.add(f"{slug}-{count}" if count else slug)
    return names


# Source files


def check_rooms(root: Path) -> list[str]:
    """A paragraph of the source's README that begins with a bold path names all files of that folder."""
    package = root / "src" / "windrow"
    page = package / "README.md"
    if not page.exists():
        return []
    named: set[Path] = set()
    found = []
    for room, text in re.findall(r"^\*\*`([^`]+)`\*\*(.*?)(?=\n\n|\Z)", read(page), re.M | re.S):
        files = {room} if room.endswith(".py") else {f"{room}{name}" for name in re.findall(r"`(\w+\.py)`", text)}
        named |= {package / file for file in files}
        found += [f"{room}: no such file {file}" for file in sorted(files) if not (package / file).exists()]
        if not room.endswith(".py") and not (package / room).exists():
            found.append(f"{room}: no such folder")
        elif not files:  # the paragraph stands for the whole folder
            named |= set((package / room).glob("*.py"))
    unnamed = sorted(path for path in package.rglob("*.py") if path not in named and not path.name.startswith("__"))
    found += [f"{path.relative_to(package)} is not named" for path in unnamed]
    return [f"{page.relative_to(root)}: {problem}" for problem in found]


MOST_STEPS = 25
STEP = re.compile(r"^\| *(\d+) *\|([^|]*)\|[^|]*\|$", re.M)


def check_steps(root: Path) -> list[str]:
    """The ways of a row: tables of numbered steps, each with `file`: `function`, that exist."""
    page = root / "docs" / "internals" / "architecture.md"
    if not page.exists():
        return []
    tables = [steps for part in read(page).split("\n\n") if (steps := STEP.findall(part))] or [[]]
    counts = [len(steps) for steps in tables]
    found = [f"{count} steps of a row, 1 to {MOST_STEPS}" for count in counts if not 0 < count <= MOST_STEPS]
    for number, where in (step for steps in tables for step in steps):
        files = re.findall(r"`([\w/]+\.py)`", where)
        functions = re.findall(r"`([\w.]+)`", re.sub(r"`[\w/]+\.py`", "", where))
        texts = [path.read_text(encoding="utf-8") for file in files if (path := root / "src/windrow" / file).exists()]
        if not files or len(texts) < len(files):
            found.append(f"step {number}: no such file in {where.strip()}")
        found += [
            f"step {number}: no function {name} in {', '.join(files)}"
            for name in functions
            if not any(f"def {name.rpartition('.')[2]}(" in text for text in texts)
        ]
        if not functions:
            found.append(f"step {number} names no function")
    return [f"{page.relative_to(root)}: {problem}" for problem in found]


def main(arguments: list[str]) -> int:
    """Writes if asked to, then checks everything."""
    parser = argparse.ArgumentParser(description="Checks that the documentation is in step with the code.")
    parser.add_argument("--write", action="store_true", help="bring the generated parts up to date first")
    parser.add_argument("--root", type=Path, default=CODE.parent, help="the checkout whose pages are checked")
    options = parser.parse_args(arguments)
    root: Path = options.root.resolve()
    sys.path.insert(0, str(CODE))
    found = [
        *check_table(root, options.write, "settings", "Settings", settings_table),
        *check_table(root, options.write, "errors", "Errors", errors_table),
        *check_table(root, options.write, "statements", "CQL", statements_section, "cql"),
        *check_table(root, options.write, "commands", "Command line", commands_section, "cli"),
        *check_cli(root, options.write),
        *check_links(root),
        *check_rooms(root),
        *check_steps(root),
    ]
    for problem in found:
        print(problem)
    print(f"docs: {len(found)} problems" if found else "docs: in step")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
