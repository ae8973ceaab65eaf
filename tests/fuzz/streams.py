"""The streams that fuzzed queries read: every column type, and rows with NULLs, ties, disorder and extremes.

Doubles are quarters of small integers, infinities or NaN, so that a sum does not depend on the order of addition.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any

COLUMNS = {
    "k": "STRING",
    "name": "STRING",
    "x": "INT",
    "y": "INT",
    "big": "BIGINT",
    "small": "SMALLINT",
    "d": "DOUBLE",
    "w": "DOUBLE",
    "m": "DECIMAL(12,2)",
    "ok": "BOOLEAN",
    "day": "DATE",
    "at": "TIMESTAMP",
    "raw": "BINARY",
}
_LISTED = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

TIMES = "times"
NUMBERS = "numbers"
TYPES = {
    TIMES: {"ts": "TIMESTAMP", "odo": "INT", **COLUMNS},
    NUMBERS: {"n": "BIGINT", **COLUMNS},
}
ATTRIBUTES = {TIMES: "ts", NUMBERS: "n"}
CREATE = {
    TIMES: f"CREATE STREAM times (ts TIMESTAMP, odo INT, {_LISTED}) FROM memory TIMESTAMP BY ts"
    " PUNCTUATE WITH SLACK 2 SECONDS PUNCTUATE ON odo WITH SLACK 100",
    NUMBERS: f"CREATE STREAM numbers (n BIGINT, {_LISTED}) FROM memory TIMESTAMP BY n PUNCTUATE ORDERED",
}

_FAMILIES = {
    "STRING": "s",
    "BOOLEAN": "b",
    "DATE": "d",
    "TIMESTAMP": "t",
    "TIMESTAMP_NTZ": "t",
    "BINARY": "r",
}
FAMILIES = "nsbdtr"
"""Numbers, strings, booleans, dates, times and raw bytes: the types that may stand for each other."""


def family_of(type_name: str) -> str:
    return _FAMILIES.get(type_name, "n")


def columns_like(stream: str, family: str) -> list[str]:
    return [name for name, kind in TYPES[stream].items() if family_of(kind) == family]


_START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
_BIG = (1 << 63) - 1


def batches(stream: str, rng: Random, count: int = 3, rows: int = 20) -> list[list[dict[str, Any]]]:
    """Micro-batches in which time goes on by small steps, with ties, disorder and some late tuples."""
    point, made = 0, []
    for _ in range(count):
        batch = []
        for _ in range(rows):
            point += rng.choice((0, 0, 1, 1, 2, 5))
            at = point - rng.choice((0, 0, 0, 0, 1, 2, 9))
            batch.append(_row(stream, None if rng.random() < 0.03 else at, rng))
        made.append(batch)
    return made


def _row(stream: str, at: int | None, rng: Random) -> dict[str, Any]:
    values = {name: None if rng.random() < 0.2 else _value(name, rng) for name in COLUMNS}
    if stream == NUMBERS:
        return {"n": at, **values}
    ts = None if at is None else _START + timedelta(seconds=at, milliseconds=rng.choice((0, 0, 250)))
    return {"ts": ts, "odo": None if at is None else at * 10, **values}


def _value(name: str, rng: Random) -> Any:
    kind = COLUMNS[name]
    if kind == "STRING":
        return rng.choice(("a", "b", "B", "", "é", "it's", "10", "2026-03-01"))
    if kind == "INT":
        return rng.choice((rng.randint(-50, 50), rng.randint(0, 3)))
    if kind == "BIGINT":
        return rng.choice((rng.randint(-9, 9), rng.randint(-9, 9), rng.randint(-9, 9), _BIG, -_BIG - 1))
    if kind == "SMALLINT":
        return rng.randint(-2, 3)
    if kind == "DOUBLE":
        odd = (-0.0, float("nan"), float("inf"), float("-inf"))
        return rng.choice(odd) if name == "w" and rng.random() < 0.2 else rng.randint(-64, 64) / 4
    if kind == "DECIMAL(12,2)":
        return Decimal(rng.randint(-(10**4), 10**4)).scaleb(-2)
    if kind == "BOOLEAN":
        return rng.random() < 0.5
    if kind == "DATE":
        return date(2026, 2, 27) + timedelta(days=rng.randint(0, 4))
    if kind == "TIMESTAMP":
        return _START + timedelta(hours=rng.randint(-30, 30), seconds=rng.randint(0, 90))
    return rng.choice((b"", b"a", b"\x00\xff", b"abc"))
