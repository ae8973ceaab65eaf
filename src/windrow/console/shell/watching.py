r"""`\watch`: the live answers of a query, or a statement again and again, in place on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from windrow.console.interrupts import Cancels, Interrupted
from windrow.console.scripts import StatementScript, to_script
from windrow.console.shell.commands import query_of
from windrow.console.tables import output
from windrow.cql.statements import Describe, Explain, Select, Show
from windrow.display.in_place import in_terminal
from windrow.display.latest import Latest
from windrow.errors import ParseError
from windrow.handles import Query

if TYPE_CHECKING:
    from windrow.console.shell.session import Shell

LOOK_S = 0.5
"""How often a watched query is looked at for new answers."""

AGAIN_S = 2.0
"""How often a watched statement is executed."""

LEAST_S = 0.1
READING = ("SELECT", "SHOW", "EXPLAIN", "DESCRIBE", "DESC")

Draw = Callable[[str, pa.Table], None]


def watch(shell: Shell, argument: str) -> None:
    """Show what the argument names until Ctrl-C, which ends the watching alone."""
    seconds, what = watched(argument)
    try:
        if what and what.split()[0].upper() not in READING:
            with _screen(shell) as draw:
                _watch_query(shell, query_of(shell, what), seconds or LOOK_S, draw)
        else:
            script = _to_repeat(shell, what)
            with _screen(shell) as draw:
                _watch_statement(shell, script, seconds or AGAIN_S, draw)
    except Interrupted:
        if not isinstance(shell.interrupts, Cancels):
            raise
        shell.interrupts.clear()


def watched(argument: str) -> tuple[float | None, str]:
    """The seconds and the query or statement that `\\watch` is given."""
    first, _, rest = argument.strip().partition(" ")
    try:
        seconds = float(first)
    except ValueError:
        return None, argument.strip()
    if not LEAST_S <= seconds <= 86_400:
        raise ParseError(f"\\watch {first}: it takes {LEAST_S} to 86,400 seconds")
    return seconds, rest.strip()


def _to_repeat(shell: Shell, text: str) -> StatementScript:
    if not text:
        if shell.last_read is None:
            raise ParseError(
                "there is no statement to watch", remedy="\\watch QUERY, \\watch 2 SELECT …, or a SELECT first."
            )
        return shell.last_read
    script = to_script(text)
    if len(script.statements) != 1 or not isinstance(script.statements[0], Select | Show | Describe | Explain):
        raise ParseError("\\watch takes one statement that reads", remedy="For example \\watch 2 SHOW STREAMS.")
    return script


def _watch_query(shell: Shell, query: Query, every_s: float, draw: Draw) -> None:
    """Show the latest answer whenever there is a new one."""
    shown: Latest | None = None
    while True:
        found = shell.read(lambda seen=shown: query.latest(seen, start="\\start"))  # type: ignore[misc]
        if found is not None:
            draw(found.heading, found.columns)
            shown = found
        if shell.interrupts.wait(every_s):
            raise Interrupted


def _watch_statement(shell: Shell, script: StatementScript, every_s: float, draw: Draw) -> None:
    statement = script.statements[0]
    while True:
        result = shell.carry_out(statement, script.text, doing="")
        assert result is not None
        draw(f"{time.strftime('%H:%M:%S')} · every {every_s:g} s", result.arrow())
        if shell.interrupts.wait(every_s):
            raise Interrupted


@contextmanager
def _screen(shell: Shell) -> Iterator[Draw]:
    """Yield what draws a table under a heading: in place on a terminal, below the last one elsewhere."""
    if not shell.is_terminal or shell.view.form in ("csv", "json"):
        yield lambda heading, table: shell.show(table, heading)
        return
    with in_terminal(output()) as draw:
        yield lambda heading, table: draw(f"{heading} · Ctrl-C returns", list(shell.lines_of(table)))
