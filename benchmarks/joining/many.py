"""A hundred queries with the same join and selections of their own, against one without a selection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from joining.data import Load, checksum, expected_pairs, point
from joining.running import Run, median
from joining.two_windows import PAIRS


def selecting(base: Path, load: Load, ticks: int, queries: int) -> dict[str, Any]:
    """`queries` = 1 selects everything; of more, each selects its share of the values of a.v."""
    run = Run(base, load)
    width = load.values // queries
    texts = [PAIRS + f" WHERE a.v >= {i * width} AND a.v < {(i + 1) * width}" for i in range(queries)]
    handles = [run.query(text) for text in (texts if queries > 1 else [PAIRS])]
    run.wr.start()
    run.fill(range(load.span), load.span)
    warm = load.span + ticks // 2
    run.steps(range(load.span, warm))
    timed = run.steps(range(warm, warm + ticks))
    sums = [checksum(handle.changes().arrow()) for handle in handles]
    found, wanted = [sum(column) for column in zip(*sums, strict=True)], _expected(load, warm + ticks)
    assert found == wanted, (found, wanted)
    run.close()
    return {"tick_s": median(timed), "end_to_end_s": median(timed, "whole_s"), "least": min(one[0] for one in sums)}


def _expected(load: Load, ticks: int) -> list[int]:
    return expected_pairs(load, range(ticks), point(ticks - 1))
