"""The synopsis of a partitioned tuple-based window, in the driver (Li et al., SIGMOD 2005, section 3.3).

The panes are ranges of ranks, and the first keys of a group are its partition. The backward context is a count per
partition. It follows from the cells: each has its greatest rank, and the newest cell of a partition is never dropped.
So only the cells are durable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from windrow.optimizer.sharing.synopsis_plans import SynopsisPlan
from windrow.plan.accumulators import Accumulator
from windrow.synopses.answering.tree import FlatIntervals
from windrow.synopses.cells.arrays import Mask
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.groups import Groups, Ids
from windrow.synopses.cells.merging import concatenate, fold_cells
from windrow.synopses.cells.ranks import Ranks
from windrow.synopses.cells.sketches import held_bytes
from windrow.synopses.lookups import Lookup, LookupAnswer
from windrow.synopses.synopsis import Ability, DueRequest, OneTimeQuery, Synopsis
from windrow.windows import Extents, PartitionedWindow, Points, ranges

SLOTS_AT_ONCE = 4_000_000
"""The most (window, group) slots looked up at once, to bound memory."""


class PartitionedSynopsis(Synopsis):
    """Cells of one partitioned query. Windows are due as counts grow; the span of a block is its row numbers."""

    kind = "partitioned"
    _cannot: ClassVar = dict.fromkeys(Ability, "its windows count the rows of each partition")

    def __init__(self, key_types: Sequence[pa.DataType], partition: int, window: PartitionedWindow, rank: Accumulator):
        self.groups = Groups(key_types)
        self._ranks = Ranks(Groups(key_types[:partition]))
        self._width = partition
        self._window = window
        self._rank = rank
        self._cells: list[Cells] = []
        self._answered = np.zeros(1, np.int64)

    @property
    def nbytes(self) -> int:
        return sum(held_bytes(column) for cells in self._cells for state in cells.states.values() for column in state)

    @property
    def ranks(self) -> Ranks:
        return self._ranks

    @property
    def content(self) -> str:
        return f"{self.ranks.partitions.count - 1} partitions"

    def slots(self, reduced: bool = False, keys: int | None = None) -> int:
        """The average number of groups in a partition: a window has no others."""
        return self.groups.count // max(1, self.ranks.counts.size - 1)

    def _partition_of(self) -> Ids:
        """The partition of each group; 0 for nobody."""
        keys = self.groups.key_columns(np.arange(1, self.groups.count))[: self._width]
        plain = [key.cast(key.type.value_type) if pa.types.is_dictionary(key.type) else key for key in keys]
        found = self.ranks.partitions.ids(plain) if self.groups.count > 1 else np.empty(0, np.int64)
        return np.concatenate([np.zeros(1, np.int64), found])

    def deposit(self, cells: Cells) -> None:
        if len(cells):
            self._cells.append(cells)
            self.ranks.raise_to(self._partition_of()[cells.groups], cells.states[self._rank][0])

    merge = deposit
    hold_late = deposit

    def is_late(self, cells: Cells, closed: int) -> Mask:
        """None: new ranks follow all earlier ones."""
        return np.zeros(len(cells), bool)

    def span(self, cells: Cells, rows: tuple[int, int]) -> tuple[int, int]:
        return rows

    def may_fold(self, last: int | None, ticked: int | None) -> bool:
        """Only if answered: `restore` tells answered cells from others by their block."""
        return last is not None and last < (0 if ticked is None else ticked)

    def restore(self, cells: Cells, answered: bool) -> None:
        self.deposit(cells)
        if answered and len(cells):
            before = self._answered_so_far()
            np.maximum.at(before, self._partition_of()[cells.groups], cells.states[self._rank][0])
            self._answered = before

    def _answered_so_far(self) -> Points:
        """The last answered rank of each partition."""
        before = np.zeros_like(self.ranks.counts)
        before[: self._answered.size] = self._answered
        return before

    def due(self, asked: DueRequest) -> Extents:
        """The complete windows; at the end of the input, all that hold a tuple.

        All have the tick `frontier`: partitions are answered at the end of a batch of ticks.
        """
        counts = self.ranks.counts
        which, wids = self._window.completed(self._answered_so_far(), counts)
        if asked.ended:
            rest, more = self._window.rest(counts)
            which, wids = np.concatenate([which, rest]), np.concatenate([wids, more])
        keep = counts[which] > 0
        which, wids = which[keep], wids[keep]
        order = np.lexsort((which, wids))
        extents = self._window.of_ranks.extents(wids[order])
        return replace(extents, ticks=np.full(order.size, asked.frontier, np.int64), partitions=which[order])

    def ask(
        self, lookups: Sequence[Lookup], plan: SynopsisPlan, once: OneTimeQuery | None = None
    ) -> Iterator[LookupAnswer]:
        step = max(1, SLOTS_AT_ONCE // max(1, self.slots()))
        for lookup in lookups:
            assert lookup.partitions is not None
            for first in range(0, lookup.ends.size, step):
                some = slice(first, first + step)
                yield self._answer(lookup, lookup.partitions[some], lookup.starts[some], lookup.ends[some])

    def _answer(self, lookup: Lookup, which: Ids, starts: Points, ends: Points) -> LookupAnswer:
        """The rows of these windows, in their order: one per group of the partition with a qualifying tuple."""
        partition_of = self._partition_of()
        order = np.argsort(partition_of[1:], kind="stable") + 1
        first = np.searchsorted(partition_of[order], which, side="left")
        last = np.searchsorted(partition_of[order], which, side="right") - 1
        window, at = ranges(first, last)
        groups = order[at]
        flat = FlatIntervals(concatenate(self._cells))
        needed = list(dict.fromkeys((lookup.presence, *lookup.reads)))
        states = flat.answer(groups, starts[window], ends[window], needed)
        held = np.flatnonzero(states[lookup.presence][0])
        states = {a: tuple(column[held] for column in state) for a, state in states.items()}
        return LookupAnswer(lookup.query, int(which.size), window[held], groups[held], states)

    def answered(self) -> None:
        """Also drops the cells that no later window needs."""
        self._answered = self.ranks.counts.copy()
        if self._cells:
            kept = self.kept(fold_cells(self._cells, None))
            self._cells = [kept]

    def kept(self, cells: Cells) -> Cells:
        """The cells that a later window needs, and the newest of each partition, which has its count."""
        partition = self._partition_of()[cells.groups]
        window = self._window.of_ranks
        following = (self.ranks.counts + 1 - window.origin) // window.slide
        needed = window.origin - window.offset + (following + 1) * window.slide - window.range
        newest = cells.states[self._rank][0] == self.ranks.counts[partition]
        return cells.where((cells.panes >= needed[partition]) | newest)
