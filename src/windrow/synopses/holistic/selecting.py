"""Selects holistic aggregates of many windows from sorted base intervals (B-INT-QNT) instead of counters.

A roll-up of counters costs windows × values. For many windows of many values it is cheaper to sort the tuples in every
base interval of panes (`sorted_panes.py`), as codes in the order of the values, and to select MEDIAN and QUANTILE of
each window and group from the base intervals of the window (Arasu and Widom, VLDB 2004, section 3.3).

For COUNT(DISTINCT) an element is the previous pane in which its group had the same value. The distinct values of a
window are its elements whose previous pane lies before the window's first. All other aggregates are merged by group.
Queries that are due together share the sorting, whatever their φ. The answers equal those of `roll_up.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa

from windrow.plan.accumulators import Accumulator, AggregateCall, Key
from windrow.plan.calls import COUNT_DISTINCT
from windrow.plan.holistic import ROWS
from windrow.plan.nodes import WindowAggregate
from windrow.synopses.answering.closed_panes import ClosedPanes
from windrow.synopses.answering.costs import MOST_SORTED_BYTES
from windrow.synopses.cells.arrays import run_starts
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.groups import Ids
from windrow.synopses.cells.value_codes import cell_groups_of, codes_of, codes_together
from windrow.synopses.holistic.from_counters import halfway
from windrow.synopses.holistic.phi import Phi
from windrow.synopses.holistic.sorted_panes import Elements, SortedPanes, WindowSlots
from windrow.synopses.lookups import Lookup, LookupAnswer

QueryLookup = tuple[WindowAggregate, Lookup]


def selected(synopsis: ClosedPanes, asked: Sequence[QueryLookup]) -> Iterator[LookupAnswer]:
    """The rows of every lookup by the queries' groups: computed columns for holistic aggregates, merged states for the
    others. All queries have the same keys."""
    panes = _Panes(synopsis, asked)
    whole = panes.by_group(asked)
    plain = [replace(lookup, reads=_plain(one, lookup), always=not one.keys) for one, lookup in asked]
    found = {looked.query: looked for looked in whole.answer(plain)}
    for aggregate, lookup in asked:
        looked = found[lookup.query]
        slots = panes.slots(lookup, looked)
        calls = dict.fromkeys(call for call in aggregate.aggregates if call.values)
        columns = {call: _column(call, panes.line(aggregate, call), slots) for call in calls}
        yield replace(looked, groups=panes.cell_of[looked.groups], columns=columns)


def _plain(aggregate: WindowAggregate, lookup: Lookup) -> tuple[Accumulator, ...]:
    """The accumulators of the aggregates that are not holistic."""
    parts = (a for call in aggregate.aggregates if not call.values for _, a in call.parts)
    return tuple(dict.fromkeys((lookup.presence, *parts)))


@dataclass(frozen=True)
class _Line:
    """The sorted elements of one value, and the values that their codes stand for."""

    sorted: SortedPanes
    values: pa.Array


class _Panes:
    """The cells that the lookups read, with the group and the pane of each as dense numbers."""

    def __init__(self, synopsis: ClosedPanes, asked: Sequence[QueryLookup]) -> None:
        first = min(int(lookup.starts.min()) for _, lookup in asked)
        last = max(int(lookup.ends.max()) for _, lookup in asked)
        reads = {a for aggregate, _ in asked for a in aggregate.accumulators}
        cells = synopsis.cells_between(first, last, reads)
        self._cells = cells = cells.where(cells.groups > 0)
        self._groups = synopsis.groups
        self._lines: dict[tuple[tuple[Key, ...], Accumulator, bool], _Line] = {}
        outer = cell_groups_of(synopsis.groups, len(asked[0][0].keys))
        self._count, self._group = outer.first.size, outer.of[cells.groups]
        self.cell_of = np.zeros(self._count + 1, np.int64)
        """A cell of each group; groups count from 1."""
        self.cell_of[self._group + 1] = cells.groups
        starts = run_starts(cells.panes)
        self._starts = cells.panes[starts]
        self._pane = np.repeat(np.arange(starts.size), np.diff(np.append(starts, cells.panes.size)))
        edges = [self._edges(lookup) for _, lookup in asked]
        self._widest = max(int((high - low).max()) for low, high in edges)

    def _edges(self, lookup: Lookup) -> tuple[Ids, Ids]:
        """The first pane of each window, and the pane after its last."""
        low, high = (np.searchsorted(self._starts, edge) for edge in (lookup.starts, lookup.ends))
        return np.minimum(low, high), high

    def slots(self, lookup: Lookup, looked: LookupAnswer) -> WindowSlots:
        return WindowSlots(*self._edges(lookup), looked.window, looked.groups.astype(np.int64) - 1)

    def by_group(self, asked: Sequence[QueryLookup]) -> ClosedPanes:
        """A synopsis with one cell per group and pane, for the aggregates that are not holistic."""
        needed = dict.fromkeys(a for one, lookup in asked for a in _plain(one, lookup))
        states = {a: self._cells.states[a] for a in needed if a in self._cells.states}
        return ClosedPanes.of_cells(Cells(self._cells.panes, self._group + 1, states), self._count + 1)

    def line(self, aggregate: WindowAggregate, call: AggregateCall) -> _Line:
        """The sorted elements of an aggregate, shared by all aggregates that count the same tuples."""
        is_distinct = call.function == COUNT_DISTINCT
        what = call.values, call.part(ROWS), is_distinct
        if what not in self._lines:
            keys = [aggregate.cell_keys.index(value) for value in call.values]
            elements = self._elements(keys, call.part(ROWS))
            elements = _previous(elements) if is_distinct else elements
            made = SortedPanes(elements, self._count, self._starts.size, self._widest)
            if made.nbytes + sum(line.sorted.nbytes for line in self._lines.values()) > MOST_SORTED_BYTES:
                self._lines.clear()
            self._lines[what] = _Line(made, codes_of(self._groups, keys[0]).values)
        return self._lines[what]

    def _elements(self, keys: Sequence[int], rows: Accumulator) -> Elements:
        """The values of the cells, each with the number of its counted tuples."""
        codes, _ = codes_together(self._groups, keys, self._cells.groups)
        counts = self._cells.states[rows][0] if rows in self._cells.states else np.zeros(codes.size, np.int64)
        kept = np.flatnonzero((codes >= 0) & (counts > 0))
        return Elements(self._group[kept], self._pane[kept], codes[kept], counts[kept])


def _previous(elements: Elements) -> Elements:
    """Each value of a pane once, as the previous pane in which its group had it, from 1; 0 if there is none."""
    order = np.lexsort((elements.panes, elements.codes, elements.groups))
    groups, panes, codes = elements.groups[order], elements.panes[order], elements.codes[order]
    before = np.zeros(order.size, np.int64)
    before[1:] = np.where((groups[1:] == groups[:-1]) & (codes[1:] == codes[:-1]), panes[:-1] + 1, 0)
    once = np.flatnonzero(before != panes + 1)  # cells that differ only in other values are one
    return Elements(groups[once], panes[once], before[once], np.ones(once.size, np.int64))


def _column(call: AggregateCall, line: _Line, slots: WindowSlots) -> pa.Array:
    """The results of one aggregate, a row per slot."""
    if call.function == COUNT_DISTINCT:
        return pa.array(line.sorted.below(slots, slots.lows + 1))
    counts = line.sorted.count(slots)
    held = np.flatnonzero(counts)
    size, counts, slots = counts.size, counts[held], slots.where(held)
    if call.function == "MEDIAN":
        low = line.sorted.at_ranks(slots, (counts + 1) // 2)
        high, even = low.copy(), np.flatnonzero(counts % 2 == 0)
        high[even] = line.sorted.at_ranks(slots.where(even), counts[even] // 2 + 1)
        return halfway(line.values, low, high, held, size)
    codes = np.full(size, -1, np.int64)
    codes[held] = line.sorted.at_ranks(slots, Phi(Fraction(call.parameters[0])).rank(counts))
    return line.values.take(pa.array(codes, mask=codes < 0))
