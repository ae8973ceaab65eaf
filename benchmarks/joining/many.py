"""A hundred queries with the same join and selections of their own, against one without a selection.

The one makes all results, as the hundred do together: what is compared is sharing the join, not making fewer results.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from joining.data import Load, checksum, expected_pairs, point
from joining.running import Run, median
from joining.two_windows import PAIRS


def selecting(base: Path, load: Load, ticks: int, queries: int, home: str = "driver") -> dict[str, Any]:
    """`queries` = 1 selects everything; of more, each selects its share of the values of a.v."""
    run = Run(base, load, plan_home=home)
    width = load.values // queries
    texts = [PAIRS + f" WHERE a.v >= {i * width} AND a.v < {(i + 1) * width}" for i in range(queries)]
    handles = [run.query(text) for text in (texts if queries > 1 else [PAIRS])]
    run.wr.start()
    run.fill(range(load.span), load.span)
    warm = load.span + ticks // 2
    run.steps(range(load.span, warm))
    before = _jobs(run)
    timed = run.steps(range(warm, warm + ticks))
    jobs = (_jobs(run) - before) / ticks
    sums = [checksum(handle.changes().arrow()) for handle in handles]
    found, wanted = [sum(column) for column in zip(*sums, strict=True)], _expected(load, warm + ticks)
    assert found == wanted, (found, wanted)
    assert all(run.home(handle) == home for handle in handles)
    run.close()
    return {"tick_s": median(timed), "end_to_end_s": median(timed, "whole_s"), "jobs": jobs}


def _jobs(run: Run) -> int:
    """The number of jobs that Spark has run: a tick has those of two deposits, too."""
    return int(run.wr.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def _expected(load: Load, ticks: int) -> list[int]:
    return expected_pairs(load, range(ticks), point(ticks - 1))
