"""The cost model of Golab and Özsu, section 5.4.1, on plans small enough to work out by hand."""

from __future__ import annotations

from math import exp

import pytest
from support.plan_builder import Maker, join, keep, outer, over, plan, semi

from windrow.optimizer.cost import COSTS, GROUPED, ROWS_PER_MS, SCAN, OperatorCost, plan_cost
from windrow.optimizer.estimates import Estimator, first_share
from windrow.optimizer.facts import Facts, StreamFacts
from windrow.patterns.propagation import PROPAGATION
from windrow.plan.algebra.nodes import Distinct, Node, Streaming, TopRows, ToStream

FACTS: Facts = {"s": StreamFacts(2.0, {"k": 5.0}, {"x > 0": 0.5}), "r": StreamFacts(1.0, {"k": 4.0})}
"""Windows of length 10: 20 rows of s with 5 values of k, 10 of r with 4."""

FLIPS = 1.0 * first_share(10, 4) * 20 / 5
"""Rows of s per point that a row of r withdraws: λ₂ q N₁ / D."""


def cost_of(node: Node, step: int = 1) -> OperatorCost:
    return plan_cost(plan(node, step), FACTS).operators[-1].cost


def parts(cost: OperatorCost) -> list[float]:
    return [cost.inserting, cost.processing, cost.expiring, cost.withdrawing]


def test_every_operator_has_a_cost() -> None:
    assert COSTS.keys() == PROPAGATION.keys()


def test_selection_projection_union() -> None:
    """λ, and Σ λᵢ"""
    m = Maker()
    assert parts(cost_of(m.window("s"))) == [2, 0, 0, 0]
    assert parts(cost_of(keep(m.window("s"), "x = 1"))) == [0, 2, 0, 0]
    assert parts(cost_of(m.project(m.window("s"), z="x + 1"))) == [0, 2, 0, 0]
    assert parts(cost_of(m.union(m.window("s"), m.window("r")))) == [0, 3, 0, 0]


def test_a_predicate_that_was_measured() -> None:
    found = Estimator(node := Maker().window("s", predicate="x > 0"), FACTS).of(node)
    assert (found.rate, found.live, found.withdrawn) == (1.0, 10.0, 0.0)


def test_join() -> None:
    """A row of s meets 10 / 4 rows of r in a bucket, one of r 20 / 5 of s. There are 20 · 10 / 5 = 40 results, so
    2 / 20 · 40 + 1 / 10 · 40 = 8 come per point."""
    m = Maker()
    node = join(m.window("s"), m.window("r"))
    assert parts(cost_of(node)) == pytest.approx([0, 2 * (1 + 2.5) + 1 * (1 + 4) + 8 + SCAN * 30, 0, 0])
    whole = plan_cost(plan(node, 10), FACTS)
    assert whole.answer == OperatorCost(inserting=8)
    assert whole.total == pytest.approx(2 + 1 + 20.06 + 0.6 * ROWS_PER_MS / 10 + 8)


def test_longer_ticks_look_through_state_less_often() -> None:
    m = Maker()
    node = join(m.window("s"), m.window("r"))
    often, rarely = cost_of(node, step=1), cost_of(node, step=10)
    assert often.processing - rarely.processing == pytest.approx(SCAN * 30 * 0.9)
    assert often.starting == pytest.approx(10 * rarely.starting) == pytest.approx(0.6 * ROWS_PER_MS)


def test_statements_cost_at_every_tick() -> None:
    """Keys alone are matched in NumPy; a condition runs a statement. Strict input costs more."""
    m = Maker()
    of_condition = cost_of(join(window := m.window("s"), m.window("r"), condition=over(window, "x > y")))
    strict = cost_of(join(semi(m.window("s"), m.window("r")), m.window("r")))
    left = semi(window := m.window("s"), m.window("r"))
    both = cost_of(join(left, m.window("r"), condition=over(window, "x > y")))
    plain = cost_of(join(m.window("s"), m.window("r")))
    assert plain.starting < strict.starting < both.starting > of_condition.starting > plain.starting
    kept = cost_of(semi(Distinct(m.window("s")), m.window("r")))
    assert kept.starting > cost_of(semi(m.window("s"), m.window("r"))).starting
    assert cost_of(m.project(m.window("s"), k="k")).starting == 0


def test_join_keeps_what_no_store_has() -> None:
    m = Maker()
    node = join(Distinct(m.window("s", columns=("k",))), m.window("r"))
    assert cost_of(node).inserting == pytest.approx(0.5)


def test_negation() -> None:
    """4 of 5 values have a match, so a fifth of 20 rows is shown. One row of r comes per point, with probability q as
    the first of its value, and withdraws 20 / 5 rows; as many appear again."""
    m = Maker()
    node = semi(m.window("s"), m.window("r"), is_anti=True)
    found = Estimator(node, FACTS).of(node)
    assert (found.rate, found.live, found.withdrawn) == pytest.approx((2 * 0.2 + FLIPS, 4, FLIPS))
    # 2 rows of s and twice 1 row of r ask for 10 / 4 rows of r each: no more than the 10 that there are at the tick.
    assert parts(cost_of(node)) == pytest.approx([0, 2 + 1 + 10 + 0.4 + FLIPS + SCAN * 30, 1, FLIPS])


def test_first_of_its_value() -> None:
    """10 rows have 4 values if there are 2.2316 rows per value: 10 · (1 − e⁻²·²³¹⁶) / 2.2316 = 4; q = e⁻²·²³¹⁶."""
    assert first_share(10, 4) == pytest.approx(0.10736, abs=1e-5)
    assert 10 * (1 - exp(-2.2316)) / 2.2316 == pytest.approx(4, abs=1e-3)
    assert first_share(10, 10) == 1.0
    assert first_share(20_000, 1_200) < 1e-6


def test_negative_tuples_double_a_join() -> None:
    """What the paper says of operators above negation."""
    m = Maker()
    node = join(semi(m.window("s"), m.window("r"), is_anti=True), m.window("r"))
    found = cost_of(node)
    # 4 live rows with 4 values; results: 4 · 10 / 4 = 10; a row meets 10 / 4, one of r meets 4 / 4.
    comes = 0.4 + FLIPS
    births, gone = (comes / 4 + 1 / 10) * 10, FLIPS / 4 * 10
    assert found.inserting == pytest.approx(comes)
    assert found.processing == pytest.approx(2 * (comes * 3.5 + 1 * 2 + births) + SCAN * 14)
    assert found.withdrawing == pytest.approx(2 * (FLIPS * 3.5 + gone))


def test_distinct() -> None:
    """δ* looks 2 rows up, and gives 5 values in 10 points; counting keeps all rows, and handles each twice."""
    m = Maker()
    assert parts(cost_of(Distinct(m.window("s", columns=("k",))))) == pytest.approx(
        [0.5, GROUPED * 2 + 0.5 + SCAN * 5, 0, 0]
    )
    strict = cost_of(Distinct(semi(m.window("s", columns=("k",)), m.window("r"), is_anti=True)))
    assert strict.inserting == pytest.approx(0.4 + FLIPS) and strict.withdrawing > 2 * FLIPS


def test_group_by() -> None:
    """2 λ C: a row changes its group when it comes and when it goes; 4 groups are replaced per point."""
    m = Maker()
    one, two = m.group(m.window("s"), ("k",), n="COUNT"), m.group(m.window("s"), ("k",), n="COUNT", t="SUM x")
    assert parts(cost_of(one)) == pytest.approx([2, GROUPED * 2 + 4, 2, 0 + 4])
    assert parts(cost_of(two)) == pytest.approx([2, GROUPED * 4 + 4, 4, 4])
    assert cost_of(m.group(m.window("s"), ("k",), n="COUNT"), step=10).withdrawing == pytest.approx(0.5)


def test_others_count_rows_that_come_and_go() -> None:
    m = Maker()
    window = m.window("s")
    assert parts(cost_of(m.rows_window("s"))) == [2, 0, 0, 2]
    assert parts(cost_of(m.set_operation(m.window("s"), m.window("r")))) == pytest.approx(
        [3, GROUPED * 3 + 2 / 3, 3, 2 / 3]
    )
    assert parts(cost_of(ToStream(window, Streaming.ISTREAM))) == [2, 4, 0, 0]
    assert parts(cost_of(ToStream(window, Streaming.RSTREAM))) == [2, 2 + 20, 0, 0]
    assert cost_of(TopRows(window, (), 3)).inserting == 2
    left = cost_of(outer(m.window("s"), m.window("r")))
    assert left.total > cost_of(join(m.window("s"), m.window("r"))).total and left.withdrawing > 0
