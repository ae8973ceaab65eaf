"""The tables that users see of a continuous query: its changes, its view, and the answers to its windows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.operators.changes import HEAD
from windrow.plan.algebra.nodes import ContinuousPlan, StreamWindow
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
    longest = _longest(plan)
    starts = pa.nulls(len(ends), pa.int64()) if longest is None else pc.subtract(ends, longest)
    columns = [*(_as_point(one, plan.point) for one in (starts, ends)), pa.array(np.zeros(len(ends), bool))]
    return pa.table([*columns, *changes.columns[len(HEAD) :]], schema=answers_schema(plan))


def _longest(plan: ContinuousPlan) -> int | None:
    """How far before its end the earliest window of the plan starts; None: it has no start."""
    reaches = [_reach(window) for window in plan.windows]
    return None if any(reach is None for reach in reaches) else max(reach or 0 for reach in reaches)


def _reach(window: StreamWindow) -> int | None:
    lifetime = window.lifetime
    return None if lifetime.range is None else lifetime.range + lifetime.offset


def _selected(plan: ContinuousPlan) -> list[tuple[str, pa.DataType]]:
    return [(column.name, column.type.arrow) for column in plan.schema]


def _free(name: str, plan: ContinuousPlan) -> str:
    taken = {column.name.lower() for column in plan.schema}
    while name in taken:
        name = f"_{name}"
    return name


def _as_point(points: pa.ChunkedArray | pa.Array, kind: SqlType) -> pa.ChunkedArray | pa.Array:
    """Points as values of the window attribute's type."""
    return points.cast(kind.bound.arrow) if kind.is_timestamp else points
