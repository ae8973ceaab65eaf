"""Closed panes in the driver, and the ways to answer lookups from their cells (Golab's dissertation, section 2.3.4).

The basic way is one pass per tick from the youngest pane to the oldest (rule CS2, section 8.3.1). It takes each answer
when it reaches the start of that window, so a tick costs as much as its longest window, whatever the number of queries.
The planner picks another way where that costs less.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses.answering.gathering import ClosedCells, closed_cells, looked_up_groups
from windrow.synopses.answering.indexing import Indexer
from windrow.synopses.answering.one_pass import PanePass
from windrow.synopses.answering.outputs import AllSlots, LookupOutput, ReadPlan
from windrow.synopses.answering.pane_tables import PaneTables, can_be_tabled
from windrow.synopses.answering.planner import WayDecision, plan_way
from windrow.synopses.answering.tree import FlatIntervals
from windrow.synopses.answering.way_costs import Spans, Way, window_work
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import Cells, Chunk, States, build_chunks, strands_of
from windrow.synopses.cells.groups import Groups
from windrow.synopses.cells.merging import concatenate
from windrow.synopses.lookups import Lookup, LookupAnswer, asked_once
from windrow.windows import Points


class ClosedPanes:
    """The cells of closed panes in chunks, panes ascending; `groups` gives the ids of their groups."""

    def __init__(self, groups: Groups, chunks: Sequence[Chunk] = ()):
        self.groups = groups
        self._chunks = list(chunks)
        self.indexer = Indexer()
        self.last_way: WayDecision | None = None
        """How windows were last answered, for EXPLAIN."""
        self.revision = 0
        """Counts the changes to closed panes other than closing and expiring. Filters built on these cells
        (`having/pane_filters.py`) must be rebuilt after each."""

    @classmethod
    def of_cells(cls, cells: Cells, count: int) -> ClosedPanes:
        """The panes of these cells, with `count` groups including nobody; the key values are not known."""
        groups = Groups([])
        groups.count = count
        return cls(groups, build_chunks(cells))

    @property
    def closed_panes(self) -> Points:
        if not self._chunks:
            return np.empty(0, np.int64)
        return np.concatenate([chunk.panes for chunk in self._chunks])

    def cells_between(self, low: int, high: int, reads: Collection[Accumulator] | None = None) -> Cells:
        """The cells of panes that start in [low, high), panes ascending, with the accumulators `reads` or with all."""
        held = [chunk.cells(reads) for chunk in self._chunks if chunk.panes[-1] >= low and chunk.panes[0] < high]
        cells = concatenate(held) if held else Cells(np.empty(0, np.int64), np.empty(0, np.int64), {})
        return cells.where((cells.panes >= low) & (cells.panes < high))

    def closed_cells(self, accumulator: Accumulator, first: int, last: int) -> Iterator[ClosedCells]:
        """The cells of panes with first ≤ start < last in which the accumulator is not empty, panes ascending."""
        for chunk in self._chunks:
            if chunk.panes[0] < last and chunk.panes[-1] >= first:
                yield closed_cells(chunk, accumulator, first, last)

    def count_cells(self, first: int, last: int) -> int:
        """The number of cells in panes with first ≤ start < last; dense chunks count their empty slots too."""
        count = 0
        for chunk in self._chunks:
            low, high = np.searchsorted(chunk.panes, (first, last))
            if chunk.cell_pane is None:
                count += int(high - low) * chunk.groups.size
            else:
                count += int(np.diff(np.searchsorted(chunk.cell_pane, (low, high)))[0])
        return count

    def totals(self, count: Accumulator, panes: Points) -> Points:
        """The sum of `count` in each of these panes (ascending), over all groups and nobody."""
        out = np.zeros(panes.size, np.int64)
        for chunk in self._chunks:
            state = chunk.states.get(count)
            at = np.searchsorted(panes, chunk.panes)
            known = (at < panes.size) & (panes[np.minimum(at, panes.size - 1)] == chunk.panes) if panes.size else at < 0
            if state is None or not known.any():
                continue
            if chunk.cell_pane is None:
                sums = state[0].sum(axis=1)
            else:
                sums = np.bincount(chunk.cell_pane, state[0], chunk.panes.size).astype(np.int64)
            out[at[known]] += sums[known]
        return out

    def answer(self, lookups: Sequence[Lookup]) -> Iterator[LookupAnswer]:
        """The rows of every lookup, in window order per query.

        The caller bounds the number of windows: the rows of all are in memory at once. A lookup with `only` reads only
        those groups.
        """
        yield from looked_up_groups(self._chunks, [lookup for lookup in lookups if lookup.only is not None])
        shared = asked_once([lookup for lookup in lookups if lookup.only is None])
        if shared:
            for answer in self._answer([one.asked for one in shared.values()]):
                yield from shared[answer.query].shares(answer)

    def _answer(self, lookups: Sequence[Lookup]) -> Iterator[LookupAnswer]:
        panes = self.closed_panes
        spans = [(np.searchsorted(panes, one.starts), np.searchsorted(panes, one.ends)) for one in lookups]
        ways = {
            Way.ONE_PASS: self._in_one_pass,
            Way.TABLES: self._by_tables,
            Way.TREE: self._by_tree,
            Way.INDEX: self._by_index,
        }
        yield from ways[self._way(lookups, spans)](lookups, spans)

    def _way(self, lookups: Sequence[Lookup], spans: Spans) -> Way:
        needed = _read(lookups)
        tabled = can_be_tabled(fold_of(a) for a in needed)
        work = window_work(lookups, spans, self.groups.count, self.closed_panes.size, tabled)
        indexed = self.indexer.consider(work, spans, needed, self._chunks, self._same)
        self.last_way = plan_way(work, indexed)
        return self.last_way.chosen

    def _by_index(self, lookups: Sequence[Lookup], spans: Spans) -> Iterator[LookupAnswer]:
        """Each window from a few cells of the index (`index/pane_index.py`)."""
        index, asked = self.indexer.index, self._asked(lookups)
        assert index is not None
        slots = AllSlots(max(lookup.ends.size for lookup in lookups), asked.size - 1)
        for lookup, (lows, highs) in zip(lookups, spans, strict=True):
            output = LookupOutput(lookup, asked)
            output.take_found(index.find(np.minimum(lows, highs), highs))
            yield output.rows(slots)

    def _by_tree(self, lookups: Sequence[Lookup], _: Spans) -> Iterator[LookupAnswer]:
        low = min(int(lookup.starts.min()) for lookup in lookups if lookup.starts.size)
        held = [chunk.cells() for chunk in self._chunks if chunk.panes[-1] >= low]
        flat = FlatIntervals(concatenate(held)) if held else None
        for lookup in lookups:
            needed = list(dict.fromkeys((lookup.presence, *lookup.reads)))
            if flat is None or lookup.always:
                window, groups = np.arange(lookup.ends.size), np.ones(lookup.ends.size, np.int64)
            else:
                window, groups = flat.alive(lookup.starts, lookup.ends)
            if flat is None:
                states: States = {a: fold_of(a).identity(window.size) for a in needed}
            else:
                states = flat.answer(groups, lookup.starts[window], lookup.ends[window], needed)
            if not lookup.always:
                present = np.flatnonzero(lookup.present(states))
                window, groups = window[present], groups[present]
                states = {a: tuple(column[present] for column in state) for a, state in states.items()}
            yield LookupAnswer(lookup.query, int(lookup.ends.size), window, groups, states)

    def _in_one_pass(self, lookups: Sequence[Lookup], spans: Spans) -> Iterator[LookupAnswer]:
        """Rule CS2: from the youngest pane down; each answer is taken along the way."""
        ends = np.concatenate([lookup.ends for lookup in lookups])
        starts = np.concatenate([lookup.starts for lookup in lookups])
        owner = np.repeat(np.arange(len(lookups)), [lookup.ends.size for lookup in lookups]).tolist()
        index = np.concatenate([np.arange(lookup.ends.size) for lookup in lookups]).tolist()
        lows = np.concatenate([low for low, _ in spans]).tolist()
        highs = np.concatenate([high for _, high in spans]).tolist()
        asked = self._asked(lookups)
        scan = PanePass(self._chunks, asked.strands, asked.size)
        outputs = [LookupOutput(lookup, asked) for lookup in lookups]
        tick = None
        for i in np.lexsort((-starts, ends)).tolist():
            if tick is None or ends[i] != tick:
                tick = ends[i]
                scan.begin(highs[i])
            scan.extend(lows[i])
            outputs[owner[i]].take(index[i], scan.state)
        slots = AllSlots(max(lookup.ends.size for lookup in lookups), asked.size - 1)
        for output in outputs:
            yield output.rows(slots)

    def _by_tables(self, lookups: Sequence[Lookup], spans: Spans) -> Iterator[LookupAnswer]:
        """All windows of a query at once, from tables over the panes."""
        asked = self._asked(lookups)
        spans = [(np.minimum(low, high), high) for low, high in spans]
        first = min(int(low.min()) for low, _ in spans if low.size)
        last = max(int(high.max()) for _, high in spans if high.size)
        tables = PaneTables(self._chunks, asked.strands, asked.size, first, last)
        slots = AllSlots(max(lookup.ends.size for lookup in lookups), asked.size - 1)
        for lookup, (lows, highs) in zip(lookups, spans, strict=True):
            output = LookupOutput(lookup, asked)
            output.take_all(tables, lows, highs)
            yield output.rows(slots)

    def _asked(self, lookups: Sequence[Lookup]) -> ReadPlan:
        """The accumulators to merge, as strands, and the number of groups."""
        same = self._same(_read(lookups))
        return ReadPlan(same, strands_of(dict.fromkeys(same.values())), max(self.groups.count, 2))

    def _same(self, needed: Sequence[Accumulator]) -> dict[Accumulator, Accumulator]:
        """Maps each accumulator to the first equal one: counts that share a state in every chunk are merged once."""
        first: dict[object, Accumulator] = {}
        out = {}
        for a in needed:
            seen = tuple(id(chunk.states.get(a)) for chunk in self._chunks) if a.kind is Kind.COUNT else a
            out[a] = first.setdefault(seen, a)
        return out


def _read(lookups: Sequence[Lookup]) -> list[Accumulator]:
    """All accumulators that the lookups read, each once."""
    return list(dict.fromkeys(a for lookup in lookups for a in (lookup.presence, *lookup.reads)))
