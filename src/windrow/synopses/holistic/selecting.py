"""Holistic aggregates of many windows at once, from sorted base intervals (B-INT-QNT) instead of counters.

Rolling up counters costs windows × values. Where windows are many and values too, the tuples of the panes are sorted,
as codes in the order of the values, in every base interval of panes (`sorted_panes.py`), and MEDIAN and QUANTILE of
every window and group are selected from those that the window is made of: 004_65e36a58973a8297.txt, section 3.3. For
COUNT(DISTINCT) each value of a pane is the number of the pane before in which its group had it: a window has as many
distinct values as elements from before its first pane. All other aggregates are merged group by group, as without
holistic ones beside them. Queries that are due together share what is sorted, whatever their φ. The answers are those
of the counters (`roll_up.py`).
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
from windrow.synopses.answering.costs import MOST_SORTED_BYTES
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.groups import Ids
from windrow.synopses.holistic.from_counters import halfway, run_starts
from windrow.synopses.holistic.phi import Phi
from windrow.synopses.holistic.sorted_panes import Elements, SortedPanes, WindowSlots
from windrow.synopses.holistic.value_codes import cell_groups_of, codes_of, codes_together
from windrow.synopses.kinds.basic_interval import BasicIntervalSynopsis
from windrow.synopses.lookups import Looked, Lookup

QueryLookup = tuple[WindowAggregate, Lookup]


def selected(synopsis: BasicIntervalSynopsis, asked: Sequence[QueryLookup]) -> Iterator[Looked]:
    """The rows of every lookup, of the queries' own groups: the columns of holistic aggregates worked out, the states
    of the others merged. The queries have the same keys."""
    panes = _Panes(synopsis, asked)
    whole = panes.by_group(asked)
    plain = [replace(lookup, reads=_plain(one, lookup), always=not one.keys) for one, lookup in asked]
    found = {looked.query: looked for looked in whole.answer(plain)}
    for aggregate, lookup in asked:
        looked = found[lookup.query]
        spots = panes.spots(lookup, looked)
        calls = dict.fromkeys(call for call in aggregate.aggregates if call.values)
        columns = {call: _column(call, panes.line(aggregate, call), spots) for call in calls}
        yield replace(looked, groups=panes.cell_of[looked.groups], columns=columns)


def _plain(aggregate: WindowAggregate, lookup: Lookup) -> tuple[Accumulator, ...]:
    """What is merged for the aggregates that are not holistic."""
    parts = (a for call in aggregate.aggregates if not call.values for _, a in call.parts)
    return tuple(dict.fromkeys((lookup.presence, *parts)))


@dataclass(frozen=True)
class _Line:
    """What a value's aggregates are found in, and the values that the codes stand for."""

    sorted: SortedPanes
    values: pa.Array


class _Panes:
    """The cells that some lookups read: the group and the pane of each by number."""

    def __init__(self, synopsis: BasicIntervalSynopsis, asked: Sequence[QueryLookup]) -> None:
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
        """Of each group, counted from 1, a cell."""
        self.cell_of[self._group + 1] = cells.groups
        starts = run_starts(cells.panes)
        self._starts = cells.panes[starts]
        self._pane = np.repeat(np.arange(starts.size), np.diff(np.append(starts, cells.panes.size)))
        edges = [self._edges(lookup) for _, lookup in asked]
        self._widest = max(int((high - low).max()) for low, high in edges)

    def _edges(self, lookup: Lookup) -> tuple[Ids, Ids]:
        """The panes that each window begins with, and ends before."""
        low, high = (np.searchsorted(self._starts, edge) for edge in (lookup.starts, lookup.ends))
        return np.minimum(low, high), high

    def spots(self, lookup: Lookup, looked: Looked) -> WindowSlots:
        return WindowSlots(*self._edges(lookup), looked.window, looked.groups.astype(np.int64) - 1)

    def by_group(self, asked: Sequence[QueryLookup]) -> BasicIntervalSynopsis:
        """A synopsis of the groups themselves, for aggregates that are not holistic."""
        needed = dict.fromkeys(a for one, lookup in asked for a in _plain(one, lookup))
        states = {a: self._cells.states[a] for a in needed if a in self._cells.states}
        return BasicIntervalSynopsis.of_closed(Cells(self._cells.panes, self._group + 1, states), self._count + 1)

    def line(self, aggregate: WindowAggregate, call: AggregateCall) -> _Line:
        """The elements that an aggregate is found among, sorted once for all that count the same tuples."""
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
        """The values of the cells, each as often as tuples that count have it."""
        codes, _ = codes_together(self._groups, keys, self._cells.groups)
        counts = self._cells.states[rows][0] if rows in self._cells.states else np.zeros(codes.size, np.int64)
        kept = np.flatnonzero((codes >= 0) & (counts > 0))
        return Elements(self._group[kept], self._pane[kept], codes[kept], counts[kept])


def _previous(elements: Elements) -> Elements:
    """Each value of a pane once, with the pane before in which its group had it, counted from 1; 0: in none."""
    order = np.lexsort((elements.panes, elements.codes, elements.groups))
    groups, panes, codes = elements.groups[order], elements.panes[order], elements.codes[order]
    before = np.zeros(order.size, np.int64)
    before[1:] = np.where((groups[1:] == groups[:-1]) & (codes[1:] == codes[:-1]), panes[:-1] + 1, 0)
    once = np.flatnonzero(before != panes + 1)  # cells that differ in other values alone are one
    return Elements(groups[once], panes[once], before[once], np.ones(once.size, np.int64))


def _column(call: AggregateCall, line: _Line, spots: WindowSlots) -> pa.Array:
    """The results of one aggregate, a row for each spot."""
    if call.function == COUNT_DISTINCT:
        return pa.array(line.sorted.below(spots, spots.lows + 1))
    counts = line.sorted.count(spots)
    held = np.flatnonzero(counts)
    size, counts, spots = counts.size, counts[held], spots.where(held)
    if call.function == "MEDIAN":
        low = line.sorted.at_ranks(spots, (counts + 1) // 2)
        high, even = low.copy(), np.flatnonzero(counts % 2 == 0)
        high[even] = line.sorted.at_ranks(spots.where(even), counts[even] // 2 + 1)
        return halfway(line.values, low, high, held, size)
    codes = np.full(size, -1, np.int64)
    codes[held] = line.sorted.at_ranks(spots, Phi(Fraction(call.parameters[0])).rank(counts))
    return line.values.take(pa.array(codes, mask=codes < 0))
