"""A window of one day that slides every second: 1,000 groups, SUM and MAX, at 10,000 tuples a second.

The day's panes exist before the clock starts: they are deposited as partial aggregates, as a day of running would leave
them. Then tuples arrive at this rate for ten minutes in real time, and every second closes a window of 86,400 panes.
The engine keeps up if the last answer comes shortly after the last tuple. State is panes × groups, whatever
RANGE/SLIDE.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from common import PeakMemory, scratch

DAY_S, GROUPS, RATE, START_S = 86_400, 1_000, 10_000, 1_700_000_000
QUERY = "SELECT host, SUM(size) AS total, MAX(size) AS most FROM s [RANGE 1 DAY SLIDE 1 SECOND] GROUP BY host"


class Answers:
    """The last window of each micro-batch, and when it was delivered."""

    def __init__(self) -> None:
        self.delivered: dict[int, float] = {}
        self.windows, self.last = 0, None

    def write(self, batch: Any) -> None:
        ends = np.unique(batch.table.column("window_end").combine_chunks().view(pa.int64()).to_numpy())
        now = time.time()
        self.delivered.update(dict.fromkeys(ends.tolist(), now))
        self.windows += ends.size
        self.last = batch.table


class Truth:
    """Totals and maxima by second and host, for checking the last window: the seconds that leave it during the run, all
    other seconds of the day before as one, and the seconds that were fed."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._total = np.zeros((2 * seconds + 1, GROUPS), np.int64)
        self._most = np.zeros((2 * seconds + 1, GROUPS), np.int64)

    def add(self, first: int, total: np.ndarray | None = None, most: np.ndarray | None = None) -> None:
        """Add the totals and maxima of the seconds from `first` on (0: a day before the run)."""
        for kept, rows, merge in ((self._total, total, np.add), (self._most, most, np.maximum)):
            if rows is not None:
                merge.at(kept, self._places(np.arange(first, first + len(rows))), rows)

    def _places(self, seconds: np.ndarray) -> np.ndarray:
        return np.where(seconds >= DAY_S, seconds - DAY_S + self._seconds + 1, np.minimum(seconds, self._seconds))

    def says(self, answer: Any) -> bool:
        """Whether the last window of a batch of answers is exactly right."""
        if answer is None or answer.num_rows < GROUPS:
            return False
        last = answer.slice(answer.num_rows - GROUPS).combine_chunks()
        end = int(last.column("window_end").chunk(0).view(pa.int64())[0].as_py()) // 1_000_000 - START_S + DAY_S
        at = np.array([_NUMBERS[host] for host in last.column("host").to_pylist()])
        held = slice(end - DAY_S, end - DAY_S + self._seconds + 1)
        total, most = self._total[held].sum(axis=0), self._most[held].max(axis=0)
        totals_ok = np.array_equal(last.column("total").to_numpy(), total[at])
        return bool(totals_ok and np.array_equal(last.column("most").to_numpy(), most[at]))


def second(number: int, rng: np.random.Generator, truth: Truth) -> pa.Table:
    """The tuples of one second of event time."""
    ts = (START_S + number) * 1_000_000 + np.arange(RATE) * (1_000_000 // RATE)
    host, size = rng.integers(0, GROUPS, RATE), rng.integers(1, 1501, RATE)
    most = np.zeros(GROUPS, np.int64)
    np.maximum.at(most, host, size)
    truth.add(DAY_S + number, np.bincount(host, size, GROUPS).astype(np.int64)[None], most[None])
    return pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("us", tz="UTC")),
            "host": pa.array(_NAMES[host]),
            "size": pa.array(size.astype(np.int32)),
        }
    )


_NAMES = np.array([f"host-{i:04d}" for i in range(GROUPS)])
_NUMBERS = {name: i for i, name in enumerate(_NAMES.tolist())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    args = parser.parse_args()
    with scratch() as base:
        measure(base, args.seconds)


def prefill(wr: Any, truth: Truth) -> None:
    """Deposit a day's cells directly: ten tuples per second and group, of sizes 1 to 1,500."""
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
            drawn = rng.integers(low, high, shape)
            states[a] = (drawn.reshape(-1),)
            if kind != "COUNT":
                truth.add(DAY_S + first, **{"total" if kind == "SUM_INT" else "most": drawn})
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
    truth = Truth(seconds)
    prefill(wr, truth)
    wr.start()
    memory = PeakMemory()
    began = time.time()
    stale: list[float] = []
    for number in range(seconds):
        time.sleep(max(0.0, began + number + 1 - time.time()))
        wr.feed("s", second(number, rng, truth))
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
        "answers_ok": truth.says(answers.last),
        "kept_up": answers.windows >= seconds - 1 and behind < 5,
    }
    wr.close()
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
