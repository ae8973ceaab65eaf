"""Statements as frozen nodes. The SELECT of a query is a sqlglot tree of the CQL dialect."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from windrow.cql.window_clause import Measure

Options = tuple[tuple[str, str], ...]
"""`OPTIONS (path '…', format 'json')`: names in lower case unless quoted, values as text, in order.

`path ('a', 'b')` is one entry per path, one after the other.
"""


@dataclass(frozen=True)
class ColumnDef:
    """A column of a stream; `type` is the normal form of Spark SQL's name (`BIGINT`, `DECIMAL(10,2)`). `may_miss`: the
    source need not have it (NULLABLE MISSING)."""

    name: str
    type: str
    may_miss: bool = False


class Policy(Enum):
    ORDERED = "ordered"
    SLACK = "slack"
    PER_KEY = "per key"
    BY_SOURCE = "by source"


@dataclass(frozen=True)
class Punctuate:
    """One PUNCTUATE clause; `column` None means the stream's TIMESTAMP BY column."""

    policy: Policy
    column: str | None = None
    slack: Measure | None = None
    key: str | None = None
    idle_after: Measure | None = None
    heartbeat: Measure | None = None
    """HEARTBEAT AFTER: the silence after which the wall clock moves the frontier."""


class Late(Enum):
    DROP = "drop"
    REVISE = "revise"


@dataclass(frozen=True)
class CreateStream:
    name: str
    columns: tuple[ColumnDef, ...]
    source: str
    options: Options = ()
    timestamp_by: str | None = None
    sequence_by: str | None = None
    tick: Measure | None = None
    punctuate: tuple[Punctuate, ...] = ()
    late: Late | None = None
    late_for: Measure | None = None
    retain: Measure | None = None
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateDerivedStream:
    """CREATE STREAM name AS SELECT …: the output of a query as a stream."""

    name: str
    select: exp.Expression
    if_not_exists: bool = False
    tick: Measure | None = None


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE. `key` are the columns of its primary key. `stream`: the changelog that feeds it (FROM STREAM), and
    `delete_when` the condition on its tuples that says that one deletes its key."""

    name: str
    columns: tuple[ColumnDef, ...]
    key: tuple[str, ...]
    retroactive: bool = True
    stream: str | None = None
    delete_when: exp.Expr | None = None
    if_not_exists: bool = False


@dataclass(frozen=True)
class InsertRows:
    """INSERT INTO table [(columns)] VALUES … or SELECT …; no `columns`: all, in their order. `is_repeatable`: rows that
    the table has already with the same values are left out. No clause says so: a script that may be run again does."""

    table: str
    columns: tuple[str, ...]
    rows: tuple[tuple[exp.Expr, ...], ...] = ()
    select: exp.Expr | None = None
    is_repeatable: bool = False

    def __post_init__(self) -> None:
        if bool(self.rows) == (self.select is not None):
            raise ValueError("INSERT has VALUES or a SELECT")


@dataclass(frozen=True)
class UpdateRows:
    """UPDATE table SET column = expression, … [WHERE condition]."""

    table: str
    changed: tuple[tuple[str, exp.Expr], ...]
    where: exp.Expr | None = None


@dataclass(frozen=True)
class DeleteRows:
    """DELETE FROM table [WHERE condition]."""

    table: str
    where: exp.Expr | None = None


@dataclass(frozen=True)
class LoadRows:
    """LOAD INTO table FROM 'path' [FORMAT csv | parquet | json] [OPTIONS (…)]; without a format, by the path's end."""

    table: str
    path: str
    format: str | None = None
    options: Options = ()


TableChangeStatement = InsertRows | UpdateRows | DeleteRows | LoadRows
"""A statement that changes the rows of a table."""


class Emit(Enum):
    EVERY_WINDOW = "every window"
    LATEST = "latest"


@dataclass(frozen=True)
class SinkClause:
    """`INTO parquet OPTIONS (path '…')`."""

    kind: str
    options: Options = ()


@dataclass(frozen=True)
class CreateQuery:
    name: str
    select: exp.Expression
    sink: SinkClause | None = None
    emit: Emit | None = None
    priority: int | None = None
    expire_after: Measure | None = None
    if_not_exists: bool = False
    or_replace: bool = False

    def __post_init__(self) -> None:
        if self.if_not_exists and self.or_replace:
            raise ValueError("OR REPLACE and IF NOT EXISTS contradict each other")


class Alteration(Enum):
    """What ALTER QUERY does."""

    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True)
class AlterQuery:
    """ALTER QUERY name PAUSE | RESUME."""

    name: str
    alteration: Alteration


@dataclass(frozen=True)
class Select:
    """A snapshot query: how it is isolated from updates ('latest', 'window' or 'serial'), how urgent it is, and how
    long it may take; None: as the settings say."""

    select: exp.Expression
    isolation: str | None = None
    priority: int | None = None
    timeout: Measure | None = None


@dataclass(frozen=True)
class Drop:
    """DROP STREAM | QUERY | TABLE name."""

    kind: str
    name: str
    if_exists: bool = False


NAMED_SHOWS = ("lateness", "create stream", "create query", "create table")


@dataclass(frozen=True)
class Show:
    """SHOW STREAMS | QUERIES | SHARING | TABLES | SETTINGS, or with a name: SHOW LATENESS stream, SHOW CREATE STREAM
    stream, SHOW CREATE QUERY query, SHOW CREATE TABLE table."""

    what: str
    name: str | None = None

    def __post_init__(self) -> None:
        if (self.what in NAMED_SHOWS) != (self.name is not None):
            raise ValueError(f"SHOW {self.what.upper()} with{'out' if self.name is None else ''} a name")


@dataclass(frozen=True)
class Describe:
    """DESCRIBE name: the columns of a stream or a table, or a query's output columns."""

    name: str


@dataclass(frozen=True)
class Explain:
    """EXPLAIN [VERBOSE] <CREATE QUERY … | CREATE STREAM … AS … | SELECT …>, or
    EXPLAIN [ANALYZE] [VERBOSE] QUERY | STREAM name.

    `is_stream`: the name is that of a derived stream.
    """

    statement: CreateQuery | CreateDerivedStream | Select | None = None
    name: str | None = None
    analyze: bool = False
    is_stream: bool = False
    verbose: bool = False


@dataclass(frozen=True)
class SetSetting:
    name: str
    value: str


Statement = (
    CreateStream
    | CreateDerivedStream
    | CreateTable
    | CreateQuery
    | AlterQuery
    | TableChangeStatement
    | Select
    | Drop
    | Show
    | Describe
    | Explain
    | SetSetting
)
