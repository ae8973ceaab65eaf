"""R-INT for every substream at once (Arasu and Widom, VLDB 2004, section 4): the simple strategy for SubStream Filters.

It keeps the elements of each key within the reach, with their running sums, which also make the answers of a collective
index exact. Each key has a ring in one pool: element n, counted from 0, is in slot n mod room. A full ring first drops
expired elements, and then moves to a ring twice as large.

    SUM(S_k[T, 0]) at τ = total_k − before_k[n],    n the first element with stamp > τ − T, found by bisection

Stamps are timestamps, or row numbers of the stream for tuple-based windows. There is no loop over keys.
"""

from __future__ import annotations

import numpy as np

from windrow.reference.metering import Meter
from windrow.synopses.cells.arrays import Longs, Mask, grown
from windrow.synopses.cells.groups import Ids
from windrow.windows import Points, joined_ranges

_LEAST_ROOM = 4


class Substreams:
    """Counts, and sums of integer weights, over a suffix of every substream. Keys are dense ids."""

    def __init__(self, reach: int, meter: Meter | None = None):
        if reach < 1:
            raise ValueError(f"windows reach back at least one stamp, not {reach}")
        self.reach = reach
        self.keys = 0
        self._newest = np.iinfo(np.int64).min // 2
        self._meter = meter
        self._start, self._room, self._first, self._count, self._total = (np.zeros(0, np.int64) for _ in range(5))
        self._stamps, self._before = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._used = 0

    @property
    def size(self) -> int:
        return 2 * self._used + 5 * self.keys

    def update(self, keys: Ids, stamps: Points, weights: Longs | None = None) -> None:
        """Append elements with ascending stamps."""
        if not keys.size:
            return
        self._know(int(keys.max()) + 1)
        self._newest = int(stamps[-1])
        order = np.argsort(keys, kind="stable")
        key, added = np.unique(keys, return_counts=True)
        self._make_room(key, added)
        number = joined_ranges(self._count[key], added)
        at = np.repeat(self._start[key], added) + (number & np.repeat(self._room[key] - 1, added))
        self._stamps[at] = stamps[order]
        weight = np.ones(keys.size, np.int64) if weights is None else weights[order]
        sums = np.cumsum(weight)
        before = (sums - weight) - np.repeat((sums - weight)[np.cumsum(added) - added], added)
        self._before[at] = before + np.repeat(self._total[key], added)
        self._total[key] += np.add.reduceat(weight, np.cumsum(added) - added)
        self._count[key] += added

    def update_one(self, key: int, stamp: int, weight: int = 1) -> None:
        if key >= self.keys or self._count[key] - self._first[key] >= self._room[key]:
            self.update(np.array([key]), np.array([stamp]), np.array([weight]))
            return
        self._newest = stamp
        number = int(self._count[key])
        at = int(self._start[key]) + (number & (int(self._room[key]) - 1))
        self._stamps[at], self._before[at] = stamp, self._total[key]
        self._count[key] = number + 1
        self._total[key] += weight

    def _know(self, keys: int) -> None:
        self.keys = max(self.keys, keys)
        columns = (self._start, self._room, self._first, self._count, self._total)
        self._start, self._room, self._first, self._count, self._total = (grown(c, keys) for c in columns)

    def _make_room(self, key: Longs, added: Longs) -> None:
        """Make room for new elements: drop expired ones, and move rings that are still too small."""
        full = self._lacking(key, added)
        if full.any():
            tight = key[full]
            self._first[tight] = self._after(tight, self._newest - self.reach)
            full = self._lacking(key, added)
        if full.any():
            self._move(key[full], self._count[key[full]] - self._first[key[full]] + added[full])

    def _lacking(self, key: Longs, added: Longs) -> Mask:
        return np.asarray(self._count[key] - self._first[key] + added > self._room[key])

    def _move(self, key: Longs, needed: Longs) -> None:
        room = np.maximum(_LEAST_ROOM, 1 << np.frexp((2 * needed - 1).astype(np.float64))[1].astype(np.int64))
        start = self._used + np.cumsum(room) - room
        self._used += int(room.sum())
        self._stamps, self._before = grown(self._stamps, self._used), grown(self._before, self._used)
        held = self._count[key] - self._first[key]
        number = joined_ranges(self._first[key], held)
        old = np.repeat(self._start[key], held) + (number & np.repeat(self._room[key] - 1, held))
        new = np.repeat(start, held) + (number & np.repeat(room - 1, held))
        for pool in (self._stamps, self._before):
            pool[new] = pool[old]
        self._start[key], self._room[key] = start, room

    def _after(self, key: Longs, since: int) -> Longs:
        """The number of each key's first element with stamp > since, by bisection over all keys at once."""
        start, mask = self._start[key], self._room[key] - 1
        low, end = self._first[key], self._count[key]
        step = 1 << int((end - low).max(initial=0)).bit_length() >> 1
        while step:
            beyond = low + step
            stamp = self._stamps.take(start + ((beyond - 1) & mask), mode="clip")
            low += step * ((stamp <= since) & (beyond <= end))
            step >>= 1
            if self._meter:
                self._meter.add(low.size)
        return low

    def counts(self, keys: Ids, since: int) -> Longs:
        """COUNT over the elements of each key with stamp > since."""
        return np.asarray(self._count[keys] - self._after(keys, self._reached(since)))

    def sums(self, keys: Ids, since: int) -> Longs:
        """SUM of the weights of the elements of each key with stamp > since."""
        number = self._after(keys, self._reached(since))
        at = self._start[keys] + (number & (self._room[keys] - 1))
        before = np.where(number < self._count[keys], self._before.take(at, mode="clip"), self._total[keys])
        return np.asarray(self._total[keys] - before)

    def _reached(self, since: int) -> int:
        if since < self._newest - self.reach:
            raise ValueError(f"a window reaches back further than {self.reach}")
        return since
