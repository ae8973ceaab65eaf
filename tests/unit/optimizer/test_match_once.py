"""EXISTS looks at one row per value: where that is cheaper, and where it would not be the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.plan_builder import Maker, join, plan, semi, tree

from windrow.optimizer.execution import DIRECT, NEGATIVE, UPA, rules_off_for
from windrow.optimizer.facts import Facts, StreamFacts
from windrow.optimizer.pipeline import optimize
from windrow.optimizer.rules.match_once import match_once
from windrow.optimizer.shapes import shape_text
from windrow.plan.algebra.nodes import Distinct, Node, SemiJoin
from windrow.types import SqlType

REPEATED: Facts = {name: StreamFacts(1.0, {"k": 100.0}) for name in "abc"}
UNIQUE: Facts = {name: StreamFacts(1.0, {"k": 1_000_000.0}) for name in "abc"}
WINDOW, STEP = 1_000_000, 1_000


def shape(node: Node, facts: Facts = REPEATED, step: int = STEP) -> str:
    found, reason = match_once(plan(node, step), facts)
    assert found.schema == node.schema and (reason is None) == (found.root is node)
    return shape_text(found.root)


@pytest.mark.parametrize("is_anti, sign", [(True, "▷"), (False, "⋉")])
def test_where_values_repeat(is_anti: bool, sign: str) -> None:
    m = Maker()
    node = semi(m.window("a", WINDOW), m.window("c", WINDOW), is_anti=is_anti)
    assert shape(node) == f"a {sign} δ(c)"
    assert shape(node, UNIQUE) == f"a {sign} c"
    m = Maker()
    node = semi(m.window("a", 1_000), m.window("c", 1_000), is_anti=is_anti)
    assert shape(node, step=1) == f"a {sign} c", "a tick with one row does not pay for another operator"


def test_each_negation_is_weighed() -> None:
    """One inside the other, on either side, and beside a join."""
    m = Maker()
    inner = semi(m.window("b", WINDOW), m.window("c", WINDOW), is_anti=True)
    left = semi(inner, m.window("a", WINDOW), is_anti=False)
    assert shape(left) == "(b ▷ δ(c)) ⋉ δ(a)"
    m = Maker()
    joined = join(semi(m.window("a", WINDOW), m.window("c", WINDOW), is_anti=True), m.window("b", WINDOW))
    assert shape(joined) == "(a ▷ δ(c)) ⋈ b"


def test_right_columns_are_those_that_are_read() -> None:
    m = Maker()
    left, right = m.window("a", WINDOW), m.window("c", WINDOW)
    node = semi(left, right, is_anti=True)
    found, _ = match_once(plan(node, STEP), REPEATED)
    assert isinstance(found.root, SemiJoin) and [one.name for one in found.root.right.schema] == ["k"]
    mine, theirs = (next(one.sql for one in side.schema if one.name == "x") for side in (left, right))
    facts = {"a": REPEATED["a"], "c": StreamFacts(1.0, {"k": 100.0, "x": 2.0})}
    found, _ = match_once(plan(replace(node, condition=tree(f"{mine} < {theirs}")), STEP), facts)
    assert isinstance(found.root, SemiJoin) and [one.name for one in found.root.right.schema] == ["k", "x"]


@pytest.mark.parametrize("what", ["strict", "internal", "distinct", "double"])
def test_not_where_it_is_not_the_same(what: str) -> None:
    m = Maker()
    right: Node = m.window("c", WINDOW, internal=what == "internal")
    if what == "strict":
        right = m.group(right, ("k",), n="COUNT")
    if what == "distinct":
        right = Distinct(right)
    if what == "double":
        window = m.window("c", WINDOW)
        right = replace(
            window,
            columns=tuple(replace(one, column=replace(one.column, type=SqlType("DOUBLE"))) for one in window.columns),
        )
    node = semi(m.window("a", WINDOW), right, is_anti=True)
    assert match_once(plan(node, STEP), REPEATED) == (plan(node, STEP), None)


def test_strategies() -> None:
    """By negative tuples a semi-join counts rows by value itself."""
    node = plan(semi((m := Maker()).window("a", WINDOW), m.window("c", WINDOW), is_anti=True), STEP)
    assert (rules_off_for(UPA), rules_off_for(DIRECT)) == ((), ())
    found = optimize(node, REPEATED, rules_off_for(NEGATIVE))
    assert next(step for step in found.trace if step.rule == "match_once").is_off
    assert "δ" in shape_text(optimize(node, REPEATED).plan.root)
