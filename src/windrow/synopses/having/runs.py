"""Sorted runs: a search index over entries that arrive in any order and become invalid in place.

It takes the role of SEARCHTREE[ℓ] in Arasu and Widom, VLDB 2004, Figure 7: it finds all entries newer than a stamp. New
entries wait unsorted; when they are many they become a run. A run is merged with the run before it unless that is more
than twice as large. So an entry is moved O(log n) times, and a lookup reads O(log n) runs from their newer ends.
Entries that are no longer alive are dropped when their run is merged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from windrow.synopses.cells.arrays import Longs, Mask

WAITING = 256


class Entries(NamedTuple):
    """Stamp, key and quotient of each entry; the quotient tells which stored position of the key it is."""

    stamps: Longs
    keys: Longs
    quotients: Longs

    def where(self, which: Longs | Mask | slice) -> Entries:
        return Entries(self.stamps[which], self.keys[which], self.quotients[which])


Alive = Callable[[Entries], Mask]


def joined(parts: list[Entries]) -> Entries:
    return parts[0] if len(parts) == 1 else Entries(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class Runs:
    """Entries by stamp; `alive` marks those that still count."""

    def __init__(self, alive: Alive):
        self._alive = alive
        self._runs: list[Entries] = []
        self._waiting = Entries(*(np.zeros(WAITING, np.int64) for _ in range(3)))
        self._count = 0

    def __len__(self) -> int:
        """The number of entries held, dead ones included."""
        return self._count + sum(run.stamps.size for run in self._runs)

    def add(self, entries: Entries) -> None:
        count = self._count + entries.stamps.size
        if count > WAITING:
            self._push(joined([self._waiting.where(slice(self._count)), entries]))
            self._count = 0
            return
        for column, new in zip(self._waiting, entries, strict=True):
            column[self._count : count] = new
        self._count = count

    def add_one(self, stamp: int, key: int, quotient: int) -> None:
        if self._count == WAITING:
            self._push(self._waiting.where(np.arange(WAITING)))
            self._count = 0
        waiting, at = self._waiting, self._count
        waiting.stamps[at], waiting.keys[at], waiting.quotients[at] = stamp, key, quotient
        self._count = at + 1

    def _push(self, entries: Entries) -> None:
        run = self._sorted(entries)
        while self._runs and self._runs[-1].stamps.size <= 2 * run.stamps.size:
            run = self._sorted(joined([self._runs.pop(), run]))
        if run.stamps.size:
            self._runs.append(run)

    def _sorted(self, entries: Entries) -> Entries:
        """Live entries by stamp. A stable sort merges two consecutive runs fast."""
        entries = entries.where(self._alive(entries))
        return entries.where(np.argsort(entries.stamps, kind="stable"))

    def newer(self, since: int) -> Entries:
        """Every entry with stamp > since, dead ones included."""
        waiting = self._waiting.where(slice(self._count))
        found = [waiting.where(waiting.stamps > since)]
        for run in self._runs:
            found.append(run.where(slice(int(np.searchsorted(run.stamps, since, "right")), None)))
        return joined(found)
