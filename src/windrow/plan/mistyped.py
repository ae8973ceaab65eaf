"""Refuses comparisons whose types show that they are mistakes: in Spark they are NULL in every row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from sqlglot import exp

from windrow.errors import BindError, Place
from windrow.types import SqlType

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Between, exp.In)
_DATE = re.compile(r"[+-]?\d{4,7}(-\d{1,2}(-\d{1,2}([ T].*)?)?)?|T?\d{1,2}:.*", re.S)
_BOOLEANS = {"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"}


def refuse_mistyped(
    tree: exp.Expr, columns: Mapping[str, SqlType], place_of: Callable[[exp.Expr], Place | None]
) -> None:
    """Raise BindError for a text that is compared with a column of another type and cannot be read as that type.
    `columns` are those of the stream, by their names in lower case."""
    for node in tree.find_all(*_COMPARISONS):
        operands = list(_operands(node))
        names = [one for one in operands if isinstance(one, exp.Column) and one.name.lower() in columns]
        for column, text in ((column, one) for column in names for one in operands if _is_text(one)):
            kind = columns[column.name.lower()]
            if not _is_readable(text.name.strip(), kind):
                raise BindError(
                    f"'{text.name}' is no {kind}, so the comparison with '{column.name}' is never true",
                    place=place_of(text),
                    remedy=_remedy(column.name, kind),
                )


def _operands(node: exp.Expr) -> Iterator[exp.Expr]:
    """What is compared with each other."""
    for value in (node.this, *(node.args.get(key) for key in ("expression", "low", "high")), *node.expressions):
        if isinstance(value, exp.Expr):
            yield value.unnest()


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


def _is_readable(text: str, kind: SqlType) -> bool:
    """Whether Spark may read the text as a value of this type. In doubt, yes."""
    if kind.is_timestamp or kind.name == "DATE":
        return _DATE.fullmatch(text) is not None or not text
    if kind.name == "BOOLEAN":
        return text.lower() in _BOOLEANS
    if kind.name in ("STRING", "BINARY"):
        return True
    return any(character.isdigit() for character in text) or text.lower().lstrip("+-") in ("inf", "infinity", "nan")


def _remedy(column: str, kind: SqlType) -> str:
    if kind.is_timestamp or kind.name == "DATE":
        return "Write the time as '2026-03-01 08:00:00'."
    return f"Compare with a value of that type, or with the text of the column: CAST({column} AS STRING)."
