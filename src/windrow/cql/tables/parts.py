"""What statements about tables consist of: lists of expressions and of names."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from windrow.cql.select_text import parse_query
from windrow.cql.tokens import Cursor, place_of
from windrow.errors import ParseError, UnsupportedError

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)


def expressions_until(cursor: Cursor, until: int, what: str, most: int | None = None) -> list[exp.Expr]:
    """Parse expressions, separated by commas, up to the token `until`, and move the cursor there. They have no aliases
    and no sub-queries."""
    if cursor.index >= until:
        raise cursor.unexpected(what)
    first = cursor.tokens[cursor.index]
    select = Token(TokenType.SELECT, "SELECT", first.line, first.col, first.start, first.end)
    within = Cursor([select, *cursor.tokens[cursor.index : until]], cursor.text)
    tree = parse_query(within, until=len(within.tokens))
    is_plain = isinstance(tree, exp.Select) and {key for key, value in tree.args.items() if value} == {"expressions"}
    found = list(tree.expressions) if is_plain else []
    if not found or any(isinstance(one, exp.Alias) for one in found) or (most is not None and len(found) > most):
        raise cursor.unexpected(what)
    for one in found:
        inner = one.find(exp.Query)
        if inner is not None:
            raise UnsupportedError(
                "a sub-query cannot stand here",
                place=place_of(inner, cursor.text) or cursor.place(),
                remedy="INSERT INTO t SELECT … takes rows from queries and other tables.",
            )
    cursor.index = until
    return [one.pop() for one in found]


def next_outside(cursor: Cursor, *words: str, comma: bool = False) -> int:
    """The index of the next of these words, or of a comma, outside of parentheses; that of the end if there is none."""
    depth = 0
    for index in range(cursor.index, len(cursor.tokens)):
        kind = cursor.tokens[index].token_type
        if kind in _OPENING:
            depth += 1
        elif kind in _CLOSING:
            depth -= 1
        elif depth == 0 and ((comma and kind == TokenType.COMMA) or cursor.word(index - cursor.index) in words):
            return index
    return len(cursor.tokens)


def names_in_parentheses(cursor: Cursor, what: str) -> tuple[str, ...]:
    """Parse `(a, b)`; no name occurs twice."""
    cursor.expect_symbol(TokenType.L_PAREN, "(")
    found = list[str]()
    while True:
        name = cursor.name(what)
        if name.lower() in (one.lower() for one in found):
            raise cursor.error(f"'{name}' is given twice", ahead=-1, remedy="Keep one of them.")
        found.append(name)
        if cursor.take_symbol(TokenType.R_PAREN):
            return tuple(found)
        cursor.expect_symbol(TokenType.COMMA, ",' or ')")


def row_of(tree: exp.Expr, cursor: Cursor) -> tuple[exp.Expr, ...]:
    """The values of `(1, 'a')`."""
    if isinstance(tree, exp.Tuple):
        return tuple(one.pop() for one in list(tree.expressions))
    if isinstance(tree, exp.Paren):
        return (tree.this.pop(),)
    raise ParseError(
        "a row of VALUES stands in parentheses",
        place=place_of(tree, cursor.text) or cursor.place(-1),
        remedy="For example INSERT INTO hosts VALUES ('10.0.0.1', 'Bern'), ('10.0.0.2', 'Basel').",
    )
