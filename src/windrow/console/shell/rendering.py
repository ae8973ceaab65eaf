"""Tables as lines of text in a chosen format, and the pager."""

from __future__ import annotations

import csv
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

import pyarrow as pa
from rich.cells import cell_len

from windrow.console.interrupts import Interrupted
from windrow.console.tables import cell_text, markdown
from windrow.dataplane.sinks.base import AnswerBatch
from windrow.dataplane.sinks.jsonl import json_lines
from windrow.types import is_number, printable, rows_of

SLICE = 4096

T = TypeVar("T")
Check = Callable[[], bool]
"""Whether the user has cancelled."""


def rendered(table: pa.Table, form: str, width: int, expanded: bool | None, cancelled: Check) -> Iterator[str]:
    """The lines of a table. `expanded`: one column per line always, never, or (None) if the rows are wider than
    `width`. Raises Interrupted once `cancelled()` says so."""
    table = table.rename_columns(_distinct(table.column_names))
    if form == "jsonl":
        yield from _by_slices(table, lambda part: json_lines(AnswerBatch("", part, "")), cancelled)
    elif form == "csv":
        yield _csv_line(table.column_names)
        yield from _by_slices(table, _csv_lines, cancelled)
    else:
        names = table.column_names
        right = {field.name for field in table.schema if is_number(field.type)}
        if form == "markdown":
            cells = list(_by_slices(table, _cells, cancelled))
            yield from markdown(names, cells, right).rstrip("\n").splitlines()
            return
        cells = list(_by_slices(table, lambda part: [[*map(printable, row)] for row in _cells(part)], cancelled))
        widths = [max(cell_len(row[i]) for row in (names, *cells)) for i in range(len(names))]
        is_wide = sum(widths) + 3 * len(widths) + 1 > width
        if form == "vertical" or expanded or (expanded is None and is_wide):
            yield from _records(names, cells)
        else:
            yield from _box(names, cells, widths, [name in right for name in names])


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that occur again."""
    return [name if name not in names[:i] else f"{name}_{names[:i].count(name) + 1}" for i, name in enumerate(names)]


def _by_slices(table: pa.Table, lines: Callable[[pa.Table], Iterable[T]], cancelled: Check) -> Iterator[T]:
    for start in range(0, table.num_rows, SLICE):
        if cancelled():
            raise Interrupted
        yield from lines(table.slice(start, SLICE))


def _cells(table: pa.Table) -> list[list[str]]:
    return [[cell_text(value) for value in row.values()] for row in rows_of(table)]


def _csv_lines(table: pa.Table) -> list[str]:
    return [_csv_line(["" if value is None else cell_text(value) for value in row.values()]) for row in rows_of(table)]


def _csv_line(values: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(values)
    return out.getvalue()


def _box(
    names: Sequence[str], cells: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool]
) -> Iterator[str]:
    rules = ["─" * (width + 2) for width in widths]

    def line(row: Sequence[str]) -> str:
        padded = (_padded(cell, w, r) for cell, w, r in zip(row, widths, right, strict=True))
        return f"│ {' │ '.join(padded)} │"

    yield f"╭{'┬'.join(rules)}╮"
    yield line(names)
    yield f"├{'┼'.join(rules)}┤"
    yield from map(line, cells)
    yield f"╰{'┴'.join(rules)}╯"


def _padded(text: str, width: int, is_right: bool) -> str:
    blanks = " " * (width - cell_len(text))
    return blanks + text if is_right else text + blanks


def _records(names: Sequence[str], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    if not cells:
        yield "no rows"
    width = max((cell_len(name) for name in names), default=0)
    for number, row in enumerate(cells, 1):
        yield f"─ row {number} ".ljust(width + 24, "─")
        yield from (f"{_padded(name, width, False)} │ {cell}" for name, cell in zip(names, row, strict=True))


def page(lines: Sequence[str]) -> bool:
    """Show lines in $PAGER, or less, until the user leaves it. Return False if there is no such program."""
    command = shlex.split(os.environ.get("PAGER") or "less")
    sys.stdout.flush()
    try:
        pager = subprocess.Popen(
            command, stdin=subprocess.PIPE, encoding="utf-8", errors="replace", env={"LESS": "FRSX", **os.environ}
        )
    except OSError:
        return False
    assert pager.stdin is not None
    with suppress(BrokenPipeError):
        pager.stdin.writelines(f"{line}\n" for line in lines)
    with suppress(BrokenPipeError):
        pager.stdin.close()
    pager.wait()
    return True
