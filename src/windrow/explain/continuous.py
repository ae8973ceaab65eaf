"""The plan of a continuous query as a tree, with the update pattern of every edge."""

from __future__ import annotations

from windrow.engine.plans.query import ContinuousQuery
from windrow.optimizer.pipeline import OptimizedPlan


def explain_continuous(query: ContinuousQuery) -> str:
    return explain_plan(query.name, query.optimized)


def explain_plan(name: str, optimized: OptimizedPlan) -> str:
    return f"query {name}\n{optimized.plan.root}"
