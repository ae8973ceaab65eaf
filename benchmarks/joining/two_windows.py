"""Two windows joined: the time of a tick in both homes, and the throughput with intake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from joining.data import Load, checksum, expected_pairs, point
from joining.running import Run, median

PAIRS = "SELECT a.k, a.v AS x, b.v AS y FROM a {w} JOIN b {w} ON a.k = b.k"


def ticks_in_both_homes(base: Path, load: Load, ticks: int) -> dict[str, Any]:
    """The same query ticks in the driver, moves, and ticks in Spark."""
    run = Run(base, load, plan_home="driver")
    query = run.query(PAIRS)
    run.wr.start()
    run.measure_empty()
    run.fill(range(load.span), max(1, load.span // 4))
    first, found = load.span, {}
    for home in ("driver", "spark"):
        run.wr.sql(f"SET plan_home = '{home}'")
        warm = ticks // 2
        run.steps(range(first, first + warm))
        timed = run.steps(range(first + warm, first + warm + ticks))
        first += warm + ticks
        assert run.home(query) == home
        found |= {f"{home}_tick_s": median(timed), f"{home}_end_to_end_s": median(timed, "whole_s")}
    run.measure_empty()
    results = check_pairs(run, query, load, first)
    run.close()
    found |= {f"{home}_ratio": found[f"{home}_tick_s"] / run.empty_s for home in ("driver", "spark")}
    return {"empty_s": run.empty_s, "results": results, **found}


def throughput(base: Path, load: Load, ticks: int) -> dict[str, Any]:
    """A backlog of files, one a side per micro-batch, after windows are full; in the home that the planner chooses."""
    run = Run(base, load)
    query = run.query(PAIRS)
    run.wr.start()
    warm = load.span + 8
    run.fill(range(warm - 4), load.span)
    run.steps(range(warm - 4, warm))
    seconds = run.backlog(range(warm, warm + ticks))
    timed = run.steps(range(warm + ticks, warm + ticks + 8))
    last = warm + ticks + 8
    results, home = check_pairs(run, query, load, last), run.home(query)
    run.close()
    return {
        "seconds": seconds,
        "tuples_per_s": 2 * load.new * ticks / seconds,
        "tick_s": median(timed),
        "end_to_end_s": median(timed, "whole_s"),
        "results_per_tick": results / last,
        "home": home,
    }


def check_pairs(run: Run, query: Any, load: Load, ticks: int) -> int:
    """Check all changes; return their number. The last file closes the tick before it."""
    changes = query.changes().arrow()
    assert set(changes.column("op").unique().to_pylist()) == {"+"}
    found, wanted = checksum(changes), expected_pairs(load, range(ticks), point(ticks - 1))
    assert found == wanted, (found, wanted)
    return found[0]
