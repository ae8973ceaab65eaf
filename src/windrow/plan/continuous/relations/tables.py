"""Bind a table in FROM. It has no window: its rows are there until a statement removes them."""

from __future__ import annotations

from sqlglot import exp

from windrow.catalog.relations import TableDef
from windrow.cql.dialect import window_of
from windrow.errors import BindError
from windrow.plan.algebra.nodes import TableColumn, TableScan
from windrow.plan.continuous.context import BindContext
from windrow.plan.continuous.inputs import PlanInput


def bind_table(source: exp.Table, table: TableDef, context: BindContext) -> PlanInput:
    """A table that statements change."""
    clause = window_of(source)
    if clause is not None:
        raise BindError(
            f"'{table.name}' is a table, and windows are of streams",
            place=clause.place,
            remedy="Leave the window out.",
        )
    columns = tuple(TableColumn(context.columns.new(name, kind), name) for name, kind in table.columns)
    nrr = None if table.is_retroactive else table.name
    return PlanInput(source.alias or source.name, TableScan(table.name, columns), of_table=table.name, nrr=nrr)
