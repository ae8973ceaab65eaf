"""Stream definitions: a checked CREATE STREAM statement."""

from __future__ import annotations

from dataclasses import dataclass, replace

from windrow.cql.statements import CreateStream, Late, Policy, Punctuate
from windrow.cql.tokens import nearest
from windrow.cql.window_clause import Measure, Unit
from windrow.cql.window_syntax import measure_text
from windrow.errors import BindError, UnsupportedError
from windrow.types import SqlType

RESERVED_PREFIX = "__"
PUNCTUATION = "punctuation"
"""The option that names the column of punctuations, and the default name of that column."""
MISSING_COLUMNS = "missing_columns"
"""The option that says whether declared columns may be missing in the data: 'error' or 'null'."""
ON_BAD_FILE = "on_bad_file"
"""The option that says what becomes of a file that cannot be read: 'stop' or 'skip'."""
CHANGEABLE = (MISSING_COLUMNS, ON_BAD_FILE)
"""The options that a repeated CREATE STREAM changes."""
DERIVED = "derived"
"""The source of a stream that is the output of a query (CREATE STREAM … AS)."""
Columns = tuple[tuple[str, SqlType], ...]


@dataclass(frozen=True)
class Punctuated:
    """A window attribute and its PUNCTUATE clause.

    `slack` is in points of the attribute, `slack_rows` in rows. `key` and `idle_after` belong to PER. `heartbeat` is
    the silence in microseconds after which the wall clock moves the frontier.
    """

    column: str
    type: SqlType
    policy: Policy
    slack: int = 0
    slack_rows: int | None = None
    key: str | None = None
    idle_after: int | None = None
    heartbeat: int | None = None


@dataclass(frozen=True)
class Retained:
    """RETAIN: tuples stay for `length` points of the punctuated column `axis` behind its frontier."""

    axis: str
    length: int


@dataclass(frozen=True)
class StreamDef:
    """A stream: its statement, typed columns, default window attribute, and punctuated columns."""

    statement: CreateStream
    columns: Columns
    attribute: str | None
    punctuated: tuple[Punctuated, ...]
    punctuation: str | None = None
    """The column of punctuations, for BY SOURCE: a record is a punctuation if it has a text there."""
    retained: Retained | None = None
    """What is kept for one-time queries (RETAIN)."""

    @property
    def name(self) -> str:
        return self.statement.name

    def type_of(self, column: str) -> SqlType:
        return dict(self.columns)[column]

    @property
    def has_arrival(self) -> bool:
        """Whether its tuples have an order of arrival that a replay repeats."""
        return self.statement.sequence_by is not None or self.statement.source.lower() in ("memory", "files", "nexmark")

    @property
    def attribute_type(self) -> SqlType:
        assert self.attribute is not None
        return self.type_of(self.attribute)

    @property
    def source_options(self) -> tuple[tuple[str, str], ...]:
        """The options that are passed to the source."""
        options = self.statement.options
        return options if self.punctuation is None else tuple(o for o in options if o[0].lower() != PUNCTUATION)

    @property
    def required(self) -> tuple[str, ...]:
        """The columns that the source must have: not those that may be missing, nor the column of punctuations, which
        only punctuations have."""
        options = {name.lower(): value.lower() for name, value in self.statement.options}
        if options.get(MISSING_COLUMNS) == "null":
            return ()
        return tuple(c.name for c in self.statement.columns if not c.may_miss and c.name != self.punctuation)

    def differs_in_leniency(self, statement: CreateStream) -> bool:
        """Whether a statement is that of the stream, except for which columns may be missing and
        whether bad files are skipped."""
        mine, other = self.statement, replace(statement, name=self.name, if_not_exists=self.statement.if_not_exists)
        return mine != other and _without_leniency(mine) == _without_leniency(other)

    @property
    def axes(self) -> dict[str, SqlType]:
        """The punctuated columns with their types."""
        return {p.column: p.type for p in self.punctuated}

    @property
    def is_derived(self) -> bool:
        """Whether its tuples are the output of a query."""
        return self.statement.source == DERIVED

    @property
    def heartbeats(self) -> list[Punctuated]:
        """The punctuated columns with HEARTBEAT AFTER."""
        return [p for p in self.punctuated if p.heartbeat is not None]

    @property
    def revises(self) -> bool:
        """Whether the stream has LATE REVISE: a late tuple corrects earlier answers."""
        return self.statement.late is Late.REVISE

    @property
    def late_reach(self) -> int | None:
        """How far below the frontier a late tuple still counts (LATE REVISE FOR d); None: any distance."""
        return None if self.statement.late_for is None else self.statement.late_for.amount

    def horizon(self, frontier: int) -> int | None:
        """The point below which no tuple is admitted; None if every tuple is."""
        if not self.revises:
            return frontier
        return None if self.late_reach is None else frontier - self.late_reach

    def punctuation_of(self, column: str) -> Punctuated | None:
        """The PUNCTUATE clause of a column; None if it has none, so that no window can lie on it."""
        return next((p for p in self.punctuated if p.column == column), None)


def _without_leniency(statement: CreateStream) -> CreateStream:
    """The statement without what it says of columns that may be missing, and of bad files."""
    columns = tuple(replace(column, may_miss=False) for column in statement.columns)
    options = tuple(option for option in statement.options if option[0].lower() not in CHANGEABLE)
    return replace(statement, columns=columns, options=options)


def define_stream(statement: CreateStream) -> StreamDef:
    """Check a CREATE STREAM and resolve its names; raises BindError."""
    columns = tuple((c.name, SqlType(c.type)) for c in statement.columns)
    if not columns:
        raise BindError(
            f"stream '{statement.name}' has no columns",
            remedy="List them: CREATE STREAM s (ts TIMESTAMP, …). Only streams FROM files can find them in their data.",
        )
    for name, _ in columns:
        if name.startswith(RESERVED_PREFIX):
            raise BindError(
                f"column '{name}': names that start with '{RESERVED_PREFIX}' are reserved",
                remedy=f"Call it for example {name.lstrip('_') or 'x'}.",
            )
    named = statement.timestamp_by or (statement.punctuate[0].column if statement.punctuate else None)
    attribute = None if named is None else _window_attribute(columns, named, "TIMESTAMP BY")
    punctuated: list[Punctuated] = []
    for clause in statement.punctuate:
        axis = _punctuated(columns, attribute, clause)
        if any(axis.column == other.column for other in punctuated):
            raise BindError(f"PUNCTUATE is given twice for '{axis.column}'", remedy="Keep one of the two.")
        punctuated.append(axis)
    if statement.sequence_by is not None:
        _column(columns, statement.sequence_by, "SEQUENCE BY")
    _check_late(statement, punctuated)
    _check_tick(statement, columns, attribute, punctuated)
    retained = _retained(statement, attribute, punctuated)
    punctuation = _punctuation_column(statement, columns)
    return StreamDef(statement, columns, attribute, tuple(punctuated), punctuation, retained)


def _retained(statement: CreateStream, attribute: str | None, punctuated: list[Punctuated]) -> Retained | None:
    """What RETAIN keeps: tuples by the default window attribute if it is punctuated, else by the first column that
    is."""
    if statement.retain is None:
        return None
    if not punctuated:
        raise BindError(
            "RETAIN needs a PUNCTUATE clause: without one nobody knows which tuples are old enough to go",
            remedy="Add PUNCTUATE ORDERED, or PUNCTUATE WITH SLACK 5 SECONDS.",
        )
    if statement.late is Late.REVISE:
        raise UnsupportedError(
            "RETAIN does not go with LATE REVISE: one-time queries over tuples that come late are not in this version",
            remedy="Leave RETAIN out, or use LATE DROP.",
        )
    axis = next((one for one in punctuated if one.column == attribute), punctuated[0])
    return Retained(axis.column, _length(axis.column, axis.type, statement.retain, "RETAIN"))


def _is_by_source(statement: CreateStream) -> bool:
    return any(clause.policy is Policy.BY_SOURCE for clause in statement.punctuate)


def _punctuation_column(statement: CreateStream, columns: Columns) -> str | None:
    """The column of punctuations of a stream with BY SOURCE; None for other streams."""
    if not _is_by_source(statement):
        return None
    named = {name.lower(): value for name, value in statement.options}.get(PUNCTUATION)
    remedy = "Declare it as a STRING column that is NULL in tuples, or name another: OPTIONS (punctuation 'column')."
    found = next((column for column in columns if column[0].lower() == (named or PUNCTUATION).lower()), None)
    if found is None:
        raise BindError(f"PUNCTUATE BY SOURCE needs a column '{named or PUNCTUATION}' for patterns", remedy=remedy)
    if found[1].name != "STRING":
        raise BindError(f"the column of punctuations '{found[0]}' is {found[1]}, not STRING", remedy=remedy)
    return found[0]


def _check_late(statement: CreateStream, punctuated: list[Punctuated]) -> None:
    """LATE REVISE needs a frontier, and d of FOR d must fit every punctuated column."""
    if statement.late is Late.REVISE and not punctuated:
        raise BindError("LATE REVISE needs a PUNCTUATE clause", remedy="Without one no tuple is late: leave it out.")
    for axis in punctuated if statement.late_for is not None else ():
        assert statement.late_for is not None
        _length(axis.column, axis.type, statement.late_for, "LATE REVISE FOR")


def _check_tick(statement: CreateStream, columns: Columns, attribute: str | None, punctuated: list[Punctuated]) -> None:
    """TICK must fit a column that windows may be on; other columns have the default."""
    axes = {axis.column: axis.type for axis in punctuated}
    if attribute is not None:
        axes.setdefault(attribute, dict(columns)[attribute])
    if statement.tick is None or any(_unit(kind) is statement.tick.unit for kind in axes.values()):
        return
    for column, kind in axes.items():
        _length(column, kind, statement.tick, "TICK")
    raise BindError("TICK needs a window attribute", remedy="Add TIMESTAMP BY column, or leave TICK out.")


def _unit(kind: SqlType) -> Unit:
    return Unit.TIME if kind.is_timestamp else Unit.VALUES


def _punctuated(columns: Columns, attribute: str | None, clause: Punctuate) -> Punctuated:
    if clause.column is None and attribute is None:
        raise BindError("PUNCTUATE needs a window attribute", remedy="Add TIMESTAMP BY column.")
    column = _window_attribute(columns, clause.column, "PUNCTUATE ON") if clause.column else attribute
    assert column is not None
    kind = dict(columns)[column]
    return replace(_policy(columns, column, kind, clause), heartbeat=_heartbeat(column, kind, clause.heartbeat))


def _policy(columns: Columns, column: str, kind: SqlType, clause: Punctuate) -> Punctuated:
    made = Punctuated(column, kind, clause.policy)
    if clause.policy is Policy.PER_KEY:
        assert clause.key is not None
        idle = None if clause.idle_after is None else _length(column, kind, clause.idle_after, "IDLE AFTER")
        return Punctuated(column, kind, clause.policy, key=_column(columns, clause.key, "PER"), idle_after=idle)
    if clause.slack is None:
        return made
    if clause.slack.unit is Unit.ROWS:
        return Punctuated(column, kind, clause.policy, slack_rows=clause.slack.amount)
    return Punctuated(column, kind, clause.policy, slack=_length(column, kind, clause.slack, "SLACK"))


def _heartbeat(column: str, kind: SqlType, measure: Measure | None) -> int | None:
    if measure is not None and not kind.is_timestamp:
        raise BindError(
            f"HEARTBEAT AFTER goes by the wall clock, and '{column}' is {kind}, not a time",
            remedy="Leave HEARTBEAT AFTER out; wr.punctuate(stream, upto) closes windows of a silent stream.",
        )
    return None if measure is None else measure.amount


def _length(column: str, kind: SqlType, measure: Measure, what: str) -> int:
    if measure.unit is not _unit(kind):
        unit = "a length of time" if kind.is_timestamp else "a plain number"
        raise BindError(
            f"{what} '{measure_text(measure)}' does not fit {column}: on {kind} it is {unit}",
            remedy=f"For example {what} {'5 SECONDS' if kind.is_timestamp else '100'}.",
        )
    return measure.amount


def _window_attribute(columns: Columns, wanted: str, clause: str) -> str:
    name = _column(columns, wanted, clause)
    kind = dict(columns)[name]
    if not kind.is_window_attribute:
        raise BindError(
            f"'{name}' is {kind}; a window attribute is a TIMESTAMP or an integer column",
            remedy=f"Declare it as {name} TIMESTAMP or {name} BIGINT, as the data is, or name another column.",
        )
    return name


def _column(columns: Columns, wanted: str, clause: str) -> str:
    for name, _ in columns:
        if name.lower() == wanted.lower():
            return name
    names = [name for name, _ in columns]
    near = nearest(wanted, names)
    hint = f"Did you mean '{near}'? " if near else ""
    raise BindError(
        f"{clause} names '{wanted}', which is not a column of the stream", remedy=f"{hint}It has: {', '.join(names)}."
    )
