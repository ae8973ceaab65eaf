"""Parse CREATE STREAM: its columns, and its clauses in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot.tokenizer_core import TokenType

from windrow.cql.column_types import parse_type
from windrow.cql.statements import ColumnDef, CreateStream, Late, Options, Policy, Punctuate
from windrow.cql.tokens import Cursor
from windrow.cql.window_clause import Measure
from windrow.cql.window_syntax import parse_measure, parse_time, unknown_unit

_STARTS = ("FROM", "TIMESTAMP BY", "SEQUENCE BY", "TICK", "PUNCTUATE", "LATE", "RETAIN")
_LISTS = ("path",)
_POLICIES = ("ORDERED", "WITH", "SLACK", "PER", "BY", "ON")


def parse_create_stream(cursor: Cursor, name: str, if_not_exists: bool) -> CreateStream:
    """Parse the statement from after the stream's name to its end."""
    columns = _columns(cursor)
    given: dict[str, Any] = {}
    punctuate: list[Punctuate] = []
    while not cursor.at_end:
        start = cursor.index
        keyword = next((words for words in _STARTS if cursor.take(*words.split())), None)
        if keyword is None:
            wrong_unit = unknown_unit(cursor, _STARTS)
            raise wrong_unit or cursor.unexpected("a clause of CREATE STREAM or the end of the statement", _STARTS)
        if keyword == "PUNCTUATE":
            punctuate.append(_punctuate(cursor))
            continue
        fields = _CLAUSES[keyword](cursor)
        if fields.keys() & given.keys():
            raise cursor.error(f"{keyword} is given twice", ahead=start - cursor.index, remedy="Keep one of them.")
        given |= fields
    if "source" not in given:
        raise cursor.error(
            f"stream '{name}' has no source",
            remedy="Add FROM memory, or FROM files OPTIONS (path '…', format 'json').",
        )
    return CreateStream(name, columns, punctuate=tuple(punctuate), if_not_exists=if_not_exists, **given)


def _columns(cursor: Cursor) -> tuple[ColumnDef, ...]:
    if not cursor.take_symbol(TokenType.L_PAREN):
        return ()
    columns: list[ColumnDef] = []
    seen: set[str] = set()
    while True:
        start = cursor.index
        column = cursor.name("a column name")
        if column.lower() in seen:
            raise cursor.error(
                f"column '{column}' is given twice",
                ahead=start - cursor.index,
                remedy="Give one of them another name; upper and lower case are the same.",
            )
        seen.add(column.lower())
        columns.append(ColumnDef(column, parse_type(cursor), _may_miss(cursor)))
        if cursor.take_symbol(TokenType.R_PAREN):
            return tuple(columns)
        cursor.expect_symbol(TokenType.COMMA, ",' or ')")


def _may_miss(cursor: Cursor) -> bool:
    """Parse `NULLABLE MISSING` if it comes next."""
    if not cursor.take("NULLABLE"):
        return False
    cursor.expect("MISSING")
    return True


def parse_options(cursor: Cursor, lists: tuple[str, ...] = ()) -> Options:
    """Parse `OPTIONS (path '…', format 'json', header true)` if it comes next. Names are unique.

    The options in `lists` also take `('…', '…')`, which gives one entry per value.
    """
    if not cursor.take("OPTIONS"):
        return ()
    cursor.expect_symbol(TokenType.L_PAREN, "(")
    options: list[tuple[str, str]] = []
    seen: set[str] = set()
    while not cursor.take_symbol(TokenType.R_PAREN):
        if options:
            cursor.expect_symbol(TokenType.COMMA, ",' or ')")
        start = cursor.index
        name = option_name(cursor, "an option's name")
        if name.lower() in seen:
            raise cursor.error(
                f"option '{name}' is given twice", ahead=start - cursor.index, remedy="Keep one of them."
            )
        seen.add(name.lower())
        cursor.take_symbol(TokenType.EQ)
        if name.lower() in lists and cursor.take_symbol(TokenType.L_PAREN):
            options += [(name, value) for value in _option_list(cursor, name)]
        else:
            value = _option_value(cursor, name)
            if name.lower() == "path" and "\0" in value:
                raise cursor.error("a path has no null byte", ahead=-1, remedy="Leave it out.")
            options.append((name, value))
    return tuple(options)


def _option_list(cursor: Cursor, name: str) -> list[str]:
    values = [_option_value(cursor, name)]
    while not cursor.take_symbol(TokenType.R_PAREN):
        cursor.expect_symbol(TokenType.COMMA, ",' or ')")
        values.append(_option_value(cursor, name))
    return values


def option_name(cursor: Cursor, what: str) -> str:
    """Read a dotted name; unquoted parts become lower case."""
    parts = [_name_part(cursor, what)]
    while cursor.take_symbol(TokenType.DOT):
        parts.append(_name_part(cursor, what))
    return ".".join(parts)


def _name_part(cursor: Cursor, what: str) -> str:
    token = cursor.peek()
    name = cursor.name(what)
    quoted = token is not None and token.token_type == TokenType.IDENTIFIER
    return name if quoted else name.lower()


def _option_value(cursor: Cursor, name: str) -> str:
    if cursor.at_string():
        return cursor.string("a value")
    sign = "-" if cursor.take_symbol(TokenType.DASH) else ""
    token = cursor.peek()
    if token is not None and token.token_type == TokenType.NUMBER:
        cursor.index += 1
        return sign + token.text
    if not sign and cursor.word() in ("TRUE", "FALSE"):
        cursor.index += 1
        return "true" if cursor.word(-1) == "TRUE" else "false"
    raise cursor.unexpected(f"a quoted value for option '{name}'")


def _from(cursor: Cursor) -> dict[str, Any]:
    source = cursor.name("a source such as files or memory after FROM").lower()
    return {"source": source, "options": parse_options(cursor, _LISTS)}


def _tick(cursor: Cursor) -> dict[str, Any]:
    return {"tick": parse_measure(cursor, "TICK")}


def _late(cursor: Cursor) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if cursor.take("DROP"):
        fields["late"] = Late.DROP
    elif cursor.take("REVISE"):
        fields["late"] = Late.REVISE
        if cursor.take("FOR"):
            fields["late_for"] = parse_measure(cursor, "LATE REVISE FOR")
    else:
        raise cursor.unexpected("DROP or REVISE after LATE", ["DROP", "REVISE"])
    return fields


_CLAUSES: dict[str, Callable[[Cursor], dict[str, Any]]] = {
    "FROM": _from,
    "TIMESTAMP BY": lambda cursor: {"timestamp_by": cursor.name("a column after TIMESTAMP BY")},
    "SEQUENCE BY": lambda cursor: {"sequence_by": cursor.name("a column after SEQUENCE BY")},
    "TICK": _tick,
    "LATE": _late,
    "RETAIN": lambda cursor: {"retain": parse_measure(cursor, "RETAIN")},
}


def _punctuate(cursor: Cursor) -> Punctuate:
    clause = _policy(cursor)
    if not cursor.take("HEARTBEAT"):
        return clause
    cursor.expect("AFTER")
    return replace(clause, heartbeat=parse_time(cursor, "HEARTBEAT AFTER"))


def _policy(cursor: Cursor) -> Punctuate:
    column = cursor.name("a column after PUNCTUATE ON") if cursor.take("ON") else None
    if cursor.take("ORDERED"):
        return Punctuate(Policy.ORDERED, column)
    if cursor.take("WITH"):
        cursor.expect("SLACK")
        return Punctuate(Policy.SLACK, column, slack=parse_measure(cursor, "SLACK", zero=True))
    if cursor.take("BY"):
        cursor.expect("SOURCE")
        return Punctuate(Policy.BY_SOURCE, column)
    if cursor.take("PER"):
        key = cursor.name("a column after PER")
        idle: Measure | None = None
        if cursor.take("IDLE"):
            cursor.expect("AFTER")
            idle = parse_measure(cursor, "IDLE AFTER")
        return Punctuate(Policy.PER_KEY, column, key=key, idle_after=idle)
    raise cursor.unexpected("ORDERED, WITH SLACK, PER or BY SOURCE after PUNCTUATE", _POLICIES)
