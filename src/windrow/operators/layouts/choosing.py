"""Chooses the layout of rows that may end or be withdrawn before (DESIGN 6; Golab's dissertation, section 3.5.2).

    share = rows withdrawn before their end / rows that left

Where few are withdrawn, a calendar with tombstones drops the rest for nothing. Where many are, tombstones pile up, and
a table by value and end is better, from which all that leaves is taken by key. The share is measured; newer rows weigh
more, since the counts are halved whenever the choice is made. What is in the table moves to the other layout as it is:
both have the same columns.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.keyed import GONE, Keyed
from windrow.operators.layouts.live import LEAVE
from windrow.operators.layouts.parts import Departures, Layout, StatePart
from windrow.operators.layouts.steps import StateTable
from windrow.operators.tables.edges import COUNT

COMMON, RARE = 0.15, 0.08
"""A calendar becomes a table above the first share, and a table a calendar below the second. Measured with Query 3 of
Golab and Özsu, SIGMOD 2005, over 20,000 and 200,000 tuples: at 4% the calendar was a seventh faster, at 9% they were
even, and from 13% on the table was a quarter to a third faster, and no larger."""

LEAST_LEFT = 100
"""So many rows must have left before the layout changes."""


def is_chosen(table: StateTable) -> bool:
    """Whether a table's layout depends on what leaves it."""
    return table.departures is not None


def wanted_layout(layout: Layout, departures: Departures) -> Layout:
    """The layout that suits rows that leave like this."""
    if departures.count < LEAST_LEFT:
        return layout
    if layout is Layout.CALENDAR:
        return Layout.KEYED if departures.share > COMMON else layout
    return Layout.CALENDAR if departures.share < RARE else layout


def relaid(table: StateTable, empty: Calendar, ticked: int) -> StateTable:
    """The table after a tick in the layout that suits it; `empty` is the calendar that it began as."""
    departures = table.departures
    if departures is None or not isinstance(table, Calendar | Keyed):
        return table
    if wanted_layout(table.layout, departures) is not table.layout:
        parts = [in_layout(part, _other(table.layout)) for part in table.parts("", ticked)]
        table = _empty(empty, _other(table.layout), parts)
        for part in parts:
            table = table.appended(part.rows)
    return replace(table, departures=departures.halved)


def begun(empty: StateTable, part: StatePart) -> StateTable:
    """The empty table to which a durable part is appended first."""
    if empty.layout is part.layout or not is_chosen(empty):
        return empty
    assert isinstance(empty, Calendar)
    return _empty(empty, part.layout, [part])


def in_layout(part: StatePart, layout: Layout) -> StatePart:
    """A part that replaces all earlier ones, for a table of another layout."""
    if part.layout is layout:
        return part
    if layout is Layout.KEYED:
        return replace(
            part, layout=layout, rows=part.rows.append_column(GONE, pa.array(np.zeros(len(part.rows), bool)))
        )
    return replace(part, layout=layout, rows=part.rows.drop_columns([GONE]))


def _other(layout: Layout) -> Layout:
    return Layout.CALENDAR if layout is Layout.KEYED else Layout.KEYED


def _empty(empty: Calendar, layout: Layout, parts: list[StatePart]) -> Calendar | Keyed:
    if layout is Layout.CALENDAR or not parts:
        return empty
    keys = tuple(name for name in parts[0].rows.column_names if name not in (LEAVE, COUNT, GONE))
    return Keyed(keys, departures=Departures())
