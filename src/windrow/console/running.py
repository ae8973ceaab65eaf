"""Opens a state and runs its streams, with progress, until all input is read or the user stops."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

import windrow
from windrow.catalog.definitions import DERIVED
from windrow.console.formats import AnswerOutput
from windrow.console.interrupts import Interrupts
from windrow.console.live import Flow, Progress
from windrow.console.scripts import StatementScript, derived_plans, execute, print_outcome, repeatable
from windrow.console.tables import messages, output, print_answers, print_changes, print_summary, print_view, say
from windrow.cql.statements import CreateQuery
from windrow.errors import QuerySuspendedError

if TYPE_CHECKING:
    from windrow.api import Windrow
    from windrow.console.answer_files import AllAnswers

PROGRESS_S = 5.0
LOOK_S = 0.5
RATE_WINDOW_S = 3.0


@dataclass(frozen=True)
class Target:
    """A state directory (None: a temporary one), Spark's master and the settings of a command. `read_only`: it is only
    read, and may be open in another process."""

    state: Path | None
    master: str | None
    settings: Mapping[str, str]
    read_only: bool = False


@contextmanager
def opened(target: Target, interrupts: Interrupts) -> Iterator[Windrow]:
    """An open state that is always closed in order. A Ctrl-C while Spark starts leaves at once."""
    with _directory(target.state) as state:
        how: dict[str, Any] = {"master": target.master, "settings": target.settings, "read_only": target.read_only}
        with Progress("reading the state…" if target.read_only else "starting Spark…", lines=not target.read_only):
            wr = interrupts.background(lambda: windrow.open(state, **how))
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


def execute_all(
    wr: Windrow,
    script: StatementScript,
    interrupts: Interrupts,
    doing: str = "executing…",
    results: Console | None = None,
) -> None:
    """Execute the statements of a script one by one and print the result of each, on `results` or standard output.
    The script may have been executed before on this state."""
    out, notes = results or output(), messages()
    for statement in script.statements:
        with Progress(doing, lines=False):
            result = interrupts.background(
                lambda s=statement: execute(wr, repeatable(s), script.text),  # type: ignore[misc]
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
        streams, queries = self._wr.metrics().values(), [one.metrics() for one in self._wr.queries.values()]
        rows = sum(m["rows"] for m in streams)
        now_s = time.monotonic()
        self._samples.append((now_s, rows))
        while len(self._samples) > 2 and self._samples[1][0] <= now_s - RATE_WINDOW_S:
            del self._samples[0]
        then_s, before = self._samples[0]
        return Flow(
            rows=rows,
            rows_per_s=(rows - before) / max(now_s - then_s, 1e-3),
            answers=sum(m["windows"] for m in queries if "windows" in m),
            dead_letters=sum(m["dead_letters"] for m in streams),
            frontier=min((m["frontier"] for m in streams if m["frontier"]), default=None),
            changes=sum(m["rows"] for m in queries if "windows" not in m),
            ticks=sum(m["ticks"] for m in queries if "windows" not in m),
        )


def to_print(wr: Windrow, script: StatementScript) -> list[str]:
    """The queries of a script that have no sink, so that their answers are printed."""
    names = [s.name for s in script.statements if isinstance(s, CreateQuery) and s.sink is None]
    return [name for name in dict.fromkeys(names) if name in wr.queries]


def print_plans(wr: Windrow, wanted: AnswerOutput) -> None:
    """Print the plan of every query, and of the streams that are made by queries."""
    plans = [*derived_plans(wr), *(wr.queries[name].explain() for name in wr.queries)]
    say(messages() if wanted.owns_stdout else output(), "\n\n".join(plans) + "\n")


def run_until_available(wr: Windrow, printed: Sequence[str], interrupts: Interrupts, wanted: AnswerOutput) -> list[str]:
    """Process everything available, end the input, print answers and a summary. Return the suspended queries.

    The input ends only after all of it was read, so an earlier Ctrl-C closes no window.
    """
    meter = FlowMeter(wr)
    with _writing(wr, printed, wanted, is_bounded=True):
        with Progress("reading what is available…") as progress:
            interrupts.background(
                wr.run_available,
                stop=wr.stop,
                meanwhile=every(0.5, lambda: progress.update(meter.read().line())),
            )
            progress.update("closing the last windows…")
            interrupts.background(lambda: _end_input(wr), stop=_nothing)
    out = output()
    for name in () if wanted.is_all else printed:
        query = wr.queries[name]
        if query.is_continuous:
            print_view(out, query)
        else:
            answered = query.metrics().get("windows_answered", 0)
            print_answers(out, name, query.answers().arrow(), answered=answered)
    return print_summary(messages() if wanted.owns_stdout else out, wr)


@contextmanager
def _writing(
    wr: Windrow, queries: Sequence[str], wanted: AnswerOutput, is_bounded: bool
) -> Iterator[AllAnswers | None]:
    """If all answers are wanted, write those that come inside; a bounded run also writes those of earlier runs."""
    if not wanted.is_all or not queries:
        if wanted.is_all:
            say(messages(), "there are no answers to print: every query of the script has an INTO")
        yield None
        return
    from windrow.console.answer_files import all_answers, earlier_answers

    answers = all_answers(wr, queries, wanted, gather=is_bounded)
    try:
        for name in queries:
            if is_bounded:
                answers.write(name, earlier_answers(wr, name))
            _subscribe(wr, name, lambda batch: answers.write(batch.query, batch.table))
        yield answers
    except BaseException:
        answers.abandon()
        raise
    answers.close()


def _subscribe(wr: Windrow, name: str, take: Callable[[Any], None]) -> None:
    try:
        wr.queries[name].subscribe(take, batched=True)
    except QuerySuspendedError as error:  # suspended in an earlier run; the other queries run
        say(messages(), error.message, "bold red")


def _end_input(wr: Windrow) -> None:
    """End the input of every stream that ran. Streams that are made by queries end with those that they are made of."""
    for row in wr.sql("SHOW STREAMS").rows():
        if row["state"] == "stopped" and row["source"] != DERIVED:
            wr.end_input(row["name"])


def every(seconds: float, act: Callable[[], None]) -> Callable[[], None]:
    """A function that calls `act`, at most once in that many seconds."""
    due_s = time.monotonic() + seconds

    def maybe() -> None:
        nonlocal due_s
        if time.monotonic() >= due_s:
            act()
            due_s = time.monotonic() + seconds

    return maybe


def run_until_stopped(wr: Windrow, printed: Sequence[str], interrupts: Interrupts, wanted: AnswerOutput) -> None:
    """Run the streams until Ctrl-C, with a line of progress every few seconds; then print a summary."""
    out, notes = messages() if wanted.owns_stdout else output(), messages()
    for name in () if wanted.is_all else printed:
        _subscribe(wr, name, _printer(out, name, wr.queries[name].is_continuous))
    with _writing(wr, printed, wanted, is_bounded=False) as answers:
        with Progress("starting the streams…"):
            interrupts.background(wr.start, stop=_nothing)
        say(notes, "running; Ctrl-C stops")
        meter, due_s = FlowMeter(wr), time.monotonic() + PROGRESS_S
        try:
            while not interrupts.wait(LOOK_S) and wr.is_running and not (answers and answers.has_ended):
                if time.monotonic() >= due_s:
                    say(notes, f"{time.strftime('%H:%M:%S')}  {meter.read().line()}", "dim")
                    due_s = time.monotonic() + PROGRESS_S
        finally:
            with Progress("stopping…"):
                wr.stop()
    for name in () if wanted.is_all else printed:
        if wr.queries[name].is_continuous:
            print_view(out, wr.queries[name])
    print_summary(out, wr)


def _printer(out: Console, name: str, is_continuous: bool) -> Callable[[Any], None]:
    def show(batch: Any) -> None:
        if batch.table.num_rows and is_continuous:
            print_changes(out, name, batch.table)
        elif batch.table.num_rows:
            print_answers(out, name, batch.table)

    return show
