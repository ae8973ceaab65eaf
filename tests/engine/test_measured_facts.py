"""Queries are planned by what is measured of streams that have run."""

from __future__ import annotations

import pytest

import windrow
from engine.conftest import Open
from windrow.engine.kept.measured_facts import measured_facts

THREE = "SELECT a.x FROM a [RANGE 50], b [RANGE 50], c [RANGE 50] WHERE a.k = b.k AND b.k = c.k"
ROWS = {"a": 4000, "b": 400, "c": 200}


@pytest.fixture
def ran(open_state: Open) -> windrow.Windrow:
    """Streams with 40, 4 and 2 tuples per point."""
    wr = open_state()
    for name in ROWS:
        wr.sql(f"CREATE STREAM {name} (t BIGINT, k INT, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    wr.query("pairs", "SELECT a.x FROM a [RANGE 100], c [RANGE 100] WHERE a.k = c.k AND a.x <> c.x")
    wr.query("some", "SELECT a.x FROM a [RANGE 100], c [RANGE 100] WHERE a.k = c.k AND a.x = 1")
    for name, count in ROWS.items():
        wr.deposit(name, [(i * 100 // count, i % 20, i % 8) for i in range(count)])
    return wr


def facts(wr: windrow.Windrow) -> dict[str, object]:
    return dict(measured_facts(wr._engine.manager.streams.values(), wr._engine.opened.stores))


def test_rates_values_and_selectivity(ran: windrow.Windrow) -> None:
    found = facts(ran)
    rates = {name: found[name].rate for name in ROWS}  # type: ignore[attr-defined]
    assert rates == {"a": pytest.approx(40, rel=0.05), "b": pytest.approx(4, rel=0.05), "c": pytest.approx(2, rel=0.05)}
    assert [found[name].distinct["`k`"] for name in "ac"] == [20, 20]  # type: ignore[attr-defined]
    assert list(found["a"].selectivity.values()) == [pytest.approx(1 / 8)]  # type: ignore[attr-defined]


def test_nothing_is_concluded_from_few_tuples(open_state: Open) -> None:
    wr = open_state()
    wr.sql("CREATE STREAM a (t BIGINT, k INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    wr.query("q", "SELECT k FROM a [RANGE 100]")
    wr.deposit("a", [(i, i) for i in range(9)])
    assert facts(wr) == {}


def test_join_order_follows_rates_and_survives_a_restart(ran: windrow.Windrow, open_state: Open) -> None:
    q = ran.query("three", THREE)
    assert "the join order is c, b, a" in str(q.explain())
    plan = ran._engine.plans.query("three").plan
    ran.close()
    again = open_state()
    assert again._engine.plans.query("three").plan == plan
