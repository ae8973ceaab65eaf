"""CI-COUNT and CI-SUM find the substreams that have more than v without reading each of them.

Arasu and Widom, VLDB 2004, section 4. COUNT(S_k[T, 0]) > v holds if the (v + 1)-th element of S_k from the end is newer
than τ − T. Stamps are kept at some distances from the end only. Consecutive distances form levels, p of each size 1, 2,
4, … (section 4.1.2):

    level (g, i), 0 ≤ i < p, has the 2^g distances from 1 + p·(2^g − 1) + i·2^g on

Each level keeps the stamp of its one element whose position x is a multiple of 2^g. After m elements these positions
are x = u·2^g with u = ⌊(m + p) / 2^g⌋ − p − i. So the p levels of a size change together, when 2^g divides m + p
(Figure 7, step 2). A ring of p holds the stamps by u, so nothing is shifted, and one search index (`runs.py`) serves
the p levels of a size: an entry has its u, which gives its present level. An update writes two entries, amortised, for
any p.

CI-SUM treats an element of value a as a elements of the same stamp (section 4.2) and writes only those that remain
stored: O(p·log a). Windows are suffixes of time, or of the stream's tuples if stamps are row numbers.

The search index of a size is built from the stamps when a lookup first needs it, and maintained from then on. Most of
an update is sorting entries, so sizes that no threshold needs get no index: CI-SUM is then fed four times as fast.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.synopses.cells.arrays import Longs, Mask, grown
from windrow.synopses.cells.groups import Ids
from windrow.synopses.having.runs import Entries, Runs, joined
from windrow.windows import Points


@dataclass(frozen=True)
class Levels:
    """The levels of distances, p of each size, and the resulting error ε.

    A key returned for (v, ∞) has more than v·(1 − ε), and one returned for (0, v) has less than v / (1 − ε):

        ε = 3/4 for p = 1,  2 / (p + 2) for p ≥ 2            so v / (1 − ε) = v·(1 + 2/p) for p ≥ 2
    """

    p: int

    def __post_init__(self) -> None:
        if self.p < 1:
            raise ValueError(f"each size has at least one level, not {self.p}")

    @classmethod
    def within(cls, epsilon: float) -> Levels:
        """The fewest levels with an error of at most ε."""
        if not 0 < epsilon < 1:
            raise ValueError(f"ε is within (0, 1), not {epsilon}")
        return cls(1 if epsilon >= 0.75 else max(2, int(np.ceil(round(2 / epsilon - 2, 9)))))

    @property
    def epsilon(self) -> float:
        return 0.75 if self.p == 1 else 2 / (self.p + 2)

    def of(self, distance: int) -> int:
        """The number of a distance's level; distances count from 1, and level (g, i) has number g·p + i."""
        size = ((distance - 1) // self.p + 1).bit_length() - 1
        return size * self.p + ((distance - 1 - self.p * ((1 << size) - 1)) >> size)

    def start(self, level: int) -> int:
        """The least distance of a level."""
        size, i = divmod(level, self.p)
        return 1 + self.p * ((1 << size) - 1) + (i << size)

    def for_more_than(self, value: int) -> int:
        """The last level whose distances are all at most v + 1: level 2 for p = 1 and v = 11, as in Example 4.1."""
        return self.of(value + 2) - 1

    def for_less_than(self, value: int) -> int:
        """The first level whose distances are all at least v."""
        level = self.of(value)
        return level if self.start(level) == value else level + 1


class CollectiveIndex:
    """CI-COUNT, or CI-SUM if elements have weights. Keys are dense ids; stamps ascend."""

    kind = "collective index"

    def __init__(self, levels: Levels, reach: int):
        if reach < 1:
            raise ValueError(f"windows reach back at least one stamp, not {reach}")
        self.levels, self.reach = levels, reach
        self._newest = np.iinfo(np.int64).min // 2
        self.keys = 0
        self._lengths: Longs = np.zeros(0, np.int64)
        self._sizes: list[_Size] = []

    @property
    def size(self) -> int:
        return self.keys + sum(size.size for size in self._sizes)

    def update(self, keys: Ids, stamps: Points, weights: Longs | None = None) -> None:
        """Append elements in the order of their stamps. Weights are positive integers (CI-SUM)."""
        if not keys.size:
            return
        batch = _Batch(keys, stamps, weights)
        self._know(int(batch.keys[-1]), int(stamps[-1]))
        old = self._lengths[batch.keys]
        new = old + batch.added
        self._lengths[batch.keys] = new
        for size, which in self._changed(old, new):
            self._promote(size, batch, which, old[which], new[which])

    def _know(self, key: int, stamp: int) -> None:
        self.keys, self._newest = max(self.keys, key + 1), stamp
        self._lengths = grown(self._lengths, self.keys)

    def _changed(self, old: Longs, new: Longs) -> list[tuple[int, Longs]]:
        """The sizes whose levels change, each with its keys; greatest first, because they read the lesser ones."""
        changed, which, size = [], np.arange(old.size), 0
        while which.size:
            changed.append((size, which))
            size += 1
            moved = (new[which] + self.levels.p) >> size != (old[which] + self.levels.p) >> size
            which = which[moved & ((new[which] + self.levels.p) >> size > self.levels.p)]
        return changed[::-1]

    def _promote(self, size: int, batch: _Batch, which: Longs, old: Longs, new: Longs) -> None:
        """Store the elements that enter the p levels of a size."""
        while len(self._sizes) <= size:
            self._sizes.append(_Size(len(self._sizes), self))
        p, parts = self.levels.p, []
        newest = ((new + p) >> size) - p
        entering = np.minimum(newest - np.maximum(((old + p) >> size) - p, 0), p)
        for i in range(int(entering.max())):
            at = np.flatnonzero(entering > i)
            quotient = newest[at] - i
            key = batch.keys[which[at]]
            stamp = self._stamps_of(size, batch, which[at], quotient << size, old[at])
            parts.append(Entries(stamp, key, quotient))
        self._sizes[size].store(joined(parts))

    def _stamps_of(self, size: int, batch: _Batch, which: Longs, position: Longs, old: Longs) -> Longs:
        """The stamps of these elements, from the batch or from the lesser size that stores them so far."""
        out = np.empty(position.size, np.int64)
        ahead = position - old
        fresh = np.flatnonzero(ahead > 0)
        out[fresh] = batch.stamps_at(which[fresh], ahead[fresh])
        rest = np.flatnonzero(ahead <= 0)
        level = np.frexp(((-ahead[rest]) // self.levels.p + 1).astype(np.float64))[1] - 1
        for lesser in range(size):
            at = rest[level == lesser]
            if at.size:
                out[at] = self._sizes[lesser].stamps(batch.keys[which[at]], position[at] >> lesser)
        return out

    def update_one(self, key: int, stamp: int) -> None:
        """Append one element of CI-COUNT (Figure 7): each size that changes, greatest first, reads the next lesser."""
        self._know(key, stamp)
        length = int(self._lengths[key]) + 1
        self._lengths[key] = length
        shifted = length + self.levels.p
        size = (shifted & -shifted).bit_length() - 1
        while len(self._sizes) <= size:
            self._sizes.append(_Size(len(self._sizes), self))
        for g in range(size, 0, -1):
            quotient = (shifted >> g) - self.levels.p
            if quotient > 0:
                self._sizes[g].store_one(self._sizes[g - 1].stamp_of(key, 2 * quotient), key, quotient)
        self._sizes[0].store_one(stamp, key, length)

    def more_than(self, value: int, since: int) -> Ids:
        """Every key with more than v after `since`, and some with more than v·(1 − ε); each once, in any order."""
        if value < 0:
            raise ValueError(f"a lower bound is at least 0, not {value}")
        return self.newer(self.levels.for_more_than(value), self._reached(since))

    def less_than(self, value: int, since: int) -> Ids:
        """Every key with at least one and less than v after `since`, and some with less than v / (1 − ε)."""
        if value < 1:
            raise ValueError(f"an upper bound is at least 1, not {value}")
        alive = self.newer(0, self._reached(since))
        many = self.newer(self.levels.for_less_than(value), since)
        return np.asarray(np.setdiff1d(alive, many, assume_unique=True))

    def newer(self, level: int, since: int) -> Ids:
        """The keys whose stamp at this level is > since (Figure 7, LOOKUP, step 2; Example 4.1 has >, not ≥)."""
        size, i = divmod(level, self.levels.p)
        if size >= len(self._sizes):
            return np.zeros(0, np.int64)
        found = self._sizes[size].index().newer(since)
        return np.asarray(found.keys[self._place(size, found) == i])

    def _place(self, size: int, entries: Entries) -> Longs:
        """The level within its size of each entry; p or more if the entry has left the size."""
        p = self.levels.p
        return np.asarray(((self._lengths[entries.keys] + p) >> size) - p - entries.quotients)

    def _reached(self, since: int) -> int:
        if since < self._newest - self.reach:
            raise ValueError(f"a window reaches back further than {self.reach}")
        return since


class _Size:
    """The stamps of the p levels of one size, a row per key seen, and the search index over them."""

    def __init__(self, size: int, index: CollectiveIndex):
        self._size, self._index = size, index
        self._rows = np.zeros(0, np.int32)
        self._used = 1
        self._stamps = np.zeros((16, index.levels.p), np.int64)
        self._runs: Runs | None = None

    @property
    def size(self) -> int:
        searched = 0 if self._runs is None else 3 * len(self._runs)
        return self._used * self._stamps.shape[1] + len(self._rows) + searched

    def index(self) -> Runs:
        """The search index over the stamps of this size, built on first use."""
        if self._runs is None:
            self._runs = Runs(self._alive)
            self._runs.add(self._entries())
        return self._runs

    def _entries(self) -> Entries:
        """All stored entries: for every key its last p positions that are multiples of 2^size."""
        p, keys = self._index.levels.p, np.flatnonzero(self._rows)
        newest = ((self._index._lengths[keys] + p) >> self._size) - p
        quotients = newest[:, None] - np.arange(p)
        keys = np.broadcast_to(keys[:, None], quotients.shape)
        stored = quotients > 0
        return Entries(self.stamps(keys[stored], quotients[stored]), keys[stored], quotients[stored])

    def _alive(self, entries: Entries) -> Mask:
        here = self._index._place(self._size, entries) < self._index.levels.p
        return np.asarray(here & (entries.stamps > self._index._newest - self._index.reach))

    def store(self, entries: Entries) -> None:
        """Store entries; those of one key come newest first."""
        self._rows = grown(self._rows, int(entries.keys.max()) + 1)
        new = np.unique(entries.keys[self._rows[entries.keys] == 0])
        self._rows[new] = np.arange(self._used, self._used + new.size)
        self._used += new.size
        self._stamps = grown(self._stamps, self._used)
        place = entries.quotients % self._index.levels.p
        self._stamps[self._rows[entries.keys], place] = entries.stamps
        if self._runs is not None:
            self._runs.add(entries)

    def store_one(self, stamp: int, key: int, quotient: int) -> None:
        if key >= len(self._rows) or not self._rows[key]:
            self.store(Entries(np.array([stamp]), np.array([key]), np.array([quotient])))
            return
        self._stamps[self._rows[key], quotient % self._index.levels.p] = stamp
        if self._runs is not None:
            self._runs.add_one(stamp, key, quotient)

    def stamps(self, keys: Longs, quotients: Longs) -> Longs:
        return np.asarray(self._stamps[self._rows[keys], quotients % self._index.levels.p])

    def stamp_of(self, key: int, quotient: int) -> int:
        return int(self._stamps[self._rows[key], quotient % self._index.levels.p])


class _Batch:
    """New elements by key: the keys, what each gains (`added`), and the stamp of each key's n-th new unit."""

    def __init__(self, keys: Ids, stamps: Points, weights: Longs | None):
        order = np.argsort(keys, kind="stable")
        self._stamps = stamps[order]
        self.keys, counts = np.unique(keys, return_counts=True)
        ends = np.cumsum(counts)
        self._sums: Longs | None = None
        self.added = counts
        self._starts = ends - counts
        if weights is not None:
            if int(weights.min()) < 1:
                raise ValueError("a collective index sums positive integers only")
            self._sums = np.cumsum(weights[order])
            self._starts = np.concatenate(([0], self._sums[ends[:-1] - 1]))
            self.added = np.diff(np.append(self._starts, self._sums[-1]))

    def stamps_at(self, which: Longs, ahead: Longs) -> Longs:
        """The stamps of the ahead[i]-th new unit (from 1) of the key at which[i]."""
        unit = self._starts[which] + ahead
        at = unit - 1 if self._sums is None else np.searchsorted(self._sums, unit)
        return self._stamps[at]
