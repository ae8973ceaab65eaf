"""A synopsis too large for the driver: 2,000,000 groups × 60 panes, answered from the Spark home.

Every group has a tuple in every pane, so the windows hold 120,000,000 cells. One query has HAVING, ORDER BY and LIMIT;
one returns all groups. Each pane is a micro-batch from a file; the synopsis starts in the driver and moves to Spark by
itself. Once the window is full, ticks are timed one by one, and the answers are checked against sums of the written
data. Memory is the greatest resident size of the Python process, of the JVM (where local tasks run, too), and of both
at one moment; Python workers count as tasks.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from common import scratch

FIRST = "SELECT k, COUNT(*) AS n, SUM(x) AS total, MAX(x) AS most FROM s [RANGE {range} SLIDE 1] GROUP BY k"
LIMITED = FIRST + " HAVING COUNT(*) >= {range} ORDER BY total DESC LIMIT 10"


class Peaks:
    """The greatest resident size of this process, of its JVM, of both at one moment, and of all Python workers."""

    def __init__(self, jvm: int, every_s: float = 0.2):
        self.mb = {"python": 0.0, "jvm": 0.0, "together": 0.0, "workers": 0.0}
        self._jvm, self._every_s, self._stop = jvm, every_s, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        me, jvm = psutil.Process(), psutil.Process(self._jvm)
        while not self._stop.wait(self._every_s):
            workers = 0.0
            for process in jvm.children(recursive=True):
                try:
                    workers += process.memory_info().rss / 2**20
                except psutil.Error:
                    continue
            now = {"python": me.memory_info().rss / 2**20, "jvm": jvm.memory_info().rss / 2**20, "workers": workers}
            now["together"] = now["python"] + now["jvm"]
            self.mb = {name: max(self.mb[name], now[name]) for name in now}

    def stop(self) -> dict[str, int]:
        self._stop.set()
        self._thread.join()
        return {f"{name}_peak_mb": round(mb) for name, mb in self.mb.items()}


class Latest:
    """Keeps the latest answer."""

    def __init__(self) -> None:
        self.table: pa.Table | None = None

    def write(self, batch: Any) -> None:
        self.table = batch.table


def values(groups: int, pane: int) -> np.ndarray:
    return np.random.default_rng([3, pane]).integers(0, 1000, groups).astype(np.int32)


def write_pane(directory: Path, groups: int, pane: int) -> None:
    """A tuple of every group in random order, with keys spread over the BIGINTs."""
    order = np.random.default_rng([5, pane]).permutation(groups)
    keys = (order * 2_654_435_761 % (1 << 40)).astype(np.int64)
    table = pa.table({"t": np.full(groups, pane, np.int64), "k": keys, "x": values(groups, pane)[order]})
    file = directory / f"{pane:06d}.parquet"
    pq.write_table(table, file.with_suffix(".tmp"), row_group_size=max(1, groups // 4))
    file.with_suffix(".tmp").rename(file)


def check(limited: pa.Table, plain: pa.Table, groups: int, last: int, panes: int) -> None:
    """Check the latest window: it holds the panes last − panes + 1 … last of every group."""
    total = sum(values(groups, pane).astype(np.int64) for pane in range(last - panes + 1, last + 1))
    ends = set(plain.column("window_end").to_pylist())
    assert ends == {last + 1} and plain.num_rows == groups, (ends, plain.num_rows)
    assert int(np.asarray(plain.column("total")).sum()) == int(total.sum())
    assert set(np.unique(np.asarray(plain.column("n")))) == {panes}
    best = np.sort(total)[::-1][:10].tolist()
    assert limited.column("total").to_pylist() == best, (limited.column("total").to_pylist(), best)


def measure(base: Path, groups: int, panes: int, ticks: int, limit: str) -> dict[str, Any]:
    import windrow

    data = base / "in"
    data.mkdir()
    settings = {"retained_answers": 0, "driver_synopsis_bytes": limit, "bytes_per_trigger": "1 GB"}
    plain, limited = Latest(), Latest()
    with windrow.open(base / "state", settings=settings) as wr:
        peaks = Peaks(wr._engine.jvm.pid)
        wr.sql(
            f"CREATE STREAM s (t BIGINT, k BIGINT, x INT) FROM files OPTIONS (path '{data}', format 'parquet')"
            " TIMESTAMP BY t PUNCTUATE ORDERED"
        )
        wr.query("limited", LIMITED.format(range=panes), sink=limited)
        per_pane = []
        for pane in range(panes + ticks):
            write_pane(data, groups, pane)
            if pane == panes - 1:
                wr.query("plain", FIRST.format(range=panes), sink=plain)
            before = wr.metrics()["s"]
            started = time.perf_counter()
            wr.run_available()
            now = wr.metrics()["s"]
            per_pane.append(
                {
                    "seconds": time.perf_counter() - started,
                    "tick_s": now["tick_s"] - before["tick_s"],
                    "job_s": now["job_s"] - before["job_s"],
                }
            )
            if pane % 5 == 0 or pane >= panes:
                home = "Spark" if "home: Spark" in wr.queries["limited"].explain() else "driver"
                print(f"  pane {pane:3}: home {home:6} " + _told(per_pane[-1]) + f"  {_told(peaks.mb)}", flush=True)
            (data / f"{pane:06d}.parquet").unlink()
        assert limited.table is not None and plain.table is not None
        check(limited.table, plain.table, groups, panes + ticks - 2, panes)
        explained = wr.queries["limited"].explain()
        memory = peaks.stop()
    full = per_pane[panes + 1 :] or per_pane[-1:]
    blocks = sum(f.stat().st_size for f in (base / "state" / "synopses").rglob("*.arrow"))
    return {
        "groups": groups,
        "panes": panes,
        "home": "spark" if "home: Spark" in explained else "driver",
        "tick_s": round(float(np.median([one["tick_s"] for one in full])), 2),
        "deposit_job_s": round(float(np.median([one["job_s"] for one in full])), 2),
        "cells_on_disk_mb": round(blocks / 2**20),
        **memory,
    }


def _told(measured: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:8.2f}" for name, value in measured.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=2_000_000)
    parser.add_argument("--panes", type=int, default=60)
    parser.add_argument("--ticks", type=int, default=4, help="ticks that are measured, with full windows")
    parser.add_argument("--limit", default="512 MB", help="the setting driver_synopsis_bytes")
    options = parser.parse_args()
    print(f"{options.groups:,} groups × {options.panes} panes; the driver may hold {options.limit} of them")
    with scratch() as base:
        result = measure(base, options.groups, options.panes, options.ticks, options.limit)
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
