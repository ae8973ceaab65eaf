"""Parse and print INSERT, UPDATE, DELETE and LOAD."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from windrow.cql.create_stream import parse_options
from windrow.cql.names import quote_name, quote_option, quote_text
from windrow.cql.select_text import expression_text, parse_query
from windrow.cql.statements import DeleteRows, InsertRows, LoadRows, Options, TableChangeStatement, UpdateRows
from windrow.cql.tables.parts import expressions_until, names_in_parentheses, next_outside, row_of
from windrow.cql.tokens import Cursor

FORMATS = ("csv", "parquet", "json")


def parse_insert(cursor: Cursor) -> InsertRows:
    cursor.expect("INSERT")
    cursor.expect("INTO")
    cursor.take("TABLE")
    table = cursor.name("the name of a table")
    columns = tuple[str, ...]()
    following = cursor.peek()
    if following is not None and following.token_type == TokenType.L_PAREN:
        columns = names_in_parentheses(cursor, "a column of the table")
    if cursor.word() in ("SELECT", "WITH"):
        return InsertRows(table, columns, select=parse_query(cursor, until=len(cursor.tokens)))
    cursor.expect("VALUES", ["VALUES", "SELECT"])
    found = expressions_until(cursor, len(cursor.tokens), "rows such as ('a', 1) after VALUES")
    return InsertRows(table, columns, tuple(row_of(one, cursor) for one in found))


def parse_update(cursor: Cursor) -> UpdateRows:
    cursor.expect("UPDATE")
    table = cursor.name("the name of a table")
    cursor.expect("SET")
    changed = list[tuple[str, exp.Expr]]()
    while True:
        column = cursor.name("a column to set")
        if column.lower() in (name.lower() for name, _ in changed):
            raise cursor.error(f"'{column}' is set twice", ahead=-1, remedy="Keep one of them.")
        cursor.expect_symbol(TokenType.EQ, "=")
        end = next_outside(cursor, "WHERE", comma=True)
        changed.append((column, expressions_until(cursor, end, "an expression after =", most=1)[0]))
        if not cursor.take_symbol(TokenType.COMMA):
            break
    return UpdateRows(table, tuple(changed), _where(cursor))


def parse_delete(cursor: Cursor) -> DeleteRows:
    cursor.expect("DELETE")
    cursor.expect("FROM")
    return DeleteRows(cursor.name("the name of a table"), _where(cursor))


def _where(cursor: Cursor) -> exp.Expr | None:
    if not cursor.take("WHERE"):
        return None
    return expressions_until(cursor, len(cursor.tokens), "a condition after WHERE", most=1)[0]


def parse_load(cursor: Cursor) -> LoadRows:
    cursor.expect("LOAD")
    cursor.expect("INTO", remedy="Write LOAD INTO table FROM 'path'.")
    cursor.take("TABLE")
    table = cursor.name("the name of a table")
    cursor.expect("FROM")
    path = cursor.string("a quoted path after FROM")
    form = None
    if cursor.take("FORMAT"):
        form = cursor.name(f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]} after FORMAT").lower()
        if form not in FORMATS:
            raise cursor.error(
                f"'{form}' is not a format of LOAD", ahead=-1, remedy=f"The formats: {', '.join(FORMATS)}."
            )
    return LoadRows(table, path, form, parse_options(cursor))


def change_text(statement: TableChangeStatement) -> str:
    """The canonical text of a statement that changes rows."""
    table = quote_name(statement.table)
    if isinstance(statement, InsertRows):
        columns = f" ({', '.join(map(quote_name, statement.columns))})" if statement.columns else ""
        if statement.select is not None:
            return f"INSERT INTO {table}{columns} {expression_text(statement.select)}"
        rows = (f"({', '.join(map(expression_text, row))})" for row in statement.rows)
        return f"INSERT INTO {table}{columns} VALUES {', '.join(rows)}"
    if isinstance(statement, LoadRows):
        form = f" FORMAT {statement.format}" if statement.format is not None else ""
        return f"LOAD INTO {table} FROM {quote_text(statement.path)}{form}{_options(statement.options)}"
    where = f" WHERE {expression_text(statement.where)}" if statement.where is not None else ""
    if isinstance(statement, DeleteRows):
        return f"DELETE FROM {table}{where}"
    changed = (f"{quote_name(name)} = {expression_text(value)}" for name, value in statement.changed)
    return f"UPDATE {table} SET {', '.join(changed)}{where}"


def _options(options: Options) -> str:
    texts = [f"{quote_option(name)} {quote_text(value)}" for name, value in options]
    return f" OPTIONS ({', '.join(texts)})" if texts else ""
