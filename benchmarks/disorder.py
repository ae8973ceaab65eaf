"""Latency against accuracy under disorder (Li et al., SIGMOD 2005, Figures 9 and 10).

Bounded disorder: AVG, RANGE 64 s, SLIDE 6.4 s, slack 0.32 s to 3.2 s, consistent and generous. Block-sorted disorder:
COUNT, RANGE 600 s, SLIDE 60 s, blocks of 490 s, slack 0 to 600 s. Each is compared with punctuations of the source,
which knows when a part is complete. Tuples arrive at a steady rate in disordered order, a micro-batch per step of the
arrival clock. The latency of an answer is the arrival clock at its delivery less the end of its window. An answer is
accurate if it equals the answer over all tuples. Latency and error depend on the arrival clock only, not on the
machine's speed and load.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from plots import line_chart

US = 1_000_000
START = 1_700_000_000 * US


@dataclass(frozen=True)
class Disordered:
    """Tuples in the order of their arrival, one every `gap_us` of the arrival clock."""

    ts: np.ndarray
    x: np.ndarray
    gap_us: int
    batch_us: int
    range_us: int
    slide_us: int
    function: str
    complete: np.ndarray
    """After each tuple: the point below which the source knows that no more tuples come."""

    def batches(self) -> list[slice]:
        size = max(1, self.batch_us // self.gap_us)
        return [slice(i, min(i + size, self.ts.size)) for i in range(0, self.ts.size, size)]


def bounded(seconds: int, rng: np.random.Generator) -> Disordered:
    """Network disorder: each tuple is delayed, most by a little, none by more than 3.2 s."""
    gap = US // 50
    sent = START + np.arange(seconds * 50) * gap
    delay = np.minimum(rng.exponential(0.45, sent.size), 3.2) * US
    order = np.argsort(sent + delay, kind="stable")
    return _made(sent[order], rng, gap, 16 * US // 50, (64 * US, 64 * US // 10), "AVG")


def block_sorted(seconds: int, rng: np.random.Generator) -> Disordered:
    """Blocks of 490 s, each in random order within itself, as from a router that empties its table."""
    gap = US // 5
    sent = START + np.arange(seconds * 5) * gap
    block = (sent - START) // (490 * US)
    order = np.lexsort((rng.random(sent.size), block))
    return _made(sent[order], rng, gap, 10 * US, (600 * US, 60 * US), "COUNT")


def _made(
    ts: np.ndarray, rng: np.random.Generator, gap: int, batch: int, window: tuple[int, int], function: str
) -> Disordered:
    after = np.minimum.accumulate(np.append(ts[1:], ts.max() + gap)[::-1])[::-1]
    return Disordered(ts, rng.normal(100, 25, ts.size), gap, batch, *window, function, after)


def truth(data: Disordered) -> dict[int, float]:
    """The answer to every window over all tuples."""
    ends = np.arange(-(-START // data.slide_us) * data.slide_us, int(data.ts.max()) + data.range_us, data.slide_us)
    order = np.argsort(data.ts, kind="stable")
    ts, sums = data.ts[order], np.concatenate([[0.0], np.cumsum(data.x[order])])
    low, high = np.searchsorted(ts, ends - data.range_us), np.searchsorted(ts, ends)
    held = high > low
    n = (high - low)[held]
    values = n.astype(float) if data.function == "COUNT" else (sums[high] - sums[low])[held] / n
    return dict(zip(ends[held].tolist(), values.tolist(), strict=True))


class Delivered:
    """Each window's answer, and the arrival clock at its delivery."""

    def __init__(self) -> None:
        self.clock_us, self.answers = 0, {}

    def write(self, batch: Any) -> None:
        ends = batch.table.column("window_end").combine_chunks().view(pa.int64()).to_pylist()
        for end, value in zip(ends, batch.table.column("v").to_pylist(), strict=True):
            self.answers[end] = (float(value), self.clock_us)


def records(data: Disordered, part: slice, punctuated: bool) -> pa.Table:
    """The tuples that arrive together. A source that punctuates then says what is complete."""
    columns = {"ts": pa.array(data.ts[part], pa.timestamp("us", tz="UTC")), "x": pa.array(data.x[part])}
    tuples = pa.table({**columns, "punctuation": pa.nulls(len(columns["x"]), pa.string())})
    if not punctuated:
        return tuples
    point = datetime.fromtimestamp(int(data.complete[part.stop - 1]) / US, timezone.utc)
    said = pa.table({"punctuation": [f"ts < '{point:%Y-%m-%d %H:%M:%S.%f}'"]})
    return pa.concat_tables([tuples, said], promote_options="default")


def run(data: Disordered, spark: Any, slack_us: int | None, meaning: str) -> dict[str, float]:
    """Run one policy over the data; slack None: punctuations of the source."""
    import windrow

    sink, wanted = Delivered(), truth(data)
    policy = "BY SOURCE" if slack_us is None else f"WITH SLACK {slack_us} MICROSECONDS"
    with tempfile.TemporaryDirectory() as state:
        settings = {"max_future": "off", "retained_answers": 0, "slack_meaning": meaning}
        with windrow.open(state, spark=spark, settings=settings) as wr:
            wr.sql(
                "CREATE STREAM s (ts TIMESTAMP, x DOUBLE, punctuation STRING) FROM memory TIMESTAMP BY ts"
                f" PUNCTUATE {policy}"
            )
            value = "COUNT(*)" if data.function == "COUNT" else "AVG(x)"
            wr.query(
                "q",
                f"SELECT {value} AS v FROM s [RANGE {data.range_us} MICROSECONDS SLIDE {data.slide_us} MICROSECONDS]",
                sink=sink,
            )
            for part in data.batches():
                sink.clock_us = START + part.stop * data.gap_us
                wr.deposit("s", records(data, part, punctuated=slack_us is None))
    return _judged(data, wanted, sink.answers)


def _judged(data: Disordered, wanted: dict[int, float], found: dict[int, tuple[float, int]]) -> dict[str, float]:
    first = START + data.range_us
    ends = [end for end in wanted if first <= end <= int(data.ts.max()) and end in found]
    errors = [abs(found[e][0] - wanted[e]) / abs(wanted[e]) for e in ends]
    return {
        "latency_s": float(np.mean([(found[e][1] - e) / US for e in ends])),
        "error_percent": 100 * float(np.mean(errors)),
        "incorrect_percent": 100 * float(np.mean([error > 1e-9 for error in errors])),
        "windows": len(ends),
    }


def figure(name: str, data: Disordered, slacks_s: list[float], meanings: list[str], metric: str, spark: Any) -> Any:
    lines: dict[str, Any] = {}
    for meaning in meanings:
        lines[f"{meaning} slack"] = [{"slack_s": s, **run(data, spark, int(s * US), meaning)} for s in slacks_s]
    lines["punctuation by the source"] = [{"slack_s": None, **run(data, spark, None, "consistent")}]
    print(f"\n{name}\n{'policy':<28}{'slack s':>9}{'latency s':>11}{metric.replace('_', ' '):>20}")
    for policy, rows in lines.items():
        for row in rows:
            slack = "" if row["slack_s"] is None else f"{row['slack_s']:.2f}"
            print(f"{policy:<28}{slack:>9}{row['latency_s']:>11.2f}{row[metric]:>20.3f}", flush=True)
    return lines


def best(lines: dict[str, Any], metric: str) -> bool:
    """Check that punctuation has no error, and that no slack without error has a lower latency."""
    mine = lines["punctuation by the source"][0]
    others = [row for name, rows in lines.items() if "slack" in name for row in rows if row[metric] <= 1e-9]
    return mine[metric] <= 1e-9 and all(mine["latency_s"] <= row["latency_s"] + 1e-9 for row in others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=400, help="of bounded disorder; block-sorted: ten times as many")
    parser.add_argument("--plots", type=Path, default=Path("."), help="the folder that the two plots are written to")
    args = parser.parse_args()
    from windrow.dataplane.session import close_session, open_session
    from windrow.settings import Settings

    spark = open_session(None, None, Settings())
    spark.conf.set("spark.sql.shuffle.partitions", 1)
    rng = np.random.default_rng(9)
    banded = figure(
        "Figure 9: bounded disorder, AVG, RANGE 64 s, SLIDE 6.4 s",
        bounded(args.seconds, rng),
        [0.32, 0.64, 1.28, 1.92, 2.56, 3.2],
        ["consistent", "generous"],
        "error_percent",
        spark,
    )
    blocks = figure(
        "Figure 10: block-sorted disorder, COUNT, RANGE 600 s, SLIDE 60 s",
        block_sorted(10 * args.seconds, rng),
        [0, 120, 240, 360, 480, 491, 600],
        ["consistent"],
        "incorrect_percent",
        spark,
    )
    close_session(spark)
    for name, lines, metric in (("figure_9", banded, "error_percent"), ("figure_10", blocks, "incorrect_percent")):
        series = {policy: [(row["latency_s"], row[metric]) for row in rows] for policy, rows in lines.items()}
        line_chart(
            args.plots / f"{name}.svg",
            name.replace("_", " ").capitalize(),
            "latency, s",
            metric.replace("_", " "),
            series,
        )
        print(f"plot: {args.plots / f'{name}.svg'}")
    result = {
        "figure_9": banded,
        "figure_10": blocks,
        "punctuation_best_9": best(banded, "error_percent"),
        "punctuation_best_10": best(blocks, "incorrect_percent"),
    }
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
