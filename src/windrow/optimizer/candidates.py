"""Plans that a rule chooses from, with their costs, for EXPLAIN VERBOSE."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlanCandidate:
    """A plan, or an order of inputs, in one line; what it costs per point; whether it is the one that was given to the
    rule, and the one that it chose."""

    text: str
    cost: float
    is_given: bool = False
    is_chosen: bool = False


def shortened(candidates: list[PlanCandidate], most: int) -> tuple[PlanCandidate, ...]:
    """The cheapest candidates in the order of their costs, and among them the given and the chosen one."""
    ranked = sorted(candidates, key=lambda one: one.cost)
    named = [one for one in ranked if one.is_given or one.is_chosen]
    others = [one for one in ranked if not (one.is_given or one.is_chosen)][: max(0, most - len(named))]
    return tuple(one for one in ranked if one in named or one in others)
