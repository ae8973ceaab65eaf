"""With SubStream Filters forced on, the engine answers HAVING as the oracle does, while queries come and go."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.matrix import sized
from test_by_source_properties import Story
from test_joining_properties import tuples

from windrow.synopses.answering.planner import HavingWay
from windrow.synopses.kinds import basic_interval

pytestmark = [pytest.mark.slow, pytest.mark.matrix]

SEEDS = range(sized(4, 20, 60))
BOUNDS = ("COUNT(*)", "COUNT(x)", "SUM(x)", "SUM(z)", "MAX(x)", "MIN(x)", "MAX(y)", "COUNT(x) FILTER (WHERE x > 2)")
LISTS = ("k", "k, COUNT(*) AS c", "k, SUM(y) AS s, MIN(x) AS m", "k, j, MAX(n) - MIN(n) AS d", "j, AVG(x) AS a")
REST = ("", "", "", " AND k IS NOT NULL", " AND COUNT(x) >= 1", " OR k = 'a'")
VALUES = (-1, 0, 1, 2, 3, 4, 6, 9, 2.5)


class Thresholds(Story):
    """Many thresholds and windows over the same groups, which share synopses and filters."""

    policies = (
        "PUNCTUATE ORDERED",
        "PUNCTUATE WITH SLACK 3",
        "PUNCTUATE WITH SLACK 3 LATE REVISE",
        "PUNCTUATE WITH SLACK 3 LATE REVISE FOR 6",
        "PUNCTUATE PER k IDLE AFTER 20",
        "PUNCTUATE BY SOURCE",
    )
    kinds = (
        "[RANGE 10 SLIDE 5]",
        "[RANGE 10 SLIDE 5]",
        "[RANGE 20 SLIDE 5]",
        "[RANGE 30 SLIDE 10]",
        "[RANGE 4 SLIDE 7]",
        "[RANGE 6 SLIDE 2 OFFSET 3]",
        "[ROWS 6 SLIDE 2]",
        "[SINCE 3 SLIDE 5]",
        "[RANGE 5 SLIDE 1 ROW]",
    )

    more_columns = ", z INT"

    def settings(self) -> dict[str, Any]:
        return {"substream_filters": "on"}

    def add_query(self) -> None:
        rng, name = self._rng, f"q{self._made}"
        window, listed = rng.choice(self._windows), rng.choice(LISTS)
        grouped = ", ".join(column for column in ("k", "j") if column in listed.split(", "))
        having = f"{rng.choice(BOUNDS)} {rng.choice(['>', '>', '>=', '<', '<='])} {rng.choice(VALUES)}"
        if rng.random() < 0.2:
            having = f"{rng.choice(BOUNDS)} BETWEEN {rng.choice((0, 1, 2))} AND {rng.choice((3, 5))}"
        where = rng.choice(["", "", " WHERE x > 1"])
        keys = f"k, {listed}" if not listed.startswith("k") else listed
        select = f"SELECT {keys} FROM s {window}{where} GROUP BY {_keys(grouped)} HAVING {having}{rng.choice(REST)}"
        self.add(name, select)

    def add(self, name: str, select: str) -> None:
        self._made += 1
        self._sql(f"CREATE QUERY {name} AS {select}")
        self.oracle.begin(name, self.wr._engine.manager.query(name)[1].since)
        self.windows[name] = select


def _keys(grouped: str) -> str:
    return grouped if "k" in grouped else f"k, {grouped}"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renumber groups as soon as half of them have left."""
    monkeypatch.setattr(basic_interval, "FEW_GROUPS", 3)


def values(rng: Random, at: int) -> list[dict[str, Any]]:
    """Tuples whose x is positive or null, and whose z may be anything."""
    return [{**row, "z": rng.choice([1, 2, 3, 3, None, 0, -4])} for row in tuples(rng, at)]


@pytest.mark.parametrize("seed", SEEDS)
def test_having_through_filters(seed: int, spark: Any, tmp_path: Path) -> None:
    rng, at, used = Random(4000 + seed), 0, 0
    story = Thresholds(rng, spark, tmp_path / "state")
    try:
        story.add("q0", "SELECT k, COUNT(*) AS c FROM s [RANGE 10 SLIDE 5] GROUP BY k HAVING COUNT(*) > 1")
        for _ in range(4):
            story.add_query()
        for _ in range(rng.randrange(6, 10)):
            at += rng.choice([1, 3, 6, 40])
            story.deposit(values(rng, at))
            states = story.wr._engine.manager.stream("s").synopses.values()
            used += sum(
                decision.chosen is HavingWay.FILTER for state in states for decision in state.having.decisions.values()
            )
            what = rng.random()
            if what < 0.35 or not story.windows:
                story.add_query()
            elif what < 0.45:
                story.drop_query()
            elif what < 0.6:
                story.restart()
            elif what < 0.75:
                story.promise(at + 2)
        if rng.random() < 0.7:
            story.end()
        story.compare()
        assert used or seed  # without punctuation hardly a window closes
    finally:
        story.wr.close()
