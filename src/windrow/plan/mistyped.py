"""Refuses comparisons whose types show that they are mistakes: in Spark they are NULL in every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sqlglot import exp

from windrow.cql.time_texts import by_clock, how_to_write, is_read_by_clock, is_time_text
from windrow.errors import BindError, Place
from windrow.types import SqlType

OVER_GROUPS = "an aggregate or a group key"
"""What HAVING compares."""

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Between, exp.In)
_BOOLEANS = {"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"}


def refuse_mistyped(
    tree: exp.Expr,
    columns: Mapping[str, SqlType],
    place_of: Callable[[exp.Expr], Place | None],
    what: str | None = None,
) -> None:
    """Raise BindError for a constant that is compared with a column of another type and cannot be read as that type.
    `columns` are by their names in lower case; `what` stands in the message for a column that the user did not name."""
    for node in tree.find_all(*_COMPARISONS):
        operands = list(_operands(node))
        compared = [one for one in operands if isinstance(one, exp.Column) and one.name.lower() in columns]
        for column, constant in ((column, one) for column in compared for one in operands):
            if isinstance(constant, exp.Literal):
                called = f"'{column.name}'" if what is None else what
                _refuse_constant(constant, called, columns[column.name.lower()], place_of(constant))


def _refuse_constant(constant: exp.Literal, called: str, kind: SqlType, place: Place | None) -> None:
    is_time = kind.is_timestamp or kind.name == "DATE"
    remedy = how_to_write(kind.name == "DATE") if is_time else _to_compare(called)
    if not constant.is_string:
        if is_time:
            raise BindError(f"{constant.name} is a number, and {called} is a {kind}", place=place, remedy=remedy)
    elif is_time and is_read_by_clock(constant.name, kind.name == "DATE"):
        raise BindError(by_clock(constant.name), place=place, remedy=remedy)
    elif not _is_readable(constant.name.strip(), kind):
        raise BindError(
            f"'{constant.name}' is no {kind}, so the comparison with {called} is never true", place=place, remedy=remedy
        )


def _operands(node: exp.Expr) -> Iterator[exp.Expr]:
    """What is compared with each other."""
    for value in (node.this, *(node.args.get(key) for key in ("expression", "low", "high")), *node.expressions):
        if isinstance(value, exp.Expr):
            yield value.unnest()


def _is_readable(text: str, kind: SqlType) -> bool:
    """Whether Spark may read the text as a value of this type. In doubt, yes."""
    if kind.is_timestamp or kind.name == "DATE":
        return not text or is_time_text(text, kind.name == "DATE")
    if kind.name == "BOOLEAN":
        return text.lower() in _BOOLEANS
    if kind.name in ("STRING", "BINARY"):
        return True
    return any(character.isdigit() for character in text) or text.lower().lstrip("+-") in ("inf", "infinity", "nan")


def _to_compare(called: str) -> str:
    column = called.strip("'") if called.startswith("'") else "…"
    return f"Compare with a value of that type, or with the text of the column: CAST({column} AS STRING)."
