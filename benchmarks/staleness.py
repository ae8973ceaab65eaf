"""Staleness: from when a pane could close to the delivery of its last answer, in real time.

A separate process writes 20,000 packets/s as Parquet files, four a second; event time is wall time. 100 standing
queries (RANGE 20–100 s, SLIDE 1 s to half the RANGE) read them. A pane could close when the file with the first packet
at or above its end became visible. For comparison: an empty micro-batch in the same session.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import SOURCES, PeakMemory, empty_batches, scratch, source_names, windows

RATE = 20_000
FILES_PER_S = 4


def write_live(directory: str, seconds: float, log: str) -> None:
    """Write files at the rate. Each line of the log has the first and last timestamp of a file and when it became
    visible (µs)."""
    names, rng = source_names(), np.random.default_rng(3)
    per_file, step = RATE // FILES_PER_S, 1 / FILES_PER_S
    start = time.time()
    number = 0
    with open(log, "w", buffering=1) as out:
        while (begin := start + number * step) < start + seconds:
            time.sleep(max(0.0, begin + step - time.time()))
            ts = (np.linspace(begin, begin + step, per_file, endpoint=False) * 1e6).astype(np.int64)
            table = pa.table(
                {
                    "ts": pa.array(ts, pa.timestamp("us", tz="UTC")),
                    "src": pa.array(names[rng.integers(0, SOURCES, per_file)]),
                    "length": pa.array(rng.integers(1, 101, per_file).astype(np.int32)),
                }
            )
            hidden = os.path.join(directory, f".{number:08d}.tmp")
            pq.write_table(table, hidden)
            os.replace(hidden, os.path.join(directory, f"{number:08d}.parquet"))
            out.write(f"{ts[0]} {ts[-1]} {int(time.time() * 1e6)}\n")
            number += 1


class Arrivals:
    """When the last answer for each window end was delivered."""

    def __init__(self) -> None:
        self.at_us: dict[int, int] = {}
        self.rows = 0

    def write(self, batch: Any) -> None:
        now = int(time.time() * 1e6)
        self.rows += batch.table.num_rows
        for end in np.unique(batch.table.column("window_end").combine_chunks().view(pa.int64()).to_numpy()).tolist():
            self.at_us[end] = now


def staleness(log: Path, arrived: Arrivals, skip_us: int) -> np.ndarray:
    """Seconds from when a pane could close to its last answer, for the ends answered after the warm-up."""
    told = np.loadtxt(log, dtype=np.int64, ndmin=2)
    out = []
    for end, at in arrived.at_us.items():
        file = int(np.searchsorted(told[:, 1], end, side="left"))
        if file < len(told) and end >= told[0, 0] + skip_us:
            out.append((at - told[file, 2]) / 1e6)
    return np.array(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--queries", type=int, default=100)
    args = parser.parse_args()
    with scratch() as base:
        measure(base, args)


def measure(base: Path, args: argparse.Namespace) -> None:
    import windrow

    (base / "data").mkdir()
    wr = windrow.open(base / "state", settings={"retained_answers": 0})
    wr.sql(
        f"CREATE STREAM packets (ts TIMESTAMP, src STRING, length INT) FROM files OPTIONS (path '{base / 'data'}',"
        " format 'parquet', cleanSource 'delete') TIMESTAMP BY ts PUNCTUATE ORDERED"
    )
    arrived = Arrivals()
    for i, (size, slide) in enumerate(windows(args.queries)):
        wr.query(
            f"q{i}",
            "SELECT src, SUM(length) AS s, COUNT(*) AS n, MAX(length) AS m FROM packets"
            f" [RANGE {size} SECONDS SLIDE {slide} SECONDS] GROUP BY src",
            sink=arrived,
        )
    empty_s = float(np.median(empty_batches(wr.spark, base / "empty")))
    memory = PeakMemory()
    writer = multiprocessing.get_context("spawn").Process(
        target=write_live, args=(str(base / "data"), float(args.seconds), str(base / "log"))
    )
    wr.start()
    writer.start()
    marks: dict[str, float] = {}
    begin = time.time()
    while writer.is_alive():
        writer.join(5)
        elapsed = time.time() - begin
        if elapsed > 120 and "early" not in marks:
            marks["early"] = memory.now_mb()
        metrics = wr.metrics()["packets"]
        print(
            f"{elapsed:6.0f} s  {metrics['rows']:>12,} rows  {arrived.rows:>14,} answer rows  {memory.now_mb():6.0f} MB",
            flush=True,
        )
    time.sleep(5)
    wr.stop()
    warm_us = int(min(30, args.seconds / 4) * 1e6)
    late = staleness(base / "log", arrived, warm_us)
    metrics = wr.metrics()["packets"]
    end_mb = memory.now_mb()
    result = {
        "panes": int(late.size),
        "p50_s": round(float(np.percentile(late, 50)), 3),
        "p99_s": round(float(np.percentile(late, 99)), 3),
        "empty_batch_s": round(empty_s, 3),
        "memory_minute_2_mb": round(marks.get("early", end_mb)),
        "memory_end_mb": round(end_mb),
        "peak_rss_mb": round(memory.stop()),
        "rows": metrics["rows"],
        "answer_rows": arrived.rows,
        "restarts": metrics["restarts"],
        "seconds": args.seconds,
    }
    wr.close()
    print(f"\n{'p50':>8}{'p99':>8}{'empty micro-batch':>20}{'memory at 2 min':>18}{'at the end':>12}")
    print(
        f"{result['p50_s']:>7}s{result['p99_s']:>7}s{result['empty_batch_s']:>19}s{result['memory_minute_2_mb']:>15} MB{result['memory_end_mb']:>9} MB"
    )
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
