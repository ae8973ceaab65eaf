"""Real disorder: network connections windowed on their start time, as a monitor wrote them (skipped if absent).

With enough slack the answers are those of the sorted input. The dropped tuples are those of a plain simulation.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import windrow

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "connections.parquet"
COLUMNS = ("ts", "src", "proto", "orig_bytes")
QUERIES = {
    "bytes": "SELECT proto, SUM(orig_bytes) AS b, COUNT(*) AS n FROM c [RANGE 10 MINUTES SLIDE 1 MINUTE] GROUP BY proto",
    "late_tuples": "SELECT COUNT(*) AS n FROM c [RANGE 5 MINUTES SLIDE 1 ROW]",
    "history": "SELECT MAX(orig_bytes) AS m FROM c [RANGE 1 HOUR OFFSET 1 HOUR SLIDE 30 MINUTES]",
}

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not DATA.exists(), reason="the data is not at hand")]


@pytest.fixture(scope="module")
def connections() -> pa.Table:
    return pq.read_table(DATA, columns=list(COLUMNS))


def run(spark: Any, path: Path, table: pa.Table, punctuate: str, rows: int, queries: dict[str, str]) -> dict[str, Any]:
    with windrow.open(path, spark=spark, settings={"retained_answers": 10**9, "max_future": "off"}) as wr:
        wr.sql(
            "CREATE STREAM c (ts TIMESTAMP, src STRING, proto STRING, orig_bytes BIGINT) FROM memory"
            f" TIMESTAMP BY ts PUNCTUATE {punctuate}"
        )
        for name, text in queries.items():
            wr.query(name, text)
        for first in range(0, table.num_rows, rows):
            wr.deposit("c", table.slice(first, rows))
        wr._engine.time.end_input("c")
        metrics = wr.metrics()["c"]
        answers = {name: Counter(map(tuple, rows_of(wr.queries[name].answers().arrow()))) for name in queries}
        return {"answers": answers, "late": metrics["late"], "admitted": metrics["admitted"]}


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_answers_with_enough_slack(spark: Any, tmp_path: Path, connections: pa.Table) -> None:
    disordered = run(spark, tmp_path / "a", connections, "WITH SLACK 2 HOURS", 10_000, QUERIES)
    ordered = run(spark, tmp_path / "b", connections.sort_by("ts"), "ORDERED", 40_000, QUERIES)
    assert disordered["late"] == ordered["late"] == 0 and disordered["admitted"] == connections.num_rows
    assert disordered["answers"] == ordered["answers"]
    assert all(len(rows) > 100 for rows in disordered["answers"].values())


def simulated(table: pa.Table, rows: int, slack_us: int | None) -> int:
    """The number of tuples that the rule drops, judged by the frontier at the end of the previous micro-batch.

    `slack_us` None means PER src: the frontier is the least of the greatest points of all sources so far.
    """
    ts, src = table["ts"].cast(pa.int64()).to_numpy(), table["src"].to_pylist()
    frontier, dropped, by_src = None, 0, {}
    for first in range(0, len(ts), rows):
        kept = [i for i in range(first, min(first + rows, len(ts))) if frontier is None or ts[i] >= frontier]
        dropped += min(first + rows, len(ts)) - first - len(kept)
        for i in kept:
            by_src[src[i]] = max(int(ts[i]), by_src.get(src[i], int(ts[i])))
        if kept:
            seen = max(int(ts[i]) for i in kept) - slack_us if slack_us is not None else min(by_src.values())
            frontier = seen if frontier is None else max(frontier, seen)
    return dropped


@pytest.mark.parametrize(
    ("punctuate", "slack_us"), [("WITH SLACK 60 SECONDS", 60_000_000), ("PER src", None)], ids=["slack", "per src"]
)
def test_dropped_tuples(
    spark: Any, tmp_path: Path, connections: pa.Table, punctuate: str, slack_us: int | None
) -> None:
    part = connections
    found = run(
        spark, tmp_path / "c", part, punctuate, 1_000, {"n": "SELECT COUNT(*) AS n FROM c [RANGE 1 HOUR SLIDE 1 HOUR]"}
    )
    assert found["late"] == simulated(part, 1_000, slack_us)
    assert found["admitted"] + found["late"] == part.num_rows
    if slack_us is not None:
        assert found["late"] > 100
    counted = sum(row[3] * n for row, n in found["answers"]["n"].items())
    assert counted == found["admitted"]
    assert int(np.asarray(part["ts"].null_count)) == 0
