"""The two plans of the negation-join (Figure 6 of Golab and Özsu, Figure 3.5 of the dissertation): their patterns, when
each is chosen, and which moves are made at all."""

from __future__ import annotations

import pytest
from support.bound_plans import bind
from support.plan_builder import Maker, at, join, keep, over, plan, semi, tree

from windrow.optimizer.facts import NOTHING_MEASURED, Facts, StreamFacts
from windrow.optimizer.negation_moves import moved
from windrow.optimizer.pipeline import RULES, PlanRule, applied, optimize
from windrow.optimizer.rules.place_negation import place_negation, weigh_negation
from windrow.optimizer.shapes import shape_text
from windrow.patterns import UpdatePattern, annotate
from windrow.patterns.invariants import check_patterns
from windrow.plan.algebra.invariants import BrokenPlanError, check
from windrow.plan.algebra.nodes import (
    Distinct,
    Join,
    Lifetime,
    Node,
    NrrJoin,
    OutputWindow,
    Project,
    SemiJoin,
    SetKind,
    Streaming,
    TableColumn,
    TableScan,
    TopRows,
    ToStream,
    walk,
)

MONOTONIC, WKS, WK, STR = UpdatePattern

FEW_RESULTS: Facts = {
    "a": StreamFacts(1.0, {"k": 2_000.0}),
    "b": StreamFacts(0.1, {"k": 2_000.0}),
    "c": StreamFacts(1.0, {"k": 1_200.0}),
}
"""A row of a meets one of b; negation drops six of ten. Up, it took 18.5 ms of CPU time per tick, down 19.9."""

MANY_RESULTS: Facts = {
    "a": StreamFacts(1.0, {"k": 1_000.0}),
    "b": StreamFacts(1.0, {"k": 1_000.0}),
    "c": StreamFacts(1.0, {"k": 900.0}),
}
"""Each row meets fifty others, and negation drops nine of ten. Up, it took 97 ms of CPU time per tick, down 30."""

FEW, MANY, STEP = 20_000, 50_000, 1_000
"""The windows of these, and the ticks."""


def up(m: Maker, length: int = FEW) -> Node:
    return semi(join(m.window("a", length), m.window("b", length)), m.window("c", length), is_anti=True)


def down(m: Maker, length: int = FEW) -> Node:
    return join(semi(m.window("a", length), m.window("c", length), is_anti=True), m.window("b", length))


def chosen(node: Node, facts: Facts) -> str:
    found, reason = place_negation(plan(node, STEP), facts)
    assert found.schema == node.schema and (reason is None) == (found.root is node)
    check(found)
    return shape_text(found.root)


def shapes(node: Node) -> set[str]:
    """What one move makes of a plan."""
    made = list(moved(node))
    for one in made:
        assert one.schema == node.schema
        check(one)
    return {shape_text(one) for one in made}


# -- the negation-join -----------------------------------------------------------------------------


def test_figure_6_left() -> None:
    """Negation pulled up: only the result sees negative tuples. With the selections of the figure."""
    m = Maker()
    joined = join(keep(m.window("a"), "x = 1"), keep(m.window("b"), "x = 1"))
    found = annotate(semi(joined, m.window("c"), is_anti=True))
    assert [one.state for one in found.walk()] == [WKS, WKS, WKS, WKS, WK, WKS, STR]


def test_figure_6_right() -> None:
    """Negation pushed down: the join has strict input."""
    m = Maker()
    negated = semi(keep(m.window("a"), "x = 1"), m.window("c"), is_anti=True)
    found = annotate(join(negated, keep(m.window("b"), "x = 1")))
    assert [one.state for one in found.walk()] == [WKS, WKS, WKS, STR, WKS, WKS, STR]


@pytest.mark.parametrize("given", [up, down], ids=["given up", "given down"])
def test_the_cheaper_plan_is_chosen_at_both_ends(given) -> None:
    assert chosen(given(Maker(), FEW), FEW_RESULTS) == "(a ⋈ b) ▷ c"
    assert chosen(given(Maker(), MANY), MANY_RESULTS) in ("(a ▷ c) ⋈ b", "a ⋈ (b ▷ c)")


def test_section_3_5_1_text() -> None:
    """The query of section 3.5.1 as it is written, through all rules."""
    bound = bind(
        "SELECT x.a, y.name FROM s [RANGE 10 SECONDS] AS x, s [RANGE 10 SECONDS] AS y WHERE x.k = y.k AND NOT EXISTS "
        "(SELECT * FROM u [RANGE 10 SECONDS] AS z WHERE z.k = x.k)"
    )
    many = {"s": StreamFacts(0.1, {"k": 50_000.0}), "u": StreamFacts(0.1, {"k": 45_000.0})}
    found = optimize(bound, many)
    assert shape_text(found.plan.root) in ("(x ▷ δ(z)) ⋈ y", "x ⋈ (y ▷ δ(z))")
    reason = next(step.reason for step in found.trace if step.rule == "place_negation")
    assert reason is not None and reason.startswith(shape_text(found.plan.root).replace("δ(z)", "z"))
    assert "times cheaper" in reason
    off = optimize(bound, many, off={"place_negation", "match_once"})
    assert shape_text(off.plan.root) == "(x ⋈ y) ▷ z"


def test_candidates_are_listed() -> None:
    found = weigh_negation(plan(up(Maker()), STEP), FEW_RESULTS)
    assert {one.text for one in found} == {"(a ⋈ b) ▷ c", "(a ▷ c) ⋈ b", "a ⋈ (b ▷ c)"}
    assert (
        [one.text for one in found if one.is_given] == ["(a ⋈ b) ▷ c"] == [one.text for one in found if one.is_chosen]
    )
    assert [one.cost for one in found] == sorted(one.cost for one in found)
    assert weigh_negation(plan(Maker().window()), NOTHING_MEASURED) == ()


def test_one_negation_alone_has_no_choice() -> None:
    m = Maker()
    node = plan(semi(m.window("a"), m.window("c"), is_anti=True))
    assert place_negation(node, FEW_RESULTS) == (node, None)


# -- moves -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_anti, sign", [(True, "▷"), (False, "⋉")])
def test_above_and_below_a_join(is_anti: bool, sign: str) -> None:
    m = Maker()
    node = join(semi(m.window("a"), m.window("c"), is_anti=is_anti), m.window("b"))
    assert shapes(node) == {f"(a ⋈ b) {sign} c"}
    m = Maker()
    node = semi(join(m.window("a"), m.window("b")), m.window("c"), is_anti=is_anti)
    assert shapes(node) == {f"(a {sign} c) ⋈ b", f"a ⋈ (b {sign} c)"}


def test_only_into_inputs_that_have_the_columns() -> None:
    m = Maker()
    a, b, c = m.window("a"), m.window("b"), m.window("c")
    joined = join(a, b)
    node = SemiJoin(joined, c, ((over(a, "x"), over(c, "k")),), is_anti=True)
    assert shapes(node) == {"(a ▷ c) ⋈ b"}
    both = SemiJoin(joined, c, ((over(a, "x"), over(c, "k")),), tree(f"{at(b, 'y').sql} < {at(c, 'y').sql}"), True)
    assert shapes(both) == set()


def test_columns_that_a_projection_drops_travel_along() -> None:
    m = Maker()
    a, b = m.window("a"), m.window("b")
    kept = m.project(semi(a, m.window("c"), is_anti=True), z="x + y", y="y")
    node = Join((kept, b), ((over(kept, "y"), over(b, "y")),))
    (made,) = moved(node)
    assert isinstance(made, Project) and isinstance(made.input, SemiJoin) and made.schema == node.schema
    assert shape_text(made) == "(a ⋈ b) ▷ c"
    assert at(a, "k") in made.input.left.schema


def test_distinct_and_group_by_below_negation() -> None:
    """δ(L ▷ R) = δ(L) ▷ R: then it is δ*, which keeps only what it shows."""
    m = Maker()
    node = Distinct(m.project(semi(m.window("a"), m.window("c"), is_anti=True), k="k"))
    (made,) = moved(node)
    assert shape_text(made) == "δ(a) ▷ c" and annotate(made).at((0,)).state is WK
    assert shapes(made) >= {"δ(a ▷ c)"}
    grouped = m.group(semi(m.window("a"), m.window("c"), is_anti=True), ("k",), n="COUNT")
    assert shapes(grouped) == {"γ(a) ▷ c"}
    by_other = m.group(semi(m.window("a"), m.window("c"), is_anti=True), ("x",), n="COUNT")
    assert shapes(by_other) == set() == shapes(m.group(semi(m.window("a"), m.window("c")), n="COUNT"))


def test_except_is_a_negation_over_delta() -> None:
    m = Maker()
    left, right = m.window("a", columns=("k",)), m.window("c", columns=("k",))
    node = m.set_operation(left, right)
    assert shapes(node) == set()
    joined = join(node, m.window("b"))
    assert shapes(joined) == {"(δ(a) ⋈ b) ▷ c"}
    (made,) = moved(joined)
    assert isinstance(made, SemiJoin) and made.is_anti and made.null_safe == (True,)
    both = m.set_operation(m.window("a"), m.window("c"), SetKind.INTERSECT)
    assert shapes(join(m.window("b"), both)) == {"(b ⋈ δ(a)) ⋉ c"}
    every = m.set_operation(m.window("a"), m.window("c"), is_all=True)
    assert shapes(join(every, m.window("b"))) == set()


@pytest.mark.parametrize("kind", ["internal", "limit", "stream", "windowed"])
def test_what_is_not_equivalent(kind: str) -> None:
    m = Maker()
    internal = kind == "internal"
    node: Node = semi(m.window("a", internal=internal), m.window("c", internal=internal), is_anti=True)
    if kind == "limit":
        node = TopRows(node, (), 3)
    elif kind in ("stream", "windowed"):
        node = ToStream(node, Streaming.ISTREAM)
        node = OutputWindow(node, Lifetime(5)) if kind == "windowed" else node
    joined = join(node, m.window("b"))
    assert place_negation(plan(joined), FEW_RESULTS) == (plan(joined), None)


# -- joins with tables -----------------------------------------------------------------------------


def nrr_join(m: Maker, node: Node) -> NrrJoin:
    table = TableScan("t", (TableColumn(m.column("k"), "k"), TableColumn(m.column("name"), "name")))
    return NrrJoin(node, table, ((over(node, "k"), over(table, "k")),))


def test_negation_never_goes_below_a_join_with_a_table() -> None:
    m = Maker()
    node = semi(nrr_join(m, m.window("a")), m.window("c"), is_anti=True)
    assert shapes(node) == set()
    both = semi(join(nrr_join(m, m.window("a")), m.window("b")), m.window("c"), is_anti=True)
    assert shapes(both) == {"((a ⋈ᴺᴿᴿ t) ▷ c) ⋈ b", "(a ⋈ᴺᴿᴿ t) ⋈ (b ▷ c)"}


def test_the_guilty_rule_is_named() -> None:
    """No rewrite may give a join with a table that is NON RETROACTIVE strict input."""
    m = Maker()
    window, other = m.window("a"), m.window("c")
    good = plan(semi(nrr_join(m, window), other, is_anti=True))
    check_patterns(good)

    def pushes_too_far(given, facts):
        top = given.root
        assert isinstance(top, SemiJoin) and isinstance(top.left, NrrJoin)
        inner = SemiJoin(top.left.input, top.right, top.keys, None, True)
        return plan(NrrJoin(inner, top.left.table, top.left.keys)), "it looked cheaper"

    rule = PlanRule("push_too_far", "A rule that is wrong.", pushes_too_far)
    with pytest.raises(BrokenPlanError) as raised:
        applied(rule, good, NOTHING_MEASURED)
    assert raised.value.rule == "push_too_far"
    assert "the rule push_too_far made a plan that is not valid: a join with a table" in raised.value.message
    assert "strict input (a row is withdrawn before its exp when a matching row comes" in raised.value.message


def test_a_window_over_strict_output_is_refused() -> None:
    m = Maker()
    broken = OutputWindow(semi(m.window("a"), m.window("c")), Lifetime(5))
    with pytest.raises(BrokenPlanError, match="a window is over output that is STR"):
        check_patterns(plan(broken), "some_rule")


def test_rule_stands_before_joins_are_merged() -> None:
    """A negation between two joins, pulled up, lets them become one."""
    names = [rule.name for rule in RULES]
    assert names.index("compute_on_arrival") < names.index("place_negation") < names.index("merge_joins")
    m = Maker()
    node = join(up(m), m.window("d", FEW))
    few = {**FEW_RESULTS, "d": StreamFacts(0.01, {"k": 500.0})}
    found = optimize(plan(node, STEP), few).plan.root
    joins = [one for one in walk(found) if isinstance(one, Join)]
    assert shape_text(found).endswith(("▷ c", "▷ δ(c)")) and len(joins) == 1 and len(joins[0].inputs) == 3
