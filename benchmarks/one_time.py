"""One-time queries: what an answer over live windows costs, and what it costs the standing queries beside it.

Part scan: an aggregate by 1,000 sources over a window of 100 panes with 10,000,000 tuples, while an update of 100,000 tuples
comes each second. Beside it, in turns and under the same updates: the same Spark SQL over a static copy in Parquet files.

Part kept: questions that a synopsis or a view answers: new texts, a text that was asked before, and the same after a tick.

Part beside: 100 standing queries at 20,000 tuples/s, in phases without and with 100 questions a second. A question is due at
its time whether or not the one before it is answered, and its response time counts from there. Half of them read a view or
a synopsis, half scan the last two seconds. The staleness of standing queries is that of `staleness.py`.

Every answer is checked: against the tuples of the window it claims (scan), against other columns of itself (kept, beside).
`--quick` runs all in small.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import SOURCES, START_S, scratch, source_names, windows
from staleness import Arrivals, staleness, write_live

PANES = 100
ASKERS = 8
STREAM = (
    "(ts TIMESTAMP, src STRING, length INT) FROM {} TIMESTAMP BY ts TICK 1 SECOND PUNCTUATE ORDERED RETAIN {} SECONDS"
)


@dataclass(frozen=True)
class Size:
    """`per_pane`: tuples a second of event time. `turns`: how often each side of a comparison is measured. `phase_s`: how
    long a phase of part beside lasts; there are `phases` of each kind."""

    per_pane: int = 100_000
    turns: int = 9
    repeats: int = 300
    phase_s: int = 40
    phases: int = 3
    queries: int = 100
    asked_per_s: int = 100


QUICK = Size(per_pane=2_000, turns=3, repeats=30, phase_s=8, phases=1, queries=10)


def pane(second: int, count: int) -> pa.Table:
    """The tuples of one second of event time."""
    rng = np.random.default_rng([5, second])
    ts = (START_S + second) * 1_000_000 + np.arange(count) * 1_000_000 // count
    return pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("us", tz="UTC")),
            "src": pa.array(source_names()[rng.integers(0, SOURCES, count)]),
            "length": pa.array(rng.integers(1, 101, count).astype(np.int32)),
        }
    )


def second_of(window: object) -> int:
    """The second of event time at which the window of an answer ends."""
    assert isinstance(window, datetime)
    return round(window.replace(tzinfo=timezone.utc).timestamp()) - START_S


@contextmanager
def updated(wr: Any, first: int, count: int) -> Iterator[None]:
    """Within the block, one update comes each second."""
    stop, failed = threading.Event(), list[BaseException]()

    def run() -> None:
        second, begin = first, time.monotonic()
        try:
            while not stop.wait(max(0.0, begin + second - first - time.monotonic())):
                wr.deposit("packets", pane(second, count))
                second += 1
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failed:
        raise failed[0]


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    found = call()
    return time.perf_counter() - begin, found


def spread(seconds: list[float]) -> dict[str, float]:
    """Percentiles in milliseconds."""
    return {f"p{p}_ms": round(float(np.percentile(seconds, p)) * 1000, 2) for p in (50, 99)} | {"asked": len(seconds)}


def check(claim: bool, what: object) -> None:
    if not claim:
        raise SystemExit(f"a wrong answer: {what}")


# -- scan --------------------------------------------------------------------------------------


def scan(size: Size, base: Path) -> dict[str, Any]:
    import windrow

    wr = windrow.open(base / "state")
    wr.sql(f"CREATE STREAM packets {STREAM.format('memory', PANES + 20)}")
    (base / "copy").mkdir()
    for second in range(PANES + 1):
        made = pane(second, size.per_pane)
        wr.deposit("packets", made)
        if second < PANES:
            pq.write_table(made, base / "copy" / f"{second:04d}.parquet")
    wr.spark.read.parquet(str(base / "copy")).createOrReplaceTempView("static_copy")
    aggregate = "SELECT src, COUNT(*) AS n, SUM(length) AS s, MAX(length) AS m FROM {} GROUP BY src"
    live, static = aggregate.format(f"packets [RANGE {PANES} SECONDS]"), aggregate.format("static_copy")
    found: dict[str, list[float]] = {"live": [], "static": []}
    asked: list[Any] = []
    with updated(wr, PANES + 1, size.per_pane):
        for turn in range(size.turns + 2):
            live_s, result = timed(lambda: wr.sql(live))
            static_s, copied = timed(lambda: wr.spark.sql(static).toArrow())
            check(sum(copied.column("n").to_pylist()) == size.per_pane * PANES, "of the copy")
            check_scan(result, size.per_pane)
            if turn >= 2:  # the first two warm both sides up
                found["live"].append(live_s)
                found["static"].append(static_s)
                asked.append(result)
    wr.close()
    live_s, static_s = (float(np.median(found[side])) for side in ("live", "static"))
    return {
        "tuples": size.per_pane * PANES,
        "live_s": round(live_s, 3),
        "static_s": round(static_s, 3),
        "ratio": round(live_s / static_s, 2),
        "aborts": sum(one.aborts for one in asked),
        "rescans": sum(one.rescans for one in asked),
        "isolation": sorted({str(one.isolation) for one in asked}),
        "answered_from": sorted({str(one.answered_from) for one in asked}),
    }


def check_scan(result: Any, count: int) -> None:
    """The answer has the counts and sums of the window it claims."""
    end = second_of(result.window)
    tuples = pa.concat_tables([pane(second, count) for second in range(end - PANES, end)])
    expected = tuples.group_by("src").aggregate([("length", "count"), ("length", "sum"), ("length", "max")])
    mine = result.arrow().sort_by("src")
    theirs = expected.sort_by("src")
    for name, other in (("src", "src"), ("n", "length_count"), ("s", "length_sum"), ("m", "length_max")):
        check(mine.column(name).to_pylist() == theirs.column(other).to_pylist(), (name, result.window))


# -- kept --------------------------------------------------------------------------------------


def kept(size: Size, base: Path) -> dict[str, Any]:
    import windrow

    wr = windrow.open(base / "state")
    wr.sql(f"CREATE STREAM packets {STREAM.format('memory', 1)}")
    wr.query(
        "totals",
        "SELECT src, COUNT(*) AS n, SUM(length) AS s FROM packets [RANGE 100 SECONDS SLIDE 1 SECOND] GROUP BY src",
    )
    wr.query("busy", "SELECT src, COUNT(*) AS n, SUM(length) AS s FROM packets [RANGE 20 SECONDS] GROUP BY src")
    for second in range(PANES + 1):
        wr.deposit("packets", pane(second, min(size.per_pane, 20_000)))
    texts: dict[str, Callable[[int], str]] = {
        "synopsis": lambda i: (
            f"SELECT src, COUNT(*) AS n, SUM(length) AS s FROM packets [RANGE {10 + i % 80} SECONDS]"
            f" GROUP BY src HAVING COUNT(*) > {i // 80}"
        ),
        "view": lambda i: f"SELECT src, n, s FROM busy WHERE n > {i % 7} ORDER BY n DESC LIMIT {10 + i}",
    }
    out: dict[str, Any] = {}
    for kind, text in texts.items():
        new = [timed(partial(wr.sql, text(i))) for i in range(size.repeats)]
        again = [timed(partial(wr.sql, text(0))) for _ in range(size.repeats)]
        moved = []
        for _ in range(size.repeats // 4):
            wr.deposit("packets", pane(second := second + 1, min(size.per_pane, 20_000)))
            moved.append(timed(partial(wr.sql, text(0))))
        for _, result in (*new[:20], *again[:20], *moved[:20]):
            check(result.answered_from in (kind, "driver") and result.arrow().num_rows > 0, (kind, result))
            check(all(row["n"] <= row["s"] <= 100 * row["n"] for row in result.rows()), kind)
        found = {"new text": new, "repeated": again, "after a tick": moved}
        out[kind] = {name: spread([s for s, _ in some]) for name, some in found.items()}
    wr.close()
    return out


# -- beside ------------------------------------------------------------------------------------


class Questions:
    """Asks at a rate, by several threads. Each question is due at its time."""

    def __init__(self, wr: Any, per_s: int):
        self.wr = wr
        self.per_s = per_s
        self.seconds: dict[str, list[float]] = {}
        self._lock = threading.Lock()

    def text(self, number: int) -> str:
        source = source_names()[number * 37 % SOURCES]
        return (
            f"SELECT COUNT(*) AS n, SUM(length) AS s FROM packets [RANGE 20 SECONDS] WHERE src = '{source}'",
            "SELECT COUNT(*) AS n, SUM(length) AS s FROM packets [RANGE 2 SECONDS] WHERE length > 90",
            "SELECT SUM(n) AS n, SUM(s) AS s FROM busy WHERE n > 3",
            "SELECT COUNT(*) AS n, SUM(length) AS s FROM packets [RANGE 1 SECOND] WHERE src LIKE '10.0.1.%'",
        )[number % 4]

    def ask(self, seconds: float) -> None:
        begin, total = time.monotonic(), int(seconds * self.per_s)
        threads = [threading.Thread(target=self._run, args=(begin, range(i, total, ASKERS))) for i in range(ASKERS)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    def _run(self, begin: float, numbers: range) -> None:
        for number in numbers:
            due = begin + number / self.per_s
            time.sleep(max(0.0, due - time.monotonic()))
            result = self.wr.sql(self.text(number))
            took = time.monotonic() - due
            row = result.rows()[0]
            check((row["n"] or 0) <= (row["s"] or 0) <= 100 * (row["n"] or 0), row)
            with self._lock:
                self.seconds.setdefault(str(result.answered_from), []).append(took)


def beside(size: Size, base: Path) -> dict[str, Any]:
    import windrow

    (base / "data").mkdir()
    wr = windrow.open(base / "state", settings={"retained_answers": 0})
    source = f"files OPTIONS (path '{base / 'data'}', format 'parquet', cleanSource 'delete')"
    wr.sql(f"CREATE STREAM packets {STREAM.format(source, 25)}")
    arrived = Arrivals()
    for i, (length, slide) in enumerate(windows(size.queries - 1)):
        wr.query(
            f"q{i}",
            "SELECT src, SUM(length) AS s, COUNT(*) AS n, MAX(length) AS m FROM packets"
            f" [RANGE {length} SECONDS SLIDE {slide} SECONDS] GROUP BY src",
            sink=arrived,
        )
    wr.query("busy", "SELECT src, COUNT(*) AS n, SUM(length) AS s FROM packets [RANGE 5 SECONDS] GROUP BY src")
    warm_s = 2 * size.phase_s
    writer = multiprocessing.get_context("spawn").Process(
        target=write_live,
        args=(str(base / "data"), float(warm_s + 2 * size.phases * size.phase_s + 5), str(base / "log")),
    )
    wr.start()
    writer.start()
    time.sleep(warm_s / 2)
    Questions(wr, size.asked_per_s // 4).ask(warm_s / 2)  # warms the ways of answering up
    asked = Questions(wr, size.asked_per_s)
    phases: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
    for _ in range(size.phases):
        for is_asked in (False, True):
            begin = time.time_ns() // 1000
            asked.ask(size.phase_s) if is_asked else time.sleep(size.phase_s)
            phases[is_asked].append((begin, time.time_ns() // 1000))
    writer.join()
    time.sleep(3)
    wr.stop()
    late = {of: standing(base / "log", arrived, phases[of]) for of in phases}
    wr.close()
    everything = [s for found in asked.seconds.values() for s in found]
    return {
        "questions": spread(everything) | {kind: spread(found) for kind, found in asked.seconds.items()},
        "standing_p50_s": {"alone": late[False][0], "beside questions": late[True][0]},
        "standing_mean_s": {"alone": late[False][1], "beside questions": late[True][1]},
        "standing_rises_by": round(late[True][1] / late[False][1] - 1, 3),
    }


def standing(log: Path, arrived: Arrivals, phases: list[tuple[int, int]]) -> tuple[float, float]:
    """The median and the mean staleness of the windows that end within the phases."""
    mine = Arrivals()
    mine.at_us = {end: at for end, at in arrived.at_us.items() if any(lo <= end < hi for lo, hi in phases)}
    late = staleness(log, mine, 0)
    return round(float(np.median(late)), 3), round(float(np.mean(late)), 3)


PARTS: dict[str, Callable[[Size, Path], dict[str, Any]]] = {"scan": scan, "kept": kept, "beside": beside}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    result: dict[str, Any] = {}
    for part in given.parts:
        with scratch() as base:
            result[part] = PARTS[part](QUICK if given.quick else Size(), base)
        print(f"{part}:")
        for name, value in result[part].items():
            print(f"  {name:<20} {value}", flush=True)
    print(f"RESULT {json.dumps(result)}")


if __name__ == "__main__":
    main()
