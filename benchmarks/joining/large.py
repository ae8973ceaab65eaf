"""State that is large, and state that must be small: windows of millions in Spark, and DISTINCT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spark_home import Peaks

from joining.data import Load
from joining.running import Run, median, told
from joining.two_windows import PAIRS, check_pairs


def in_spark(base: Path, load: Load, ticks: int) -> dict[str, Any]:
    """Windows of millions: the time of a tick, and the memory of each process."""
    run = Run(base, load, plan_home="spark")
    peaks = Peaks(run.wr._engine.jvm.pid)
    query = run.query(PAIRS)
    run.wr.start()
    run.fill(range(load.span), max(1, load.span // 10))
    timed = []
    for first in range(load.span, load.span + ticks, 10):
        timed += run.steps(range(first, min(first + 10, load.span + ticks)))
        told(f"  tick {len(timed):3}: {median(timed[-10:]):.2f} s, end to end {median(timed[-10:], 'whole_s'):.2f} s")
    assert run.home(query) == "spark"
    memory = peaks.stop()
    results = check_pairs(run, query, load, load.span + ticks)
    run.close()
    return {
        "tick_s": median(timed),
        "end_to_end_s": median(timed, "whole_s"),
        "results": results,
        **memory,
    }


def distinct(base: Path, load: Load) -> dict[str, Any]:
    """The most state of DISTINCT over a full window, in memory and on disk, against the bytes of the window's tuples."""
    run = Run(base, load, "a")
    query = run.query("SELECT DISTINCT k FROM a {w}")
    run.wr.start()
    first = load.span + load.span // 5
    run.fill(range(first), max(1, load.span // 10))
    commits, number = run.wr._engine.opened.plan_commits, run.wr._engine.plans.query(query.name).id
    in_memory = on_disk = 0
    for tick in range(first, first + 12):
        run.step(tick)
        in_memory = max(in_memory, query.metrics()["state_bytes"])
        on_disk = max(on_disk, sum(part.length for part in commits.parts(number, "state")))
    window = load.table(0, range(tick - load.span, tick)).select(["ts", "k"])
    found = set(query.view().arrow().column("k").to_pylist())
    assert found == set(window.column("k").to_pylist())
    stored = run.wr._engine.opened.stores.nbytes
    run.close()
    return {
        "window_bytes": window.nbytes,
        "state_bytes": in_memory,
        "state_on_disk_bytes": on_disk,
        "waiting_tuples_bytes": stored,
        "window_over_state": window.nbytes / in_memory,
        "window_over_disk": window.nbytes / on_disk,
    }
