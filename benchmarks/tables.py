"""A stream joined with a table of 1,000,000 rows, against Spark's own static join in `foreachBatch`.

Every tick has 50,000 tuples of the stream, in a file of its own; most of them find a row. Throughput is that of a
backlog of files, from when they are visible to the commit of the last results. The sides:

lookups      the table is NON RETROACTIVE: a tuple meets the rows as they are when it comes
retroactive  the table may change past results: the query keeps its rows and the tuples of its window
spark_*      the same two with ticks in Spark: tasks map the blocks of the table
broadcast    Spark joins every micro-batch with a cached DataFrame, by a broadcast join
shuffled     the same without the broadcast, by the join that Spark chooses

Windrow writes its results to disk; Spark only sums them up, which is the cheapest way out. Each side has a process of
its own; `--sides lookups,shuffled` runs some. Every result is compared with DuckDB's join of the same tuples.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from common import child, scratch
from joining.data import COLUMNS, Folder, Load

Measured = dict[str, Any]
SUMS = "count(*), sum(k), sum(v * n), sum(k % 1009 * n), sum(length(name))"


@dataclass(frozen=True)
class Sizes:
    """The tuples of the stream, the rows of the table, and the ticks of the backlog."""

    load: Load
    rows: int
    ticks: int


FULL = Sizes(Load(50_000, 20, 1_100_000), 1_000_000, 40)
QUICK = Sizes(Load(2_000, 5, 11_000), 10_000, 5)
WARM = 8
"""So many ticks are not measured."""


def table_rows(count: int) -> pa.Table:
    """The rows of the table: k, a name, a number."""
    k = np.arange(count)
    numbers = np.random.default_rng(5).integers(0, 1000, count).astype(np.int32)
    return pa.table({"k": k, "name": pa.array([f"name {i % 100_003}" for i in range(count)]), "n": numbers})


def sums_of(results: pa.Table) -> list[int]:
    return _integers("SELECT " + SUMS + " FROM results", results=results)


def expected(sizes: Sizes, ticks: range) -> list[int]:
    tuples, rows = sizes.load.table(0, ticks).drop_columns(["ts"]), table_rows(sizes.rows)
    return _integers(f"SELECT {SUMS} FROM tuples JOIN rows USING (k)", tuples=tuples, rows=rows)


def _integers(text: str, **tables: pa.Table) -> list[int]:
    con = duckdb.connect()
    for name, table in tables.items():
        con.register(name, table)
    return [int(value or 0) for value in con.sql(text).fetchall()[0]]


# -- the sides -------------------------------------------------------------------------------------


def in_windrow(base: Path, sizes: Sizes, kind: str, **settings: str) -> Measured:
    from joining.running import Run, median

    run = Run(base, sizes.load, "a", **settings)
    run.wr.sql(f"CREATE TABLE t (k BIGINT PRIMARY KEY, name STRING, n INT) {kind}")
    begin = time.perf_counter()
    run.wr.table("t").upsert(table_rows(sizes.rows))
    loading_s = time.perf_counter() - begin
    query = run.query("SELECT a.k, v, name, n FROM a {w} JOIN t ON a.k = t.k")
    run.wr.start()
    run.fill(range(WARM), 2)
    seconds = run.backlog(range(WARM, WARM + sizes.ticks))
    last = WARM + sizes.ticks
    timed = run.steps(range(last, last + 4))
    changes = query.changes().arrow()
    assert set(changes.column("op").unique().to_pylist()) == {"+"}
    found, wanted = sums_of(changes.drop_columns(["ts", "exp"])), expected(sizes, range(last + 3))
    assert found == wanted, (found, wanted)
    home, is_bucketed = run.home(query), run.wr._engine.tables.table("t").base.is_bucketed
    run.close()
    return {
        "seconds": seconds,
        "tuples_per_s": sizes.load.new * sizes.ticks / seconds,
        "tick_s": median(timed),
        "end_to_end_s": median(timed, "whole_s"),
        "loading_s": loading_s,
        "home": home,
        "kept": "bucketed" if is_bucketed else "broadcast",
    }


def in_spark(base: Path, sizes: Sizes, hint: str) -> Measured:
    import pyarrow.parquet as pq
    from joining.sparks_own import session

    spark = session("hdfs")
    pq.write_table(table_rows(sizes.rows), base / "rows.parquet")
    static = spark.read.parquet(str(base / "rows.parquet")).cache()
    assert static.count() == sizes.rows
    static = static.hint(hint) if hint else static
    folder, sums = Folder(base / "a"), np.zeros(5, np.int64)

    def joined(df: Any, batch_id: int) -> None:
        found = df.join(static, "k").selectExpr(*_spark_sums()).first()
        sums.__iadd__(np.array([value or 0 for value in found], np.int64))

    stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder.path))
    query = stream.writeStream.foreachBatch(joined).option("checkpointLocation", str(base / "checkpoint")).start()

    def take(ticks: range) -> float:
        for tick in ticks:
            folder.hide(tick, sizes.load.rows(0, tick))
        begin = time.perf_counter()
        for tick in ticks:
            folder.show(tick)
        query.processAllAvailable()
        return time.perf_counter() - begin

    take(range(WARM))
    seconds, last = take(range(WARM, WARM + sizes.ticks)), WARM + sizes.ticks
    timed = [take(range(tick, tick + 1)) for tick in range(last, last + 4)]
    query.stop()
    found, wanted = sums.tolist(), expected(sizes, range(last + 4))
    assert found == wanted, (found, wanted)
    rate = sizes.load.new * sizes.ticks / seconds
    return {"seconds": seconds, "tuples_per_s": rate, "end_to_end_s": float(np.median(timed))}


def _spark_sums() -> list[str]:
    return ["count(1)", "sum(k)", "sum(bigint(v) * n)", "sum(k % 1009 * n)", "sum(length(name))"]


STATIC = ("broadcast", "shuffled")
"""The sides of Spark's own join."""

AT_LEAST = 1.0
"""The throughput that Windrow should have, of Spark's best, in the home that the planner chooses."""

SIDES = {
    "lookups": lambda base, sizes: in_windrow(base, sizes, "NON RETROACTIVE"),
    "retroactive": lambda base, sizes: in_windrow(base, sizes, ""),
    "spark_lookups": lambda base, sizes: in_windrow(base, sizes, "NON RETROACTIVE", plan_home="spark"),
    "spark_retroactive": lambda base, sizes: in_windrow(base, sizes, "", plan_home="spark"),
    "broadcast": lambda base, sizes: in_spark(base, sizes, "broadcast"),
    "shuffled": lambda base, sizes: in_spark(base, sizes, ""),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes; only to see that it works")
    parser.add_argument("--sides", type=lambda text: text.split(","), default=list(SIDES))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    sizes = QUICK if args.quick else FULL
    if args.child:
        with scratch() as base:
            print(json.dumps(SIDES[args.child](base, sizes)))
        return
    print(f"a stream joined with a table of {sizes.rows:,} rows, on {os.cpu_count()} cores", flush=True)
    found = {name: child(__file__, "--child", name, *(["--quick"] if args.quick else [])) for name in args.sides}
    ratios = _ratios(found)
    print(f"\n{'side':<18}{'tuples/s':>12}{'end to end':>14}{'of Spark':>12}")
    for name, one in found.items():
        ratio = f"{ratios[name]:>12.2f}" if name in ratios else " " * 12
        how = f"  in the {one['home']}, the table {one['kept']}" if "home" in one else ""
        print(f"{name:<18}{one['tuples_per_s']:>12,.0f}{one['end_to_end_s']:>12.2f} s{ratio}{how}")
    missed = [name for name in ("lookups", "retroactive") if ratios.get(name, AT_LEAST) < AT_LEAST]
    told = {f"{name}_over_spark": round(ratio, 3) for name, ratio in ratios.items()}
    rounded = {
        f"{name}_{what}": round(value, 4) if isinstance(value, float) else value
        for name, one in found.items()
        for what, value in one.items()
    }
    print("RESULT " + json.dumps({"quick": args.quick, "answers_ok": True, "missed": missed, **told, **rounded}))


def _ratios(found: Measured) -> dict[str, float]:
    """The throughput of Windrow's sides, of that of Spark's best; none if no side of Spark was measured."""
    rates = {name: one["tuples_per_s"] for name, one in found.items()}
    best = max((rates[name] for name in STATIC if name in rates), default=None)
    return {} if best is None else {name: rate / best for name, rate in rates.items() if name not in STATIC}


if __name__ == "__main__":
    main()
