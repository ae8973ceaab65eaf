"""The invariants of continuous plans, and the rule that an error names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.plan_builder import BIGINT, Maker, join, keep, over, plan, tree

from windrow.errors import ExecutionError
from windrow.plan.algebra.invariants import BrokenPlanError, check, check_kept
from windrow.plan.algebra.nodes import Computed, Filter, GroupBy, Join, Node, PlanColumn, Project
from windrow.plan.nodes import Order


def broken(node: Node, match: str) -> None:
    with pytest.raises(BrokenPlanError, match=match) as told:
        check(node, "merge_joins")
    assert "the rule merge_joins" in str(told.value) and told.value.rule == "merge_joins"
    assert told.value.node is not None and isinstance(told.value, ExecutionError)


def test_valid_plan() -> None:
    m = Maker()
    joined = join(keep(m.window(), "x > 1"), m.window("r"))
    check(plan(m.project(m.group(joined, ("k",), n="COUNT", t="SUM x + y"), k="k", n="n + t")))


def test_unknown_column() -> None:
    broken(Filter(Maker().window(), tree("c99 > 1")), "reads c99, which its input does not have")


def test_unknown_column_of_an_aggregate() -> None:
    m = Maker()
    grouped = m.group(m.window(), total="SUM x")
    broken(GroupBy(m.window("r"), (), grouped.aggregates), "reads c1")


def test_column_produced_twice() -> None:
    window = Maker().window()
    broken(join(window, window), "occurs twice|produced twice")
    m, again = Maker(), Maker()
    broken(m.union(m.window(), again.window()), "produced twice")


def test_column_that_is_passed_on_is_not_produced_again() -> None:
    window = Maker().window()
    check(Project(window, (Computed(window.schema[0], over(window, "k")),)))
    broken(Project(window, (Computed(window.schema[0], over(window, "x + 1")),)), "produced twice")


def test_types() -> None:
    m = Maker()
    window = m.window()
    broken(Filter(window, over(window, "x + 1")), "the predicate c1 [+] 1 is INT")
    broken(Project(window, (Computed(PlanColumn(9, "k", BIGINT), over(window, "k")),)), "c9 has another type than c0")
    other = m.project(m.window("r"), k="k")
    wide = Project(other.input, (Computed(PlanColumn(20, "k", BIGINT), tree("CAST(c3 AS BIGINT)")),))
    broken(Join((window, wide), ((tree("c0"), tree("c20")),)), "has the types BIGINT, INT")


def test_type_that_only_spark_knows_passes() -> None:
    window = Maker().window()
    check(Filter(window, over(window, "startswith(date_trunc('DAY', x), 'a')")))


def test_key_of_another_input() -> None:
    m = Maker()
    first, second = m.window(), m.window("r")
    broken(Join((first, second), ((over(second, "k"), over(first, "k")),)), "another input than its own")


def test_view_order_over_missing_column() -> None:
    asked = replace(plan(Maker().window()), order=(Order(tree("c7"), False, False),))
    with pytest.raises(BrokenPlanError, match="ORDER BY reads c7"):
        check(asked, "push_projections")


def test_binder_is_named_without_a_rule() -> None:
    with pytest.raises(BrokenPlanError, match="the binder made"):
        check(Filter(Maker().window(), tree("c99 = 1")))


def test_output_and_ticks_are_kept() -> None:
    m = Maker()
    before = plan(m.window())
    check_kept(before, before, "order_joins")
    with pytest.raises(BrokenPlanError, match="order_joins.*other columns"):
        check_kept(before, plan(m.project(before.root, k="k")), "order_joins")
    with pytest.raises(BrokenPlanError, match="ticks"):
        check_kept(before, replace(before, step=7), "order_joins")
