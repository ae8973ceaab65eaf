"""Derived streams (CREATE STREAM s AS SELECT …): the stream that the output of a plan is, and its tuples."""

from __future__ import annotations

import pyarrow as pa

from windrow.catalog.definitions import DERIVED, StreamDef, define_stream
from windrow.cql.statements import ColumnDef, CreateDerivedStream, CreateQuery, CreateStream, Policy, Punctuate
from windrow.cql.window_clause import Measure, Unit
from windrow.cql.window_syntax import measure_text
from windrow.engine.plans.tables import append_schema, append_table
from windrow.errors import BindError
from windrow.plan.algebra.nodes import ContinuousPlan


def query_of(statement: CreateDerivedStream) -> CreateQuery:
    """The query whose output the stream is."""
    return CreateQuery(statement.name, statement.select)


def stream_of(statement: CreateDerivedStream, plan: ContinuousPlan) -> StreamDef:
    """The derived stream. Its columns are `ts`, the time of the result, which is its window attribute, and the select
    list; if the select list has a column `ts`, the attribute is called `_ts`, as in changes(). Its TICK is the plan's,
    or the given one, which must be a multiple of it.

    It is ordered: rows that a later tick reports have a later `ts` than those of an earlier one.
    """
    unit = Unit.TIME if plan.point.is_timestamp else Unit.VALUES
    tick, own = statement.tick, Measure(plan.step, unit)
    if tick is not None and (tick.unit is not unit or tick.amount % plan.step):
        raise BindError(
            f"TICK {measure_text(tick)}: stream '{statement.name}' gets its tuples every {measure_text(own)}",
            remedy="Give a multiple of that, or leave TICK out.",
        )
    at = append_schema(plan).names[0]
    columns = (ColumnDef(at, plan.point.bound.name), *(ColumnDef(c.name, c.type.name) for c in plan.schema))
    ordered = Punctuate(Policy.ORDERED)
    made = CreateStream(
        statement.name, columns, DERIVED, timestamp_by=at, tick=own if tick is None else tick, punctuate=(ordered,)
    )
    return define_stream(made)


def tuples_of(stream: StreamDef, plan: ContinuousPlan, changes: pa.Table) -> pa.Table:
    """The rows that came in a tick batch, as tuples of the derived stream."""
    return append_table(plan, changes).rename_columns([name for name, _ in stream.columns])
