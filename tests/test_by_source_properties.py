"""On random streams with random punctuations, kept and broken, the engine answers what and when the oracle does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.matrix import sized
from test_late_properties import check, rows_of

import windrow
from windrow.oracle import Oracle
from windrow.testing import ManualClock

pytestmark = [pytest.mark.slow, pytest.mark.matrix]

SEEDS = range(sized(5, 25, 80))
PUNCTUATE = (
    "PUNCTUATE BY SOURCE",
    "PUNCTUATE BY SOURCE PUNCTUATE ON m BY SOURCE",
    "PUNCTUATE WITH SLACK 4 PUNCTUATE ON m BY SOURCE",
    "PUNCTUATE BY SOURCE PUNCTUATE ON m PER k",
)
LANDMARK, BY_PARTITION = "[SINCE 4 SLIDE 4]", "[ROWS 3 SLIDE 2 PARTITION BY k]"
WINDOWS = (
    "[RANGE 10 SLIDE 5]",
    "[RANGE 10 SLIDE 5]",
    "[RANGE 5 SLIDE 5]",
    "[RANGE 20 SLIDE 10]",
    "[RANGE 4 SLIDE 7]",
    "[RANGE 6 SLIDE 2 OFFSET 3]",
    "[RANGE 5 SLIDE 1 ROW]",
    "[ROWS 4 SLIDE 2]",
    "[RANGE 6 SLIDE 3 WATTR m]",
    BY_PARTITION,
    LANDMARK,
)
SELECTS = (
    "SELECT k, SUM(x) AS s, COUNT(*) AS c FROM s {} GROUP BY k",
    "SELECT k, j, SUM(x) AS s FROM s {} GROUP BY k, j",
    "SELECT j, UPPER(k) AS u, AVG(y) AS a FROM s {} GROUP BY j, UPPER(k)",
    "SELECT k, MAX(y) AS m FROM s {} WHERE x > 2 GROUP BY k HAVING COUNT(*) > 1",
    "SELECT k, SUM(x) AS s FROM s {} GROUP BY k ORDER BY k LIMIT 2",
    "SELECT COUNT(*) AS c FROM s {}",
)


class Story:
    """The engine and the oracle, given the same input."""

    policies: tuple[str, ...] = PUNCTUATE
    kinds: tuple[str, ...] = WINDOWS

    more_columns = ""

    def __init__(self, rng: Random, spark: Any, folder: Path):
        self._rng, self._spark, self._folder = rng, spark, folder
        self._clock = ManualClock("2030-01-01 00:00:00")
        self._settings = {"preaggregate": rng.choice(["driver", "spark"]), "synopsis_blocks": 4, **self.settings()}
        self.wr, self.oracle = self._open(), Oracle(spark, self._clock)
        self.windows: dict[str, str] = {}
        self._made = 0
        columns = f"(n BIGINT, m BIGINT, k STRING, j INT, x INT, y DOUBLE, punctuation STRING{self.more_columns})"
        punctuate = rng.choice(self.policies)
        self._windows = [window for window in self.kinds if "ON m" in punctuate or "WATTR m" not in window]
        self._sql(f"CREATE STREAM s {columns} FROM memory TIMESTAMP BY n {punctuate}")

    def settings(self) -> dict[str, Any]:
        return {}

    def select(self) -> str:
        """A query with {} in place of its window."""
        return self._rng.choice(SELECTS)

    def _open(self) -> Any:
        return windrow.open(self._folder, spark=self._spark, settings=self._settings, clock=self._clock)

    def _sql(self, text: str) -> None:
        self.wr.sql(text)
        self.oracle.sql(text)

    def restart(self) -> None:
        self.wr.close()
        self.wr = self._open()

    def add_query(self) -> None:
        window, name = self._rng.choice(self._windows), f"q{self._made}"
        self._made += 1
        self._sql(f"CREATE QUERY {name} AS {self.select().format(window)}")
        if "PARTITION" not in window:
            self.oracle.begin(name, self.wr._engine.manager.query(name)[1].since)
        self.windows[name] = window

    def drop_query(self) -> None:
        name = self._rng.choice(list(self.windows))
        self._sql(f"DROP QUERY {name}")
        del self.windows[name]

    def deposit(self, rows: list[dict[str, Any]]) -> None:
        self.wr.deposit("s", rows)
        self.oracle.deposit("s", rows)

    def promise(self, upto: int, **pattern: Any) -> None:
        self.wr.punctuate("s", upto, **pattern)
        self.oracle.punctuate("s", upto, **pattern)

    def end(self) -> None:
        """The end of landmark windows depends on the other queries."""
        if not any("SINCE" in window or "UNBOUNDED" in window for window in self.windows.values()):
            self.wr.end_input("s")
            self.oracle.end_input("s")

    def compare(self) -> None:
        mine = Counter[str]()
        for row in self.wr.sql("SELECT * FROM dead_letters('s')").rows():
            mine[row["reason"].split()[0]] += row["rows"]
        assert mine == Counter(letter.reason.value for letter in self.oracle.dead_letters("s"))
        for name in self.windows:
            found = rows_of(self.wr.queries[name].answers().arrow().drop_columns(["is_revision"]))
            check(found, self.oracle.answers(name).rows, f"the answers of {name} {self.windows[name]}")


def pattern(rng: Random, at: int) -> str:
    """Mostly promises of a well-behaved source, sometimes bolder ones, sometimes nonsense."""
    bound = at + rng.choice([-8, -4, -1, 0, 1, 5])
    on = rng.choice(["n", "n", "n", "m"])
    said = [rng.choice([f"{on} < {bound}", f"{on} <= {bound}"])]
    if rng.random() < 0.8:
        said.append(
            rng.choice(
                [
                    f"k = '{rng.choice('abc')}'",
                    "k IN ('a', 'c', 'a')",
                    "k = NULL",
                    f"j = {rng.randrange(3)}",
                    "j BETWEEN 1 AND 5",
                    "k > 'a'",
                    f"k = 'b', j = {rng.randrange(3)}",
                    "y < 1",
                ]
            )
        )
    what = rng.random()
    if what < 0.04:
        return rng.choice(["k = 'b'", "k = 'c', j = 1", f"n BETWEEN {at} AND {at + 2}", f"n < {at}, m < {at}"])
    if what < 0.08:
        return rng.choice(["n < ", "when = 3", "k = 3, n < 5"])
    rng.shuffle(said)
    return ", ".join(said)


def batch(rng: Random, at: int) -> list[dict[str, Any]]:
    out = []
    for _ in range(rng.randrange(1, 9)):
        n = at + rng.choice([0, 1, 2, 3, 5, 8, -1, -2, -5, -9])
        row = {"n": n, "m": n + rng.choice([0, 0, 1, -1, 5, -8]), "k": rng.choice(["a", "b", "c", None])}
        row |= {"j": rng.choice([0, 1, 2, None]), "x": rng.choice([None, 1, 2, 3, 4, 5])}
        row |= {"y": rng.choice([None, 0.1, 0.2, 77.7, float("nan")]), "punctuation": None}
        if rng.random() < 0.25:
            row["punctuation"] = pattern(rng, at)
        out.append(row)
    return out


@pytest.mark.parametrize("seed", SEEDS)
def test_punctuations_of_the_source(seed: int, spark: Any, tmp_path: Path) -> None:
    rng, at = Random(7000 + seed), 0
    story = Story(rng, spark, tmp_path / "state")
    try:
        for _ in range(4):
            story.add_query()
        for _ in range(rng.randrange(5, 10)):
            at += rng.randrange(7)
            story.deposit(batch(rng, at))
            what = rng.random()
            if what < 0.1:
                story.promise(at - 2)
            elif what < 0.2:
                story.promise(at + 2, k=rng.choice(["a", "b", None]))
            elif what < 0.4:
                story.restart()
            elif what < 0.55:
                story.add_query()
            if rng.random() < 0.2:
                story.compare()
        if rng.random() < 0.7:
            story.end()
        story.compare()
    finally:
        story.wr.close()
