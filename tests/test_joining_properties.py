"""Queries of every kind that come and go while a stream runs: the engine answers what the oracle does."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.matrix import is_full
from test_by_source_properties import Story, batch

pytestmark = pytest.mark.slow

SEEDS = range(80) if is_full() else (0, 1, 2, 3, 17, 20)
"""17 and 20 have failed once: landmark windows that joined late forgot their past."""


class Joining(Story):
    """Windows of every kind, several of them often the same, so that they share; late tuples dropped or taken in."""

    policies = (
        "PUNCTUATE ORDERED",
        "PUNCTUATE WITH SLACK 3",
        "PUNCTUATE WITH SLACK 3 LATE REVISE",
        "PUNCTUATE WITH SLACK 3 LATE REVISE FOR 6",
        "PUNCTUATE WITH SLACK 3 ROWS",
        "PUNCTUATE PER k IDLE AFTER 20",
        "PUNCTUATE WITH SLACK 3 PUNCTUATE ON m WITH SLACK 8",
        "PUNCTUATE WITH SLACK 3 PUNCTUATE ON m WITH SLACK 8 LATE REVISE",
    )
    kinds = (
        "[RANGE 10 SLIDE 5]",
        "[RANGE 4 SLIDE 7]",
        "[RANGE 6 SLIDE 2 OFFSET 3]",
        "[RANGE 5 SLIDE 1 ROW]",
        "[NOW]",
        "[ROWS 4 SLIDE 2]",
        "[ROWS 3 SLIDE 2 PARTITION BY k]",
        "[RANGE 6 SLIDE 3 WATTR m]",
        "[SINCE 3 SLIDE 5]",
        "[SINCE 3 SLIDE 5]",
        "[SINCE 12 SLIDE 4]",
        "[UNBOUNDED SLIDE 4]",
        "[UNBOUNDED SLIDE 4]",
    )


def tuples(rng: Random, at: int) -> list[dict[str, Any]]:
    return [{**row, "punctuation": None} for row in batch(rng, at)]


@pytest.mark.parametrize("seed", SEEDS)
def test_queries_may_come_and_go(seed: int, spark: Any, tmp_path: Path) -> None:
    rng, at = Random(9000 + seed), 0
    story = Joining(rng, spark, tmp_path / "state")
    try:
        for _ in range(rng.randrange(3)):
            story.add_query()
        for _ in range(rng.randrange(6, 11)):
            at += rng.randrange(7)
            story.deposit(tuples(rng, at))
            what = rng.random()
            if what < 0.45 or not story.windows:
                story.add_query()
            elif what < 0.55:
                story.drop_query()
            elif what < 0.7:
                story.restart()
            elif what < 0.8:
                story.promise(at + 2)
            if rng.random() < 0.2:
                story.compare()
        if rng.random() < 0.7:
            story.end()
        story.compare()
    finally:
        story.wr.close()
