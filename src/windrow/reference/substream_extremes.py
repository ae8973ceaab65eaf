"""MAX(x) > v and MIN(x) < v over the elements of substreams, which Arasu and Widom (VLDB 2004, section 4) leave open.

A key's MAX over S_k[T, 0] exceeds v iff one of its elements newer than τ − T does. Cells contain some hundreds of
elements in the order of stamps. A base interval of cells (`synopses/having/tables.py`) keeps only the greatest element
of each key, greatest first. A suffix window consists of a part of one cell, O(log N) base intervals, and the cell that
is not full yet. Of each base interval only the keys that pass are read, from its front:

    UPDATE    O(log² N), amortised        LOOKUP    O(log² N + |K_o|·log N)        answers are exact

It pays if few keys pass, as a scan of the substreams reads all keys. MIN(x) < v is MAX(−x) > −v. MAX(x) < v holds for
the keys in the window without MAX(x) ≥ v, and MIN(x) > v for those without MIN(x) ≤ v.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from windrow.reference.metering import Meter
from windrow.synopses.cells.arrays import Longs
from windrow.synopses.cells.groups import Ids
from windrow.synopses.having.pane_extremes import GreatestCodes
from windrow.synopses.having.tables import TableIntervals
from windrow.windows import Points

CELL = 512


@dataclass(frozen=True)
class _Elements:
    """The elements of one cell in order of arrival."""

    stamps: Longs
    falling: Longs
    keys: Longs

    def at_least(self, code: int, since: int) -> Longs:
        return self.keys[(self.stamps > since) & (self.falling <= ~code)]


class ExtremesFilter:
    """Finds the substreams with a code of at least v in a suffix window; codes preserve the order of values.

    For MIN, use the complement ~code of every code and ~v: complements have the opposite order.
    """

    def __init__(self, reach: int, meter: Meter | None = None):
        if reach < 1:
            raise ValueError(f"windows reach back at least one stamp, not {reach}")
        self.reach, self._meter = reach, meter
        self._newest = np.iinfo(np.int64).min // 2
        self._tree = TableIntervals(self._merged)
        self._cells: list[_Elements] = []
        self._ends: list[int] = []
        self._open = _Elements(*(np.zeros(0, np.int64) for _ in range(3)))

    @property
    def size(self) -> int:
        kept = 2 * sum(table.keys.size for table in self._tree.tables())
        return kept + 3 * sum(cell.keys.size for cell in (*self._cells, self._open))

    def _merged(self, left: GreatestCodes, right: GreatestCodes) -> GreatestCodes:
        if self._meter:
            self._meter.add(left.keys.size + right.keys.size)
        return left.merged(right)

    def update(self, keys: Ids, stamps: Points, codes: Longs) -> None:
        """Append elements in the order of their stamps."""
        if not keys.size:
            return
        self._newest = int(stamps[-1])
        columns = [
            np.concatenate(pair)
            for pair in ((self._open.stamps, stamps), (self._open.falling, ~codes), (self._open.keys, keys))
        ]
        whole = columns[0].size // CELL * CELL
        for start in range(0, whole, CELL):
            self._close(_Elements(*(column[start : start + CELL] for column in columns)))
        self._open = _Elements(*(column[whole:] for column in columns))
        gone = bisect_right(self._ends, self._newest - self.reach)
        self._tree.forget(self._tree.first + gone)
        del self._cells[:gone], self._ends[:gone]

    def _close(self, cell: _Elements) -> None:
        self._cells.append(cell)
        self._ends.append(int(cell.stamps[-1]))
        self._tree.append(GreatestCodes.of(cell.falling, cell.keys))

    def at_least(self, code: int, since: int) -> Ids:
        """The keys, ascending, with an element of at least this code and stamp > since: MAX(x) ≥ v."""
        if since < self._newest - self.reach:
            raise ValueError(f"a window reaches back further than {self.reach}")
        cut = bisect_right(self._ends, since)
        found = [cell.at_least(code, since) for cell in (*self._cells[cut : cut + 1], self._open)]
        low = min(self._tree.first + cut + 1, self._tree.length)
        found += [table.at_least(code) for table in self._tree.parts(low, self._tree.length)]
        if self._meter:
            self._meter.add(2 * CELL + len(found) + sum(keys.size for keys in found))
        return np.unique(np.concatenate(found))

    def below(self, code: int, since: int) -> Ids:
        """The keys whose elements with stamp > since are all below the code: MAX(x) < v."""
        return np.setdiff1d(self.at_least(np.iinfo(np.int64).min, since), self.at_least(code, since), True)
