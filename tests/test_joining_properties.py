"""While queries of every kind come and go on a running stream, the engine answers as the oracle does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.matrix import sized
from test_by_source_properties import Story, batch

from windrow.settings import SHARING_RULES

pytestmark = [pytest.mark.slow, pytest.mark.matrix]

SEEDS = range(sized(0, 25, 80)) or (1, 3, 17, 20)
"""17 and 20 once failed: landmark windows that joined late forgot their past."""


class Joining(Story):
    """Windows of every kind, often repeated so that they share; late tuples are dropped or revise answers."""

    at_first = 3
    """Fewer queries than this exist when the stream begins."""

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


class Sharing(Joining):
    """Queries over a few randomly combined conditions, so that one's accumulators cover another's (SS4), and over
    windows of one length with several slides (CS8). Rules are on or off."""

    at_first = 7
    _lists: Sequence[str] = ()
    _few: Sequence[str] = ()
    _keys = ""

    kinds = (
        "[RANGE 10 SLIDE 5]",
        "[RANGE 10 SLIDE 10]",
        "[RANGE 10 SLIDE 10]",
        "[RANGE 20 SLIDE 5]",
        "[UNBOUNDED SLIDE 5]",
    )
    parts = (
        "j = 0",
        "j = 1",
        "j IN (2, 1)",
        "j IS NULL",
        "x > 3",
        "x <= 3",
        "k = 'a'",
        "j = 0 AND x > 3",
        "y < 50",
        "j % 2 = 0",
    )
    aggregates = (
        "COUNT(*) AS c",
        "SUM(x) AS s, COUNT(*) AS c",
        "MAX(x) AS top, MIN(k) AS low",
        "AVG(y) AS a",
        "VARIANCE(x) AS v",
        "SUM(CAST(x AS DECIMAL(6, 2))) AS d, COUNT(y) AS n",
        "SUM(x) FILTER (WHERE {}) AS f, MAX(y) AS m",
    )

    def settings(self) -> dict[str, Any]:
        off = self._rng.choice(["", "", "SS4", self._rng.choice(SHARING_RULES), ",".join(SHARING_RULES)])
        return {"disabled_rules": off}

    def condition(self) -> str:
        """One to three parts joined by OR, mostly from three fixed ones, often exclusive values of one attribute."""
        parts = self._few if self._rng.random() < 0.9 else self.parts
        return " OR ".join(self._rng.sample(parts, self._rng.choice([1, 1, 2, 2, 3])))

    def select(self) -> str:
        """A SELECT with one of two aggregate lists, mostly with the same keys."""
        if not self._lists:
            self._lists, self._keys = self._rng.sample(self.aggregates, 2), self._rng.choice(["", "k"])
            self._few = self._rng.sample(self.parts[:4] if self._rng.random() < 0.6 else self.parts, 3)
        keys = self._keys if self._rng.random() < 0.8 else "j"
        aggregates = self._rng.choice(self._lists).format(self.condition())
        where = f" WHERE {self.condition()}" if self._rng.random() < 0.9 else ""
        by = f" GROUP BY {keys}" if keys else ""
        return f"SELECT {keys + ', ' if keys else ''}{aggregates} FROM s {{}}{where}{by}"


@pytest.mark.parametrize("seed", SEEDS)
def test_queries_that_come_and_go(seed: int, spark: Any, tmp_path: Path) -> None:
    play(Joining, Random(9000 + seed), spark, tmp_path / "state")


@pytest.mark.parametrize("seed", range(sized(3, 20, 80)))
def test_sharing_by_predicates(seed: int, spark: Any, tmp_path: Path) -> None:
    play(Sharing, Random(4000 + seed), spark, tmp_path / "state")


def play(kind: type[Joining], rng: Random, spark: Any, folder: Path) -> None:
    """A running stream, queries that come and go, and restarts."""
    at, story = 0, kind(rng, spark, folder)
    try:
        for _ in range(rng.randrange(kind.at_first)):
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
