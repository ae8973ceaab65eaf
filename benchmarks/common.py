"""Shared by the benchmarks: packets on disk, a child process per measurement, memory, empty micro-batches."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

START_S = 1_700_000_000
SOURCES = 1000


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for one run. It is removed afterwards even if files in it are still open."""
    base = Path(tempfile.mkdtemp(prefix="windrow-bench-"))
    try:
        yield base
    finally:
        shutil.rmtree(base, ignore_errors=True)


def source_names() -> np.ndarray:
    return np.array([f"10.0.{i // 250}.{i % 250 + 1}" for i in range(SOURCES)])


def packets(first: int, count: int, seed: int) -> pa.Table:
    """One packet per millisecond of event time, from packet number `first` on."""
    rng = np.random.default_rng([seed, first])
    ts = START_S * 1_000_000 + (first + np.arange(count)) * 1000
    return pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("us", tz="UTC")),
            "src": pa.array(source_names()[rng.integers(0, SOURCES, count)]),
            "length": pa.array(rng.integers(1, 101, count).astype(np.int32)),
        }
    )


def write_packets(directory: Path, total: int, per_file: int, seed: int = 7) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for first in range(0, total, per_file):
        pq.write_table(packets(first, min(per_file, total - first), seed), directory / f"{first:012d}.parquet")


def windows(count: int) -> list[tuple[int, int]]:
    """(RANGE, SLIDE) in seconds: RANGE 20–100, SLIDE 1 to half the RANGE."""
    rng = np.random.default_rng(11)
    out = []
    for _ in range(count):
        size = int(rng.integers(20, 101))
        out.append((size, int(rng.integers(1, size // 2 + 1))))
    return out


class PeakMemory:
    """Samples the resident memory of this process and its children until stopped."""

    def __init__(self, every_s: float = 0.2):
        self.peak_mb = 0.0
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def now_mb(self) -> float:
        me = psutil.Process()
        total = 0
        for process in [me, *me.children(recursive=True)]:
            try:
                total += process.memory_info().rss
            except psutil.Error:
                continue
        return total / 2**20

    def _watch(self) -> None:
        while not self._stop.wait(self._every_s):
            self.peak_mb = max(self.peak_mb, self.now_mb())

    def stop(self) -> float:
        self._stop.set()
        self._thread.join()
        return self.peak_mb


def empty_batches(spark: Any, base: Path, count: int = 12) -> list[float]:
    """The seconds of triggers whose foreachBatch does nothing, without the first two."""
    source = base / "in"
    source.mkdir(parents=True)
    frame = spark.readStream.schema("a INT").parquet(str(source))
    query = frame.writeStream.foreachBatch(lambda df, i: None).option("checkpointLocation", str(base / "cp")).start()
    times = []
    for i in range(count):
        pq.write_table(pa.table({"a": pa.array([i], pa.int32())}), source / f"{i}.parquet")
        begin = time.perf_counter()
        query.processAllAvailable()
        times.append(time.perf_counter() - begin)
    query.stop()
    return times[2:]


def child(script: str, *args: str) -> dict[str, Any]:
    """Run one measurement in its own process, so that each has its own JVM. Return the JSON of its last line."""
    started = time.monotonic()
    done = subprocess.run([sys.executable, script, *args], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(args)} failed with code {done.returncode}:\n{done.stdout}")
    measured: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    print(
        f"  {' '.join(args[1:4]):<28} {measured.get('seconds', 0):8.2f} s   (whole process {time.monotonic() - started:.0f} s)",
        flush=True,
    )
    return measured
