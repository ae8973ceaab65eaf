"""N standing queries over one stream: SUM, COUNT and MAX per source over random sliding windows.

Windrow (N = 1, 10, 100) is compared with Spark's own `window()` aggregation (N = 1, 10) and with a bare `foreachBatch`
group-by per second and source, over the same files with the same triggers. Each measurement runs in its own process
after a warm-up on as many other files. All sides write their checkpoints the same way. A checksum over every answer of
every side is compared with a plain NumPy computation. Only windows that end by the last timestamp count, since Spark
answers no others.

Then 500, 1,000 and 10,000 different queries over a second stream (`mixed.py`).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import START_S, PeakMemory, child, scratch, source_names, windows, write_packets
from mixed import COMBINATIONS, run_mixed, write_mixed, wrong

SCHEMA = "ts TIMESTAMP, src STRING, length INT"
_HASHES = {name: np.uint64((i + 1) * 0x9E3779B97F4A7C15 % 2**64) for i, name in enumerate(source_names())}


def _mix(src: np.ndarray, end_us: np.ndarray, total: np.ndarray, count: np.ndarray, most: np.ndarray) -> int:
    """An order-independent checksum of answer rows, modulo 2^64."""
    value = total * np.int64(1_000_003) + count * np.int64(7_919) + most * np.int64(104_729) + end_us * np.int64(31)
    return int(np.dot(src, value.astype(np.uint64)))


_known: dict[tuple[int, int], np.ndarray] = {}


def _codes(names: pa.Array) -> np.ndarray:
    """The hashes of a dictionary of names, cached, since the same one comes with every batch."""
    key = (names.buffers()[2].address, len(names))
    if key not in _known:
        _known.clear()
        _known[key] = np.array([_HASHES.get(n, np.uint64(0)) for n in names.to_pylist()], np.uint64)
        _keep[:] = [names]
    return _known[key]


_keep: list[pa.Array] = []
"""Keeps the cached dictionary alive, so that its address is not reused."""


class Checksum:
    """Adds up the answers of one query."""

    def __init__(self) -> None:
        self.value, self.rows = 0, 0

    def add(self, table: pa.Table, end: str) -> None:
        for batch in table.to_batches():
            names = batch.column("src")
            if not pa.types.is_dictionary(names.type):
                names = names.dictionary_encode()
            codes = _codes(names.dictionary)
            ends = batch.column(end).view(pa.int64()).to_numpy()
            columns = [
                batch.column(c).to_numpy(zero_copy_only=False).astype(np.int64, copy=False) for c in ("s", "n", "m")
            ]
            self.value = (self.value + _mix(codes[names.indices.to_numpy()], ends, *columns)) % 2**64
            self.rows += batch.num_rows

    def write(self, batch: Any) -> None:
        self.add(batch.table, "window_end")


def reference(directory: Path, count: int) -> list[tuple[int, int]]:
    """(checksum, rows) per query, by plain NumPy over seconds × sources."""
    tables = [pq.read_table(f) for f in sorted(directory.glob("*.parquet"))]
    table = pa.concat_tables(tables)
    second = table["ts"].combine_chunks().view(pa.int64()).to_numpy() // 1_000_000 - START_S
    encoded = table["src"].combine_chunks().dictionary_encode()
    names = encoded.dictionary.to_pylist()
    width, depth = len(names), int(second.max()) + 1
    slot = second * width + encoded.indices.to_numpy()
    length = table["length"].combine_chunks().to_numpy().astype(np.int64)
    n = np.bincount(slot, minlength=depth * width).reshape(depth, width)
    s = np.bincount(slot, length, minlength=depth * width).astype(np.int64).reshape(depth, width)
    m = np.zeros(depth * width, np.int64)
    np.maximum.at(m, slot, length)
    m = m.reshape(depth, width)
    hashes = np.array([_HASHES[name] for name in names], np.uint64)
    out = []
    for size, slide in windows(count):
        total, rows = 0, 0
        for end in range(-(-START_S // slide) * slide, START_S + depth, slide):
            lo, hi = max(0, end - size - START_S), end - START_S
            if hi <= 0:
                continue
            counts = n[lo:hi].sum(0)
            alive = counts > 0
            ends = np.full(int(alive.sum()), end * 1_000_000)
            total += _mix(hashes[alive], ends, s[lo:hi].sum(0)[alive], counts[alive], m[lo:hi].max(0)[alive])
            rows += int(alive.sum())
        out.append((total % 2**64, rows))
    return out


# -- the sides, each in a process of its own ---------------------------------------------------


def run_windrow(data: Path, warm: Path, count: int, preaggregate: str) -> dict[str, Any]:
    import windrow

    memory = PeakMemory()

    def once(directory: Path, n: int) -> tuple[float, list[Checksum], dict[str, Any]]:
        with tempfile.TemporaryDirectory() as state:
            wr = windrow.open(state, settings={"preaggregate": preaggregate, "retained_answers": 0})
            wr.sql(
                f"CREATE STREAM packets ({SCHEMA}) FROM files OPTIONS (path '{directory}', format 'parquet',"
                " maxFilesPerTrigger '1') TIMESTAMP BY ts PUNCTUATE ORDERED"
            )
            sums = []
            for i, (size, slide) in enumerate(windows(n)):
                sums.append(Checksum())
                wr.query(
                    f"q{i}",
                    "SELECT src, SUM(length) AS s, COUNT(*) AS n, MAX(length) AS m FROM packets"
                    f" [RANGE {size} SECONDS SLIDE {slide} SECONDS] GROUP BY src",
                    sink=sums[-1],
                )
            started = time.perf_counter()
            wr.run_available()
            seconds = time.perf_counter() - started
            metrics = wr.metrics()["packets"]
            keep.append(wr)
            return seconds, sums, metrics

    keep: list[Any] = []
    once(warm, min(count, 2))
    seconds, sums, metrics = once(data, count)
    picked = ("job_s", "apply_s", "tick_s", "preaggregated_by", "synopses", "synopsis_bytes")
    result = {"seconds": seconds, "sums": [(c.value, c.rows) for c in sums], "peak_rss_mb": memory.stop()}
    result["metrics"] = {name: metrics[name] for name in picked}
    for wr in keep:
        wr.close()
    return result


def _session(memory: str, store: str | None = None) -> Any:
    from pyspark.sql import SparkSession

    from windrow.dataplane.session import COLLECTOR, LOCAL_CHECKPOINTS, QUICK_RESULTS

    builder = SparkSession.builder.master("local[*]").config("spark.driver.memory", memory)
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
        "spark.driver.maxResultSize": "4g",
        "spark.log.level": "ERROR",
        **LOCAL_CHECKPOINTS,
        **QUICK_RESULTS,
    }
    if store is None:  # the bare side; Spark's window() is faster with Java's default collector (measured: 3%)
        options["spark.driver.extraJavaOptions"] = COLLECTOR
    if store == "rocksdb":
        options["spark.sql.streaming.stateStore.providerClass"] = (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        )
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _stream(spark: Any, directory: Path) -> Any:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(directory))


def _await(started: list[Any]) -> None:
    for query in started:
        query.awaitTermination()


def run_spark(data: Path, warm: Path, count: int, store: str) -> dict[str, Any]:
    from pyspark.sql import functions as F

    spark = _session("12g", store)

    def once(directory: Path, n: int) -> tuple[float, list[Checksum]]:
        sums, started = [], []
        with tempfile.TemporaryDirectory() as state:
            begin = time.perf_counter()
            for i, (size, slide) in enumerate(windows(n)):
                sums.append(Checksum())
                frame = (
                    _stream(spark, directory)
                    .withWatermark("ts", "0 seconds")
                    .groupBy(F.window("ts", f"{size} seconds", f"{slide} seconds", f"{-size % slide} seconds"), "src")
                    .agg(F.sum("length").alias("s"), F.count("*").alias("n"), F.max("length").alias("m"))
                    .selectExpr("window.end AS e", "src", "s", "n", "m")
                )

                def sink(df: Any, batch_id: int, into: Checksum = sums[-1]) -> None:
                    into.add(df.toArrow(), "e")

                writer = frame.writeStream.foreachBatch(sink).outputMode("append")
                started.append(writer.option("checkpointLocation", f"{state}/{i}").trigger(availableNow=True).start())
            _await(started)
            return time.perf_counter() - begin, sums

    once(warm, 1)
    memory = PeakMemory()
    seconds, sums = once(data, count)
    result = {"seconds": seconds, "sums": [(c.value, c.rows) for c in sums], "peak_rss_mb": memory.stop()}
    spark.stop()
    return result


def run_bare(data: Path, warm: Path, count: int, _: str) -> dict[str, Any]:
    from pyspark.sql import functions as F

    spark = _session("1g")

    def once(directory: Path) -> float:
        def group(df: Any, batch_id: int) -> None:
            pane = F.expr("unix_micros(ts) div 1000000").alias("pane")
            df.groupBy(pane, "src").agg(F.sum("length"), F.count("*"), F.max("length")).toArrow()

        with tempfile.TemporaryDirectory() as state:
            begin = time.perf_counter()
            writer = _stream(spark, directory).writeStream.foreachBatch(group).option("checkpointLocation", state)
            _await([writer.trigger(availableNow=True).start()])
            return time.perf_counter() - begin

    once(warm)
    result = {"seconds": once(data)}
    spark.stop()
    return result


SIDES = {"windrow": run_windrow, "spark": run_spark, "bare": run_bare, "mixed": run_mixed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=5_000_000)
    parser.add_argument("--per-file", type=int, default=500_000)
    parser.add_argument(
        "--without-spark", action="store_true", help="leave out Spark's own window() (it takes minutes)"
    )
    parser.add_argument(
        "--mixed", choices=("also", "only", "no"), default="also", help="thousands of different queries"
    )
    parser.add_argument("--mixed-packets", type=int, default=600_000)
    parser.add_argument("--child", nargs=3, metavar=("SIDE", "N", "OPTION"), help=argparse.SUPPRESS)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        side, count, option = args.child
        base = Path(args.data)
        print(json.dumps(SIDES[side](base / "data", base / "warm", int(count), option)))
        return
    result: dict[str, Any] = {}
    if args.mixed != "only":
        with scratch() as base:
            result |= measure(base, args)
    if args.mixed != "no":
        with scratch() as base:
            result |= measure_mixed(base, args.mixed_packets)
    print("RESULT " + json.dumps(result))


def measure_mixed(base: Path, total: int) -> dict[str, Any]:
    """The cost of N different queries: 500 have every grouping, predicate and aggregate; more have other windows."""
    print(f"writing {total:,} packets for the mix …", flush=True)
    write_mixed(base / "data", total, total // 6, seed=1)
    write_mixed(base / "warm", total // 3, total // 6, seed=2)
    sides = {
        n: child(__file__, "--child", "mixed", str(n), "-", "--data", str(base)) for n in (COMBINATIONS, 1_000, 10_000)
    }
    mistakes = [text for side in sides.values() for text in wrong(base / "data", side, 60)]
    for text in mistakes:
        print(f"WRONG {text}")
    print(
        f"\n{'N':>8}{'seconds':>9}{'ingest s':>10}{'ticks s':>9}{'answer rows':>13}{'µs/row':>8}{'peak MB':>9}{'create s':>10}"
    )
    result: dict[str, Any] = {"mixed_answers_ok": not mistakes}
    for n, side in sides.items():
        print(
            f"{n:>8,}{side['seconds']:>9.2f}{side['ingest_s']:>10.2f}{side['tick_s']:>9.2f}{side['answers']:>13,}"
            f"{side['seconds'] / side['answers'] * 1e6:>8.2f}{side['peak_rss_mb']:>9.0f}{side['create_s']:>10.1f}"
        )
        for name in ("seconds", "ingest_s", "tick_s", "answers", "peak_rss_mb", "create_s"):
            result[f"mixed_{n}_{name}"] = round(side[name], 2)
    few, many = sides[COMBINATIONS], sides[10_000]
    result["mixed_ingest_ratio"] = round(many["ingest_s"] / few["ingest_s"], 2)
    result["mixed_seconds_ratio"] = round(many["seconds"] / few["seconds"], 2)
    result["mixed_answers_ratio"] = round(many["answers"] / few["answers"], 2)
    result["mixed_more_mb"] = round(many["peak_rss_mb"] - few["peak_rss_mb"])
    print(
        f"N=10,000 over N={COMBINATIONS}: ingest {result['mixed_ingest_ratio']}×, time {result['mixed_seconds_ratio']}×,"
        f" answers {result['mixed_answers_ratio']}×, memory {result['mixed_more_mb']:+} MB"
    )
    return result


def measure(base: Path, args: argparse.Namespace) -> dict[str, Any]:
    print(f"writing {args.packets:,} packets …", flush=True)
    write_packets(base / "data", args.packets, args.per_file)
    write_packets(base / "warm", args.packets, args.per_file, seed=8)
    expected = [tuple(pair) for pair in reference(base / "data", 100)]
    counts = {n: sum(rows for _, rows in expected[:n]) for n in (1, 10, 100)}
    print(f"answer rows: {counts}", flush=True)

    def run(side: str, n: int, option: str) -> dict[str, Any]:
        return child(__file__, "--child", side, str(n), option, "--data", str(base))

    bare = run("bare", 0, "-")
    sides = {f"n{n}": run("windrow", n, "auto") for n in (1, 10, 100)}
    sides["n100_spark_preaggregate"] = run("windrow", 100, "spark")
    bare_again = run("bare", 0, "-")
    if not args.without_spark:
        tries = {store: run("spark", 1, store) for store in ("hdfs", "rocksdb")}
        best = min(tries, key=lambda store: tries[store]["seconds"])
        sides["spark_n1"] = tries[best]
        sides["spark_n10"] = run("spark", 10, best)
    ok = all([tuple(p) for p in side["sums"]] == expected[: len(side["sums"])] for side in sides.values())
    bare_s = (bare["seconds"] + bare_again["seconds"]) / 2
    result = {f"{name}_s": round(side["seconds"], 2) for name, side in sides.items()}
    result |= {"bare_s": round(bare_s, 2), "peak_rss_mb": round(sides["n100"]["peak_rss_mb"]), "answers_ok": ok}
    report(result, sides, args.packets)
    return result


def report(result: dict[str, Any], sides: dict[str, dict[str, Any]], total: int) -> None:
    print(f"\n{'side':<26}{'seconds':>9}{'packets/s':>12}{'peak MB':>9}")
    for name, side in sides.items():
        print(f"{name:<26}{side['seconds']:>9.2f}{total / side['seconds']:>12,.0f}{side['peak_rss_mb']:>9.0f}")
        if "metrics" in side:
            print(f"    {side['metrics']}")
    print(f"{'bare group-by':<26}{result['bare_s']:>9.2f}{total / result['bare_s']:>12,.0f}")
    print(
        f"N=100 over N=1: {result['n100_s'] / result['n1_s']:.2f}×; N=100 throughput over bare: {result['bare_s'] / result['n100_s']:.2f}"
    )
    for n in (1, 10):
        if f"spark_n{n}_s" in result:
            print(f"Spark's window() over Windrow at N={n}: {result[f'spark_n{n}_s'] / result[f'n{n}_s']:.1f}×")


if __name__ == "__main__":
    main()
