"""A left outer join of two windows, against Spark's own left outer stream-stream join.

Two windows of 400,000 tuples, 50,000 new a side per tick; half of the tuples find no partner. Throughput is that of a
backlog of files, from when they are visible to the commit of the last results. Spark has the state store that is
quicker. Each side has a process of its own, and its results are compared with DuckDB's.
"""

from __future__ import annotations

import argparse
import json
import os

from common import child, scratch
from joining.data import Load

AT_LEAST = 3


def measured(side: str, quick: bool) -> dict[str, object]:
    from joining import outer

    load, ticks = (Load(2_000, 8, 20_000), 6) if quick else (Load(50_000, 8, 600_000), 10)
    with scratch() as base:
        if side == "windrow":
            return outer.in_windrow(base, load, ticks)
        return outer.in_spark(base, load, ticks, side)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes; only to see that it works")
    parser.add_argument("--stores", default="hdfs,rocksdb", help="Spark's state stores that are measured")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measured(args.child, args.quick)))
        return
    print(f"left outer joins of two windows on {os.cpu_count()} cores", flush=True)
    stores = args.stores.split(",")
    sides = ["windrow", *stores]
    found = {side: child(__file__, "--child", side, *(["--quick"] if args.quick else [])) for side in sides}
    best = max(stores, key=lambda side: found[side]["tuples_per_s"])
    ratio = found["windrow"]["tuples_per_s"] / found[best]["tuples_per_s"]
    print(f"\n{'side':<14}{'tuples/s':>12}{'end to end':>14}")
    for side, one in found.items():
        print(f"{side:<14}{one['tuples_per_s']:>12,.0f}{one['end_to_end_s']:>12.2f} s")
    verdict = "holds" if ratio >= AT_LEAST else "MISSED"
    print(
        f"\nWindrow's throughput over that of Spark's own join ({best}): {ratio:.2f} (at least {AT_LEAST}: {verdict})"
    )
    rounded = {
        f"{side}_{what}": round(value, 4) if isinstance(value, float) else value
        for side, one in found.items()
        for what, value in one.items()
    }
    missed = [] if ratio >= AT_LEAST else ["ratio"]
    result = {"quick": args.quick, "answers_ok": True, "missed": missed, "ratio": round(ratio, 3), **rounded}
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
