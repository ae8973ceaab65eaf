"""What a stream and a query are, once their statement has been checked."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.cql.statements import CreateStream, Late, Policy, Punctuate
from windrow.errors import BindError, UnsupportedError
from windrow.types import SqlType

RESERVED_PREFIX = "__"


@dataclass(frozen=True)
class StreamDef:
    """A stream: its statement, typed columns, window attribute and slack."""

    statement: CreateStream
    columns: tuple[tuple[str, SqlType], ...]
    attribute: str | None
    slack: int | None

    @property
    def name(self) -> str:
        return self.statement.name

    def type_of(self, column: str) -> SqlType:
        return dict(self.columns)[column]

    @property
    def attribute_type(self) -> SqlType:
        assert self.attribute is not None
        return self.type_of(self.attribute)


def define_stream(statement: CreateStream) -> StreamDef:
    """Check a CREATE STREAM and resolve its names."""
    columns = tuple((c.name, SqlType(c.type)) for c in statement.columns)
    if not columns:
        raise BindError(
            f"stream '{statement.name}' has no columns", remedy="List them: CREATE STREAM s (ts TIMESTAMP, …)."
        )
    for name, _ in columns:
        if name.startswith(RESERVED_PREFIX):
            raise BindError(f"column '{name}': names that start with '{RESERVED_PREFIX}' are Windrow's own")
    _refuse_unfinished(statement)
    punctuate = statement.punctuate[0] if statement.punctuate else None
    wanted = statement.timestamp_by or (punctuate.column if punctuate else None)
    attribute = None if wanted is None else _column(columns, wanted, "TIMESTAMP BY")
    if attribute is not None and not dict(columns)[attribute].is_window_attribute:
        raise BindError(
            f"'{attribute}' is {dict(columns)[attribute]}; a window attribute is a TIMESTAMP or an integer column"
        )
    slack = None if punctuate is None else _slack(columns, attribute, punctuate)
    return StreamDef(statement, columns, attribute, slack)


def _refuse_unfinished(statement: CreateStream) -> None:
    refused = (
        (statement.retain is not None, "RETAIN (it keeps tuples for snapshot queries)"),
        (statement.sequence_by is not None, "SEQUENCE BY (it orders row-based windows)"),
        (statement.late is Late.REVISE, "LATE REVISE"),
        (len(statement.punctuate) > 1, "more than one PUNCTUATE"),
        (
            any(p.policy in (Policy.PER_KEY, Policy.BY_SOURCE) for p in statement.punctuate),
            "PUNCTUATE PER and BY SOURCE",
        ),
        (any(p.slack and p.slack.unit.value == "rows" for p in statement.punctuate), "slack in rows"),
    )
    for present, what in refused:
        if present:
            raise UnsupportedError(
                f"this version does not have {what} yet",
                remedy="Leave it out: this version has PUNCTUATE ORDERED or WITH SLACK <interval>, and LATE DROP.",
            )


def _slack(columns: tuple[tuple[str, SqlType], ...], attribute: str | None, punctuate: Punctuate) -> int:
    if punctuate.column is not None and _column(columns, punctuate.column, "PUNCTUATE ON") != attribute:
        raise UnsupportedError(
            f"this version windows a stream on one column, and that is '{attribute}'",
            remedy=f"PUNCTUATE ON {attribute}, or TIMESTAMP BY {punctuate.column}.",
        )
    if attribute is None:
        raise BindError("PUNCTUATE needs a window attribute", remedy="Add TIMESTAMP BY column.")
    if punctuate.slack is None:
        return 0
    is_time = punctuate.slack.unit.value == "time"
    if is_time != dict(columns)[attribute].is_timestamp:
        unit = "an interval such as 5 SECONDS" if dict(columns)[attribute].is_timestamp else "a plain number"
        raise BindError(f"the slack of '{attribute}' ({dict(columns)[attribute]}) is {unit}")
    return punctuate.slack.amount


def _column(columns: tuple[tuple[str, SqlType], ...], wanted: str, clause: str) -> str:
    for name, _ in columns:
        if name.lower() == wanted.lower():
            return name
    known = ", ".join(name for name, _ in columns)
    raise BindError(f"{clause} names '{wanted}', which is not a column of the stream", remedy=f"It has: {known}.")
