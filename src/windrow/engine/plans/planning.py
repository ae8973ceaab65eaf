"""From a query's text to its plan, with what was chosen when the query was created: a restart makes the same plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from windrow.optimizer.common_subplan import numbered_in_order
from windrow.optimizer.execution import UPA, executed, rules_off_for
from windrow.optimizer.facts import NOTHING_MEASURED, Facts, StreamFacts
from windrow.optimizer.pipeline import RULES, OptimizedPlan, optimize
from windrow.plan.algebra.nodes import Streaming, ToStream
from windrow.plan.binder import TypesOf
from windrow.plan.continuous import bind_continuous
from windrow.plan.continuous.clocks import SourceOf, TableOf
from windrow.settings import Settings

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
