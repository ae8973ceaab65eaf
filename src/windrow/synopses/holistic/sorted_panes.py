"""B-INT-QNT over panes, for all groups at once: each base interval of panes has its elements sorted.

004_65e36a58973a8297.txt, section 3.3, where a cell of the sequence is a pane: level ℓ has the elements of every run of
2^ℓ panes, of each group by itself, in order. A window is at most two base intervals a level, the same ones for all
groups; an element of any rank is selected from these sorted arrays (`selection.py`), and how many are below a bound is
found by bisection.

    build     O(n · log b) for n elements and windows of b panes
    select    O(p · log p · log q), p = O(log b) arrays of at most q elements
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from windrow.synopses.cells.groups import AnyIds, Ids
from windrow.synopses.holistic.selection import count_below, select
from windrow.synopses.index.base_intervals import base_intervals_of
from windrow.synopses.index.running import sums_before
from windrow.synopses.index.sequence import Longs

AT_ONCE = 1 << 14
"""Sorted arrays searched together: few enough for what they need to stay in the processor's cache."""


@dataclass(frozen=True)
class Elements:
    """Elements in any order: the group and the pane (both from 0) of each, its code, and how often it is there."""

    groups: Ids
    panes: Ids
    codes: Ids
    counts: Longs


@dataclass(frozen=True)
class WindowSlots:
    """What is asked about: the windows [lows, highs) by pane, and rows, each a group in one of them."""

    lows: Ids
    highs: Ids
    window: Ids
    groups: Ids

    def where(self, rows: Ids) -> WindowSlots:
        """The same windows, of some rows."""
        return WindowSlots(self.lows, self.highs, self.window[rows], self.groups[rows])


class SortedPanes:
    """Elements of `panes` panes of `groups` groups; windows are at most `widest` panes."""

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
        """The codes on every level. A run of panes is a number of higher order than the codes in it."""
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
            # Within a group runs are numbered from 0; the numbers of a group's runs are below all of the next.
            packed = (group * self._panes + (pane >> level)) << bits | out[level - 1]
            packed.sort(kind="stable")  # which merges the sorted halves
            out[level] = packed & (1 << bits) - 1
        return out

    def count(self, spots: WindowSlots) -> Longs:
        """How many elements each row has."""
        base = spots.groups * self._panes
        low, high = (self._before[base + edges[spots.window]] for edges in (spots.lows, spots.highs))
        return np.asarray(np.maximum(high - low, 0))

    def at_ranks(self, spots: WindowSlots, ranks: Longs) -> Longs:
        """The code of a rank (from 1) in each row, which has at least so many elements."""
        out = np.empty(ranks.size, np.int64)
        flat = self._sorted.ravel()
        for some, begins, ends in self._arrays(spots):
            out[some] = select(flat, begins, ends, ranks[some])
        return out

    def below(self, spots: WindowSlots, bounds: Longs) -> Longs:
        """How many elements of each row are below a bound, given by window."""
        out = np.empty(spots.window.size, np.int64)
        flat = self._sorted.ravel()
        for some, begins, ends in self._arrays(spots):
            out[some] = count_below(flat, begins, ends, bounds[spots.window[some]])
        return out

    def _arrays(self, spots: WindowSlots) -> Iterator[tuple[slice, Longs, Longs]]:
        """Of some rows at a time their base intervals, as places in the sorted levels; some are empty."""
        first, last = _edges(spots.lows, spots.highs, self._levels)
        level = np.repeat(np.arange(self._levels), 2) * self._sorted.shape[1]
        step = max(1, AT_ONCE // (2 * self._levels))
        for start in range(0, spots.window.size, step):
            some = slice(start, start + step)
            window, base = spots.window[some], (spots.groups[some] * self._panes)[:, None]
            yield some, level + self._before[base + first[window]], level + self._before[base + last[window]]


def _edges(low: Ids, high: Ids, levels: int) -> tuple[Longs, Longs]:
    """Of each window [low, high) its base intervals, two a level, as first pane and last (excluded); some are empty."""
    first, last = (np.zeros((low.size, 2 * levels), np.int64) for _ in range(2))
    for level, side, which, nodes in base_intervals_of(low, high):
        first[which, 2 * level + side] = nodes << level
        last[which, 2 * level + side] = (nodes + 1) << level
    return first, last
