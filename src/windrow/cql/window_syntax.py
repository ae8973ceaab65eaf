"""Parse and print the bracketed window clause, and measures (`10 MINUTES`, `100 ROWS`, `1000`) for all clauses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from sqlglot.tokenizer_core import TokenType

from windrow.cql.intervals import (
    MAX_AMOUNT,
    UNIT_WORDS,
    format_interval,
    to_microseconds,
    unit_remedy,
    unit_us,
)
from windrow.cql.names import quote_name, quote_text
from windrow.cql.tokens import Cursor, nearest, place_at
from windrow.cql.window_clause import Measure, Unit, WindowClause, WindowKind
from windrow.errors import ParseError
from windrow.types import UNITS_US

_KINDS = ("RANGE", "ROWS", "SINCE", "UNBOUNDED", "NOW")
_CLAUSES = ("SLIDE", "OFFSET", "ORIGIN", "WATTR", "RATTR", "SATTR", "PATTR", "PARTITION BY", "INTERNAL")
_FOLLOWERS = frozenset([*_CLAUSES, *_KINDS, "PARTITION"])
_UNITS = frozenset([*UNIT_WORDS, "ROW", "ROWS"])
UNITS_REMEDY = (
    f"Units of time are {', '.join(unit + 'S' for unit in UNITS_US)}; ROWS counts rows; "
    "a length of an integer column has no unit."
)
_EXAMPLE = "For example [RANGE 10 MINUTES SLIDE 1 MINUTE]; on an integer column [RANGE 1000 SLIDE 100]."
_JOINED = re.compile(r"([0-9]+(?:\.[0-9]*)?)([A-Za-z]+)", re.ASCII)


def parse_measure(
    cursor: Cursor, what: str, *, bare: Unit = Unit.VALUES, zero: bool = False, units: frozenset[str] = _UNITS
) -> Measure:
    """Read `10 MINUTES`, `5 ROWS` or a count without a unit, whose unit is then `bare`. Zero needs `zero`.

    `what` names the clause in errors; `units` are the words that a remedy may suggest.
    """
    start = cursor.index
    negative = cursor.take_symbol(TokenType.DASH)
    number, unit, end = _number_and_unit(cursor, what)
    place = place_at(cursor.text, cursor.tokens[start].start, end)
    example = f"For example {what} 10{f' {_plural(unit)}' if unit else ''}."
    if negative:
        raise ParseError(f"{what} is not negative", place=place, remedy=example)
    measure = _measure(cursor, number, unit, bare, units, start)
    if measure.amount == 0 and not zero:
        raise ParseError(f"{what} is greater than zero", place=place, remedy=example)
    return measure


def unknown_unit(cursor: Cursor, known: Iterable[str]) -> ParseError | None:
    """The error for a word right after a number that is not similar to a `known` word; None if there is none."""
    before, word = cursor.peek(-1), cursor.peek()
    if before is None or word is None or before.token_type != TokenType.NUMBER or not cursor.word():
        return None
    if nearest(cursor.word(), known):
        return None
    return cursor.error(f"'{cursor.source(word)[:40]}' is not a unit", remedy=UNITS_REMEDY)


def _plural(unit: str) -> str:
    upper = unit.upper()
    return f"{upper}S" if f"{upper}S" in _UNITS else upper


def _number_and_unit(cursor: Cursor, what: str) -> tuple[str, str | None, int]:
    """Read the digits, the word after them if it may be a unit, and the offset of their end."""
    token = cursor.peek()
    number = ""
    if token is not None and token.token_type == TokenType.DOT:
        after = cursor.peek(1)
        if after is not None and after.token_type == TokenType.NUMBER and after.start == token.end + 1:
            number = "."
            cursor.index += 1
            token = after
    if token is not None and not number and (joined := _JOINED.fullmatch(token.text)):
        cursor.index += 1
        return joined.group(1), joined.group(2), token.end + 1
    if token is None or token.token_type != TokenType.NUMBER:
        quoted = token is not None and token.token_type == TokenType.STRING
        remedy = f"Write it without quotes, such as {what} 10 MINUTES." if quoted else None
        raise cursor.unexpected(f"a number after {what}", remedy=remedy)
    cursor.index += 1
    number += token.text
    following = cursor.peek()
    word = cursor.word()
    if word and word not in _FOLLOWERS - {"ROWS"} and following is not None:
        if unit_us(word) or unit_remedy(word) or word in _UNITS or nearest(word, _UNITS, 0.75):
            cursor.index += 1
            return number, word, following.end + 1
    return number, None, token.end + 1


def _measure(cursor: Cursor, number: str, unit: str | None, bare: Unit, units: frozenset[str], start: int) -> Measure:
    first, last = cursor.tokens[start], cursor.tokens[cursor.index - 1]
    place = place_at(cursor.text, first.start, last.end + 1)
    if unit is not None and unit.upper() not in ("ROW", "ROWS"):
        if unit_us(unit) is None and (guess := nearest(unit, units)):
            raise ParseError(f"'{unit}' is not a unit", place=place, remedy=f"Did you mean {guess}?")
        return Measure(to_microseconds(number, unit, place), Unit.TIME)
    if not (number.isascii() and number.isdigit()) or len(number) > 30:
        raise ParseError(f"'{number[:40]}' is not a whole number", place=place)
    if int(number) > MAX_AMOUNT:
        raise ParseError(f"{number} is too large", place=place)
    return Measure(int(number), bare if unit is None else Unit.ROWS)


def parse_time(cursor: Cursor, what: str, *, zero: bool = False) -> Measure:
    """Read a measure that is a length of time."""
    start = cursor.index
    measure = parse_measure(cursor, what, zero=zero, units=UNIT_WORDS)
    if measure.unit is not Unit.TIME:
        raise ParseError(
            f"{what} is a length of time",
            place=place_at(cursor.text, cursor.tokens[start].start, cursor.tokens[cursor.index - 1].end + 1),
            remedy="For example 10 SECONDS.",
        )
    return measure


def parse_window(cursor: Cursor) -> WindowClause:
    """Read the clause at the cursor, from '[' to ']'."""
    opening = cursor.index
    cursor.expect_symbol(TokenType.L_BRACKET, "[")
    clause = _kind(cursor)
    seen: set[str] = set()
    while not cursor.take_symbol(TokenType.R_BRACKET):
        start = cursor.index
        keyword = next((words for words in _CLAUSES if cursor.take(*words.split())), None)
        if keyword is None:
            raise unknown_unit(cursor, [*_CLAUSES, *_UNITS]) or cursor.unexpected(
                "']' or a window option", [*_CLAUSES, *_UNITS], f"Options: {', '.join(_CLAUSES)}."
            )
        keyword = "PATTR" if keyword == "PARTITION BY" else keyword
        if keyword in seen:
            raise cursor.error(f"{keyword} is given twice", ahead=start - cursor.index, remedy="Keep one of them.")
        seen.add(keyword)
        clause = replace(clause, **_OPTIONS[keyword](cursor, clause))
    first, last = cursor.tokens[opening], cursor.tokens[cursor.index - 1]
    return replace(clause, place=place_at(cursor.text, first.start, last.end + 1))


def _kind(cursor: Cursor) -> WindowClause:
    if cursor.take("RANGE"):
        if cursor.take("UNBOUNDED"):
            return WindowClause(WindowKind.UNBOUNDED)
        start = cursor.index
        size = parse_measure(cursor, "RANGE")
        if size.unit is Unit.ROWS:
            raise cursor.error(
                "RANGE is a length of the window attribute",
                ahead=start - cursor.index,
                remedy="Write [ROWS n].",
            )
        return WindowClause(WindowKind.RANGE, range=size)
    if cursor.take("ROWS"):
        start = cursor.index
        size = parse_measure(cursor, "ROWS", bare=Unit.ROWS)
        if size.unit is not Unit.ROWS:
            raise cursor.error(
                "ROWS is a number of rows", ahead=start - cursor.index, remedy="For a time write [RANGE …]."
            )
        return WindowClause(WindowKind.ROWS, range=size)
    if cursor.take("SINCE"):
        return WindowClause(WindowKind.SINCE, since=_point(cursor, "SINCE"))
    if cursor.take("UNBOUNDED"):
        return WindowClause(WindowKind.UNBOUNDED)
    if cursor.take("NOW"):
        return WindowClause(WindowKind.NOW)
    if cursor.word() in _FOLLOWERS:
        raise cursor.error(
            f"a window begins with RANGE, ROWS, SINCE, UNBOUNDED or NOW; {cursor.word()} comes after that",
            remedy=_EXAMPLE,
        )
    raise cursor.unexpected("RANGE, ROWS, SINCE, UNBOUNDED or NOW", _KINDS, _EXAMPLE)


def _point(cursor: Cursor, what: str) -> str | int:
    """Read a point of the window attribute: a quoted time, or an integer with an optional minus sign."""
    if cursor.at_string():
        return cursor.string(what)
    sign = -1 if cursor.take_symbol(TokenType.DASH) else 1
    token = cursor.peek()
    if token is None or token.token_type != TokenType.NUMBER:
        raise cursor.unexpected(f"a quoted time or an integer after {what}")
    if not (token.text.isascii() and token.text.isdigit()) or len(token.text) > 30 or int(token.text) > MAX_AMOUNT:
        raise cursor.error(f"'{token.text[:40]}' is not an integer that {what} accepts")
    cursor.index += 1
    return sign * int(token.text)


def _slide(cursor: Cursor, clause: WindowClause) -> dict[str, Any]:
    return {"slide": parse_measure(cursor, "SLIDE", bare=_bare_unit(clause))}


def _offset(cursor: Cursor, clause: WindowClause) -> dict[str, Any]:
    if clause.range is None:
        raise cursor.error("OFFSET goes with RANGE or ROWS", ahead=-1, remedy="Leave it out.")
    return {"offset": parse_measure(cursor, "OFFSET", bare=_bare_unit(clause), zero=True)}


def _bare_unit(clause: WindowClause) -> Unit:
    return Unit.ROWS if clause.kind is WindowKind.ROWS else Unit.VALUES


def _sattr(cursor: Cursor, clause: WindowClause) -> dict[str, Any]:
    after = cursor.peek(1)
    if cursor.word() == "RANK" and after is not None and after.token_type == TokenType.L_PAREN:
        cursor.index += 2
        column = cursor.name("a column")
        cursor.expect_symbol(TokenType.R_PAREN, ")")
        return {"sattr": column, "sattr_is_rank": True}
    return {"sattr": cursor.name("a column after SATTR")}


def _pattr(cursor: Cursor, clause: WindowClause) -> dict[str, Any]:
    columns = [cursor.name("a column after PARTITION BY")]
    while cursor.take_symbol(TokenType.COMMA):
        columns.append(cursor.name("a column"))
    return {"pattr": tuple(columns)}


_OPTIONS: dict[str, Callable[[Cursor, WindowClause], dict[str, Any]]] = {
    "SLIDE": _slide,
    "OFFSET": _offset,
    "ORIGIN": lambda cursor, clause: {"origin": _point(cursor, "ORIGIN")},
    "WATTR": lambda cursor, clause: {"wattr": cursor.name("a column after WATTR")},
    "RATTR": lambda cursor, clause: {"rattr": cursor.name("a column after RATTR")},
    "SATTR": _sattr,
    "PATTR": _pattr,
    "INTERNAL": lambda cursor, clause: {"internal": True},
}


def measure_text(measure: Measure, *, bare: Unit = Unit.VALUES) -> str:
    """A measure as text; a count in the unit `bare` has no unit word."""
    if measure.unit is Unit.TIME:
        return format_interval(measure.amount)
    if measure.unit is bare:
        return str(measure.amount)
    if measure.unit is Unit.ROWS:
        return f"{measure.amount} ROW{'' if measure.amount == 1 else 'S'}"
    raise ValueError("a bare number here counts rows; a measure of values cannot be written")


def window_text(clause: WindowClause) -> str:
    """The canonical text of the clause, including the brackets."""
    bare = _bare_unit(clause)
    parts = [clause.kind.name]
    if clause.range is not None:
        parts.append(measure_text(clause.range, bare=bare))
    if clause.since is not None:
        parts.append(_point_text(clause.since))
    if clause.offset is not None:
        parts.append(f"OFFSET {measure_text(clause.offset, bare=bare)}")
    if clause.slide is not None:
        parts.append(f"SLIDE {measure_text(clause.slide, bare=bare)}")
    if clause.origin is not None:
        parts.append(f"ORIGIN {_point_text(clause.origin)}")
    for keyword, column in (("WATTR", clause.wattr), ("RATTR", clause.rattr), ("SATTR", clause.sattr)):
        if column is not None:
            name = quote_name(column)
            parts.append(
                f"{keyword} rank({name})" if keyword == "SATTR" and clause.sattr_is_rank else f"{keyword} {name}"
            )
    if clause.pattr:
        parts.append("PARTITION BY " + ", ".join(quote_name(column) for column in clause.pattr))
    if clause.internal:
        parts.append("INTERNAL")
    return f"[{' '.join(parts)}]"


def _point_text(point: str | int) -> str:
    return quote_text(point) if isinstance(point, str) else str(point)
