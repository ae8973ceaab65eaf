"""Column types of CREATE STREAM: Spark SQL's scalar types, with one name for all aliases."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from windrow.cql.tokens import Cursor, nearest
from windrow.errors import ParseError

COLUMN_TYPES = (
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
    "STRING",
    "BINARY",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
)

_ALIASES = {
    "BOOL": "BOOLEAN",
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "DOUBLE PRECISION": "DOUBLE",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "TEXT": "STRING",
    "VARCHAR": "STRING",
    "CHAR": "STRING",
    "CHARACTER": "STRING",
    "TIMESTAMP_LTZ": "TIMESTAMP",
}
_WITH_LENGTH = {"VARCHAR", "CHAR", "CHARACTER"}
_MAX_PRECISION = 38


def parse_type(cursor: Cursor) -> str:
    """Read a type in normal form: `numeric(10, 2)` is `DECIMAL(10,2)`, `varchar(20)` is `STRING`."""
    start = cursor.index
    word = cursor.word()
    name = _ALIASES.get(word, word)
    if name not in COLUMN_TYPES:
        raise _unknown_type(cursor, word)
    cursor.index += 1
    numbers = _parameters(cursor)
    if name == "DECIMAL":
        return _decimal(cursor, numbers, start)
    if numbers and not (word in _WITH_LENGTH and len(numbers) == 1):
        raise cursor.error(f"{word} takes no parameters", ahead=start - cursor.index)
    return name


def _unknown_type(cursor: Cursor, word: str) -> ParseError:
    if not word:
        return cursor.unexpected("a column type")
    guess = nearest(word, [*COLUMN_TYPES, *_ALIASES], 0.7)
    hint = f"Did you mean {guess}? " if guess else ""
    return cursor.error(f"'{word}' is not a column type", remedy=f"{hint}Column types are {', '.join(COLUMN_TYPES)}.")


def _parameters(cursor: Cursor) -> list[int]:
    if not cursor.take_symbol(TokenType.L_PAREN):
        return []
    numbers = [_parameter(cursor)]
    while cursor.take_symbol(TokenType.COMMA):
        numbers.append(_parameter(cursor))
    cursor.expect_symbol(TokenType.R_PAREN, ")")
    return numbers


def _parameter(cursor: Cursor) -> int:
    token = cursor.peek()
    if token is None or token.token_type != TokenType.NUMBER:
        raise cursor.unexpected("a number")
    if not (token.text.isascii() and token.text.isdigit()) or len(token.text) > 10:
        raise cursor.error(f"'{token.text[:40]}' is not a length, precision or scale")
    cursor.index += 1
    return int(token.text)


def _decimal(cursor: Cursor, numbers: list[int], start: int) -> str:
    precision, scale = {0: (10, 0), 1: (*numbers, 0), 2: tuple(numbers)}.get(len(numbers), (0, 0))
    if not (1 <= precision <= _MAX_PRECISION and scale <= precision):
        raise cursor.error(
            f"DECIMAL takes a precision from 1 to {_MAX_PRECISION} and a scale up to the precision",
            ahead=start - cursor.index,
        )
    return f"DECIMAL({precision},{scale})"
