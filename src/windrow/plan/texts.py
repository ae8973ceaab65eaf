"""Texts made of bytes: no answer can hold a byte that is not UTF-8, and Spark does not check CAST(… AS STRING)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from windrow.cql.names import quote_name
from windrow.types import SqlType

_BYTES = re.compile(r"\b(BINARY|UNHEX|UNBASE64|ENCODE)\b", re.IGNORECASE)


def as_valid_text(sql: str, kind: SqlType, columns: Iterable[tuple[str, SqlType]]) -> str:
    """The expression; if it makes a text of bytes, with those that are not UTF-8 replaced by U+FFFD."""
    names = {quote_name(name): of for name, of in columns}
    if kind.name != "STRING" or sql in names:
        return sql
    has_bytes = _BYTES.search(sql) or any(of.name == "BINARY" and name in sql for name, of in names.items())
    return f"MAKE_VALID_UTF8({sql})" if has_bytes else sql
