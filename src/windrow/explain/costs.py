"""EXPLAIN VERBOSE of a continuous query: what each operator costs, and the plans that the rules chose from."""

from __future__ import annotations

from collections.abc import Iterator

from windrow.optimizer.candidates import PlanCandidate
from windrow.optimizer.cost import CostedOperator, OperatorCost, plan_cost
from windrow.optimizer.pipeline import OptimizedPlan, RuleStep
from windrow.optimizer.shapes import shape_text
from windrow.plan.algebra.nodes import ContinuousPlan
from windrow.types import number_text

PARTS = ("inserting", "processing", "expiring", "withdrawing", "starting")


def verbose_lines(optimized: OptimizedPlan) -> list[str]:
    """The costs of a plan and the candidates, line by line. A plan that was saved has no candidates."""
    return [*_costs(optimized), *(_candidates(optimized) if optimized.trace else ())]


def _scale(plan: ContinuousPlan) -> tuple[float, str]:
    """By what estimates per point are multiplied, and the unit of time then."""
    return (1e6, "second") if plan.point.is_timestamp else (1.0, "point")


def _costs(optimized: OptimizedPlan) -> Iterator[str]:
    plan = optimized.plan
    factor, unit = _scale(plan)
    found = plan_cost(plan, optimized.facts)
    yield f"Costs, in rows handled per {unit} ({_known(optimized)}):"
    shown = [(one.cost.total * factor, _operator(one, factor)) for one in reversed(found.operators)]
    shown.insert(0, (found.answer.total * factor, f"the answer{_parts(found.answer, factor)}"))
    shown.append((found.total * factor, "in all"))
    width = max(len(number_text(cost)) for cost, _ in shown)
    yield from (f"  {number_text(cost).rjust(width)}  {text}" for cost, text in shown)


def _known(optimized: OptimizedPlan) -> str:
    rates = {name.lower() for name, known in optimized.facts.items() if known.rate is not None}
    measured = [name for name in optimized.plan.streams if name.lower() in rates]
    assumed = [name for name in optimized.plan.streams if name.lower() not in rates]
    parts = [f"{what} of {', '.join(names)}" for what, names in (("measured", measured), ("assumed", assumed)) if names]
    return "; ".join(parts)


def _operator(one: CostedOperator, factor: float) -> str:
    out = one.output
    gone = f", {number_text(out.withdrawn * factor)} withdrawn" if out.withdrawn else ""
    gives = f"gives {number_text(out.rate * factor)} rows{gone}, {number_text(out.live)} alive"
    return f"{type(one.annotated.node).__name__} {shape_text(one.annotated.node)}{_parts(one.cost, factor)}; {gives}"


def _parts(cost: OperatorCost, factor: float) -> str:
    named = [(name, getattr(cost, name)) for name in PARTS]
    some = [f"{name} {number_text(part * factor)}" for name, part in named if part]
    return f": {', '.join(some)}" if some else ""


def _candidates(optimized: OptimizedPlan) -> Iterator[str]:
    factor, unit = _scale(optimized.plan)
    weighed = [(step, step.weigh()) for step in optimized.trace]
    some = [(step, candidates) for step, candidates in weighed if candidates]
    if not some:
        yield "Candidates: this plan alone; no rule that chooses by cost had a choice"
        return
    yield f"Candidates, with what they cost per {unit} where the rule chose:"
    for step, candidates in some:
        yield f"  {step.rule}: {_why(step, candidates)}"
        width = max(len(number_text(one.cost * factor)) for one in candidates)
        for one in candidates:
            marks = [*(["chosen"] if one.is_chosen else []), *(["as given"] if one.is_given else [])]
            marked = f"  ({', '.join(marks)})" if marks else ""
            yield f"    {number_text(one.cost * factor).rjust(width)}  {one.text}{marked}"


def _why(step: RuleStep, candidates: tuple[PlanCandidate, ...]) -> str:
    if step.reason is not None:
        return f"chosen since it is the cheapest: {step.reason}"
    least = min(one.cost for one in candidates)
    given = next(one for one in candidates if one.is_given)
    if given.cost <= least:
        return "the plan as given is the cheapest"
    return "the plan as given stays, since no other is clearly cheaper"
