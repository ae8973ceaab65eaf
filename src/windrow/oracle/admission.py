"""Admission, simulated from the full history: which tuples of a stream count, and why the others do not.

A history is the list of what happened to a stream: micro-batches as they were fed, punctuations by
hand, and the end of the input. Nothing is kept from one question to the next: every answer replays
the history (DESIGN 5: lateness is judged against the frontier at the end of the previous micro-batch).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from windrow.cql.statements import CreateStream, Policy, Punctuate
from windrow.errors import UnsupportedError
from windrow.oracle.values import Misfit, fit
from windrow.types import SqlType, point_of

Row = Mapping[str, Any]


POINT_BOUND = 10**18 - 1
"""Points beyond ± this are refused: so no window edge can leave an int64."""


class Reason(Enum):
    """Why a record is a dead letter; the first that applies, in this order."""

    MALFORMED = "malformed"
    NULL = "null"
    RANGE = "range"
    FUTURE = "future"
    LATE = "late"


@dataclass(frozen=True)
class Batch:
    """One micro-batch; `max_future_us` None allows any timestamp."""

    rows: Sequence[Row | Sequence[Any]]
    now_us: int = 0
    max_future_us: int | None = None


@dataclass(frozen=True)
class Punctuation:
    """A promise by hand: no more tuples with `column` below `upto`."""

    column: str
    upto: int


@dataclass(frozen=True)
class End:
    """The end of the input: every window closes."""


Event = Batch | Punctuation | End


@dataclass(frozen=True)
class DeadLetter:
    reason: Reason
    row: Row


@dataclass
class Admitted:
    """What a history comes to: admitted rows, dead letters, and a frontier per window attribute.

    A frontier of None promises nothing yet; `ended` promises everything.
    """

    rows: list[Row] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    frontiers: dict[str, int | None] = field(default_factory=dict)
    ended: bool = False


def types_of(stream: CreateStream) -> dict[str, SqlType]:
    return {column.name: SqlType(column.type) for column in stream.columns}


def attributes_of(stream: CreateStream) -> dict[str, Punctuate]:
    """The window attributes of a stream: those that a PUNCTUATE clause covers."""
    found: dict[str, Punctuate] = {}
    for clause in stream.punctuate:
        name = clause.column or stream.timestamp_by
        if name is None:
            raise UnsupportedError("PUNCTUATE without a column needs TIMESTAMP BY")
        if clause.policy not in (Policy.ORDERED, Policy.SLACK):
            raise UnsupportedError(f"the oracle does not know PUNCTUATE {clause.policy.value}")
        found[column_named(stream, name)] = clause
    return found


def column_named(stream: CreateStream, name: str) -> str:
    """The column of that name, in whatever case it is written."""
    for column in stream.columns:
        if column.name.lower() == name.lower():
            return column.name
    raise UnsupportedError(f"stream '{stream.name}' has no column '{name}'")


def admit(stream: CreateStream, history: Sequence[Event]) -> Admitted:
    """Replay a history."""
    types, attributes = types_of(stream), attributes_of(stream)
    state = Admitted(frontiers=dict.fromkeys(attributes))
    for event in history:
        if isinstance(event, End):
            state.ended = True
        elif isinstance(event, Punctuation):
            _advance(state.frontiers, event.column, event.upto)
        else:
            admitted = _admit_batch(event, types, attributes, state)
            state.rows.extend(admitted)
            for name, clause in attributes.items():
                points = [point_of(row[name], types[name]) for row in admitted]
                if points:
                    _advance(state.frontiers, name, max(points) - _slack(clause))
    return state


def _admit_batch(
    batch: Batch, types: Mapping[str, SqlType], attributes: Mapping[str, Punctuate], state: Admitted
) -> list[Row]:
    """The rows of one micro-batch that pass, all judged against the frontiers as the batch found them."""
    admitted: list[Row] = []
    for raw in batch.rows:
        named = dict(raw) if isinstance(raw, Mapping) else dict(zip(types, raw, strict=True))
        try:
            row = {name: fit(named.get(name), kind) for name, kind in types.items()}
        except Misfit:
            state.dead.append(DeadLetter(Reason.MALFORMED, named))
            continue
        reasons = [reason for name in attributes if (reason := _judge(row[name], name, types[name], batch, state))]
        if reasons:
            state.dead.append(DeadLetter(min(reasons, key=list(Reason).index), row))
        else:
            admitted.append(row)
    return admitted


def _judge(value: Any, name: str, kind: SqlType, batch: Batch, state: Admitted) -> Reason | None:
    if value is None:
        return Reason.NULL
    point = point_of(value, kind)
    if abs(point) > POINT_BOUND:
        return Reason.RANGE
    if kind.is_timestamp and batch.max_future_us is not None and point > batch.now_us + batch.max_future_us:
        return Reason.FUTURE
    frontier = state.frontiers[name]
    return Reason.LATE if frontier is not None and point < frontier else None


def _slack(clause: Punctuate) -> int:
    return clause.slack.amount if clause.policy is Policy.SLACK and clause.slack is not None else 0


def _advance(frontiers: dict[str, int | None], name: str, upto: int) -> None:
    known = frontiers[name]
    frontiers[name] = upto if known is None else max(known, upto)
