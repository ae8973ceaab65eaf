"""The synopsis of a partitioned tuple-based window, in its driver home (003_7281f3198fa2d2a0.txt, 3.3 and 4).

Cells lie on ranks: pane and group, where the first keys of a group name its partition. The backward context is a
count per partition; it is kept by the cells themselves (each knows its greatest rank, and a partition's newest
cell never leaves), so what is durable is the cells and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windrow.plan.accumulators import Accumulator
from windrow.synopses.answering.intervals import FlatIntervals
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.groups import Groups, Ids
from windrow.synopses.cells.merging import concatenate, fold_cells
from windrow.synopses.cells.sketches import held_bytes
from windrow.synopses.lookups import Looked
from windrow.windows import PartitionedWindow, Points, ranges


class Ranks:
    """The backward context of a partitioned window: how many tuples of each partition have come."""

    def __init__(self, partitions: Groups):
        self.partitions = partitions
        self.counts = np.zeros(1, np.int64)

    def number(self, keys: Sequence[pa.Array], rows: Points) -> Points:
        """The rank of each row in its partition, rows being in the order of their numbers; counts are not moved."""
        ids = self.partitions.ids(keys, np.zeros(rows.size, bool))
        self._grow()
        order = np.lexsort((rows, ids))
        sorted_ids = ids[order]
        begins = np.flatnonzero(np.concatenate(([True], sorted_ids[1:] != sorted_ids[:-1])))
        within = np.arange(ids.size) - np.repeat(begins, np.diff(np.append(begins, ids.size)))
        out = np.empty(ids.size, np.int64)
        out[order] = within + 1 + self.counts[sorted_ids]
        return out

    @property
    def nbytes(self) -> int:
        """What `known` comes to, at most."""
        return self.partitions.nbytes + self.partitions.count * self.counts.itemsize

    def known(self) -> pa.Table:
        """The partitions that tuples have come of: their values as `p0…`, and the `count`."""
        ids = np.flatnonzero(self.counts)
        keys = [
            k.dictionary_decode() if pa.types.is_dictionary(k.type) else k for k in self.partitions.key_columns(ids)
        ]
        return pa.table({**{f"p{i}": key for i, key in enumerate(keys)}, "count": self.counts[ids]})

    def _grow(self) -> None:
        missing = self.partitions.count - self.counts.size
        if missing > 0:
            self.counts = np.concatenate([self.counts, np.zeros(missing, np.int64)])

    def raise_to(self, ids: Ids, ranks: Points) -> None:
        """Tuples of these ranks have come."""
        self._grow()
        np.maximum.at(self.counts, ids, ranks)


class PartitionedSynopsis:
    """Cells of one partitioned query: answered as counts grow."""

    kind = "partitioned"

    def __init__(self, key_types: Sequence[pa.DataType], partition: int, window: PartitionedWindow, rank: Accumulator):
        self.groups = Groups(key_types)
        self.ranks = Ranks(Groups(key_types[:partition]))
        self._width = partition
        self._window = window
        self._rank = rank
        self._cells: list[Cells] = []
        self._answered = np.zeros(1, np.int64)

    @property
    def nbytes(self) -> int:
        return sum(held_bytes(column) for cells in self._cells for state in cells.states.values() for column in state)

    def _partition_of(self) -> Ids:
        """The partition of each group; group 0 is nobody, of partition 0."""
        keys = self.groups.key_columns(np.arange(1, self.groups.count))[: self._width]
        plain = [key.cast(key.type.value_type) if pa.types.is_dictionary(key.type) else key for key in keys]
        found = self.ranks.partitions.ids(plain) if self.groups.count > 1 else np.empty(0, np.int64)
        return np.concatenate([np.zeros(1, np.int64), found])

    def deposit(self, cells: Cells) -> None:
        if len(cells):
            self._cells.append(cells)
            self.ranks.raise_to(self._partition_of()[cells.groups], cells.states[self._rank][0])

    def mark_answered(self) -> None:
        """Everything deposited so far has been answered."""
        self._answered = self.ranks.counts.copy()

    def due(self, ended: bool) -> tuple[Ids, Points]:
        """(partition, window index) of the windows that are complete; at the end of the input, of all that hold a
        tuple. Windows of a partition ascend."""
        before = np.zeros_like(self.ranks.counts)
        before[: self._answered.size] = self._answered
        which, wids = self._window.due(before, self.ranks.counts)
        if ended:
            rest, more = self._window.rest(self.ranks.counts)
            held = self.ranks.counts[rest] > 0
            which, wids = np.concatenate([which, rest[held]]), np.concatenate([wids, more[held]])
            order = np.lexsort((wids, which))
            which, wids = which[order], wids[order]
        keep = self.ranks.counts[which] > 0
        return which[keep], wids[keep]

    def answer(
        self,
        query: str,
        which: Ids,
        extents: tuple[Points, Points],
        presence: Accumulator,
        reads: Sequence[Accumulator],
    ) -> Looked:
        """The rows of these windows, in their order: one for each group of the partition with a qualifying tuple."""
        partition_of = self._partition_of()
        order = np.argsort(partition_of[1:], kind="stable") + 1
        first = np.searchsorted(partition_of[order], which, side="left")
        last = np.searchsorted(partition_of[order], which, side="right") - 1
        window, at = ranges(first, last)
        groups = order[at]
        starts, ends = extents
        flat = FlatIntervals(concatenate(self._cells))
        needed = list(dict.fromkeys((presence, *reads)))
        states = flat.answer(groups, starts[window], ends[window], needed)
        held = np.flatnonzero(states[presence][0])
        states = {a: tuple(column[held] for column in state) for a, state in states.items()}
        return Looked(query, int(which.size), window[held], groups[held], states)

    def expire(self) -> None:
        """Drop the cells that no window to come can hold; of each partition the newest stays."""
        self.mark_answered()
        if self._cells:
            kept = self.kept(fold_cells(self._cells, None))
            self._cells = [kept]

    def kept(self, cells: Cells) -> Cells:
        """Those of the cells that a later window, or the count of their partition, needs."""
        partition = self._partition_of()[cells.groups]
        window = self._window.of_ranks
        following = (self.ranks.counts + 1 - window.origin) // window.slide
        needed = window.origin - window.offset + (following + 1) * window.slide - window.range
        newest = cells.states[self._rank][0] == self.ranks.counts[partition]
        return cells.where((cells.panes >= needed[partition]) | newest)
