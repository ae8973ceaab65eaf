"""Two small streams of integers for tests of continuous queries, and what tests read of their output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

A = "CREATE STREAM a (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
B = "CREATE STREAM b (t BIGINT, k STRING, y INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
JOIN = "SELECT a.k, x, y FROM a [RANGE 10] JOIN b [RANGE 5] ON a.k = b.k"


def rows(table: Any) -> list[tuple[Any, ...]]:
    """The rows of a Result or an Arrow table, as tuples."""
    return (
        [tuple(row.values()) for row in table.to_arrow().to_pylist()]
        if hasattr(table, "to_arrow")
        else [tuple(row.values()) for row in table.to_pylist()]
    )


def lines(file: Path) -> list[tuple[Any, ...]]:
    """The rows of a JSON lines file; none if it is not there yet."""
    if not file.exists():
        return []
    return [tuple(json.loads(line).values()) for line in file.read_text().splitlines()]


def parquet(directory: Path) -> list[tuple[Any, ...]]:
    """The rows of the Parquet files in a directory, in the order of their names."""
    return [row for file in sorted(directory.glob("*.parquet")) for row in rows(pq.read_table(file))]


def play(wr: Any, upto: int = 3) -> None:
    """Deposit the first micro-batches into both streams."""
    for one, other in MICRO_BATCHES[:upto]:
        wr.deposit("a", one)
        wr.deposit("b", other)


MICRO_BATCHES = (
    ([(1, "u", 1), (3, "v", 2)], [(2, "u", 10), (4, "v", 20)]),
    ([(5, "u", 3), (8, "w", 4)], [(6, "u", 30), (9, "w", 40)]),
    ([(20, "u", 5)], [(21, "u", 50), (24, "x", 0)]),
)
