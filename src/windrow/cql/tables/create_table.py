"""Parse and print CREATE TABLE."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from windrow.cql.column_types import parse_type
from windrow.cql.names import quote_name
from windrow.cql.select_text import expression_text
from windrow.cql.statements import ColumnDef, CreateTable
from windrow.cql.tables.parts import expressions_until, names_in_parentheses
from windrow.cql.tokens import Cursor

_TO_KEY = "Say what names a row: CREATE TABLE t (ip STRING PRIMARY KEY, …), or … , PRIMARY KEY (a, b))."
_CLAUSES = ("NON RETROACTIVE", "FROM STREAM", "DELETE WHEN")


def parse_create_table(cursor: Cursor, name: str, if_not_exists: bool) -> CreateTable:
    """Parse the statement from after the table's name to its end."""
    start = cursor.index
    columns, key = _columns(cursor)
    if not key:
        raise cursor.error(f"table '{name}' has no PRIMARY KEY", ahead=start - cursor.index, remedy=_TO_KEY)
    retroactive, stream, delete_when = True, None, None
    while not cursor.at_end:
        at = cursor.index
        if retroactive and cursor.take("NON", "RETROACTIVE"):
            retroactive = False
        elif stream is None and cursor.take("FROM", "STREAM"):
            stream = cursor.name("the name of a stream after FROM STREAM")
        elif stream is not None and delete_when is None and cursor.take("DELETE", "WHEN"):
            delete_when = expressions_until(cursor, len(cursor.tokens), "a condition after DELETE WHEN", most=1)[0]
        elif stream is None and cursor.take("DELETE", "WHEN"):
            raise cursor.error(
                "DELETE WHEN is of a table that a stream feeds",
                ahead=at - cursor.index,
                remedy="Write FROM STREAM name before it. Of other tables, DELETE FROM t WHERE … deletes rows.",
            )
        else:
            raise cursor.unexpected("a clause of CREATE TABLE or the end of the statement", _CLAUSES)
    return CreateTable(name, columns, key, retroactive, stream, delete_when, if_not_exists)


def _columns(cursor: Cursor) -> tuple[tuple[ColumnDef, ...], tuple[str, ...]]:
    """The columns and the primary key."""
    cursor.expect_symbol(TokenType.L_PAREN, "(")
    columns, key = dict[str, ColumnDef](), tuple[str, ...]()
    while True:
        start = cursor.index
        if cursor.take("PRIMARY", "KEY"):
            found = names_in_parentheses(cursor, "a column of the primary key")
        else:
            column = cursor.name("a column name")
            if column.lower() in columns:
                raise cursor.error(
                    f"column '{column}' is given twice",
                    ahead=start - cursor.index,
                    remedy="Give one of them another name; upper and lower case are the same.",
                )
            columns[column.lower()] = ColumnDef(column, parse_type(cursor))
            found = (column,) if cursor.take("PRIMARY", "KEY") else ()
        if found and key:
            raise cursor.error(
                "PRIMARY KEY is given twice",
                ahead=start - cursor.index,
                remedy="For a key of several columns write PRIMARY KEY (a, b) once, after the columns.",
            )
        key = key or found
        if cursor.take_symbol(TokenType.R_PAREN):
            break
        cursor.expect_symbol(TokenType.COMMA, ",' or ')")
    for one in key:
        if one.lower() not in columns:
            raise cursor.error(
                f"PRIMARY KEY names '{one}', which is not a column of the table",
                ahead=-1,
                remedy=f"It has: {', '.join(column.name for column in columns.values())}.",
            )
    return tuple(columns.values()), tuple(columns[one.lower()].name for one in key)


def create_table_parts(table: CreateTable, between: str = ", ") -> list[str]:
    """The parts of the statement, with `between` between two columns."""
    exists = "IF NOT EXISTS " if table.if_not_exists else ""
    single = table.key[0] if len(table.key) == 1 else None
    columns = [
        f"{quote_name(one.name)} {one.type}{' PRIMARY KEY' if one.name == single else ''}" for one in table.columns
    ]
    if single is None:
        columns.append(f"PRIMARY KEY ({', '.join(map(quote_name, table.key))})")
    parts = [f"CREATE TABLE {exists}{quote_name(table.name)} ({between.join(columns)})"]
    if not table.retroactive:
        parts.append("NON RETROACTIVE")
    if table.stream is not None:
        parts.append(f"FROM STREAM {quote_name(table.stream)}")
    if table.delete_when is not None:
        parts.append(f"DELETE WHEN {expression_text(table.delete_when)}")
    return parts
