"""B-INT, the interval synopsis (Arasu and Widom, VLDB 2004, section 3.1.1, Figure 3).

It keeps the base intervals (`base_intervals.py`) of the last `span` cells: each level in a ring, all rings in one heap
of 2·C slots (C is the least power of two above the span). Slot 0 has the identity.

    UPDATE    a new cell completes the base intervals that end with it, each from its two halves: O(1), amortised
    LOOKUP    [low, high) is the disjoint union of at most two base intervals per level, all inside it: O(log W)

It never subtracts, so any fold works: MIN, MAX, sums of doubles, moments. `answering/tree.py` builds the same tree
once over the cells of many sparse groups; this one moves with the stream.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from windrow.synopses.cells.arrays import Longs
from windrow.synopses.cells.folds import Fold, State, UfuncFold
from windrow.synopses.cells.groups import Ids
from windrow.synopses.index.base_intervals import base_intervals, heap_slots_of
from windrow.synopses.index.sequence import check_active, check_span, checked, power_of_two

AT_ONCE = 1 << 12
"""Values looked up together; so few stay in the processor's cache."""

CLIMB = 16
"""Cells that a walk merges in the time of one tree lookup (measured: 3 ns a cell, 60 ns a lookup)."""

MOST_WALKED = 1 << 20
"""The most values that a walk may hold."""


class IntervalSynopsis:
    """Base intervals of one fold. `shape` is the shape of a cell: () for one value, (groups,) for all groups."""

    kind = "interval"

    def __init__(self, fold: Fold, span: int, shape: tuple[int, ...] = ()):
        self.span = check_span(span)
        self.length = 0
        self._fold, self._shape = fold, shape
        self._slots = power_of_two(span + 1)
        self._tree = fold.identity((2 * self._slots, *shape))

    @property
    def first(self) -> int:
        return max(self.length - self.span, 0)

    @property
    def size(self) -> int:
        return sum(column.size for column in self._tree)

    def update(self, cells: State) -> None:
        """Append cells: columns of the fold, one row per cell."""
        count = len(cells[0])
        kept = min(count, self._slots)
        start, self.length = self.length + count - kept, self.length + count
        if kept < count:
            cells = tuple(column[count - kept :] for column in cells)
        done = 0
        for slot, size in _pieces(start, self.length, self._slots):
            for tree, column in zip(self._tree, cells, strict=True):
                tree[slot : slot + size] = column[done : done + size]
            done += size
        self._complete(start, self.length)

    def _complete(self, low: int, high: int) -> None:
        """Compute the base intervals that end in cells [low, high), level by level from halves (Figure 3, step 5).

        If cells were skipped, some are meaningless; these reach beyond the active cells and are never read.
        """
        slots = self._slots >> 1
        low, high = low >> 1, high >> 1
        while low < high and slots > 1:
            for slot, size in _pieces(low, high, slots):
                end = slot + size
                merged = [tree[slot:end] for tree in self._tree]
                for target, tree in zip(merged, self._tree, strict=True):
                    target[...] = tree[2 * slot : 2 * end : 2]
                self._fold.merge_into(merged, [tree[2 * slot + 1 : 2 * end : 2] for tree in self._tree])
            low, high, slots = low >> 1, high >> 1, slots >> 1

    def lookup(self, lows: Ids, highs: Ids) -> State:
        low, high = checked(lows, highs, self.first, self.length)
        if self._walks(low, high):
            return self._suffixes(low, int(high[0]))
        sides = self._fold.identity((2, low.size, *self._shape))
        step = max(1, AT_ONCE // max(1, int(np.prod(self._shape))))
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, low.size, step):
                some = slice(start, start + step)
                into = tuple(column[:, some] for column in sides)
                for at in heap_slots_of(low[some], high[some], self._slots):
                    self._fold.merge_into(into, [tree.take(at, axis=0) for tree in self._tree])
            out = tuple(column[0] for column in sides)
            self._fold.merge_into(out, [column[1] for column in sides])
        return out

    def _walks(self, low: Longs, high: Longs) -> bool:
        """Whether one walk over the cells costs less than many lookups: all windows end together."""
        if not isinstance(self._fold, UfuncFold) or any(dtype.kind != "i" for dtype in self._fold.dtypes):
            return False
        if not low.size or not (high == high[0]).all():
            return False
        cells = int(high[0] - low.min())
        return cells <= low.size * CLIMB and (cells + 1) * int(np.prod(self._shape)) <= MOST_WALKED

    def _suffixes(self, low: Longs, high: int) -> State:
        """The states of windows that end together, in one walk from the youngest cell to the oldest (rule CS2,
        Golab's dissertation, section 8.3.1)."""
        assert isinstance(self._fold, UfuncFold)
        fold, size = self._fold.ufunc, high - low
        cells = (np.arange(high - 1, high - 1 - int(size.max()), -1) & (self._slots - 1)) | self._slots
        merged = self._fold.identity((cells.size + 1, *self._shape))
        for target, tree in zip(merged, self._tree, strict=True):
            fold.accumulate(tree.take(cells, axis=0), axis=0, out=target[1:])
        return tuple(column.take(size, axis=0) for column in merged)

    def lookup_one(self, low: int, high: int) -> State:
        check_active(low, high, self.first, self.length)
        if low == high:
            return self._fold.identity(self._shape)
        at = list(base_intervals(low, high, self._slots))
        merged = self._fold.reduce([tree[at] for tree in self._tree])
        # Without the dtype NumPy would make a fixed-width string, which loses trailing NULs.
        return tuple(np.asarray(value, dtype) for value, dtype in zip(merged, self._fold.dtypes, strict=True))


def _pieces(low: int, high: int, slots: int) -> Iterator[tuple[int, int]]:
    """The heap slots of nodes [low, high) of a level with `slots` slots: (first slot, size) of each run, in order."""
    while low < high:
        at = low & (slots - 1)
        size = min(high - low, slots - at)
        yield slots + at, size
        low += size
