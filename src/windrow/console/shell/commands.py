r"""The backslash commands of the shell: one table, for execution, `\?`, completion and docs/cli.md."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from windrow.console.formats import ALIASES
from windrow.console.interrupts import Interrupted
from windrow.console.live import Progress
from windrow.console.running import FlowMeter, every
from windrow.console.scripts import read_text
from windrow.console.shell.statement_help import help_lines
from windrow.console.tables import FORMATS, last_answers
from windrow.cql.printer import to_text
from windrow.errors import CatalogError, ParseError
from windrow.handles import Query
from windrow.settings import SPECS

if TYPE_CHECKING:
    from windrow.console.shell.session import Shell


@dataclass(frozen=True)
class Command:
    """A backslash command. `takes` says what completes its argument (`completion.Names.commands`)."""

    name: str
    arguments: str
    about: str
    run: Callable[[Shell, str], None]
    takes: str = ""

    @property
    def usage(self) -> str:
        return f"\\{self.name} {self.arguments}".rstrip()


def command_of(name: str) -> Command:
    """The command of this name; raises ParseError with a similar name if there is none."""
    command = COMMANDS.get(name)
    if command is None:
        near = get_close_matches(name, COMMANDS, n=1)
        hint = f"Did you mean \\{near[0]}? " if near else ""
        raise ParseError(f"there is no command \\{name}", remedy=f"{hint}\\? lists the commands.")
    return command


# What runs


def _start(shell: Shell, argument: str) -> None:
    _takes_nothing("start", argument)
    wr = shell.wr
    if wr.is_running:
        shell.note("the streams are running already")
        return
    try:
        with Progress("starting the streams…"):
            shell.interrupts.attempt(wr.start, cancel=wr.stop)
    except Interrupted:
        wr.stop()
        raise
    shell.note("the streams are running: \\watch QUERY shows answers, \\stop stops them")


def _stop(shell: Shell, argument: str) -> None:
    _takes_nothing("stop", argument)
    if not shell.wr.is_running:
        shell.note("the streams are not running")
        return
    with Progress("stopping…"):
        shell.interrupts.attempt(shell.wr.stop)
    shell.note("the streams are stopped")


def _run(shell: Shell, argument: str) -> None:
    if argument not in ("", "close"):
        raise ParseError(f"\\run takes nothing, or close: not '{argument}'", remedy="\\run close also ends the input.")
    wr, meter = shell.wr, FlowMeter(shell.wr)
    with shell.timed(), Progress("reading what is available…", lines=False) as progress:
        try:
            shell.interrupts.attempt(
                lambda: wr.run_available(close=argument == "close"),
                cancel=wr.stop,
                meanwhile=every(0.5, lambda: progress.update(meter.read().line())),
            )
        except Interrupted:
            shell.note("interrupted: nothing is lost, \\run goes on from here")
            raise
    shell.note(meter.read().line())


def _watch(shell: Shell, argument: str) -> None:
    from windrow.console.shell.watching import watch

    watch(shell, argument)


def _answers(shell: Shell, argument: str) -> None:
    name, _, number = argument.partition(" ")
    if not name or (number and not number.strip().isdigit()):
        raise ParseError("\\answers takes a query, and how many windows to show", remedy="For example \\answers q 10.")
    query = query_of(shell, name)
    with shell.timed():
        table = shell.read(lambda: query.answers().arrow())
        answered = query.metrics()["windows_answered"]
        title, shown = last_answers(query.name, table, int(number or 3), table.num_rows, answered)
        shell.show(shown, title)


# What there is


def _describe(shell: Shell, argument: str) -> None:
    name = argument.rstrip(";").strip().strip("`")
    if not name:
        shell.show(shell.read(lambda: _catalog(shell)))
        return
    wr = shell.wr
    manager = wr._engine.manager
    stream = manager.streams.get(name.lower())
    if stream is not None:
        shell.show(_described(shell, name), f"stream {stream.name}")
        shell.show_lines([f"{to_text(stream.definition.statement)};"])
        return
    table = wr._engine.tables.find(name)
    if table is not None:
        shell.show(_described(shell, name), f"table {table.name}: {table.version.rows.count:,} rows")
        shell.show_lines([f"{to_text(table.definition.statement)};"])
        return
    known = {one.lower(): query for one, (_, query) in manager.queries().items()}
    if name.lower() in known:
        query = known[name.lower()]
        shell.show(_described(shell, name), f"query {query.name}")
        shell.show_lines([f"{to_text(query.statement)};"])
    elif name.lower() in SPECS:
        rows = [row for row in wr.sql("SHOW SETTINGS").rows() if row["name"] == name.lower()]
        shell.show(pa.Table.from_pylist(rows), f"setting {name.lower()}")
    else:
        near = get_close_matches(name.lower(), [*manager.streams, *wr.tables, *known, *SPECS], n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise CatalogError(
            f"there is no stream, table, query or setting '{name}'", remedy=f"{hint}\\d lists what there is."
        )


def _described(shell: Shell, name: str) -> pa.Table:
    from windrow.cql.statements import Describe

    return shell.wr.execute(Describe(name)).arrow()


def _catalog(shell: Shell) -> pa.Table:
    """The streams, tables and queries, a line each."""
    found = [
        (row["name"], "stream", f"from {row['source']}, {row['punctuation']}", row["frontier"], row["state"])
        for row in shell.wr.sql("SHOW STREAMS").rows()
    ]
    found += [
        (row["name"], "table", row["columns"], None, f"{row['rows']:,} rows, {row['kind']}")
        for row in shell.wr.sql("SHOW TABLES").rows()
    ]
    found += [
        (row["name"], "query", f"{row['stream']} [{row['window']}]", row["latest_window_end"], row["state"])
        for row in shell.wr.sql("SHOW QUERIES").rows()
    ]
    names = ("name", "kind", "about", "answered_up_to", "state")
    return pa.table({name: pa.array([row[i] for row in found], pa.string()) for i, name in enumerate(names)})


def _shown(statement: str) -> Callable[[Shell, str], None]:
    def run(shell: Shell, argument: str) -> None:
        from windrow.console.shell.session import steps_of

        _takes_nothing(statement.split()[-1].lower(), argument)
        shell.execute(steps_of(statement))

    return run


# Help


def _help(shell: Shell, argument: str) -> None:
    shell.show_lines(command_lines())


def command_lines() -> list[str]:
    """Every command with its meaning, and the keys."""
    width = max(len(command.usage) for command in COMMANDS.values())
    lines = [f"{command.usage.ljust(width)}  {command.about}" for command in COMMANDS.values()]
    return ["A statement ends with ; and may take several lines. Commands:", "", *lines, "", *KEYS]


KEYS = (
    "Keys: Tab completes, Up and Down go through the history, Ctrl-R searches it, Alt-Enter begins a new line,",
    "Ctrl-C drops what is typed or cancels what runs, Ctrl-D at an empty prompt leaves.",
)


def _syntax(shell: Shell, argument: str) -> None:
    shell.show_lines(help_lines(argument))


# How results are shown


def _format(shell: Shell, argument: str) -> None:
    argument = ALIASES.get(argument, argument)
    if argument and argument not in FORMATS:
        raise ParseError(f"there is no format '{argument}'", remedy=f"There is: {', '.join(FORMATS)}.")
    if argument:
        shell.view.form = argument
    shell.note(f"format: {shell.view.form or 'table on a terminal, else markdown'}")


def _expanded(shell: Shell, argument: str) -> None:
    values = {"on": True, "off": False, "auto": None, "": shell.view.expanded is not True}
    if argument not in values:
        raise ParseError(f"\\x takes on, off or auto, not '{argument}'")
    shell.view.expanded = values[argument]
    said = {True: "on", False: "off", None: "auto: where a row is wider than the terminal"}
    shell.note(f"one column per line: {said[shell.view.expanded]}")


def _switch(name: str, say: str) -> Callable[[Shell, str], None]:
    def run(shell: Shell, argument: str) -> None:
        if argument not in ("", "on", "off"):
            raise ParseError(f"\\{name} takes on or off, not '{argument}'")
        setattr(shell.view, name, argument == "on" if argument else not getattr(shell.view, name))
        shell.note(f"{say}: {'on' if getattr(shell.view, name) else 'off'}")

    return run


# Files


def _include(shell: Shell, argument: str) -> None:
    from windrow.console.shell.session import steps_of

    if not argument:
        raise ParseError("\\i takes the name of a file", remedy="For example \\i app.cql.")
    path = Path(argument).expanduser()
    if path in shell.included:
        raise ParseError(f"{path} includes itself", remedy="Remove that \\i.")
    steps = steps_of(read_text(path), str(path))
    shell.included.append(path)
    try:
        shell.execute(steps)
    finally:
        shell.included.remove(path)


def _output(shell: Shell, argument: str) -> None:
    shell.write_to(Path(argument) if argument else None)
    shell.note(f"results go to {argument or 'standard output'}")


def _edit(shell: Shell, argument: str) -> None:
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="windrow-") as folder:
        path = Path(argument).expanduser() if argument else Path(folder) / "statement.cql"
        if not argument:
            path.write_text(shell.last_text, encoding="utf-8")
        try:
            subprocess.run([*command, str(path)], check=False)
        except OSError as error:
            raise CatalogError(f"cannot run the editor: {error}", remedy="Set EDITOR.") from None
        shell.draft = read_text(path).rstrip() if path.exists() else ""


def _leave(shell: Shell, argument: str) -> None:
    from windrow.console.shell.session import LeaveShell

    raise LeaveShell


def _takes_nothing(name: str, argument: str) -> None:
    if argument.strip("; "):
        raise ParseError(f"\\{name} takes no argument, not '{argument}'")


def query_of(shell: Shell, name: str) -> Query:
    """The handle of a query; raises CatalogError if there is none."""
    name = name.strip("`; ")
    try:
        return shell.wr.queries[name]
    except KeyError:
        near = get_close_matches(name, list(shell.wr.queries), n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise CatalogError(f"there is no query '{name}'", remedy=f"{hint}\\queries lists them.") from None


COMMANDS: Mapping[str, Command] = {
    command.name: command
    for command in (
        Command("start", "", "run the streams in the background", _start),
        Command("stop", "", "stop them", _stop),
        Command("run", "[close]", "process what is available, then return; close also ends the input", _run, "close"),
        Command(
            "watch",
            "[SECONDS] [QUERY | STATEMENT]",
            "until Ctrl-C: live answers of a query, or a statement again and again",
            _watch,
            "watched",
        ),
        Command("answers", "QUERY [WINDOWS]", "the answers to the last windows of a query (3)", _answers, "query"),
        Command("d", "[NAME]", "streams, tables and queries; or one of them, or a setting", _describe, "object"),
        Command("streams", "", "SHOW STREAMS", _shown("SHOW STREAMS")),
        Command("queries", "", "SHOW QUERIES", _shown("SHOW QUERIES")),
        Command("settings", "", "SHOW SETTINGS", _shown("SHOW SETTINGS")),
        Command("h", "[STATEMENT]", "the syntax of a statement, with an example", _syntax, "statement"),
        Command("?", "", "these commands", _help),
        Command("format", "[FORMAT]", f"how results are shown: {', '.join(FORMATS)}", _format, " ".join(FORMATS)),
        Command(
            "x",
            "[on | off | auto]",
            "one column per line: always, never, or where rows are too wide",
            _expanded,
            "on off auto",
        ),
        Command("timing", "[on | off]", "how long each statement took", _switch("timing", "timing"), "on off"),
        Command(
            "pager",
            "[on | off]",
            "$PAGER, or less, for what is longer than the screen",
            _switch("pager", "pager"),
            "on off",
        ),
        Command("i", "FILE", "execute a file of statements and commands", _include, "file"),
        Command("o", "[FILE]", "write results to a file; without it, to the terminal again", _output, "file"),
        Command("e", "[FILE]", "edit the last statement, or a file, in $EDITOR", _edit, "file"),
        Command("q", "", "leave", _leave),
    )
}
