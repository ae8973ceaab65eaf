"""The basic interval synopsis over panes, in the driver (Golab's dissertation, section 2.3.4).

It keeps one cell per pane and group. `answering/closed_panes.py` answers windows from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from windrow.optimizer.sharing.synopsis_plans import SynopsisPlan
from windrow.plan.accumulators import Accumulator
from windrow.synopses.answering.closed_panes import ClosedPanes
from windrow.synopses.answering.deriving import kept_lookups, with_derived
from windrow.synopses.cells.arrays import Mask
from windrow.synopses.cells.chunks import Cells, Chunk, build_chunks, panes_per_chunk
from windrow.synopses.cells.groups import Groups
from windrow.synopses.cells.merging import collapsed_panes, concatenate, fold_cells
from windrow.synopses.cells.releasing import released
from windrow.synopses.cells.sketches import held_bytes
from windrow.synopses.cells.value_codes import cell_groups_of
from windrow.synopses.lookups import Lookup, LookupAnswer, merged
from windrow.synopses.synopsis import OneTimeQuery, Synopsis
from windrow.windows import Points

FEW_GROUPS = 1024
"""Renumbering gains nothing below this many groups."""

YOUNG_CHUNKS = 64
"""The youngest chunks keep full width: most windows read only these."""

MOST_PENDING = 16
"""Deposits into open panes that are kept before some are folded."""


class BasicIntervalSynopsis(ClosedPanes, Synopsis):
    """Cells of closed panes in chunks; cells of open panes wait until a tick closes them."""

    kind = "basic interval"

    def __init__(self, key_types: Sequence[pa.DataType]):
        super().__init__(Groups(key_types))
        self._pending: list[Cells] = []
        self._late: list[Cells] = []
        self._late_alone: BasicIntervalSynopsis | None = None
        self._ungrouped = not key_types

    @property
    def nbytes(self) -> int:
        held = (*self._pending, *self._late)
        pending = sum(held_bytes(c) for cells in held for s in cells.states.values() for c in s)
        return pending + sum(chunk.nbytes for chunk in self._chunks)

    @property
    def index_bytes(self) -> int:
        return self.indexer.nbytes

    @property
    def readable(self) -> ClosedPanes:
        return self

    def slots(self, reduced: bool = False, keys: int | None = None) -> int:
        return self.groups.count if keys is None else cell_groups_of(self.groups, keys).count

    def parts(self) -> Iterator[Cells]:
        for chunk in self._chunks:
            yield chunk.cells()
        yield from self._pending

    @property
    def last_pane(self) -> int | None:
        held = [int(cells.panes.max()) for cells in (*self._pending, *self._late)]
        held += [int(chunk.panes[-1]) for chunk in self._chunks[-1:]]
        return max(held, default=None)

    def deposit(self, cells: Cells) -> None:
        if len(cells):
            self._pending.append(cells)
            self._fold_pending()

    def _fold_pending(self) -> None:
        """Bound the number of deposits: a pane that stays open for a day must not grow with every micro-batch.

        Folds only the newest deposits, back to the first that is larger than all after it. So each cell is folded a
        logarithmic number of times.
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
        """A synopsis of the cells held apart, with the same groups."""
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
        """A chunk of closed panes is rebuilt only if that drops at least half of its cells."""
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
        """Rebuilds the chunks into whose panes the cells fall."""
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
            falls_in = into == at
            merged += build_chunks(concatenate([chunk.cells(), cells.where(falls_in)])) if falls_in.any() else [chunk]
        self._chunks = merged

    def close(self, upto: int) -> Points:
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
        """The cells that are kept of panes as they close. FREQUENT_ITEMS overrides it."""
        return cells

    def _coalesce(self) -> None:
        """Join the youngest chunks, as a binary counter carries: a tick may close one pane, and a pass costs per chunk.

        A chunk expires as a whole, so none gets more than an eighth of the panes.
        """
        eighth = sum(chunk.panes.size for chunk in self._chunks) // 8
        while len(self._chunks) > 1:
            older, younger = self._chunks[-2:]
            most = min(eighth, panes_per_chunk(max(older.groups.size, younger.groups.size)))
            if older.panes.size > younger.panes.size or older.panes.size + younger.panes.size > most:
                return
            self._chunks[-2:] = build_chunks(concatenate([older.cells(), younger.cells()]))

    def ask(
        self, lookups: Sequence[Lookup], plan: SynopsisPlan, once: OneTimeQuery | None = None
    ) -> Iterator[LookupAnswer]:
        derived = plan.derived if once is None else {"": once.derived} if once.derived else {}
        if not derived:
            return self.answer(lookups)
        return with_derived(self.answer(kept_lookups(lookups, derived)), lookups, derived)

    def revise(
        self, lookups: Sequence[Lookup], there: Sequence[tuple[Mask, Mask]], plan: SynopsisPlan
    ) -> Iterator[tuple[LookupAnswer, LookupAnswer]]:
        late = self.late_alone()
        for lookup in lookups:
            was = next(self.ask([lookup], plan))
            yield was, merged(was, next(late.ask([lookup], plan)))

    def totals(self, count: Accumulator, panes: Points, late: bool = False) -> Points:
        return self.late_alone().totals(count, panes) if late else super().totals(count, panes)

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
        """Drops whole chunks; renumbers the groups when most of them have gone."""
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
