"""Renders progress and the live table of the demo."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Group
from rich.panel import Panel
from rich.status import Status
from rich.table import Table
from rich.text import Text

from windrow.console.tables import messages, say

FRAME_LINES = 6
TIGHT_ROWS, ROOMY_ROWS = 2, 3
LINE_S = 5.0
"""The least time between two lines of progress, where the output is no terminal."""


class Progress:
    """A spinner with a text. If the output is not a terminal: a line every few seconds, or nothing without `lines`."""

    def __init__(self, text: str, lines: bool = True):
        # A spinner captures both outputs in order to print them above itself, so both must be the terminal.
        self._status: Status | None = None
        if sys.stdout.isatty() and sys.stderr.isatty():
            self._status = Status(Text(text), console=messages())
        self._text = text
        self._lines = lines
        self._said_s: float | None = None

    def __enter__(self) -> Progress:
        if self._status is not None:
            self._status.start()
        self.update(self._text)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._status is not None:
            self._status.stop()

    def update(self, text: str) -> None:
        if self._status is not None:
            self._status.update(Text(text))
        elif self._lines and (self._said_s is None or time.monotonic() - self._said_s >= LINE_S):
            self._said_s = time.monotonic()
            say(messages(), text)


@dataclass(frozen=True)
class Flow:
    """Totals of all streams and queries so far, and the present rate."""

    rows: int
    rows_per_s: float
    answers: int
    dead_letters: int
    frontier: str | None
    changes: int = 0
    ticks: int = 0

    def line(self) -> str:
        parts = [
            f"{self.rows_per_s:,.0f} rows/s",
            _counted(self.rows, "row"),
        ]
        if self.answers or not self.ticks:
            parts.append(f"{_counted(self.answers, 'window')} answered")
        if self.ticks:
            parts.append(f"{_counted(self.changes, 'change')} in {_counted(self.ticks, 'tick')}")
        if self.frontier:
            parts.append(f"frontier {_seconds(self.frontier)}")
        if self.dead_letters:
            parts.append(_counted(self.dead_letters, "dead letter"))
        return "  ·  ".join(parts)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _seconds(frontier: str) -> str:
    return frontier.partition(".")[0]


@dataclass(frozen=True)
class Standing:
    """A standing query as the demo shows it: its latest answer, and when that was delivered."""

    name: str
    title: str
    window: str
    answers: int
    window_start: datetime | None
    window_end: datetime | None
    rows: Sequence[dict[str, Any]]
    delivered_s: float

    def behind_s(self, now_s: float) -> float | None:
        """The age of the answer: now less the end of its window."""
        return None if self.window_end is None else max(0.0, now_s - self.window_end.timestamp())


@dataclass(frozen=True)
class Joined:
    """The join of two streams as the demo shows it: its view as of a tick, how many changes led to it, and the last of
    them: '+' or '-', then the values."""

    name: str
    title: str
    window: str
    changes: int
    tick: datetime | None
    rows: Sequence[dict[str, Any]]
    latest: Sequence[tuple[str, dict[str, Any]]]

    def line(self, now_s: float) -> str:
        if self.tick is None:
            return "waiting for the first tick of both streams"
        view = "; ".join(_values(row) for row in self.rows) or "none"
        age_s = max(0.0, now_s - self.tick.timestamp())
        return f"{self.changes:,} changes, {age_s:.1f} s old: {view}"


def demo_screen(
    flow: Flow,
    queries: Sequence[Standing],
    joined: Joined,
    elapsed_s: float,
    total_s: float,
    now_s: float,
    height: int,
) -> Panel:
    """The whole screen of the demo; it fits 24 lines of 80 characters."""
    head = Text.assemble(
        (f" {flow.rows_per_s:,.0f} rows/s", "bold green"),
        f"   {flow.rows:,} rows in   ",
        (f"{flow.answers:,} answers out", "bold cyan"),
        f"   {elapsed_s:.0f} of {total_s:.0f} s",
    )
    is_roomy = height >= FRAME_LINES + (len(queries) + 1) * (ROOMY_ROWS + 2)
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", expand=True, padding=(0, 1), show_edge=False)
    table.add_column("standing query", no_wrap=True)
    table.add_column("its latest answer", ratio=1)
    table.add_column("answers", justify="right", no_wrap=True)
    table.add_column("staleness", justify="right", no_wrap=True)
    for query in queries:
        answer = _answer(query, ROOMY_ROWS if is_roomy else TIGHT_ROWS)
        table.add_row(_about(query), answer, f"{query.answers:,}", _staleness(query, now_s), end_section=is_roomy)
    return Panel(
        Group(head, table, _joined_part(joined, now_s, is_roomy)),
        title="windrow demo",
        title_align="left",
        subtitle="one Spark job per micro-batch serves all queries · Ctrl-C stops",
        border_style="blue",
        padding=0,
    )


def _joined_part(joined: Joined, now_s: float, is_roomy: bool) -> Text:
    """The join in one line; where there is room, its latest changes below."""
    part = Text(no_wrap=True, overflow="ellipsis")
    part.append(f" {joined.title}, ", "bold").append(joined.line(now_s))
    if is_roomy:
        part.append(f"\n {joined.window}", "dim")
        for op, row in joined.latest[-ROOMY_ROWS:]:
            part.append(f"\n   {op} {_values(row)}", "green" if op == "+" else "red")
    return part


def _about(query: Standing) -> Text:
    about = Text.assemble((query.title, "bold"), f"\n{query.window}\n")
    if query.window_start is not None and query.window_end is not None:
        about.append(f"{query.window_start:%H:%M:%S} .. {query.window_end:%H:%M:%S}", "dim")
    return about


def _answer(query: Standing, rows: int) -> Table | Text:
    if query.window_end is None:
        return Text("waiting for the first window to close", style="dim")
    if not query.rows:
        return Text("none", style="dim")
    grid = Table.grid(padding=(0, 2))
    for value in query.rows[0].values():
        grid.add_column(justify="left" if isinstance(value, str) else "right", no_wrap=True)
    grid.add_row(*(Text(name, style="dim") for name in query.rows[0]))
    for row in query.rows[:rows]:
        grid.add_row(*(Text(number_text(value)) for value in row.values()))
    return grid


def _staleness(query: Standing, now_s: float) -> Text:
    """The age of the answer, and below it the time since its delivery."""
    behind_s = query.behind_s(now_s)
    if behind_s is None:
        return Text("")
    colour = "green" if behind_s < 5 else "yellow" if behind_s < 15 else "red"
    return Text.assemble((f"{behind_s:.1f} s", colour), (f"\n{now_s - query.delivered_s:.1f} s ago", "dim"))


def demo_lines(flow: Flow, queries: Sequence[Standing], joined: Joined, elapsed_s: float, now_s: float) -> list[str]:
    """The content of `demo_screen` as plain lines, for an output that is no terminal."""
    rates = f"{flow.rows_per_s:,.0f} rows/s  {flow.rows:,} rows in  {flow.answers:,} answers out"
    lines = [f"{elapsed_s:4.0f} s  {rates}"]
    for query in queries:
        behind_s = query.behind_s(now_s)
        if query.window_start is None or query.window_end is None or behind_s is None:
            lines.append(f"        {query.name}: waiting for the first window to close")
            continue
        answer = "; ".join(_values(row) for row in query.rows) or "none"
        span = f"[{query.window_start:%H:%M:%S} .. {query.window_end:%H:%M:%S})"
        lines.append(f"        {query.name} {span}: {answer}  ({behind_s:.1f} s old)")
    return [*lines, f"        {joined.name}, {joined.line(now_s)}"]


def _values(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {number_text(value)}" for name, value in row.items())


def number_text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
