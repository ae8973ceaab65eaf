"""One join for queries that differ in selections, conditions and columns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.plan_builder import Maker, at, join, plan, streams, tree
from support.plan_interpreter import Streams, answer

from windrow.optimizer.common_join import CommonJoin, JoinRoute, SharableJoin, common_join, sharable_join
from windrow.optimizer.pipeline import optimize
from windrow.plan.algebra.invariants import check
from windrow.plan.algebra.nodes import Computed, ContinuousPlan, Distinct, Filter, Node, Project
from windrow.plan.algebra.rewriting import conjunction, conjuncts, reference, with_inputs


def query(first: int, x: int, swapped: bool = False, more: str | None = None) -> ContinuousPlan:
    m = Maker(first)
    windows = [m.window("s", predicate=f"x = {x}"), m.window("r", predicate=more)]
    return optimize(plan(m.project(join(*(windows[::-1] if swapped else windows)), k="k", y="y"))).plan


def shared(plans: list[ContinuousPlan]) -> CommonJoin:
    return common_join([sharable(one) for one in plans])


def sharable(one: ContinuousPlan) -> SharableJoin:
    found = sharable_join(one.root)
    assert found is not None
    return found


def routed(root: Node, common: CommonJoin, route: JoinRoute) -> Node:
    """A plan with its join replaced by what it takes of the shared one."""
    tests = [tree(f"({flag.column.sql} & {1 << flag.bit}) <> 0") for flag in route.flags]
    condition = conjunction([*tests, *conjuncts(route.predicate)])
    taken: Node = common.join if condition is None else Filter(common.join, condition)
    node: Node = Project(taken, tuple(Computed(own, reference(other)) for own, other in route.columns))
    above, path = list[Node](), route.path
    at_path = root
    for i in path:
        above.append(at_path)
        at_path = at_path.inputs[i]
    for parent, i in zip(reversed(above), reversed(path), strict=True):
        node = with_inputs(parent, [*parent.inputs[:i], node, *parent.inputs[i + 1 :]])
    return node


def test_windows_keep_what_any_query_needs() -> None:
    common = shared([query(100 * i, i, swapped=i % 2 == 1) for i in range(3)])
    assert [one.stream for one in common.windows] == ["r", "s"]
    assert [one.predicate for one in common.windows] == [None, None]
    (flags,) = common.flags
    assert common.flags[flags] == ("x = 0", "x = 1", "x = 2")
    kept = common.join.inputs[1]
    assert isinstance(kept, Filter) and kept.predicate == tree(f"{flags} <> 0")
    assert [[(flag.column.sql, flag.bit) for flag in one.flags] for one in common.routes] == [
        [(flags, i)] for i in range(3)
    ]
    assert [route.predicate for route in common.routes] == [None, None, None]


def test_many_selections_take_several_numbers() -> None:
    common = shared([query(100 * i, i) for i in range(70)])
    assert [len(mine) for mine in common.flags.values()] == [63, 7]
    assert len({(flag.column.sql, flag.bit) for route in common.routes for flag in route.flags}) == 70
    names = list(common.flags)
    kept = common.join.inputs[1]
    assert isinstance(kept, Filter) and kept.predicate == tree(f"{names[0]} <> 0 OR {names[1]} <> 0")


def test_a_selection_that_all_have_is_that_of_the_window() -> None:
    common = shared([query(0, 1), query(100, 1)])
    assert [one.predicate for one in common.windows] == [None, "x = 1"]
    assert [(route.flags, route.predicate) for route in common.routes] == [((), None), ((), None)]


def test_a_query_without_selection_makes_the_join_keep_all() -> None:
    m = Maker(100)
    common = shared([query(0, 0), plan(m.project(join(m.window("s"), m.window("r")), x="x"))])
    assert all(not isinstance(one, Filter) for one in common.join.inputs)
    assert len(common.routes[0].flags) == 1 and not common.routes[1].flags


def test_other_keys_or_windows_are_not_common() -> None:
    m, n = Maker(100), Maker(200)
    for other in (join(m.window("s"), m.window("r"), on=("x",)), join(n.window("s", 11), n.window("r"))):
        assert sharable(plan(other)).signature != sharable(query(0, 0)).signature
        with pytest.raises(ValueError, match="different windows or keys"):
            shared([query(0, 0), plan(other)])


def test_only_a_join_of_windows_is_shared() -> None:
    m = Maker()
    assert sharable_join(m.window()) is None
    assert sharable_join(join(Distinct(m.window("s")), m.window("r"))) is None


def test_conditions_that_all_queries_have_stay_in_the_join() -> None:
    def conditioned(first: int, x: int) -> ContinuousPlan:
        m = Maker(first)
        left, right = m.window("s", predicate=f"x = {x}"), m.window("r")
        both = join(left, right, condition=tree(f"{at(left, 'y').sql} < {at(right, 'y').sql}"))
        return plan(m.project(both, k="k"))

    common = shared([conditioned(0, 0), conditioned(100, 1)])
    assert common.join.condition is not None
    assert all(len(route.flags) == 1 and route.predicate is None for route in common.routes)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.booleans(), st.sampled_from([None, "y >= 1", "y >= 1", "k = 1 OR y = 2"])),
        min_size=2,
        max_size=4,
    ),
    streams(),
)
def test_routed_plans_have_the_same_answers(asked: list[tuple[int, bool, str | None]], data: Streams) -> None:
    made = [query(1000 + 100 * i, *one) for i, one in enumerate(asked)]
    common = shared(made)
    for one, route in zip(made, common.routes, strict=True):
        whole = plan(routed(one.root, common, route))
        check(whole)
        for tick in (3, 8, 12):
            assert answer(whole, data, tick) == answer(one, data, tick)
