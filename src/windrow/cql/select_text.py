"""Parse and print the SELECT inside a statement with sqlglot, and translate sqlglot's errors.

A tree is accepted only if its printed text parses to the same tree. So the text that the catalog keeps means what the
user wrote. Where sqlglot would lose something, the query is refused, never changed.
"""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.tokenizer_core import Token, TokenType

from windrow.cql.dialect import CQL
from windrow.cql.tokens import Cursor, nearest, place_at, tokenize
from windrow.errors import FunctionError, ParseError, Place, UnsupportedError, WindrowError

MAX_NESTING = 40
"""The most parentheses within parentheses: the parsers of sqlglot, Spark and DuckDB are recursive."""

MAX_DEPTH = 400
MAX_TOKENS = 50_000

_KEYWORDS = (
    "SELECT FROM WHERE HAVING LIMIT DISTINCT FILTER CASE WHEN THEN ELSE END BETWEEN LIKE EMIT PRIORITY "
    "EXPIRE INTO GROUP ORDER BY AND OR NOT NULL RANGE SLIDE ROWS"
).split()
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)
_AFTER_LISTS = (
    *(*_CLOSING, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY),
    *(TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT),
)
_TO_CLOSE = {
    "(": "Write ) where it ends.",
    "[": "Write ] where the window ends, as in [RANGE 10 MINUTES SLIDE 1 MINUTE].",
}
_BEHIND = "A window follows the stream's name"
_TUMBLING = f"{_BEHIND}, as in FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS]."
_HOPPING = f"{_BEHIND}, as in FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS]."
_CUMULATING = f"The closest is [SINCE '2026-01-01' SLIDE 1 HOUR]: all tuples since then, every hour. {_BEHIND}."
_NO_SESSIONS = f"This version has no session windows. {_BEHIND}, as in FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS]."
_ENDS = "Every answer has window_start and window_end: leave this out."
_OTHERS_WINDOWS = {
    "WINDOW": f"{_TUMBLING} Windows with a shorter SLIDE overlap.",
    "SESSION_WINDOW": _NO_SESSIONS,
    "TUMBLE": _TUMBLING,
    "HOP": _HOPPING,
    "CUMULATE": _CUMULATING,
    "SESSION": _NO_SESSIONS,
    **{f"{kind}_{end}": _ENDS for kind in ("TUMBLE", "HOP", "SESSION") for end in ("START", "END", "ROWTIME")},
    "WINDOW TUMBLING": f"{_TUMBLING} A GRACE PERIOD is PUNCTUATE WITH SLACK of CREATE STREAM.",
    "WINDOW HOPPING": f"{_HOPPING} A GRACE PERIOD is PUNCTUATE WITH SLACK of CREATE STREAM.",
    "WINDOW SESSION": _NO_SESSIONS,
}
"""Windows of Spark, Flink and ksqlDB, and what to write instead."""

_MISSING = re.compile(r"Required keyword: '(\w+)' missing for <class '[\w.]*\.(\w+)'>")


def parse_select(cursor: Cursor, until: int) -> exp.Select | exp.SetOperation:
    """Parse the query of a standing query from the cursor to the token `until`, and move the cursor there."""
    if cursor.word() not in ("SELECT", "WITH"):
        raise cursor.unexpected("SELECT", ["SELECT", "WITH"])
    return parse_query(cursor, until)


def parse_query(cursor: Cursor, until: int) -> exp.Select | exp.SetOperation:
    """Parse a SELECT, also with WITH or set operations, up to the token `until`, and move the cursor there."""
    tokens = cursor.tokens[cursor.index : until]
    if len(tokens) > MAX_TOKENS:
        raise cursor.error(f"the query is too long: more than {MAX_TOKENS:,} words and symbols")
    _check_brackets(tokens, cursor.text)
    _check_windows(tokens, cursor.text)
    _check_commas(tokens, cursor.text)
    place = place_at(cursor.text, tokens[0].start, tokens[0].end + 1)
    try:
        tree = _read(tokens, cursor.text)
        _check_size(tree, place)
        if tree != (again := _reread(tree)):
            raise UnsupportedError(
                _difference(tree, again),
                place=place,
                remedy="Put parentheses around a condition inside an expression, and back-quotes around keywords.",
            )
    except RecursionError:
        raise ParseError("the query is nested too deeply", place=place) from None
    cursor.index = until
    return tree


def expression_text(node: exp.Expr) -> str:
    """An expression or query as one line of Spark SQL with window clauses."""
    return node.sql(CQL, comments=False, unsupported_level=ErrorLevel.RAISE)


def parse_expression(text: str) -> exp.Expr:
    """Parse a single expression; for tests, the oracle and tools."""
    cursor = Cursor(tokenize("SELECT " + text, CQL()), "SELECT " + text)
    select = parse_query(cursor, until=len(cursor.tokens))
    if (
        not isinstance(select, exp.Select)
        or len(select.expressions) != 1
        or {key for key, value in select.args.items() if value} != {"expressions"}
    ):
        raise ParseError(f"'{text}' is not one expression")
    expression: exp.Expr = select.expressions[0]
    return expression.pop()


def _read(tokens: list[Token], text: str) -> exp.Select | exp.SetOperation:
    parser = CQL().parser()
    try:
        trees = parser.parse_into(exp.Select, tokens, text)
    except WindrowError:
        raise
    except SqlglotParseError as error:
        raise _translate(error, tokens, text) from None
    except RecursionError:
        raise
    except Exception as error:  # for some malformed texts sqlglot raises TypeError, KeyError, …
        place = _place(text, tokens[0])
        raise ParseError(f"the query cannot be read ({type(error).__name__})", place=place) from None
    tree = trees[0] if trees else None
    if not isinstance(tree, (exp.Select, exp.SetOperation)):
        kind = type(tree).__name__.upper() if tree is not None else "this"
        raise UnsupportedError(
            f"{kind} is not supported; a query is a SELECT, or several with UNION ALL",
            place=_place(text, tokens[0]),
            remedy="For example SELECT * FROM s [RANGE 10 MINUTES].",
        )
    if isinstance(tree, exp.Select) and not tree.expressions:
        raise ParseError(
            "the select list is empty", place=_place(text, tokens[0]), remedy="For example SELECT COUNT(*) AS n FROM …"
        )
    return tree


def _reread(tree: exp.Select | exp.SetOperation) -> exp.Select | exp.SetOperation | None:
    try:
        text = expression_text(tree)
        return _read(tokenize(text, CQL()), text)
    except (WindrowError, SqlglotError, ValueError, TypeError, KeyError, AttributeError, IndexError):
        return None


def _difference(tree: exp.Expr, again: exp.Expr | None) -> str:
    if again is not None:
        for one, other in zip(tree.expressions, again.expressions, strict=False):
            if one != other:
                return f"'{one.sql(CQL, unsupported_level=ErrorLevel.IGNORE)}' cannot be kept as written"
    return "the query contains something that cannot be kept as written"


def _check_brackets(tokens: list[Token], text: str) -> None:
    """Check that brackets match and do not nest too deeply, before sqlglot, which accepts some that do not match."""
    opened: list[Token] = []
    for token in tokens:
        if token.token_type in _OPENING:
            opened.append(token)
            if len(opened) > MAX_NESTING:
                raise ParseError(
                    f"the query is nested too deeply: more than {MAX_NESTING} parentheses",
                    place=_place(text, token),
                )
        elif token.token_type in _CLOSING:
            if not opened or _OPENING.index(opened.pop().token_type) != _CLOSING.index(token.token_type):
                raise ParseError(
                    f"'{token.text}' closes nothing",
                    place=_place(text, token),
                    remedy="Leave it out, or write the bracket that it closes.",
                )
    if opened:
        raise ParseError(
            f"'{opened[-1].text}' is not closed", place=_place(text, opened[-1]), remedy=_TO_CLOSE[opened[-1].text]
        )


def _check_windows(tokens: list[Token], text: str) -> None:
    """Refuse windows in the syntax of other systems before sqlglot fails on their arguments."""
    cursor = Cursor(tokens, text)
    for index, token in enumerate(tokens):
        if token.token_type != TokenType.L_PAREN:
            continue
        if cursor.word(index + 1) in ("RANGE", "ROWS") and cursor.word(index - 1) not in ("OVER", "AS"):
            _refuse_parentheses(cursor, index)
        words = [cursor.word(index - 1)]
        if cursor.word(index - 2) == "WINDOW":
            words = ["WINDOW", *words]
        name = " ".join(words)
        if name in _OTHERS_WINDOWS:
            place = place_at(text, tokens[index - len(words)].start, tokens[index - 1].end + 1)
            raise FunctionError(
                f"{name}{' ' * (len(words) - 1)}(…) is not how Windrow writes a window",
                place=place,
                remedy=f"{_OTHERS_WINDOWS[name]} See docs/coming_from.md.",
            )


def _refuse_parentheses(cursor: Cursor, index: int) -> None:
    """Refuse a window in parentheses: a number follows RANGE or ROWS."""
    behind = cursor.peek(index + 2)
    if behind is not None and behind.token_type == TokenType.NUMBER:
        word = cursor.word(index + 1)
        raise ParseError(
            "a window stands in brackets, not in parentheses",
            place=_place(cursor.text, cursor.tokens[index]),
            remedy=f"Write [{word} {behind.text} …] behind the stream's name.",
        )


def _check_commas(tokens: list[Token], text: str) -> None:
    """Refuse a comma that nothing follows, which sqlglot skips."""
    for token, behind in zip(tokens, [*tokens[1:], None], strict=True):
        if token.token_type == TokenType.COMMA and (behind is None or behind.token_type in _AFTER_LISTS):
            before = "the end" if behind is None else f"'{text[behind.start : behind.end + 1]}'"
            raise ParseError(
                f"a comma stands before {before}",
                place=_place(text, token),
                remedy="Leave it out, or write what should follow it.",
            )


def _check_size(tree: exp.Expr, place: Place) -> None:
    """Limit the depth, so that no later step (printing, planning, Spark, DuckDB) overflows its stack."""
    depth, level = 0, [tree]
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ParseError(f"the query is nested too deeply: more than {MAX_DEPTH} levels", place=place)
        level = [child for node in level for child in node.iter_expressions()]


def _place(text: str, token: Token) -> Place:
    return place_at(text, token.start, token.end + 1)


def _translate(error: SqlglotParseError, tokens: list[Token], text: str) -> ParseError:
    """The ParseError for sqlglot's error, at the token that it names."""
    details = error.errors[0] if error.errors else {}
    index = _error_index(details, tokens)
    token = tokens[index] if index < len(tokens) else None
    place = _place(text, token) if token else place_at(text, tokens[-1].end + 1)
    description = str(details.get("description") or "")
    missing = _MISSING.match(description)
    source = text[token.start : token.end + 1] if token else ""
    if token is not None and token.token_type == TokenType.L_BRACKET:
        return ParseError(
            "a window clause is not expected here",
            place=place,
            remedy="It follows the stream's name, before AS: FROM packets [RANGE 10 MINUTES] AS p.",
        )
    if missing or token is None:
        what = f"something is missing {f'near {source!r}' if source else 'at the end of the query'}"
    elif description.startswith("Invalid expression / Unexpected token"):
        what = f"did not expect '{source[:40]}' here"
    else:
        what = f"{_plain(description)} (near '{source[:40]}')"
    return ParseError(what, place=place, remedy=_suggestion(tokens, index, text))


def _error_index(details: dict[str, object], tokens: list[Token]) -> int:
    """The index of the token at the error's line and column; sqlglot gives those of the last token at the end."""
    for index, token in enumerate(tokens):
        if (token.line, token.col) == (details.get("line"), details.get("col")):
            return index
    return len(tokens)


def _plain(description: str) -> str:
    """The message without the class and token representations that sqlglot adds."""
    cut = re.split(r" but got <Token|<class| for <", description)[0]
    return cut[:1].lower() + cut[1:200]


def _suggestion(tokens: list[Token], index: int, text: str) -> str | None:
    """A remedy for a misspelt keyword near the error: sqlglot often reads it as an alias and fails one or two tokens
    later."""
    cursor = Cursor(tokens, text)
    for candidate in (index, index - 1, index - 2):
        if not 0 <= candidate < len(tokens):
            continue
        word = cursor.word(candidate)
        if word and not set(word.split()) <= set(_KEYWORDS) and (guess := nearest(word, _KEYWORDS, 0.75)):
            return f"Did you mean {guess}?"
    return None
