"""Streams of mutated records: each record is admitted or a dead letter, answers equal the oracle's, and the stream goes
on to the next file.

What a text file holds is decided three times: by the mutation itself (`Record`), by Spark's batch reader over the same
lines, and by the engine.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from support.matrix import Variation
from support.runner import EngineBackend, OracleBackend

from fuzz.records import COLUMNS, START, Record, Row, csv_line, json_line, record, row_of
from windrow.oracle import equal_rows
from windrow.oracle.values import sort_key
from windrow.testing import ManualClock
from windrow.types import SqlType

FORMATS = ("json", "csv", "csv with header", "parquet")
_LISTED = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
_KEYS = ", ".join(name for name in COLUMNS if name != "ts")
QUERIES = {
    "each": f"SELECT {_KEYS}, COUNT(*) AS n FROM s [RANGE 1 DAY SLIDE 1 DAY] GROUP BY {_KEYS}",
    "totals": "SELECT k, COUNT(*) AS n, SUM(x) AS x, SUM(m) AS m, MIN(d) AS d, MAX(big) AS b, MIN(ts) AS first"
    " FROM s [RANGE 20 MINUTES SLIDE 10 MINUTES] GROUP BY k",
}
_LINE = re.compile(rb"\r\n|\n|\r")
_BLANK = {"json": b" \t", "csv": bytes(range(33))}
_MALFORMED: Row = {"id": "no number"}
GOOD_ROWS = 50
UNREADABLE = "unreadable file"


@dataclass
class Fate:
    """What became of the records of a format."""

    kind: str
    records: int
    admitted: int
    reasons: Counter[str]
    wrong: list[str]

    def __str__(self) -> str:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in self.reasons.most_common())
        return f"{self.kind}: {self.records:,} records, {self.admitted:,} admitted; dead letters: {reasons}"


def fuzz_format(kind: str, seed: int, count: int, spark: Any, directory: Path, mode: str = "auto") -> Fate:
    """Let a stream read `count` mutated records of a format, and then a good file."""
    folder = directory / "in"
    folder.mkdir(parents=True)
    clock = ManualClock("2026-03-01 18:00:00")
    engine = EngineBackend(spark, clock, directory / "state", Variation(preaggregate=mode))
    try:
        run = _Run(kind, seed, count, spark, folder, engine, OracleBackend(spark, clock))
        run.first()
        clock.advance(30 * 86400)
        run.second()
        return run.fate()
    finally:
        engine.close()


class _Run:
    def __init__(
        self, kind: str, seed: int, count: int, spark: Any, folder: Path, engine: EngineBackend, oracle: OracleBackend
    ):
        self.format = kind.split()[0]
        self.kind, self.seed, self.spark, self.folder = kind, seed, spark, folder
        self.engine, self.oracle, self.wrong = engine, oracle, list[str]()
        self.records = [record(self.format, number, seed) for number in range(count)]
        self.lines = 0
        header = ", header 'true'" if "header" in kind else ""
        missing = "" if kind == "csv" else ", note STRING NULLABLE MISSING"
        options = f"path '{folder}', format '{self.format}', on_bad_file 'skip'{header}"
        create = f"CREATE STREAM s ({_LISTED}{missing}) FROM files OPTIONS ({options})"
        self._both(f"{create} TIMESTAMP BY ts PUNCTUATE WITH SLACK 3 DAYS")
        for name, select in QUERIES.items():
            self._both(f"CREATE QUERY {name} AS {select}")

    def _both(self, text: str) -> None:
        self.engine.sql(text)
        self.oracle.sql(text)

    def first(self) -> None:
        """The mutated records, in three files, with files that cannot be read among them."""
        rows = [row for part in range(3) for row in self._write(f"{part}", self.records[part::3])]
        self.oracle.deposit("s", rows)
        self._write_unreadable()
        self.engine.engine.run_available()
        self._check_counts()

    def second(self) -> None:
        """A good file, a month later, with columns in another order where that is allowed: all of it is admitted."""
        rng, before = Random(f"{self.seed}/good"), self._admitted()
        rows = [{**row_of(10**9 + i, rng), "ts": START + timedelta(days=20, seconds=i)} for i in range(GOOD_ROWS)]
        for row in rows:
            row["k"] = row["k"] or None  # an empty field of CSV is NULL
        self._write_good(rows)
        self.oracle.deposit("s", rows)
        self.engine.engine.run_available()
        if self._admitted() - before != GOOD_ROWS:
            self.wrong.append(f"{self._admitted() - before} of {GOOD_ROWS} good rows are admitted: {self._dead()}")
        self.engine.end_input("s")
        self.oracle.end_input("s")

    # -- files ---------------------------------------------------------------------------------

    def _write(self, name: str, some: list[Record]) -> list[Row]:
        """Write a file for the engine. Return its records for the oracle."""
        path = self.folder / f"{name}.{self.format}"
        if self.format == "parquet":
            pq.write_table(_table([one.row or {} for one in some]), self._hidden(path))
            self._hidden(path).rename(path)
            self.lines += len(some)
            return [dict(_MALFORMED) if _is_bad(one) else dict(one.row or {}) for one in some]
        body = b"".join(one.line + b"\n" for one in some)
        lines = [line for line in _LINE.split(body) if line.strip(_BLANK[self.format])]
        self.lines += len(lines)
        header = (",".join(COLUMNS) + "\n").encode() if "header" in self.kind else b""
        self._hidden(path).write_bytes(header + body)
        self._hidden(path).rename(path)
        return self._read(name, lines)

    def _write_good(self, rows: list[Row]) -> None:
        """CSV without a header goes by position; the other formats get their columns reversed, and one more."""
        path = self.folder / f"good.{self.format}"
        if self.kind != "csv":
            rows = [{"undeclared": i, **dict(reversed(row.items()))} for i, row in enumerate(rows)]
        if self.format == "parquet":
            table = _table(rows).select(list(reversed(COLUMNS)))
            pq.write_table(table.append_column("undeclared", pa.array(range(len(rows)))), self._hidden(path))
        else:
            lines = [{"json": json_line, "csv": csv_line}[self.format](row) for row in rows]
            header = [",".join(rows[0]).encode()] if "header" in self.kind else []
            self._hidden(path).write_bytes(b"\n".join([*header, *lines]))
        self._hidden(path).rename(path)

    def _hidden(self, path: Path) -> Path:
        return path.with_name(f".{path.name}")

    def _read(self, name: str, lines: list[bytes]) -> list[Row]:
        """The rows as Spark's batch reader has them. Lines that are not UTF-8 are malformed, and not given to it."""
        good = [line for line in lines if _is_text(line)]
        path = self.folder.parent / f"{name}.read"
        path.write_bytes(b"\n".join(good) + b"\n")
        reader = self.spark.read.schema(f"{_LISTED}, bad STRING").option("mode", "PERMISSIVE")
        reader = reader.option("columnNameOfCorruptRecord", "bad").format(self.format)
        table = reader.load(str(path)).selectExpr("*", "unix_micros(ts) AS micros").drop("ts").toArrow()
        rows = [_MALFORMED if row["bad"] is not None else _timed(row) for row in table.to_pylist()]
        return [dict(row) for row in rows] + [dict(_MALFORMED)] * (len(lines) - len(good))

    def _write_unreadable(self) -> None:
        """A file of good rows that is cut off: none of them is admitted."""
        rows = [row_of(2 * 10**9 + i, Random(i)) for i in range(100)]
        if self.format == "parquet":
            path = self.folder / "cut.parquet"
            pq.write_table(_table(rows), self._hidden(path))
            whole = self._hidden(path).read_bytes()
        else:
            path = self.folder / f"cut.{self.format}.gz"
            whole = gzip.compress(b"\n".join({"json": json_line, "csv": csv_line}[self.format](row) for row in rows))
        self._hidden(path).unlink(missing_ok=True)
        path.write_bytes(whole[:-20])

    # -- checks --------------------------------------------------------------------------------

    def _admitted(self) -> int:
        return int(self.engine.engine.metrics()["s"]["admitted"])

    def _dead(self) -> Counter[str]:
        return Counter(self.engine.engine.metrics()["s"]["dead_letter_reasons"])

    def _check_counts(self) -> None:
        """Every record is counted once. Those of known fate have it."""
        admitted, dead = self._admitted(), self._dead().total() - self._dead()[UNREADABLE]
        if self._dead()[UNREADABLE] != 1:
            self.wrong.append(f"the file that is cut off is no dead letter: {self._dead()}")
        if admitted + dead != self.lines:
            self.wrong.append(f"{self.lines} records, but {admitted} admitted and {dead} dead letters: {self._dead()}")
        must = sum(one.row is not None and not one.dead for one in self.records)
        must_not = sum(one.dead for one in self.records)
        if admitted < must or dead < must_not:
            self.wrong.append(f"{admitted} admitted, at least {must}; {dead} dead letters, at least {must_not}")

    def _check_known(self, rows: list[tuple[Any, ...]]) -> None:
        """Every row that must be admitted is in the answers, and none of a record that must be dead."""
        names = [name for name in COLUMNS if name != "ts"]
        found = {row[2]: row[2:-1] for row in rows}
        for one in self.records:
            ident = (one.row or {}).get("id")
            expected = None if one.row is None or one.dead else tuple(one.row[name] for name in names)
            if expected is not None and not equal_rows([found.get(ident, ())], [expected]):
                self.wrong.append(f"{one.line[:300]!r} must be admitted as {expected}, and is {found.get(ident)}")
            if one.dead and ident in found:
                self.wrong.append(f"{one} must be a dead letter, and is {found[ident]}")

    def fate(self) -> Fate:
        for name in QUERIES:
            found, expected = (_ordered(side.answers(name)) for side in (self.engine, self.oracle))
            if not equal_rows(found, expected):
                pairs = [(a, b) for a, b in zip(found, expected, strict=False) if not equal_rows([a], [b])]
                self.wrong.append(f"{name}: {len(found)} rows, oracle {len(expected)}; {pairs[:2]}")
            if name == "each":
                self._check_known(found)
        return Fate(self.kind, self.lines, self._admitted() - GOOD_ROWS, self._dead(), self.wrong)


def _ordered(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: (row[1], sort_key(row[2:])))


def _timed(row: Row) -> Row:
    """The row with its time. A time that Python cannot hold is not admitted; None stands for it."""
    micros = row.pop("micros")
    row.pop("bad")
    try:
        row["ts"] = (
            None if micros is None else datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)
        )
    except OverflowError:
        row["ts"] = None
    return row


def _is_text(line: bytes) -> bool:
    try:
        return line.decode("utf-8") is not None
    except UnicodeDecodeError:
        return False


def _is_bad(one: Record) -> bool:
    return isinstance((one.row or {}).get("k"), bytes)


def _table(rows: list[Row]) -> pa.Table:
    arrays = {}
    for name, kind in COLUMNS.items():
        values = [row[name] for row in rows]
        if name == "k":
            raw = [v.encode() if isinstance(v, str) else v for v in values]
            arrays[name] = pa.Array.from_buffers(pa.string(), len(raw), pa.array(raw, pa.binary()).buffers())
        else:
            arrays[name] = pa.array(values, SqlType(kind).arrow)
    return pa.table(arrays)
