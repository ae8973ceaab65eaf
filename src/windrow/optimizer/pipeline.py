"""The rules for continuous plans, in order, and the driver that runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

from windrow.optimizer.candidates import PlanCandidate
from windrow.optimizer.facts import NOTHING_MEASURED, Facts
from windrow.optimizer.rules.compute_on_arrival import compute_on_arrival
from windrow.optimizer.rules.match_once import match_once
from windrow.optimizer.rules.merge_joins import merge_joins
from windrow.optimizer.rules.nest_joins import nest_joins
from windrow.optimizer.rules.order_joins import order_joins, weigh_orders
from windrow.optimizer.rules.place_negation import place_negation, weigh_negation
from windrow.optimizer.rules.push_distinct import push_distinct
from windrow.optimizer.rules.push_projections import push_projections
from windrow.optimizer.rules.push_selections import push_selections
from windrow.optimizer.rules.reuse_distinct import reuse_distinct
from windrow.patterns.invariants import check_patterns
from windrow.plan.algebra.invariants import check, check_kept
from windrow.plan.algebra.nodes import ContinuousPlan

Apply = Callable[[ContinuousPlan, Facts], tuple[ContinuousPlan, str | None]]
Weigh = Callable[[ContinuousPlan, Facts], tuple[PlanCandidate, ...]]


@dataclass(frozen=True)
class PlanRule:
    """A rule: what it does in one sentence, and the function. `SET disabled_rules` switches it off by its name. `weigh`
    lists what a rule that chooses by cost chooses from."""

    name: str
    text: str
    apply: Apply
    weigh: Weigh | None = None


RULES: tuple[PlanRule, ...] = (
    PlanRule("push_selections", "Conditions are tested as early as possible, at best on arrival.", push_selections),
    PlanRule("compute_on_arrival", "What reads one window is computed by Spark on arrival.", compute_on_arrival),
    PlanRule("place_negation", "Negation stands where the plan is cheapest.", place_negation, weigh_negation),
    PlanRule("match_once", "EXISTS and NOT EXISTS look at one row per value, where that is cheaper.", match_once),
    PlanRule("merge_joins", "Joins on the same key become one multi-way join.", merge_joins),
    PlanRule("nest_joins", "Joins on different keys are nested in the cheapest order.", nest_joins),
    PlanRule("push_distinct", "DISTINCT over a join also removes duplicates from its inputs.", push_distinct),
    PlanRule("order_joins", "The inputs of a multi-way join are in the cheapest order.", order_joins, weigh_orders),
    PlanRule("push_projections", "Windows keep only the columns that the plan reads.", push_projections),
    PlanRule("reuse_distinct", "A join reads the rows of DISTINCT from the state of that.", reuse_distinct),
)


RULES_ONCE = tuple(rule for rule in RULES if rule.apply is not compute_on_arrival)
"""The rules for a plan that is evaluated once, over tuples that have arrived."""


@dataclass(frozen=True)
class RuleStep:
    """What a rule did to a plan. `reason` None: nothing; `is_off`: it is disabled and did not run. `weigh` lists what
    it has chosen from, and costs as much as the rule itself."""

    rule: str
    reason: str | None
    seconds: float
    is_off: bool = False
    weigh: Callable[[], tuple[PlanCandidate, ...]] = field(default=tuple, compare=False, repr=False)


@dataclass(frozen=True)
class OptimizedPlan:
    """A plan, the steps that led to it (none: it was saved), and the facts by which they chose."""

    plan: ContinuousPlan
    trace: tuple[RuleStep, ...]
    facts: Facts = field(default_factory=lambda: NOTHING_MEASURED)


def optimize(
    plan: ContinuousPlan,
    facts: Facts = NOTHING_MEASURED,
    off: Collection[str] = (),
    rules: tuple[PlanRule, ...] = RULES,
) -> OptimizedPlan:
    """The plan after all rules that are not in `off` (the setting `disabled_rules`), each run once, in order.

    Its output has the same columns and at every tick the same rows. Raises BrokenPlanError, which names the rule, if a
    rule breaks an invariant.
    """
    check(plan)
    check_patterns(plan)
    trace: list[RuleStep] = []
    for rule in rules:
        if rule.name in off:
            trace.append(RuleStep(rule.name, None, 0.0, is_off=True))
            continue
        plan, step = applied(rule, plan, facts)
        trace.append(step)
    return OptimizedPlan(plan, tuple(trace), facts)


def applied(rule: PlanRule, plan: ContinuousPlan, facts: Facts) -> tuple[ContinuousPlan, RuleStep]:
    """Run one rule and check what it made."""
    started = time.perf_counter()
    found, reason = rule.apply(plan, facts)
    if reason is not None:
        check(found, rule.name)
        check_patterns(found, rule.name)
        check_kept(plan, found, rule.name)
    weigh = tuple if rule.weigh is None else partial(rule.weigh, plan, facts)
    return found, RuleStep(rule.name, reason, time.perf_counter() - started, weigh=weigh)
