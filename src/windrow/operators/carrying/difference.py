"""What leads from one answer to another."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.operators.changes import AT, BORN, END, HEAD, OP, in_order
from windrow.operators.tables.rows import longs, numbered, taken
from windrow.operators.ticks import NEVER
from windrow.synopses.cells.arrays import Mask, place_in_run


def difference(old: pa.Table, new: pa.Table, tick: int) -> pa.Table:
    """The changes at a tick that lead from one answer before it to the other, both as stored changes with the same
    columns: a row with equal values and the same end is in both, whatever its birth is. What goes stands before what
    comes. A row that the tick does not see is neither."""
    old, new = lasting(old, tick), lasting(new, tick)
    kept = _met(old, new)
    return in_order([withdrawn(taken(old, ~kept[0]), tick), came(taken(new, ~kept[1]), tick)])


def lasting(rows: pa.Table, tick: int) -> pa.Table:
    """The rows of an answer that do not end before a tick."""
    return taken(rows, longs(pc.fill_null(rows.column(END), NEVER)) >= tick)


def withdrawn(rows: pa.Table, tick: int) -> pa.Table:
    """The rows of an answer as withdrawn at a tick."""
    told = {OP: pa.array(["-"] * rows.num_rows, pa.string()), AT: _points(rows, tick), BORN: _points(rows, tick - 1)}
    for place, column in told.items():
        rows = rows.set_column(place, rows.schema.field(place), column)
    return rows


def came(rows: pa.Table, tick: int) -> pa.Table:
    """The rows of an answer as changes of a tick."""
    return rows.set_column(AT, rows.schema.field(AT), _points(rows, tick))


def _points(rows: pa.Table, point: int) -> pa.Array:
    return pa.array(np.full(rows.num_rows, point, np.int64))


def _met(old: pa.Table, new: pa.Table) -> tuple[Mask, Mask]:
    """Which rows of either are also in the other, each as often as in both."""
    both = pa.concat_tables([one.select([END, *range(len(HEAD), one.num_columns)]) for one in (old, new)])
    columns = [pc.fill_null(both.column(0), NEVER), *both.columns[1:]]
    ids, firsts = numbered([column.combine_chunks() for column in columns], both.num_rows)
    mine, theirs = ids[: old.num_rows], ids[old.num_rows :]
    counts = [np.bincount(some, minlength=firsts.size) for some in (mine, theirs)]
    least = np.minimum(*counts)
    return _first(mine, least), _first(theirs, least)


def _first(ids: np.ndarray, counts: np.ndarray) -> Mask:
    """The first rows of each id, as many as its count."""
    order = np.argsort(ids, kind="stable")
    out = np.zeros(ids.size, bool)
    out[order] = place_in_run(ids[order]) < counts[ids[order]]
    return out
