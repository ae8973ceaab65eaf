"""What the sink of a continuous query gets: its mode, its columns, and the table of a tick batch."""

from __future__ import annotations

from windrow.cql.statements import CreateQuery
from windrow.dataplane.sinks import SinkMode, given_mode
from windrow.engine.plans.tables import answers_schema, append_schema, changes_schema, view_schema
from windrow.errors import BindError
from windrow.plan.algebra.nodes import ContinuousPlan
from windrow.plan.continuous.properties import how_to_grow, is_monotonic, why_not_monotonic

_SCHEMAS = {SinkMode.APPEND: append_schema, SinkMode.CHANGES: changes_schema, SinkMode.VIEW: view_schema}


def mode_of(statement: CreateQuery, plan: ContinuousPlan) -> SinkMode | None:
    """The mode of a query's sink; None if it has no sink, or answers windows.

    Output that only grows is appended, other output is written as changes. To append the latter is refused: a reader
    of the file could not tell what is gone.
    """
    if statement.sink is None:
        return None
    given = given_mode(statement.name, statement.sink, not plan.periodic)
    if plan.periodic:
        return None
    grows = is_monotonic(plan.root)
    if given is SinkMode.APPEND and not grows:
        raise BindError(
            f"mode '{given.value}': the output of query '{statement.name}' cannot be appended: "
            f"{why_not_monotonic(plan.root)}",
            remedy=f"Use mode 'changes', which also writes when rows end. Or: {how_to_grow(plan.root)}.",
        )
    return given or (SinkMode.APPEND if grows else SinkMode.CHANGES)


def sink_columns(plan: ContinuousPlan, mode: SinkMode | None) -> tuple[str, ...]:
    """The names and types of the columns that a sink gets, by which its output is recognised."""
    schema = answers_schema(plan) if mode is None else _SCHEMAS[mode](plan)
    return tuple(f"{field.name} {field.type}" for field in schema)
