"""Looks up given groups of given windows only, and reads the cells that filters are fed with.

This completes a HAVING query after its SubStream Filter has named the groups that may pass (Arasu and Widom, VLDB 2004,
section 4.1: exact answers by post-processing). The (window, group) pairs of all lookups are looked up together, each
once, because queries that differ only in their threshold share most pairs. Windows that are due together end together,
so they cover few different ranges of panes in a chunk; each range is one NumPy call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from windrow.plan.accumulators import Accumulator
from windrow.synopses.cells.arrays import Mask
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import Chunk, States, widened
from windrow.synopses.cells.folds import State
from windrow.synopses.cells.groups import NOBODY, Ids
from windrow.synopses.lookups import Lookup, LookupAnswer
from windrow.windows import Points, joined_ranges


class ClosedCells(NamedTuple):
    """Pane start, group and state of each cell, by pane and then by group; without the cells of nobody (group 0)."""

    panes: Points
    groups: Ids
    state: State


def closed_cells(chunk: Chunk, accumulator: Accumulator, first: int, last: int) -> ClosedCells:
    """The cells of a chunk's panes in [first, last) whose state differs from the fold's identity."""
    fold = fold_of(accumulator)
    low, high = np.searchsorted(chunk.panes, (first, last)).tolist()
    kept = chunk.states.get(accumulator)
    if kept is None or low == high:
        return ClosedCells(np.zeros(0, np.int64), np.zeros(0, np.int64), fold.identity(0))
    if chunk.cell_pane is not None and chunk.cell_group is not None:
        span = slice(*np.searchsorted(chunk.cell_pane, (low, high)).tolist())
        pane, group, state = chunk.cell_pane[span], chunk.cell_group[span], tuple(column[span] for column in kept)
        held = _held(accumulator, state) & (group != NOBODY)
        return ClosedCells(chunk.panes[pane[held]], group[held], tuple(column[held] for column in state))
    state = widened(fold, tuple(column[low:high] for column in kept))
    pane, at = np.nonzero(_held(accumulator, state) & (chunk.groups != NOBODY))
    return ClosedCells(chunk.panes[low + pane], chunk.groups[at], tuple(column[pane, at] for column in state))


def _held(accumulator: Accumulator, state: State) -> Mask:
    """Where a state differs from the identity."""
    identity = fold_of(accumulator).identity(1)
    held = state[0] != identity[0][0]
    for column, empty in zip(state[1:], identity[1:], strict=True):
        held = held | (column != empty[0])
    return np.asarray(held)


def looked_up_groups(chunks: Sequence[Chunk], lookups: Sequence[Lookup]) -> Iterator[LookupAnswer]:
    """The rows of lookups that name their groups (`only`); groups without a qualifying tuple are left out."""
    alike: dict[frozenset[Accumulator], list[Lookup]] = {}
    for lookup in lookups:
        alike.setdefault(frozenset((lookup.presence, *lookup.others, *lookup.reads)), []).append(lookup)
    for needed, together in alike.items():
        pairs = _IntervalPairs.of(together)
        states = _states(chunks, pairs, sorted(needed, key=lambda a: a.id))
        first = 0
        for lookup in together:
            assert lookup.only is not None
            rows = pairs.row_of[first : first + lookup.only.groups.size]
            first += rows.size
            yield _looked(lookup, rows, states)


def _looked(lookup: Lookup, rows: Ids, states: States) -> LookupAnswer:
    assert lookup.only is not None
    read = dict.fromkeys((lookup.presence, *lookup.reads))
    counts = {a: (states[a][0][rows],) for a in (lookup.presence, *lookup.others)}
    present = lookup.present(counts) > 0
    rows = rows[present]
    own: States = {a: tuple(column[rows] for column in states[a]) for a in read}
    return LookupAnswer(
        lookup.query, int(lookup.ends.size), lookup.only.window[present], lookup.only.groups[present], own
    )


class _IntervalPairs(NamedTuple):
    """The distinct intervals, and the distinct (interval, group) pairs by interval and then by group.

    `row_of`: the row of each pair of the lookups, one lookup after another.
    """

    starts: Points
    ends: Points
    interval: Ids
    group: Ids
    row_of: Ids

    @classmethod
    def of(cls, lookups: Sequence[Lookup]) -> _IntervalPairs:
        starts = np.concatenate([lookup.starts for lookup in lookups])
        ends = np.concatenate([lookup.ends for lookup in lookups])
        intervals, number = np.unique(np.stack((ends, starts)), axis=1, return_inverse=True)
        number = number.reshape(-1)
        before = np.cumsum([0, *(lookup.ends.size for lookup in lookups[:-1])]).tolist()
        only = [lookup.only for lookup in lookups if lookup.only is not None]
        window = np.concatenate([one.window + first for one, first in zip(only, before, strict=True)])
        group = np.concatenate([one.groups for one in only])
        width = int(group.max(initial=0)) + 1
        pairs, row_of = np.unique(number[window] * width + group, return_inverse=True)
        return cls(intervals[1], intervals[0], pairs // width, pairs % width, row_of.reshape(-1))


def _states(chunks: Sequence[Chunk], pairs: _IntervalPairs, needed: Sequence[Accumulator]) -> States:
    states: States = {a: fold_of(a).identity(pairs.group.size) for a in needed}
    for chunk in chunks:
        low, high = np.searchsorted(chunk.panes, pairs.starts), np.searchsorted(chunk.panes, pairs.ends)
        if not pairs.group.size or not (high > low).any():
            continue
        if chunk.is_dense:
            _from_dense(chunk, pairs, low, high, states)
        else:
            _from_sparse(chunk, pairs, low, high, states)
    return states


def _from_dense(chunk: Chunk, pairs: _IntervalPairs, low: Ids, high: Ids, states: States) -> None:
    at = np.minimum(np.searchsorted(chunk.groups, pairs.group), chunk.groups.size - 1)
    rows = np.flatnonzero((chunk.groups[at] == pairs.group) & (high > low)[pairs.interval])
    covered, number = np.unique(np.stack((low, high)), axis=1, return_inverse=True)
    which = number.reshape(-1)[pairs.interval[rows]]
    order = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(covered.shape[1] + 1)).tolist()
    for i, (lo, hi) in enumerate(covered.T.tolist()):
        covering = rows[order[bounds[i] : bounds[i + 1]]]
        if not covering.size:
            continue
        merged: dict[int, State] = {}
        for accumulator, into in states.items():
            kept = chunk.states.get(accumulator)
            if kept is None:
                continue
            fold = fold_of(accumulator)
            if id(kept) not in merged:
                columns = tuple(np.take(column[lo:hi], at[covering], axis=1) for column in kept)
                merged[id(kept)] = fold.reduce(widened(fold, columns))
            _merge_at(accumulator, into, covering, merged[id(kept)])


def _merge_at(accumulator: Accumulator, into: State, rows: Ids, state: State) -> None:
    """Merge a state into these rows, none of which repeats."""
    held = tuple(column[rows] for column in into)
    fold_of(accumulator).merge_into(held, state)
    for target, column in zip(into, held, strict=True):
        target[rows] = column


def _from_sparse(chunk: Chunk, pairs: _IntervalPairs, low: Ids, high: Ids, states: States) -> None:
    assert chunk.cell_pane is not None and chunk.cell_group is not None
    order = chunk.by_group()
    by_group = chunk.cell_group[order]
    rows = np.flatnonzero((high > low)[pairs.interval])
    first = np.searchsorted(by_group, pairs.group[rows])
    count = np.searchsorted(by_group, pairs.group[rows], "right") - first
    entries, rows = order[joined_ranges(first, count)], np.repeat(rows, count)
    pane, interval = chunk.cell_pane[entries], pairs.interval[rows]
    inside = (pane >= low[interval]) & (pane < high[interval])
    entries, rows = entries[inside], rows[inside]
    for accumulator, into in states.items():
        kept = chunk.states.get(accumulator)
        if kept is not None:
            fold_of(accumulator).scatter_into(into, rows, tuple(column[entries] for column in kept))
