"""The same join by Spark's own stream-stream interval join."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from joining.data import COLUMNS, Folder, Load, expected_pairs
from windrow.dataplane.session import LOCAL_CHECKPOINTS

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
JOIN = """
    SELECT a.k, a.v AS x, b.v AS y FROM a JOIN b
    ON a.k = b.k AND a.ts < b.ts + INTERVAL {span} SECONDS AND b.ts < a.ts + INTERVAL {span} SECONDS
"""
SUMS = "count(1)", "sum(k)", "sum(bigint(x) * y)", "sum(k % 1009 * x)", "sum(k % 1013 * y)"


def session(store: str) -> Any:
    """A session that suits the join: a shuffle partition per core, no micro-batches without data, quick checkpoints."""
    from pyspark.sql import SparkSession

    options = {
        "spark.driver.memory": "8g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(os.cpu_count()),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.metricsEnabled": "false",
        **LOCAL_CHECKPOINTS,
    }
    if store == "rocksdb":
        options["spark.sql.streaming.stateStore.providerClass"] = ROCKSDB
        options["spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"] = "true"
    builder = SparkSession.builder.master("local[*]")
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class SparkRun:
    """The join of two folders. Its results are summed up by Spark and go nowhere, which is the cheapest way out."""

    join = JOIN
    sums_sql: tuple[str, ...] = SUMS

    def __init__(self, base: Path, spark: Any, load: Load):
        self.load = load
        self.sums = np.zeros(len(self.sums_sql), np.int64)
        self._folders = [Folder(base / name) for name in "ab"]
        for folder, name in zip(self._folders, "ab", strict=True):
            stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder.path))
            stream.withWatermark("ts", "0 seconds").createOrReplaceTempView(name)
        joined = spark.sql(self.join.format(span=load.span))
        writer = joined.writeStream.foreachBatch(self._sum).option("checkpointLocation", str(base / "checkpoint"))
        self.query = writer.start()

    def _sum(self, df: Any, batch_id: int) -> None:
        self.sums += np.array([value or 0 for value in df.selectExpr(*self.sums_sql).first()], np.int64)

    def take(self, ticks: range, per_file: int = 1) -> float:
        """Show the files of ticks all at once, a file a side per micro-batch. Return the seconds until all are
        processed."""
        firsts = range(ticks.start, ticks.stop, per_file)
        for first in firsts:
            for i, folder in enumerate(self._folders):
                folder.hide(first, self.load.table(i, range(first, min(first + per_file, ticks.stop))))
        begin = time.perf_counter()
        for first in firsts:
            for folder in self._folders:
                folder.show(first)
        self.query.processAllAvailable()
        seconds = time.perf_counter() - begin
        for first in firsts:
            for folder in self._folders:
                folder.remove(first)
        return seconds

    def check(self, ticks: int) -> None:
        found, wanted = self.sums.tolist(), expected_pairs(self.load, range(ticks))
        assert found == wanted, (found, wanted)


def throughput(base: Path, load: Load, ticks: int, store: str) -> dict[str, Any]:
    """As `two_windows.throughput`."""
    run = SparkRun(base, session(store), load)
    warm = load.span + 8
    run.take(range(warm - 4), load.span)
    run.take(range(warm - 4, warm))
    seconds = run.take(range(warm, warm + ticks))
    timed = [run.take(range(tick, tick + 1)) for tick in range(warm + ticks, warm + ticks + 8)]
    run.query.stop()
    run.check(warm + ticks + 8)
    return {
        "seconds": seconds,
        "tuples_per_s": 2 * load.new * ticks / seconds,
        "end_to_end_s": float(np.median(timed)),
    }


def latency(base: Path, load: Load, ticks: int, store: str) -> dict[str, Any]:
    """The seconds from when the files of a tick are visible to its results, with full windows."""
    run = SparkRun(base, session(store), load)
    run.take(range(load.span), max(1, load.span // 4))
    warm = load.span + ticks // 2
    timed = [run.take(range(tick, tick + 1)) for tick in range(load.span, warm + ticks)]
    run.query.stop()
    run.check(warm + ticks)
    return {"end_to_end_s": float(np.median(timed[ticks // 2 :]))}
