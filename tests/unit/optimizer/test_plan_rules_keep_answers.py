"""Every rule keeps R(b) equal at every tick: random plans over random streams, evaluated by definition."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from support.plan_builder import join_plans, negation_plans, plans, streams
from support.plan_interpreter import Streams, answer

from windrow.optimizer.facts import NOTHING_MEASURED, Facts, StreamFacts
from windrow.optimizer.negation_moves import moved
from windrow.optimizer.pipeline import RULES, PlanRule, applied, optimize
from windrow.plan.algebra.invariants import check
from windrow.plan.algebra.nodes import ContinuousPlan

REPEATING: Facts = {
    "s": StreamFacts(0.1, dict.fromkeys(("k", "x", "y"), 1.0)),
    "r": StreamFacts(5.0, dict.fromkeys(("k", "x", "y"), 2.0)),
    "q": StreamFacts(90.0, {"k": 50.0}, {"x > 0": 0.01}),
}
SELECTIVE: Facts = {
    "s": StreamFacts(10.0, dict.fromkeys(("k", "x", "y"), 90.0)),
    "r": StreamFacts(0.5, dict.fromkeys(("k", "x", "y"), 4.0)),
    "q": StreamFacts(40.0, dict.fromkeys(("k", "x", "y"), 100.0)),
}
MANY: Facts = {name: StreamFacts((known.rate or 1.0) * 1e6, known.distinct) for name, known in REPEATING.items()}
"""So many rows that nothing else counts."""

FACTS = st.sampled_from([NOTHING_MEASURED, REPEATING, SELECTIVE, MANY])
PLANS = st.one_of(plans(), join_plans(), negation_plans())
TICKS = (4, 8, 12)


def same_answers(before: ContinuousPlan, after: ContinuousPlan, data: Streams) -> None:
    for tick in TICKS:
        assert answer(before, data, tick) == answer(after, data, tick)


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
@settings(max_examples=60, deadline=None)
@given(plan=PLANS, data=streams(), facts=FACTS)
def test_one_rule(rule: PlanRule, plan: ContinuousPlan, data: Streams, facts: Facts) -> None:
    check(plan)
    found, step = applied(rule, plan, facts)
    if step.reason is None:
        assert found == plan
    else:
        same_answers(plan, found, data)


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
@settings(max_examples=30, deadline=None)
@given(plan=PLANS, facts=FACTS)
def test_rule_twice(rule: PlanRule, plan: ContinuousPlan, facts: Facts) -> None:
    once, _ = applied(rule, plan, facts)
    again, step = applied(rule, once, facts)
    assert again == once and step.reason is None


@settings(max_examples=150, deadline=None)
@given(plan=negation_plans(), data=streams(), number=st.integers(0, 1 << 20))
def test_every_move_of_a_negation(plan: ContinuousPlan, data: Streams, number: int) -> None:
    """Whatever the costs are: the plan that a move makes, and what another one makes of that."""
    root = plan.root
    for _ in range(2):
        made = list(moved(root))
        if not made:
            return
        root = made[number % len(made)]
        check(replace(plan, root=root))
        same_answers(plan, replace(plan, root=root), data)


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_rule_is_met(rule: PlanRule) -> None:
    """The random plans above give every rule something to do."""

    def is_met(drawn: tuple[ContinuousPlan, Facts]) -> bool:
        return applied(rule, *drawn)[1].reason is not None

    once = settings(max_examples=1_000, deadline=None, database=None, phases=[Phase.generate])
    find(st.tuples(PLANS, FACTS), is_met, settings=once)


@settings(max_examples=100, deadline=None)
@given(plan=PLANS, data=streams(), facts=FACTS, off=st.sets(st.sampled_from([rule.name for rule in RULES]), max_size=2))
def test_all_rules(plan: ContinuousPlan, data: Streams, facts: Facts, off: set[str]) -> None:
    found = optimize(plan, facts, off)
    assert {step.rule for step in found.trace if step.is_off} == off
    same_answers(plan, found.plan, data)
