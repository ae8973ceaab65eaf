"""L-INT, the landmark synopsis: O(1) lookups for any fold (Arasu and Widom, VLDB 2004, section 3.1.2, Figure 5).

For windows of widths W_min … W_max ≤ c·W_min every multiple of W_min is a landmark, and each window contains one. So a
window is the union of an interval that ends at its first landmark and one that begins there (Theorem 3.3). For each
cell x in block b = ⌊x / W_min⌋ it keeps:

    left[x]     = f[x, (b + 1)·W_min)           once the block is complete, by one scan from its end
    right[r][x] = f[(b − r)·W_min, x + 1)       r = 0 … ⌈W_max / W_min⌉ − 1

    f[low, high) = merge(left[low], right[r][high − 1])         r = ⌊(high − 1) / W_min⌋ − ⌈low / W_min⌉

Windows of other widths use other partitions, γ in all: O(γ) an update. A partition keeps only the cells that its own
windows reach. If all are (nearly) suffix windows, the spans shrink with the widths, and the space is O(N_max).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from windrow.synopses.cells.arrays import Longs, Mask
from windrow.synopses.cells.folds import Fold, State
from windrow.synopses.cells.groups import Ids
from windrow.synopses.index.scans import running_merges
from windrow.synopses.index.sequence import TupleWindow, check_active, checked


@dataclass(frozen=True)
class Partition:
    """Windows with widths within a constant factor; `span` is how far back they reach."""

    narrowest: int
    widest: int
    span: int

    def __post_init__(self) -> None:
        if not 1 <= self.narrowest <= self.widest <= self.span:
            raise ValueError(f"1 ≤ narrowest ≤ widest ≤ span does not hold for {self}")

    @property
    def rights(self) -> int:
        """The number of landmarks at which the right part of a window may begin."""
        return -(-self.widest // self.narrowest)

    @property
    def places(self) -> int:
        """The number of cells kept, in whole blocks."""
        return (-(-self.span // self.narrowest) + 2) * self.narrowest

    def serves(self, low: Longs, high: Longs, length: int) -> Mask:
        """Which intervals are within reach and contain a landmark; the start of the stream is one."""
        width = high - low
        wide = (width >= self.narrowest) | (low == 0)
        return np.asarray(wide & (width <= self.widest) & (low >= length - self.span))

    def serves_one(self, low: int, high: int, length: int) -> bool:
        wide = high - low >= self.narrowest or low == 0
        return wide and high - low <= self.widest and low >= length - self.span


def partitions_of(windows: Iterable[TupleWindow], ratio: float = 2.0) -> tuple[Partition, ...]:
    """The fewest partitions such that in each the widest window is at most `ratio` times the narrowest."""
    if ratio < 1:
        raise ValueError(f"widths differ by a factor of at least 1, not {ratio}")
    groups: list[list[TupleWindow]] = []
    for window in sorted(set(windows), key=lambda w: w.width):
        if not groups or window.width > ratio * groups[-1][0].width:
            groups.append([])
        groups[-1].append(window)
    return tuple(Partition(g[0].width, g[-1].width, max(w.left for w in g)) for g in groups)


class LandmarkSynopsis:
    """The landmark intervals for partitions of windows. `shape` is the shape of a cell."""

    kind = "landmark"

    def __init__(self, fold: Fold, partitions: tuple[Partition, ...], shape: tuple[int, ...] = ()):
        self.partitions = partitions
        if not self.partitions:
            raise ValueError("a landmark synopsis needs at least one partition")
        self.span = max(p.span for p in self.partitions)
        self.length = 0
        self._fold, self._shape = fold, shape
        self._parts = [_Landmarks(self._fold, p, shape) for p in self.partitions]

    @property
    def first(self) -> int:
        return max(self.length - self.span, 0)

    @property
    def size(self) -> int:
        return sum(part.size for part in self._parts)

    def update(self, cells: State) -> None:
        """Append cells: columns of the fold, one row per cell."""
        self.length += len(cells[0])
        for part in self._parts:
            part.update(cells)

    def serves(self, lows: Ids, highs: Ids) -> bool:
        """Whether all these intervals can be looked up."""
        served = np.asarray(lows >= highs)
        for partition in self.partitions:
            served |= partition.serves(lows, highs, self.length)
        return bool(served.all())

    def lookup(self, lows: Ids, highs: Ids) -> State:
        """The states of intervals; each is as wide as a window of some partition, or starts with the stream."""
        empty = lows >= highs
        here = checked(np.where(empty, self.length, lows), np.where(empty, self.length, highs), self.first, self.length)
        low, high = here
        out = self._fold.identity((low.size, *self._shape))
        rest = np.flatnonzero(low < high)
        for part in self._parts:
            served = part.partition.serves(low[rest], high[rest], self.length)
            at = rest[served]
            if at.size:
                for target, column in zip(out, part.lookup(low[at], high[at]), strict=True):
                    target[at] = column
            rest = rest[~served]
        if rest.size:
            raise ValueError(f"no window of this synopsis gives [{low[rest[0]]}, {high[rest[0]]})")
        return out

    def lookup_one(self, low: int, high: int) -> State:
        if low >= high:
            return tuple(column[0, ...] for column in self._fold.identity((1, *self._shape)))
        check_active(low, high, self.first, self.length)
        for part in self._parts:
            if part.partition.serves_one(low, high, self.length):
                return part.lookup_one(low, high)
        raise ValueError(f"no window of this synopsis gives [{low}, {high})")


class _Landmarks:
    """The rings of one partition, in whole blocks; one more slot has the identity."""

    def __init__(self, fold: Fold, partition: Partition, shape: tuple[int, ...]):
        self._fold, self.partition, self._shape = fold, partition, shape
        self._block = partition.narrowest
        self._slots = partition.places
        self._left = fold.identity((self._slots + 1, *shape))
        self._rights = [fold.identity((self._slots + 1, *shape)) for _ in range(partition.rights)]
        self._length = 0

    @property
    def size(self) -> int:
        return sum(column.size for state in (self._left, *self._rights) for column in state)

    def update(self, cells: State) -> None:
        count, most = len(cells[0]), self._slots - self._block
        for start in range(0, count, most):
            self._append(tuple(column[start : start + most] for column in cells))

    def _append(self, cells: State) -> None:
        """Append so few cells that the current block stays in the ring."""
        low, high = self._length, self._length + len(cells[0])
        self._length = high
        at = np.arange(low, high) % self._slots
        for left, column in zip(self._left, cells, strict=True):
            left[at] = column
        self._grow_rights(low, high, cells, at)
        self._scan_lefts(low // self._block, high // self._block)

    def _grow_rights(self, low: int, high: int, cells: State, at: Longs) -> None:
        """Extend right[0] cell by cell within each block; right[r] adds the r blocks before."""
        whole = min(-(-low // self._block) * self._block, high), max(high // self._block * self._block, low)
        for start, end in _spans(low, whole, high):
            head = tuple(column[start - low : end - low] for column in cells)
            for target, column in zip(self._rights[0], self._scanned(start, head), strict=True):
                target[at[start - low : end - low]] = column
        begins = np.arange(low, high) // self._block * self._block
        before = np.where(begins > 0, (begins - 1) % self._slots, self._slots)
        for nearer, right in zip(self._rights, self._rights[1:], strict=False):
            merged = [column[before] for column in nearer]
            self._fold.merge_into(merged, [column[at] for column in self._rights[0]])
            for target, column in zip(right, merged, strict=True):
                target[at] = column

    def _scanned(self, start: int, cells: State) -> State:
        """Running merges within blocks, of a part of one block or of whole blocks."""
        count = len(cells[0])
        if start % self._block:
            before = (start - 1) % self._slots
            first = tuple(c[before : before + 1] for c in self._rights[0])
            joined = tuple(np.concatenate(pair) for pair in zip(first, cells, strict=True))
            return tuple(column[1:] for column in running_merges(self._fold, joined))
        if count <= self._block:
            return running_merges(self._fold, cells)
        return _flat(running_merges(self._fold, _blocks(cells, self._block)))

    def _scan_lefts(self, low: int, high: int) -> None:
        """Replace each cell of the complete blocks [low, high) by the merge from it to the end of its block."""
        if low == high:
            return
        begins = np.arange(low, high)[:, None] * self._block % self._slots
        at = (begins + np.arange(self._block)[::-1]).ravel()
        scanned = running_merges(self._fold, _blocks(tuple(column[at] for column in self._left), self._block))
        for left, column in zip(self._left, _flat(scanned), strict=True):
            left[at] = column

    def lookup_one(self, low: int, high: int) -> State:
        landmark = -(-low // self._block)
        at = low % self._slots if low < landmark * self._block else self._slots
        out = tuple(column[at : at + 1].copy() for column in self._left)
        blocks, slot = (high - 1) // self._block - landmark, (high - 1) % self._slots
        self._fold.merge_into(out, [column[slot : slot + 1] for column in self._rights[blocks]])
        return tuple(column[0, ...] for column in out)

    def lookup(self, low: Longs, high: Longs) -> State:
        landmark = -(-low // self._block)
        out = self._fold.identity((low.size, *self._shape))
        at = np.where(low < landmark * self._block, low % self._slots, self._slots)
        for target, left in zip(out, self._left, strict=True):
            target[...] = left[at]
        blocks = (high - 1) // self._block - landmark
        for r, right in enumerate(self._rights):
            at = np.flatnonzero(blocks == r)
            if at.size:
                merged = [column[at] for column in out]
                slots = (high[at] - 1) % self._slots
                self._fold.merge_into(merged, [column[slots] for column in right])
                for target, column in zip(out, merged, strict=True):
                    target[at] = column
        return out


def _spans(low: int, whole: tuple[int, int], high: int) -> list[tuple[int, int]]:
    """[low, high) as the rest of a block, whole blocks, and the start of a block, without empty ones."""
    first, last = whole
    if first > last:
        return [(low, high)]
    return [(a, b) for a, b in ((low, first), (first, last), (last, high)) if a < b]


def _blocks(cells: State, block: int) -> State:
    """Whole blocks as (place in the block × block)."""
    return tuple(np.swapaxes(c.reshape(-1, block, *c.shape[1:]), 0, 1) for c in cells)


def _flat(blocks: State) -> State:
    """The inverse of `_blocks`."""
    return tuple(np.swapaxes(c, 0, 1).reshape(-1, *c.shape[2:]) for c in blocks)
