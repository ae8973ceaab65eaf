"""Runs a `.test` file against the engine or the oracle and compares the answers with the written ones.

No other module for `.test` files knows how the engine is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

from sqlglot import exp

from support.matrix import Variation
from support.replay import Change, ReplayMismatch, changes_of, check_replay, replay
from support.test_file import (
    Advance,
    Answers,
    Cell,
    Changes,
    Close,
    Command,
    Compared,
    DeadLetters,
    Feed,
    Net,
    Now,
    Punctuate,
    Restart,
    Revisions,
    Since,
    Snapshot,
    Statement,
    TestFile,
    View,
    feed_rows,
    join_cells,
    matches,
    parse_time,
    render,
    value_of,
)
from windrow.cql import parse
from windrow.cql.dialect import window_of
from windrow.cql.statements import (
    AlterQuery,
    CreateDerivedStream,
    CreateQuery,
    CreateStream,
    Describe,
    Explain,
    LoadRows,
    Policy,
    Select,
    Show,
)
from windrow.cql.window_clause import WindowClause, WindowKind
from windrow.dataplane.plan_stages import PlanStages
from windrow.engine.plans.due import TickGrid
from windrow.errors import UnsupportedError, WindrowError
from windrow.oracle import Oracle
from windrow.oracle.values import sort_key
from windrow.testing import ManualClock
from windrow.types import SqlType, point_of

Row = tuple[Any, ...]
Begin = int | None | Mapping[str, int | None]
"""The point from which a query counts tuples, or that of each stream; None: from the first."""
START = "2030-01-01 00:00:00"
"""The wall clock of a test that does not set it: later than all test data."""

ENGINE_REASONS = ("null_key", "deleted_key", "malformed", "null", "range", "future", "late")


class Mismatch(AssertionError):
    """The answers differ from the written ones, or from the oracle's."""


class Backend(Protocol):
    """What a test file runs against: the engine or the oracle."""

    def sql(self, text: str) -> None: ...

    def deposit(self, stream: str, rows: list[dict[str, Any]]) -> None: ...

    def punctuate(self, stream: str, upto: Any, column: str | None, pattern: dict[str, Any]) -> None: ...

    def end_input(self, stream: str) -> None: ...

    def answers(self, query: str) -> list[Row]: ...

    def revisions(self, query: str) -> list[Row]: ...

    def changes(self, query: str) -> list[Row] | None: ...

    def view(self, query: str) -> list[Row]: ...

    def ask(self, text: str, at: Any) -> tuple[Any, list[Row]] | None:
        """The rows of a one-time query, and what they are as of; None if the backend cannot tell. `at`: what the file
        says that they are of, None if it says nothing."""

    def dead_letters(self, stream: str) -> Counter[str]: ...

    def begin(self, query: str, point: Begin) -> None: ...

    def restart(self) -> None: ...

    def close(self) -> None: ...


class OracleBackend:
    """The oracle. It checks nothing, so statements that change no answer are skipped."""

    checks_errors = False

    def __init__(self, spark: Any, clock: ManualClock):
        self.oracle = Oracle(spark, clock)

    def sql(self, text: str) -> None:
        ignored = Show | Describe | Explain | Select | CreateDerivedStream | LoadRows | AlterQuery
        if not any(isinstance(s, ignored) for s in parse(text)):
            self.oracle.sql(text)

    def deposit(self, stream: str, rows: list[dict[str, Any]]) -> None:
        self.oracle.deposit(stream, rows)

    def punctuate(self, stream: str, upto: Any, column: str | None, pattern: dict[str, Any]) -> None:
        self.oracle.punctuate(stream, upto, column, **pattern)

    def end_input(self, stream: str) -> None:
        self.oracle.end_input(stream)

    def answers(self, query: str) -> list[Row]:
        return self.oracle.answers(query).rows

    def revisions(self, query: str) -> list[Row]:
        return self.oracle.revisions(query)

    def changes(self, query: str) -> None:
        """The oracle has no changes of its own: it judges those of others (`check_changes`)."""

    def check_changes(self, query: str, rows: Sequence[Sequence[Cell]]) -> None:
        """Compare the oracle's relation at every tick with what the written changes give. Raises ReplayMismatch."""
        kind = self.oracle.plan(query).attribute
        changes = [_written_change(cells, kind) for cells in rows]
        check_replay(changes, self.oracle, query, lambda some, rows: same_answers(some, rows, False), tuple.__eq__)

    def view(self, query: str) -> list[Row]:
        due = self.oracle.due(query)
        return [] if due is None else self.oracle.relation(query, due.last)

    def ask(self, text: str, at: Any) -> tuple[Any, list[Row]] | None:
        """By definition, at the instant that the file says; None: it reads what the oracle has not."""
        instant = point_of(at, SqlType("TIMESTAMP")) if isinstance(at, datetime) else at
        try:
            return at, self.oracle.ask(text, instant)[1]
        except UnsupportedError:
            return None

    def dead_letters(self, stream: str) -> Counter[str]:
        return Counter(letter.reason.value for letter in self.oracle.dead_letters(stream))

    def begin(self, query: str, point: Begin) -> None:
        self.oracle.begin(query, point)

    def restart(self) -> None:
        """The oracle keeps no state that a restart could lose."""

    def close(self) -> None:
        """Nothing is held."""


def _written_change(cells: Sequence[Cell], kind: SqlType) -> Change:
    op, ts, exp, *row = cells
    ends = None if exp == Cell("NULL") else point_of(value_of(exp, kind), kind)
    return Change(op.text, point_of(value_of(ts, kind), kind), ends, tuple(row))


INDEXES = {"interval": "interval", "running": "running", "landmark": "landmark interval"}
"""The value of the setting `synopsis` for an evaluation."""


class EngineBackend:
    """The engine on its own state directory."""

    checks_errors = True

    def __init__(self, spark: Any, clock: ManualClock, state_dir: Path, variation: Variation):
        self._spark, self._clock, self._state_dir, self._variation = spark, clock, state_dir, variation
        evaluation, home, synopsis, holistic = variation.evaluation, "driver", "auto", "auto"
        if evaluation == "spark_home":
            evaluation, home = "window_ids", "spark"
        elif evaluation in INDEXES:
            evaluation, synopsis = "window_ids", INDEXES[evaluation]
        elif evaluation == "selection":
            evaluation, holistic = "window_ids", evaluation
        self._settings = {
            "preaggregate": variation.preaggregate,
            "window_evaluation": evaluation,
            "synopsis_home": home,
            "synopsis": synopsis,
            "holistic": holistic,
            "substream_filters": variation.filters,
        }
        if variation.rules_off:
            off = [variation.rules_off] if isinstance(variation.rules_off, str) else rule_names()
            self._settings["disabled_rules"] = ",".join(off)
        if variation.plan_home != "auto":
            self._settings["plan_home"] = variation.plan_home
        if variation.plan_home == "spark":  # then Spark builds the state of queries that are replaced, where it can
            self._settings["driver_plan_bytes"] = "1 B"
        if variation.execution != "upa":
            self._settings["execution"] = variation.execution
        if variation.asked != "auto":
            self._settings["ask_home"] = variation.asked
        if variation.tables == "bucketed":
            self._settings["broadcast_table_bytes"] = "0 B"
        self.refused: list[str] = []
        """The statements that the strategy of the variation refused, and so ran by the default one."""
        self.engine = self._open()

    def _open(self) -> Any:
        import windrow

        return windrow.open(str(self._state_dir), spark=self._spark, settings=dict(self._settings), clock=self._clock)

    def sql(self, text: str) -> None:
        """Execute statements; a query that the strategy of this variation refuses runs by the default one."""
        try:
            self.engine.sql(text)
        except UnsupportedError as error:
            if not error.message.startswith("execution ="):
                raise
            self.refused.append(text)
            self.engine.sql("SET execution = 'upa'")
            self.engine.sql(text)
            self.engine.sql(f"SET execution = '{self._variation.execution}'")

    def deposit(self, stream: str, rows: list[dict[str, Any]]) -> None:
        self.engine.deposit(stream, rows, partitions=self._variation.partitions)

    def punctuate(self, stream: str, upto: Any, column: str | None, pattern: dict[str, Any]) -> None:
        on = {} if column is None else {"column": column}
        self.engine.punctuate(stream, upto, **on, **pattern)

    def end_input(self, stream: str) -> None:
        self.engine.end_input(stream)

    def answers(self, query: str) -> list[Row]:
        table = self.engine.queries[query].answers().arrow()
        wanted = list(table.column_names)
        revision = wanted.index("is_revision")
        columns = [column.to_pylist() for i, column in enumerate(table.columns) if i != revision]
        return list(zip(*columns, strict=True))

    def revisions(self, query: str) -> list[Row]:
        """All deliveries in order: op, revision, window_start, window_end, then the select list."""
        return _rows(self.engine.queries[query].revisions().arrow())

    def changes(self, query: str) -> list[Row]:
        """All changes in the order of their ticks: op, ts, exp, then the select list."""
        return _rows(self.engine.queries[query].changes().arrow())

    def same_changes(self, query: str, written: Sequence[Sequence[Cell]], found: Sequence[Row]) -> None:
        """Compare what stands at every tick that the query has passed, since it took the place of another. Raises
        ReplayMismatch."""
        running = self.engine._engine.plans.query(query)
        plan, ticked, past = running.plan, running.progress.ticked, running.choices.begins_after
        mine = [_written_change(cells, plan.point) for cells in written]
        theirs = changes_of(found, plan.point)
        grid = TickGrid(plan.step, plan.origin)
        points = {point for one in (*mine, *theirs) for point in (one.ts, one.exp) if point is not None}
        ticks = [tick for tick in map(grid.above, points) if ticked is not None and tick <= ticked]
        ticks = ticks if past is None else [tick for tick in {*ticks, past} if tick >= past]
        expected = replay(mine, ticks, grid.above, tuple.__eq__)
        for tick, rows in replay(theirs, ticks, grid.above).items():
            if not same_answers(expected[tick], rows, False):
                raise ReplayMismatch(f"{query} at tick {tick}\n{difference(expected[tick], rows)}")

    def view(self, query: str) -> list[Row]:
        return _rows(self.engine.queries[query].view().arrow())

    def ask(self, text: str, at: Any) -> tuple[Any, list[Row]]:
        found = self.engine.sql(text)
        return found.window, _rows(found.arrow())

    def dead_letters(self, stream: str) -> Counter[str]:
        rows = self.engine.sql(f"SELECT * FROM dead_letters('{stream}')").rows()
        found: Counter[str] = Counter()
        for row in rows:
            found[reason_of(row)] += row["rows"]
        return found

    def since(self, query: str) -> Begin:
        """The point from which the query counts tuples, or that of each stream of a continuous query."""
        engine = self.engine._engine
        if engine.plans.has(query):
            held = engine.plans.query(query)
            each = {window.stream: use.since for window, use in zip(held.plan.windows, held.uses, strict=True)}
            return each if any(point is not None for point in each.values()) else None
        since: Begin = engine.manager.query(query)[1].since
        return since

    def begin(self, query: str, point: Begin) -> None:
        """The engine must begin the query at the point that the file gives."""
        begins = self.since(query)
        if begins != point:
            raise Mismatch(f"query {query!r} begins at {begins}, not at {point}")

    def restart(self) -> None:
        self.engine.close()
        self.engine = self._open()

    def close(self) -> None:
        self.engine.close()


def _rows(table: Any) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def reason_of(row: Any) -> str:
    """The word for a dead letter's reason in test files."""
    text = str(row["reason"]).lower()
    for word in ENGINE_REASONS:
        if word.replace("_", " ") in text:
            return word
    raise Mismatch(f"a dead letter with the unknown reason {text!r}")


def rule_names() -> list[str]:
    """The rules that `disabled_rules` can switch off."""
    from windrow.settings import SHARING_RULES

    return [*SHARING_RULES, *plan_rules()]


def plan_rules() -> list[str]:
    """The rules of continuous plans that `disabled_rules` can switch off."""
    from windrow import settings

    return list(getattr(settings, "PLAN_RULES", ()))


class Run:
    """One run of one file on one backend."""

    def __init__(self, test: TestFile, backend: Backend, clock: ManualClock, variation: Variation):
        self.test, self.backend, self.clock, self.variation = test, backend, clock, variation
        self.types: dict[str, dict[str, SqlType]] = {}
        self.attributes: dict[str, str] = {}
        self.queries: dict[str, CreateQuery] = {}
        self.streams_of: dict[str, str] = {}
        self.seen: dict[str, list[Row]] = {}
        self.delivered: dict[str, list[Row]] = {}
        self.changed: dict[str, list[Row]] = {}
        self.written: dict[str, list[Sequence[Cell]]] = {}
        self.windows: dict[str, WindowClause | None] = {}
        self.closes_groups: set[str] = set()
        self.completed: dict[int, list[str]] = {}

    def run(self, complete: bool = False) -> None:
        """Raises Mismatch at the first difference. With `complete`, collects the answers for `????` in `completed`."""
        for command in recut(self.test, self.variation.batch_rows):
            handler: Callable[..., None] = getattr(self, f"_{type(command).__name__.lower()}")
            if isinstance(command, Compared):
                handler(command, complete)
            else:
                handler(command)

    def _statement(self, command: Statement) -> None:
        if command.error is not None:
            self._failing_statement(command)
            return
        try:
            self.backend.sql(command.text)
        except WindrowError as error:
            raise Mismatch(f"{self._at(command)}: the statement failed:\n{error}") from error
        for statement in parse(command.text):
            self._remember(statement)

    def _failing_statement(self, command: Statement) -> None:
        if not getattr(self.backend, "checks_errors", True):
            return
        expected = command.error or ""
        try:
            self.backend.sql(command.text)
        except WindrowError as error:
            if error.code != expected and expected.lower() not in str(error).lower():
                raise Mismatch(f"{self._at(command)}: expected an error with {expected!r}, got\n{error}") from error
            return
        raise Mismatch(f"{self._at(command)}: expected an error with {expected!r}; the statement was accepted")

    def _remember(self, statement: Any) -> None:
        if isinstance(statement, CreateStream):
            self.types[statement.name] = {c.name: SqlType(c.type) for c in statement.columns}
            self.attributes[statement.name] = statement.timestamp_by or ""
            if any(clause.policy is Policy.BY_SOURCE for clause in statement.punctuate):
                self.closes_groups.add(statement.name)
        elif isinstance(statement, CreateQuery):
            tables = list(statement.select.find_all(exp.Table))
            table = next((one for one in tables if window_of(one) is not None), tables[0])
            self.queries[statement.name] = statement
            self.streams_of[statement.name] = table.name
            self.windows[statement.name] = window_of(table)
            if not (statement.or_replace and statement.name in self.seen):  # else what was reported stays
                self.seen[statement.name], self.delivered[statement.name] = [], []
                self.changed[statement.name], self.written[statement.name] = [], []

    def _feed(self, command: Feed) -> None:
        rows = feed_rows(command, self.types[command.stream])
        self.backend.deposit(command.stream, rows)
        if self.variation.restart:
            self.backend.restart()

    def _now(self, command: Now) -> None:
        self.clock.set(command.now_us)

    def _advance(self, command: Advance) -> None:
        self.clock.advance(command.by_us / 1e6)

    def _punctuate(self, command: Punctuate) -> None:
        types = self.types[command.stream]
        pattern = {name: value_of(cell, types[name]) for name, cell in command.pattern}
        if pattern:
            self.closes_groups.add(command.stream)
        upto = self._value(command.stream, command.upto, command.column)
        self.backend.punctuate(command.stream, upto, command.column, pattern)

    def _close(self, command: Close) -> None:
        self.backend.end_input(command.stream)

    def _restart(self, command: Restart) -> None:
        self.backend.restart()

    def _since(self, command: Since) -> None:
        """A point on the query's axis: a row number if its window counts rows."""
        stream, window = self.streams_of[command.query], self.windows[command.query]
        if command.points:
            self.backend.begin(command.query, {name: self._begins(name, at) for name, at in command.points.items()})
        elif command.point == "all":
            self.backend.begin(command.query, None)
        elif window is not None and window.kind is WindowKind.ROWS:
            self.backend.begin(command.query, int(command.point))
        else:
            column = (window and (window.rattr or window.wattr)) or self.attributes[stream]
            value = self._value(stream, command.point, column)
            self.backend.begin(command.query, point_of(value, self.types[stream][column]))

    def _begins(self, stream: str, text: str) -> int | None:
        kind = self.types[stream][self.attributes[stream]]
        return None if text == "all" else point_of(self._value(stream, text), kind)

    def _value(self, stream: str, text: str, column: str | None = None) -> Any:
        return value_of(Cell(text), self.types[stream][column or self.attributes[stream]])

    def _deadletters(self, command: DeadLetters) -> None:
        found = self.backend.dead_letters(command.stream)
        if +found != Counter(command.counts):
            raise Mismatch(f"{self._at(command)}: dead letters are {dict(found)}, not {dict(command.counts)}")

    def _answers(self, command: Answers, complete: bool) -> None:
        ordered = self.queries[command.query].select.args.get("order") is not None
        self._compare(command, self._new_answers(command), ordered, complete)

    def _net(self, command: Net, complete: bool) -> None:
        ordered = self.queries[command.query].select.args.get("order") is not None
        self._compare(command, self.backend.answers(command.query), ordered, complete)

    def _revisions(self, command: Revisions, complete: bool) -> None:
        """Compare the deliveries since the last look. Earlier ones must be unchanged."""
        every, before = self.backend.revisions(command.query), self.delivered[command.query]
        if not _same_text(every[: len(before)], before):
            raise Mismatch(f"{self._at(command)}: what {command.query} had delivered has changed")
        self.delivered[command.query] = every
        self._compare(command, every[len(before) :], False, complete)

    def _changes(self, command: Changes, complete: bool) -> None:
        """Compare the changes since the last look; earlier ones must be unchanged. The oracle replays all of them."""
        every, before = self.backend.changes(command.query), self.changed[command.query]
        if every is None:
            self._replay(command)
            return
        if not _same_text(every[: len(before)], before):
            raise Mismatch(f"{self._at(command)}: earlier changes of {command.query} have changed")
        self.changed[command.query] = every
        is_built = self.variation.plan_home == "spark" and self.queries[command.query].or_replace
        self.written[command.query] += command.rows or ()
        if self.variation.execution == "upa" and not is_built:
            self._compare(command, every[len(before) :], False, complete)
            return
        try:  # strategies differ in what they predict and what they withdraw; rows that Spark built, in their births
            self.backend.same_changes(command.query, self.written[command.query], every)  # type: ignore[attr-defined]
        except ReplayMismatch as error:
            raise Mismatch(f"{self._at(command)}: {error}") from error

    def _replay(self, command: Changes) -> None:
        if command.rows is None:
            raise Mismatch(f"{self._at(command)}: only the engine can complete changes")
        self.written[command.query] += command.rows
        try:
            self.backend.check_changes(command.query, self.written[command.query])  # type: ignore[attr-defined]
        except ReplayMismatch as error:
            raise Mismatch(f"{self._at(command)}: {error}") from error

    def _view(self, command: View, complete: bool) -> None:
        ordered = self.queries[command.query].select.args.get("order") is not None
        self._compare(command, self.backend.view(command.query), ordered, complete)

    def _snapshot(self, command: Snapshot, complete: bool) -> None:
        """Ask, and compare the rows; what they are as of must be what the file says."""
        (statement,) = parse(command.text)
        assert isinstance(statement, Select)
        at = None if command.at is None else _moment(command.at)
        try:
            found = self.backend.ask(command.text, at)
        except WindrowError as error:
            raise Mismatch(f"{self._at(command)}: the question failed:\n{error}") from error
        if found is None:
            return
        if at is not None and found[0] != at:
            raise Mismatch(f"{self._at(command)}: the answer is as of {found[0]}, not of {at}")
        self._compare(command, found[1], statement.select.args.get("order") is not None, complete)

    def _compare(self, command: Compared, new: list[Row], ordered: bool, complete: bool) -> None:
        apart = self._partition(command.query) if ordered else None
        if not ordered:
            new = sorted(new, key=sort_key)
        if command.rows is None:
            if not complete:
                raise Mismatch(f"{self._at(command)}: the block is not completed")
            self.completed[command.line] = [join_cells([render(value) for value in row]) for row in new]
        elif not same_answers(command.rows, new, ordered, apart):
            raise Mismatch(f"{self._at(command)}: {command.query}\n{difference(command.rows, new)}")

    def _partition(self, query: str) -> list[int] | None:
        """The columns of an answer row that hold its window and partition, since partitions have no order."""
        window = self.windows.get(query)
        if window is None or not window.pattr:
            return None
        names = [item.alias_or_name.lower() for item in self.queries[query].select.expressions]
        return [0, 1, *(2 + i for i, name in enumerate(names) if name in {one.lower() for one in window.pattr})]

    def _new_answers(self, command: Answers) -> list[Row]:
        """The answers since the last look. Earlier ones must be unchanged, in the same order."""
        every = self.backend.answers(command.query)
        before = self.seen[command.query]
        now_before = every[: len(before)]
        if not _same_text(now_before, before):
            raise Mismatch(f"{self._at(command)}: earlier answers of {command.query} have changed")
        ends = [row[1] for row in every]
        early = self.streams_of[command.query] in self.closes_groups
        if not early and self._partition(command.query) is None and ends != sorted(ends):
            raise Mismatch(f"{self._at(command)}: the answers of {command.query} are not in window order")
        self.seen[command.query] = every
        return every[len(before) :]

    def _at(self, command: Command) -> str:
        return f"{self.test.path}:{command.line} [{self.variation}]"


def _moment(text: str) -> Any:
    """A point as written: a time, or a number."""
    return int(text) if text.lstrip("-").isdigit() else parse_time(text)


def _same_text(some: Sequence[Row], others: Sequence[Row]) -> bool:
    return [tuple(map(render, row)) for row in some] == [tuple(map(render, row)) for row in others]


def same_answers(
    written: Sequence[Sequence[Cell]], found: Sequence[Row], ordered: bool, apart: Sequence[int] | None = None
) -> bool:
    """Compare row by row. Without ORDER BY the rows of a window may come in any order.

    Rows that differ in the columns `apart` may come in any order even with ORDER BY.
    """
    if len(written) != len(found):
        return False
    if ordered and apart is not None:
        written = sorted(written, key=lambda cells: [cells[i].text for i in apart])
        found = sorted(found, key=lambda row: [render(row[i]).text for i in apart])
    if ordered:
        return all(_same_row(cells, row) for cells, row in zip(written, found, strict=True))
    left = list(found)
    for cells in written:
        for i, row in enumerate(left):
            if _same_row(cells, row):
                del left[i]
                break
        else:
            return False
    return True


def _same_row(cells: Sequence[Cell], row: Row) -> bool:
    return len(cells) == len(row) and all(map(matches, cells, row))


def difference(written: Sequence[Sequence[Cell]], found: Sequence[Row]) -> str:
    expected = [join_cells(cells) for cells in written]
    actual = [join_cells([render(value) for value in row]) for row in found]
    return "\n".join(["  written:", *map("    ".__add__, expected), "  found:", *map("    ".__add__, actual)])


def recut(test: TestFile, batch_rows: int | None) -> Iterator[Command]:
    """The file's commands; if the file allows it, with the rows of adjacent feeds of a stream cut anew."""
    if batch_rows is None or not test.recut_ok:
        yield from test.commands
        return
    held: list[Feed] = []
    for command in test.commands:
        if isinstance(command, Feed) and (not held or _joins(held[-1], command)):
            held.append(command)
            continue
        yield from _cut(held, batch_rows)
        held = []
        if isinstance(command, Feed):
            held.append(command)
        else:
            yield command
    yield from _cut(held, batch_rows)


def _joins(one: Feed, next_: Feed) -> bool:
    return one.stream == next_.stream and one.json == next_.json


def _cut(feeds: list[Feed], batch_rows: int) -> Iterator[Feed]:
    lines = [line for feed in feeds for line in feed.lines]
    step = batch_rows or max(1, len(lines))
    for i in range(0, len(lines), step):
        yield Feed(feeds[0].line, feeds[0].stream, tuple(lines[i : i + step]), feeds[0].json)


def run_on_oracle(test: TestFile, spark: Any) -> Run:
    clock = ManualClock(START)
    run = Run(test, OracleBackend(spark, clock), clock, Variation())
    run.run()
    return run


def run_on_engine(test: TestFile, spark: Any, state_dir: Path, variation: Variation) -> Run:
    """`refused` of the run's backend, which is printed as well (`pytest -rP`), did not run by the variation's strategy."""
    clock = ManualClock(START)
    backend = EngineBackend(spark, clock, state_dir, variation)
    run = Run(test, backend, clock, variation)
    try:
        with in_ranges(variation.ranges):
            run.run()
    finally:
        backend.close()
    if variation.execution != "upa":
        created = sum(isinstance(one, Statement) and "CREATE QUERY" in one.text.upper() for one in test.commands)
        print(f"by execution = '{variation.execution}': all but {len(backend.refused)} of {created} CREATE QUERY")
    return run


@contextmanager
def in_ranges(count: int) -> Iterator[None]:
    """Spark cuts the plans of continuous queries into so many ranges of buckets, each of which is a task; 0: as usual."""
    with patch.object(PlanStages, "cores", count) if count else nullcontext():
        yield
