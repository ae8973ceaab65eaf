"""While synopses move between driver and Spark and queries come and go, the engine answers as the oracle does."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.matrix import sized
from test_joining_properties import Joining, tuples

pytestmark = [pytest.mark.slow, pytest.mark.matrix]

SEEDS = range(sized(3, 15, 40))


class Moving(Joining):
    """Mostly windows that may be in the Spark home; late tuples are dropped or revise answers."""

    policies = (
        "PUNCTUATE ORDERED",
        "PUNCTUATE WITH SLACK 3",
        "PUNCTUATE WITH SLACK 3",
        "PUNCTUATE WITH SLACK 3 PUNCTUATE ON m WITH SLACK 8",
        "PUNCTUATE WITH SLACK 3 LATE REVISE",
        "PUNCTUATE WITH SLACK 3 LATE REVISE FOR 6",
        "PUNCTUATE WITH SLACK 3 PUNCTUATE ON m WITH SLACK 8 LATE REVISE",
    )
    kinds = (
        "[RANGE 10 SLIDE 5]",
        "[RANGE 10 SLIDE 5]",
        "[RANGE 4 SLIDE 7]",
        "[RANGE 6 SLIDE 2 OFFSET 3]",
        "[RANGE 5 SLIDE 1 ROW]",
        "[NOW]",
        "[RANGE 6 SLIDE 3 WATTR m]",
        "[UNBOUNDED SLIDE 4]",
        "[SINCE 3 SLIDE 5]",
        "[RANGE 5 SLIDE 2 ROWS]",
    )

    def move(self) -> None:
        self.wr.sql(f"SET synopsis_home = '{self._rng.choice(['driver', 'spark', 'spark'])}'")


@pytest.mark.parametrize("seed", SEEDS)
def test_synopses_that_move(seed: int, spark: Any, tmp_path: Path) -> None:
    rng, at = Random(4000 + seed), 0
    story = Moving(rng, spark, tmp_path / "state")
    try:
        if not story.wr._engine.manager.stream("s").definition.revises:  # LATE REVISE overrides slack_meaning
            meaning = rng.choice(["consistent", "generous"])
            story.wr.sql(f"SET slack_meaning = '{meaning}'")
            story.oracle.sql(f"SET slack_meaning = '{meaning}'")
        for _ in range(rng.randrange(2, 5)):
            story.add_query()
        for _ in range(rng.randrange(6, 10)):
            at += rng.randrange(7)
            story.move()
            story.deposit(tuples(rng, at))
            what = rng.random()
            if what < 0.3 or not story.windows:
                story.add_query()
            elif what < 0.4:
                story.drop_query()
            elif what < 0.55:
                story.restart()
            elif what < 0.65:
                story.promise(at + 2)
            elif what < 0.7 and "REVISE" not in str(story.wr._engine.manager.stream("s").definition.statement):
                story.promise(at + 1, k="a")
        if rng.random() < 0.7:
            story.end()
        story.compare()
    finally:
        story.wr.close()
