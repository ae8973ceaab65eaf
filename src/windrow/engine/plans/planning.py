"""From a query's text to its plan, with what was chosen when the query was created.

The state of a query is that of its plan, so the plan is saved with it. A restart makes the plan again, from the saved
choices; where that gives another one, since this version of Windrow has other costs or rules, the saved plan is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from windrow.optimizer.common_subplan import numbered_in_order
from windrow.optimizer.execution import UPA, executed, rules_off_for
from windrow.optimizer.facts import NOTHING_MEASURED, Facts, StreamFacts
from windrow.optimizer.pipeline import RULES, OptimizedPlan, optimize
from windrow.patterns.invariants import check_patterns
from windrow.plan.algebra.nodes import ContinuousPlan, Streaming, ToStream
from windrow.plan.algebra.recording import recorded, restored_plan
from windrow.plan.binder import TypesOf
from windrow.plan.continuous import bind_continuous
from windrow.plan.continuous.clocks import SourceOf, TableOf
from windrow.settings import Settings

PLAN = "plan"
"""The name of the plan in what is saved of a query."""

FIRST_RULES = (
    *("push_selections", "compute_on_arrival", "merge_joins"),
    *("push_distinct", "order_joins", "push_projections"),
)
"""The rules of the versions that did not note which rules there were."""


@dataclass(frozen=True)
class PlanChoices:
    """What a query depends on besides its text: the rules that were switched off, and whether a row that expires is
    withdrawn by a '-' (setting `explicit_expiry`). `begins_after`: the last tick that was due when it was created on
    streams that had run before; it reports only what comes after. `facts`: what was measured of the streams then.
    `execution`: the strategy of the whole plan. `known_from`: the first tick at which it was known, when the query was
    created, what is in its tables (None: at all ticks); it does not begin before."""

    rules_off: tuple[str, ...] = ()
    explicit_expiry: bool = False
    begins_after: int | None = None
    facts: Facts = field(default_factory=dict)
    execution: str = UPA
    known_from: int | None = None

    @classmethod
    def of(cls, settings: Settings, facts: Facts = NOTHING_MEASURED) -> PlanChoices:
        explicit, execution = settings.text("explicit_expiry") == "on", settings.text("execution")
        return cls(tuple(sorted(settings.rules_off)), explicit, facts=facts, execution=execution)

    def saved(self) -> dict[str, Any]:
        return {
            "rules_off": list(self.rules_off),
            "rules": [rule.name for rule in RULES],
            "explicit_expiry": self.explicit_expiry,
            "begins_after": self.begins_after,
            "facts": {stream: known.saved() for stream, known in self.facts.items()},
            "execution": self.execution,
            "known_from": self.known_from,
        }

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> PlanChoices:
        """The choices of a query. Rules that came after it was created stay off: its state is that of its plan."""
        facts = {stream: StreamFacts.restored(known) for stream, known in saved["facts"].items()}
        later = {rule.name for rule in RULES} - set(saved.get("rules", FIRST_RULES))
        off, execution = tuple(sorted({*saved["rules_off"], *later})), saved.get("execution", UPA)
        begins = saved["begins_after"], facts, execution, saved.get("known_from")
        return cls(off, saved["explicit_expiry"], *begins)


def planned(
    select: exp.Expr, text: str, source_of: SourceOf, types_of: TypesOf, choices: PlanChoices, table_of: TableOf
) -> OptimizedPlan:
    """The optimized plan of a continuous query, for its strategy; raises BindError at the place of a mistake."""
    bound = bind_continuous(select, text, source_of, types_of, table_of)
    found = optimize(bound, choices.facts, {*choices.rules_off, *rules_off_for(choices.execution)})
    plan = found.plan
    if plan.periodic and not isinstance(plan.root, ToStream):
        # Every tick delivers the whole answer of its window.
        plan = replace(plan, root=ToStream(plan.root, Streaming.RSTREAM))
    return replace(found, plan=numbered_in_order(executed(plan, choices.execution)))


def saved_query(plan: ContinuousPlan, types: str, choices: PlanChoices) -> str:
    """What the catalog keeps of a query beside its text: its choices, what Spark said of its types, and its plan."""
    return json.dumps({"types": types, "point": plan.point.name, **choices.saved(), PLAN: recorded(plan)})


def with_plan(saved: Mapping[str, Any], plan: ContinuousPlan) -> str:
    """What a version kept that did not save plans, with the plan."""
    return json.dumps({**saved, PLAN: recorded(plan)})


def kept_plan(saved: Mapping[str, Any], facts: Facts) -> OptimizedPlan:
    """The plan that was saved, without the steps that led to it. Raises StateError if it cannot be read."""
    plan = restored_plan(saved[PLAN])
    check_patterns(plan)
    return OptimizedPlan(plan, (), facts)


def is_plan_of(saved: Mapping[str, Any], plan: ContinuousPlan) -> bool:
    """Whether a plan that was made again is the saved one, as far as is known: early versions saved none."""
    return PLAN not in saved or recorded(plan) == saved[PLAN]
