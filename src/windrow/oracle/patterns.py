"""Punctuation patterns, read from text or made from conditions by hand.

A pattern is a conjunction of conditions, one per attribute that it restricts. It promises that no tuple that meets them
all comes any more (Li et al., SIGMOD 2005, section 5). The source sends `seg_id = 's6', ts < '…'`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from math import isfinite, isnan
from typing import Any

from windrow.oracle.values import Misfit, fit
from windrow.types import SqlType, moment_of, point_of

ALWAYS = 1 << 62
"""The bound of a pattern without a condition on the window attribute: it closes its groups for ever."""


FARTHEST = 10**18
"""A pattern whose bound is further from zero is refused."""


class BadPattern(ValueError):
    """The text is not a pattern over the stream's columns."""


@dataclass(frozen=True)
class OracleCondition:
    """`column op values`; `op` is =, <, <=, >, >=, BETWEEN or IN. NULL meets only `= NULL`; NaN is above all values."""

    column: str
    op: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if self.op != "=" and None in self.values:
            raise BadPattern(f"NULL goes with =, not with {self.op}")

    def met_by(self, value: Any) -> bool:
        if self.op == "=":
            return bool(value is None if self.values[0] is None else value == self.values[0])
        if value is None:
            return False
        if isinstance(value, float) and isnan(value):
            return self.op in (">", ">=")
        if self.op == "BETWEEN":
            return bool(self.values[0] <= value <= self.values[1])
        if self.op == "IN":
            return value in self.values
        return bool(_COMPARE[self.op](value, self.values[0]))


_COMPARE = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@dataclass(frozen=True)
class Pattern:
    conditions: tuple[OracleCondition, ...]

    def met_by(self, row: Mapping[str, Any]) -> bool:
        return all(condition.met_by(row[condition.column]) for condition in self.conditions)

    def besides(self, column: str) -> tuple[OracleCondition, ...]:
        """The conditions on columns other than `column`."""
        return tuple(condition for condition in self.conditions if condition.column != column)

    def upper(self, column: str, kind: SqlType) -> int:
        """A point above every value of `column` that meets the pattern."""
        found = [ALWAYS]
        for condition in self.conditions:
            if condition.column == column and condition.op not in (">", ">=") and None not in condition.values:
                found.append(max(point_of(v, kind) for v in condition.values) + (condition.op != "<"))
        return min(found)

    def bound(self, column: str, kind: SqlType) -> int | None:
        """The point below which the pattern is complete on `column`: from `< v` or `<= v`, or ALWAYS without a
        condition.

        None: the pattern restricts the attribute from below, so it closes no window.
        """
        on_column = [condition for condition in self.conditions if condition.column == column]
        if not on_column:
            return ALWAYS
        if any(condition.op not in ("<", "<=") for condition in on_column):
            return None
        bound = min(point_of(condition.values[0], kind) + (condition.op == "<=") for condition in on_column)
        if abs(bound) > FARTHEST:
            raise BadPattern(f"{bound} is beyond 10^18")
        return bound


_TOKEN = re.compile(
    r"\s*(?:('(?:[^']|'')*')|(`[^`]+`|[A-Za-z_]\w*)|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(<=|>=|[=<>*(),]))"
)


def parse_pattern(text: str, types: Mapping[str, SqlType]) -> Pattern:
    """Parse `seg_id = 's6', ts < '2026-01-01 12:11:00'`, with or without parentheses around it. Raises BadPattern."""
    tokens = _tokens(text)
    if len(tokens) > 1 and tokens[0] == "(" and tokens[-1] == ")":
        tokens = tokens[1:-1]
    conditions: list[OracleCondition] = []
    at = 0
    while at < len(tokens):
        condition, at = _condition(tokens, at, types)
        if condition is not None:
            conditions.append(condition)
        if at < len(tokens) and (tokens[at] != "," or at + 1 == len(tokens)):
            raise BadPattern(f"not a pattern: {text!r}")
        at += 1
    if not conditions:
        raise BadPattern("a pattern without a condition")
    return Pattern(tuple(conditions))


def pattern_of(values: Mapping[str, Any], types: Mapping[str, SqlType]) -> tuple[OracleCondition, ...]:
    """The equality conditions of `punctuate(…, seg_id="s6")`."""
    conditions = []
    for name, value in values.items():
        column = _column(name, types)
        try:
            conditions.append(OracleCondition(column, "=", (fit(value, types[column]),)))
        except Misfit as error:
            raise BadPattern(str(error)) from None
    return tuple(conditions)


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None:
            raise BadPattern(f"not a pattern: {text!r}")
        found.append(match[0].strip())
        at = match.end()
    return found


def _condition(tokens: list[str], at: int, types: Mapping[str, SqlType]) -> tuple[OracleCondition | None, int]:
    rest = [*tokens[at:], "", "", "", "", ""]
    column = _column(rest[0].strip("`"), types)
    op = rest[1].upper()
    if op == "=" and rest[2] == "*":
        return None, at + 3
    if op in ("=", *_COMPARE):
        return OracleCondition(column, op, (_value(rest[2], types[column]),)), at + 3
    if op == "BETWEEN" and rest[3].upper() == "AND":
        return OracleCondition(column, op, (_value(rest[2], types[column]), _value(rest[4], types[column]))), at + 5
    if op == "IN" and rest[2] == "(" and ")" in rest:
        end = rest.index(")")
        listed = rest[3:end]
        if len(listed) % 2 and all(comma == "," for comma in listed[1::2]):
            return OracleCondition(column, op, tuple(_value(one, types[column]) for one in listed[::2])), at + end + 1
    raise BadPattern(f"not a condition on '{column}'")


def _column(name: str, types: Mapping[str, SqlType]) -> str:
    for column in types:
        if column.lower() == name.lower():
            return column
    raise BadPattern(f"no column '{name}'")


def _value(token: str, kind: SqlType) -> Any:
    """A literal as a value of the column's type."""
    if token.upper() == "NULL":
        return None
    quoted = token.startswith("'")
    text = token[1:-1].replace("''", "'") if quoted else token
    try:
        return fit(_read(text, quoted, kind), kind)
    except (ValueError, InvalidOperation):
        raise BadPattern(f"{token} is not a {kind}") from None


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
    if kind.is_float and isfinite(float(text)):
        return float(text)
    raise ValueError(text)
