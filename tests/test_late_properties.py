"""With late tuples under LATE REVISE or generous slack, the engine delivers what the oracle does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.matrix import sized

import windrow
from windrow.oracle import Oracle
from windrow.oracle.values import equal_rows, sort_key
from windrow.testing import ManualClock

pytestmark = [pytest.mark.slow, pytest.mark.matrix]

SEEDS = range(sized(4, 20, 60))
Row = tuple[Any, ...]
GENEROUS = ""
LATE = (GENEROUS, "LATE REVISE", "LATE REVISE FOR 6", "LATE REVISE FOR 15")
PUNCTUATE = (
    "PUNCTUATE ORDERED",
    "PUNCTUATE WITH SLACK 3",
    "PUNCTUATE WITH SLACK 2 ROWS",
    "PUNCTUATE PER k IDLE AFTER 6",
    "PUNCTUATE ORDERED PUNCTUATE ON m WITH SLACK 2",
)
BY_RANK, BY_PARTITION = "[RANGE 6 SLIDE 2 ROWS SATTR rank(n)]", "[ROWS 3 SLIDE 2 PARTITION BY k]"
LANDMARKS = ("[SINCE 10 SLIDE 4]", "[UNBOUNDED SLIDE 8]")
WINDOWS = (
    "[RANGE 10 SLIDE 5]",
    "[RANGE 4 SLIDE 7]",
    "[RANGE 6 SLIDE 2 OFFSET 3]",
    "[RANGE 5 SLIDE 1 ROW]",
    "[NOW]",
    "[RANGE 7 SLIDE 3 ROWS]",
    "[ROWS 4 SLIDE 2]",
    BY_RANK,
    BY_PARTITION,
    *LANDMARKS,
)
SELECTS = (
    "SELECT k, SUM(x) AS s, COUNT(*) AS c FROM s {} GROUP BY k",
    "SELECT COUNT(*) AS c, MAX(x) AS m FROM s {} WHERE x > 2",
    "SELECT k, MIN(x) AS m FROM s {} GROUP BY k HAVING COUNT(*) > 1",
    "SELECT AVG(y) AS a, STDDEV(y) AS d FROM s {}",
    "SELECT k, SUM(y) AS y FROM s {} GROUP BY k ORDER BY k LIMIT 2",
)


class Pair:
    """The engine and the oracle, given the same input."""

    def __init__(self, rng: Random, spark: Any, folder: Path):
        self._rng, self._spark, self._folder = rng, spark, folder
        self._clock = ManualClock("2030-01-01 00:00:00")
        self._settings = {"preaggregate": rng.choice(["driver", "spark"]), "synopsis_blocks": 4}
        self.late, self.punctuate = rng.choice(LATE), rng.choice(PUNCTUATE)
        self.wr, self.oracle = self._open(), Oracle(spark, self._clock)
        self.windows: dict[str, str] = {}
        if self.late == GENEROUS:
            self._sql("SET slack_meaning = 'generous'")
        columns = "(n BIGINT, m BIGINT, k STRING, x INT, y DOUBLE)"
        self._sql(f"CREATE STREAM s {columns} FROM memory TIMESTAMP BY n {self.punctuate} {self.late}")

    def _open(self) -> Any:
        return windrow.open(self._folder, spark=self._spark, settings=self._settings, clock=self._clock)

    def _sql(self, text: str) -> None:
        self.wr.sql(text)
        self.oracle.sql(text)

    def restart(self) -> None:
        self.wr.close()
        self.wr = self._open()

    def add_query(self) -> None:
        # By rank, the oracle omits a tuple that is late on another column even if it is in time on this one.
        unclear = self.late == GENEROUS and "ON m" in self.punctuate
        window = self._rng.choice([w for w in WINDOWS if w != BY_RANK or not unclear])
        name = f"q{len(self.windows)}"
        self._sql(f"CREATE QUERY {name} AS {self._rng.choice(SELECTS).format(window)}")
        if window != BY_PARTITION:
            self.oracle.begin(name, self.wr._engine.manager.query(name)[1].since)
        self.windows[name] = window

    def deposit(self, rows: list[dict[str, Any]]) -> None:
        self.wr.deposit("s", rows)
        self.oracle.deposit("s", rows)

    def promise(self, upto: int) -> None:
        self.wr.punctuate("s", upto)
        self.oracle.punctuate("s", upto)

    def end(self) -> None:
        """The end of landmark windows depends on the other queries."""
        if not any(window in LANDMARKS for window in self.windows.values()):
            self.wr.end_input("s")
            self.oracle.end_input("s")

    def compare(self) -> None:
        mine = Counter[str]()
        for row in self.wr.sql("SELECT * FROM dead_letters('s')").rows():
            mine[row["reason"].split()[0]] += row["rows"]
        assert mine == Counter(letter.reason.value for letter in self.oracle.dead_letters("s"))
        for name in self.windows:
            query = self.wr.queries[name]
            net = rows_of(query.answers().arrow().drop_columns(["is_revision"]))
            check(net, self.oracle.answers(name).rows, f"the answers of {name}")
            if self.late != GENEROUS:
                check(rows_of(query.revisions().arrow()), self.oracle.revisions(name), f"what {name} delivered")


def rows_of(table: Any) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def check(found: Sequence[Row], expected: Sequence[Row], what: str) -> None:
    some, others = sorted(found, key=sort_key), sorted(expected, key=sort_key)
    same = len(some) == len(others) and all(map(equal_rows, some, others))
    assert same, f"{what} differ\n  engine {some}\n  oracle {others}"


def rows(rng: Random, at: int) -> list[dict[str, Any]]:
    """Tuples around a point, some far behind it."""
    out = []
    for _ in range(rng.randrange(1, 7)):
        n = at + rng.choice([0, 1, 2, 3, -1, -2, -5, -9, -14, -25])
        m = n + rng.choice([0, 0, 0, 1, -1, 5, -8])
        k, x, y = (
            rng.choice(["a", "b", "c", None]),
            rng.choice([None, 1, 2, 3, 4, 5]),
            rng.choice([None, 0.1, 0.2, 77.7]),
        )
        out.append({"n": n, "m": m, "k": k, "x": x, "y": y})
    return out


@pytest.mark.parametrize("seed", SEEDS)
def test_late_tuples(seed: int, spark: Any, tmp_path: Path) -> None:
    rng, at = Random(1000 + seed), 0
    pair = Pair(rng, spark, tmp_path / "state")
    try:
        for _ in range(4):
            pair.add_query()
        for _ in range(rng.randrange(4, 9)):
            at += rng.randrange(12)
            pair.deposit(rows(rng, at))
            what = rng.random()
            if what < 0.1:
                pair.promise(at + 3)
            elif what < 0.3:
                pair.restart()
            elif what < 0.4:
                pair.add_query()
        if rng.random() < 0.7:
            pair.end()
        pair.compare()
    finally:
        pair.wr.close()
