"""Identical sub-plans of different queries, and joins that differ in selections."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.plan_builder import INT, Maker, at, join, keep, plan, plans, streams, tree
from support.plan_interpreter import Streams, answer

from windrow.optimizer.pipeline import optimize
from windrow.optimizer.shared_plans.canonical import canonical
from windrow.optimizer.shared_plans.common_join import common_join
from windrow.optimizer.shared_plans.identical import node_at, replaced_at, share_subplans
from windrow.plan.algebra.invariants import check
from windrow.plan.algebra.nodes import ContinuousPlan, Distinct, Node, Project, StreamWindow, TopRows
from windrow.types import SqlType

TYPES = {name: dict.fromkeys(("k", "x", "y"), INT) for name in "srq"}


def joined(m: Maker, **extra: str) -> Node:
    return m.project(keep(join(m.window("s"), m.window("r")), "x > 1"), a="x + 1", k="k", **extra)


def test_ids_and_names_do_not_matter() -> None:
    assert canonical(joined(Maker())).key == canonical(joined(Maker(50))).key
    m = Maker(7)
    renamed = m.project(keep(join(m.window("s"), m.window("r")), "x > 1"), other="x + 1", name="k")
    assert canonical(renamed).key == canonical(joined(Maker())).key
    assert canonical(renamed).digest == canonical(joined(Maker())).digest


def test_order_of_columns_inputs_and_conditions_does_not_matter() -> None:
    one, two = Maker(), Maker(30)
    left = keep(join(one.window("s", columns=("k", "x")), one.window("r", columns=("k",))), "x > 1 AND k = 2")
    right = join(two.window("r", columns=("k",)), two.window("s", columns=("x", "k")))
    x, k = right.schema[1].sql, right.schema[2].sql
    assert canonical(left).key == canonical(type(left)(right, tree(f"{k} = 2 AND {x} > 1"))).key
    first, second = canonical(left), canonical(type(left)(right, tree(f"{k} = 2 AND {x} > 1")))
    names = {column.id: column.name for node in (left, right) for column in node.schema}
    assert [names[i] for i in first.columns] == [names[i] for i in second.columns]


@pytest.mark.parametrize("change", ["length", "stream", "predicate", "condition", "limit", "type", "aggregate"])
def test_other_meaning_has_another_name(change: str) -> None:
    def made(changed: bool) -> Node:
        m = Maker()
        window = m.window("r" if change == "stream" and changed else "s", 11 if change == "length" and changed else 10)
        if change == "predicate" and changed:
            window = replace(window, predicate="x > 5")
        if change == "type" and changed:
            window = replace(
                window,
                columns=tuple(replace(c, column=replace(c.column, type=SqlType("BIGINT"))) for c in window.columns),
            )
        node = keep(window, "x > 2" if change == "condition" and changed else "x > 1")
        grouped = m.group(node, ("k",), n="SUM y" if change == "aggregate" and changed else "SUM x")
        return TopRows(grouped, (), 2 if change == "limit" and changed else 1)

    assert canonical(made(False)).key == canonical(made(False)).key
    assert canonical(made(False)).key != canonical(made(True)).key


def test_ticks_count_for_whole_plans() -> None:
    node = Maker().window()
    assert canonical(plan(node, 1)).key != canonical(plan(node, 2)).key
    assert canonical(plan(node)).key == canonical(plan(Maker(9).window())).key


@settings(max_examples=60, deadline=None)
@given(plans(), plans(), streams())
def test_equal_keys_give_equal_answers(one: ContinuousPlan, other: ContinuousPlan, data: Streams) -> None:
    if canonical(one).key == canonical(other).key:
        assert answer(one, data, 8) == answer(other, data, 8)


def test_share_subplans() -> None:
    m, n = Maker(), Maker(100)
    plans_ = [plan(Distinct(joined(m))), plan(keep(joined(n), "k = 1")), plan(Maker(200).window())]
    (shared,) = share_subplans(plans_)
    assert [(one.plan, one.path) for one in shared.occurrences] == [(0, (0,)), (1, (0,))]
    first, second = shared.occurrences
    names = [{c.id: c.name for c in node_at(plans_[p.plan].root, p.path).schema} for p in (first, second)]
    assert sorted(names[0].values()) == ["a", "k"]
    assert [names[0][i] for i in first.columns] == [names[1][i] for i in second.columns]


def test_plans_with_other_ticks_share_nothing() -> None:
    assert share_subplans([plan(joined(Maker()), 1), plan(joined(Maker(50)), 2)]) == ()


def test_replaced_at() -> None:
    m = Maker()
    node = joined(m)
    other = m.window("q")
    assert node_at(replaced_at(node, (0, 0, 1), other), (0, 0, 1)) == other
    assert replaced_at(node, (), other) == other


# -- common_join -----------------------------------------------------------------------------------


def query(first: int, x: int, swapped: bool = False, more: str | None = None) -> ContinuousPlan:
    m = Maker(first)
    windows = [m.window("s", predicate=f"x = {x}"), m.window("r", predicate=more)]
    return optimize(plan(m.project(join(*(windows[::-1] if swapped else windows)), k="k", y="y"))).plan


def test_common_join_routes_by_selection() -> None:
    asked = [query(100 * i, i, swapped=i % 2 == 1) for i in range(3)]
    (common,) = common_join(asked, TYPES)
    assert [one.stream for one in common.join.inputs if isinstance(one, StreamWindow)] == ["r", "s"]
    second = common.join.inputs[1]
    assert isinstance(second, StreamWindow) and second.predicate == "x = 0 OR x = 1 OR x = 2"
    x = at(second, "x").sql
    assert [route.predicate for route in common.routes] == [tree(f"{x} = {i}") for i in range(3)]
    assert [route.equality for route in common.routes] == [(x, tree(str(i))) for i in range(3)]
    assert [route.plan for route in common.routes] == [0, 1, 2]


def test_condition_is_tested_on_arrival_without_types() -> None:
    (common,) = common_join([query(0, 0), query(100, 1)])
    flags = [c for one in common.join.inputs for c in one.schema if c.type == SqlType("BOOLEAN")]
    assert [flag.name for flag in flags] == ["x = 0", "x = 1"]
    assert [route.predicate for route in common.routes] == [tree(flag.sql) for flag in flags]
    assert [route.equality for route in common.routes] == [None, None]


def test_a_query_without_selection_makes_the_join_keep_all() -> None:
    m = Maker(100)
    (common,) = common_join([query(0, 0), plan(m.project(join(m.window("s"), m.window("r")), x="x"))], TYPES)
    assert [one.predicate for one in common.join.inputs if isinstance(one, StreamWindow)] == [None, None]
    assert common.routes[1].predicate is None


def test_other_keys_or_windows_are_not_common() -> None:
    m, n = Maker(100), Maker(200)
    others = [
        plan(join(m.window("s"), m.window("r"), on=("x",))),
        plan(join(n.window("s", 11), n.window("r"))),
        plan(Maker(300).window()),
    ]
    assert common_join([query(0, 0), *others], TYPES) == ()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.booleans(), st.sampled_from([None, "y >= 1", "y >= 1", "k = 1 OR y = 2"])),
        min_size=2,
        max_size=4,
    ),
    st.sampled_from([TYPES, None]),
    streams(),
)
def test_routed_plans_have_the_same_answers(
    asked: list[tuple[int, bool, str | None]], types: object, data: Streams
) -> None:
    made = [query(100 * i, *one) for i, one in enumerate(asked)]
    (common,) = common_join(made, types)  # type: ignore[arg-type]
    check(common.join)
    for route in common.routes:
        routed = common.routed(made[route.plan], route)
        check(routed)
        for tick in (3, 8, 12):
            assert answer(routed, data, tick) == answer(made[route.plan], data, tick)


def test_conditions_that_all_queries_have_stay_in_the_join() -> None:
    def conditioned(first: int, x: int) -> ContinuousPlan:
        m = Maker(first)
        left, right = m.window("s", predicate=f"x = {x}"), m.window("r")
        both = join(left, right, condition=tree(f"{at(left, 'y').sql} < {at(right, 'y').sql}"))
        return plan(Project(both, m.project(both, k="k").columns))

    (common,) = common_join([conditioned(0, 0), conditioned(100, 1)], TYPES)
    assert common.join.condition is not None
    assert all(route.equality is not None for route in common.routes)
    assert [len(list(route.predicate.find_all(type(tree("a = 1"))))) for route in common.routes if route.predicate] == [
        1,
        1,
    ]
