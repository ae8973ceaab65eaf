"""A window of one day that slides every second: 1,000 groups, SUM and MAX, at 10,000 tuples a second.

The day's panes are there before the clock starts (deposited as partial aggregates, as a day of running would have left
them); then ten minutes of tuples arrive at rate, in real time, and every second closes a window of 86,400 panes. It
keeps up if the last answer is out hardly later than the last tuple came. State is panes × groups, whatever RANGE/SLIDE.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from common import PeakMemory

DAY_S, GROUPS, RATE, START_S = 86_400, 1_000, 10_000, 1_700_000_000
QUERY = "SELECT host, SUM(size) AS total, MAX(size) AS most FROM s [RANGE 1 DAY SLIDE 1 SECOND] GROUP BY host"


class Answers:
    """What the last window of each micro-batch said, and when it was delivered."""

    def __init__(self) -> None:
        self.delivered: dict[int, float] = {}
        self.windows, self.last = 0, None

    def write(self, batch: Any) -> None:
        ends = np.unique(batch.table.column("window_end").combine_chunks().view(pa.int64()).to_numpy())
        now = time.time()
        self.delivered.update(dict.fromkeys(ends.tolist(), now))
        self.windows += ends.size
        self.last = batch.table


def second(number: int, rng: np.random.Generator) -> pa.Table:
    """The tuples of one second of event time."""
    ts = (START_S + number) * 1_000_000 + np.arange(RATE) * (1_000_000 // RATE)
    return pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("us", tz="UTC")),
            "host": pa.array(_NAMES[rng.integers(0, GROUPS, RATE)]),
            "size": pa.array(rng.integers(1, 1501, RATE).astype(np.int32)),
        }
    )


_NAMES = np.array([f"host-{i:04d}" for i in range(GROUPS)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    args = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="windrow-bench-"))
    try:
        measure(base, args.seconds)
    finally:
        shutil.rmtree(base, ignore_errors=True)


def prefill(wr: Any) -> None:
    """A day's cells straight into the synopsis: ten tuples per second and group, of sizes 1 to 1,500."""
    from windrow.synopses import Cells

    stream = wr._engine.manager.stream("s")
    stream.ticked["ts"] = START_S * 1_000_000
    state = next(iter(stream.synopses.values()))
    synopsis, plan = state.synopsis, state.plan
    ids = synopsis.groups.ids([pa.array(_NAMES)])
    rng = np.random.default_rng(1)
    for first in range(-DAY_S, 0, 64):
        panes = np.arange(first, min(first + 64, 0), dtype=np.int64)
        shape = (panes.size, GROUPS)
        states = {}
        for a in plan.accumulators:
            kind = a.kind.name
            low, high = {"COUNT": (10, 11), "SUM_INT": (5_000, 10_001)}.get(kind, (1_400, 1_501))
            states[a] = (rng.integers(low, high, shape).reshape(-1),)
        starts = np.repeat((START_S + panes) * 1_000_000, GROUPS)
        synopsis.deposit(Cells(starts, np.tile(ids, panes.size), states))
        synopsis.close(int((START_S + panes[-1] + 1) * 1_000_000))


def measure(base: Path, seconds: int) -> None:
    import windrow

    wr = windrow.open(base / "state", settings={"retained_answers": 0, "max_future": "off"})
    wr.sql("CREATE STREAM s (ts TIMESTAMP, host STRING, size INT) FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED")
    answers = Answers()
    wr.query("day", QUERY, sink=answers)
    rng = np.random.default_rng(2)
    prefill(wr)
    wr.start()
    memory = PeakMemory()
    began = time.time()
    stale: list[float] = []
    for number in range(seconds):
        time.sleep(max(0.0, began + number + 1 - time.time()))
        wr.feed("s", second(number, rng))
        if number % 60 == 59:
            print(f"{number + 1:>5} s   windows {answers.windows:>5}   {memory.now_mb():>6.0f} MB", flush=True)
    fed = time.time()
    while answers.windows < seconds - 1 and time.time() < fed + 60:
        time.sleep(0.1)
    behind = time.time() - fed
    for end, at in answers.delivered.items():
        stale.append(at - (began + end / 1e6 - START_S + 1))
    state_bytes = wr.metrics()["s"]["synopsis_bytes"]
    result = {
        "seconds": seconds,
        "windows": answers.windows,
        "behind_at_the_end_s": round(behind, 2),
        "p50_s": round(float(np.median(stale)), 3) if stale else None,
        "p99_s": round(float(np.quantile(stale, 0.99)), 3) if stale else None,
        "tick_s_per_window": round(wr.metrics()["s"]["tick_s"] / max(answers.windows, 1), 4),
        "state_mb": round(state_bytes / 2**20),
        "bytes_per_pane_and_group": round(state_bytes / (DAY_S * GROUPS), 1),
        "peak_rss_mb": round(memory.stop()),
        "answers_ok": check(answers.last),
        "kept_up": answers.windows >= seconds - 1 and behind < 5,
    }
    wr.close()
    print("RESULT " + json.dumps(result))


def check(table: Any) -> bool:
    """The last window: every group is there, its maximum is near the greatest size, its total near a day's."""
    if table is None or table.num_rows < GROUPS:
        return False
    last = table.slice(table.num_rows - GROUPS)
    total = last.column("total").to_numpy()
    return bool((last.column("most").to_numpy() >= 1_490).all() and (abs(total / (7_500 * DAY_S) - 1) < 0.02).all())


if __name__ == "__main__":
    main()
