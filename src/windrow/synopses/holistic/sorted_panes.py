"""B-INT-QNT over panes for all groups at once: the elements of each base interval of panes, sorted.

Arasu and Widom, VLDB 2004, section 3.3, with a pane as a cell of the sequence. Level ℓ has the sorted elements of each
group in every run of 2^ℓ panes. A window consists of at most two base intervals a level, the same for all groups. An
element of any rank is selected from these sorted arrays (`selection.py`); the number of elements below a bound is found
by bisection.

    build     O(n · log b) for n elements and windows of b panes
    select    O(p · log p · log q), p = O(log b) arrays of at most q elements
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from windrow.synopses.cells.arrays import Longs
from windrow.synopses.cells.groups import AnyIds, Ids
from windrow.synopses.holistic.selection import count_below, select
from windrow.synopses.index.base_intervals import base_intervals_of
from windrow.synopses.index.running import sums_before

AT_ONCE = 1 << 14
"""Sorted arrays searched together: few enough for their data to stay in the processor's cache."""


@dataclass(frozen=True)
class Elements:
    """Elements in any order: the group and the pane (both from 0) of each, its code, and its count."""

    groups: Ids
    panes: Ids
    codes: Ids
    counts: Longs


@dataclass(frozen=True)
class WindowSlots:
    """The windows [lows, highs) by pane, and rows, each a group in one of the windows."""

    lows: Ids
    highs: Ids
    window: Ids
    groups: Ids

    def where(self, rows: Ids) -> WindowSlots:
        """The same windows with a part of the rows."""
        return WindowSlots(self.lows, self.highs, self.window[rows], self.groups[rows])


class SortedPanes:
    """The elements of `panes` panes of `groups` groups; windows have at most `widest` panes."""

    def __init__(self, elements: Elements, groups: int, panes: int, widest: int):
        self._panes = panes
        self._levels = max(1, min(widest, panes).bit_length())
        slot = elements.groups * panes + elements.panes
        held = np.bincount(slot, elements.counts, groups * panes).astype(np.int64)
        self._before = sums_before(held)
        self._sorted = self._sort(slot, elements)

    @property
    def nbytes(self) -> int:
        return self._sorted.nbytes + self._before.nbytes

    def _sort(self, slot: Ids, elements: Elements) -> AnyIds:
        """The sorted codes on every level. The number of a run is packed above the bits of the codes."""
        bits = int(elements.codes.max(initial=0)).bit_length()
        packed = slot << bits | elements.codes
        if (elements.counts != 1).any():
            order = np.argsort(packed)
            packed = np.repeat(packed[order], elements.counts[order])
        else:
            packed.sort()
        out = np.empty((self._levels, packed.size), np.int32 if bits < 31 else np.int64)
        group, pane = np.divmod(packed >> bits, self._panes)
        out[0] = packed & (1 << bits) - 1
        for level in range(1, self._levels):
            # Runs are numbered from 0 within a group; all numbers of a group are below those of the next group.
            packed = (group * self._panes + (pane >> level)) << bits | out[level - 1]
            packed.sort(kind="stable")  # merges the sorted halves
            out[level] = packed & (1 << bits) - 1
        return out

    def count(self, slots: WindowSlots) -> Longs:
        """The number of elements in each row."""
        base = slots.groups * self._panes
        low, high = (self._before[base + edges[slots.window]] for edges in (slots.lows, slots.highs))
        return np.asarray(np.maximum(high - low, 0))

    def at_ranks(self, slots: WindowSlots, ranks: Longs) -> Longs:
        """The code of a rank (from 1) in each row; the row must have at least that many elements."""
        out = np.empty(ranks.size, np.int64)
        flat = self._sorted.ravel()
        for some, begins, ends in self._arrays(slots):
            out[some] = select(flat, begins, ends, ranks[some])
        return out

    def below(self, slots: WindowSlots, bounds: Longs) -> Longs:
        """The number of elements of each row below the bound of its window."""
        out = np.empty(slots.window.size, np.int64)
        flat = self._sorted.ravel()
        for some, begins, ends in self._arrays(slots):
            out[some] = count_below(flat, begins, ends, bounds[slots.window[some]])
        return out

    def _arrays(self, slots: WindowSlots) -> Iterator[tuple[slice, Longs, Longs]]:
        """Batches of rows with their base intervals as places in the sorted levels; some intervals are empty."""
        first, last = _edges(slots.lows, slots.highs, self._levels)
        level = np.repeat(np.arange(self._levels), 2) * self._sorted.shape[1]
        step = max(1, AT_ONCE // (2 * self._levels))
        for start in range(0, slots.window.size, step):
            some = slice(start, start + step)
            window, base = slots.window[some], (slots.groups[some] * self._panes)[:, None]
            yield some, level + self._before[base + first[window]], level + self._before[base + last[window]]


def _edges(low: Ids, high: Ids, levels: int) -> tuple[Longs, Longs]:
    """The base intervals of each window [low, high), two a level, as [first, last) panes; some are empty."""
    first, last = (np.zeros((low.size, 2 * levels), np.int64) for _ in range(2))
    for level, side, which, nodes in base_intervals_of(low, high):
        first[which, 2 * level + side] = nodes << level
        last[which, 2 * level + side] = (nodes + 1) << level
    return first, last
