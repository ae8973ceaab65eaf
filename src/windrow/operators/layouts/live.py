"""The rows that are alive, as intervals of ticks: what joins, negation, set operations, LIMIT, streams, DISTINCT and
group-by over strict input, and explicit expiry need.

    [ENTER, LEAVE) of a row: ENTER is its first tick, LEAVE the first at which it is gone: that of its withdrawal, or
    the first above its EXP

An edge, of lifetimes or strict, and the rows that were alive before become intervals. Of rows with equal values and
EXP the one that came first is withdrawn first; which one it is changes no answer.

What is alive is kept in one of these layouts, and no operator knows in which. A calendar with tombstones: rows and
their withdrawals (COUNT below zero) lie in the interval in which they leave and are dropped with it; equal ones cancel
when the calendar is read, and when blocks are merged. It is for rows that mostly reach their EXP. A table by values and
EXP, with how many rows there are, from which all that leaves is taken by key: for rows that are mostly withdrawn. Where
rows may do either, what has left is counted, and `choosing.py` chooses by that. A list that is scanned: where a plan is
run by the direct approach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.keyed import Keyed, gone_rows
from windrow.operators.layouts.parts import Departures, StatePart
from windrow.operators.layouts.row_list import RowList
from windrow.operators.layouts.steps import StateTable
from windrow.operators.tables.edges import COUNT, TICK, Edge, as_strict, made_at, netted, running_sums
from windrow.operators.tables.rows import appended, flat, hashed, longs, numbered, taken
from windrow.operators.ticks import EXP, NEVER, TS, DueTicks, Points
from windrow.plan.algebra.nodes import PlanColumn
from windrow.synopses.cells.arrays import Mask

ENTER, LEAVE = "__enter", "__leave"
"""The first tick of a row, and the first at which it is gone."""

_STANDS = "__stands"
"""Whether a row of a table is none that another one replaced."""

INTERVAL = (ENTER, LEAVE, TS, EXP, COUNT)
"""The columns of intervals before the values."""

Selecting = Callable[[pa.Table], pa.Table]
"""Selects rows by their values: some of those that were alive."""


@dataclass(frozen=True)
class Lives:
    """Rows with INTERVAL; those that were alive before have ENTER = before. Then the state after the batch."""

    rows: pa.Table
    tables: dict[str, StateTable]
    parts: tuple[StatePart, ...]


@dataclass(frozen=True)
class Turnover:
    """What comes and goes by value, whatever the EXP: strict changes without a predicted end, netted. Then the state
    after the batch."""

    changes: pa.Table
    tables: dict[str, StateTable]
    parts: tuple[StatePart, ...]


def live_schema(schema: Sequence[PlanColumn]) -> pa.Schema:
    """The columns of the state, in both layouts."""
    return pa.schema([*((name, pa.int64()) for name in (LEAVE, EXP, COUNT)), *((c.sql, c.type.arrow) for c in schema)])


def live_calendar(schema: Sequence[PlanColumn], width: int, may_change: bool = False) -> Calendar:
    """An empty calendar with tombstones. `may_change`: what leaves it is counted, and decides whether it stays one."""
    departures = Departures() if may_change else None
    return Calendar(LEAVE, width, partial(folded, [EXP, *(column.sql for column in schema)]), departures=departures)


def live_table(schema: Sequence[PlanColumn]) -> Keyed:
    """An empty table by values and EXP."""
    return Keyed((EXP, *(column.sql for column in schema)))


def folded(names: Sequence[str], rows: pa.Table) -> pa.Table:
    """Rows with equal `names` as one, with the sum of their counts, and without those that cancel."""
    ids, firsts = numbered([rows.column(name) for name in names], rows.num_rows)
    if firsts.size == rows.num_rows:
        return rows
    counts = np.zeros(firsts.size, np.int64)
    np.add.at(counts, ids, longs(rows.column(COUNT)))
    at = rows.column_names.index(COUNT)
    return taken(taken(rows, firsts).set_column(at, COUNT, pa.array(counts)), counts != 0)


def intervals(
    edge: Edge,
    path: str,
    state: StateTable,
    due: DueTicks,
    only: Selecting | None = None,
    keep_forever: bool = True,
) -> Lives:
    """All rows that are alive at `before` or at some due tick, or `only` some of those that were alive before: all with
    the values of a row that is withdrawn must be among them. `keep_forever`: lifetimes that never end are needed again.
    """
    changes = net_changes(edge, due)
    before = alive(state, due.before, live_schema(edge.schema), only)
    table, parts = after_changes(state, path, changes, edge, due, keep_forever)
    return Lives(_paired(before, changes, edge.names, due), {path: table}, tuple(parts))


def with_new(before: pa.Table, edge: Edge, due: DueTicks) -> pa.Table:
    """Rows that were alive, as in `live_schema`, and the new ones of an edge as intervals."""
    return _paired(before, net_changes(edge, due), edge.names, due)


def turnover(edge: Edge, path: str, state: StateTable | None, due: DueTicks, keep_forever: bool = True) -> Turnover:
    """What comes and goes by value at the due ticks: the changes, and what leaves at its EXP. A row that was withdrawn
    and its tombstone leave together and cancel, so nothing need be paired. `state` None: no row has a predicted end.
    """
    changes = net_changes(edge, due)
    rows, ticks, counts = changes.select(edge.names), longs(changes.column(TICK)), longs(changes.column(COUNT))
    if state is None:
        return Turnover(netted(made_at(rows, ticks, counts), edge.names), {}, ())
    leave = due.first_above(longs(changes.column(EXP)))
    soon = np.flatnonzero(leave <= due.upto)
    old = leaving(state, due, edge.schema)
    table, parts = after_changes(state, path, changes, edge, due, keep_forever)
    flow = made_at(
        pa.concat_tables([rows, taken(rows, soon), old.select(edge.names)]),
        np.concatenate([ticks, leave[soon], longs(old.column(LEAVE))]),
        np.concatenate([counts, -counts[soon], -longs(old.column(COUNT))]),
    )
    return Turnover(netted(flow, edge.names), {path: table}, tuple(parts))


def net_changes(edge: Edge, due: DueTicks) -> pa.Table:
    changes = as_strict(edge, due).rows
    return netted(changes, edge.names) if edge.is_strict else changes


def is_touched(rows: pa.Table, due: DueTicks) -> Mask:
    """Which intervals begin at a due tick, or end at one by a withdrawal."""
    return np.asarray((longs(rows.column(ENTER)) > due.before) | is_withdrawn(rows, due))


def is_withdrawn(rows: pa.Table, due: DueTicks) -> Mask:
    """Which intervals end at a due tick, before their EXP."""
    leave = longs(rows.column(LEAVE))
    return np.asarray((leave <= due.upto) & (leave < due.first_above(longs(rows.column(EXP)))))


def leaving(state: StateTable, due: DueTicks, schema: Sequence[PlanColumn]) -> pa.Table:
    """The rows, and perhaps tombstones, that leave at a due tick by their EXP."""
    if isinstance(state, Calendar | RowList):
        return state.between(due.before, due.upto, live_schema(schema))
    assert isinstance(state, Keyed)
    rows = state.take(state.where(LEAVE, due.upto + 1), live_schema(schema))
    return taken(rows, longs(rows.column(LEAVE)) > due.before)


# -- the two layouts -------------------------------------------------------------------------------


def alive(state: StateTable, before: int, schema: pa.Schema, only: Selecting | None = None) -> pa.Table:
    """The rows that were alive at a tick; of equal ones there may be several."""
    if isinstance(state, Keyed):
        rows = state.flagged(_STANDS, schema)
        rows = rows if only is None else only(rows)
        stands = np.asarray(flat(rows.column(_STANDS))) & (longs(rows.column(LEAVE)) > before)
        return taken(rows, stands).select(schema.names)
    assert isinstance(state, Calendar | RowList)
    rows = state.rows(before, schema).select(schema.names)
    rows = rows if only is None else only(rows)
    return _cancelled(rows, schema.names[1:2] + schema.names[3:])


def _cancelled(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Rows and tombstones without those that cancel."""
    goes = longs(rows.column(COUNT)) < 0
    if not goes.any():
        return rows
    near = _near(rows, taken(rows, goes), names)
    return pa.concat_tables([taken(rows, ~near), folded(names, taken(rows, near))])


def _near(rows: pa.Table, others: pa.Table, names: Sequence[str]) -> Mask:
    """Which rows may equal one of the others in these columns."""
    mine, theirs = (hashed([table.column(name) for name in names], table.num_rows) for table in (rows, others))
    return np.isin(mine, theirs)


def _delta(changes: pa.Table, edge: Edge, due: DueTicks, keep_forever: bool) -> pa.Table:
    """What the batch changes of the rows that are alive at its last tick. Lifetimes that never end are kept if the
    operator needs them again; others may be withdrawn."""
    leave = due.first_above(longs(changes.column(EXP)))
    rows = appended(changes.select([EXP, COUNT, *edge.names]), **{LEAVE: leave})
    stays = (leave > due.upto) & (keep_forever or edge.is_strict or leave < NEVER)
    return folded([EXP, *edge.names], taken(rows, stays).select(live_schema(edge.schema).names))


def after_changes(
    state: StateTable, path: str, changes: pa.Table, edge: Edge, due: DueTicks, keep_forever: bool
) -> tuple[StateTable, list[StatePart]]:
    """The state after a batch, and what must be durable."""
    delta = _delta(changes, edge, due, keep_forever)
    table: StateTable
    if isinstance(state, Keyed):
        ended = state.where(LEAVE, due.upto + 1)
        expired = state.take(ended, delta.schema).select(delta.column_names)
        table, parts = _put(state, path, delta, ended, expired, due)
        left = int(longs(expired.column(COUNT)).sum())
    else:
        assert isinstance(state, Calendar | RowList)
        table, parts = state.appended(delta).settled(due.upto), state.cut(path, delta)
        left = 0 if state.departures is None else state.sum_between(COUNT, due.before, due.upto)
    if state.departures is None or not isinstance(table, Calendar | Keyed):
        return table, parts
    return replace(table, departures=state.departures + _departures(left, changes, due)), parts


def _departures(ended: int, changes: pa.Table, due: DueTicks) -> Departures:
    """How many rows leave at the due ticks, of which so many were there before and end. What is withdrawn is subtracted
    from what would end in the same batch."""
    counts, ends = longs(changes.column(COUNT)), due.first_above(longs(changes.column(EXP)))
    return Departures(int(-counts[counts < 0].sum()), max(0, ended + int(counts[ends <= due.upto].sum())))


def _put(
    state: Keyed, path: str, delta: pa.Table, ended: Points, expired: pa.Table, due: DueTicks
) -> tuple[Keyed, list[StatePart]]:
    """The table with what a batch changes, without the rows that have ended, and what must be durable."""
    if not (delta.num_rows or ended.size):
        return state, []
    at = state.find([delta.column(key) for key in state.keys], delta.num_rows)
    held = np.flatnonzero(at >= 0)
    counts = longs(delta.column(COUNT)).copy()
    counts[held] += longs(state.take(at[held], delta.schema).column(COUNT))
    after = delta.set_column(delta.column_names.index(COUNT), COUNT, pa.array(counts))
    stays, goes = counts > 0, (counts == 0) & (at >= 0)
    kept, gone = taken(after, stays), taken(after, goes)
    gone = pa.concat_tables([gone, expired])
    parts = state.cut(path, gone_rows(kept, gone), due.before, due.upto)
    return state.updated(kept, at[stays], np.concatenate([at[goes], ended])), parts


# -- pairing what came with what went --------------------------------------------------------------


def _paired(before: pa.Table, changes: pa.Table, names: list[str], due: DueTicks) -> pa.Table:
    """Rows that were alive and changes as intervals."""
    counts = longs(changes.column(COUNT))
    plus, gone = taken(changes, counts > 0), taken(changes, counts < 0)
    old = {ENTER: np.full(before.num_rows, due.before), TS: np.full(before.num_rows, due.before - 1)}
    new = {ENTER: longs(plus.column(TICK)), LEAVE: due.first_above(longs(plus.column(EXP)))}
    order = [*INTERVAL, *names]
    came = pa.concat_tables([appended(before, **old).select(order), appended(plus, **new).select(order)])
    if not gone.num_rows:
        return came
    near = _near(came, gone, [EXP, *names])
    return pa.concat_tables([taken(came, ~near), _withdrawn(taken(came, near), gone, names)])


def _withdrawn(came: pa.Table, gone: pa.Table, names: list[str]) -> pa.Table:
    """Rows of which some are withdrawn: the k-th that goes is the k-th that came.

    The rows of a value are numbered in the order in which they came, a range of numbers per row; those that go are the
    first of them. The ranges are cut where one of either kind ends.
    """
    both = [pa.concat_tables([t.select([EXP, *names]) for t in (came, gone)]).column(n) for n in (EXP, *names)]
    ids, _ = numbered(both, came.num_rows + gone.num_rows)
    of_came, of_gone = ids[: came.num_rows], ids[came.num_rows :]
    order = np.lexsort((longs(came.column(TS)), longs(came.column(ENTER)), of_came))
    came, of_came = taken(came, order), of_came[order]
    order = np.lexsort((longs(gone.column(TICK)), of_gone))
    gone, of_gone = taken(gone, order), of_gone[order]
    here, went = longs(came.column(COUNT)), -longs(gone.column(COUNT))
    ends = np.cumsum(here)
    first = np.searchsorted(of_came, of_gone)
    starts = np.append(ends - here, 0)[first]
    stops = starts + running_sums(went, of_gone)
    last = np.searchsorted(of_came, of_gone, "right") - 1
    if (last < first).any() or (stops > ends[last]).any():
        raise AssertionError("more rows are withdrawn than are there")
    cuts = np.union1d(ends, stops)
    row, by = np.searchsorted(ends, cuts), np.searchsorted(stops, cuts)
    at = np.minimum(by, stops.size - 1)
    is_gone = (by < stops.size) & (of_gone[at] == of_came[row])
    out = taken(came, row)
    leave = np.where(is_gone, longs(gone.column(TICK))[at], longs(out.column(LEAVE)))
    numbers = {LEAVE: leave, COUNT: np.diff(cuts, prepend=0)}
    return appended(out.drop_columns([LEAVE, COUNT]), **numbers).select([*INTERVAL, *names])


def counts_at(deltas: Points, ids: Points, base: Points) -> Points:
    """base[id] plus the sum of an id's deltas up to each; equal ids stand together."""
    return np.asarray(running_sums(deltas, ids) + base[ids])
