"""The statements that fuzzed ones are made of: those of docs/*.md and of the .test files.

Queries are moved to the streams of `fuzz.streams`: each column becomes one of like type, so that names and types hold.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from sqlglot import exp
from support.test_file import Statement as WrittenStatement
from support.test_file import read_test_file

from fuzz.streams import ATTRIBUTES, NUMBERS, TIMES, TYPES, columns_like, family_of
from windrow.cql import CQL, parse
from windrow.cql.dialect import StreamTable, window_of
from windrow.cql.printer import to_text
from windrow.cql.statements import CreateQuery, CreateStream, Explain, Select
from windrow.errors import WindrowError

TESTS = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"^```(sql|python)\n(.*?)^```$", re.M | re.S)
_BEGINS = re.compile(r"\s*(CREATE|SELECT|EXPLAIN|SHOW|DESCRIBE|DROP|SET)\b", re.I)


@dataclass(frozen=True)
class Corpus:
    """`queries` are SELECTs over the fuzzed streams; `texts` all other statements, and those that do not parse."""

    queries: tuple[exp.Select, ...]
    texts: tuple[str, ...]


@cache
def corpus() -> Corpus:
    queries: dict[str, exp.Select] = {}
    texts: dict[str, None] = {}
    for page in _pages():
        streams: dict[str, CreateStream] = {}
        for text in page:
            for piece in _statements(text):
                if isinstance(piece, CreateStream):
                    streams[piece.name.lower()] = piece
                moved = _moved(piece, streams)
                if moved is not None:
                    queries[moved.sql(dialect=CQL)] = moved
                else:
                    texts[piece if isinstance(piece, str) else to_text(piece)] = None
    return Corpus(tuple(queries.values()), tuple(texts))


def _statements(text: str) -> Iterator[object]:
    try:
        yield from parse(text)
    except WindrowError:
        yield text


def _pages() -> Iterator[list[str]]:
    """The statements of each page and each test file, in their order."""
    for path in sorted((TESTS / "cql").rglob("*.test")):
        yield [c.text for c in read_test_file(path).commands if isinstance(c, WrittenStatement)]
    root = TESTS.parent
    for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        found: list[str] = []
        for language, body in _BLOCK.findall(path.read_text(encoding="utf-8")):
            found += [body] if language == "sql" else _texts_of(body)
        yield found


def _texts_of(source: str) -> list[str]:
    """The statements among the texts of a Python program."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return [text for text in texts if _BEGINS.match(text)]


def _moved(statement: object, streams: dict[str, CreateStream]) -> exp.Select | None:
    """The query over a fuzzed stream; None for other statements and for SELECTs of another form."""
    if isinstance(statement, Explain):
        statement = statement.statement
    if not isinstance(statement, CreateQuery | Select):
        return None
    select = statement.select
    tables = list(select.find_all(exp.Table))
    if not isinstance(select, exp.Select) or len(tables) != 1 or window_of(tables[0]) is None:
        return None
    create = streams.get(tables[0].name.lower())
    types = {column.name.lower(): column.type for column in create.columns} if create else {}
    attribute = (create and create.timestamp_by or "").lower()
    is_number = family_of(types.get(attribute, "TIMESTAMP")) == "n"
    return move(select, NUMBERS if is_number else TIMES, types, attribute)


def move(select: exp.Select, stream: str, types: dict[str, str], attribute: str) -> exp.Select:
    """The SELECT over `stream`. `types` and `attribute` are those of its own stream, in lower case."""
    names = {attribute: ATTRIBUTES[stream]}
    for name, kind in types.items():
        like = columns_like(stream, family_of(kind))
        same = [column for column in like if TYPES[stream][column] == kind and column != ATTRIBUTES[stream]] or like
        free = [column for column in same if column not in names.values()] or same
        names.setdefault(name, name if name in same else free[0])

    def named(name: str) -> str:
        return names.get(name.lower(), name)

    moved = select.copy()
    for column in list(moved.find_all(exp.Column)):
        if isinstance(column.this, exp.Identifier):
            column.set("this", exp.to_identifier(named(column.name)))
            column.set("table", None)
    table = next(moved.find_all(exp.Table))
    window = window_of(table)
    assert isinstance(table, StreamTable) and window is not None
    table.set("this", exp.to_identifier(stream))
    attributes = {key: named(value) for key in ("wattr", "rattr", "sattr") if (value := getattr(window, key))}
    table.set("window", replace(window, **attributes, pattr=tuple(map(named, window.pattr))))
    return moved
