"""Shows the latest answer again and again in one place: the output of a notebook's cell, or a terminal.

Nothing runs in the background: the thread that calls waits and draws.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from windrow.display.latest import Latest
from windrow.errors import BindError
from windrow.types import printable

LEAST_S, MOST_S = 0.05, 86_400.0
"""Bounds of the time between two looks."""

Look = Callable[[Latest | None], Latest | None]
"""Given what is shown, returns what to show instead; None if there is nothing new."""

Draw = Callable[[Latest], None]
DrawLines = Callable[[str, Sequence[str]], None]


def follow(look: Look, every_s: float, count: int | None, seconds: float | None) -> None:
    """Draw what `look` returns, at once and then whenever there is something new, until a KeyboardInterrupt, until
    `count` refreshes, or for so many seconds."""
    _check(every_s, count, seconds)
    end_s = None if seconds is None else time.monotonic() + seconds
    shown: Latest | None = None
    refreshes = -1
    with _place() as draw, suppress(KeyboardInterrupt):
        while True:
            latest = look(shown)
            if latest is not None:
                draw(latest)
                shown = latest
                refreshes += 1
            if count is not None and refreshes >= count:
                return
            wait_s = every_s if end_s is None else min(every_s, end_s - time.monotonic())
            if wait_s <= 0:
                return
            time.sleep(wait_s)


def _check(every_s: Any, count: Any, seconds: Any) -> None:
    if not _is_number(every_s) or not LEAST_S <= every_s <= MOST_S:
        raise BindError(f"every={every_s!r}: it takes {LEAST_S} to {MOST_S:,.0f} seconds")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 0):
        raise BindError(f"count={count!r}: it takes a number of refreshes, 0 or more")
    if seconds is not None and (not _is_number(seconds) or not seconds >= 0):
        raise BindError(f"seconds={seconds!r}: it takes a number, 0 or more")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@contextmanager
def _place() -> Iterator[Draw]:
    """Yield what draws: in place in a notebook and on a terminal, below the last one elsewhere."""
    if is_notebook():
        yield _in_cell()
    elif sys.stdout.isatty():
        with in_terminal(Console(highlight=False)) as draw:
            yield lambda latest: draw(f"{latest.heading} · Ctrl-C stops", str(latest).split("\n")[1:])
    else:
        yield lambda latest: print(latest, flush=True)


def is_notebook() -> bool:
    """Whether the output of this process goes to a notebook's cells. IPython in a terminal is a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and all(kind.__name__ != "TerminalInteractiveShell" for kind in type(shell).__mro__)


def _in_cell() -> Draw:
    display: Any = import_module("IPython.display").display
    handle: Any = None

    def draw(latest: Latest) -> None:
        nonlocal handle
        if handle is None:
            handle = display(latest, display_id=True)
        else:
            handle.update(latest)

    return draw


@contextmanager
def in_terminal(out: Console) -> Iterator[DrawLines]:
    """Yield what draws a heading and lines in place, cut to the height of the terminal."""
    with Live(console=out, auto_refresh=False, vertical_overflow="crop") as live:

        def draw(heading: str, lines: Sequence[str]) -> None:
            room = max(1, out.height - 3)
            cut = [f"… {len(lines) - room + 1} more lines"] if len(lines) > room else []
            body = "\n".join(map(printable, [*(lines[: room - 1] if cut else lines), *cut]))
            text = Text.assemble((printable(heading), "bold"), "\n", body, no_wrap=True, overflow="crop")
            live.update(text, refresh=True)

        yield draw
