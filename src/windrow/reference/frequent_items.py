"""FREQUENT_ITEMS by top-k lists per pane (Golab's dissertation, Algorithm 6): never a false positive.

Each pane keeps only its k most frequent items with their counts. Let δᵢ be the count of the k-th item of pane i, or 0
if the pane has fewer items, and δ = Σ δᵢ over a window's panes. An item that is in no list occurs at most δ times. An
item's count in the lists is at most its true count, so

    counted > δ   ⇒   true count > δ        reported: no false positives, but perhaps false negatives
    counted ≤ true count ≤ counted + Σ δᵢ   over the panes whose list lacks the item

A pane may have any number of tuples, so windows are time-based (one pane per slide) or tuple-based (`panes_of_rows`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from windrow.synopses.cells.groups import Ids
from windrow.synopses.index.sequence import Longs, check_active, check_span


@dataclass(frozen=True)
class FrequentItems:
    """Items that occur more than δ times, by falling count (ties by id): at least `counts` and at most `most` times."""

    items: Ids
    counts: Longs
    most: Longs
    delta: int


@dataclass(frozen=True)
class TopList:
    """A pane's summary S: its k most frequent items, and the count of the k-th, or 0 if there are fewer."""

    items: Ids
    counts: Longs
    delta: int

    @classmethod
    def of(cls, items: Ids, counts: Longs, k: int) -> TopList:
        """Build from the exact counts of a pane's distinct items."""
        best = np.lexsort((items, -counts))[:k]
        full = best.size == k
        return cls(items[best], counts[best], int(counts[best[-1]]) if full else 0)


def panes_of_rows(items: Ids, size: int) -> Iterator[Ids]:
    """The items of each full sub-window of this many tuples (line 2 of Algorithm 6)."""
    if size < 1:
        raise ValueError(f"a sub-window has at least one tuple, not {size}")
    for start in range(0, items.size - size + 1, size):
        yield items[start : start + size]


class FrequentItemsSynopsis:
    """The queue Q of top-k lists of the last `span` panes. Items are dense ids.

    Global counters are maintained for the longest window; shorter and historical windows add up their lists.
    """

    kind = "frequent items"

    def __init__(self, k: int, span: int):
        if k < 1:
            raise ValueError(f"a list has at least one place, not {k}")
        self.k, self.span = k, check_span(span)
        self.length = 0
        self._lists: list[TopList] = []
        self._counters: dict[int, int] = {}
        self._seen: dict[int, int] = {}
        self._delta = 0

    @property
    def first(self) -> int:
        return self.length - len(self._lists)

    @property
    def size(self) -> int:
        """The number of (item, count) pairs in lists and counters."""
        return 2 * sum(part.items.size for part in self._lists) + 3 * len(self._counters)

    def update(self, cells: list[Ids]) -> None:
        """Append panes, each given as the items of its tuples."""
        for cell in cells:
            items, counts = np.unique(np.asarray(cell, np.int64), return_counts=True)
            self.add(TopList.of(items, counts, self.k))

    def add(self, part: TopList) -> None:
        """Append the list of one pane, and drop the oldest if there are more than `span` (lines 9 to 26)."""
        self.length += 1
        self._lists.append(part)
        self._count(part, 1)
        if len(self._lists) > self.span:
            self._count(self._lists.pop(0), -1)

    def _count(self, part: TopList, sign: int) -> None:
        """Add a list to the global counters, or subtract it; `_seen` is the sum of δᵢ over the lists with an item."""
        self._delta += sign * part.delta
        for item, count in zip(part.items.tolist(), part.counts.tolist(), strict=True):
            total = self._counters.get(item, 0) + sign * count
            if total:
                self._counters[item] = total
                self._seen[item] = self._seen.get(item, 0) + sign * part.delta
            else:
                del self._counters[item], self._seen[item]

    def current(self) -> FrequentItems:
        """The answer over all kept panes, from the global counters (line 27)."""
        items = np.fromiter(self._counters, np.int64, len(self._counters))
        counts = np.fromiter(self._counters.values(), np.int64, items.size)
        seen = np.fromiter(self._seen.values(), np.int64, items.size)
        return _above(items, counts, seen, self._delta)

    def lookup(self, lows: Ids, highs: Ids) -> list[FrequentItems]:
        return [self.lookup_one(low, high) for low, high in zip(lows.tolist(), highs.tolist(), strict=True)]

    def lookup_one(self, low: int, high: int) -> FrequentItems:
        check_active(low, high, self.first, self.length)
        lists = self._lists[low - self.first : high - self.first]
        none = np.zeros(0, np.int64)
        items, place = np.unique(np.concatenate([none, *(part.items for part in lists)]), return_inverse=True)
        counts = np.concatenate([none, *(part.counts for part in lists)])
        deltas = np.repeat([part.delta for part in lists], [part.items.size for part in lists])
        total, seen = np.zeros(items.size, np.int64), np.zeros(items.size, np.int64)
        np.add.at(total, place, counts)
        np.add.at(seen, place, deltas.astype(np.int64))
        return _above(items, total, seen, sum(part.delta for part in lists))


def _above(items: Ids, counts: Longs, seen: Longs, delta: int) -> FrequentItems:
    """The items counted more than δ times; `seen` is the sum of δᵢ over the lists with the item."""
    kept = np.flatnonzero(counts > delta)
    kept = kept[np.lexsort((items[kept], -counts[kept]))]
    return FrequentItems(items[kept], counts[kept], counts[kept] + delta - seen[kept], delta)
