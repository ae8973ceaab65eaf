"""The `.test` dialect: text to commands. `tests/cql/README.md` describes it for people.

A file is a list of blocks separated by blank lines. A block is one directive line and, for some
directives, the lines that follow it. `#` begins a comment line.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from windrow.oracle import equal_values
from windrow.types import EPOCH, SqlType, moment_of

TO_COMPLETE = "????"
BELOW = "----"
"""The line between the SELECT of a snapshot and its rows."""
FLAGS = ("recut ok", "needs rules")
"""`needs rules`: the file shows the effect of an optimizer rule, so it does not run without the rules."""


class TestFileError(Exception):
    """The test file itself is wrong. The message gives the file and the line."""

    __test__ = False


@dataclass(frozen=True)
class Cell:
    """One field as written: a quoted `"NULL"` is text, a bare NULL is null."""

    text: str
    quoted: bool = False


@dataclass(frozen=True)
class Command:
    line: int


@dataclass(frozen=True)
class Statement(Command):
    """`statement ok`, or `statement error <code or text>`, where the message must contain `error`."""

    text: str
    error: str | None = None


@dataclass(frozen=True)
class Feed(Command):
    """`feed <stream>` or `feed <stream> json`: one micro-batch."""

    stream: str
    lines: tuple[str, ...]
    json: bool = False


@dataclass(frozen=True)
class Now(Command):
    """`now <time>`: set the wall clock."""

    now_us: int


@dataclass(frozen=True)
class Advance(Command):
    """`advance <n> <unit>`: move the wall clock forward."""

    by_us: int


@dataclass(frozen=True)
class Punctuate(Command):
    """`punctuate <stream>[.<column>] <point> [<column>=<value> …]`: with values, the promise covers tuples that have
    them."""

    stream: str
    upto: str
    column: str | None = None
    pattern: tuple[tuple[str, Cell], ...] = ()


@dataclass(frozen=True)
class Close(Command):
    """`close <stream>`: end the input."""

    stream: str


@dataclass(frozen=True)
class Restart(Command):
    """`restart`: close the state directory and open it again."""


@dataclass(frozen=True)
class Since(Command):
    """`since <query> <point>`: a query added to a running stream counts tuples from this point, or `all`.

    `since <query> <stream>=<point> …` gives the points of several streams.
    """

    query: str
    point: str

    @property
    def points(self) -> dict[str, str]:
        """The point of each stream; empty if one point is given for all."""
        pairs = (part.partition("=") for part in self.point.split())
        return {name: point for name, equals, point in pairs if equals}


@dataclass(frozen=True)
class Answers(Command):
    """`answers <query>`: the answers since its last such block; None: to be completed."""

    query: str
    rows: tuple[tuple[Cell, ...], ...] | None


@dataclass(frozen=True)
class Net(Command):
    """`net <query>`: all net answers so far, for streams whose answers are revised."""

    query: str
    rows: tuple[tuple[Cell, ...], ...] | None


@dataclass(frozen=True)
class Revisions(Command):
    """`revisions <query>`: the deliveries since its last such block: op, revision, then as in `answers`."""

    query: str
    rows: tuple[tuple[Cell, ...], ...] | None


@dataclass(frozen=True)
class Changes(Command):
    """`changes <query>`: the changes of a continuous query since its last such block: op, ts, exp, the select list."""

    query: str
    rows: tuple[tuple[Cell, ...], ...] | None


@dataclass(frozen=True)
class View(Command):
    """`view <query>`: all rows of a continuous query's view, now."""

    query: str
    rows: tuple[tuple[Cell, ...], ...] | None


@dataclass(frozen=True)
class Snapshot(Command):
    """`snapshot [<point>]`: a SELECT, `----`, and its rows when it is asked now. The point is what its answer says that
    it is of: the instant of its windows, or the number of the last tuple."""

    text: str
    rows: tuple[tuple[Cell, ...], ...] | None
    at: str | None = None

    @property
    def query(self) -> str:
        return self.text


Compared = Answers | Net | Revisions | Changes | View | Snapshot
"""The directives whose rows are compared, and may be completed."""


@dataclass(frozen=True)
class DeadLetters(Command):
    """`dead_letters <stream>`: all dead letters so far, counted by reason."""

    stream: str
    counts: Mapping[str, int]


@dataclass(frozen=True)
class TestFile:
    __test__ = False

    path: Path
    commands: tuple[Command, ...]
    recut_ok: bool
    needs_rules: bool = False

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def asks(self) -> bool:
        """Whether it has one-time queries."""
        return any(isinstance(one, Snapshot) for one in self.commands)

    @property
    def is_continuous(self) -> bool:
        """Whether its queries are plans, to which the settings for periodic aggregates do not matter."""
        return self.path.parent.name == "continuous"


def read_test_file(path: Path) -> TestFile:
    return parse_test_file(path.read_text(encoding="utf-8"), path)


def parse_test_file(text: str, path: Path = Path("inline.test")) -> TestFile:
    commands: list[Command] = []
    flags: set[str] = set()
    for line, head, body in _blocks(text):
        if head in FLAGS:
            flags.add(head)
            continue
        try:
            commands.append(_command(line, head, body))
        except ValueError as error:
            raise TestFileError(f"{path}:{line}: {error}") from None
    return TestFile(path, tuple(commands), "recut ok" in flags, "needs rules" in flags)


def _blocks(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """(line number, directive, following lines) of each block, without comments."""
    head, body, first = "", [], 0
    for number, raw in enumerate([*text.splitlines(), ""], start=1):
        line = raw.rstrip()
        if line.startswith("#"):
            continue
        if line and not head:
            head, body, first = line, [], number
        elif line:
            body.append(line)
        elif head:
            yield first, head, body
            head = ""


_UNITS_US = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": 10**6,
    "minute": 60 * 10**6,
    "hour": 3600 * 10**6,
}


_COMPARED: dict[str, type[Answers] | type[Net] | type[Revisions] | type[Changes] | type[View]] = {
    "answers": Answers,
    "net": Net,
    "revisions": Revisions,
    "changes": Changes,
    "view": View,
}


def _command(line: int, head: str, body: list[str]) -> Command:
    word, _, rest = head.partition(" ")
    rest = rest.strip()
    if word == "statement":
        return _statement(line, rest, body)
    if word == "feed":
        stream, _, kind = rest.partition(" ")
        if kind not in ("", "json"):
            raise ValueError(f"rows are CSV or json, not {kind!r}")
        return Feed(line, stream, tuple(body), kind == "json")
    if word in _COMPARED:
        rows = None if body == [TO_COMPLETE] else tuple(tuple(split_cells(row)) for row in body)
        return _COMPARED[word](line, _one_name(rest), rows)
    if word == "snapshot":
        return _snapshot(line, rest, body)
    if word == "dead_letters":
        return DeadLetters(line, _one_name(rest), _counts(body))
    if body:
        raise ValueError(f"'{word}' takes no lines; is a blank line missing?")
    return _one_line_command(line, word, rest)


def _one_line_command(line: int, word: str, rest: str) -> Command:
    if word == "close":
        return Close(line, _one_name(rest))
    if word == "restart" and not rest:
        return Restart(line)
    if word == "now":
        return Now(line, _micros(parse_time(rest)))
    if word == "advance":
        match = re.fullmatch(r"(\d+) ([a-z]+?)s?", rest)
        if not match or match[2] not in _UNITS_US:
            raise ValueError("advance <n> <unit>")
        return Advance(line, int(match[1]) * _UNITS_US[match[2]])
    name, _, point = rest.partition(" ")
    if word == "punctuate" and point:
        return _punctuate(line, name, point)
    if word == "since" and point:
        return Since(line, name, point)
    raise ValueError(f"no such directive: {word} {rest}".rstrip())


_EQUALITY = re.compile(r'\s+(\w+)=("(?:[^"]|"")*"|\S*)')


def _punctuate(line: int, name: str, rest: str) -> Punctuate:
    """The point may contain a space; equalities follow it."""
    stream, _, column = name.partition(".")
    first = _EQUALITY.search(rest)
    point = rest[: first.start()] if first else rest
    pattern = [(match[1], split_cells(match[2])[0]) for match in _EQUALITY.finditer(rest)]
    if _EQUALITY.sub("", rest) != point:
        raise ValueError("punctuate <stream> <point> <column>=<value> …")
    return Punctuate(line, stream, point, column or None, tuple(pattern))


def _statement(line: int, rest: str, body: list[str]) -> Statement:
    text = "\n".join(body)
    if not text:
        raise ValueError("a statement block without a statement")
    kind, _, expected = rest.partition(" ")
    if kind == "ok" and not expected:
        return Statement(line, text)
    if kind == "error" and expected.strip():
        return Statement(line, text, expected.strip())
    raise ValueError("'statement ok' or 'statement error <code or text>'")


def _snapshot(line: int, rest: str, body: list[str]) -> Snapshot:
    if body.count(BELOW) != 1:
        raise ValueError(f"a snapshot block is a SELECT, a line {BELOW}, and its rows")
    text, rows = body[: body.index(BELOW)], body[body.index(BELOW) + 1 :]
    found = None if rows == [TO_COMPLETE] else tuple(tuple(split_cells(row)) for row in rows)
    return Snapshot(line, "\n".join(text), found, rest or None)


def _one_name(rest: str) -> str:
    if not re.fullmatch(r"\w+", rest):
        raise ValueError(f"one name is expected, not {rest!r}")
    return rest


def _counts(body: Sequence[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for row in body:
        match = re.fullmatch(r"(\w+) (\d+)", row)
        if not match:
            raise ValueError(f"'<reason> <count>' is expected, not {row!r}")
        counts[match[1]] += int(match[2])
    return counts


_CELL = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^",]*))\s*(,|$)')


def split_cells(row: str) -> list[Cell]:
    """`a, "b, c", NULL` as cells; a quote inside quotes is doubled."""
    cells: list[Cell] = []
    at, comma = 0, ","
    while comma:
        match = _CELL.match(row, at)
        if match is None:
            raise ValueError(f"not a row: {row!r}")
        quoted = match[1] is not None
        cells.append(Cell(match[1].replace('""', '"') if quoted else match[2].strip(), quoted))
        at, comma = match.end(), match[3]
    return cells


def join_cells(cells: Sequence[Cell]) -> str:
    return ", ".join(f'"{c.text.replace(chr(34), chr(34) * 2)}"' if c.quoted else c.text for c in cells)


def feed_rows(feed: Feed, types: Mapping[str, SqlType]) -> list[dict[str, Any]]:
    """The rows of a feed block as Python values; what does not fit its column's type stays text."""
    rows = []
    for offset, line in enumerate(feed.lines, start=1):
        if feed.json:
            record = json.loads(line)
            rows.append({k: _of_json(v, types[k]) if k in types else v for k, v in record.items()})
            continue
        cells = split_cells(line)
        if len(cells) != len(types):
            raise TestFileError(f"line {feed.line + offset}: {len(cells)} fields for {len(types)} columns")
        rows.append({name: value_of(c, kind) for c, (name, kind) in zip(cells, types.items(), strict=True)})
    return rows


def _of_json(value: Any, kind: SqlType) -> Any:
    if isinstance(value, bool) or value is None or (kind.name == "STRING" and not isinstance(value, str)):
        return value
    return value_of(Cell(str(value), quoted=kind.name == "STRING"), kind)


def value_of(cell: Cell, kind: SqlType) -> Any:
    """A cell as a value of the type, or as text if it is none."""
    if cell.text == "NULL" and not cell.quoted:
        return None
    if kind.name == "STRING":
        return cell.text
    try:
        return _parse_value(cell.text, kind)
    except (ValueError, InvalidOperation, OverflowError):
        return cell.text


def _parse_value(text: str, kind: SqlType) -> Any:
    if kind.is_integer:
        return int(text)
    if kind.is_float:
        return float(text)
    if kind.is_decimal:
        return Decimal(text)
    if kind.is_timestamp:
        moment = parse_time(text)
        return moment if kind.name == "TIMESTAMP" else moment.replace(tzinfo=None)
    if kind.name == "DATE":
        return date.fromisoformat(text)
    if kind.name == "BOOLEAN" and text in ("true", "false"):
        return text == "true"
    if kind.name == "BINARY":
        return bytes.fromhex(text)
    raise ValueError(text)


def parse_time(text: str) -> datetime:
    """`2026-01-01 00:00:05.25` (UTC), or `@5.25`: seconds since the epoch."""
    if text.startswith("@"):
        return EPOCH + timedelta(microseconds=int(Decimal(text[1:]) * 10**6))
    moment = moment_of(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def _micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def render(value: Any) -> Cell:
    """A value of an answer as a cell; doubles are always recognisable as doubles."""
    if value is None:
        return Cell("NULL")
    if isinstance(value, bool):
        return Cell("true" if value else "false")
    if isinstance(value, float):
        if math.isnan(value):
            return Cell("NaN")
        return Cell(("-" if value < 0 else "") + "Infinity" if math.isinf(value) else repr(value))
    if isinstance(value, Decimal):
        return Cell(format(value, "f"))
    if isinstance(value, datetime):
        return Cell(value.replace(tzinfo=None).isoformat(sep=" "))
    if isinstance(value, bytes):
        return Cell(value.hex())
    if isinstance(value, list):
        return Cell(f"[{'; '.join(render(part).text for part in value)}]")
    if isinstance(value, dict):
        return Cell(f"({'; '.join(render(part).text for part in value.values())})")
    if isinstance(value, str):
        plain = re.fullmatch(r"[^\s\",#](?:[^\",]*[^\s\",])?", value) and value != "NULL"
        return Cell(value, quoted=not plain)
    return Cell(str(value))


_FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(\.\d*)?[eE][+-]?\d+|Infinity)|NaN")


def _matches_nested(text: str, value: list[Any] | dict[str, Any]) -> bool:
    """Parse `[(a; 3); (b; 1)]` as a list of structs. The words in it contain none of these signs."""
    parts = list(value) if isinstance(value, list) else list(value.values())
    opened, closed = "[]" if isinstance(value, list) else "()"
    if not (text.startswith(opened) and text.endswith(closed)):
        return False
    written, depth = [""], 0
    for sign in text[1:-1]:
        depth += (sign in "[(") - (sign in "])")
        if sign == ";" and not depth:
            written.append("")
        else:
            written[-1] += sign
    written = [part.strip() for part in written] if text[1:-1].strip() else []
    return len(written) == len(parts) and all(matches(Cell(w), v) for w, v in zip(written, parts, strict=True))


def matches(cell: Cell, value: Any) -> bool:
    """Whether a written cell equals the value: exactly, doubles to 1e-9 relative; times also as `@seconds`."""
    if isinstance(value, list | dict):
        return _matches_nested(cell.text, value)
    if isinstance(value, float) and not cell.quoted:
        return bool(_FLOAT.fullmatch(cell.text)) and equal_values(float(cell.text), value)
    if isinstance(value, datetime) and cell.text.startswith("@"):
        return equal_values(parse_time(cell.text), value)
    shown = render(value)
    if isinstance(value, str):
        return shown.text == cell.text and (cell.quoted or cell.text != "NULL")
    return replace(shown, quoted=cell.quoted) == cell and not cell.quoted
