"""Tuples for the joins, repeatable by stream and tick, and the answers that they must give, by DuckDB."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START_S = 1_700_000_000
SECOND_US = 1_000_000
COLUMNS = "ts TIMESTAMP, k BIGINT, v INT"


@dataclass(frozen=True)
class Load:
    """A tick is a second. `new`: tuples of a stream per tick; `span`: ticks of a window; `keys`: how many values the
    join key has; `values`: how many values v has."""

    new: int
    span: int
    keys: int
    values: int = 1000

    @property
    def window(self) -> int:
        """The tuples of a full window."""
        return self.new * self.span

    def rows(self, stream: int, tick: int) -> pa.Table:
        rng = np.random.default_rng([17, stream, tick])
        ts = (START_S + tick) * SECOND_US + np.arange(self.new) * SECOND_US // self.new
        return pa.table(
            {
                "ts": pa.array(ts, pa.timestamp("us", tz="UTC")),
                "k": rng.integers(0, self.keys, self.new),
                "v": rng.integers(0, self.values, self.new).astype(np.int32),
            }
        )

    def table(self, stream: int, ticks: range) -> pa.Table:
        return pa.concat_tables([self.rows(stream, tick) for tick in ticks])


class Folder:
    """The files of one stream: written beside, and then shown all at once. Spark reads files in the order of their
    times, in milliseconds, so each name has a time of its own."""

    def __init__(self, path: Path):
        self.path = path
        self._begun_ns = time.time_ns()
        path.mkdir(parents=True)

    def hide(self, name: int, table: pa.Table) -> None:
        file, at_ns = self.path / f".{name:08d}.tmp", self._begun_ns + name * 10_000_000
        pq.write_table(table, file)
        os.utime(file, ns=(at_ns, at_ns))

    def show(self, name: int) -> None:
        (self.path / f".{name:08d}.tmp").rename(self.path / f"{name:08d}.parquet")

    def remove(self, name: int) -> None:
        (self.path / f"{name:08d}.parquet").unlink()


def checksum(pairs: pa.Table) -> list[int]:
    """Of joined pairs k, x, y: how many there are, and sums that tell wrong pairs."""
    return _integers(_duckdb(pairs=pairs).sql(f"SELECT {_SUMS} FROM pairs"))


_SUMS = "count(*), sum(k), sum(x * y), sum(k % 1009 * x), sum(k % 1013 * y)"


def expected_pairs(load: Load, ticks: range, seen_by: int | None = None) -> list[int]:
    """The checksum of all pairs within a window of each other. `seen_by`: only those that live at a tick, up to this
    one: a continuous query reports no others."""
    con = _duckdb(a=load.table(0, ticks), b=load.table(1, ticks))
    span = load.span * SECOND_US
    seen = "" if seen_by is None else f"AND first <= least(a.ts, b.ts) + {span} AND first <= {seen_by}"
    return _integers(
        con.sql(
            f"""
            SELECT {_SUMS} FROM (
              SELECT a.k, a.v AS x, b.v AS y, (greatest(a.ts, b.ts) // {SECOND_US} + 1) * {SECOND_US} AS first
              FROM a JOIN b USING (k)
              WHERE a.ts < b.ts + {span} AND b.ts < a.ts + {span} {seen}
            )"""
        )
    )


def expected_groups(load: Load, tick: int) -> set[tuple[int, int, int]]:
    """(a.v, count, sum of b.v) of the join of three windows at a tick."""
    ticks = range(max(0, tick - load.span), tick)
    con = _duckdb(**{name: load.table(i, ticks) for i, name in enumerate("abc")})
    found = con.sql("SELECT a.v, count(*), sum(b.v) FROM a JOIN b USING (k) JOIN c USING (k) GROUP BY ALL").fetchall()
    return {(int(g), int(n), int(total)) for g, n, total in found}


def groups_at(changes: pa.Table, ticks: Sequence[int]) -> list[set[tuple[int, int, int]]]:
    """The answers of a group-by at ticks, from its changes: what came and was not withdrawn."""
    con, out = _duckdb(changes=changes), []
    for tick in ticks:
        found = con.sql(
            "SELECT g, n, total FROM changes GROUP BY ALL"
            f" HAVING sum(CASE WHEN ts >= {point(tick)} THEN 0 WHEN op = '+' THEN 1 ELSE -1 END) > 0"
        ).fetchall()
        out.append({(int(g), int(n), int(total)) for g, n, total in found})
    return out


def point(tick: int) -> int:
    return (START_S + tick) * SECOND_US


def _duckdb(**tables: pa.Table) -> duckdb.DuckDBPyConnection:
    """A connection with these tables; their times are numbers, for which DuckDB needs no time zones."""
    con = duckdb.connect()
    for name, table in tables.items():
        times = [i for i, field in enumerate(table.schema) if pa.types.is_timestamp(field.type)]
        for i in times:
            table = table.set_column(i, table.schema.field(i).name, table.column(i).cast(pa.int64()))
        con.register(name, table)
    return con


def _integers(found: Any) -> list[int]:
    return [int(value or 0) for value in found.fetchall()[0]]
