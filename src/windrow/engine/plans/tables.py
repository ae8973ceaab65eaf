"""The tables that users see of a continuous query: its changes, its view, and the answers to its windows. ORDER BY
orders the view, and the rows inside each answer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.cql.final.sql import ordered_by
from windrow.operators.changes import HEAD
from windrow.operators.tables.kernel import Kernel, naive, types_of
from windrow.operators.tables.rows import longs, taken
from windrow.plan.algebra.nodes import ContinuousPlan
from windrow.types import SqlType

LIFETIME = ("op", "ts", "exp")
"""The columns of a change before the select list."""


def changes_schema(plan: ContinuousPlan) -> pa.Schema:
    """The columns of `changes()`: op, ts, exp, then the select list. Where the select list has one of these names, the
    lifetime's is preceded by underscores."""
    kind = plan.point.bound.arrow
    op, ts, exp = (_free(name, plan) for name in LIFETIME)
    return pa.schema([(op, pa.string()), (ts, kind), (exp, kind), *_selected(plan)])


def changes_table(plan: ContinuousPlan, changes: pa.Table) -> pa.Table:
    """Stored changes, as users see them."""
    columns = [changes.column("op"), *(_as_point(changes.column(name), plan.point) for name in LIFETIME[1:])]
    return pa.table([*columns, *changes.columns[len(HEAD) :]], schema=changes_schema(plan))


def append_schema(plan: ContinuousPlan) -> pa.Schema:
    """The columns of rows that only come: ts, then the select list. The name of ts as in `changes_schema`."""
    return pa.schema([(_free("ts", plan), plan.point.bound.arrow), *_selected(plan)])


def append_table(plan: ContinuousPlan, changes: pa.Table) -> pa.Table:
    """Of stored changes, the rows that came."""
    came = changes.filter(pc.equal(changes.column("op"), "+"))
    columns = [_as_point(came.column("ts"), plan.point), *came.columns[len(HEAD) :]]
    return pa.table(columns, schema=append_schema(plan))


def view_schema(plan: ContinuousPlan) -> pa.Schema:
    """The columns of the view: the select list."""
    return pa.schema(_selected(plan))


def view_table(plan: ContinuousPlan, rows: pa.Table) -> pa.Table:
    """Rows of the view of stored changes, as users see them."""
    return pa.table(rows.columns, schema=view_schema(plan))


def answers_schema(plan: ContinuousPlan) -> pa.Schema:
    """The columns of `answers()`: the window, then the select list."""
    kind = plan.point.bound.arrow
    bounds = [("window_start", kind), ("window_end", kind), ("is_revision", pa.bool_())]
    return pa.schema([*bounds, *_selected(plan)])


def answers_table(plan: ContinuousPlan, changes: pa.Table) -> pa.Table:
    """The answers to the windows that end at the ticks of these stored changes, all of them '+' rows of one tick."""
    ends = changes.column("tick")
    starts = _starts(plan, ends)
    columns = [*(_as_point(one, plan.point) for one in (starts, ends)), pa.array(np.zeros(len(ends), bool))]
    return pa.table([*columns, *changes.columns[len(HEAD) :]], schema=answers_schema(plan))


def ordered(plan: ContinuousPlan, table: pa.Table, kernel: Kernel, first: str | None = None) -> pa.Table:
    """The rows in the plan's order, ties by all columns of the select list, which are the last of the table. `first` is
    a column to sort by before. Without ORDER BY the table as it is."""
    if not plan.order or table.num_rows < 2:
        return table
    names = [column.sql for column in plan.schema]
    values = table.columns[table.num_columns - len(names) :]
    rows = {name: naive(column) for name, column in zip(names, values, strict=True)}
    types = types_of(plan.schema)
    by = [ordered_by(kernel.final(one.expression, types).sql, one.descending, one.nulls_first) for one in plan.order]
    by += [f'"{name}" ASC NULLS FIRST' for name in names]
    if first is not None:
        rows["__first"] = table.column(first)
        by.insert(0, "__first ASC")
    source = pa.table({**rows, "__row": np.arange(table.num_rows)})
    done = kernel.query(f"FROM source SELECT __row ORDER BY {', '.join(by)}, __row", source=source)
    return taken(table, longs(done.column("__row")))


def _starts(plan: ContinuousPlan, ends: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Where the earliest window of the plan starts, for each end; NULL: it has no start."""
    windows = [window.lifetime for window in plan.windows]
    if any(one.range is None and one.since is None for one in windows):
        return pa.nulls(len(ends), pa.int64())
    starts = [pc.subtract(ends, one.range + one.offset) for one in windows if one.range is not None]
    starts += [pa.scalar(one.since, pa.int64()) for one in windows if one.range is None]
    first = pc.min_element_wise(*starts)
    return first if isinstance(first, pa.ChunkedArray | pa.Array) else pa.repeat(first, len(ends))


def _selected(plan: ContinuousPlan) -> list[tuple[str, pa.DataType]]:
    return [(column.name, column.type.arrow) for column in plan.schema]


def _free(name: str, plan: ContinuousPlan) -> str:
    others = {column.name.lower() for column in plan.schema}
    while name in others:
        name = f"_{name}"
    return name


def _as_point(points: pa.ChunkedArray | pa.Array, kind: SqlType) -> pa.ChunkedArray | pa.Array:
    """Points as values of the window attribute's type."""
    return points.cast(kind.bound.arrow) if kind.is_timestamp else points
