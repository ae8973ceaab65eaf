"""Thousands of different queries over one stream: five groupings, twenty predicates, five aggregates, random windows.

The first 500 queries have every combination of grouping, predicate and aggregate once; further ones have new windows
only. So the cost of a micro-batch is the same from N = 500 on, and the rest follows the number of answers. A sample of
the queries is checked against DuckDB, which evaluates the definition: every window by itself, from the tuples.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from common import START_S, PeakMemory

COMBINATIONS = 500
SCHEMA = "ts TIMESTAMP, src STRING, dst STRING, proto STRING, port INT, length INT"
GROUPINGS = (("src",), ("dst",), ("proto",), ("src", "proto"), ("dst", "proto"))
PREDICATES = (*(f"length > {5 * i}" for i in range(10)), *(f"proto = 'p{i}'" for i in range(10)))
AGGREGATES = (
    ("SUM(length)", "sum(length)"),
    ("AVG(length)", "avg(length)"),
    ("MAX(length)", "max(length)"),
    ("TOP_K(port, 5)", None),
    ("QUANTILE(length, 0.9)", "list_sort(list(length))[greatest(1, floor(0.9 * count(*)))::INT]"),
)


@dataclass(frozen=True)
class Mixed:
    """One query of the mix; RANGE and SLIDE in seconds."""

    grouping: tuple[str, ...]
    predicate: str
    aggregate: int
    size: int
    slide: int

    def text(self) -> str:
        keys = ", ".join(self.grouping)
        return (
            f"SELECT {keys}, {AGGREGATES[self.aggregate][0]} AS v FROM packets"
            f" [RANGE {self.size} SECONDS SLIDE {self.slide} SECONDS] WHERE {self.predicate} GROUP BY {keys}"
        )


def queries(count: int) -> list[Mixed]:
    rng = random.Random(3)
    out = []
    for i in range(count):
        slide = 10 * rng.randrange(1, 7)
        grouping, predicate = GROUPINGS[i % 5], PREDICATES[i // 5 % 20]
        out.append(Mixed(grouping, predicate, i // 100 % 5, slide * rng.randrange(1, 6), slide))
    return out


def write_mixed(directory: Path, total: int, per_file: int, seed: int) -> None:
    """A packet per millisecond."""
    directory.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for first in range(0, total, per_file):
        count = min(per_file, total - first)
        ts = START_S * 1_000_000 + (first + np.arange(count)) * 1000
        named = {name: (letter, rng.integers(0, n, count)) for name, letter, n in _NAMED}
        columns = {name: pa.array(np.char.add(letter, ids.astype(str))) for name, (letter, ids) in named.items()}
        columns["port"] = pa.array(rng.integers(0, 100, count).astype(np.int32))
        columns["length"] = pa.array(rng.integers(1, 101, count).astype(np.int32))
        stamps = pa.array(ts, pa.timestamp("us", tz="UTC"))
        pq.write_table(pa.table({"ts": stamps, **columns}), directory / f"{first:012d}.parquet")


_NAMED = (("src", "s", 50), ("dst", "d", 20), ("proto", "p", 10))


class Tally:
    """The number of rows that a query answered, and the sum of all their numbers."""

    def __init__(self) -> None:
        self.rows, self.total = 0, 0.0

    def write(self, batch: Any) -> None:
        self.add(batch.table.column("v").combine_chunks())

    def add(self, values: pa.Array) -> None:
        self.rows += len(values)
        if pa.types.is_list(values.type):
            values = values.flatten().field("count")
        self.total += float(pc.sum(values).as_py() or 0)


def run_mixed(data: Path, warm: Path, count: int, _: str) -> dict[str, Any]:
    """Run N of the queries over the files after a warm-up of a few over others. Runs in its own process."""
    import windrow

    def once(directory: Path, wanted: Sequence[Mixed]) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as state, windrow.open(state, settings={"retained_answers": 0}) as wr:
            wr.sql(
                f"CREATE STREAM packets ({SCHEMA}) FROM files OPTIONS (path '{directory}', format 'parquet',"
                " maxFilesPerTrigger '1') TIMESTAMP BY ts PUNCTUATE ORDERED"
            )
            tallies = [Tally() for _ in wanted]
            started = time.perf_counter()
            for i, (query, tally) in enumerate(zip(wanted, tallies, strict=True)):
                wr.query(f"q{i}", query.text(), sink=tally)
            created = time.perf_counter()
            wr.run_available()
            ended = time.perf_counter()
            metrics = wr.metrics()["packets"]
        return {
            "seconds": ended - created,
            "create_s": created - started,
            "ingest_s": metrics["job_s"] + metrics["apply_s"],
            "tick_s": metrics["tick_s"],
            "answers": sum(tally.rows for tally in tallies),
            "tallies": [(tally.rows, tally.total) for tally in tallies],
            "synopses": metrics["synopses"],
        }

    once(warm, queries(COMBINATIONS)[::25])
    memory = PeakMemory()
    measured = once(data, queries(count))
    return measured | {"peak_rss_mb": memory.stop()}


def wrong(data: Path, measured: dict[str, Any], sample: int) -> list[str]:
    """The queries of an even sample whose answers differ from DuckDB's."""
    count = len(measured["tallies"])
    chosen = sorted(random.Random(5).sample(range(count), min(sample, count)))
    known, out = queries(count), []
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.execute(f"CREATE TABLE packets AS SELECT *, epoch_us(ts) AS t FROM '{data}/*.parquet'")
        for i in chosen:
            rows, total = _expected(db, known[i])
            if (rows, round(total, 3)) != (measured["tallies"][i][0], round(measured["tallies"][i][1], 3)):
                out.append(f"q{i}: {known[i].text()}: {measured['tallies'][i]}, by definition {(rows, total)}")
    return out


def _expected(db: duckdb.DuckDBPyConnection, query: Mixed) -> tuple[int, float]:
    keys, slide, size = ", ".join(query.grouping), query.slide * 1_000_000, query.size * 1_000_000
    last = "(SELECT max(t) FROM packets)"
    ends = (
        f"SELECT e AS ends FROM range((SELECT min(t) FROM packets) // {slide} * {slide} + {slide}, {last} + 1, {slide})"
        " AS r(e)"
    )
    extent = f"({ends}) w JOIN packets ON t >= ends - {size} AND t < ends WHERE {query.predicate}"
    value = AGGREGATES[query.aggregate][1]
    if value is not None:
        found = db.execute(f"SELECT count(*), sum(v) FROM (SELECT {value} AS v FROM {extent} GROUP BY ends, {keys})")
    else:
        counted = f"SELECT ends, {keys}, port, count(*) AS n FROM {extent} GROUP BY ends, {keys}, port"
        placed = f"row_number() OVER (PARTITION BY ends, {keys} ORDER BY n DESC, port)"
        top = f"SELECT *, {placed} AS place FROM ({counted})"
        found = db.execute(f"SELECT count(*) FILTER (place = 1), sum(n) FILTER (place <= 5) FROM ({top})")
    rows, total = found.fetchall()[0]
    return int(rows), float(total or 0)
