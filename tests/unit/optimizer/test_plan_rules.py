"""What each rule for continuous plans does to plans built by hand."""

from __future__ import annotations

import pytest
from sqlglot import exp
from support.plan_builder import BIGINT, INT, Maker, at, join, keep, outer, over, plan, semi, tree

from windrow.optimizer.facts import NOTHING_MEASURED, Facts, StreamFacts
from windrow.optimizer.pipeline import RULES, optimize
from windrow.optimizer.rules.compute_on_arrival import compute_on_arrival
from windrow.optimizer.rules.merge_joins import merge_joins
from windrow.optimizer.rules.order_joins import order_joins
from windrow.optimizer.rules.push_distinct import push_distinct
from windrow.optimizer.rules.push_projections import push_projections
from windrow.optimizer.rules.push_selections import push_selections
from windrow.plan.algebra.nodes import (
    Computed,
    Distinct,
    Filter,
    GroupBy,
    Join,
    Lifetime,
    MergeUnion,
    Node,
    OutputWindow,
    Project,
    SemiJoin,
    SetKind,
    StreamColumn,
    Streaming,
    StreamWindow,
    TopRows,
    ToStream,
    Window,
    walk,
)
from windrow.plan.nodes import Order
from windrow.settings import PLAN_RULES, SHARE_JOINS, SHARE_SUBPLANS, Settings
from windrow.types import SqlType


def after(rule, node: Node, facts: Facts = NOTHING_MEASURED) -> Node:
    found, reason = rule(plan(node), facts)
    assert found.schema == node.schema
    assert (reason is None) == (found.root == node)
    return found.root


def predicates(node: Node) -> list[str | None]:
    return [one.predicate for one in walk(node) if isinstance(one, StreamWindow)]


def stored(node: Node) -> list[list[str]]:
    return [[column.sql for column in one.columns] for one in walk(node) if isinstance(one, StreamWindow)]


def has(node: Node, kind: type) -> int:
    return sum(isinstance(one, kind) for one in walk(node))


# -- push_selections -------------------------------------------------------------------------------


def test_selection_into_window() -> None:
    window = Maker().window(predicate="y = 1 OR y = 2")
    found = after(push_selections, keep(window, "x > 1 AND k = 2"))
    assert predicates(found) == ["(y = 1 OR y = 2) AND x > 1 AND k = 2"] and not has(found, Filter)


def test_selection_through_computed_columns() -> None:
    m = Maker()
    found = after(push_selections, keep(m.project(m.window(), total="x + y", k="k"), "total * 2 > 6"))
    assert predicates(found) == ["(x + y) * 2 > 6"]


def test_selection_on_both_sides_of_a_join() -> None:
    m = Maker()
    joined = join(m.window("s"), m.window("r"))
    c = [column.sql for column in joined.schema]
    found = after(push_selections, Filter(joined, tree(f"{c[1]} > 1 AND {c[4]} < 2 AND {c[1]} < {c[5]}")))
    assert predicates(found) == ["x > 1", "x < 2"]
    assert isinstance(found, Join) and found.condition == tree(f"{c[1]} < {c[5]}")


def test_join_condition_on_one_side() -> None:
    m = Maker()
    left, right = m.window("s"), m.window("r")
    found = after(push_selections, join(left, right, condition=over(right, "x = 3")))
    assert predicates(found) == [None, "x = 3"] and isinstance(found, Join) and found.condition is None


def test_selection_into_every_input_of_a_union() -> None:
    m = Maker()
    other = m.project(m.window("r"), a="x + 1", b="y", c="k")
    found = after(push_selections, keep(m.union(m.window("s"), other), "k > 5"))
    assert predicates(found) == ["k > 5", "(x + 1) > 5"] and isinstance(found, MergeUnion)


def test_selection_below_group_by_only_on_keys() -> None:
    m = Maker()
    grouped = m.group(m.window(), ("k",), n="COUNT")
    found = after(push_selections, keep(grouped, "k = 1 AND n > 2"))
    assert predicates(found) == ["k = 1"]
    assert isinstance(found, Filter) and found.predicate == over(grouped, "n > 2")


def test_constant_selection_stays_above_ungrouped_aggregate() -> None:
    m = Maker()
    node = Filter(m.group(m.window(), n="COUNT"), tree("1 = 0"))
    assert after(push_selections, node) == node


def test_selection_through_distinct_stream_and_output_window() -> None:
    m = Maker()
    node = OutputWindow(ToStream(Distinct(m.window()), Streaming.ISTREAM), Lifetime(3))
    assert predicates(after(push_selections, keep(node, "x = 1"))) == ["x = 1"]


@pytest.mark.parametrize("is_anti", [False, True])
def test_selection_below_negation(is_anti: bool) -> None:
    """Above: into the left input. In the condition: right rows alone go right; left rows alone left, if not anti."""
    m = Maker()
    left, right = m.window("s"), m.window("r")
    condition = tree(f"{over(left, 'y').sql()} = 1 AND {over(right, 'x').sql()} > 2")
    found = after(push_selections, keep(semi(left, right, condition, is_anti), "x = 5"))
    assert isinstance(found, SemiJoin)
    assert predicates(found) == (["x = 5", "x > 2"] if is_anti else ["x = 5 AND y = 1", "x > 2"])
    assert found.condition == (over(left, "y = 1") if is_anti else None)


@pytest.mark.parametrize(
    "keeps, tested, remains",
    [("left", ["x = 5", "y < 3"], "right"), ("right", ["y > 1", "x < 9"], "left"), ("full", [None, None], "both")],
)
def test_selection_into_the_kept_side(keeps: str, tested: list[str | None], remains: str) -> None:
    m = Maker()
    left, right = m.window("s"), m.window("r")
    on = tree(f"{over(left, 'y').sql()} > 1 AND {over(right, 'y').sql()} < 3")
    node = outer(left, right, on, keeps)
    above = {"left": f"{over(left, 'x').sql()} = 5", "right": f"{over(right, 'x').sql()} < 9"}
    found = after(push_selections, Filter(node, tree(" AND ".join(above.values()))))
    assert isinstance(found, Filter) and predicates(found) == tested
    assert found.predicate == tree(" AND ".join(above.values()) if remains == "both" else above[remains])


def test_selection_into_both_inputs_of_a_set_operation() -> None:
    m = Maker()
    node = m.set_operation(m.window("s"), m.window("r"), SetKind.EXCEPT, True)
    assert predicates(after(push_selections, keep(node, "x = 1"))) == ["x = 1", "x = 1"]


def test_selection_stays_above_count_based_window() -> None:
    node = keep(Maker().rows_window(), "x = 1")
    assert after(push_selections, node) == node


def test_projection_keeps_what_negation_and_partitions_read() -> None:
    m = Maker()
    node = m.project(semi(m.rows_window("s", by=("x",)), m.window("r")), y="y")
    found = after(push_projections, node)
    windows = [one for one in walk(found) if isinstance(one, Window)]
    assert [[column.sql for column in one.columns] for one in windows] == [["k", "x", "y"], ["k"]]


def test_keys_of_negation_are_computed_on_arrival() -> None:
    m = Maker()
    left, right = m.window("s"), m.window("r")
    node = SemiJoin(left, right, ((over(left, "x + 1"), over(right, "y * 2")),))
    found = after(compute_on_arrival, node)
    assert isinstance(found, Project) and isinstance(found.input, SemiJoin)
    assert all(isinstance(key, exp.Column) for key in found.input.keys[0])


def test_padded_columns_are_not_computed_on_arrival() -> None:
    m = Maker()
    joined = outer(m.window("s"), m.window("r"))
    c = [column.sql for column in joined.schema]
    made = tuple(Computed(m.column(name), tree(sql)) for name, sql in (("a", f"{c[1]} + 1"), ("b", f"{c[4]} + 1")))
    found = after(compute_on_arrival, Project(joined, made))
    assert isinstance(found, Project)
    assert [one.is_renamed for one in found.columns] == [True, False]


def test_selection_stays_above_limit() -> None:
    node = keep(TopRows(Maker().window(), (), 2), "x = 1")
    assert after(push_selections, node) == node


def test_condition_that_tells_zeros_apart_stays_above_distinct() -> None:
    m = Maker()
    window = m.window()
    columns = tuple(StreamColumn(m.column(one.sql, SqlType("DOUBLE")), one.sql) for one in window.columns)
    node = Distinct(StreamWindow("s", window.attribute, window.lifetime, columns))
    assert predicates(after(push_selections, keep(node, "x > 0"))) == ["x > 0"]
    told = keep(node, "cast(x AS STRING) = '0.0'")
    assert after(push_selections, told) == told


# -- compute_on_arrival ----------------------------------------------------------------------------


def test_computed_column_of_one_window() -> None:
    m = Maker()
    found = after(compute_on_arrival, m.project(join(m.window("s"), m.window("r")), total="x * 2", k="k"))
    assert stored(found) == [["k", "x", "y", "x * 2"], ["k", "x", "y"]]
    assert isinstance(found, Project) and all(one.is_renamed for one in found.columns)


def test_function_that_only_spark_knows_is_computed_on_arrival() -> None:
    m = Maker()
    found = after(compute_on_arrival, m.project(m.window("s"), day="date_trunc('DAY', x)"))
    assert stored(found)[0][-1] == "DATE_TRUNC('DAY', x)"


def test_parts_of_an_expression_over_two_windows() -> None:
    m = Maker()
    left, right = m.window("s"), m.window("r")
    a, b = at(left, "x").sql, at(right, "y").sql
    found = after(compute_on_arrival, join(left, right, condition=tree(f"{a} + 1 > {b} * {b}")))
    assert stored(found) == [["k", "x", "y", "x + 1"], ["k", "x", "y", "y * y"]]
    assert isinstance(found, Project) and isinstance(found.input, Join)
    assert found.input.condition == tree("c6 > c7")


def test_computed_join_key_and_aggregate_argument() -> None:
    m = Maker()
    left, right = m.window("s"), m.window("r")
    joined = Join((left, right), ((over(left, "k + 1"), over(right, "k")),))
    found = after(compute_on_arrival, m.group(joined, ("x",), total="SUM x * y"))
    assert stored(found)[0] == ["k", "x", "y", "k + 1", "x * y"]
    assert isinstance(found, GroupBy) and {part.arg for _, part in found.aggregates[0].call.parts} == {"c8"}


def test_equal_expressions_share_a_column() -> None:
    m = Maker()
    found = after(compute_on_arrival, m.project(m.window(), a="x + 1", b="x + 1"))
    assert stored(found) == [["k", "x", "y", "x + 1"]]


def test_nothing_is_computed_on_arrival_above_a_group_by() -> None:
    m = Maker()
    node = m.project(m.group(m.window(), ("k",), n="COUNT"), more="k + 1")
    assert after(compute_on_arrival, node) == node


# -- merge_joins -----------------------------------------------------------------------------------


def left_deep(m: Maker, *streams: str) -> Node:
    node: Node = m.window(streams[0])
    for stream in streams[1:]:
        node = join(node, m.window(stream))
    return node


def test_left_deep_joins_on_one_key() -> None:
    found = after(merge_joins, left_deep(Maker(), "s", "r", "q", "s"))
    assert isinstance(found, Join) and len(found.inputs) == 4 and len(found.keys) == 1
    assert [one.sql() for one in found.keys[0]] == ["c0", "c3", "c6", "c9"]


def test_equalities_are_transitive() -> None:
    m = Maker()
    a, b, c = (m.window(name) for name in ("s", "r", "q"))
    outer = Join((Join((a, b)), c), (), tree("c0 = c6 AND c3 = c6 AND c1 < c4"))
    found = after(merge_joins, outer)
    assert isinstance(found, Join) and [one.sql() for one in found.keys[0]] == ["c0", "c3", "c6"]
    assert len(found.inputs) == 3 and len(found.keys) == 1 and found.condition == tree("c1 < c4")


def test_joins_on_different_keys_stay_apart() -> None:
    m = Maker()
    a, b, c = (m.window(name) for name in ("s", "r", "q"))
    node = Join((Join((a, b), ((tree("c0"), tree("c3")),)), c), ((tree("c4"), tree("c7")),))
    assert after(merge_joins, node) == node


def test_key_of_first_and_third_input_passes_another_key() -> None:
    m = Maker()
    a, b, c, d = (m.window(name) for name in ("s", "r", "q", "s"))
    one = Join((a, b), ((tree("c0"), tree("c3")),))
    two = Join((one, c), ((tree("c4"), tree("c7")),))
    found = after(merge_joins, Join((two, d), ((tree("c0"), tree("c9")),)))
    assert isinstance(found, Project)
    outer = found.input
    assert isinstance(outer, Join) and isinstance(outer.inputs[0], Join)
    assert [one.stream for one in outer.inputs[0].inputs] == ["s", "r", "s"]
    assert outer.inputs[1] == c


def test_equality_of_some_inputs_of_a_larger_join_is_a_condition() -> None:
    m = Maker()
    a, b, c = (m.window(name) for name in ("s", "r", "q"))
    inner = Join((a, b), ((tree("c0"), tree("c3")), (tree("c1"), tree("c4"))))
    found = after(merge_joins, Join((inner, c), ((tree("c3"), tree("c6")),)))
    assert isinstance(found, Join) and found.inputs == (a, b, c)
    assert found.keys == (tuple(map(tree, ("c0", "c3", "c6"))),) and found.condition == tree("c1 = c4")


def test_merging_through_renamed_columns_and_selections() -> None:
    m = Maker()
    inner = m.project(keep(join(m.window("s"), m.window("r")), "y = 1"), k="k", z="x")
    found = after(merge_joins, join(inner, m.window("q")))
    assert has(found, Join) == 1 and predicates(found)[0] == "y = 1"


def test_equality_of_different_types_is_no_key() -> None:
    m = Maker()
    left, right = m.window("s"), m.window("r")
    wide = StreamWindow("r", right.attribute, right.lifetime, (StreamColumn(m.column("k", BIGINT), "k"),))
    node = Join((left, wide), (), tree(f"{left.schema[0].sql} = {wide.schema[0].sql}"))
    assert after(merge_joins, node) == node


def test_at_most_eight_inputs() -> None:
    found = after(merge_joins, left_deep(Maker(), *("srqsrqsrqs")))
    assert max(len(one.inputs) for one in walk(found) if isinstance(one, Join)) == 8
    assert has(found, StreamWindow) == 10


# -- order_joins -----------------------------------------------------------------------------------

RATES: Facts = {
    "s": StreamFacts(11, {"k": 200}),
    "r": StreamFacts(10, {"k": 100}),
    "q": StreamFacts(1, {"k": 65}),
}


def test_join_order() -> None:
    m = Maker()
    node = join(m.window("s", 100), m.window("r", 100), m.window("q", 100))
    found, reason = order_joins(plan(node), RATES)
    assert reason is not None and "times cheaper" in reason
    assert isinstance(found.root, Project) and found.schema == node.schema
    inner = found.root.input
    assert isinstance(inner, Join) and [one.stream for one in inner.inputs] != ["s", "r", "q"]
    assert inner.keys[0] == tuple(over(one, "k") for one in inner.inputs)


def test_order_of_two_inputs_does_not_matter() -> None:
    m = Maker()
    assert order_joins(plan(join(m.window("s"), m.window("q"))), RATES)[1] is None


def test_selective_window_goes_first_in_a_product() -> None:
    m = Maker()
    node = join(m.window("s"), m.window("r"), m.window("q", predicate="x = 1"), on=())
    facts = {name: StreamFacts(1.0) for name in "srq"} | {"q": StreamFacts(1.0, {}, {"x = 1": 0.001})}
    found, reason = order_joins(plan(node), facts)
    assert reason is not None and reason.startswith("the join order is q, ")
    assert found.schema == node.schema


# -- push_distinct ---------------------------------------------------------------------------------


REPEATED: Facts = {name: StreamFacts(100.0, {"k": 10.0, "x": 10.0}) for name in ("s", "r")}
"""A tick has 100 rows, a window of 1,000 points 10,000 of each value."""


def test_distinct_of_one_column_below_a_join() -> None:
    m = Maker()
    node = Distinct(m.project(join(m.window("s", 1000), m.window("r", 1000)), k="k"))
    found = after(push_distinct, node, REPEATED)
    assert has(found, Distinct) == 2 and isinstance(found, Distinct)
    assert isinstance(found.input, Project) and isinstance(found.input.input, Join)
    assert isinstance(found.input.input.inputs[0], Distinct) and len(found.input.input.inputs[0].schema) == 1
    # What is left to join is so little that the other input is not worth an operator, until there is more of it.
    more = {name: StreamFacts(1e6, known.distinct) for name, known in REPEATED.items()}
    assert has(after(push_distinct, node, more), Distinct) == 3


def test_distinct_stays_where_rows_differ() -> None:
    m = Maker()
    node = Distinct(m.project(join(m.window("s", 1000), m.window("r", 1000)), k="k", x="x", y="y"))
    facts = {"s": StreamFacts(100, {"k": 100_000, "x": 500}), "r": StreamFacts(100, {"k": 10})}
    found = after(push_distinct, node, facts)
    assert isinstance(found.input.input, Join)  # type: ignore[union-attr]
    assert [isinstance(one, Distinct) for one in found.input.input.inputs] == [False, True]  # type: ignore[union-attr]


def test_distinct_stays_where_ticks_are_small() -> None:
    """A row per tick does not pay for another operator, however often its value is repeated."""
    m = Maker()
    node = Distinct(m.project(join(m.window("s", 1000), m.window("r", 1000)), k="k"))
    facts = {name: StreamFacts(1.0, {"k": 500.0}) for name in ("s", "r")}
    assert push_distinct(plan(node), facts) == (plan(node), None)


def double(m: Maker, stream: str) -> StreamWindow:
    window = m.window(stream, 1000)
    return StreamWindow(
        stream, window.attribute, window.lifetime, (StreamColumn(m.column("k", SqlType("DOUBLE")), "k"),)
    )


@pytest.mark.parametrize("what", ["internal", "strict", "double"])
def test_distinct_stays_above(what: str) -> None:
    m = Maker()
    first: Node = double(m, "s") if what == "double" else m.window("s", 1000, internal=what == "internal")
    first = m.group(first, ("k",), n="COUNT") if what == "strict" else first
    second = double(m, "r") if what == "double" else m.window("r", 1000)
    joined = join(first, second)
    node = Distinct(Project(joined, tuple(Computed(one, tree(one.sql)) for one in joined.schema[:1])))
    found, _ = push_distinct(plan(node), REPEATED)
    assert isinstance(found.root, Distinct) and isinstance(found.root.input, Project)
    assert found.root.input.input.inputs[0] == first


# -- push_projections ------------------------------------------------------------------------------


def test_windows_keep_what_is_read() -> None:
    m = Maker()
    found = after(push_projections, m.project(join(m.window("s"), m.window("r")), y="y"))
    assert stored(found) == [["k", "y"], ["k"]]


def test_count_needs_no_column() -> None:
    m = Maker()
    assert stored(after(push_projections, m.group(m.window(), n="COUNT"))) == [[]]


def test_inner_join_drops_its_key() -> None:
    m = Maker()
    inner = join(m.window("s"), m.window("r"))
    outer = Join((inner, m.window("q")), ((tree(inner.schema[1].sql), tree("c7")),))
    found = after(push_projections, m.project(outer, y="y"))
    assert isinstance(found, Project) and isinstance(found.input, Join)
    assert [column.name for column in found.input.inputs[0].schema] == ["x", "y"]


def test_projections_become_one() -> None:
    m = Maker()
    found = after(push_projections, m.project(m.project(m.window(), a="x + y", b="k"), c="a * 2"))
    assert has(found, Project) == 1 and stored(found) == [["x", "y"]]
    assert isinstance(found, Project) and found.columns[0].expression == tree("(c1 + c2) * 2")


def test_nothing_is_computed_twice() -> None:
    m = Maker()
    node = m.project(m.project(m.window(columns=("x",)), a="x + 1"), c="a * a")
    assert after(push_projections, node) == node


def test_distinct_and_limit_keep_their_columns() -> None:
    m = Maker()
    for node in (Distinct(m.window()), TopRows(m.window(), (), 1), ToStream(m.window(), Streaming.DSTREAM)):
        assert stored(after(push_projections, m.project(node, k="k"))) == [["k", "x", "y"]]


def test_union_keeps_needed_positions() -> None:
    m = Maker()
    found = after(push_projections, m.project(m.union(m.window("s"), m.window("r")), y="y"))
    assert stored(found) == [["y"], ["y"]]


def test_unread_aggregates_are_dropped_but_not_over_internal_windows() -> None:
    for internal, left in ((False, 1), (True, 2)):
        m = Maker()
        node = m.project(m.group(m.window(internal=internal), ("k",), n="COUNT", t="SUM x"), n="n")
        (grouped,) = [one for one in walk(after(push_projections, node)) if isinstance(one, GroupBy)]
        assert len(grouped.aggregates) == left


# -- the driver ------------------------------------------------------------------------------------


def test_trace() -> None:
    m = Maker()
    node = keep(m.project(left_deep(m, "s", "r", "q"), x="x", z="x + 1"), "x > 1")
    found = optimize(plan(node), off={"order_joins"})
    assert [step.rule for step in found.trace] == [rule.name for rule in RULES]
    told = {step.rule: step.reason for step in found.trace}
    assert told["push_selections"] == "conditions are tested when tuples of s arrive"
    assert told["merge_joins"] == "2 joins become 1: inputs with equal keys are joined at once"
    assert told["compute_on_arrival"] == "Spark computes x + 1 when tuples arrive"
    assert told["push_distinct"] is None and told["order_joins"] is None
    assert [step.is_off for step in found.trace] == [rule.name == "order_joins" for rule in RULES]
    assert all(step.seconds >= 0 for step in found.trace)
    assert stored(found.plan.root) == [["k", "x", "x + 1"], ["k"], ["k"]]


def test_rules_are_those_of_the_setting() -> None:
    assert (*(rule.name for rule in RULES), SHARE_JOINS, SHARE_SUBPLANS) == PLAN_RULES
    off = Settings().with_text("disabled_rules", "MERGE_JOINS, cs8,push_distinct")
    assert off.text("disabled_rules") == "CS8, merge_joins, push_distinct"
    assert off.rules_off == {"CS8", "merge_joins", "push_distinct"}


def test_view_order_is_kept() -> None:
    m = Maker()
    window = m.window()
    asked = plan(m.project(window, x="x"))
    asked = type(asked)(asked.root, asked.point, 1, order=(Order(tree(asked.schema[0].sql), False, True),))
    assert optimize(asked).plan.order == asked.order
    assert asked.schema[0].type == INT
