"""Admission, by replaying the full history: which tuples of a stream count, and why the others do not.

A history lists what happened to a stream: micro-batches as they were fed, punctuations by hand, and the end of the
input. No state is kept; every answer replays the history. A tuple is late if it is below the frontier at the end of the
previous micro-batch. Only tuples on time advance a frontier or let a key join.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from windrow.cql.statements import CreateStream, Late, Policy, Punctuate
from windrow.errors import UnsupportedError
from windrow.oracle.frontiers import policy_of
from windrow.oracle.patterns import ALWAYS, BadPattern, OracleCondition, Pattern, parse_pattern
from windrow.oracle.values import Misfit, fit
from windrow.types import SqlType, point_of, value_of

Row = Mapping[str, Any]


POINT_BOUND = 10**18 - 1
"""Points beyond ± this are refused, so that every window edge fits an int64."""


class Reason(Enum):
    """Why a record is a dead letter: the first reason that applies, in this order."""

    MALFORMED = "malformed"
    NULL = "null"
    RANGE = "range"
    FUTURE = "future"
    LATE = "late"
    NULL_KEY = "null_key"
    DELETED_KEY = "deleted_key"
    """The last two: a table that the stream feeds could not take it."""


@dataclass(frozen=True)
class Batch:
    """One micro-batch. `max_future_us` None allows any timestamp; `generous` is the meaning of slack at that time."""

    rows: Sequence[Row | Sequence[Any]]
    now_us: int = 0
    max_future_us: int | None = None
    generous: bool = False


@dataclass(frozen=True)
class Punctuation:
    """A promise by hand: no more tuples with `column` below `upto` that meet the other conditions."""

    column: str
    upto: int
    others: tuple[OracleCondition, ...] = ()


@dataclass(frozen=True)
class End:
    """The end of the input: every window closes."""


Event = Batch | Punctuation | End


@dataclass(frozen=True)
class OracleDeadLetter:
    reason: Reason
    row: Row


@dataclass(frozen=True)
class Arrival:
    """A tuple that counts, with its row number and the event it came with.

    A `lasting` tuple counts in every window that holds it. One that is not (late, under generous slack) counts only in
    windows that were unanswered when it came. A late and lasting tuple revises answers.
    """

    row: Row
    number: int
    event: int
    late: bool = False
    lasting: bool = True


@dataclass(frozen=True)
class Instant:
    """The state after an event: a frontier per window attribute, the number of tuples, whether the input has ended."""

    frontiers: Mapping[str, int | None]
    count: int
    ended: bool


@dataclass(frozen=True)
class OraclePromise:
    """A pattern, and the event from which it holds."""

    event: int
    pattern: Pattern


@dataclass
class Admitted:
    """The outcome of a history: tuples that count, dead letters, and a frontier per window attribute.

    A frontier of None promises nothing yet; `ended` promises everything.
    """

    arrivals: list[Arrival] = field(default_factory=list)
    dead: list[OracleDeadLetter] = field(default_factory=list)
    frontiers: dict[str, int | None] = field(default_factory=dict)
    ended: bool = False
    instants: list[Instant] = field(default_factory=list)
    promises: list[OraclePromise] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        return [arrival.row for arrival in self.arrivals]


IsHeld = Callable[[Row, int, Admitted], bool]
"""Whether a query that existed at that event has an unanswered window that holds the late tuple."""


def types_of(stream: CreateStream) -> dict[str, SqlType]:
    return {column.name: SqlType(column.type) for column in stream.columns}


def attributes_of(stream: CreateStream) -> dict[str, Punctuate]:
    """The window attributes of a stream: the columns that a PUNCTUATE clause covers."""
    found: dict[str, Punctuate] = {}
    for clause in stream.punctuate:
        name = clause.column or stream.timestamp_by
        if name is None:
            raise UnsupportedError("PUNCTUATE without a column needs TIMESTAMP BY")
        found[column_named(stream, name)] = clause
    return found


def column_named(stream: CreateStream, name: str) -> str:
    """The stream's column of that name, ignoring case."""
    for column in stream.columns:
        if column.name.lower() == name.lower():
            return column.name
    raise UnsupportedError(f"stream '{stream.name}' has no column '{name}'")


def punctuation_column(stream: CreateStream) -> str | None:
    """The column whose text makes a record a punctuation, if the source sends punctuations."""
    if not any(clause.policy is Policy.BY_SOURCE for clause in stream.punctuate):
        return None
    return column_named(stream, dict(stream.options).get("punctuation", "punctuation"))


def admit(stream: CreateStream, history: Sequence[Event], is_held: IsHeld | None = None) -> Admitted:
    """Replay a history. `is_held` is called only for late tuples of micro-batches with generous slack."""
    return _Replay(stream, is_held or (lambda row, event, state: False)).run(history)


class _Replay:
    def __init__(self, stream: CreateStream, is_held: IsHeld):
        self.stream, self.is_held = stream, is_held
        self.types, self.attributes = types_of(stream), attributes_of(stream)
        self.flag = punctuation_column(stream)
        keys = {name: clause.key and column_named(stream, clause.key) for name, clause in self.attributes.items()}
        self.policies = {name: policy_of(clause, keys[name]) for name, clause in self.attributes.items()}
        self.state = Admitted(frontiers=dict.fromkeys(self.attributes))

    def run(self, history: Sequence[Event]) -> Admitted:
        state = self.state
        for index, event in enumerate(history):
            if isinstance(event, End):
                state.ended = True
            elif isinstance(event, Punctuation):
                self._promise(index, _by_hand(event, self.types[event.column]))
            else:
                self._batch(index, event)
            state.instants.append(Instant(dict(state.frontiers), len(state.arrivals), state.ended))
        return state

    def _batch(self, index: int, batch: Batch) -> None:
        """Judge all rows against the promises before the batch; the batch's own promises hold from its end on."""
        on_time: list[Row] = []
        patterns: list[Pattern] = []
        number = len(self.state.arrivals)
        arrived: list[Arrival] = []
        for raw in batch.rows:
            named = dict(raw) if isinstance(raw, Mapping) else dict(zip(self.types, raw, strict=True))
            try:
                row = {name: fit(named.get(name), kind) for name, kind in self.types.items()}
                if self.flag is not None and row[self.flag] is not None:
                    patterns.append(self._pattern(row[self.flag]))
                    continue
            except (Misfit, BadPattern):
                self.state.dead.append(OracleDeadLetter(Reason.MALFORMED, named))
                continue
            arrival = self._arrival(row, number + len(arrived) + 1, index, batch)
            if arrival is not None:
                arrived.append(arrival)
                on_time += [] if arrival.late else [row]
        self.state.arrivals += arrived
        for name, policy in self.policies.items():
            policy.take([(point_of(row[name], self.types[name]), row) for row in on_time])
            self._advance(name, policy.frontier())
        for pattern in patterns:
            self._promise(index, pattern)

    def _pattern(self, text: str) -> Pattern:
        pattern = parse_pattern(text, self.types)
        for name in self.attributes:
            pattern.bound(name, self.types[name])
        if self.stream.late is Late.REVISE and self._moved_by(pattern) is None:
            raise BadPattern("answers that are corrected are not given early, group by group")
        return pattern

    def _arrival(self, row: Row, number: int, index: int, batch: Batch) -> Arrival | None:
        """The tuple as it counts, or None if it became a dead letter."""
        reasons = [r for name in self.attributes if (r := _unfit(row[name], self.types[name], batch))]
        if reasons:
            self.state.dead.append(OracleDeadLetter(min(reasons, key=list(Reason).index), row))
            return None
        behind = self._behind(row)
        if not behind:
            return Arrival(row, number, index)
        if self._in_reach(behind):
            return Arrival(row, number, index, late=True)
        broken = any(p.pattern.met_by(row) and not self._overtaken(p.pattern) for p in self.state.promises)
        if batch.generous and not broken and self.is_held(row, index, self.state):
            return Arrival(row, number, index, late=True, lasting=False)
        self.state.dead.append(OracleDeadLetter(Reason.LATE, row))
        return None

    def _behind(self, row: Row) -> list[tuple[int, int]]:
        """(point, promised bound) for each promise that the tuple breaks; empty if it is on time."""
        found = []
        for name in self.attributes:
            point, frontier = point_of(row[name], self.types[name]), self.state.frontiers[name]
            if frontier is not None and point < frontier:
                found.append((point, frontier))
        for promise in self.state.promises:
            if promise.pattern.met_by(row):
                found += self._broken(row, promise.pattern)
        return found

    def _broken(self, row: Row, pattern: Pattern) -> list[tuple[int, int]]:
        """(point, bound) per window attribute that the pattern bounds; the bound is ALWAYS if it bounds none."""
        found = []
        named = [name for name in self.attributes if any(one.column == name for one in pattern.conditions)]
        for name in named:
            point, bound = point_of(row[name], self.types[name]), pattern.bound(name, self.types[name])
            found.append((point, point + 1 if bound is None else bound))
        return found or [(0, ALWAYS)]

    def _overtaken(self, pattern: Pattern) -> bool:
        """Whether the frontier of the pattern's first window attribute is above all that the pattern excludes."""
        named = [name for name in self.attributes if any(one.column == name for one in pattern.conditions)]
        frontier = self.state.frontiers[named[0]] if named else None
        return frontier is not None and pattern.upper(named[0], self.types[named[0]]) <= frontier

    def _in_reach(self, behind: list[tuple[int, int]]) -> bool:
        if self.stream.late is not Late.REVISE:
            return False
        reach = self.stream.late_for
        return reach is None or all(point >= promised - reach.amount for point, promised in behind)

    def _promise(self, index: int, pattern: Pattern) -> None:
        """Apply a pattern: one on a single window attribute moves its frontier; any other makes tuples that meet it
        late."""
        moved = self._moved_by(pattern)
        if moved is None:
            self.state.promises.append(OraclePromise(index, pattern))
        else:
            self._advance(*moved)

    def _moved_by(self, pattern: Pattern) -> tuple[str, int] | None:
        """The window attribute whose frontier the pattern moves, and where to; None if it moves none."""
        for name in self.attributes:
            bound = pattern.bound(name, self.types[name])
            if pattern.conditions and not pattern.besides(name) and bound is not None:
                return name, bound
        return None

    def _advance(self, name: str, upto: int | None) -> None:
        known = self.state.frontiers[name]
        if upto is not None:
            self.state.frontiers[name] = upto if known is None else max(known, upto)


def _by_hand(event: Punctuation, kind: SqlType) -> Pattern:
    return Pattern((*event.others, OracleCondition(event.column, "<", (value_of(event.upto, kind),))))


def _unfit(value: Any, kind: SqlType, batch: Batch) -> Reason | None:
    if value is None:
        return Reason.NULL
    point = point_of(value, kind)
    if abs(point) > POINT_BOUND:
        return Reason.RANGE
    if kind.is_timestamp and batch.max_future_us is not None and point > batch.now_us + batch.max_future_us:
        return Reason.FUTURE
    return None
