"""Mutated records of each format. A record says what must become of it: admitted as a row, a dead letter, or either."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any

COLUMNS = {
    "id": "BIGINT",
    "ts": "TIMESTAMP",
    "k": "STRING",
    "x": "INT",
    "big": "BIGINT",
    "d": "DOUBLE",
    "m": "DECIMAL(10,2)",
    "ok": "BOOLEAN",
}
START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)

Row = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """The bytes of a line, or the row of a Parquet file. `dead`: it must be a dead letter. Otherwise `row` must be
    admitted; without a row the record may be either."""

    line: bytes
    row: Row | None = None
    dead: bool = False


_TEXTS = [
    "a",
    "b",
    "",
    "it's",
    "é",
    "😀",
    "e\u0301",
    "\u202eabc",
    "\u2028",
    "\u0085",
    "ß" * 40,
    "\ufeffa",
    "'",
    "NULL",
    "null",
]
_NUMBERS = [0, 1, -1, 7, 2**31 - 1, -(2**31)]


def row_of(number: int, rng: Random) -> Row:
    """A good row. Its id is far from all others, so that a changed digit does not make the id of another."""
    return {
        "id": 1_000_000 + 7919 * number,
        "ts": START + timedelta(seconds=rng.randrange(3600)),
        "k": rng.choice(_TEXTS[:5]),
        "x": rng.randint(-50, 50),
        "big": rng.choice((rng.randint(-9, 9), 2**63 - 1, -(2**63))),
        "d": rng.randint(-64, 64) / 4,
        "m": Decimal(rng.randint(-(10**5), 10**5)).scaleb(-2),
        "ok": rng.random() < 0.5,
    }


def record(kind: str, number: int, seed: int) -> Record:
    """The record of this number in a format: `json`, `csv` or `parquet`. Every fourth is good."""
    rng = Random(f"{seed}/{kind}/{number}")
    row = row_of(number, rng)
    if kind == "csv":
        row["k"] = row["k"] or None  # an empty field is NULL
    good = Record(b"" if kind == "parquet" else _LINES[kind](row), row)
    return good if rng.random() < 0.25 else rng.choice(_MUTATORS[kind])(good, rng)


# -- JSON --------------------------------------------------------------------------------------------


def _plain(row: Row) -> Row:
    return {n: v.isoformat().replace("+00:00", "Z") if isinstance(v, datetime) else v for n, v in row.items()}


def _number(value: object) -> object:
    return float(value) if isinstance(value, Decimal) else str(value)


def json_line(row: Row) -> bytes:
    return json.dumps(_plain(row), ensure_ascii=False, default=_number).encode()


def _json_with(good: Record, name: str, value: str) -> bytes:
    """The line with a field's value replaced by JSON text, which need not be valid."""
    fields = {n: json.dumps(v, default=_number) for n, v in _plain(good.row or {}).items()} | {name: value}
    return ("{" + ", ".join(f"{json.dumps(n)}: {text}" for n, text in fields.items()) + "}").encode(
        "utf-8", "surrogatepass"
    )


def _other_value(good: Record, rng: Random) -> Record:
    name = rng.choice(("k", "x", "big", "d", "ok"))
    values = {"k": _TEXTS, "x": _NUMBERS, "big": [*_NUMBERS, 2**62], "d": [0.25, -1e9, 1e300], "ok": [True, False]}
    row = {**(good.row or {}), name: rng.choice(values[name])}
    return Record(json_line(row), row)


def _more_fields(good: Record, rng: Random) -> Record:
    extra = rng.choice(['{"a": [1, {"b": null}]}', "[]", "null", '"' + "y" * 5000 + '"', "[" * 30 + "]" * 30])
    return Record(_json_with(good, rng.choice(("other", "ID2", "", "ключ", "a.b")), extra), good.row)


def _less_fields(good: Record, rng: Random) -> Record:
    row = dict(good.row or {})
    gone = rng.choice(("k", "x", "big", "d", "m", "ok"))
    del row[gone]
    return Record(json_line(row), {**row, gone: None})


def _no_time(good: Record, rng: Random) -> Record:
    row = {**(good.row or {}), "ts": None}
    if rng.random() < 0.5:
        del row["ts"]
    return Record(json_line(row), good.row, dead=True)


def _wrong_type(good: Record, rng: Random) -> Record:
    name = rng.choice(("x", "big", "ok", "d"))
    return Record(
        _json_with(good, name, rng.choice(('"abc"', '{"a": 1}', "[1, 2]", '""', '"1 2"'))), good.row, dead=True
    )


def _odd_value(good: Record, rng: Random) -> Record:
    name = rng.choice(("x", "big", "d", "m", "k", "ts"))
    odd = (
        "1e400|-1e400|NaN|-Infinity|+1|01|0x1F|1_000|99999999999|1.5|1e2|-0|9223372036854775808|true|null|'a'|.5|5.|"
        '"NaN"|"1e3"|12345678901234567890.123456789|"2026-02-30"|"2026-03-01"|"24:00:00"|0|1772366400|"0001-01-02"|'
        '"+99999-01-01"|"2026-03-01 12:00:60"|"2026-03-01T12:00:00+25:00"|"\\ud800"|"a\\u0000b"|"\\x41"|"\\u12"|[]|{}|[[]]'
    ).split("|")
    return Record(_json_with(good, name, rng.choice([*odd, "9" * 400, '"' + "z" * 20_000 + '"'])))


def _not_an_object(good: Record, rng: Random) -> Record:
    return Record(
        rng.choice((b"null", b"3", b'"text"', b"true", b"{}", b"{} {}", b"[1]", b"[null]", b"{", b"}", b"[", b","))
    )


def _arrayed(good: Record, rng: Random) -> Record:
    return Record(b"[" + good.line + b"]")


def _deep(good: Record, rng: Random) -> Record:
    depth = rng.choice((200, 999, 1001, 3000))
    opened, closed = rng.choice((("[", "]"), ('{"a":', "}")))
    return Record(_json_with(good, rng.choice(("other", "k", "x")), opened * depth + "1" + closed * depth))


def _trailing(good: Record, rng: Random) -> Record:
    return Record(good.line + rng.choice((b"}", b" junk", b"{}", b",", b"\x00", b" // no", good.line)))


def _twice_the_key(good: Record, rng: Random) -> Record:
    return Record(good.line[:-1] + rng.choice((b', "x": 1}', b', "K": "b"}', b', "id": null}', b", x: 1}", b", }")))


# -- CSV ---------------------------------------------------------------------------------------------


def csv_line(row: Row, extra: tuple[str, ...] = ()) -> bytes:
    fields = ["" if v is None else str(v).lower() if isinstance(v, bool) else str(v) for v in _plain(row).values()]
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow([*fields, *extra])
    return out.getvalue().encode()


def _csv_with(good: Record, name: str, text: str) -> bytes:
    fields = csv_line(good.row or {}).decode().split(",")
    fields[list(COLUMNS).index(name)] = text
    return ",".join(fields).encode("utf-8", "surrogatepass")


def _csv_value(good: Record, rng: Random) -> Record:
    row = {**(good.row or {}), "x": rng.choice(_NUMBERS), "k": rng.choice(["a", "é", "😀", "e\u0301", "x,y", "a b"])}
    return Record(csv_line(row), row)


def _csv_wrong(good: Record, rng: Random) -> Record:
    name = rng.choice(("x", "big", "ok"))
    return Record(_csv_with(good, name, rng.choice(("abc", "1.5.2", "--1", "12a", "[1]"))), good.row, dead=True)


def _csv_odd(good: Record, rng: Random) -> Record:
    odd = (
        '1e400|NaN|-Infinity|+1|01|0x1F|99999999999|1.5|1e2| 1|1 |9223372036854775808|null|NULL|"|""|"a|a"b|\'a\'|\\|\\"|'
        '"a""b"|"a"b|#|//|=1+1|2026-02-30|2026-03-01|24:00:00|0001-01-02|+99999-01-01|2026-03-01 12:00:60|\u0085|\u2028'
    ).split("|")
    return Record(_csv_with(good, rng.choice(list(COLUMNS)[1:]), rng.choice([*odd, "9" * 400, "z" * 20_000])))


def _csv_fields(good: Record, rng: Random) -> Record:
    """Too few or too many fields."""
    if rng.random() < 0.5:
        return Record(csv_line(good.row or {}, ("extra",) * rng.choice((1, 2, 100))), good.row, dead=True)
    fields = csv_line(good.row or {}).split(b",")
    return Record(b",".join(fields[: rng.randrange(1, len(fields))]))


def _csv_many(good: Record, rng: Random) -> Record:
    """Spark's reader fails on more than 20,480 fields."""
    return Record(good.line + b"," * rng.choice((500, 20_000)), good.row, dead=True)


# -- of both -----------------------------------------------------------------------------------------


def _truncated(good: Record, rng: Random) -> Record:
    """A JSON object that is cut off is none. A CSV line may have lost a digit only."""
    cut = good.line[: rng.randrange(1, len(good.line))]
    return Record(cut, good.row, dead=True) if good.line.startswith(b"{") else Record(cut)


def _flipped(good: Record, rng: Random) -> Record:
    line = bytearray(good.line)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(line))
        if line[at] < 128:
            line[at] ^= 1 << rng.randrange(7)
    return Record(bytes(line))


def _replaced(good: Record, rng: Random) -> Record:
    line, at = good.line.decode(), rng.randrange(len(good.line))
    return Record((line[:at] + rng.choice("\0\t '\",:{}[]\\/x9-.eE+") + line[at + 1 :]).encode())


def _odd_sign(good: Record, rng: Random) -> Record:
    at = rng.randint(0, len(good.line))
    return Record(
        good.line[:at] + rng.choice(("\ufeff", "\0", "\u200b", "😀", "\x1b", "\u00a0")).encode() + good.line[at:]
    )


def _bad_bytes(good: Record, rng: Random) -> Record:
    """Bytes that are not UTF-8, in a text."""
    k = b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\x80"
    mark = {**(good.row or {}), "k": "@@"}
    line = json_line(mark) if good.line.startswith(b"{") else csv_line(mark)
    return Record(line.replace(b"@@", rng.choice(k)), good.row, dead=True)


# -- Parquet -----------------------------------------------------------------------------------------


def _typed(good: Record, rng: Random) -> Record:
    """Extremes of the types, and NULLs. A row without a time is a dead letter."""
    row = dict(good.row or {})
    extremes: dict[str, list[Any]] = {
        "k": [*_TEXTS, "a\0b", None, "y" * 50_000],
        "x": [*_NUMBERS, None],
        "big": [2**63 - 1, -(2**63), None],
        "d": [float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1.7976931348623157e308, None],
        "m": [Decimal("99999999.99"), Decimal("-99999999.99"), None],
        "ok": [None],
        "ts": [None],
    }
    name = rng.choice(list(extremes))
    row[name] = rng.choice(extremes[name])
    return Record(b"", row, dead=name == "ts")


def _odd_time(good: Record, rng: Random) -> Record:
    """A time before the year 1 is beyond Python, one after 9999 too far in the future."""
    days = rng.choice((-700_000, -20_000, 1, 3000, 2_900_000))
    return Record(b"", {**(good.row or {}), "ts": START + timedelta(days=days)}, dead=days > 1)


def _bad_text(good: Record, rng: Random) -> Record:
    text = rng.choice((b"\xff", b"a\xc3", b"\xed\xa0\x80"))
    return replace(good, row={**(good.row or {}), "k": text}, dead=True)


_LINES: dict[str, Callable[[Row], bytes]] = {"json": json_line, "csv": csv_line}
_OF_BOTH = (_truncated, _flipped, _flipped, _replaced, _odd_sign, _bad_bytes)
_MUTATORS: dict[str, tuple[Callable[[Record, Random], Record], ...]] = {
    "json": (
        *(_other_value, _more_fields, _less_fields, _no_time, _wrong_type, _odd_value, _odd_value, _not_an_object),
        *(_arrayed, _deep, _trailing, _twice_the_key, *_OF_BOTH),
    ),
    "csv": (_csv_value, _csv_wrong, _csv_odd, _csv_odd, _csv_odd, _csv_fields, _csv_fields, _csv_many, *_OF_BOTH),
    "parquet": (_typed, _typed, _typed, _odd_time, _bad_text),
}
