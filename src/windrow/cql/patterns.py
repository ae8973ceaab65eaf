"""Punctuation patterns: conditions on columns, in the text that a source sends.

A pattern is a conjunction of conditions, `seg_id = 's6', ts < '2026-01-01 12:11:00'`. It promises that no more tuples
meet all of them (Li et al., SIGMOD 2005, section 5). A wildcard, `c = *`, adds no condition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from windrow.cql.names import quote_name
from windrow.types import SqlType, day_of, moment_of

COMPARISONS = ("<", "<=", ">", ">=")

NOT_A_PATTERN = "not a pattern"
UNKNOWN_COLUMN = "unknown column"
BAD_VALUE = "a value that does not fit its column"
OF_A_PART = "a pattern about a part of a stream with LATE REVISE"


class BadPatternError(ValueError):
    """The text is not a pattern over the stream's columns; `reason` is one of the constants above."""

    def __init__(self, reason: str, detail: str):
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


@dataclass(frozen=True)
class Condition:
    """`column op values`, where `op` is =, a comparison, BETWEEN or IN.

    A NULL meets only `= NULL`. NaN is greater than every other value.
    """

    column: str
    op: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if self.op not in ("=", "BETWEEN", "IN", *COMPARISONS) or not self.values:
            raise ValueError(f"'{self.op}' is not a condition of a pattern")
        if self.op != "=" and None in self.values:
            raise BadPatternError(NOT_A_PATTERN, f"NULL goes with '=', not with {self.op}")

    def __str__(self) -> str:
        """Text that `parse_pattern` reads."""
        texts = [_text(value) for value in self.values]
        after = {"IN": f"({', '.join(texts)})", "BETWEEN": " AND ".join(texts)}.get(self.op, texts[0])
        return f"{quote_name(self.column)} {self.op} {after}"


Pattern = tuple[Condition, ...]
"""A conjunction; every tuple meets the empty one."""

_TOKEN = re.compile(
    r"\s*(?:('(?:[^']|'')*')|(`(?:[^`]|``)+`|[A-Za-z_]\w*)|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(<=|>=|[=<>*(),]))"
)


def pattern_text(pattern: Pattern) -> str:
    return ", ".join(map(str, pattern))


def parse_pattern(text: str, types: Mapping[str, SqlType]) -> Pattern:
    """The pattern over these columns, with or without parentheses around it; raises BadPatternError."""
    tokens = _tokens(text)
    if len(tokens) > 1 and tokens[0] == "(" and tokens[-1] == ")":
        tokens = tokens[1:-1]
    if not tokens:
        raise BadPatternError(NOT_A_PATTERN, "it is empty")
    return _Reader(tokens, types).pattern()


def equals(name: str, value: Any, types: Mapping[str, SqlType]) -> Condition:
    """The condition that a column equals a Python value; raises BadPatternError."""
    column = _column(name, types)
    kind = types[column]
    try:
        if isinstance(value, str) and kind.is_timestamp:
            value = moment_of(value)
        elif value is not None and kind.name == "DATE":
            value = day_of(value)
    except ValueError:
        raise BadPatternError(BAD_VALUE, f"{value!r} is not a {kind}") from None
    return Condition(column, "=", (_fitted(value, kind),))


def _tokens(text: str) -> list[str]:
    found, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadPatternError(NOT_A_PATTERN, repr(text[at:]))
        found.append(match[0].strip())
        at = match.end()
    return found


class _Reader:
    """Walks the tokens of one pattern."""

    def __init__(self, tokens: list[str], types: Mapping[str, SqlType]):
        self._tokens, self._types, self._at = tokens, types, 0

    def pattern(self) -> Pattern:
        found = [self._condition()]
        while self._at < len(self._tokens):
            self._expect(",")
            found.append(self._condition())
        conditions = tuple(condition for condition in found if condition is not None)
        if not conditions:
            raise BadPatternError(NOT_A_PATTERN, "it has only wildcards and would end the whole stream")
        return conditions

    def _next(self) -> str:
        if self._at == len(self._tokens):
            raise BadPatternError(NOT_A_PATTERN, "it ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, wanted: str) -> None:
        found = self._next()
        if found.upper() != wanted:
            raise BadPatternError(NOT_A_PATTERN, f"expected {wanted}, but found {found}")

    def _condition(self) -> Condition | None:
        """Read a condition; None for a wildcard."""
        written = self._next()
        name = written[1:-1].replace("``", "`") if written.startswith("`") else written
        column, op = _column(name, self._types), self._next().upper()
        if op == "=" and self._at < len(self._tokens) and self._tokens[self._at] == "*":
            self._at += 1
            return None
        if op == "=" or op in COMPARISONS:
            return Condition(column, op, (self._read_literal(column),))
        if op == "BETWEEN":
            least = self._read_literal(column)
            self._expect("AND")
            return Condition(column, op, (least, self._read_literal(column)))
        if op == "IN":
            return Condition(column, op, self._listed(column))
        raise BadPatternError(NOT_A_PATTERN, f"{op} after {column}")

    def _listed(self, column: str) -> tuple[Any, ...]:
        self._expect("(")
        values = [self._read_literal(column)]
        while (mark := self._next()) == ",":
            values.append(self._read_literal(column))
        if mark != ")":
            raise BadPatternError(NOT_A_PATTERN, f"{mark} in a list")
        return tuple(values)

    def _read_literal(self, column: str) -> Any:
        """The next token as a value of the column's type; None for NULL."""
        token, kind = self._next(), self._types[column]
        if token.upper() == "NULL":
            return None
        quoted = token.startswith("'")
        text = token[1:-1].replace("''", "'") if quoted else token
        try:
            return _fitted(_read(text, quoted, kind), kind)
        except (ValueError, InvalidOperation):
            raise BadPatternError(BAD_VALUE, f"{token} is not a {kind}") from None


def _column(name: str, types: Mapping[str, SqlType]) -> str:
    for column in types:
        if column.lower() == name.lower():
            return column
    raise BadPatternError(UNKNOWN_COLUMN, name)


def _read(text: str, quoted: bool, kind: SqlType) -> Any:
    if kind.name == "STRING" and quoted:
        return text
    if kind.is_timestamp and quoted:
        return moment_of(text)
    if kind.name == "DATE" and quoted:
        return date.fromisoformat(text)
    if kind.name == "BOOLEAN" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind.is_integer:
        return int(text)
    if kind.is_decimal:
        return Decimal(text)
    if kind.is_float:
        return float(text)
    raise ValueError(text)


def _fitted(value: Any, kind: SqlType) -> Any:
    """The value in the column's type; raises BadPatternError for BINARY, NaN, ∞ and values that do not fit exactly."""
    if value is None:
        return None
    if kind.name == "BINARY":
        raise BadPatternError(BAD_VALUE, "a pattern has no values of type BINARY")
    try:
        fitted = pa.scalar(value, kind.arrow).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise BadPatternError(BAD_VALUE, f"{value!r} is not a {kind}") from None
    if (isinstance(fitted, float) and not math.isfinite(fitted)) or (kind.is_integer and fitted != value):
        raise BadPatternError(BAD_VALUE, f"{value!r} is not a {kind}")
    return fitted + 0.0 if isinstance(fitted, float) else fitted  # -0.0 becomes 0.0: promises are compared by text


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | Decimal):
        return format(value, "f") if isinstance(value, Decimal) else repr(value)
    if isinstance(value, datetime):
        return f"'{value.isoformat(sep=' ')}'"
    return "'" + str(value).replace("'", "''") + "'"
