"""Results, answers and summaries as tables: boxes on a terminal, Markdown elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Container, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from windrow.errors import WindrowError
from windrow.types import is_number, rows_of, value_text

if TYPE_CHECKING:
    from windrow.api import Windrow
    from windrow.handles import Query

WIDE = 100_000
"""The width of an output that is no terminal, so that nothing is wrapped or cut."""

FORMATS = ("table", "vertical", "markdown", "csv", "jsonl")
"""The formats of `windrow sql`. `vertical` is one column per line, `jsonl` one JSON object per line."""

ROWS_SHOWN = 20
WINDOWS_SHOWN = 3


def output() -> Console:
    """Standard output, for results."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)


def messages() -> Console:
    """Standard error, for progress, notes and errors."""
    return Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else WIDE)


def say(console: Console, text: str, style: str = "") -> None:
    """Print text without markup and without wrapping; a terminal may wrap it."""
    console.print(Text(text, style=style), soft_wrap=True)


def print_error(error: WindrowError, where: str | None = None) -> None:
    """Print an error with its place, caret and remedy on standard error."""
    head, _, rest = str(error).partition("\n")
    text = Text.assemble(("error: ", "bold red"), f"{where}: " if where else "", (head, "bold"))
    messages().print(text, soft_wrap=True)
    if rest:
        say(messages(), rest)


def print_table(console: Console, table: pa.Table, title: str | None = None) -> None:
    """Print every row of an Arrow table."""
    if title:
        say(console, title, "bold")
    numbers = {field.name for field in table.schema if is_number(field.type)}
    cells = [[cell_text(value) for value in row.values()] for row in rows_of(table)]
    if not console.is_terminal:
        say(console, markdown(table.column_names, cells, numbers))
        return
    if _width(table.column_names, cells) > console.width:
        console.print(_records(table.column_names, cells) if cells else "no rows")
        return
    drawn = Table(box=box.ROUNDED, header_style="bold")
    for name in table.column_names:
        drawn.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for row in cells:
        drawn.add_row(*map(Text, row))
    console.print(drawn)


def _width(names: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    """The width of a box around the cells."""
    return 1 + sum(3 + max(cell_len(row[i]) for row in (names, *cells)) for i in range(len(names)))


def _records(names: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    """A table for rows that are too wide for the terminal, with one column per line."""
    drawn = Table(box=box.ROUNDED, show_header=False)
    drawn.add_column(style="bold", no_wrap=True)
    drawn.add_column(overflow="fold")
    for row in cells:
        for name, cell in zip(names, row, strict=True):
            drawn.add_row(name, Text(cell), end_section=name == names[-1])
    return drawn


def markdown(names: Sequence[str], cells: Sequence[Sequence[str]], right: Container[str]) -> str:
    """A table as Markdown with aligned columns, ended by a blank line."""
    rows = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (names, *cells)]
    widths = [max(3, *(len(row[i]) for row in rows)) for i in range(len(names))]
    is_right = [name in right for name in names]

    def line(row: Sequence[str]) -> str:
        padded = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, is_right, strict=True))
        return f"| {' | '.join(padded)} |"

    rule = [f"{'-' * (w - 1)}{':' if r else '-'}" for w, r in zip(widths, is_right, strict=True)]
    return "\n".join([line(rows[0]), line(rule), *map(line, rows[1:]), ""])


def cell_text(value: object) -> str:
    """A value as text for people. Times are UTC, without saying so in every cell."""
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    return value_text(value)


def print_answers(
    console: Console,
    query: str,
    table: pa.Table,
    windows: int = WINDOWS_SHOWN,
    rows: int = ROWS_SHOWN,
    answered: int = 0,
) -> None:
    """Print the last rows of the last windows of a query's answers."""
    title, shown = last_answers(query, table, windows, rows, answered)
    print_table(console, shown, title)


def print_changes(console: Console, query: str, table: pa.Table, rows: int = ROWS_SHOWN) -> None:
    """Print the last changes of a continuous query."""
    count, title = table.num_rows, f"{query}: {_changes(table.num_rows)}"
    print_table(console, table.slice(max(0, count - rows)), title if count <= rows else f"{title}, the last {rows}")


def print_view(console: Console, query: Query, rows: int = ROWS_SHOWN) -> None:
    """Print how many changes a continuous query has had, and the first rows of its view."""
    metrics = query.metrics()
    if metrics["ticked"] is None:
        say(console, f"{query.name}: no tick yet", "bold")
        return
    table = query.view().arrow() if metrics["state"] == "active" else None
    title = f"{query.name}: {_changes(metrics['changes'])}"
    if table is None:
        say(console, f"{title}; suspended at {metrics['ticked']}", "bold")
        return
    count = "no row" if not table.num_rows else "1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows"
    title += f"; the view at {metrics['ticked']} has {count}"
    if not table.num_rows:
        say(console, title, "bold")
        return
    print_table(console, table.slice(0, rows), title if table.num_rows <= rows else f"{title}, the first {rows}")


def _changes(count: int) -> str:
    return "1 change" if count == 1 else f"{count:,} changes"


def last_answers(query: str, table: pa.Table, windows: int, rows: int, answered: int = 0) -> tuple[str, pa.Table]:
    """The last rows of the last windows of a query's answers, and a title that says how many they are. `answered`: how
    many windows were answered at all, including those without rows."""
    ends = table.column("window_end").unique()
    last = table
    if len(ends) > windows:
        last = table.filter(pc.is_in(table.column("window_end"), value_set=ends.slice(len(ends) - windows)))
    shown = last.slice(max(0, last.num_rows - rows))
    if not pc.any(shown.column("is_revision")).as_py():
        shown = shown.drop_columns(["is_revision"])
    return f"{query}: " + _extent(len(ends), windows, table.num_rows, shown.num_rows, answered), shown


def _extent(windows: int, windows_shown: int, rows: int, rows_shown: int, answered: int) -> str:
    if windows == 0 and answered == 0:
        return "no answer yet"
    if windows == 0:
        return f"{_windows(answered)} answered, none with rows"
    if windows > windows_shown:
        return f"the last {windows_shown} of {windows} windows with rows"
    which = _windows(windows)
    return which if rows_shown == rows else f"{which}, the last {rows_shown} of {rows} rows"


def _windows(count: int) -> str:
    return "1 window" if count == 1 else f"{count:,} windows"


def print_summary(console: Console, wr: Windrow) -> list[str]:
    """Print what this run did, without earlier runs on the same state. Return the suspended queries."""
    queries = {name: wr.queries[name].metrics() for name in wr.queries}
    counted = {"windows": "windows answered", "ticks": "ticks"}  # a query has one of them
    counters = [name for name in counted if any(name in m for m in queries.values())]
    by_query = [
        {
            "query": name,
            **{counted[counter]: m.get(counter) for counter in counters},
            "rows": m["rows"],
            "state": m["state"],
        }
        for name, m in queries.items()
    ]
    by_stream = [
        {
            "stream": name,
            "rows admitted": m["rows"],
            "dead letters": m["dead_letters"],
            "reasons": ", ".join(f"{reason} {count}" for reason, count in m["dead_letter_reasons"].items()),
            "frontier": m["frontier"],
        }
        for name, m in wr.metrics().items()
    ]
    for rows, title in ((by_query, "In this run, by query:"), (by_stream, "In this run, by stream:")):
        if rows:
            print_table(console, _arrow(rows), title)
    return [name for name, m in queries.items() if m["state"] != "active"]


def _arrow(rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.table({name: [row[name] for row in rows] for name in rows[0]})
