"""Holistic aggregates of many windows: rolled up from counters, selected from base intervals, and the choice by cost.

`q.lookups` of a given number of windows, with few and many groups, few and many values, beside other aggregates. Both
ways must give the same answers. The last line is `RESULT {json}`.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import pyarrow as pa

import windrow

CASES = ((0, 100_000), (0, 1000), (10, 1000), (100, 1000), (1000, 100), (1000, 10), (10, 10))
"""Groups (0: no GROUP BY), and values in each."""

LISTS = {
    "MEDIAN": "MEDIAN({x}) AS m",
    "three phi, COUNT(*), SUM": "QUANTILE({x}, 0.1) AS a, MEDIAN({x}) AS m, QUANTILE({x}, 0.9) AS b, COUNT(*) AS n, SUM(x) AS s",
    "MEDIAN, COUNT(DISTINCT)": "MEDIAN({x}) AS m, COUNT(DISTINCT {x}) AS d",
}


def text(groups: int, values: int, listed: str, widest: int) -> str:
    key, by = (f"g % {groups} AS k, ", f" GROUP BY g % {groups} ORDER BY k") if groups else ("", "")
    return f"SELECT {key}{listed.format(x=f'x % {values}')} FROM s [RANGE {widest} SLIDE 1]{by}"


def deposit(wr: Any, panes: int, each: int) -> None:
    rng, size = np.random.default_rng(3), panes * each
    t = np.repeat(np.arange(panes), each)
    g, x = (rng.integers(0, 1 << 30, size).astype(np.int32) for _ in range(2))
    for first in range(0, size, 50_000):
        some = slice(first, first + 50_000)
        wr.deposit("s", pa.table({"t": t[some], "g": g[some], "x": x[some]}))
    wr.punctuate("s", panes)


def timed(wr: Any, query: Any, way: str, lengths: list[int], ends: list[int]) -> tuple[float, pa.Table]:
    wr.sql(f"SET holistic = '{way}'")
    query.lookups(lengths[:2], ends[:2])
    started = time.perf_counter()
    found = query.lookups(lengths, ends).arrow()
    return (time.perf_counter() - started) * 1e3, found


def measure(wr: Any, query: Any, panes: int, widest: int, windows: int) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    lengths = rng.integers(1, widest + 1, windows)
    ends = rng.integers(panes - widest, panes, windows)
    found = {way: timed(wr, query, way, lengths.tolist(), ends.tolist()) for way in ("roll up", "selection", "auto")}
    assert found["roll up"][1].equals(found["selection"][1]) and found["roll up"][1].equals(found["auto"][1])
    line = next(line for line in query.explain().splitlines() if "holistic aggregates" in line)
    return {
        **{f"{way} ms": round(ms, 1) for way, (ms, _) in found.items()},
        "faster": round(found["roll up"][0] / found["selection"][0], 2),
        "chosen": "selection" if "selection from" in line else "roll up",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--panes", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1000, help="in each pane")
    parser.add_argument("--widest", type=int, default=60, help="panes that a window has at most")
    parser.add_argument("--windows", type=int, default=200)
    args = parser.parse_args()
    measured: dict[str, Any] = {"panes": args.panes, "rows": args.rows, "windows": args.windows}
    print(f"{'groups':>7}{'values':>9}  {'aggregates':<26}{'roll up':>12}{'selection':>12}{'auto':>12}  chosen")
    for groups, values in CASES:
        with windrow.open(settings={"preaggregate": "driver", "retained_answers": 0}) as wr:
            wr.sql("CREATE STREAM s (t BIGINT, g INT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
            queries = {
                name: wr.query(f"q{i}", text(groups, values, listed, args.panes))
                for i, (name, listed) in enumerate(LISTS.items())
            }
            deposit(wr, args.panes, args.rows)
            for name, query in queries.items():
                row = measure(wr, query, args.panes, args.widest, args.windows)
                measured[f"{groups} groups x {values} values: {name}"] = row
                shown = "".join(f"{row[f'{way} ms']:>9.1f} ms" for way in ("roll up", "selection", "auto"))
                print(f"{groups:>7}{values:>9}  {name:<26}{shown}  {row['chosen']} ({row['faster']}×)", flush=True)
    print("RESULT " + json.dumps(measured))


if __name__ == "__main__":
    main()
