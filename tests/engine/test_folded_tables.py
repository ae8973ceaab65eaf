"""Queries over tables whose earlier changes are folded into their rows: what they held before is not known any more."""

from __future__ import annotations

from typing import Any

import pytest
from support.replay import changes_of, replay, same_bag

from engine.conftest import STREAM, Open
from windrow.engine.tables import commits as table_commits
from windrow.errors import StateError
from windrow.oracle import Oracle

LOG = "CREATE STREAM log (t BIGINT, k STRING, name STRING) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
TABLES = (
    "CREATE TABLE present (k STRING PRIMARY KEY, name STRING) FROM STREAM log",
    "CREATE TABLE past (k STRING PRIMARY KEY, name STRING) NON RETROACTIVE FROM STREAM log",
)
NOW = "SELECT s.k, x, name FROM s [RANGE 30] JOIN present ON s.k = present.k"
OUTER = "SELECT s.k, x, name FROM s [RANGE 30] RIGHT JOIN present ON s.k = present.k"
THEN = "SELECT s.k, x, name FROM s [RANGE 30] LEFT JOIN past ON s.k = past.k"
READERS = (
    "CREATE QUERY reader AS SELECT k, x FROM s [RANGE 100]",
    "CREATE QUERY joined AS SELECT a.k, a.x FROM s [RANGE 100] AS a JOIN s [RANGE 100] AS b ON a.k = b.k",
    "CREATE QUERY pairs AS SELECT COUNT(*) AS n FROM s [RANGE 100] AS a JOIN s [RANGE 100] AS b ON a.x < b.x AND a.k > b.k",
)
"""By which the tuples of s are kept."""
Row = tuple[Any, ...]


class Both:
    """The engine and the oracle, to which the same happens."""

    def __init__(self, open_state: Open, spark: Any):
        self._open, self.wr, self.oracle = open_state, open_state(), Oracle(spark)

    def sql(self, text: str) -> None:
        self.wr.sql(text)
        self.oracle.sql(text)

    def deposit(self, stream: str, *rows: Row) -> None:
        self.wr.deposit(stream, list(rows))
        self.oracle.deposit(stream, list(rows))

    def name(self, stream: str, points: range) -> None:
        """Changes of the tables, each a micro-batch of its own."""
        for t in points:
            self.deposit(stream, (t, "ab"[t // 10 % 2], f"n{t}"))

    def restart(self) -> None:
        self.wr.close()
        self.wr = self._open()

    def create(self, name: str, select: str) -> str:
        """Create a query; returns what is told of its answers. The oracle counts the tuples that the engine counts."""
        self.sql(f"CREATE QUERY {name} AS {select}")
        running = self.wr._engine.plans.query(name)
        self.oracle.begin(name, {running.plan.windows[0].stream: running.uses[0].since})
        (row,) = [one for one in self.wr.sql("SHOW QUERIES").rows() if one["name"] == name]
        return str(row["completeness"])

    def known_from(self, table: str) -> int:
        return int(self.wr._engine.tables.table(table).base.known_from)

    def changes(self, name: str) -> list[Row]:
        table = self.wr.queries[name].changes().arrow()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def check(self, name: str, known: int) -> None:
        """Compare with the oracle at all ticks from that on at which the table is known."""
        plan, ticks = self.oracle.plan(name), [tick for tick in self.oracle.ticks(name) if tick >= known]
        assert ticks
        found = replay(changes_of(self.changes(name), plan.attribute), ticks, plan.first_above)
        for tick, expected in self.oracle.relations(name, ticks).items():
            assert same_bag(found[tick], expected), (name, tick)


@pytest.fixture
def both(open_state: Open, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Both:
    """Two tables that have folded most changes up to 70, and a stream that is at 16."""
    monkeypatch.setattr(table_commits, "FEW_CHANGES", 2)
    made = Both(open_state, spark)
    for text in (STREAM, LOG, *TABLES, *READERS):
        made.sql(text)
    made.deposit("s", (5, "a", 5), (16, "b", 16))
    made.name("log", range(0, 80, 10))
    made.restart()
    assert made.known_from("present") == made.known_from("past") > 40
    return made


def test_streams_that_lag_behind_the_table(both: Both) -> None:
    known = both.known_from("present")
    late = f"it begins at {known}: what its tables held before is not kept; every answer is complete"
    assert both.create("now", NOW) == both.create("outer_now", OUTER) == late
    assert both.create("seen", THEN) == f"answers before {known + 30} are partial"
    both.deposit("s", (20, "a", 20), (known - 10, "b", 1))
    assert both.changes("now") == both.changes("outer_now") == both.changes("seen") == []
    # What they will need is kept, though nothing of the tables is in effect for them.
    both.name("log", range(80, 150, 10))
    both.restart()
    for t in range(known - 5, 130, 24):
        both.deposit("s", *((i, "ab"[i % 2], i) for i in range(t, t + 24, 3)))
    for name in ("now", "outer_now", "seen"):
        both.check(name, known)
    told = {row["name"]: row["completeness"] for row in both.wr.sql("SHOW QUERIES").rows()}
    assert told["now"] == told["outer_now"] == "every answer is complete"


def test_streams_that_have_passed_the_table(both: Both) -> None:
    both.deposit("s", *((t, "ab"[t % 2], t) for t in range(21, 100, 3)))
    known = both.known_from("past")
    assert both.create("now", NOW) == "every answer is complete"
    assert both.create("seen", THEN) == f"answers before {known + 30} are partial"
    for t in range(80, 130, 10):
        both.name("log", range(t, t + 1))
        both.deposit("s", (t + 20, "a", t), (t + 24, "b", t))
    for name in ("now", "seen"):
        both.check(name, known)


def test_an_empty_stream(both: Both) -> None:
    """A query over a stream without tuples does not begin before the table is known, either."""
    both.sql(STREAM.replace("STREAM s", "STREAM r"))
    known = both.known_from("present")
    assert "it begins at" in both.create("q", NOW.replace("s.k", "r.k").replace("FROM s", "FROM r"))
    both.deposit("r", (20, "a", 1), (30, "a", 2), (known + 5, "a", 3))
    both.check("q", known)


def test_replacing_at_a_tick_that_is_not_known(both: Both) -> None:
    wr = both.wr
    with pytest.raises(StateError, match="what its tables held then is not kept"):
        wr.sql("CREATE OR REPLACE QUERY reader AS " + NOW.replace(", name", ""))
    wr.sql("CREATE OR REPLACE QUERY reader AS SELECT s.k, x FROM s [RANGE 5] LEFT JOIN past ON s.k = past.k")
    assert wr._engine.plans.query("reader").uses[0].since == both.known_from("past")


def test_known_from_is_durable(both: Both) -> None:
    """The first point that is known is durable, and moves when more is folded."""
    before = both.known_from("past")
    both.name("log", range(80, 120, 10))
    after = both.known_from("past")
    both.restart()
    assert before < after == both.known_from("past")
