"""A session of the shell: executes statements and commands, and shows their results in the chosen format."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TextIO, TypeVar

import pyarrow as pa

from windrow.api import Windrow
from windrow.console.interrupts import Cancels, Interrupted, Interrupts
from windrow.console.live import Progress
from windrow.console.scripts import StatementScript, execute, print_outcome, to_script
from windrow.console.shell.commands import COMMANDS, Command, command_of
from windrow.console.shell.completion import Names
from windrow.console.shell.rendering import page, rendered
from windrow.console.shell.typed import Typed, split
from windrow.console.tables import messages, output, print_table, say
from windrow.cql.statements import Describe, Explain, Select, Show, Statement
from windrow.dataplane.jobs import JobGroup
from windrow.errors import CatalogError, ParseError
from windrow.result import Result

PATIENCE_S = 3.0
"""How long the shell waits for a cancelled statement that only reads; then it ends in the background."""

T = TypeVar("T")


class LeaveShell(Exception):
    """The user wants to leave."""


@dataclass
class View:
    """How results are shown. `form` None: a table on a terminal, Markdown elsewhere."""

    form: str | None = None
    expanded: bool | None = None
    timing: bool = False
    pager: bool = True


@dataclass(frozen=True)
class Step:
    """Parsed statements, or a command with its argument."""

    script: StatementScript | None = None
    command: Command | None = None
    argument: str = ""


def steps_of(text: str, name: str | None = None) -> list[Step]:
    """The steps of an input. Everything is parsed before anything is executed, so a syntax error changes nothing."""
    steps = [_step(typed, name) for typed in split(text)]
    if not steps:
        raise ParseError("there is no statement", remedy="Give one, such as SHOW STREAMS.")
    return steps


def _step(typed: Typed, name: str | None) -> Step:
    if typed.name is None:
        return Step(to_script(typed.placed, name))
    return Step(command=command_of(typed.name), argument=typed.text)


class Shell:
    """What a session knows. Statements run in a thread, while the main thread waits for Ctrl-C."""

    def __init__(self, wr: Windrow, interrupts: Interrupts, view: View | None = None):
        self.wr = wr
        self.interrupts = interrupts
        self.view = view or View()
        self.last_read: StatementScript | None = None
        """The last statement that only reads, for `\\watch`."""
        self.last_text = ""
        self.draft = ""
        """The text that the next prompt begins with."""
        self.included: list[Path] = []
        """The files that are being executed, each by the one before it."""
        self._file: TextIO | None = None
        self._begun_s: float | None = None

    # -- execution -----------------------------------------------------------------------------

    def execute(self, steps: Sequence[Step]) -> None:
        """Execute the steps one by one. Raises Interrupted after a Ctrl-C: what follows is not executed."""
        for number, step in enumerate(steps, 1):
            if step.command is not None:
                step.command.run(self, step.argument)
            elif step.script is not None:
                self._execute_script(step.script, is_last=number == len(steps))
            self._heed(is_last=number == len(steps))

    def _execute_script(self, script: StatementScript, is_last: bool) -> None:
        for number, statement in enumerate(script.statements, 1):
            with self.timed():
                result = self.carry_out(statement, script.text)
                self._show_outcome(statement, result)
            if is_reading(statement):
                self.last_read = StatementScript(script.name, script.text, (statement,))
            self._heed(is_last=is_last and number == len(script.statements))

    def _heed(self, is_last: bool) -> None:
        """Raise Interrupted after a Ctrl-C, unless it came too late to prevent anything."""
        if not self.interrupts.requested:
            return
        if is_last and not self.included and isinstance(self.interrupts, Cancels) and not self.interrupts.is_ended:
            self.interrupts.clear()
            self.note("Ctrl-C came too late to cancel it: it is done")
            return
        raise Interrupted

    def carry_out(self, statement: Statement, text: str, doing: str = "executing…") -> Result | None:
        """Execute one statement. On Ctrl-C the Spark jobs of a statement that reads are cancelled; a statement that
        changes the catalog goes on to its end."""

        def work() -> Result | None:
            return execute(self.wr, statement, text)

        with Progress(doing, lines=False) if doing else nullcontext():
            if not is_reading(statement):
                return self.interrupts.attempt(work)
            return self.read(work)

    def read(self, work: Callable[[], T]) -> T:
        """Run work that only reads in a Spark job group of its own, which Ctrl-C cancels, with the one-time query that
        it asks."""
        jobs, threads = JobGroup(), list[int]()

        def grouped() -> T:
            threads.append(threading.get_ident())
            jobs.join()
            return work()

        def cancel() -> None:
            jobs.cancel()
            for thread in threads:
                self.wr.cancel_of(thread)

        return self.interrupts.attempt(grouped, cancel=cancel, patience_s=PATIENCE_S)

    # -- output --------------------------------------------------------------------------------

    @property
    def is_terminal(self) -> bool:
        """Whether results go to a terminal."""
        return self._file is None and output().is_terminal

    def note(self, text: str, style: str = "dim") -> None:
        """Say something that is no result."""
        say(messages(), text, style)

    def _show_outcome(self, statement: Statement, result: Result | None) -> None:
        if result is None or not is_reading(statement):
            print_outcome(output(), messages(), statement, result)
        elif isinstance(statement, Explain) or (isinstance(statement, Show) and statement.name is not None):
            table = result.arrow()
            self.show_lines(str(line) for line in table.column(0).to_pylist())
        else:
            self.show(result.arrow())

    def show(self, table: pa.Table, title: str | None = None) -> None:
        """Show a table in the chosen format, in the pager if it is longer than the screen."""
        if self.view.form is None and not self.is_terminal:
            if self._file is None:
                print_table(output(), table, title)
            else:
                self._write(self._file, [*([title] if title else []), *self.lines_of(table, "markdown"), ""])
            return
        heading = [title] if title and self.view.form not in ("csv", "json") else []
        self.show_lines([*heading, *self.lines_of(table)])
        if self.is_terminal and self.view.form not in ("csv", "json"):
            self.note("1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows")

    def lines_of(self, table: pa.Table, form: str = "table") -> Iterator[str]:
        """The lines of a table in the chosen format; in `form` if none was chosen."""
        view = self.view
        return rendered(table, view.form or form, output().width, view.expanded, lambda: self.interrupts.requested)

    def show_lines(self, lines: Iterable[str]) -> None:
        """Show lines, in the pager if they are more than the screen has and both ends are a terminal."""
        if self._file is not None:
            self._write(self._file, lines)
            return
        out = output()
        rest = iter(lines)
        if self.view.pager and out.is_terminal and sys.stdin.isatty():
            first = list(islice(rest, out.height))
            if len(first) >= out.height:
                whole = [*first, *rest]
                with self.untimed():
                    is_shown = page(whole)
                if is_shown:
                    if isinstance(self.interrupts, Cancels):  # a Ctrl-C in there was the pager's
                        self.interrupts.clear()
                    return
                self.note("there is no pager: set PAGER, or \\pager off", "bold red")
                first, rest = whole, iter(())
            rest = chain(first, rest)
        for line in rest:
            if self.interrupts.requested:
                raise Interrupted
            print(line)

    def _write(self, file: TextIO, lines: Iterable[str]) -> None:
        try:
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
        except OSError as error:
            self._file = None
            raise CatalogError(
                f"cannot write to {file.name}: {error}", remedy="Results go to standard output again."
            ) from None

    def write_to(self, path: Path | None) -> None:
        """Write results to a file from now on; None: to standard output."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if path is not None:
            try:
                self._file = path.expanduser().open("w", encoding="utf-8")
            except (OSError, ValueError) as error:
                raise CatalogError(f"cannot write to {path}: {error}", remedy="Name another file.") from None

    # -- timing --------------------------------------------------------------------------------

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Say afterwards how long the block took, if \\timing is on."""
        self._begun_s = time.monotonic()
        try:
            yield
        finally:
            taken_s, self._begun_s = time.monotonic() - (self._begun_s or 0.0), None
            if self.view.timing:
                self.note(f"time: {taken_s:.3f} s")

    @contextmanager
    def untimed(self) -> Iterator[None]:
        """A block that is left out of the timing, such as one that waits for the user to read."""
        begun_s = time.monotonic()
        try:
            yield
        finally:
            if self._begun_s is not None:
                self._begun_s += time.monotonic() - begun_s

    # -- names ---------------------------------------------------------------------------------

    def names(self) -> Names:
        """The names that completion knows, as of now."""
        manager = self.wr._engine.manager
        streams = {
            stream.name: tuple(name for name, _ in stream.definition.columns) for stream in manager.streams.values()
        }
        own = ("window_start", "window_end", "is_revision")
        queries = {
            query.name: (*own, *(one.name for one in query.plan.outputs)) for _, query in manager.queries().values()
        }
        tables = {
            table.name: tuple(name for name, _ in table.definition.columns) for table in self.wr._engine.tables.all()
        }
        return Names(streams, queries, {name: command.takes for name, command in COMMANDS.items()}, tables)


def is_reading(statement: Statement) -> bool:
    """Whether a statement changes nothing."""
    return isinstance(statement, Select | Show | Describe | Explain)
