"""Group-by over strict input, of aggregates that cannot be subtracted: touched groups are computed from live rows.

    γ(R)(b) = one row per group of R(b), and one row without keys

The state is the groups and the rows that are alive, with the columns that the aggregates read. A group is touched at
the ticks at which one of its rows comes, is withdrawn or expires. Sums of integers are still added to and taken from;
what else there is is merged from the rows of the group that are alive at the tick, in an order by their values: so the
result does not depend on when they came, or on how ticks are batched.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windrow.operators.group_by import CellFlow, NewCells, grouped, numbered_groups
from windrow.operators.grouping.calls import GroupCalls, calls_of
from windrow.operators.grouping.cells import cells_apart
from windrow.operators.layouts.keyed import Keyed
from windrow.operators.layouts.live import ENTER, LEAVE, intervals, leaving
from windrow.operators.layouts.steps import Outcome, StateTable, TickBatch
from windrow.operators.tables.edges import COUNT, STRICT, Edge, repeated
from windrow.operators.tables.rows import hashed, longs, taken
from windrow.operators.ticks import Points
from windrow.plan.algebra.nodes import GroupBy, PlanColumn, columns_in

ROWS = "/rows"
"""The path of the rows that are alive, after the operator's own, which is that of the groups."""


def read_columns(node: GroupBy) -> tuple[PlanColumn, ...]:
    """The columns of the input that the state keeps: the group keys, and what the aggregates read."""
    read = {name for tree in calls_of(node).trees.values() for name in columns_in(tree)}
    return tuple(column for column in node.input.schema if column in node.keys or column.sql in read)


def group_live_rows(
    node: GroupBy, edge: Edge, path: str, groups: Keyed, live: StateTable, batch: TickBatch, is_internal: bool
) -> Outcome:
    """The groups that change at the due ticks."""
    calls, due = calls_of(node), batch.due
    narrow = read_columns(node)
    edge = Edge(edge.rows.select([*STRICT, *(column.sql for column in narrow)]), narrow, is_strict=True)
    going = leaving(live, due, narrow)
    keys = pa.concat_tables([table.select(calls.key_names) for table in (edge.rows, going)])
    found = intervals(edge, path + ROWS, live, due, lambda rows: _of_groups(rows, keys, calls))
    rows = repeated(found.rows, longs(found.rows.column(COUNT)))
    enter, leave = longs(rows.column(ENTER)), longs(rows.column(LEAVE))
    named = numbered_groups(calls, rows, groups)
    cells = cells_apart(calls, rows, named.of_rows, enter, leave, batch.kernel)
    flow = _flow(calls, named.of(cells), due.before, due.upto)
    done = grouped(calls, path, groups, flow, batch, is_internal)
    return Outcome(done.edge, {**done.tables, **found.tables}, (*done.parts, *found.parts))


def _of_groups(rows: pa.Table, keys: pa.Table, calls: GroupCalls) -> pa.Table:
    """The rows that may be of a group with one of these keys; all rows are of the one without keys."""
    if not calls.key_names:
        return rows
    mine, theirs = (hashed([t.column(name) for name in calls.key_names], t.num_rows) for t in (rows, keys))
    return taken(rows, np.isin(mine, theirs))


def _flow(calls: GroupCalls, named: NewCells, before: int, upto: int) -> CellFlow:
    """Cells of intervals: those that come in the batch, those that were there and go, and all."""
    cells = named.cells
    enter, leave = longs(cells.column(ENTER)), longs(cells.column(LEAVE))
    new = NewCells(taken(cells, enter > before), named.numbers, named.keys, named.at)
    going = taken(cells, (enter <= before) & (leave <= upto)).select(calls.cell_schema.names)

    def every(numbers: Points) -> pa.Table:
        return cells.select(calls.cell_schema.names)

    return CellFlow(new, going, every, in_order=True)
