"""Opens a state and runs its streams, with progress, until all input is read or the user stops."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from windrow.api import Windrow
from windrow.api import open as open_state
from windrow.console.interrupts import Interrupts
from windrow.console.live import Flow, Progress
from windrow.console.scripts import StatementScript, execute, print_outcome
from windrow.console.tables import messages, output, print_answers, print_summary, say
from windrow.cql.statements import CreateQuery
from windrow.errors import QuerySuspendedError

PROGRESS_S = 5.0
RATE_WINDOW_S = 3.0


@dataclass(frozen=True)
class Target:
    """A state directory (None: a temporary one), Spark's master and the settings of a command."""

    state: Path | None
    master: str | None
    settings: Mapping[str, str]


@contextmanager
def opened(target: Target, interrupts: Interrupts) -> Iterator[Windrow]:
    """An open state that is always closed in order. A Ctrl-C while Spark starts leaves at once."""
    with _directory(target.state) as state:
        with Progress("starting Spark…"):
            wr = interrupts.background(lambda: open_state(state, master=target.master, settings=target.settings))
        try:
            yield wr
        finally:
            wr.close()


@contextmanager
def _directory(state: Path | None) -> Iterator[Path]:
    if state is not None:
        yield state
        return
    with tempfile.TemporaryDirectory(prefix="windrow-", ignore_cleanup_errors=True) as temporary:
        yield Path(temporary)


def execute_all(wr: Windrow, script: StatementScript, interrupts: Interrupts, doing: str = "executing…") -> None:
    """Execute the statements of a script one by one and print the result of each."""
    out, notes = output(), messages()
    for statement in script.statements:
        with Progress(doing, lines=False):
            result = interrupts.background(
                lambda s=statement: execute(wr, s, script.text),  # type: ignore[misc]
                stop=_nothing,
            )
        print_outcome(out, notes, statement, result)


def _nothing() -> None:
    """The `stop` of work that cannot be stopped: `background` then waits for its end, so the state closes in order."""


class FlowMeter:
    """Measures the flow through all streams; the rate is that of the last few seconds."""

    def __init__(self, wr: Windrow):
        self._wr = wr
        self._samples: list[tuple[float, int]] = [(time.monotonic(), 0)]

    def read(self) -> Flow:
        streams = self._wr.metrics().values()
        rows = sum(m["rows"] for m in streams)
        now_s = time.monotonic()
        self._samples.append((now_s, rows))
        while len(self._samples) > 2 and self._samples[1][0] <= now_s - RATE_WINDOW_S:
            del self._samples[0]
        then_s, before = self._samples[0]
        return Flow(
            rows=rows,
            rows_per_s=(rows - before) / max(now_s - then_s, 1e-3),
            answers=sum(self._wr.queries[name].metrics()["windows"] for name in self._wr.queries),
            dead_letters=sum(m["dead_letters"] for m in streams),
            frontier=min((m["frontier"] for m in streams if m["frontier"]), default=None),
        )


def to_print(wr: Windrow, script: StatementScript) -> list[str]:
    """The queries of a script that have no sink, so that their answers are printed."""
    names = [s.name for s in script.statements if isinstance(s, CreateQuery) and s.sink is None]
    return [name for name in dict.fromkeys(names) if name in wr.queries]


def run_until_available(wr: Windrow, printed: Sequence[str], interrupts: Interrupts) -> list[str]:
    """Process everything available, end the input, print answers and a summary. Return the suspended queries.

    The input ends only after all of it was read, so an earlier Ctrl-C closes no window.
    """
    meter = FlowMeter(wr)
    with Progress("reading what is available…") as progress:
        interrupts.background(
            wr.run_available,
            stop=wr.stop,
            meanwhile=_every(0.5, lambda: progress.update(meter.read().line())),
        )
        progress.update("closing the last windows…")
        interrupts.background(lambda: _end_input(wr), stop=_nothing)
    out = output()
    for name in printed:
        answered = wr.queries[name].metrics()["windows_answered"]
        print_answers(out, name, wr.queries[name].answers().arrow(), answered=answered)
    return print_summary(out, wr)


def _end_input(wr: Windrow) -> None:
    """End the input of every stream that ran."""
    for row in wr.sql("SHOW STREAMS").rows():
        if row["state"] == "stopped":
            wr.end_input(row["name"])


def _every(seconds: float, act: Callable[[], None]) -> Callable[[], None]:
    due_s = time.monotonic() + seconds

    def maybe() -> None:
        nonlocal due_s
        if time.monotonic() >= due_s:
            act()
            due_s = time.monotonic() + seconds

    return maybe


def run_until_stopped(wr: Windrow, printed: Sequence[str], interrupts: Interrupts) -> None:
    """Run the streams until Ctrl-C, with a line of progress every few seconds; then print a summary."""
    out, notes = output(), messages()
    for name in printed:
        try:
            wr.queries[name].subscribe(_printer(out, name), batched=True)
        except QuerySuspendedError as error:  # suspended in an earlier run; the other queries run
            say(notes, error.message, "bold red")
    with Progress("starting the streams…"):
        interrupts.background(wr.start, stop=_nothing)
    say(notes, "running; Ctrl-C stops")
    meter = FlowMeter(wr)
    try:
        while not interrupts.wait(PROGRESS_S) and wr.is_running:
            say(notes, f"{time.strftime('%H:%M:%S')}  {meter.read().line()}", "dim")
    finally:
        with Progress("stopping…"):
            wr.stop()
    print_summary(out, wr)


def _printer(out: Console, name: str) -> Callable[[Any], None]:
    def show(batch: Any) -> None:
        if batch.table.num_rows:
            print_answers(out, name, batch.table)

    return show
