"""What is the same for all parts of a query, and what binding a part gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from windrow.errors import Place
from windrow.plan.binder import TypesOf
from windrow.plan.continuous.clocks import PlanClock, SourceOf
from windrow.plan.continuous.inputs import Columns, Relation
from windrow.plan.continuous.shape import around
from windrow.plan.nodes import Order


@dataclass(frozen=True)
class BoundQuery:
    """A relation, and the ORDER BY over its columns."""

    relation: Relation
    order: tuple[Order, ...] = ()


@dataclass(frozen=True)
class BindContext:
    """The query's text, what its names and types mean, its clock, and its columns. `bind` binds a sub-query."""

    text: str
    source_of: SourceOf
    types_of: TypesOf
    clock: PlanClock
    columns: Columns
    bind: Callable[[exp.Expr, BindContext], BoundQuery]

    def place(self, node: exp.Expr) -> Place | None:
        return around(node, self.text)
