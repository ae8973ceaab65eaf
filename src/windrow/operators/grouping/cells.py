"""Cells: rows of a group that come at one tick and go at one tick, merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.operators.grouping.calls import ENTER, GROUP, LEAVE, GroupCalls
from windrow.operators.grouping.grouped_sql import grouped_cells, is_groupable
from windrow.operators.tables.kernel import Kernel, types_of
from windrow.operators.tables.rows import flat, longs, normal, numbered, order_of, taken
from windrow.operators.ticks import Points
from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses.cells.cells import fold_of, from_columns, state_of_rows, to_columns
from windrow.synopses.cells.chunks import States
from windrow.synopses.cells.folds import State

_INEXACT = (Kind.SUM_DOUBLE, Kind.MOMENTS)


def cells_of(
    calls: GroupCalls, rows: pa.Table, group: Points, enter: Points, leave: Points, kernel: Kernel
) -> pa.Table:
    """New rows as cells with ENTER; rows that differ in nothing that matters are one."""
    known = _evaluated(calls, rows, kernel)
    values = [normal(known[value.sql]) for value in calls.values]
    keys: list[pa.Array] = [pa.array(leave), pa.array(group), pa.array(enter), *values]
    return _cells(calls, known, keys, numbered(keys, rows.num_rows), _canonical(calls, known))


def cells_apart(
    calls: GroupCalls, rows: pa.Table, group: Points, enter: Points, leave: Points, kernel: Kernel
) -> pa.Table:
    """Rows as cells, in an order by value. Where sums are inexact every row is a cell of its own: so a total does not
    depend on which rows came together, which those that are alive no longer tell."""
    if not any(a.kind in _INEXACT for a in calls.accumulators):
        return cells_of(calls, rows, group, enter, leave, kernel)
    known = _evaluated(calls, rows, kernel)
    order = _canonical(calls, known)
    assert order is not None
    known = {text: column.take(pa.array(order)) for text, column in known.items()}
    values = [normal(known[value.sql]) for value in calls.values]
    keys = [*(pa.array(numbers[order]) for numbers in (leave, group, enter)), *values]
    return _cells(calls, known, keys, (np.arange(rows.num_rows), np.arange(rows.num_rows)), None)


def partial_cells(calls: GroupCalls, rows: pa.Table, kernel: Kernel) -> pa.Table:
    """Rows that are there together, as a cell per group and counted value: its keys and values, and the states."""
    known = _evaluated(calls, rows, kernel)
    parts = {name: normal(rows.column(name)) for name in calls.key_names}
    parts |= {name: normal(known[v.sql]) for name, v in zip(calls.value_names, calls.values, strict=True)}
    if is_groupable(calls, parts, known, rows.num_rows):
        return grouped_cells(calls, parts, known, rows.num_rows, kernel)
    ids, firsts = numbered(list(parts.values()), rows.num_rows)
    if not parts:
        firsts = np.zeros(min(1, rows.num_rows), np.int64)
    columns = {name: part.take(pa.array(firsts)) for name, part in parts.items()}
    for a in calls.accumulators:
        columns |= to_columns(a, _state(a, known, ids, firsts.size, None))
    return pa.table(columns)


def _evaluated(calls: GroupCalls, rows: pa.Table, kernel: Kernel) -> dict[str, pa.Array]:
    """The arguments, conditions and values of the aggregates, by their text."""
    trees = calls.trees
    found = kernel.evaluate(list(trees.values()), types_of(calls.node.input.schema), rows)
    return {text: flat(column) for text, column in zip(trees, found, strict=True)}


def _cells(
    calls: GroupCalls,
    known: Mapping[str, pa.Array],
    keys: Sequence[pa.Array],
    numbering: tuple[Points, Points],
    order: Points | None,
) -> pa.Table:
    ids, firsts = numbering
    columns = dict(
        zip([LEAVE, GROUP, ENTER, *calls.value_names], (key.take(pa.array(firsts)) for key in keys), strict=True)
    )
    for a in calls.accumulators:
        columns |= to_columns(a, _state(a, known, ids, firsts.size, order))
    return pa.table(columns)


def _canonical(calls: GroupCalls, known: Mapping[str, pa.Array]) -> Points | None:
    """The rows in an order by value: sums of doubles then do not depend on the order of arrival."""
    texts = [a.arg for a in calls.accumulators if a.kind in _INEXACT and a.arg is not None]
    return order_of([known[text] for text in dict.fromkeys(texts)]) if texts else None


def _state(a: Accumulator, known: Mapping[str, pa.Array], ids: Points, cells: int, order: Points | None) -> State:
    """The states of an accumulator by cell. A row counts if the condition is true and the argument is not NULL."""
    into = fold_of(a).identity(cells)
    counts = np.ones(ids.size, bool)
    if a.condition is not None:
        counts &= np.asarray(pc.fill_null(known[a.condition], False))
    values = known[a.arg] if a.arg is not None else None
    if values is not None and values.null_count:
        counts &= np.asarray(values.is_valid())
    at = np.flatnonzero(counts) if order is None else order[counts[order]]
    of_rows = values.take(pa.array(at)) if values is not None and a.kind is not Kind.COUNT else None
    fold_of(a).scatter_into(into, ids[at], state_of_rows(a, of_rows, at.size))
    return into


def states_of(accumulators: Sequence[Accumulator], table: pa.Table) -> States:
    """The states in the columns of a table."""
    out: States = {}
    for a in accumulators:
        state = from_columns(a, table)
        assert state is not None
        out[a] = state
    return out


def negated(calls: GroupCalls, cells: pa.Table) -> pa.Table:
    """Cells of rows that are withdrawn; only sums of integers can be negated."""
    for a, state in states_of(calls.accumulators, cells).items():
        for name, column in to_columns(a, tuple(-part for part in state)).items():
            cells = cells.set_column(cells.column_names.index(name), name, column)
    return cells


def merged(calls: GroupCalls, cells: pa.Table) -> pa.Table:
    """Cells that agree in the columns of `cell_keys` as one."""
    names = calls.cell_keys
    ids, firsts = numbered([cells.column(name) for name in names], cells.num_rows)
    if firsts.size == cells.num_rows:
        return cells.select(calls.cell_schema.names)
    columns = {name: cells.column(name).take(pa.array(firsts)) for name in names}
    for a, state in states_of(calls.accumulators, cells).items():
        into = fold_of(a).identity(firsts.size)
        fold_of(a).scatter_into(into, ids, state)
        columns |= to_columns(a, into)
    return pa.table(columns).select(calls.cell_schema.names).cast(calls.cell_schema)


def touched(cells: pa.Table, groups: Points) -> pa.Table:
    """The cells of these groups, whose numbers ascend."""
    mine = longs(cells.column(GROUP))
    at = np.minimum(np.searchsorted(groups, mine), max(groups.size - 1, 0))
    return taken(cells, groups[at] == mine) if groups.size else cells.slice(0, 0)
