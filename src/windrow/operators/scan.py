"""Windows over streams: stored tuples as lifetimes.

W(S) = {[t + d, t + d + T) : t ∈ S}    for RANGE T OFFSET d
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.operators.tables.edges import Edge
from windrow.operators.tables.rows import longs, taken
from windrow.operators.ticks import EXP, NEVER, TS, UNTIL, DueTicks, Points
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Filter,
    Join,
    Lifetime,
    Node,
    OuterJoin,
    Project,
    RowsWindow,
    SemiJoin,
    StreamWindow,
    TableScan,
    Window,
)
from windrow.types import POINT_MIN

POINT, ARRIVED = "__t", "__arrived"
"""Columns of stored rows: the tuple's point, and for a count-based window its number in the order of arrival."""


@dataclass(frozen=True)
class StreamRows:
    """Stored tuples of a window: POINT, for a count-based window ARRIVED, and the window's columns.

    `old` are those born below `before` that were alive then (exp ≥ before); None if the plan does not ask for them
    (`needs_history`). `new` are those born in [before, upto).
    """

    new: pa.Table
    old: pa.Table | None = None


def stored_schema(window: Window) -> pa.Schema:
    """The columns of a window's stored tuples."""
    head = [POINT, *([ARRIVED] if isinstance(window, RowsWindow) else [])]
    return pa.schema([*((name, pa.int64()) for name in head), *((c.sql, c.type.arrow) for c in window.schema)])


def split(window: Window, rows: pa.Table, due: DueTicks) -> StreamRows:
    """Stored tuples as old and new ones; others are left out."""
    births = added(longs(rows.column(POINT)), window.lifetime.offset)
    ends = births_end(births, window.lifetime)
    old, new = (births < due.before) & (ends >= due.before), (births >= due.before) & (births < due.upto)
    return StreamRows(taken(rows, new), taken(rows, old))


def read_window(window: Window, read: Callable[[int, int], pa.Table], history: bool, due: DueTicks) -> StreamRows:
    """Old and new tuples, read apart: `read` gives the stored tuples with lo ≤ point < hi."""
    first, below = due.before - window.lifetime.offset, reach(window, history)
    names = stored_schema(window).names
    new = read(first, due.upto - window.lifetime.offset).rename_columns(names)
    if not history:
        return StreamRows(new)
    return StreamRows(new, read(POINT_MIN if below is None else due.before - below, first).rename_columns(names))


def scanned(window: StreamWindow, rows: pa.Table, has_until: bool) -> pa.Table:
    """Stored tuples as lifetimes."""
    births = added(longs(rows.column(POINT)), window.lifetime.offset)
    columns = {column.sql: rows.column(column.sql) for column in window.schema}
    return pa.table(lifetime_columns(births, window.lifetime, has_until) | columns)


def scan(window: StreamWindow, rows: pa.Table, has_until: bool) -> Edge:
    return Edge(scanned(window, rows, has_until), window.schema)


def lifetime_columns(births: Points, lifetime: Lifetime, has_until: bool) -> dict[str, pa.Array]:
    """TS, EXP and UNTIL of rows born at these points."""
    ends = births_end(births, lifetime)
    columns = {TS: pa.array(births), EXP: pa.array(ends)}
    if has_until:
        columns[UNTIL] = pa.array(np.full(births.size, NEVER)) if lifetime.internal else columns[EXP]
    return columns


def births_end(births: Points, lifetime: Lifetime) -> Points:
    if lifetime.range is None:
        return np.full(births.size, NEVER, np.int64)
    return added(births, lifetime.range)


def added(points: Points, length: int) -> Points:
    """points + length, at most NEVER."""
    if not length:
        return points
    return np.where(points > NEVER - length, NEVER, np.minimum(points, NEVER - length) + length)


def needs_history(plan: ContinuousPlan) -> tuple[bool, ...]:
    """For each window of the plan, whether the plan reads tuples again after the tick that they entered at.

    Only joins do, inner, semi- and outer ones, of the windows that they read through selections and projections alone;
    of other inputs, count-based windows among them, they keep the rows themselves. Every other operator keeps what it
    needs of a tuple in its state.
    """
    asked: list[bool] = []
    _ask(plan.root, False, asked)
    return tuple(asked)


def _ask(node: Node, below_join: bool, asked: list[bool]) -> None:
    if isinstance(node, Window):
        asked.append(below_join and isinstance(node, StreamWindow))
        return
    stays = isinstance(node, Filter | Project) and below_join
    for one in node.inputs:
        _ask(one, stays or isinstance(node, Join | SemiJoin | OuterJoin), asked)


def reach(window: Window, history: bool = True) -> int | None:
    """How far below the ticked point the window's tuples are needed: those with point ≥ ticked − reach. None: all.

    Without history, only tuples that are not born yet are needed: those within OFFSET.
    """
    if not history:
        return window.lifetime.offset
    return None if window.lifetime.range is None else window.lifetime.offset + window.lifetime.range


def table_of(node: Node) -> TableScan | None:
    """The table below selections and projections; None if there is another operator."""
    while isinstance(node, Filter | Project):
        node = node.input
    return node if isinstance(node, TableScan) else None


def window_of(node: Node) -> StreamWindow | None:
    """The window below selections and projections; None if there is another operator, or a count-based window."""
    while isinstance(node, Filter | Project):
        node = node.input
    return node if isinstance(node, StreamWindow) else None
