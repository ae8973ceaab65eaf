"""B-INT-QNT, the quantile synopsis: exact quantiles over sorted base intervals.

Arasu and Widom, VLDB 2004, section 3.3. The elements of every base interval (`synopses/index/interval.py`) are sorted:
level ℓ is a ring of C cells in which each run of 2^ℓ is sorted, so each element is stored on log₂ C levels. A lookup
splits its interval into p base intervals and selects the element at position max(1, ⌊φ·N⌋) from their p sorted arrays.

    UPDATE    O(log N_max), amortised
    LOOKUP    O(p · log p · log q), p arrays of at most q elements, p = O(log W)

Values are order-preserving int64 codes; an absent cell (a null) does not count. Each φ is one more selection from the
same arrays. The engine does the same over panes of many groups (`synopses/holistic/sorted_panes.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from windrow.reference.greedy_selection import select_one
from windrow.reference.metering import Meter
from windrow.synopses.cells.arrays import Longs
from windrow.synopses.cells.folds import State, adding
from windrow.synopses.cells.groups import Ids
from windrow.synopses.holistic.phi import Phi
from windrow.synopses.holistic.selection import select
from windrow.synopses.index.base_intervals import base_intervals, base_intervals_of
from windrow.synopses.index.running import RunningSynopsis
from windrow.synopses.index.sequence import check_active, check_span, checked, power_of_two

AT_ONCE = 1 << 14
"""How many sorted arrays are searched together: few enough to stay in the processor's cache."""

ABSENT = np.iinfo(np.int64).max
_COUNT = adding(np.int64)


@dataclass(frozen=True)
class Quantiles:
    """codes[i, j] is the quantile φ_j of interval i, which has counts[i] values; it is meaningless if that is 0."""

    codes: Longs
    counts: Longs


class QuantileSynopsis:
    """Sorted base intervals of one column; `lookup` answers all `phis` at once."""

    kind = "quantile"

    def __init__(self, span: int, phis: Sequence[Phi] = (Phi(Fraction(1, 2)),), meter: Meter | None = None):
        self.span = check_span(span)
        self.phis = tuple(phis)
        self.length = 0
        self._meter = meter
        self._some_absent = False
        self._present = RunningSynopsis(_COUNT, span)
        self._make()

    def _make(self) -> None:
        self._slots = power_of_two(self.span)
        self._sorted = np.zeros((self._slots.bit_length(), self._slots), np.int64)

    @property
    def first(self) -> int:
        return max(self.length - self.span, 0)

    @property
    def size(self) -> int:
        return self._sorted.size + self._present.size

    def update(self, cells: State) -> None:
        """Append cells: a column of codes, and if some are absent a second column, 1 for present and 0 for absent."""
        codes = np.asarray(cells[0], np.int64)
        present = np.ones(codes.size, np.int64) if len(cells) == 1 else np.asarray(cells[1], np.int64)
        self._present.update((present,))
        if len(cells) > 1:
            self._some_absent = self._some_absent or not present.all()
            codes = np.where(present != 0, codes, ABSENT)
        kept = codes[-self._slots :]
        self.length += codes.size
        self._sort(self.length - kept.size, kept)

    def _sort(self, start: int, codes: Longs) -> None:
        """Add the cells to level 0, and sort every base interval that they complete from its two halves."""
        end = start + codes.size
        _put(self._sorted[0], start, codes)
        for level in range(1, len(self._sorted)):
            low, high = start >> level << level, end >> level << level
            if low >= high:
                return
            halves = _get(self._sorted[level - 1], low, high).reshape(-1, 1 << level)
            halves.sort(axis=1, kind="stable" if level > 6 else None)
            _put(self._sorted[level], low, halves.ravel())
            if self._meter:
                self._meter.add(high - low)

    def lookup(self, lows: Ids, highs: Ids) -> Quantiles:
        """The quantiles of every interval for all φ of the synopsis."""
        counts = self._present.lookup(lows, highs)[0]
        low, high = checked(lows, highs, self.first, self.length)
        codes = [self._select(low, high, phi.rank(counts), counts) for phi in self.phis]
        return Quantiles(np.stack(codes, axis=1) if codes else np.empty((low.size, 0), np.int64), counts)

    def at_ranks(self, lows: Ids, highs: Ids, ranks: Longs) -> Longs:
        """The code at a rank (from 1) of each interval; every interval has at least that many cells, none absent."""
        low, high = checked(lows, highs, self.first, self.length)
        return self._select(low, high, ranks, high - low)

    def _select(self, low: Longs, high: Longs, ranks: Longs, counts: Longs) -> Longs:
        """The code at each interval's rank; 0 if the interval has no value."""
        out = np.zeros(low.size, np.int64)
        held = np.flatnonzero(counts)
        if not held.size:
            return out
        levels = int((high - low).max()).bit_length()
        step = max(1, AT_ONCE // (2 * levels))
        for start in range(0, held.size, step):
            some = held[start : start + step]
            begins, ends = self._arrays(low[some], high[some], levels)
            out[some] = select(self._sorted.ravel(), begins, ends, ranks[some])
        return out

    def _arrays(self, low: Longs, high: Longs, levels: int) -> tuple[Longs, Longs]:
        """The base intervals of each interval, two per level, as positions in the sorted levels; some are empty."""
        begins = np.zeros((low.size, 2 * levels), np.int64)
        ends = np.zeros((low.size, 2 * levels), np.int64)
        for level, side, which, nodes in base_intervals_of(low, high):
            begin = level * self._slots + ((nodes << level) & (self._slots - 1))
            begins[which, 2 * level + side] = begin
            ends[which, 2 * level + side] = begin + (1 << level)
        return begins, ends

    def lookup_one(self, low: int, high: int, phi: Phi) -> int | None:
        """One quantile of one interval; None if it has no value."""
        check_active(low, high, self.first, self.length)
        count = int(self._present.lookup_one(low, high)[0]) if self._some_absent else high - low
        if not count:
            return None
        rank = max(math.floor(count * phi.fraction), 1)
        return select_one(self._arrays_of(low, high), rank, self._meter)

    def _arrays_of(self, low: int, high: int) -> list[Longs]:
        """The sorted arrays of one interval, none empty."""
        found = []
        for slot in base_intervals(low, high, self._slots):
            level = self._slots.bit_length() - slot.bit_length()
            at = (slot << level) & (self._slots - 1)
            found.append(self._sorted[level, at : at + (1 << level)])
        return found


def _put(ring: Longs, start: int, values: Longs) -> None:
    at = start & (ring.size - 1)
    straight = min(values.size, ring.size - at)
    ring[at : at + straight] = values[:straight]
    ring[: values.size - straight] = values[straight:]


def _get(ring: Longs, low: int, high: int) -> Longs:
    """A copy of cells [low, high)."""
    at, size = low & (ring.size - 1), high - low
    if at + size <= ring.size:
        return np.array(ring[at : at + size])
    return np.concatenate((ring[at:], ring[: at + size - ring.size]))
