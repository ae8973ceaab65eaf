"""Totals of groups at the ticks that touch them.

A slot is a group at a tick. A cell counts in the slots of its group from the tick at which it comes to that at which it
is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.operators.grouping.calls import ENTER, GROUP, LEAVE, GroupCalls
from windrow.operators.grouping.cells import states_of
from windrow.operators.tables.rows import longs, normal, numbered
from windrow.operators.ticks import DueTicks, Points, TickNumbers
from windrow.plan.accumulators import Accumulator, AggregateCall, Kind
from windrow.plan.holistic import ROWS
from windrow.synopses.cells.arrays import Mask, run_starts
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import States
from windrow.synopses.cells.folds import Fold, State
from windrow.synopses.cells.value_codes import coded
from windrow.synopses.holistic.from_counters import ValueCounters, holistic_result
from windrow.synopses.results.values import result_of, unfit_rows

MOST_PAIRS = 1 << 22
"""The most (slot, cell) pairs that are in memory at once."""


@dataclass(frozen=True)
class Slots:
    """Slots by group (an index) and tick, ascending; `size` is the number of groups."""

    group: Points
    tick: Points
    size: int
    due: DueTicks

    @staticmethod
    def of(groups: Sequence[Points], ticks: Sequence[Points], size: int, due: DueTicks) -> Slots:
        """The slots of these pairs, each once."""
        every = np.concatenate(ticks)
        numbers = TickNumbers.of(due, every, size)
        packed = np.unique(np.concatenate(groups) * numbers.width + numbers.at(every))
        group, number = np.divmod(packed, numbers.width)
        return Slots(group, numbers.ticks(number), size, due)

    @property
    def starts(self) -> Points:
        """The first slot of each group that has one."""
        return run_starts(self.group)

    def at(self, groups: Points, ticks: Points) -> Points:
        """The first slot of a group at or above a tick, or where it would stand."""
        numbers = TickNumbers.of(self.due, self.tick, self.size)
        packed = self.group * numbers.width + numbers.at(self.tick)
        return np.asarray(np.searchsorted(packed, groups * numbers.width + numbers.at(ticks)), np.int64)


def running_totals(slots: Slots, base: States, came: States, came_at: Points, went: States, went_at: Points) -> States:
    """Totals at slots: those before the batch, plus what came, minus what went, up to each slot."""
    out: States = {}
    starts = slots.starts
    lengths = np.diff(np.append(starts, slots.group.size))
    for a, columns in base.items():
        done = []
        for column, more, less in zip(columns, came[a], went[a], strict=True):
            deltas = np.zeros(slots.group.size, np.int64)
            np.add.at(deltas, came_at, more)
            np.subtract.at(deltas, went_at, less)
            total = np.cumsum(deltas)
            before = total[starts] - deltas[starts]
            done.append(total - np.repeat(before, lengths) + column[slots.group])
        out[a] = tuple(done)
    return out


@dataclass(frozen=True)
class CellRanges:
    """Cells, and for each the slots lo ≤ i < hi in which it counts; in an order by their own columns alone, so that
    sums of doubles do not depend on how ticks are batched."""

    cells: pa.Table
    lo: Points
    hi: Points

    @staticmethod
    def of(slots: Slots, cells: pa.Table, index: Points, in_order: bool = False) -> CellRanges:
        """`index` has the group's index of each cell. `in_order`: the order of the cells is to be kept."""
        enter, leave = longs(cells.column(ENTER)), longs(cells.column(LEAVE))
        lo, hi = slots.at(index, enter), slots.at(index, leave)
        order = np.arange(enter.size) if in_order else np.lexsort((longs(cells.column(GROUP)), leave, enter))
        order = order[lo[order] < hi[order]]
        return CellRanges(cells.take(pa.array(order)), lo[order], hi[order])

    def pairs(self, slots: int) -> Iterator[tuple[int, int, Points, Points]]:
        """Ranges of slots, with the (slot, cell) pairs of each, by cell."""
        weight = np.zeros(slots + 1, np.int64)
        np.add.at(weight, self.lo, 1)
        np.subtract.at(weight, self.hi, 1)
        upto = np.cumsum(np.cumsum(weight[:-1]))
        start = 0
        while start < slots:
            done = int(upto[start - 1]) if start else 0
            end = max(start + 1, int(np.searchsorted(upto, done + MOST_PAIRS, "right")))
            mine = np.flatnonzero((self.lo < end) & (self.hi > start))
            lo, hi = np.maximum(self.lo[mine], start), np.minimum(self.hi[mine], end)
            cell = np.repeat(mine, hi - lo)
            slot = np.arange(cell.size) - np.repeat(np.cumsum(hi - lo) - (hi - lo), hi - lo) + np.repeat(lo, hi - lo)
            yield start, end, slot, cell
            start = end


def recomputed_totals(accumulators: Sequence[Accumulator], ranges: CellRanges, slots: int) -> States:
    """Totals at slots, merged from cells."""
    states = states_of(accumulators, ranges.cells)
    exact = [a for a in accumulators if a.kind in (Kind.LEAST, Kind.GREATEST)]
    others = [a for a in accumulators if a not in exact]
    out: States = {a: extremes(fold_of(a), states[a], ranges, slots) for a in exact}
    out |= {a: fold_of(a).identity(slots) for a in others}
    for start, end, slot, cell in ranges.pairs(slots) if others else ():
        for a in others:
            into = fold_of(a).identity(end - start)
            fold_of(a).scatter_into(into, slot - start, tuple(column[cell] for column in states[a]))
            for target, column in zip(out[a], into, strict=True):
                target[start:end] = column
    return out


def extremes(fold: Fold, state: State, ranges: CellRanges, slots: int) -> State:
    """Minima and maxima at slots. A range of slots is a few nodes of a binary tree over all slots, so a cell is merged
    into those instead of into every slot; then each node is merged into its children, from the root down.

    Merging in another order gives the same, which sums of doubles do not.
    """
    size = 1 << max(slots - 1, 0).bit_length()
    tree = fold.identity(2 * size)
    cell, lo, hi = np.arange(ranges.lo.size), ranges.lo + size, ranges.hi + size
    while cell.size:
        first, last = lo & 1 == 1, hi & 1 == 1
        at = np.concatenate([lo[first], hi[last] - 1])
        of = np.concatenate([cell[first], cell[last]])
        fold.scatter_into(tree, at, tuple(column[of] for column in state))
        lo, hi = (lo + first) >> 1, (hi - last) >> 1
        going = lo < hi
        cell, lo, hi = cell[going], lo[going], hi[going]
    width = 1
    while width < size:
        fold.merge_into(
            [column[2 * width : 4 * width] for column in tree],
            [np.repeat(column[width : 2 * width], 2) for column in tree],
        )
        width *= 2
    return tuple(column[size : size + slots] for column in tree)


def columns_at(
    calls: GroupCalls, totals: States, ranges: CellRanges | None, slots: int
) -> tuple[list[pa.Array], Points]:
    """The aggregates' columns, a row per slot; and how many sums of each slot do not fit."""
    unfit = np.zeros(slots, np.int64)
    counted: dict[AggregateCall, pa.Array] = {}
    if calls.values:
        assert ranges is not None
        counted = _counted(calls, ranges, slots, unfit)
    out = []
    for call, one in zip(calls.calls, calls.node.aggregates, strict=True):
        column = counted[call] if call.values else result_of(call, totals)
        if not call.values:
            unfit += unfit_rows(call, column, totals)
        kind = one.column.type.arrow
        out.append(column if column.type == kind else column.cast(kind))
    return out, unfit


def _counted(calls: GroupCalls, ranges: CellRanges, slots: int, unfit: Points) -> dict[AggregateCall, pa.Array]:
    """Holistic aggregates, from the counters of values in each slot. Totals that do not fit are added to `unfit`."""
    codes = {call: _codes(calls, call, ranges.cells) for call in dict.fromkeys(c for c in calls.calls if c.values)}
    parts = {a for call in codes for _, a in call.parts}
    states = states_of(list(parts), ranges.cells)
    found: dict[AggregateCall, list[pa.Array]] = {call: [] for call in codes}
    for start, end, slot, cell in ranges.pairs(slots):
        for call, (code, values) in codes.items():
            counters, lost = _counters(call, states, code, values, slot - start, cell, end - start)
            np.add.at(unfit, start + counters.slot[lost], 1)
            found[call].append(holistic_result(call, counters))
    return {
        call: pa.concat_arrays(columns) if columns else pa.array([], call.result.arrow)
        for call, columns in found.items()
    }


def _codes(calls: GroupCalls, call: AggregateCall, cells: pa.Table) -> tuple[Points, pa.Array]:
    """The code of each cell's values, −1 if one is NULL; and the values by code, for a call of one value."""
    columns = [normal(cells.column(calls.value_names[calls.values.index(value)])) for value in call.values]
    if len(columns) == 1:
        one = coded(columns[0])
        return one.codes, one.values
    ids, _ = numbered(columns, cells.num_rows)
    null = np.logical_or.reduce([np.asarray(column.is_null()) for column in columns])
    return np.where(null, -1, ids), columns[0]


def _counters(
    call: AggregateCall, states: States, code: Points, values: pa.Array, slot: Points, cell: Points, slots: int
) -> tuple[ValueCounters, Mask]:
    """How often each value is in each slot, and which of the values' totals do not fit."""
    counts = states[call.part(ROWS)][0][cell]
    kept = np.flatnonzero((code[cell] >= 0) & (counts > 0))
    bound = int(code.max()) + 1 if code.size else 1
    packed = slot[kept] * max(bound, 1) + code[cell[kept]]
    order = np.argsort(packed, kind="stable")
    kept, packed = kept[order], packed[order]
    starts = run_starts(packed)
    at, codes = np.divmod(packed[starts], max(bound, 1))
    summed = np.add.reduceat(counts[kept], starts) if starts.size else counts[kept]
    if len(call.parts) == 1:
        return ValueCounters(slots, at, codes, summed, values), np.zeros(at.size, bool)
    to = np.repeat(np.arange(starts.size), np.diff(np.append(starts, kept.size)))
    total = AggregateCall("SUM", call.result.element.fields[1][1], call.parts)
    folded: States = {a: _folded(a, states[a], cell[kept], to, starts.size) for _, a in call.parts}
    totals = result_of(total, folded)
    return ValueCounters(slots, at, codes, summed, values, totals), unfit_rows(total, totals, folded)


def _folded(a: Accumulator, state: State, cells: Points, to: Points, size: int) -> State:
    into = fold_of(a).identity(size)
    fold_of(a).scatter_into(into, to, tuple(column[cells] for column in state))
    return into
