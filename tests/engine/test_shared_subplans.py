"""Queries with the same sub-plan: it runs once and its state is kept once; the same changes as alone."""

from __future__ import annotations

from typing import Any

import pytest

import windrow
from engine.conftest import Open

STREAMS = [
    f"CREATE STREAM {name} (t BIGINT, k STRING, g INT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
    for name in ("r", "s")
]
ONCE = "SELECT DISTINCT k, g FROM r [RANGE 7]"
COUNTS = "FROM r [RANGE 6] GROUP BY k"
PAIRS = "SELECT DISTINCT r.k, s.g FROM r [RANGE 6], s [RANGE 4] WHERE r.k = s.k"
QUERIES = {
    "once": ONCE,
    "renamed": "SELECT DISTINCT k AS key, g AS value FROM r [RANGE 7]",
    "some": f"SELECT g FROM ({ONCE})",
    "came": f"SELECT ISTREAM(k, g) FROM ({ONCE})",
    "per": f"SELECT k, COUNT(*) AS n FROM ({ONCE}) GROUP BY k",
    "often": f"SELECT k, COUNT(*) AS n, SUM(x) AS total {COUNTS} HAVING COUNT(*) > 1",
    "rare": f"SELECT k, SUM(x) AS total, COUNT(*) AS n {COUNTS} HAVING COUNT(*) < 3",
    "frequent": f"SELECT k AS name, COUNT(*) AS often, SUM(x) AS y {COUNTS} HAVING COUNT(*) > 2 ORDER BY k",
    "pairs": PAIRS,
    "few": f"SELECT k FROM ({PAIRS})",
    "both": f"{ONCE} UNION ALL SELECT k, x FROM s [RANGE 3]",
    "mixed": f"SELECT DISTINCT k FROM ({ONCE} UNION ALL SELECT k, x FROM s [RANGE 3])",
    "beside": f"SELECT s.x, d.g FROM s [RANGE 3] JOIN ({ONCE}) AS d ON s.k = d.k",
    "aside": f"SELECT s.g, d.k, d.g AS h FROM s [RANGE 5] JOIN ({ONCE}) AS d ON s.k = d.k WHERE s.x > 1",
    "wider": "SELECT DISTINCT k, g FROM r [RANGE 8]",
}
ANYWHERE = ({"once", "renamed", "some", "came"}, {"often", "frequent"}, {"pairs", "few"}, {"beside", "aside"})
SHARERS = {
    "driver": (*ANYWHERE, {"once", "per"}, {"both", "mixed"}),
    "spark": ANYWHERE,  # the others read stores with other buckets
}
ALONE = {"disabled_rules": "share_subplans"}
HOMES = ["driver", pytest.param("spark", marks=pytest.mark.slow)]


def feed(wr: windrow.Windrow, number: int) -> None:
    for stream, name in enumerate(("r", "s")):
        rows = []
        for i in range(9):
            n = number * 9 + i
            key = None if (n + stream) % 11 == 0 else "abcde"[(n * (stream + 1)) % 5]
            rows.append((number * 5 + i // 2, key, (n + stream) % 3, (n * 7) % 5))
        wr.deposit(name, rows)


def create(wr: windrow.Windrow, *names: str) -> None:
    for name in names:
        wr.sql(f"CREATE QUERY {name} AS {QUERIES[name]}")


def opened(open_state: Open, name: str = "together", **settings: Any) -> windrow.Windrow:
    wr = open_state(name, **settings)
    for text in STREAMS:
        wr.sql(text)
    return wr


def bag(wr: windrow.Windrow, name: str) -> list[str]:
    query = wr.queries[name]
    rows = sorted(map(str, query.changes().arrow().to_pylist()))
    if name == "came" or wr._engine.plans.query(name).error is not None:
        return rows
    return [*rows, *sorted(map(str, query.view().arrow().to_pylist()))]


def partners(wr: windrow.Windrow, name: str) -> set[str]:
    return {other for names in wr._engine.plans.query(name).shares_subplans.values() for other in names}


def state_rows(wr: windrow.Windrow, name: str) -> list[tuple[Any, ...]]:
    """Where the parts of a query's state are."""
    query = wr._engine.plans.query(name)
    found = wr._engine.catalog.rows(
        "SELECT block, offset FROM plan_parts WHERE plan = ? AND kind = 'state' ORDER BY 1, 2", (query.id,)
    )
    return [tuple(row) for row in found]


@pytest.mark.parametrize("home", HOMES)
def test_changes_are_those_of_queries_that_share_nothing(open_state: Open, home: str) -> None:
    wr, alone = opened(open_state, plan_home=home), opened(open_state, "alone", **ALONE)
    for one in (wr, alone):
        create(one, *QUERIES)
        for number in range(5):
            feed(one, number)
    for name in QUERIES:
        assert bag(wr, name) == bag(alone, name) != [], name
        assert partners(alone, name) == set()
    for names in SHARERS[home]:
        assert all(partners(wr, name) >= names - {name} for name in names), names
    assert partners(wr, "wider") == set()
    assert "it ran once for " in str(wr.queries["once"].explain())


def test_state_is_kept_once(open_state: Open) -> None:
    wr = opened(open_state)
    create(wr, "once", "renamed", "some")
    for number in range(30):  # merged now and then
        feed(wr, number)
        assert state_rows(wr, "once") == state_rows(wr, "renamed") == state_rows(wr, "some") != []
    tables = [next(iter(wr._engine.plans.query(name).version.state.tables.values())) for name in ("once", "renamed")]
    assert tables[0] is tables[1]


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("first", ["once", "some"])
def test_queries_come_and_go(open_state: Open, first: str, home: str) -> None:
    """One is dropped, another is suspended, one comes back, and there is a restart; whoever is there goes on."""
    names = ("once", "some", "per", "often", "frequent")

    def story(wr: windrow.Windrow, name: str, **settings: Any) -> windrow.Windrow:
        create(wr, *names)
        for number in range(8):
            if number == 2:
                wr.sql(f"DROP QUERY {first}")
            if number == 3:
                wr._engine.plan_ticker.suspend(wr._engine.plans.query("per"), "by the test")
            if number == 4:
                wr.close()
                wr = open_state(name, **settings)
            if number == 5:
                create(wr, first)
            feed(wr, number)
        return wr

    wr = story(opened(open_state, plan_home=home), "together", plan_home=home)
    alone = story(opened(open_state, "alone", **ALONE), "alone", **ALONE)
    for name in names:
        assert bag(wr, name) == bag(alone, name) != [], name
    assert partners(wr, "often") == {"frequent"}


def test_states_that_differ_are_not_shared(open_state: Open) -> None:
    """A query that came later has seen less, until that has left the windows."""
    wr = opened(open_state)
    create(wr, "often")
    for number in range(2):
        feed(wr, number)
    create(wr, "frequent")
    feed(wr, 2)
    assert partners(wr, "often") == set()


def test_a_query_whose_sink_fails_shares_again(open_state: Open) -> None:
    wr = opened(open_state)

    class Sink:
        fails = False

        def write(self, batch: Any) -> None:
            if self.fails:
                raise OSError("the disk of the sink is full")

    wr.query("held", ONCE, sink=Sink())
    create(wr, "once", "some")
    for number in range(8):
        Sink.fails = number in (3, 4)
        if Sink.fails:
            with pytest.raises(OSError, match="disk of the sink"):
                feed(wr, number)
        else:
            feed(wr, number)
    assert bag(wr, "held") == bag(wr, "once")
    assert partners(wr, "held") == {"once", "some"}
