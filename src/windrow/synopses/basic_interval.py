"""The basic interval synopsis over panes, in its driver home (001_3bbbc8a20ffc7252.txt, 2.3.4 and rule CS2).

It keeps one cell per pane and group and nothing else. All due queries are answered in one pass per tick
from the youngest pane to the oldest: each answer is taken along the way, when the pass has reached that
query's window start. So the cost of a tick is the longest window, whatever the number of queries.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses.chunks import PANES_PER_CHUNK, Cells, Chunk, ChunkView, States, Strand, build_chunks, strands_of
from windrow.synopses.folds import State
from windrow.synopses.groups import Groups, Ids
from windrow.synopses.merging import concatenate, fold_cells
from windrow.windows import Points

FEW_GROUPS = 1024
"""Below this many groups nothing is gained by renumbering them."""


@dataclass(frozen=True)
class Lookup:
    """The windows [start, end) that one query is due to answer, ends ascending, and what it reads.

    `presence` counts the query's qualifying tuples: a group has a row where it is positive. An
    ungrouped query (`always`) has a row for every window.
    """

    query: str
    starts: Points
    ends: Points
    presence: Accumulator
    reads: tuple[Accumulator, ...]
    always: bool


@dataclass(frozen=True)
class Looked:
    """The rows of one query, in window order: window index, group, and states."""

    query: str
    windows: int
    window: Ids
    groups: Ids
    states: States


MOST_PENDING = 16
"""Deposits into open panes that are held apart before they are folded."""


class BasicIntervalSynopsis:
    """Cells of closed panes in chunks; cells of open panes pending until a tick closes them."""

    kind = "basic interval"

    def __init__(self, key_types: Sequence[pa.DataType]):
        self.groups = Groups(key_types)
        self._pending: list[Cells] = []
        self._chunks: list[Chunk] = []
        self._ungrouped = not key_types

    @property
    def nbytes(self) -> int:
        pending = sum(c.nbytes for cells in self._pending for s in cells.states.values() for c in s)
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
        size = max(self.groups.count, 2)
        ends = np.concatenate([lookup.ends for lookup in lookups])
        starts = np.concatenate([lookup.starts for lookup in lookups])
        owner = np.repeat(np.arange(len(lookups)), [lookup.ends.size for lookup in lookups]).tolist()
        index = np.concatenate([np.arange(lookup.ends.size) for lookup in lookups]).tolist()
        panes = self.closed_panes
        lows, highs = np.searchsorted(panes, starts).tolist(), np.searchsorted(panes, ends).tolist()
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
        for cells in self._pending:
            alive[cells.groups] = True
        if 2 * int(alive.sum()) > self.groups.count:
            return
        new_ids = self.groups.compact(np.flatnonzero(alive))
        for chunk in self._chunks:
            chunk.renumber(new_ids)
        self._pending = [Cells(c.panes, new_ids[c.groups], c.states) for c in self._pending]


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
