"""q.lookup, one at a time and many at once, with the index over panes and without it.

A stream with a given number of panes, every group in each; queries with a plain select list and with HAVING and LIMIT.
Every answer is compared with one computed from the rows by NumPy. The last line is `RESULT {json}`.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import pyarrow as pa

import windrow

AGGREGATES = {"SUM": "SUM(x)", "COUNT": "COUNT(*)", "MAX": "MAX(x)"}
KINDS = {"index": "running", "no index": "basic interval", "auto": "auto"}


def values(panes: int, groups: int) -> np.ndarray:
    return np.random.default_rng(3).integers(1, 1000, (panes, groups)).astype(np.int32)


def deposit(wr: Any, x: np.ndarray, at_once: int) -> None:
    panes, groups = x.shape
    names = np.array([f"10.0.{i // 250}.{i % 250 + 1}" for i in range(groups)])
    for first in range(0, panes, at_once):
        some = x[first : first + at_once]
        t = np.repeat(np.arange(first, first + len(some)), groups)
        keys = pa.array(names).take(pa.array(np.tile(np.arange(groups), len(some))))
        wr.deposit("s", pa.table({"t": t, "k": keys, "x": some.ravel()}))
    wr.punctuate("s", panes)


def make_queries(wr: Any, panes: int) -> dict[str, Any]:
    """The first query makes the cuts, a pane per point, which the others share. It has one row per window."""
    wr.query("cuts", "SELECT k, COUNT(*) AS n FROM s [RANGE 1 SLIDE 1] GROUP BY k LIMIT 1")
    found = {}
    for name, aggregate in AGGREGATES.items():
        plain = f"SELECT k, {aggregate} AS a FROM s [RANGE {panes} SLIDE {panes}] GROUP BY k"
        found[name] = wr.query(name, plain)
        found[f"{name} HAVING LIMIT"] = wr.query(
            f"{name}_h", f"{plain} HAVING {aggregate} > 10 ORDER BY a DESC LIMIT 10"
        )
    return found


def expected(name: str, x: np.ndarray, start: int, end: int) -> list[int]:
    """The values of one window, descending."""
    rows = x[start:end].astype(np.int64)
    whole = {"SUM": rows.sum(0), "COUNT": np.full(x.shape[1], end - start), "MAX": rows.max(0)}[name.split()[0]]
    found = sorted((int(v) for v in whole if v > 10 or "HAVING" not in name), reverse=True)
    return found[:10] if "HAVING" in name else found


def single_ms(query: Any, lengths: np.ndarray) -> float:
    """The median of single lookups, in milliseconds."""
    for length in lengths[:20].tolist():
        query.lookup(length)
    taken = []
    for length in lengths.tolist():
        started = time.perf_counter()
        query.lookup(length)
        taken.append(time.perf_counter() - started)
    return float(np.median(taken)) * 1e3


def check(query: Any, name: str, x: np.ndarray, lengths: np.ndarray) -> None:
    panes = len(x)
    for length in lengths.tolist():
        found = sorted(query.lookup(length).arrow().column("a").to_pylist(), reverse=True)
        if found != expected(name, x, panes - length, panes):
            raise SystemExit(f"{name} over the last {length} panes is wrong")


def batch_rate(query: Any, name: str, x: np.ndarray, lengths: np.ndarray) -> float:
    """Lookups per second of a batch: the median of four after a warm-up. The first and the last are checked."""
    taken, table = [], query.lookups(lengths).arrow()
    for _ in range(4):
        started = time.perf_counter()
        table = query.lookups(lengths).arrow()
        taken.append(time.perf_counter() - started)
    seconds = float(np.median(taken))
    groups, panes = x.shape[1], len(x)
    answers = table.column("a").to_numpy()
    for at in (0, len(lengths) - 1):
        mine = sorted(answers[at * groups : (at + 1) * groups].tolist(), reverse=True)
        if mine != expected(name, x, panes - int(lengths[at]), panes):
            raise SystemExit(f"{name}: window {at} of the batch is wrong")
    return len(lengths) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--panes", type=int, default=5000)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--lookups", type=int, default=200)
    parser.add_argument("--batch", type=int, default=2000)
    args = parser.parse_args()
    x, rng = values(args.panes, args.groups), np.random.default_rng(5)
    lengths = rng.integers(max(1, args.panes // 2), args.panes, args.lookups)
    batch = rng.integers(1, args.panes, args.batch)
    measured: dict[str, Any] = {"panes": args.panes, "groups": args.groups}
    with windrow.open(settings={"preaggregate": "driver", "retained_answers": 0}) as wr:
        wr.sql("CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
        queries = make_queries(wr, args.panes)
        print(f"depositing {x.size:,} rows …", flush=True)
        deposit(wr, x, max(1, 100_000 // args.groups))
        print(
            f"{'query':<22}"
            + "".join(f"{kind:>12}" for kind in KINDS)
            + "".join(f"{kind + '/s':>12}" for kind in KINDS)
        )
        for name, query in queries.items():
            row = {}
            for kind, setting in KINDS.items():
                wr.sql(f"SET synopsis = '{setting}'")
                check(query, name, x, lengths[:3])
                row[f"{kind} ms"] = single_ms(query, lengths)
                if "HAVING" not in name:
                    row[f"{kind} batch/s"] = batch_rate(query, name, x, batch)
            measured[name] = {key: round(value, 3) for key, value in row.items()}
            shown = "".join(f"{row[f'{kind} ms']:>9.2f} ms" for kind in KINDS)
            rates = [row.get(f"{kind} batch/s") for kind in KINDS]
            print(f"{name:<22}{shown}" + "".join("" if r is None else f"{r:>12,.0f}" for r in rates), flush=True)
    print("RESULT " + json.dumps(measured))


if __name__ == "__main__":
    main()
