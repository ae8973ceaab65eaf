"""Base intervals of tables: what `interval.py` is to values, for cells that differ in size.

A cell is one pane's table; a base interval has the merged table of its two halves (004_65e36a58973a8297.txt, section
3.1.1, with "additional information per interval": 001_3bbbc8a20ffc7252.txt, section 2.3.4). The number of merges is
that of B-INT; what a merge costs follows the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from windrow.synopses.index.sequence import check_active

T = TypeVar("T")


class TableIntervals(Generic[T]):
    """Tables of the cells [first, length), and of the base intervals within them."""

    def __init__(self, merge: Callable[[T, T], T]):
        self._merge = merge
        self._levels: list[dict[int, T]] = [{}]
        self.first = self.length = 0

    def tables(self) -> list[T]:
        """Every table that is kept."""
        return [table for level in self._levels for table in level.values()]

    def append(self, table: T) -> None:
        """One more cell, and the base intervals that end with it."""
        level, node = 0, self.length
        self.length += 1
        self._levels[0][node] = table
        while node & 1 and (node - 1) in self._levels[level]:
            lower = self._levels[level]
            merged = self._merge(lower[node - 1], lower[node])
            level, node = level + 1, node >> 1
            if level == len(self._levels):
                self._levels.append({})
            self._levels[level][node] = merged

    def forget(self, first: int) -> None:
        """Drop the cells before `first`, and every base interval that reaches back beyond it."""
        for cell in range(self.first, min(first, self.length)):
            for number, level in enumerate(self._levels):
                level.pop(cell >> number, None)
        self.first = max(self.first, min(first, self.length))

    def parts(self, low: int, high: int) -> list[T]:
        """The tables whose disjoint union is [low, high): at most two a level."""
        check_active(low, high, self.first, self.length)
        found, level = [], 0
        while low < high:
            if low & 1:
                found.append(self._levels[level][low])
            if high & 1:
                found.append(self._levels[level][high - 1])
            low, high, level = (low + 1) >> 1, high >> 1, level + 1
        return found
