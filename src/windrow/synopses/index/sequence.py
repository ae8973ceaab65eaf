"""Common parts of synopses over a sequence of cells, and windows as intervals of cells.

The cells of a stream are numbered 0, 1, 2, … A cell is one element (tuple-based windows) or one pane. An interval
[low, high) has the cells low … high − 1; it is (low + 1, high) in Arasu and Widom, VLDB 2004, who count from 1. Only
the last `span` of m cells are *active* (section 3.1.1, where span is N_max): any interval of them can be looked up.

    S[N_L, N_R] = [max(m − N_L, 0), max(m − N_R, 0))          suffix: N_R = 0; historical: N_R > 0
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.synopses.cells.arrays import Longs
from windrow.synopses.cells.groups import Ids


@dataclass(frozen=True)
class TupleWindow:
    """S[N_L, N_R]: the last N_L cells without the last N_R (Arasu and Widom, VLDB 2004, section 2)."""

    left: int
    right: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.right < self.left:
            raise ValueError(f"a window has left > right ≥ 0, not [{self.left}, {self.right}]")

    @property
    def width(self) -> int:
        return self.left - self.right

    def interval(self, length: int) -> tuple[int, int]:
        """The cells in the window after `length` cells; the first windows are partial."""
        return max(length - self.left, 0), max(length - self.right, 0)


def check_span(span: int) -> int:
    if span < 1:
        raise ValueError(f"a synopsis spans at least one cell, not {span}")
    return span


def check_active(low: int, high: int, first: int, length: int) -> None:
    if not first <= low <= high <= length:
        raise ValueError(f"[{low}, {high}) is not within the active cells [{first}, {length})")


def checked(lows: Ids, highs: Ids, first: int, length: int) -> tuple[Longs, Longs]:
    """The intervals as int64; raises ValueError unless all are within the active cells [first, length)."""
    low, high = np.asarray(lows, np.int64), np.asarray(highs, np.int64)
    if low.shape != high.shape:
        raise ValueError(f"{low.size} lower ends and {high.size} upper ends")
    if low.size:
        check_active(int(np.minimum.reduce(low)), int(np.maximum.reduce(high)), first, length)
        if np.minimum.reduce(high - low) < 0:
            raise ValueError("an interval ends before it begins")
    return low, high


def power_of_two(span: int) -> int:
    """The least power of two that is at least `span`."""
    return 1 << (span - 1).bit_length()
