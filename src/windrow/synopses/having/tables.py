"""Base intervals of tables: like `index/interval.py`, for cells that differ in size.

A cell is one pane's table; a base interval has the merged table of its two halves (Arasu and Widom, VLDB 2004, section
3.1.1, with the "additional information per interval" of Golab's dissertation, section 2.3.4). The number of merges is
that of B-INT; the cost of a merge depends on the sizes of the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from windrow.synopses.index.base_intervals import base_intervals
from windrow.synopses.index.sequence import check_active

T = TypeVar("T")

_CELLS = 1 << 62
"""Slots for cells in the heap of tables: more than there will ever be cells, so no slot is used twice."""


class TableIntervals(Generic[T]):
    """Tables of the cells [first, length), and of the base intervals within them."""

    def __init__(self, merge: Callable[[T, T], T]):
        self._merge = merge
        self._tables: dict[int, T] = {}
        self.first = self.length = 0

    def tables(self) -> list[T]:
        """Every table held."""
        return list(self._tables.values())

    def append(self, table: T) -> None:
        """Append a cell and the base intervals that end with it."""
        slot = _CELLS | self.length
        self.length += 1
        self._tables[slot] = table
        while slot & 1 and (slot ^ 1) in self._tables:
            table = self._merge(self._tables[slot ^ 1], table)
            slot >>= 1
            self._tables[slot] = table

    def forget(self, first: int) -> None:
        """Drop the cells before `first`, and every base interval that contains one of them."""
        for cell in range(self.first, min(first, self.length)):
            slot = _CELLS | cell
            while slot in self._tables:
                del self._tables[slot]
                slot >>= 1
        self.first = max(self.first, min(first, self.length))

    def parts(self, low: int, high: int) -> list[T]:
        """The tables whose disjoint union is [low, high), at most two a level."""
        check_active(low, high, self.first, self.length)
        return [self._tables[slot] for slot in base_intervals(low, high, _CELLS)]
