"""A left outer join of two windows, and of two streams by Spark's own left outer join.

The two mean different things. Windrow's answer at every tick is the left outer join of the windows: a tuple without a
match is there with NULL until one comes, and again when its matches have left. Spark joins tuples that are close in time,
and gives a tuple with NULL once, when no match can come any more. Each is compared with its own definition.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from joining.data import SECOND_US, Load, checksum, expected_pairs, point
from joining.running import Run, median, told
from joining.sparks_own import SparkRun, session

TIMED = 4
"""So many ticks are shown one by one after the backlog."""

LEFT = "SELECT a.k, a.v AS x, b.v AS y FROM a {w} LEFT JOIN b {w} ON a.k = b.k"
LEFT_IN_SPARK = """
    SELECT a.k, a.v AS x, b.v AS y FROM a LEFT JOIN b
    ON a.k = b.k AND a.ts < b.ts + INTERVAL {span} SECONDS AND b.ts < a.ts + INTERVAL {span} SECONDS
"""


def in_windrow(base: Path, load: Load, ticks: int) -> dict[str, Any]:
    """A backlog of files, one a side per micro-batch, after windows are full; in the home that the planner chooses."""
    run = Run(base, load)
    query = run.query(LEFT)
    run.wr.start()
    warm = load.span + 8
    run.fill(range(warm - 4), load.span)
    run.steps(range(warm - 4, warm))
    seconds = run.backlog(range(warm, warm + ticks))
    timed = run.steps(range(warm + ticks, warm + ticks + TIMED))
    last, home = warm + ticks + TIMED, run.home(query)
    changes = query.changes().arrow()
    matched = changes.filter(pa.compute.is_valid(changes.column("y")))
    assert set(matched.column("op").unique().to_pylist()) == {"+"}
    found, wanted = checksum(matched), expected_pairs(load, range(last), point(last - 1))
    assert found == wanted, (found, wanted)
    view = query.view().arrow()
    assert _rows(view) == _rows(_left_join(load, last - 1)), "the answer at the last tick"
    shown = _shown(changes, point(last - 1))
    assert _rows(shown) == _rows(view), "the changes make the answer"
    run.close()
    return {
        "seconds": seconds,
        "tuples_per_s": 2 * load.new * ticks / seconds,
        "tick_s": median(timed),
        "end_to_end_s": median(timed, "whole_s"),
        "changes": changes.num_rows,
        "with_null": changes.num_rows - matched.num_rows,
        "home": home,
    }


def _left_join(load: Load, tick: int) -> pa.Table:
    """The left outer join of both windows at a tick."""
    ticks = range(max(0, tick - load.span), tick)
    con = duckdb.connect()
    for i, name in enumerate("ab"):
        con.register(name, load.table(i, ticks).drop_columns(["ts"]))
    return con.sql("SELECT a.k, a.v AS x, b.v AS y FROM a LEFT JOIN b USING (k)").arrow()


def _shown(changes: pa.Table, at: int) -> pa.Table:
    """The rows that are there at a tick, from changes: those that came and were not withdrawn, and live."""
    con = duckdb.connect()
    columns = {name: changes.column(name) for name in ("op", "k", "x", "y")}
    columns |= {name: changes.column(name).cast(pa.int64()) for name in ("ts", "exp")}
    con.register("changes", pa.table(columns))
    return con.sql(
        f"""
        SELECT k, x, y FROM (
          SELECT k, x, y, unnest(range(sum(CASE WHEN op = '+' THEN 1 ELSE -1 END)::BIGINT)) AS i
          FROM changes WHERE ts < {at} AND exp >= {at} GROUP BY k, x, y, exp)"""
    ).arrow()


def _rows(table: pa.Table) -> list[tuple[int, ...]]:
    """Rows as sums that tell wrong ones: NULL is −1."""
    con = duckdb.connect()
    con.register("rows", table)
    return con.sql(
        "SELECT count(*), count(y), sum(k), sum(x * coalesce(y, -1)), sum(k % 1009 * x), sum(k % 1013 * coalesce(y, -1)) FROM rows"
    ).fetchall()


class LeftSparkRun(SparkRun):
    """Spark's own left outer join. Its sums count NULL as −1."""

    join = LEFT_IN_SPARK
    sums_sql = (
        *("count(1)", "sum(k)", "sum(bigint(x) * coalesce(y, -1))"),
        *("sum(k % 1009 * x)", "sum(k % 1013 * coalesce(y, -1))", "count(y)"),
    )

    def check(self, ticks: int) -> None:
        """All pairs have come. A tuple without one came if the watermark has passed the time of its last partner."""
        pairs = expected_pairs(self.load, range(ticks))
        assert self.sums[5] == pairs[0], (self.sums.tolist(), pairs)
        alone = int(self.sums[0] - self.sums[5])
        lower, upper = (_alone(self.load, ticks, late) for late in (2, 0))
        assert lower <= alone <= upper, (lower, alone, upper)


def _alone(load: Load, ticks: int, late: int) -> int:
    """How many tuples of a have no partner, of those whose last one could have come by `late` ticks before the end."""
    con = duckdb.connect()
    for i, name in enumerate("ab"):
        table = load.table(i, range(ticks))
        con.register(name, table.set_column(0, "ts", table.column("ts").cast(pa.int64())))
    span = load.span * SECOND_US
    found = con.sql(
        f"""
        SELECT count(*) FROM a WHERE ts + {span} <= {point(ticks - late)} AND NOT EXISTS (
          SELECT 1 FROM b WHERE b.k = a.k AND a.ts < b.ts + {span} AND b.ts < a.ts + {span})"""
    ).fetchall()
    return int(found[0][0])


def in_spark(base: Path, load: Load, ticks: int, store: str) -> dict[str, Any]:
    """As `in_windrow`."""
    run = LeftSparkRun(base, session(store), load)
    warm = load.span + 8
    filled = run.take(range(warm - 4), load.span)
    warmed = run.take(range(warm - 4, warm))
    told(f"  {store}: windows full after {filled:.0f} s, 4 ticks in {warmed:.0f} s")
    seconds = run.take(range(warm, warm + ticks))
    told(f"  {store}: {ticks} ticks in {seconds:.0f} s")
    timed = [run.take(range(tick, tick + 1)) for tick in range(warm + ticks, warm + ticks + TIMED)]
    run.query.stop()
    run.check(warm + ticks + TIMED)
    rate = 2 * load.new * ticks / seconds
    return {"seconds": seconds, "tuples_per_s": rate, "end_to_end_s": float(np.median(timed))}
