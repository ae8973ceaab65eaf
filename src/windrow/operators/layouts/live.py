"""The rows of an answer that are alive, as intervals of ticks: what DSTREAM, RSTREAM, LIMIT and explicit expiry need.

Of lifetimes it keeps a calendar of (leaving tick, values, how many); of strict changes a table by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.keyed import Keyed, gone_rows
from windrow.operators.layouts.parts import StatePart
from windrow.operators.layouts.steps import StateTable
from windrow.operators.tables.edges import COUNT, TICK, Edge, netted
from windrow.operators.tables.rows import appended, longs, numbered, run_lasts, taken
from windrow.operators.ticks import NEVER, DueTicks, Points
from windrow.plan.algebra.nodes import PlanColumn
from windrow.synopses.cells.arrays import run_starts

ENTER, LEAVE = "__enter", "__leave"
"""The first tick of a row, and the first at which it is gone."""


@dataclass(frozen=True)
class Lives:
    """Rows with ENTER, LEAVE and COUNT; those that were alive before have ENTER = before."""

    rows: pa.Table
    tables: dict[str, StateTable]
    parts: tuple[StatePart, ...]


def live_schema(schema: Sequence[PlanColumn], is_strict: bool) -> pa.Schema:
    """The columns of the state."""
    head = [COUNT] if is_strict else [LEAVE, COUNT]
    return pa.schema([*((name, pa.int64()) for name in head), *((c.sql, c.type.arrow) for c in schema)])


def folded(names: Sequence[str], rows: pa.Table) -> pa.Table:
    """Rows with equal `names` as one, with the sum of their counts."""
    ids, firsts = numbered([rows.column(name) for name in names], rows.num_rows)
    if firsts.size == rows.num_rows:
        return rows
    counts = np.zeros(firsts.size, np.int64)
    np.add.at(counts, ids, longs(rows.column(COUNT)))
    at = rows.column_names.index(COUNT)
    return taken(rows, firsts).set_column(at, COUNT, pa.array(counts))


def lives(edge: Edge, path: str, state: StateTable, due: DueTicks, keep_forever: bool) -> Lives:
    """All rows that are alive at some due tick. `keep_forever`: rows that never leave are needed again."""
    if isinstance(state, Keyed):
        return _of_changes(edge, path, state, due)
    assert isinstance(state, Calendar)
    schema = live_schema(edge.schema, False)
    enter, leave = edge.ticks(due)
    new = pa.table(
        {LEAVE: leave, COUNT: np.ones(leave.size, np.int64), **dict(zip(edge.names, edge.values, strict=True))}
    )
    seen = enter < leave
    new, enter = taken(new, seen), enter[seen]
    before = state.rows(due.before, schema)
    rows = pa.concat_tables([before.select(schema.names), new])
    starts = np.concatenate([np.full(before.num_rows, due.before), enter])
    leave = longs(new.column(LEAVE))
    stays = taken(new, (leave > due.upto) & (keep_forever | (leave < NEVER)))
    stays = folded([LEAVE, *edge.names], stays)
    return Lives(
        appended(rows, **{ENTER: starts}),
        {path: state.appended(stays).settled(due.upto)},
        tuple(state.cut(path, stays)),
    )


def _of_changes(edge: Edge, path: str, state: Keyed, due: DueTicks) -> Lives:
    """Strict changes as intervals: a value's count holds from one of its ticks to the next."""
    schema = live_schema(edge.schema, True)
    changes = netted(edge.rows, edge.names)
    if not changes.num_rows:
        every = state.rows(schema)
        whole = {ENTER: np.full(every.num_rows, due.before), LEAVE: np.full(every.num_rows, NEVER)}
        return Lives(appended(every, **whole), {path: state}, ())
    ids, firsts = numbered([changes.column(name) for name in edge.names], changes.num_rows)
    at = state.find([changes.column(name).take(pa.array(firsts)) for name in edge.names], firsts.size)
    held = np.flatnonzero(at >= 0)
    base = np.zeros(firsts.size, np.int64)
    base[held] = longs(state.take(at[held], schema).column(COUNT))
    order = np.lexsort((longs(changes.column(TICK)), ids))
    ids, ticks = ids[order], longs(changes.column(TICK))[order]
    counts = running(longs(changes.column(COUNT))[order], ids, base)
    starts = run_starts(ids)
    last = run_lasts(starts, ids.size)
    ends = np.roll(ticks, -1)
    ends[last] = NEVER
    # The rows of the state, up to their first change in the batch.
    every = state.rows(schema)
    first_change = np.full(every.num_rows, NEVER, np.int64)
    place = state.find([every.column(name) for name in edge.names], every.num_rows)
    first_change[_rows_at(place, at[held])] = ticks[starts][held]
    old = appended(every, **{ENTER: np.full(every.num_rows, due.before), LEAVE: first_change})
    new = appended(taken(changes.select(edge.names), order), **{COUNT: counts, ENTER: ticks, LEAVE: ends})
    new = taken(new, counts > 0).select(old.column_names)
    after = appended(taken(changes.select(edge.names), order[last]), **{COUNT: counts[last]}).select(schema.names)
    stays = counts[last] > 0
    kept, gone = taken(after, stays), taken(after, ~stays & (at[ids[last]] >= 0))
    return Lives(
        pa.concat_tables([old, new]),
        {path: state.put(kept, at)},
        tuple(state.cut(path, gone_rows(kept, gone), due.before, due.upto)),
    )


def _rows_at(places: Points, wanted: Points) -> Points:
    """The row at which each wanted place stands in `places`."""
    order = np.argsort(places)
    return np.asarray(order[np.searchsorted(places[order], wanted)])


def running(deltas: Points, ids: Points, base: Points) -> Points:
    """base[id] plus the sum of an id's deltas up to each; the ids ascend."""
    total = np.cumsum(deltas)
    starts = run_starts(ids)
    before = total[starts] - deltas[starts]
    return np.asarray(total - np.repeat(before, np.diff(np.append(starts, ids.size))) + base[ids])
