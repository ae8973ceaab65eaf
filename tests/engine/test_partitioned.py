"""Partitioned windows: Spark and the driver give the same ranks, in one job."""

from __future__ import annotations

import json
import os
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.matrix import sized

import windrow
from engine.helpers import answers, jobs, put, state_of
from windrow.dataplane.ingest import job as ingest
from windrow.engine.choices import chooser
from windrow.oracle import Oracle
from windrow.oracle.values import equal_rows, sort_key
from windrow.testing import ManualClock

pytestmark = pytest.mark.slow

Row = tuple[Any, ...]
COLUMNS = "t BIGINT, k STRING, g INT, d DOUBLE, x INT"
QUERIES = (
    "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM s [ROWS 3 SLIDE 2 PARTITION BY k]",
    "SELECT COUNT(*) AS n, MAX(x) AS m FROM s [ROWS 2 SLIDE 1 PARTITION BY k] WHERE x > 2",
    "SELECT k, g, AVG(x) AS a FROM s [ROWS 4 OFFSET 1 SLIDE 3 PARTITION BY g, k] WHERE x < 8",
    "SELECT k, MAX(x) AS m FROM s [ROWS 2 SLIDE 2 PARTITION BY k] WHERE x > 6 GROUP BY k",
    "SELECT d, x % 2 AS odd, COUNT(*) AS n FROM s [ROWS 3 SLIDE 3 PARTITION BY d] WHERE x > 1 GROUP BY x % 2",
    "SELECT SUM(x) AS s FROM s [ROWS 5 SLIDE 2]",
    "SELECT COUNT(*) AS n, MIN(x) AS m FROM s [RANGE 6 SLIDE 3 ROWS]",
    "SELECT k, SUM(x) AS s FROM s [RANGE 10 SLIDE 5] WHERE g = 1 GROUP BY k",
)
SEEDS = range(sized(3, 12, 30))


def make_rows(rng: Random, at: int) -> list[Row]:
    """Tuples around a point, some late, with partition keys of every kind."""
    values = (["a", "b", "", None], [1, 2, None], [0.0, -0.0, 1.5, float("nan"), None], [None, *range(10)])
    return [(at + rng.choice([0, 1, 3, -2, -40]), *map(rng.choice, values)) for _ in range(rng.randrange(12))]


def same(some: list[Row], others: list[Row]) -> bool:
    one, other = sorted(some, key=sort_key), sorted(others, key=sort_key)
    return len(one) == len(other) and all(map(equal_rows, one, other))


@pytest.mark.matrix
@pytest.mark.parametrize("seed", SEEDS)
def test_ranks_of_spark_driver_and_oracle(seed: int, spark: Any, tmp_path: Path) -> None:
    rng, clock = Random(seed), ManualClock("2030-01-01 00:00:00")
    told = {mode: windrow.open(tmp_path / mode, spark=spark, settings={"preaggregate": mode}) for mode in MODES}
    oracle = Oracle(spark, clock)
    everyone: list[Any] = [*told.values(), oracle]
    for one in everyone:
        one.sql(f"CREATE STREAM s ({COLUMNS}) FROM memory TIMESTAMP BY t PUNCTUATE WITH SLACK 5")
    queries = {f"q{n}": text for n, text in enumerate(rng.sample(QUERIES, 4))}
    try:
        for name, text in queries.items():
            for one in everyone:
                one.sql(f"CREATE QUERY {name} AS {text}")
        for at in range(0, 60, 15):
            rows = [dict(zip(("t", "k", "g", "d", "x"), row, strict=True)) for row in make_rows(rng, at)]
            for wr in told.values():
                wr.deposit("s", rows, partitions=rng.choice([1, 3]))
            oracle.deposit("s", rows)
            if rng.random() < 0.5:
                told["spark"].close()
                told["spark"] = windrow.open(tmp_path / "spark", spark=spark, settings={"preaggregate": "spark"})
        for one in [*told.values(), oracle]:
            one.end_input("s")
        assert told["spark"].metrics()["s"]["last_preaggregate"] in ("spark", None)
        for name, text in queries.items():
            expected = oracle.answers(name).rows
            for mode, wr in told.items():
                assert same(answers(wr, name), expected), f"{mode}: {text}\n{answers(wr, name)}\n{expected}"
    finally:
        for wr in told.values():
            wr.close()


MODES = ("spark", "driver")

VALUES: dict[str, list[Any]] = {
    "STRING": ["a", "A", "", None],
    "INT": [1, -1, None],
    "SMALLINT": [1, -1, None],
    "DOUBLE": [0.5, float("nan"), None],
    "DECIMAL(12,2)": [Decimal("1.50"), Decimal("-2.25"), None],
    "DECIMAL(38,4)": [Decimal("1.5000"), None],
    "BOOLEAN": [True, False, None],
    "DATE": [date(2026, 1, 1), date(1969, 12, 31), None],
    "TIMESTAMP": [datetime(2026, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), None],
    "TIMESTAMP_NTZ": [datetime(2026, 1, 1), None],
    "BINARY": [b"", b"\xff", None],
}


def test_partition_keys_of_every_type(open_state: Any) -> None:
    """One stream with many partitioned windows, each with its own counts."""
    wr = open_state(preaggregate="spark")
    columns = {f"c{n}": kind for n, kind in enumerate(VALUES)}
    wr.sql(f"CREATE STREAM s (t BIGINT, {', '.join(f'{c} {k}' for c, k in columns.items())}) FROM memory"
           " TIMESTAMP BY t PUNCTUATE ORDERED")  # fmt: skip
    for column in columns:
        wr.query(f"of_{column}", f"SELECT {column}, COUNT(*) AS n FROM s [ROWS 3 SLIDE 3 PARTITION BY {column}]")
    longest = max(map(len, VALUES.values()))
    for t in range(3):
        wr.deposit("s", [(t, *(kind[i % len(kind)] for kind in VALUES.values())) for i in range(longest)])
    wr.close()
    wr = open_state(preaggregate="spark")
    for column, kind in columns.items():
        counted = {repr(row[2]): row[3] for row in answers(wr, f"of_{column}") if row[1] == 4}
        assert len(counted) == len(VALUES[kind]) and set(counted.values()) == {3}, (kind, counted)


@pytest.mark.parametrize("mode", MODES)
def test_partitioned_windows_take_one_job(open_state: Any, spark: Any, mode: str) -> None:
    wr = open_state(preaggregate=mode)
    wr.sql(f"CREATE STREAM s ({COLUMNS}) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    for n, text in enumerate(QUERIES):
        wr.query(f"q{n}", text)
    for t in range(3):
        before = jobs(spark)
        wr.deposit("s", [(t, "a", 1, 0.5, 3), (t, None, None, None, None)])
        assert jobs(spark) - before == 1
    assert wr.metrics()["s"]["preaggregated_by"][mode] == 3


def test_generated_code_is_reused(open_state: Any, spark: Any) -> None:
    wr = open_state(preaggregate="spark")
    wr.sql("CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    wr.query("q", "SELECT k, SUM(x) AS s FROM s [ROWS 3 SLIDE 2 PARTITION BY k]")
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    for t in range(4):
        if t == 2:
            before = compiled.getCount()
        put(wr, *[(t, key, t) for key in "abcde"[: t + 2]])
    assert compiled.getCount() == before


def test_gathered_rows_need_no_exchange(open_state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []
    run = ingest.run

    def noted(df: Any) -> Any:
        plans.append(df._jdf.queryExecution().executedPlan().toString())
        return run(df)

    monkeypatch.setattr(ingest, "run", noted)
    wr = open_state(preaggregate="driver")
    wr.sql("CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    wr.query("q", "SELECT k, SUM(x) AS s FROM s [ROWS 3 SLIDE 2 PARTITION BY k]")
    wr.query("r", "SELECT SUM(x) AS s FROM s [ROWS 3 SLIDE 2]")
    put(wr, (1, "a", 1), (2, "b", 2), (3, "a", 4), (4, "a", 8))
    assert plans and not any(word in plan for plan in plans for word in ("Exchange", "Window", "Sort"))
    assert answers(wr, "q") == [(0, 3, "a", 5)] and answers(wr, "r") == [(0, 3, 3), (2, 5, 14)]


def test_many_counts_are_not_sent_to_spark(open_state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr = open_state(preaggregate="spark")
    wr.sql("CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    query = wr.query("q", "SELECT k, SUM(x) AS s FROM s [ROWS 2 SLIDE 1 PARTITION BY k]")
    put(wr, (1, "a", 1), (1, "b", 2))
    assert "by Spark where it groups" in query.explain() and "last micro-batch by spark" in query.explain()
    monkeypatch.setattr(chooser, "MOST_COUNT_BYTES", 8)
    put(wr, (2, "a", 4), (2, None, 8))
    assert "in the driver: above" in query.explain() and "last micro-batch by driver" in query.explain()
    monkeypatch.undo()
    put(wr, (3, "a", 16), (3, None, 32))
    assert wr.metrics()["s"]["preaggregated_by"] == {"spark": 2, "driver": 1}
    by_key = {key: [row[3] for row in answers(wr, "q") if row[2] == key] for key in ("a", "b", None)}
    assert by_key == {"a": [1, 5, 20], "b": [2], None: [8, 40]}


@pytest.mark.parametrize("mode", MODES)
def test_repeated_micro_batch_has_the_same_ranks(open_state: Any, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wr = open_state(preaggregate=mode)
    wr.sql("CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    wr.query("q", "SELECT k, SUM(x) AS s FROM s [ROWS 2 SLIDE 2 PARTITION BY k]")
    put(wr, (1, "a", 1), (1, None, 2))
    journal, rows = wr._engine.inputs._files._depositor._journal, ((2, "a", 4), (2, "c", 8), (2, None, 16))
    with monkeypatch.context() as patch:
        patch.setattr(journal.deposits, "deposit", lambda *args: (_ for _ in ()).throw(OSError("no space left")))
        with pytest.raises(OSError, match="no space"):
            put(wr, *rows)
    put(wr, *rows)
    assert sorted(answers(wr, "q"), key=sort_key) == [(1, 3, None, 18), (1, 3, "a", 5)]
    assert state_of(wr).numbered == 5


@pytest.mark.parametrize("mode", MODES)
def test_row_numbers_follow_feed_and_file_order(open_state: Any, tmp_path: Path, mode: str) -> None:
    """One micro-batch of several feeds, or of several files with the same modification time."""
    folder = tmp_path / "in"
    folder.mkdir()
    wr = open_state(preaggregate=mode)
    columns, order = "(t BIGINT, k STRING, x INT)", "TIMESTAMP BY t PUNCTUATE ORDERED"
    wr.sql(f"CREATE STREAM fed {columns} FROM memory {order}")
    wr.sql(f"CREATE STREAM files {columns} FROM files OPTIONS (path '{folder}', format 'json') {order}")
    for name in ("fed", "files"):
        wr.query(f"of_{name}", f"SELECT MIN(x) AS lo, MAX(x) AS hi FROM {name} [ROWS 2 SLIDE 2]")
        wr.query(f"in_{name}", f"SELECT k, MIN(x) AS lo, MAX(x) AS hi FROM {name} [ROWS 2 SLIDE 2 PARTITION BY k]")
    for number in range(4):
        wr.feed("fed", [(1, "ab"[i % 2], 4 * number + i) for i in range(4)])
    for number in (2, 0, 3, 1):
        path = folder / f"{number}.json"
        lines = (json.dumps({"t": 1, "k": "ab"[i % 2], "x": 4 * number + i}) for i in range(4))
        path.write_text("\n".join(lines))
        os.utime(path, (1_700_000_000, 1_700_000_000))
    wr.run_available()
    for name in ("fed", "files"):
        assert [row[2:] for row in answers(wr, f"of_{name}")] == [(2 * n, 2 * n + 1) for n in range(8)]
        in_a = [row[3:] for row in answers(wr, f"in_{name}") if row[2] == "a"]
        assert in_a == [(4 * n, 4 * n + 2) for n in range(4)]
        assert wr.metrics()[name]["batches"] == 1 and wr.metrics()[name]["preaggregated_by"][mode] == 1
