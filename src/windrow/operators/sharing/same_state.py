"""Whether two tables of state mean the same: then the operators over them give the same from now on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.parts import Layout
from windrow.operators.layouts.steps import StateTable
from windrow.operators.tables.rows import flat, numbered


def is_same(one: StateTable | None, other: StateTable | None, ticked: int, comparing: bool) -> bool:
    """Whether the tables have the same rows after a tick: they are one object, or both are empty, or, if `comparing`,
    they have equal rows. None is an empty table. Tables of different layouts are not the same, even if they are empty:
    their durable parts could not follow each other."""
    if one is other:
        return True
    if one is None or other is None or not one.count or not other.count:
        are_empty = not (one and one.count) and not (other and other.count)
        return are_empty and _is_relaid(one) == _is_relaid(other)
    if not comparing or type(one) is not type(other):
        return False
    return _are_equal(_rows(one, ticked), _rows(other, ticked))


def _is_relaid(table: StateTable | None) -> bool:
    """Whether a table that begins as a calendar is a table by value now."""
    return table is not None and table.departures is not None and table.layout is Layout.KEYED


def _rows(table: StateTable, ticked: int) -> pa.Table | None:
    """The rows that later ticks need, in a form that does not depend on how they came."""
    parts = [part.rows for part in table.parts("", ticked)]
    if not parts:
        return None
    rows = pa.concat_tables(parts).combine_chunks()
    return table.fold(rows) if isinstance(table, Calendar) and table.fold is not None else rows


def _are_equal(one: pa.Table | None, other: pa.Table | None) -> bool:
    """Whether they have the same rows, in any order."""
    if one is None or other is None:
        return one is other
    if one.num_rows != other.num_rows or not one.schema.equals(other.schema):
        return False
    both = pa.concat_tables([one, other])
    ids, firsts = numbered([flat(column) for column in both.columns], both.num_rows)
    counts = [np.bincount(some, minlength=firsts.size) for some in (ids[: one.num_rows], ids[one.num_rows :])]
    return bool((counts[0] == counts[1]).all())
