"""Print statements. For every statement `parse_one(to_text(s)) == s`; the catalog keeps this text.

`to_script` prints the same words for people: a line per column and per clause, with a semicolon.
"""

from __future__ import annotations

from itertools import groupby

from windrow.cql.names import quote_name, quote_option, quote_text
from windrow.cql.select_text import expression_text
from windrow.cql.statements import (
    AlterQuery,
    ColumnDef,
    CreateDerivedStream,
    CreateQuery,
    CreateStream,
    CreateTable,
    DeleteRows,
    Describe,
    Drop,
    Emit,
    Explain,
    InsertRows,
    Late,
    LoadRows,
    Options,
    Policy,
    Punctuate,
    Select,
    SetSetting,
    Show,
    Statement,
    UpdateRows,
)
from windrow.cql.tables.changing_rows import change_text
from windrow.cql.tables.create_table import create_table_parts
from windrow.cql.window_syntax import measure_text

_LINE = 100
"""A script has the columns of a stream on one line if they fit."""


def to_text(statement: Statement) -> str:
    """The canonical text of a statement, without a semicolon."""
    if isinstance(statement, CreateStream):
        return " ".join(_create_stream(statement))
    if isinstance(statement, CreateQuery):
        return " ".join(_create_query(statement))
    if isinstance(statement, AlterQuery):
        return f"ALTER QUERY {quote_name(statement.name)} {statement.alteration.name}"
    if isinstance(statement, CreateDerivedStream):
        return " ".join(_create_derived_stream(statement))
    if isinstance(statement, CreateTable):
        return " ".join(create_table_parts(statement))
    if isinstance(statement, InsertRows | UpdateRows | DeleteRows | LoadRows):
        return change_text(statement)
    if isinstance(statement, Select):
        return " ".join(_select(statement))
    if isinstance(statement, Explain):
        words = f"EXPLAIN {'ANALYZE ' if statement.analyze else ''}{'VERBOSE ' if statement.verbose else ''}"
        if statement.statement is not None:
            return words + to_text(statement.statement)
        return f"{words}{'STREAM' if statement.is_stream else 'QUERY'} {quote_name(statement.name or '')}"
    if isinstance(statement, Drop):
        exists = "IF EXISTS " if statement.if_exists else ""
        return f"DROP {statement.kind.upper()} {exists}{quote_name(statement.name)}"
    if isinstance(statement, Show):
        return f"SHOW {statement.what.upper()}" + (f" {quote_name(statement.name)}" if statement.name else "")
    if isinstance(statement, Describe):
        return f"DESCRIBE {quote_name(statement.name)}"
    if isinstance(statement, SetSetting):
        return f"SET {quote_option(statement.name)} = {quote_text(statement.value)}"
    raise TypeError(f"not a statement: {statement!r}")


def to_script(statement: CreateStream | CreateDerivedStream | CreateTable | CreateQuery) -> str:
    """The text of a statement over several lines, with a semicolon, to be kept in a script."""
    if isinstance(statement, CreateQuery):
        parts = _create_query(statement)
    elif isinstance(statement, CreateDerivedStream):
        parts = _create_derived_stream(statement)
    elif isinstance(statement, CreateTable):
        parts = create_table_parts(statement)
        if len(parts[0]) > _LINE:
            parts = create_table_parts(statement, ",\n    ")
    else:
        parts = _create_stream(statement)
        if len(parts[0]) > _LINE:
            parts = _create_stream(statement, ",\n    ")
    return "\n  ".join(parts) + ";"


def _create_stream(stream: CreateStream, between: str = ", ") -> list[str]:
    """The parts of the statement, with `between` between two columns."""
    exists = "IF NOT EXISTS " if stream.if_not_exists else ""
    columns = between.join(map(_column, stream.columns))
    parts = [f"CREATE STREAM {exists}{quote_name(stream.name)}" + (f" ({columns})" if columns else "")]
    parts.append(f"FROM {quote_option(stream.source)}{_options(stream.options)}")
    if stream.timestamp_by is not None:
        parts.append(f"TIMESTAMP BY {quote_name(stream.timestamp_by)}")
    if stream.sequence_by is not None:
        parts.append(f"SEQUENCE BY {quote_name(stream.sequence_by)}")
    if stream.tick is not None:
        parts.append(f"TICK {measure_text(stream.tick)}")
    parts += [_punctuate(clause) for clause in stream.punctuate]
    if stream.late is not None:
        late_for = f" FOR {measure_text(stream.late_for)}" if stream.late_for is not None else ""
        parts.append(f"LATE {'DROP' if stream.late is Late.DROP else 'REVISE' + late_for}")
    if stream.retain is not None:
        parts.append(f"RETAIN {measure_text(stream.retain)}")
    return parts


def _create_derived_stream(stream: CreateDerivedStream) -> list[str]:
    exists = "IF NOT EXISTS " if stream.if_not_exists else ""
    parts = [f"CREATE STREAM {exists}{quote_name(stream.name)} AS", expression_text(stream.select)]
    if stream.tick is not None:
        parts.append(f"TICK {measure_text(stream.tick)}")
    return parts


def _column(column: ColumnDef) -> str:
    return f"{quote_name(column.name)} {column.type}{' NULLABLE MISSING' if column.may_miss else ''}"


def _punctuate(clause: Punctuate) -> str:
    heartbeat = f" HEARTBEAT AFTER {measure_text(clause.heartbeat)}" if clause.heartbeat is not None else ""
    return _policy(clause) + heartbeat


def _policy(clause: Punctuate) -> str:
    on = f" ON {quote_name(clause.column)}" if clause.column is not None else ""
    if clause.policy is Policy.ORDERED:
        return f"PUNCTUATE{on} ORDERED"
    if clause.policy is Policy.BY_SOURCE:
        return f"PUNCTUATE{on} BY SOURCE"
    if clause.policy is Policy.SLACK and clause.slack is not None:
        return f"PUNCTUATE{on} WITH SLACK {measure_text(clause.slack)}"
    if clause.policy is Policy.PER_KEY and clause.key is not None:
        idle = f" IDLE AFTER {measure_text(clause.idle_after)}" if clause.idle_after is not None else ""
        return f"PUNCTUATE{on} PER {quote_name(clause.key)}{idle}"
    raise ValueError(f"an incomplete PUNCTUATE clause: {clause}")


def _create_query(query: CreateQuery) -> list[str]:
    exists, create = (
        "IF NOT EXISTS " if query.if_not_exists else "",
        "CREATE OR REPLACE" if query.or_replace else "CREATE",
    )
    parts = [f"{create} QUERY {exists}{quote_name(query.name)} AS", expression_text(query.select)]
    if query.sink is not None:
        parts.append(f"INTO {quote_option(query.sink.kind)}{_options(query.sink.options)}")
    if query.emit is not None:
        parts.append("EMIT LATEST" if query.emit is Emit.LATEST else "EMIT EVERY WINDOW")
    if query.priority is not None:
        parts.append(f"PRIORITY {query.priority}")
    if query.expire_after is not None:
        parts.append(f"EXPIRE AFTER {measure_text(query.expire_after)}")
    return parts


def _select(statement: Select) -> list[str]:
    parts = [expression_text(statement.select)]
    if statement.isolation is not None:
        parts.append(f"ISOLATION {quote_text(statement.isolation)}")
    if statement.priority is not None:
        parts.append(f"PRIORITY {statement.priority}")
    if statement.timeout is not None:
        parts.append(f"TIMEOUT {measure_text(statement.timeout)}")
    return parts


def _options(options: Options) -> str:
    if not options:
        return ""
    by_name = [
        (name, [quote_text(value) for _, value in entries]) for name, entries in groupby(options, lambda o: o[0])
    ]
    texts = [f"{quote_option(n)} {v[0] if len(v) == 1 else '(' + ', '.join(v) + ')'}" for n, v in by_name]
    return f" OPTIONS ({', '.join(texts)})"
