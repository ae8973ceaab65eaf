"""Parse text into statements: `parse` for a script, `parse_one` for a single statement.

This module reads our own statements word by word, and gives the tokens of a SELECT to sqlglot. Any text results in
statements or in a WindrowError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from windrow.cql.create_stream import option_name, parse_create_stream, parse_options
from windrow.cql.dialect import CQL, TO_STREAM
from windrow.cql.select_text import parse_query, parse_select
from windrow.cql.statements import (
    Alteration,
    AlterQuery,
    CreateDerivedStream,
    CreateQuery,
    CreateStream,
    CreateTable,
    Describe,
    Drop,
    Emit,
    Explain,
    Select,
    SetSetting,
    Show,
    SinkClause,
    Statement,
)
from windrow.cql.tables.changing_rows import parse_delete, parse_insert, parse_load, parse_update
from windrow.cql.tables.create_table import parse_create_table
from windrow.cql.tokens import Cursor, tokenize
from windrow.cql.window_clause import Measure
from windrow.cql.window_syntax import parse_measure, parse_time
from windrow.errors import ParseError, UnsupportedError

_TO_WRITE = "Write CREATE QUERY name AS SELECT …"
_TO_ANALYZE = "EXPLAIN ANALYZE QUERY name shows what a query that runs has done; EXPLAIN alone plans."
_LATER = {
    word: (f"{word} is written around a select list", f"Write CREATE QUERY name AS SELECT {word}(*) FROM …")
    for word in TO_STREAM
} | {
    word: (
        f"{word} is not a statement",
        "INSERT adds rows with new keys; wr.table(name).upsert(rows) replaces rows, too.",
    )
    for word in ("UPSERT", "MERGE", "REPLACE")
}
_EMITS = (
    "EMIT EVERY WINDOW, the default, answers each window once, when it closes (EMIT FINAL of other systems). "
    "There are no answers before that (EMIT CHANGES); LATE REVISE on the stream corrects them afterwards. "
    "This version does not have EMIT LATEST yet."
)
_SHOWN = ("STREAMS", "QUERIES", "SHARING", "TABLES", "SETTINGS", "FRESHNESS", "SNAPSHOTS")
_KINDS = ("STREAM", "QUERY", "TABLE")
_AFTER_NAMES = ("AS", "SELECT", "WITH", "FROM", "WHERE", "INTO")
_MAX_PRIORITY = 1_000_000
MAX_STATEMENT = 1_000_000
"""The most characters of a statement."""


def parse(text: str) -> list[Statement]:
    """The statements of a script, separated by `;`. Comments and empty statements are skipped."""
    statements = []
    chunk: list[Token] = []
    for token in [*tokenize(text, CQL()), None]:
        if token is not None and token.token_type != TokenType.SEMICOLON:
            chunk.append(token)
            continue
        if chunk:
            _check_length(chunk)
            statements.append(_statement(Cursor(chunk, text)))
        chunk = []
    return statements


def _check_length(tokens: list[Token]) -> None:
    length = tokens[-1].end + 1 - tokens[0].start
    if length > MAX_STATEMENT:
        raise ParseError(
            f"the statement is too long: {length:,} characters, and at most {MAX_STATEMENT:,} are allowed",
            remedy="Write a shorter one; data belongs in a stream, not in a statement.",
        )


def parse_one(text: str) -> Statement:
    """The only statement of the text; raises ParseError if there is none or more than one."""
    statements = parse(text)
    if len(statements) != 1:
        found = "there is none" if not statements else f"there are {len(statements)}"
        raise ParseError(f"expected one statement, but {found}")
    return statements[0]


def _statement(cursor: Cursor) -> Statement:
    first = cursor.word()
    read = _STATEMENTS.get(first)
    if read is None:
        if first in _LATER:
            message, remedy = _LATER[first]
            raise UnsupportedError(message, place=cursor.place(), remedy=remedy)
        raise cursor.unexpected(
            "a statement",
            _STATEMENTS,
            "A statement begins with CREATE, ALTER, SELECT, INSERT, UPDATE, DELETE, LOAD, EXPLAIN, SHOW, DESCRIBE, "
            "DROP or SET.",
        )
    statement = read(cursor)
    if not cursor.at_end:
        raise cursor.unexpected("the end of the statement")
    return statement


def _create(cursor: Cursor) -> CreateStream | CreateDerivedStream | CreateTable | CreateQuery:
    cursor.expect("CREATE")
    if cursor.take("OR"):
        return _create_or_replace(cursor)
    if cursor.take("STREAM"):
        exists = _if_not_exists(cursor)
        name = _new_name(cursor, "a name for the stream")
        if cursor.take("AS"):
            return _derived_stream(cursor, name, exists)
        return parse_create_stream(cursor, name, exists)
    if cursor.take("QUERY"):
        exists = _if_not_exists(cursor)
        return _create_query(cursor, exists)
    if cursor.take("TABLE"):
        exists = _if_not_exists(cursor)
        return parse_create_table(cursor, _new_name(cursor, "a name for the table"), exists)
    raise cursor.unexpected("STREAM, TABLE or QUERY after CREATE", _KINDS)


def _create_or_replace(cursor: Cursor) -> CreateQuery:
    cursor.expect("REPLACE")
    for kind in ("STREAM", "TABLE"):
        if cursor.word() == kind:
            raise UnsupportedError(
                f"CREATE OR REPLACE {kind} is not there: only a query can be replaced",
                place=cursor.place(),
                remedy=f"DROP {kind} it, and create it anew.",
            )
    cursor.expect("QUERY")
    if cursor.word() == "IF" and cursor.word(1) == "NOT":
        raise cursor.error("OR REPLACE and IF NOT EXISTS contradict each other", remedy="Keep one of them.")
    return replace(_create_query(cursor, if_not_exists=False), or_replace=True)


def _alter(cursor: Cursor) -> AlterQuery:
    cursor.expect("ALTER")
    cursor.expect("QUERY", remedy="Only queries can be altered: ALTER QUERY name PAUSE, or RESUME.")
    name = _object_name(cursor, "the name of a query")
    for alteration in Alteration:
        if cursor.take(alteration.name):
            return AlterQuery(name, alteration)
    raise cursor.unexpected(
        "PAUSE or RESUME after ALTER QUERY name",
        [one.name for one in Alteration],
        "CREATE OR REPLACE QUERY changes what it asks.",
    )


def _if_not_exists(cursor: Cursor) -> bool:
    if not cursor.take("IF"):
        return False
    cursor.expect("NOT EXISTS", ["NOT", "EXISTS"])
    return True


def _new_name(cursor: Cursor, what: str) -> str:
    """Read the name of a new stream, query or table; a word that goes on with the statement shows that the
    name is missing."""
    token = cursor.peek()
    if token is not None and cursor.word() in _AFTER_NAMES:
        word = cursor.source(token)
        raise cursor.error(
            f"'{word}' is a keyword, and cannot be a name as it stands",
            remedy=f"Write it in back quotes, `{word}`, or take another name.",
        )
    return _object_name(cursor, what)


def _object_name(cursor: Cursor, what: str) -> str:
    """Read the name of a stream, query or table. It has one part, as the catalog has no schemas."""
    name = cursor.name(what)
    token = cursor.peek()
    if token is not None and token.token_type == TokenType.DOT:
        raise cursor.error(
            "names of streams, tables and queries have one part", remedy="Leave out the part before the dot."
        )
    return name


def _derived_stream(cursor: Cursor, name: str, if_not_exists: bool) -> CreateDerivedStream:
    select = parse_select(cursor, until=_tail_start(cursor, _is_tick))
    tick = parse_measure(cursor, "TICK") if cursor.take("TICK") else None
    return CreateDerivedStream(name, select, if_not_exists, tick)


def _is_tick(cursor: Cursor) -> bool:
    following = cursor.peek(1)
    return cursor.word() == "TICK" and following is not None and following.token_type == TokenType.NUMBER


def _create_query(cursor: Cursor, if_not_exists: bool) -> CreateQuery:
    name = _new_name(cursor, "a name for the query")
    cursor.expect("AS", remedy=_TO_WRITE)
    body = _tail_start(cursor)
    select = parse_select(cursor, until=body)
    sink: SinkClause | None = None
    emit: Emit | None = None
    priority: int | None = None
    expire: Measure | None = None
    while not cursor.at_end:
        start = cursor.index
        if cursor.take("INTO"):
            again = sink is not None
            sink = SinkClause(
                cursor.name("a sink such as console or parquet after INTO").lower(), parse_options(cursor)
            )
        elif cursor.take("EMIT"):
            again = emit is not None
            emit = _emit(cursor)
        elif cursor.take("PRIORITY"):
            again = priority is not None
            priority = _priority(cursor)
        elif cursor.take("EXPIRE"):
            again = expire is not None
            cursor.expect("AFTER")
            expire = parse_time(cursor, "EXPIRE AFTER")
        else:
            raise cursor.unexpected(
                "INTO, EMIT, PRIORITY, EXPIRE AFTER or the end of the statement",
                ["INTO", "EMIT", "PRIORITY", "EXPIRE"],
            )
        if again:
            keyword = cursor.word(start - cursor.index)
            raise cursor.error(f"{keyword} is given twice", ahead=start - cursor.index, remedy="Keep one of them.")
    return CreateQuery(name, select, sink, emit, priority, expire, if_not_exists)


def _emit(cursor: Cursor) -> Emit:
    if cursor.take("LATEST"):
        return Emit.LATEST
    if cursor.take("EVERY"):
        cursor.expect("WINDOW")
        return Emit.EVERY_WINDOW
    raise cursor.unexpected("EVERY WINDOW or LATEST after EMIT", ["EVERY", "LATEST"], _EMITS)


def _priority(cursor: Cursor) -> int:
    sign = -1 if cursor.take_symbol(TokenType.DASH) else 1
    token = cursor.peek()
    if token is None or token.token_type != TokenType.NUMBER:
        raise cursor.unexpected("an integer after PRIORITY")
    if not (token.text.isascii() and token.text.isdigit()) or len(token.text) > 9 or int(token.text) > _MAX_PRIORITY:
        raise cursor.error(f"PRIORITY is an integer from -{_MAX_PRIORITY} to {_MAX_PRIORITY}")
    cursor.index += 1
    return sign * int(token.text)


def _is_tail(cursor: Cursor) -> bool:
    before, after = cursor.peek(-1), cursor.peek(1)
    if after is None or (before is not None and before.token_type == TokenType.DOT):
        return False
    word, following = cursor.word(), cursor.word(1)
    return (
        (word == "INTO" and bool(following))
        or (word == "EMIT" and _follows_emit(cursor))
        or (word == "PRIORITY" and _is_integer(cursor))
        or (word == "EXPIRE" and following == "AFTER")
    )


def _tail_start(cursor: Cursor, is_tail: Callable[[Cursor], bool] = _is_tail) -> int:
    """The index of the INTO, EMIT, PRIORITY or EXPIRE that ends the SELECT, or of another `is_tail`.

    sqlglot would read these words as aliases, and they may also be names. So they count only outside of parentheses,
    after FROM, and together with the words that must follow them.
    """
    depth, seen_from = 0, False
    for index in range(cursor.index, len(cursor.tokens)):
        kind = cursor.tokens[index].token_type
        if kind in (TokenType.L_PAREN, TokenType.L_BRACKET):
            depth += 1
        elif kind in (TokenType.R_PAREN, TokenType.R_BRACKET):
            depth -= 1
        elif depth == 0:
            seen_from = seen_from or kind == TokenType.FROM
            if seen_from and is_tail(Cursor(cursor.tokens, cursor.text, index)):
                return index
    return len(cursor.tokens)


def _follows_emit(cursor: Cursor) -> bool:
    """Whether `emit` begins a clause (ours, or one of ksqlDB or RisingWave); otherwise it is a name."""
    following = cursor.word(1)
    return following in ("EVERY", "LATEST", "FINAL", "CHANGES") or (following == "ON" and cursor.word(2) == "WINDOW")


def _is_integer(cursor: Cursor) -> bool:
    """Whether an integer follows; a negative one only after a whole operand, where it cannot be `priority - 1`."""
    first, second = cursor.peek(1), cursor.peek(2)
    if first is not None and first.token_type == TokenType.NUMBER:
        return True
    before = cursor.peek(-1)
    operand = before is not None and (bool(cursor.word(-1)) or before.token_type in _OPERAND_ENDS)
    return (
        operand
        and first is not None
        and first.token_type == TokenType.DASH
        and second is not None
        and second.token_type == TokenType.NUMBER
        and cursor.word(-1) not in _BEFORE_OPERAND
    )


_OPERAND_ENDS = {
    TokenType.R_PAREN,
    TokenType.R_BRACKET,
    TokenType.NUMBER,
    TokenType.STRING,
    TokenType.IDENTIFIER,
}
_BEFORE_OPERAND = {
    *("AND OR NOT WHERE HAVING WHEN THEN ELSE BETWEEN LIKE RLIKE IN DIV ON CASE LIMIT".split()),
    *("GROUP BY", "ORDER BY", "BY"),
}


def _select(cursor: Cursor) -> Select:
    select = parse_query(cursor, until=_tail_start(cursor, lambda at: _is_tail(at) or _is_asked_tail(at)))
    found = Select(select)
    while not cursor.at_end:
        word = cursor.word()
        if word not in _ASKED:
            raise cursor.error(f"{word} is a clause of standing queries", remedy=_TO_WRITE)
        name, read = _ASKED[word]
        if getattr(found, name) is not None:
            raise cursor.error(f"{word} is given twice", remedy="Keep one of them.")
        cursor.index += 1
        found = replace(found, **{name: read(cursor)})
    return found


def _is_asked_tail(cursor: Cursor) -> bool:
    """Whether a clause of one-time queries begins here; otherwise these words are names."""
    before, following = cursor.peek(-1), cursor.peek(1)
    if following is None or (before is not None and before.token_type == TokenType.DOT):
        return False
    if cursor.word() == "ISOLATION":
        return following.token_type == TokenType.STRING or cursor.word(1) in _ISOLATIONS
    return cursor.word() == "TIMEOUT" and following.token_type in (TokenType.NUMBER, TokenType.STRING)


def _isolation(cursor: Cursor) -> str:
    if cursor.at_string():
        found = cursor.string("an isolation").upper()
        if found in _ISOLATIONS:
            return found.lower()
        cursor.index -= 1
    elif cursor.word() in _ISOLATIONS:
        cursor.index += 1
        return (cursor.word(-1)).lower()
    raise cursor.unexpected("'latest', 'window' or 'serial' after ISOLATION", _ISOLATIONS)


def _timeout(cursor: Cursor) -> Measure:
    return parse_time(cursor, "TIMEOUT")


_ISOLATIONS = ("LATEST", "WINDOW", "SERIAL")
_ASKED: dict[str, tuple[str, Callable[[Cursor], Any]]] = {
    "ISOLATION": ("isolation", _isolation),
    "PRIORITY": ("priority", _priority),
    "TIMEOUT": ("timeout", _timeout),
}
"""The clauses of one-time queries: the field of `Select`, and how it is read."""


def _explain(cursor: Cursor) -> Explain:
    cursor.expect("EXPLAIN")
    analyze, verbose = cursor.take("ANALYZE"), cursor.take("VERBOSE")
    if cursor.take("STREAM"):
        name = _object_name(cursor, "the name of a derived stream")
        return Explain(name=name, analyze=analyze, is_stream=True, verbose=verbose)
    if analyze:
        cursor.expect("QUERY", remedy=_TO_ANALYZE)
    if analyze or cursor.take("QUERY"):
        return Explain(name=_object_name(cursor, "the name of a query"), analyze=analyze, verbose=verbose)
    if cursor.word() in ("SELECT", "WITH"):
        return Explain(_select(cursor), verbose=verbose)
    start = cursor.index
    if cursor.word() == "CREATE":
        statement = _create(cursor)
        if isinstance(statement, CreateQuery | CreateDerivedStream):
            return Explain(statement, verbose=verbose)
        raise cursor.error(
            "EXPLAIN explains queries, and streams that are made by one (CREATE STREAM … AS)",
            ahead=start - cursor.index,
        )
    known = ["SELECT", "CREATE", "QUERY", "STREAM", "ANALYZE", "VERBOSE"]
    raise cursor.unexpected("SELECT, CREATE QUERY, QUERY, STREAM, ANALYZE QUERY or VERBOSE after EXPLAIN", known)


def _show(cursor: Cursor) -> Show:
    cursor.expect("SHOW")
    for what in _SHOWN:
        if cursor.take(what):
            return Show(what.lower())
    if cursor.take("LATENESS"):
        return Show("lateness", _object_name(cursor, "the name of a stream"))
    if cursor.take("CREATE"):
        for kind in _KINDS:
            if cursor.take(kind):
                return Show(f"create {kind.lower()}", _object_name(cursor, f"the name of a {kind.lower()}"))
        raise cursor.unexpected("STREAM, QUERY or TABLE after SHOW CREATE", _KINDS)
    known = [*_SHOWN, "LATENESS", "CREATE"]
    raise cursor.unexpected(f"{', '.join(known[:-1])} or CREATE after SHOW", known)


def _describe(cursor: Cursor) -> Describe:
    cursor.index += 1
    return Describe(_object_name(cursor, "the name of a stream, table or query"))


def _drop(cursor: Cursor) -> Drop:
    cursor.expect("DROP")
    for kind in _KINDS:
        if cursor.take(kind):
            break
    else:
        raise cursor.unexpected("STREAM, QUERY or TABLE after DROP", _KINDS)
    if_exists = False
    if cursor.take("IF"):
        cursor.expect("EXISTS")
        if_exists = True
    return Drop(kind.lower(), _object_name(cursor, f"the name of a {kind.lower()}"), if_exists)


def _set(cursor: Cursor) -> SetSetting:
    cursor.expect("SET")
    name = option_name(cursor, "the name of a setting")
    cursor.expect_symbol(TokenType.EQ, "=")
    if cursor.at_end:
        raise cursor.unexpected("a value")
    if cursor.at_string() and cursor.peek(1) is None:
        return SetSetting(name, cursor.string("a value"))
    return SetSetting(name, _bare_value(cursor))


def _bare_value(cursor: Cursor) -> str:
    """Read the rest of the statement as written, without comments and with single blanks."""
    value, end = "", 0
    while (token := cursor.peek()) is not None:
        if cursor.at_string():
            raise cursor.unexpected("the end of the value; a value is one quoted string, or bare words")
        value += (" " if value and token.start > end else "") + cursor.source(token)
        end = token.end + 1
        cursor.index += 1
    return value


_STATEMENTS: dict[str, Callable[[Cursor], Statement]] = {
    "CREATE": _create,
    "ALTER": _alter,
    "SELECT": _select,
    "WITH": _select,
    "EXPLAIN": _explain,
    "SHOW": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "DROP": _drop,
    "SET": _set,
    "INSERT": parse_insert,
    "UPDATE": parse_update,
    "DELETE": parse_delete,
    "LOAD": parse_load,
}
