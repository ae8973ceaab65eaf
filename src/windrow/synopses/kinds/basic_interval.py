"""The basic interval synopsis over panes, in its driver home (001_3bbbc8a20ffc7252.txt, 2.3.4 and rule CS2).

It keeps one cell per pane and group and nothing else. All due queries are answered in one pass per tick
from the youngest pane to the oldest: each answer is taken along the way, when the pass has reached that
query's window start. So the cost of a tick is the longest window, whatever the number of queries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa

from windrow.optimizer.sharing.synopsis_plans import SynopsisPlan
from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses.answering.deriving import kept_lookups, with_derived
from windrow.synopses.answering.gathering import ClosedCells, closed_cells, gathered
from windrow.synopses.answering.indexing import Indexer
from windrow.synopses.answering.intervals import FlatIntervals
from windrow.synopses.answering.one_pass import PanePass
from windrow.synopses.answering.outputs import AllSlots, LookupOutput, ReadPlan
from windrow.synopses.answering.pane_tables import PaneTables, can_be_tabled
from windrow.synopses.answering.planner import WayDecision, plan_way
from windrow.synopses.answering.way_costs import Spans, Way, window_work
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import Cells, Chunk, States, build_chunks, panes_per_chunk, strands_of
from windrow.synopses.cells.groups import Groups
from windrow.synopses.cells.merging import collapsed_panes, concatenate, fold_cells
from windrow.synopses.cells.releasing import released
from windrow.synopses.cells.sketches import held_bytes
from windrow.synopses.cells.value_codes import cell_groups_of
from windrow.synopses.lookups import Looked, Lookup, asked_once, merged
from windrow.synopses.synopsis import Asker, Mask, Synopsis
from windrow.windows import Points

FEW_GROUPS = 1024
"""Below this many groups nothing is gained by renumbering them."""


YOUNG_CHUNKS = 64
"""The youngest chunks are kept in full width: windows that are not very long look only into these."""

MOST_PENDING = 16
"""Deposits into open panes that are held apart before they are folded."""


class BasicIntervalSynopsis(Synopsis):
    """Cells of closed panes in chunks; cells of open panes pending until a tick closes them."""

    kind = "basic interval"

    def __init__(self, key_types: Sequence[pa.DataType]):
        self.groups = Groups(key_types)
        self._pending: list[Cells] = []
        self._chunks: list[Chunk] = []
        self._late: list[Cells] = []
        self._late_alone: BasicIntervalSynopsis | None = None
        self.indexer = Indexer()
        self.last_way: WayDecision | None = None
        """How windows were last answered, for EXPLAIN."""
        self._ungrouped = not key_types
        self.revision = 0
        """Counted up whenever closed panes change otherwise than by closing and expiring: what is built over their
        cells (`pane_filters.py`) is then to be built anew."""

    @classmethod
    def of_closed(cls, cells: Cells, count: int) -> BasicIntervalSynopsis:
        """A synopsis of closed panes alone, of `count` groups, nobody among them, whose keys are not known to it."""
        alone = cls([])
        alone.groups.count, alone._chunks = count, build_chunks(cells)
        return alone

    @property
    def nbytes(self) -> int:
        held = (*self._pending, *self._late)
        pending = sum(held_bytes(c) for cells in held for s in cells.states.values() for c in s)
        return pending + sum(chunk.nbytes for chunk in self._chunks)

    @property
    def index_bytes(self) -> int:
        return self.indexer.nbytes

    @property
    def readable(self) -> BasicIntervalSynopsis:
        return self

    def slots(self, reduced: bool = False, keys: int | None = None) -> int:
        return self.groups.count if keys is None else cell_groups_of(self.groups, keys).count

    def parts(self) -> Iterator[Cells]:
        for chunk in self._chunks:
            yield chunk.cells()
        yield from self._pending

    @property
    def closed_panes(self) -> Points:
        if not self._chunks:
            return np.empty(0, np.int64)
        return np.concatenate([chunk.panes for chunk in self._chunks])

    @property
    def last_pane(self) -> int | None:
        held = [int(cells.panes.max()) for cells in (*self._pending, *self._late)]
        held += [int(chunk.panes[-1]) for chunk in self._chunks[-1:]]
        return max(held, default=None)

    def cells_between(self, low: int, high: int, reads: Collection[Accumulator] | None = None) -> Cells:
        """The cells of closed panes that start in [low, high), with these accumulators, or with all; panes ascend."""
        held = [chunk.cells(reads) for chunk in self._chunks if chunk.panes[-1] >= low and chunk.panes[0] < high]
        cells = concatenate(held) if held else Cells(np.empty(0, np.int64), np.empty(0, np.int64), {})
        return cells.where((cells.panes >= low) & (cells.panes < high))

    def deposit(self, cells: Cells) -> None:
        if len(cells):
            self._pending.append(cells)
            self._fold_pending()

    def _fold_pending(self) -> None:
        """Keep the parts few: a pane that stays open for a day must not grow with every micro-batch.

        Only the newest parts are folded, back to the first that is larger than all after it: each cell is then
        folded a logarithmic number of times.
        """
        if len(self._pending) <= MOST_PENDING:
            return
        first, size = len(self._pending) - 1, len(self._pending[-1])
        while first > 0 and len(self._pending[first - 1]) <= size:
            first -= 1
            size += len(self._pending[first])
        self._pending[first:] = [fold_cells(self._pending[first:], None)]

    def hold_late(self, cells: Cells) -> None:
        if len(cells):
            self._late.append(cells)
            self._late_alone = None

    @property
    def has_late(self) -> bool:
        return bool(self._late)

    @property
    def late_parts(self) -> Sequence[Cells]:
        return tuple(self._late)

    @property
    def late_panes(self) -> Points:
        return self.late_alone().closed_panes

    def late_alone(self) -> BasicIntervalSynopsis:
        """What is held apart by itself, with the same groups."""
        if self._late_alone is None:
            self._late_alone = self._alone(self._late)
        return self._late_alone

    def open_alone(self, wanted: Mask) -> BasicIntervalSynopsis:
        return self._alone([cells.where(wanted[cells.groups]) for cells in self._pending])

    def _alone(self, parts: Sequence[Cells]) -> BasicIntervalSynopsis:
        alone = BasicIntervalSynopsis([])
        alone.groups, alone._ungrouped = self.groups, self._ungrouped
        held = [part for part in parts if len(part)]
        alone._chunks = build_chunks(concatenate(held)) if held else []
        return alone

    def release(self, needed: Points) -> None:
        """Of closed panes only where that is half of a chunk's, for it is built anew."""
        self._pending = [released(cells, needed) for cells in self._pending]
        for at, chunk in enumerate(self._chunks):
            if not (int(chunk.panes[0]) < needed[chunk.groups]).any():
                continue
            cells = chunk.cells()
            kept = released(cells, needed)
            if 2 * np.count_nonzero(kept.groups) <= np.count_nonzero(cells.groups):
                self.indexer.stale()
                self._chunks[at : at + 1] = build_chunks(kept)
                self.revision += 1
        self._compact_groups()

    def merge_late(self) -> None:
        late, self._late, self._late_alone = self._late, [], None
        if late:
            self.merge(concatenate(late))

    def merge(self, cells: Cells) -> None:
        """The chunks whose panes they fall among are built anew."""
        if not len(cells):
            return
        self.indexer.stale()
        self.revision += 1
        if not self._chunks:
            self._chunks = build_chunks(cells)
            return
        firsts = np.array([int(chunk.panes[0]) for chunk in self._chunks])
        into = np.maximum(np.searchsorted(firsts, cells.panes, side="right") - 1, 0)
        merged: list[Chunk] = []
        for at, chunk in enumerate(self._chunks):
            mine = into == at
            merged += build_chunks(concatenate([chunk.cells(), cells.where(mine)])) if mine.any() else [chunk]
        self._chunks = merged

    def close(self, upto: int) -> Points:
        """Close the panes that start below `upto` (a cut); returns the starts of those that hold a tuple."""
        closing, staying = [], []
        for cells in self._pending:
            mask = cells.panes < upto
            if mask.all():
                closing.append(cells)
            elif mask.any():
                closing.append(cells.where(mask))
                staying.append(cells.where(~mask))
            else:
                staying.append(cells)
        self._pending = staying
        if not closing:
            return np.empty(0, np.int64)
        chunks = build_chunks(self._closing(concatenate(closing)))
        self._chunks.extend(chunks)
        self.indexer.closed(chunks, sum(chunk.panes.size for chunk in self._chunks), self.groups.count - 1)
        self._coalesce()
        for chunk in reversed(self._chunks[: max(0, len(self._chunks) - YOUNG_CHUNKS)]):
            if chunk.is_narrow:
                break
            chunk.narrow()
        return np.concatenate([chunk.panes for chunk in chunks])

    def _closing(self, cells: Cells) -> Cells:
        """What is kept of panes as they close: all."""
        return cells

    def _coalesce(self) -> None:
        """Join the youngest chunks, as a binary counter carries: the cost of a pass follows the number of chunks,
        and a tick may close a pane at a time. A chunk goes as a whole, so none holds more than an eighth of the
        panes."""
        eighth = sum(chunk.panes.size for chunk in self._chunks) // 8
        while len(self._chunks) > 1:
            older, younger = self._chunks[-2:]
            most = min(eighth, panes_per_chunk(max(older.groups.size, younger.groups.size)))
            if older.panes.size > younger.panes.size or older.panes.size + younger.panes.size > most:
                return
            self._chunks[-2:] = build_chunks(concatenate([older.cells(), younger.cells()]))

    def ask(self, lookups: Sequence[Lookup], plan: SynopsisPlan, once: Asker | None = None) -> Iterator[Looked]:
        derived = plan.derived if once is None else {"": once.derived} if once.derived else {}
        if not derived:
            return self.answer(lookups)
        return with_derived(self.answer(kept_lookups(lookups, derived)), lookups, derived)

    def revise(
        self, lookups: Sequence[Lookup], there: Sequence[tuple[Mask, Mask]], plan: SynopsisPlan
    ) -> Iterator[tuple[Looked, Looked]]:
        late = self.late_alone()
        for lookup in lookups:
            was = next(self.ask([lookup], plan))
            yield was, merged(was, next(late.ask([lookup], plan)))

    def answer(self, lookups: Sequence[Lookup]) -> Iterator[Looked]:
        """The rows of every lookup, in window order per query (rule CS2).

        The caller bounds the number of windows: the rows of all of them are in memory at once. Lookups of only some
        groups are answered for these alone, whatever the others are.
        """
        yield from gathered(self._chunks, [lookup for lookup in lookups if lookup.only is not None])
        shared = asked_once([lookup for lookup in lookups if lookup.only is None])
        if shared:
            for looked in self._answer([one.asked for one in shared.values()]):
                yield from shared[looked.query].shares(looked)

    def _answer(self, lookups: Sequence[Lookup]) -> Iterator[Looked]:
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

    def _by_index(self, lookups: Sequence[Lookup], spans: Spans) -> Iterator[Looked]:
        """Each window from a few cells of the index (`pane_index.py`)."""
        index, asked = self.indexer.index, self._asked(lookups)
        assert index is not None
        slots = AllSlots(max(lookup.ends.size for lookup in lookups), asked.size - 1)
        for lookup, (lows, highs) in zip(lookups, spans, strict=True):
            output = LookupOutput(lookup, asked)
            output.take_found(index.find(np.minimum(lows, highs), highs))
            yield output.rows(slots)

    def _by_tree(self, lookups: Sequence[Lookup], _: Spans) -> Iterator[Looked]:
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
            yield Looked(lookup.query, int(lookup.ends.size), window, groups, states)

    def _in_one_pass(self, lookups: Sequence[Lookup], spans: Spans) -> Iterator[Looked]:
        """Rule CS2: from the youngest pane down, each answer taken along the way."""
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

    def _by_tables(self, lookups: Sequence[Lookup], spans: Spans) -> Iterator[Looked]:
        """All windows of a query at once; where nothing is between its edges, nothing is merged."""
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
        """What is read, each accumulator's first equal, those with equal folds together; and for how many groups."""
        same = self._same(_read(lookups))
        return ReadPlan(same, strands_of(dict.fromkeys(same.values())), max(self.groups.count, 2))

    def _same(self, needed: Sequence[Accumulator]) -> dict[Accumulator, Accumulator]:
        """Each accumulator's first equal: counts that are one state in every chunk are merged once."""
        first: dict[object, Accumulator] = {}
        out = {}
        for a in needed:
            seen = tuple(id(chunk.states.get(a)) for chunk in self._chunks) if a.kind is Kind.COUNT else a
            out[a] = first.setdefault(seen, a)
        return out

    def closed_cells(self, accumulator: Accumulator, first: int, last: int) -> Iterator[ClosedCells]:
        """The cells of the closed panes first ≤ start < last that hold something of an accumulator, in their order."""
        for chunk in self._chunks:
            if chunk.panes[0] < last and chunk.panes[-1] >= first:
                yield closed_cells(chunk, accumulator, first, last)

    def count_cells(self, first: int, last: int) -> int:
        """How many cells the closed panes first ≤ start < last have, or have room for."""
        count = 0
        for chunk in self._chunks:
            low, high = np.searchsorted(chunk.panes, (first, last))
            if chunk.cell_pane is None:
                count += int(high - low) * chunk.groups.size
            else:
                count += int(np.diff(np.searchsorted(chunk.cell_pane, (low, high)))[0])
        return count

    def totals(self, count: Accumulator, panes: Points, late: bool = False) -> Points:
        if late:
            return self.late_alone().totals(count, panes)
        out = np.zeros(panes.size, np.int64)
        for chunk in self._chunks:
            state = chunk.states.get(count)
            at = np.searchsorted(panes, chunk.panes)
            known = (at < panes.size) & (panes[np.minimum(at, panes.size - 1)] == chunk.panes) if panes.size else at < 0
            if state is None or not known.any():
                continue
            if chunk.cell_pane is None:
                mine = state[0].sum(axis=1)
            else:
                mine = np.bincount(chunk.cell_pane, state[0], chunk.panes.size).astype(np.int64)
            out[at[known]] += mine[known]
        return out

    def collapse(self, below: int, into: Points) -> None:
        old = [chunk for chunk in self._chunks if chunk.panes[0] < below]
        if not old or (len(old) == 1 and np.isin(old[0].panes, into).all()):
            return
        self.revision += 1
        cells = concatenate([chunk.cells() for chunk in old])
        kept = [chunk for chunk in self._chunks if chunk.panes[0] >= below]
        panes = collapsed_panes(cells.panes, below, into)
        self.indexer.stale()
        self._chunks = [*build_chunks(Cells(panes, cells.groups, cells.states)), *kept]

    def expire(self, below: int) -> None:
        """Chunks go whole; groups are renumbered when most have gone."""
        kept = [chunk for chunk in self._chunks if chunk.panes[-1] >= below]
        if len(kept) == len(self._chunks):
            return
        self.indexer.expired(sum(chunk.panes.size for chunk in self._chunks if chunk.panes[-1] < below))
        self._chunks = kept
        self._compact_groups()

    def _compact_groups(self) -> None:
        if self._ungrouped or self.groups.count < FEW_GROUPS:
            return
        alive = np.zeros(self.groups.count, bool)
        alive[0] = True
        for chunk in self._chunks:
            alive[chunk.groups] = True
        for cells in (*self._pending, *self._late):
            alive[cells.groups] = True
        if 2 * int(alive.sum()) > self.groups.count:
            return
        self.indexer.stale()
        self.revision += 1
        new_ids = self.groups.compact(np.flatnonzero(alive))
        for chunk in self._chunks:
            chunk.renumber(new_ids)
        self._pending = [Cells(c.panes, new_ids[c.groups], c.states) for c in self._pending]
        self._late = [Cells(c.panes, new_ids[c.groups], c.states) for c in self._late]
        self._late_alone = None


def _read(lookups: Sequence[Lookup]) -> list[Accumulator]:
    """Everything that some lookups read, each once."""
    return list(dict.fromkeys(a for lookup in lookups for a in (lookup.presence, *lookup.reads)))
