"""The Window-ID approach against buffering (Li et al., SIGMOD 2005, Figure 8).

MAX over the last 4,000 rows, sliding by 1 to 4,000 rows. Windrow evaluates from partial aggregates (`window_ids`). `SET
window_evaluation = 'buffer'` keeps the tuples of every extent and scans them for each window: the buffering of section
8.2, also in NumPy, over sorted tuples. Both take the same micro-batches in the same process, and the answers are
compared. The time is that of evaluation and delivery (ticks). Reading the files is the same for both and is shown
separately.
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
from common import scratch

RANGE = 4000
SLIDES = (1, 2, 4, 10, 20, 40, 100, 400, 1000, 4000)


class Answers:
    """A checksum of every answer."""

    def __init__(self) -> None:
        self.rows, self.total = 0, 0

    def write(self, batch: Any) -> None:
        ends = batch.table.column("window_end").to_numpy()
        self.rows += batch.table.num_rows
        self.total += int((ends * batch.table.column("m").to_numpy()).sum())


def write_rows(directory: Path, rows: int, per_file: int) -> None:
    directory.mkdir()
    rng = np.random.default_rng(5)
    for first in range(0, rows, per_file):
        count = min(per_file, rows - first)
        table = pa.table({"x": pa.array(rng.integers(0, 1 << 30, count))})
        pq.write_table(table, directory / f"{first:012d}.parquet")


def run(data: Path, slide: int, evaluation: str, spark: Any) -> dict[str, Any]:
    import windrow

    sink = Answers()
    with tempfile.TemporaryDirectory() as state:
        settings = {"window_evaluation": evaluation, "retained_answers": 0}
        with windrow.open(state, spark=spark, settings=settings) as wr:
            wr.sql(
                f"CREATE STREAM s (x BIGINT) FROM files OPTIONS (path '{data}', format 'parquet', maxFilesPerTrigger '1')"
            )
            wr.query("q", f"SELECT MAX(x) AS m FROM s [ROWS {RANGE} SLIDE {slide}]", sink=sink)
            started = time.perf_counter()
            wr.run_available()
            seconds = time.perf_counter() - started
            ticks = wr.metrics()["s"]["tick_s"]
    return {"seconds": seconds, "tick_s": ticks, "rows": sink.rows, "total": sink.total}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--per-file", type=int, default=100_000)
    args = parser.parse_args()
    with scratch() as base:
        measure(base, args)


def measure(base: Path, args: argparse.Namespace) -> None:
    from windrow.dataplane.session import close_session, open_session
    from windrow.settings import Settings

    write_rows(base / "data", args.rows, args.per_file)
    spark = open_session(None, None, Settings())
    run(base / "data", 400, "window_ids", spark)
    run(base / "data", 400, "buffer", spark)
    print(
        f"{'SLIDE':>6}{'windows':>10}{'window ids':>12}{'buffer':>10}{'ratio':>8}   ns per tuple, window ids   (evaluation, s)"
    )
    result: dict[str, Any] = {"rows": args.rows, "range": RANGE, "slides": {}}
    ok = True
    for slide in SLIDES:
        mine, other = (run(base / "data", slide, how, spark) for how in ("window_ids", "buffer"))
        ok = ok and (mine["rows"], mine["total"]) == (other["rows"], other["total"])
        ratio = other["tick_s"] / mine["tick_s"]
        each = mine["tick_s"] / args.rows * 1e9
        result["slides"][slide] = {
            "window_ids_s": round(mine["tick_s"], 4),
            "buffer_s": round(other["tick_s"], 4),
            "ratio": round(ratio, 2),
            "window_ids_total_s": round(mine["seconds"], 2),
            "buffer_total_s": round(other["seconds"], 2),
        }
        print(
            f"{slide:>6}{mine['rows']:>10}{mine['tick_s']:>12.4f}{other['tick_s']:>10.4f}{ratio:>8.1f}{each:>12.0f}",
            flush=True,
        )
    close_session(spark)
    ratios = {s: r["ratio"] for s, r in result["slides"].items()}
    result |= {
        "least_ratio": min(ratios.values()),
        "least_ratio_to_slide_40": min(r for s, r in ratios.items() if s <= RANGE // 100),
        "answers_ok": ok,
    }
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
