"""The command line: `windrow run | sql | status | explain | check-history | demo | bench`.

`console/` does the work of the commands.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

import windrow
from windrow.console.benchmarks import about, benchmarks, chosen, run_benchmark
from windrow.console.demo import run_demo
from windrow.console.formats import ALIASES, AnswerFormat, AnswerOutput
from windrow.console.histories import IsolationLevel, report_history
from windrow.console.interrupts import EXIT_CODE, Cancels, Interrupted, Interrupts
from windrow.console.live import Progress
from windrow.console.plans import show_plans
from windrow.console.running import (
    Target,
    execute_all,
    opened,
    print_plans,
    run_until_available,
    run_until_stopped,
    to_print,
)
from windrow.console.scripts import explanations, explanations_on, read_script, to_script
from windrow.console.status import print_status, status_json, status_of
from windrow.console.tables import FORMATS, messages, output, print_error, say
from windrow.errors import SettingError, StateError, WindrowError
from windrow.logs import LOGGER, JsonLines
from windrow.settings import parse_value


class LogLevel(str, Enum):
    """The levels of `--log`."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


app = typer.Typer(
    name="windrow",
    help="Standing SQL over sliding windows of streams, on Apache Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ScriptFile = Annotated[
    Path, typer.Argument(metavar="APP.CQL", exists=True, dir_okay=False, help="A script of statements.")
]
State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        file_okay=False,
        help="The state directory; it is created if absent. Without it: a temporary one, gone at the end.",
    ),
]
Master = Annotated[str | None, typer.Option("--master", metavar="URL", help="Spark's master. [default: local\\[*]]")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting for this run; repeatable."),
]


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    log: Annotated[
        LogLevel, typer.Option("--log", help="What to log to standard error, from this level up.")
    ] = LogLevel.WARNING,
    log_json: Annotated[bool, typer.Option("--log-json", help="Log one JSON object per line.")] = False,
) -> None:
    if log is not LogLevel.WARNING or log_json:
        _log_to_stderr(log, log_json)
    if version:
        typer.echo(f"windrow {windrow.__version__}")
        raise typer.Exit


def _answer_format(text: str) -> AnswerFormat:
    try:
        return AnswerFormat.named(text)
    except ValueError:
        raise typer.BadParameter(f"It is one of {', '.join(AnswerFormat)}.") from None


@app.command()
def run(
    script: ScriptFile,
    until_available: Annotated[
        bool,
        typer.Option(
            "--until-available",
            help="Process everything that is there, end the input, so that all windows close, and exit.",
        ),
    ] = False,
    all_: Annotated[
        bool,
        typer.Option("--all", help="Print every answer with all its rows, not only the last ones."),
    ] = False,
    format_: Annotated[
        AnswerFormat | None,
        typer.Option(
            "--format",
            parser=_answer_format,
            metavar=f"<{'|'.join(AnswerFormat)}>",
            help="How to print the answers, all of them. \\[default: by --output, else table]",
        ),
    ] = None,
    output_: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="PATH",
            help="Write the answers, all of them, to a new file: .csv, .jsonl, .parquet or .md; or to a directory, "
            "with a file per query.",
        ),
    ] = None,
    explain_: Annotated[bool, typer.Option("--explain", help="Print the plans of the queries first.")] = False,
    state: State = None,
    master: Master = None,
    set_: Set = None,
) -> None:
    """Execute a script, then run its streams until Ctrl-C.

    Answers of queries without INTO are printed.
    The same script may be run again on the same state: streams, tables and
    queries that exist with the same text are kept, INSERT leaves out rows that
    are there already, and the run goes on from there.
    """
    with _commanding(str(script)) as interrupts:
        statements = read_script(script)
        wanted = AnswerOutput.of(all_, format_, output_)
        with opened(Target(state, master, _settings(set_)), interrupts) as wr:
            results = messages() if wanted.owns_stdout else output()
            execute_all(wr, statements, interrupts, "creating streams and queries…", results)
            if not wr.queries:
                say(messages(), "there is nothing to run: the script creates no query")
                return
            if explain_:
                print_plans(wr, wanted)
            printed = to_print(wr, statements)
            if not until_available:
                run_until_stopped(wr, printed, interrupts, wanted)
            elif suspended := run_until_available(wr, printed, interrupts, wanted):
                say(messages(), f"suspended by an error of its own: {', '.join(suspended)}", "bold red")
                raise typer.Exit(1)


@app.command()
def sql(
    statements: Annotated[
        list[str] | None,
        typer.Argument(metavar="STATEMENT", show_default=False, help="Statements to execute."),
    ] = None,
    state: State = None,
    read_only: Annotated[
        bool,
        typer.Option(
            "--read-only",
            help="Read the state that another process may be running: answers, dead letters, SHOW, DESCRIBE. "
            "Statements that change something are refused.",
        ),
    ] = False,
    master: Master = None,
    set_: Set = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help=f"How results are shown: {', '.join(FORMATS)}. \\[default: table on a terminal, else markdown]",
        ),
    ] = None,
) -> None:
    """Execute statements: those given, else from standard input, else in a shell.

    In the shell a statement ends with `;` and may take several lines.
    \\? lists its commands, \\h the statements; \\q leaves.
    """
    format_ = None if format_ is None else ALIASES.get(format_, format_)
    if format_ is not None and format_ not in FORMATS:
        raise typer.BadParameter(f"It is one of {', '.join(FORMATS)}.", param_hint="'--format'")
    from windrow.console.shell.session import LeaveShell, Shell, View, steps_of

    with _commanding() as interrupts:
        if read_only and state is None:
            raise StateError("--read-only needs a state directory", remedy="Name it with --state DIR.")
        is_interactive = not statements and sys.stdin.isatty()
        texts = [] if is_interactive else statements or [sys.stdin.read()]
        inputs = [steps_of(text) for text in texts]
        with opened(Target(state, master, _settings(set_), read_only), interrupts) as wr:
            if is_interactive:
                kept = "" if state else " The state is temporary: --state DIR keeps it."
                say(messages(), f"windrow {windrow.__version__}: end statements with ;  \\? helps, \\q leaves.{kept}")
                # Only here: a script needs no terminal, and no time to load what serves one.
                from windrow.console.shell.terminal import prompt

                cancels = Cancels(interrupts)
                with cancels:
                    prompt(Shell(wr, cancels, View(format_)), interrupts, cancels)
                return
            shell = Shell(wr, interrupts, View(format_))
            with suppress(LeaveShell):
                for steps in inputs:
                    shell.execute(steps)


@app.command()
def status(
    state: Annotated[Path, typer.Option("--state", metavar="DIR", file_okay=False, help="The state directory.")],
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")] = False,
) -> None:
    """Show what a state directory holds, and whether a process is running it.

    It takes no lock, writes nothing and does not start Spark.
    """
    with _commanding():
        found = status_of(state)
        if json_:
            typer.echo(status_json(found))
        else:
            print_status(output(), found)


@app.command("warm-up")
def warm_up() -> None:
    """Write an archive of Spark's classes (180 MB) once for this environment, so that Spark starts faster."""
    from windrow.dataplane.class_archive import ARCHIVE, write_archive

    with _commanding():
        with Progress("running Spark once and writing its classes…"):
            write_archive()
        say(output(), f"wrote {ARCHIVE}, {ARCHIVE.stat().st_size >> 20} MB")


@app.command()
def explain(
    query: Annotated[str, typer.Argument(metavar="APP.CQL|QUERY", help="A script, or the text of a query.")],
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="Explain against the streams of this state, which stays as it is.",
        ),
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option("--svg", metavar="FILE", dir_okay=False, help="Draw the plans into this file, as SVG."),
    ] = None,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="Print the plans as a Mermaid flowchart instead of text.")
    ] = False,
    master: Master = None,
) -> None:
    """Show the plans of the queries of a script, or of one query, without running anything."""
    is_file = os.path.isfile(query)  # Path.is_file() raises on a text that is too long for a name
    if not is_file and (query.endswith(".cql") or len(query.split()) == 1):
        raise typer.BadParameter(f"File '{query}' does not exist.", param_hint="'APP.CQL|QUERY'")
    with _commanding(query if is_file else None) as interrupts:
        if state is not None and not (state / "catalog.sqlite").exists():
            raise StateError(f"{state} is not a state directory", remedy="Name one that `windrow run` made.")
        script = read_script(Path(query)) if is_file else to_script(query)
        with opened(Target(state, master, {}), interrupts) as wr:
            with Progress("planning…"):
                plans = interrupts.background(
                    lambda: (
                        explanations(wr, script)
                        if state is None
                        else explanations_on(wr, script.statements, script.text)
                    )
                )
        show_plans(plans, svg, mermaid)


@app.command("check-history")
def check_history(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", exists=True, dir_okay=False, help="A recorded run, or a history like `rQ1\\[0] w5\\[0] c5`."
        ),
    ],
    level: Annotated[
        IsolationLevel | None,
        typer.Option("--level", help="What the history must be. \\[default: what each query claims, else latest]"),
    ] = None,
) -> None:
    """Decide which isolation a history of transactions has, and say what violates it.

    It exits with 1 if the history is not what it must be.
    """
    with _commanding(str(file)):
        if not report_history(file, level):
            raise typer.Exit(1)


@app.command()
def demo(
    seconds: Annotated[float, typer.Option(min=1, help="How long to run.")] = 60,
    rate: Annotated[int, typer.Option(min=1, max=10_000_000, help="Packets per second.")] = 20_000,
) -> None:
    """Simulated network traffic, six standing queries and a join, and their answers live."""
    with _commanding() as interrupts, opened(Target(None, None, {}), interrupts) as wr:
        run_demo(wr, seconds, rate, interrupts)


@app.command(context_settings={"ignore_unknown_options": True})
def bench(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Which one to run, or `all`.")] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", show_default=False, help="What to pass on to it.")
    ] = None,
) -> None:
    """List the benchmarks of the source checkout, or run one, or all.

    `windrow bench NAME -- --help` shows what a benchmark takes.
    """
    with _commanding() as interrupts:
        known = benchmarks()
        if name is None:
            width = max(map(len, known))
            say(output(), "\n".join(f"{n.ljust(width)}  {about(path)}" for n, path in known.items()))
            return
        for path in chosen(name, known):
            say(messages(), f"benchmark {path.stem}", "bold")
            code = run_benchmark(path, arguments or [])
            if code or interrupts.requested:
                raise typer.Exit(EXIT_CODE if interrupts.requested else code)


@contextmanager
def _commanding(where: str | None = None) -> Iterator[Interrupts]:
    """Run a command: Ctrl-C requests a stop; a WindrowError is printed without a traceback and exits with 1."""
    try:
        with Interrupts() as interrupts:
            yield interrupts
    except Interrupted:
        say(messages(), "stopped")
        raise typer.Exit(EXIT_CODE) from None
    except WindrowError as error:
        print_error(error, where)
        raise typer.Exit(1) from None


def _settings(items: Sequence[str] | None) -> dict[str, str]:
    """The values of `--set name=value`, checked before Spark starts."""
    settings = {}
    for item in items or ():
        name, equals, value = item.partition("=")
        if not equals:
            raise SettingError(f"'{item}' is not a setting", remedy="Write --set name=value.")
        parse_value(name.strip(), value.strip())
        settings[name.strip()] = value.strip()
    return settings


class _ToStderr(logging.Handler):
    """Writes to the current sys.stderr, which a live table replaces in order to print above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(f"{self.format(record)}\n")


class _Line(logging.Formatter):
    """Formats a record as a line for people; below warnings, with the time."""

    def format(self, record: logging.LogRecord) -> str:
        at = "" if record.levelno >= logging.WARNING else f"{self.formatTime(record, '%H:%M:%S')} "
        return f"{at}{record.levelname.lower()}: {super().format(record)}"


def _log_to_stderr(level: LogLevel, as_json: bool) -> None:
    handler = _ToStderr()
    handler.setFormatter(JsonLines() if as_json else _Line())
    if not as_json:  # CREATE QUERY prints it as a note already
        handler.addFilter(lambda record: getattr(record, "event", None) != "short_windows")
    LOGGER.handlers = [handler]
    LOGGER.setLevel(level.value.upper())
    LOGGER.propagate = False


def _quieten() -> None:
    """Hide the warnings of Windrow's libraries."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    for name in ("py4j", "pyspark", "SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def main() -> NoReturn:
    """Run the program. It exits with os._exit: everything is closed by then, and threads of an abandoned start or of
    Spark's callbacks must neither delay the exit nor print errors."""
    _quieten()
    _log_to_stderr(LogLevel.WARNING, as_json=False)
    code = 0
    try:
        app(prog_name="windrow")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    for stream in (sys.stdout, sys.stderr):
        with suppress(BrokenPipeError, ValueError):
            stream.flush()
    os._exit(code)
