"""HAVING over many keys, with a SubStream Filter and without, in the engine (Arasu and Widom, VLDB 2004, section 4).

Standing queries `SELECT k, COUNT(*) … GROUP BY k HAVING COUNT(*) > v` over one stream: thresholds that some 0.1 % to 1
% of the keys pass, windows of 1 to 12 panes. Keys follow a power law. Both settings take the same micro-batches in the
same process, one per pane. The time is that of the ticks (answering, HAVING, delivery and commit), the median over the
last panes; reading and grouping are the same for both. The answers are compared. The output also shows what `auto`
would choose by its estimates.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from common import scratch

PANES = 12
PANE_S = 10
SHARES = (0.001, 0.002, 0.005, 0.01)
MEASURED = 3
AGGREGATES = {"count": "COUNT(*)", "sum": "SUM(x)", "max": "MAX(x)"}


class Answers:
    """A checksum of every answer of all queries."""

    def __init__(self) -> None:
        self.rows, self.total = 0, 0

    def write(self, batch: Any) -> None:
        table = batch.table
        ends = table.column("window_end").to_numpy().astype("datetime64[s]").astype(np.int64)
        values = [table.column(name).to_numpy() for name in ("k", "a")]
        self.rows += table.num_rows
        self.total += int((ends * (values[0] + 7 * values[1])).sum())


def pane(number: int, keys: int, rows: int) -> pa.Table:
    """The tuples of one pane: the p-th key comes with a probability that falls about as p^-0.6."""
    rng = np.random.default_rng([13, number])
    key = (keys * rng.random(rows) ** 2.5).astype(np.int64)
    ts = np.sort(rng.integers(0, PANE_S * 1_000_000, rows)) + number * PANE_S * 1_000_000
    ts[0] = number * PANE_S * 1_000_000
    x = rng.integers(1, 101, rows) + (rng.random(rows) < 0.001) * rng.integers(0, 10_000, rows)
    return pa.table({"t": pa.array(ts), "k": pa.array(key), "x": pa.array(x.astype(np.int32))})


def thresholds(aggregate: str, keys: int, rows: int, panes: int) -> list[int]:
    """The values that each of SHARES of the keys exceeds, over so many panes."""
    tables = [pane(number, keys, rows) for number in range(panes)]
    key = np.concatenate([t.column("k").to_numpy() for t in tables])
    x = np.concatenate([t.column("x").to_numpy() for t in tables])
    if aggregate == "max":
        totals = np.zeros(keys, np.int64)
        np.maximum.at(totals, key, x)
    else:
        totals = np.bincount(key, None if aggregate == "count" else x, keys).astype(np.int64)
    return [int(np.quantile(totals, 1 - share)) for share in SHARES]


def queries(count: int, aggregate: str, keys: int, rows: int) -> list[str]:
    """The selects: windows of every length in turn, with slightly different thresholds."""
    lengths = list(range(1, PANES + 1))
    bounds = {length: thresholds(aggregate, keys, rows, length) for length in lengths[: min(count, PANES)]}
    made = []
    for number in range(count):
        length = lengths[number % PANES]
        value = bounds[length][number // PANES % len(SHARES)] + number // (PANES * len(SHARES))
        a = AGGREGATES[aggregate]
        made.append(
            f"SELECT k, {a} AS a FROM s [RANGE {length * PANE_S} SECONDS SLIDE {PANE_S} SECONDS] "
            f"GROUP BY k HAVING {a} > {value}"
        )
    return made


def run(setting: str, selects: list[str], data: list[pa.Table], spark: Any) -> dict[str, Any]:
    import windrow

    sink, ticks = Answers(), []
    with tempfile.TemporaryDirectory() as state:
        settings = {
            "substream_filters": setting,
            "retained_answers": 0,
            "preaggregate": "driver",
            "gather_bytes": "4 GB",
        }
        with windrow.open(state, spark=spark, settings=settings) as wr:
            wr.sql("CREATE STREAM s (t TIMESTAMP, k BIGINT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
            for number, select in enumerate(selects):
                wr.query(f"q{number}", select, sink=sink)
            for table in data:
                before = wr.metrics()["s"]["tick_s"]
                wr.deposit("s", table.set_column(0, "t", table.column("t").cast(pa.timestamp("us", tz="UTC"))))
                ticks.append(wr.metrics()["s"]["tick_s"] - before)
            line = next(one for one in wr.queries["q0"].explain().splitlines() if "SubStream" in one)
    return {"tick_s": median(ticks[-MEASURED:]), "rows": sink.rows, "total": sink.total, "explain": line.strip()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--slots", type=int, default=10_000_000, help="most keys × queries that are run without")
    parser.add_argument("--aggregates", nargs="+", default=["count"], choices=list(AGGREGATES))
    parser.add_argument("--rows-per-key", type=float, default=0.5, help="tuples of a pane, per key")
    args = parser.parse_args()
    with scratch() as base:
        measure(base, args)


def measure(base: Path, args: argparse.Namespace) -> None:
    from windrow.dataplane.session import close_session, open_session
    from windrow.settings import Settings

    opened = open_session(None, None, Settings())
    figures = []
    try:
        print(
            f"{'aggregate':>9} {'keys':>9} {'queries':>8} {'off':>10} {'on':>10} {'ratio':>7} {'auto':>5}   answer rows"
        )
        for aggregate in args.aggregates:
            for keys in args.keys:
                rows = int(keys * args.rows_per_key)
                data = [pane(number, keys, rows) for number in range(PANES + MEASURED + 1)]
                for count in args.queries:
                    if keys * count <= args.slots:
                        figures.append(compare(aggregate, keys, count, rows, data, opened))
    finally:
        close_session(opened)
    print("RESULT " + json.dumps({"having": figures}))


def compare(aggregate: str, keys: int, count: int, rows: int, data: list[pa.Table], spark: Any) -> dict[str, Any]:
    selects = queries(count, aggregate, keys, rows)
    started = time.perf_counter()
    off, on, auto = (run(setting, selects, data, spark) for setting in ("off", "on", "auto"))
    for other in (on, auto):
        if (off["rows"], off["total"]) != (other["rows"], other["total"]):
            raise SystemExit("the answers differ")
    ratio = off["tick_s"] / on["tick_s"]
    chosen = "on" if "; used" in auto["explain"] else "off"
    print(
        f"{aggregate:>9} {keys:>9,} {count:>8,} {off['tick_s'] * 1e3:>7,.1f} ms {on['tick_s'] * 1e3:>7,.1f} ms "
        f"{ratio:>6.2f}× {chosen:>5}   {off['rows']:,} ({time.perf_counter() - started:.0f} s)   {auto['explain']}",
        flush=True,
    )
    return {
        "aggregate": aggregate,
        "keys": keys,
        "queries": count,
        "off_s": off["tick_s"],
        "on_s": on["tick_s"],
        "auto_s": auto["tick_s"],
        "auto": chosen,
        "ratio": ratio,
        "rows": off["rows"],
    }


if __name__ == "__main__":
    main()
