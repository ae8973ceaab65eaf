"""What is the same for all parts of a query, and what binding a part gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from windrow.cql.tokens import nearest_place
from windrow.errors import Place
from windrow.plan.binder import TypesOf
from windrow.plan.continuous.clocks import PlanClock, SourceOf, TableOf, no_tables
from windrow.plan.continuous.inputs import Columns, Relation
from windrow.plan.continuous.scope import Around
from windrow.plan.nodes import Order


@dataclass(frozen=True)
class BoundQuery:
    """A relation, and the ORDER BY over its columns."""

    relation: Relation
    order: tuple[Order, ...] = ()


@dataclass(frozen=True)
class InnerQuery:
    """The sub-query of EXISTS or IN: its rows, the names of the columns that IN compares, and the conditions that
    compare its rows with the query around: its own columns are resolved, those of the query around are not."""

    relation: Relation
    names: tuple[str, ...] = ()
    conditions: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class BindContext:
    """The query's text, what its names and types mean, its clock, and its columns. `bind` binds a sub-query,
    `bind_inner` that of a condition (as input number i, compared by IN or not), whose names `around` has. `table_of`
    finds a table by its name. `is_continual`: RESTORE or WSTREAM around a query asks when each of its results came."""

    text: str
    source_of: SourceOf
    types_of: TypesOf
    clock: PlanClock
    columns: Columns
    bind: Callable[[exp.Expr, BindContext], BoundQuery]
    bind_inner: Callable[[exp.Expr, BindContext, int, bool], InnerQuery]
    around: Around | None = None
    table_of: TableOf = no_tables
    is_continual: bool = False
    once: bool = False
    """Whether the query is asked once, at one instant."""

    @property
    def is_per_window(self) -> bool:
        """Whether sub-queries give their answer window by window (SLIDE)."""
        return self.clock.periodic and not self.is_continual

    def barred(self, why: str) -> BindContext:
        """The context of a part in which the names of the query around cannot be used."""
        return self if self.around is None else replace(self, around=replace(self.around, bar=why))

    def place(self, node: exp.Expr) -> Place | None:
        return nearest_place(node, self.text)
