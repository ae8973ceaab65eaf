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
    """A table."""
    clause = window_of(source)
    if clause is not None:
        raise BindError(
            f"'{table.name}' is a table, and windows are of streams",
            place=clause.place,
            remedy="Leave the window out.",
        )
    _refuse_other_unit(source, table, context)
    columns = tuple(TableColumn(context.columns.new(name, kind), name) for name, kind in table.columns)
    nrr = None if table.is_retroactive else table.name
    return PlanInput(source.alias or source.name, TableScan(table.name, columns), of_table=table.name, nrr=nrr)


def _refuse_other_unit(source: exp.Table, table: TableDef, context: BindContext) -> None:
    """A table that a stream feeds changes at points of that stream, so a plan counts in the same unit."""
    if table.stream is None:
        return
    kind = context.source_of(table.stream, None).attribute_type
    if kind.is_timestamp != context.clock.point.is_timestamp:
        raise BindError(
            f"table '{table.name}' changes by the {kind} of stream '{table.stream}', and the windows of this query are "
            f"of {context.clock.point}",
            place=context.place(source),
            remedy="Feed the table by a stream with a window attribute of the same unit.",
        )
