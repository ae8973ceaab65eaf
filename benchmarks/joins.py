"""Window joins tick by tick: against an empty micro-batch, Spark's own interval join, and their own size.

A tick is timed from the commit of the last frontier that it waits for to the commit of its changes, as the log tells;
end to end is from when the files of the tick became visible. The parts:

a  two windows of 400,000 tuples, 4,000 new a side per tick, in both homes; 50,000 new a side with intake, and as
   many keys as make 404,000 results per tick
b  the second load by Spark's own stream-stream join, with its default state store; latency of the first. `--stores
   hdfs,rocksdb` also measures RocksDB, for many minutes, and takes the quicker one
c  a three-way join with GROUP BY, 1,000 tuples of each stream per tick, for 1,000 ticks
d  windows of 5,000,000 tuples a side in Spark, 100,000 new a side per tick
e  DISTINCT over 2,000,000 tuples with 5,000 values: the bytes of its state
f  100 queries with the same join that select 1 % each, against one query without a selection, which makes all results

Each measurement has a process of its own. The changes of every query are compared with DuckDB's join of the same tuples.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import child, scratch
from joining.data import Load

Measured = dict[str, Any]


@dataclass(frozen=True)
class Sizes:
    """How large the parts are."""

    small: Load
    large: Load
    three: Load
    huge: Load
    distinct: Load
    ticks: int
    backlog: int
    three_ticks: int
    huge_ticks: int
    queries: int = 100


FULL = Sizes(
    small=Load(4_000, 100, 100_000),
    large=Load(50_000, 8, 86_000),
    three=Load(1_000, 100, 50_000, 100),
    huge=Load(100_000, 50, 5_000_000),
    distinct=Load(20_000, 100, 5_000),
    ticks=40,
    backlog=40,
    three_ticks=1_000,
    huge_ticks=50,
)
QUICK = Sizes(
    small=Load(400, 20, 2_000),
    large=Load(5_000, 8, 10_000),
    three=Load(100, 20, 1_000, 20),
    huge=Load(10_000, 10, 100_000),
    distinct=Load(2_000, 20, 500),
    ticks=6,
    backlog=6,
    three_ticks=20,
    huge_ticks=5,
    queries=10,
)


def _both_homes(base: Path, sizes: Sizes) -> Measured:
    from joining import two_windows

    return two_windows.ticks_in_both_homes(base, sizes.small, sizes.ticks)


def _with_intake(base: Path, sizes: Sizes) -> Measured:
    from joining import two_windows

    return two_windows.throughput(base, sizes.large, sizes.backlog)


def _sparks_own(store: str) -> Callable[[Path, Sizes], Measured]:
    def run(base: Path, sizes: Sizes) -> Measured:
        from joining import sparks_own

        found = sparks_own.throughput(base / "large", sizes.large, sizes.backlog, store)
        small = sparks_own.latency(base / "small", sizes.small, sizes.ticks, store)
        return {**found, "small_end_to_end_s": small["end_to_end_s"]}

    return run


def _three_way(base: Path, sizes: Sizes) -> Measured:
    from joining import grouped

    return grouped.many_ticks(base, sizes.three, sizes.three_ticks)


def _in_spark(base: Path, sizes: Sizes) -> Measured:
    from joining import large

    return large.in_spark(base, sizes.huge, sizes.huge_ticks)


def _distinct(base: Path, sizes: Sizes) -> Measured:
    from joining import large

    return large.distinct(base, sizes.distinct)


def _many(base: Path, sizes: Sizes) -> Measured:
    from joining import many

    found: Measured = {}
    kinds = (("small", sizes.small, "driver"), ("large", sizes.large, "driver"), ("spark", sizes.small, "spark"))
    for name, load, home in kinds:
        one = many.selecting(base / f"{name}-one", load, sizes.ticks // 2, 1, home)
        all_of_them = many.selecting(base / f"{name}-many", load, sizes.ticks // 2, sizes.queries, home)
        found |= {f"{name}_one_jobs": one["jobs"], f"{name}_many_jobs": all_of_them["jobs"]}
        for what in ("tick_s", "end_to_end_s"):
            found |= {f"{name}_one_{what}": one[what], f"{name}_many_{what}": all_of_them[what]}
            found[f"{name}_{what.removesuffix('_s')}_ratio"] = all_of_them[what] / one[what]
    return found


PARTS: dict[str, dict[str, Callable[[Path, Sizes], Measured]]] = {
    "a": {"homes": _both_homes, "intake": _with_intake},
    "b": {"hdfs": _sparks_own("hdfs"), "rocksdb": _sparks_own("rocksdb")},
    "c": {"three_way": _three_way},
    "d": {"in_spark": _in_spark},
    "e": {"distinct": _distinct},
    "f": {"many": _many},
}


@dataclass(frozen=True)
class Line:
    """A line of the table: what was measured, and the target, if there is one."""

    what: str
    value: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool | None:
        if self.at_most is not None:
            return self.value <= self.at_most
        return None if self.at_least is None else self.value >= self.at_least

    def text(self) -> str:
        target = "" if self.at_most is None else f"≤ {self.at_most:,g}"
        target = target if self.at_least is None else f"≥ {self.at_least:,g}"
        verdict = {True: "holds", False: "MISSED", None: ""}[self.holds]
        value = f"{self.value:,.0f}" if self.value >= 1000 else f"{self.value:.3g}"
        return f"{self.what:<62}{value:>12} {self.unit:<9}{target:>11}  {verdict:<7} {self.note}".rstrip()


def lines(found: dict[str, Measured]) -> list[Line]:
    """The table, of the parts that were run."""
    out: list[Line] = []
    if "homes" in found:
        homes = found["homes"]
        out.append(Line("an empty micro-batch", homes["empty_s"], "s"))
        for home, most in (("driver", 0.3), ("spark", 1.5)):
            out.append(
                Line(f"a: a tick in the {home} home, over an empty micro-batch", homes[f"{home}_ratio"], "", most)
            )
            out.append(Line("   the tick", homes[f"{home}_tick_s"], "s"))
            out.append(Line("   end to end", homes[f"{home}_end_to_end_s"], "s"))
    if "intake" in found:
        intake = found["intake"]
        note = f"{intake['results_per_tick']:,.0f} results per tick, home: {intake['home']}"
        out.append(Line("a: throughput with intake", intake["tuples_per_s"], "tuples/s", at_least=100_000, note=note))
        out.append(Line("   the tick", intake["tick_s"], "s"))
        out.append(Line("   end to end", intake["end_to_end_s"], "s"))
    if found.keys() & PARTS["b"].keys():
        out += _spark_lines(found)
    if "three_way" in found:
        three = found["three_way"]
        out.append(Line("c: a tick of the three-way join, over an empty micro-batch", three["ratio"], "", 2))
        out.append(Line("   the last tenth of the ticks over the second", three["late_over_early"], "", 1.25))
        out.append(Line("   the tick", three["tick_s"], "s"))
        out.append(Line("   end to end", three["end_to_end_s"], "s"))
    if "in_spark" in found:
        huge = found["in_spark"]
        out.append(Line("d: a tick over large windows in Spark", huge["tick_s"], "s", 3))
        out.append(Line("   end to end", huge["end_to_end_s"], "s"))
        out.append(Line("   the driver's Python process, at most", huge["python_peak_mb"], "MB", 2048))
    if "distinct" in found:
        state = found["distinct"]
        out.append(
            Line("e: the window's bytes over DISTINCT's state in memory", state["window_over_state"], "", at_least=50)
        )
        out.append(Line("   over its state on disk", state["window_over_disk"], "", at_least=50))
    if "many" in found:
        many = found["many"]
        for load, where in (("large", "large ticks"), ("small", "small ticks"), ("spark", "small ticks in Spark")):
            out.append(Line(f"f: many queries over one, {where}", many[f"{load}_tick_ratio"], "", 3))
            out.append(Line("   end to end", many[f"{load}_end_to_end_ratio"]))
        out.append(Line("   Spark jobs per tick in Spark, with those of deposits", many["spark_many_jobs"]))
    return out


def _spark_lines(found: dict[str, Measured]) -> list[Line]:
    stores = [name for name in PARTS["b"] if name in found]
    best = min(stores, key=lambda store: found[store]["seconds"])
    quick = min(stores, key=lambda store: found[store]["small_end_to_end_s"])
    out = [Line("b: Spark's own join", found[best]["tuples_per_s"], "tuples/s", note=f"state store: {best}")]
    out.append(Line("   end to end, ticks as large", found[best]["end_to_end_s"], "s"))
    out.append(
        Line("   end to end, ticks of 4,000", found[quick]["small_end_to_end_s"], "s", note=f"state store: {quick}")
    )
    if "intake" in found:
        ratio = found["intake"]["tuples_per_s"] / found[best]["tuples_per_s"]
        out.insert(0, Line("b: Windrow's throughput over that of Spark's own join", ratio, "", at_least=3))
    return out


def measure(names: list[str], quick: bool) -> dict[str, Measured]:
    """In full size each measurement in a process of its own; quickly, those of Windrow share one, and a JVM."""
    own = [name for name in names if name not in PARTS["b"]]
    groups = [own, *([name] for name in names if name not in own)] if quick else [[name] for name in names]
    found: dict[str, Measured] = {}
    for group in groups:
        if group:
            found |= child(__file__, "--child", ",".join(group), *(["--quick"] if quick else []))["found"]
    return found


def run_here(names: list[str], sizes: Sizes) -> Measured:
    every = {name: run for part in PARTS.values() for name, run in part.items()}
    begin, found = time.perf_counter(), {}
    for name in names:
        with scratch() as base:
            found[name] = every[name](base, sizes)
    return {"seconds": time.perf_counter() - begin, "found": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, below a minute; only to see that it works")
    parser.add_argument("--parts", default="abcdef", help="the parts to run, such as 'ae' (default: all)")
    stores = list(PARTS["b"])
    parser.add_argument(
        "--stores", type=lambda text: text.split(","), default=stores[:1], help=f"of {','.join(stores)}"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(run_here(args.child.split(","), QUICK if args.quick else FULL)))
        return
    print(f"window joins on {os.cpu_count()} cores", flush=True)
    names = [name for part, mine in PARTS.items() if part in args.parts for name in mine]
    names = [name for name in names if name not in PARTS["b"] or name in args.stores]
    found = measure(names, args.quick)
    table = lines(found)
    print()
    for line in table:
        print(line.text())
    missed = [line.what.strip() for line in table if line.holds is False]
    rounded = {
        f"{name}_{what}": round(value, 4) if isinstance(value, float) else value
        for name, mine in found.items()
        for what, value in mine.items()
    }
    print("RESULT " + json.dumps({"quick": args.quick, "answers_ok": True, "missed": missed, **rounded}))


if __name__ == "__main__":
    main()
