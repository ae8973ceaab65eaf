"""The basic interval synopsis over panes, in its driver home (001_3bbbc8a20ffc7252.txt, 2.3.4 and rule CS2).

It keeps one cell per pane and group and nothing else. All due queries are answered in one pass per tick
from the youngest pane to the oldest: each answer is taken along the way, when the pass has reached that
query's window start. So the cost of a tick is the longest window, whatever the number of queries.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses import distinct
from windrow.synopses.cells import fold_of
from windrow.synopses.chunks import PANES_PER_CHUNK, Cells, Chunk, ChunkView, States, Strand, build_chunks, strands_of
from windrow.synopses.folds import State
from windrow.synopses.groups import Groups, Ids
from windrow.synopses.intervals import FlatIntervals
from windrow.synopses.lookups import Looked, Lookup
from windrow.synopses.merging import concatenate, fold_cells
from windrow.synopses.releasing import released
from windrow.windows import Points

FEW_GROUPS = 1024
"""Below this many groups nothing is gained by renumbering them."""


YOUNG_CHUNKS = 64
"""The youngest chunks are kept in full width: windows that are not very long look only into these."""

MOST_PENDING = 16
"""Deposits into open panes that are held apart before they are folded."""


class BasicIntervalSynopsis:
    """Cells of closed panes in chunks; cells of open panes pending until a tick closes them."""

    kind = "basic interval"

    def __init__(self, key_types: Sequence[pa.DataType]):
        self.groups = Groups(key_types)
        self._pending: list[Cells] = []
        self._chunks: list[Chunk] = []
        self._late: list[Cells] = []
        self._ungrouped = not key_types

    @property
    def nbytes(self) -> int:
        held = (*self._pending, *self._late)
        pending = sum(c.nbytes for cells in held for s in cells.states.values() for c in s)
        return pending + sum(chunk.nbytes for chunk in self._chunks)

    @property
    def closed_panes(self) -> Points:
        """The starts of the occupied closed panes, ascending."""
        if not self._chunks:
            return np.empty(0, np.int64)
        return np.concatenate([chunk.panes for chunk in self._chunks])

    def deposit(self, cells: Cells) -> None:
        """Take new cells of open panes."""
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

    def deposit_late(self, cells: Cells) -> None:
        """Take cells of closed panes, held apart until `merge_late`: the answers that they correct have been given."""
        if len(cells):
            self._late.append(cells)

    @property
    def has_late(self) -> bool:
        return bool(self._late)

    def late_alone(self) -> BasicIntervalSynopsis:
        """A synopsis of nothing but what is held apart, with the same groups."""
        return self._alone(self._late)

    def open_alone(self, wanted: npt.NDArray[np.bool_]) -> BasicIntervalSynopsis:
        """A synopsis of nothing but the open panes' cells of some groups, which count as closed there."""
        return self._alone([cells.where(wanted[cells.groups]) for cells in self._pending])

    def _alone(self, parts: Sequence[Cells]) -> BasicIntervalSynopsis:
        alone = BasicIntervalSynopsis([])
        alone.groups, alone._ungrouped = self.groups, self._ungrouped
        held = [part for part in parts if len(part)]
        alone._chunks = build_chunks(concatenate(held)) if held else []
        return alone

    def release(self, needed: Points) -> None:
        """Let go of cells below the point from which on their group is needed, by group id; of closed panes only where
        that is half of a chunk's, for it is built anew."""
        self._pending = [released(cells, needed) for cells in self._pending]
        for at, chunk in enumerate(self._chunks):
            if not (int(chunk.panes[0]) < needed[chunk.groups]).any():
                continue
            cells = chunk.cells()
            kept = released(cells, needed)
            if 2 * np.count_nonzero(kept.groups) <= np.count_nonzero(cells.groups):
                self._chunks[at : at + 1] = build_chunks(kept)
        self._compact_groups()

    def merge_late(self) -> None:
        """Take what is held apart into the closed panes."""
        late, self._late = self._late, []
        if late:
            self.merge(concatenate(late))

    def merge(self, cells: Cells) -> None:
        """Take cells of closed panes: the chunks whose panes they fall among are built anew."""
        if not len(cells):
            return
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
        chunks = build_chunks(concatenate(closing))
        self._chunks.extend(chunks)
        self._coalesce()
        for chunk in reversed(self._chunks[: max(0, len(self._chunks) - YOUNG_CHUNKS)]):
            if chunk.is_narrow:
                break
            chunk.narrow()
        return np.concatenate([chunk.panes for chunk in chunks])

    def _coalesce(self) -> None:
        """Join the youngest chunks, as a binary counter carries: the cost of a pass follows the number of chunks,
        and a tick may close a pane at a time. A chunk goes as a whole, so none holds more than an eighth of the
        panes."""
        most = min(PANES_PER_CHUNK, sum(chunk.panes.size for chunk in self._chunks) // 8)
        while len(self._chunks) > 1:
            older, younger = self._chunks[-2:]
            if older.panes.size > younger.panes.size or older.panes.size + younger.panes.size > most:
                return
            self._chunks[-2:] = build_chunks(concatenate([older.cells(), younger.cells()]))

    def answer(self, lookups: Sequence[Lookup]) -> Iterator[Looked]:
        """The rows of every lookup, in window order per query (rule CS2).

        The caller bounds the number of windows: the rows of all of them are in memory at once.
        """
        if not lookups:
            return
        panes = self.closed_panes
        spans = [(np.searchsorted(panes, one.starts), np.searchsorted(panes, one.ends)) for one in lookups]
        if self._prefers_flat(lookups, spans):
            yield from self._answer_flat(lookups)
        else:
            yield from self._answer_in_one_pass(lookups, spans)

    def _prefers_flat(self, lookups: Sequence[Lookup], spans: Sequence[tuple[Ids, Ids]]) -> bool:
        """Whether many windows over few groups are cheaper looked up one by one in a tree than in a pass.

        In a pass each window costs some NumPy calls, and each pane of the longest window at a tick a look at every
        group; in the tree each answer row costs two steps per level. (Measured, in nanoseconds.)
        """
        if any((edge[1:] < edge[:-1]).any() for lookup in lookups for edge in (lookup.starts, lookup.ends)):
            return False
        groups = max(self.groups.count - 1, 1)
        columns = len({a for lookup in lookups for a in (lookup.presence, *lookup.reads)})
        windows = sum(lookup.ends.size for lookup in lookups)
        lengths = np.concatenate([high - low for low, high in spans])
        longest = np.zeros(0, np.int64)
        if lengths.size:
            ticks = distinct.of_runs(np.concatenate([high for _, high in spans]))[1]
            longest = np.zeros(int(ticks.max()) + 1, np.int64)
            np.maximum.at(longest, ticks, lengths)
        touched = longest.sum() / PANES_PER_CHUNK + windows
        one_pass = touched * 12_000 + float(longest.sum()) / PANES_PER_CHUNK * 2 * groups * columns * 0.6
        levels = 2 * max(1, int(lengths.max() if lengths.size else 1).bit_length())
        flat = windows * groups * (columns * levels * 8 + 100) + self.closed_panes.size * groups * columns * 20
        return bool(flat < one_pass)

    def _answer_flat(self, lookups: Sequence[Lookup]) -> Iterator[Looked]:
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
                present = np.flatnonzero(states[lookup.presence][0])
                window, groups = window[present], groups[present]
                states = {a: tuple(column[present] for column in state) for a, state in states.items()}
            yield Looked(lookup.query, int(lookup.ends.size), window, groups, states)

    def _answer_in_one_pass(self, lookups: Sequence[Lookup], spans: Sequence[tuple[Ids, Ids]]) -> Iterator[Looked]:
        """Rule CS2: from the youngest pane down, each answer taken along the way."""
        size = max(self.groups.count, 2)
        ends = np.concatenate([lookup.ends for lookup in lookups])
        starts = np.concatenate([lookup.starts for lookup in lookups])
        owner = np.repeat(np.arange(len(lookups)), [lookup.ends.size for lookup in lookups]).tolist()
        index = np.concatenate([np.arange(lookup.ends.size) for lookup in lookups]).tolist()
        lows = np.concatenate([low for low, _ in spans]).tolist()
        highs = np.concatenate([high for _, high in spans]).tolist()
        needed = list(dict.fromkeys(a for lookup in lookups for a in (lookup.presence, *lookup.reads)))
        same = self._same(needed)
        scan = _Pass(self._chunks, strands_of(dict.fromkeys(same.values())), size)
        outputs = [_Output(lookup, same, scan.strands, size) for lookup in lookups]
        tick = None
        for i in np.lexsort((-starts, ends)).tolist():
            if tick is None or ends[i] != tick:
                tick = ends[i]
                scan.begin(highs[i])
            scan.extend(lows[i])
            outputs[owner[i]].take(index[i], scan.state)
        for output in outputs:
            yield output.rows()

    def _same(self, needed: Sequence[Accumulator]) -> dict[Accumulator, Accumulator]:
        """Each accumulator's first equal: counts that are one state in every chunk are merged once."""
        first: dict[object, Accumulator] = {}
        out = {}
        for a in needed:
            seen = tuple(id(chunk.states.get(a)) for chunk in self._chunks) if a.kind is Kind.COUNT else a
            out[a] = first.setdefault(seen, a)
        return out

    def totals(self, accumulator: Accumulator, panes: Points) -> Points:
        """A count of these closed panes, all groups and nobody together."""
        out = np.zeros(panes.size, np.int64)
        for chunk in self._chunks:
            state = chunk.states.get(accumulator)
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

    def collapse(self, below: int, into: int) -> None:
        """Make the panes from `into` on, up to a point, one pane: landmark windows never look into them again."""
        old = [chunk for chunk in self._chunks if chunk.panes[0] < below]
        if not old or (len(old) == 1 and old[0].panes.size == 1):
            return
        cells = concatenate([chunk.cells() for chunk in old])
        panes = np.where((cells.panes >= into) & (cells.panes < below), into, cells.panes)
        kept = [chunk for chunk in self._chunks if chunk.panes[0] >= below]
        self._chunks = [*build_chunks(Cells(panes, cells.groups, cells.states)), *kept]

    def expire(self, below: int) -> None:
        """Drop chunks whose panes all start below the point; renumber when most groups have gone."""
        kept = [chunk for chunk in self._chunks if chunk.panes[-1] >= below]
        if len(kept) == len(self._chunks):
            return
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
        new_ids = self.groups.compact(np.flatnonzero(alive))
        for chunk in self._chunks:
            chunk.renumber(new_ids)
        self._pending = [Cells(c.panes, new_ids[c.groups], c.states) for c in self._pending]
        self._late = [Cells(c.panes, new_ids[c.groups], c.states) for c in self._late]


class _Pass:
    """One pass from the youngest pane down: the merged state of the panes between `reached` and the tick."""

    def __init__(self, chunks: Sequence[Chunk], strands: Sequence[Strand], size: int):
        self.strands = strands
        self._chunks = chunks
        self._views: dict[int, ChunkView] = {}
        self._offsets = np.cumsum([0, *(chunk.panes.size for chunk in chunks)]).tolist()
        self._size = size
        self._reached = 0
        self.state: list[State] = []

    def begin(self, high: int) -> None:
        """Start anew below pane index `high`."""
        self.state = [strand.identity(self._size) for strand in self.strands]
        self._reached = high

    def extend(self, low: int) -> None:
        """Extend the merged range down to pane index `low`."""
        at = bisect_left(self._offsets, self._reached) - 1
        while self._reached > low:
            base = self._offsets[at]
            first = max(low, base)
            if at not in self._views:
                self._views[at] = self._chunks[at].view(self.strands)
            self._views[at].merge_into(self.state, first - base, self._reached - base)
            self._reached = first
            at -= 1


class _Output:
    """The answers of one lookup as they are taken: a row per window over all groups but nobody; then masked."""

    def __init__(self, lookup: Lookup, same: Mapping[Accumulator, Accumulator], strands: Sequence[Strand], size: int):
        self._lookup = lookup
        self._same = same
        read = {same[a] for a in (lookup.presence, *lookup.reads)}
        self._states: States = {}
        self._parts: list[tuple[int, slice | list[int], State]] = []
        for at, strand in enumerate(strands):
            members = [i for i, a in enumerate(strand.members) if a in read]
            if not members:
                continue
            shape = (len(members), lookup.ends.size, size - 1)
            rows = tuple(np.empty(shape, dtype) for dtype in strand.fold.dtypes)
            self._states |= {strand.members[i]: tuple(c[j] for c in rows) for j, i in enumerate(members)}
            whole = len(members) == len(strand.members)
            self._parts.append((at, slice(None) if whole else members, rows))

    def take(self, window: int, state: Sequence[State]) -> None:
        for at, members, rows in self._parts:
            for row, column in zip(rows, state[at], strict=True):
                row[:, window] = column[members, 1:]

    def rows(self) -> Looked:
        lookup = self._lookup
        count = self._states[self._same[lookup.presence]][0]
        windows, groups = count.shape
        if lookup.always or count.all():
            window, group = np.repeat(np.arange(windows), groups), np.tile(np.arange(1, groups + 1), windows)
            states = {a: tuple(c.reshape(-1) for c in state) for a, state in self._states.items()}
        else:
            at = np.flatnonzero(count)
            window, group = np.divmod(at, groups)
            group += 1
            states = {a: tuple(c.reshape(-1)[at] for c in state) for a, state in self._states.items()}
        return Looked(lookup.query, windows, window, group, {a: states[self._same[a]] for a in self._wanted})

    @property
    def _wanted(self) -> Iterable[Accumulator]:
        return dict.fromkeys((self._lookup.presence, *self._lookup.reads))
