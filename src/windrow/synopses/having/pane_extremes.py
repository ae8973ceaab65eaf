"""Finds the groups with MAX(x) > v or MIN(x) < v over closed panes: `reference/substream_extremes.py` over panes.

Each pane and each base interval of panes (`tables.py`) has a table of its groups by greatest code, greatest first. A
window consists of O(log P) tables; from the front of each, exactly the groups that pass are read.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from windrow.synopses.cells.arrays import Longs, run_starts
from windrow.synopses.cells.groups import Ids
from windrow.synopses.having.tables import TableIntervals
from windrow.windows import Points


@dataclass(frozen=True)
class GreatestCodes:
    """The greatest code of each key, greatest first. `falling` is the complement of the codes, so it ascends."""

    falling: Longs
    keys: Longs

    @classmethod
    def of(cls, falling: Longs, keys: Longs) -> GreatestCodes:
        order = np.lexsort((falling, keys))
        first = order[run_starts(keys[order])]
        again = np.argsort(falling[first], kind="stable")
        return cls(falling[first][again], keys[first][again])

    def merged(self, other: GreatestCodes) -> GreatestCodes:
        both = np.concatenate((self.falling, other.falling)), np.concatenate((self.keys, other.keys))
        return GreatestCodes.of(*both)

    def at_least(self, code: int) -> Longs:
        """The keys with a code ≥ `code`."""
        return self.keys[: int(np.searchsorted(self.falling, ~code, "right"))]


class PaneExtremes:
    """Finds the groups with a code of at least v in the panes from a start on. For MIN, complement codes and v."""

    def __init__(self, reach: int):
        self.reach = reach
        self._tree: TableIntervals[GreatestCodes] = TableIntervals(GreatestCodes.merged)
        self._panes: list[int] = []

    @property
    def size(self) -> int:
        return 2 * sum(table.keys.size for table in self._tree.tables())

    def feed(self, panes: Points, groups: Ids, codes: Longs) -> None:
        """Append cells in the order of their panes."""
        if not panes.size:
            return
        starts = run_starts(panes)
        for first, last in zip(starts.tolist(), [*starts[1:].tolist(), panes.size], strict=True):
            self._panes.append(int(panes[first]))
            order = np.argsort(~codes[first:last], kind="stable")
            self._tree.append(GreatestCodes(~codes[first:last][order], groups[first:last][order]))
        gone = bisect_left(self._panes, self._panes[-1] - self.reach)
        self._tree.forget(self._tree.first + gone)
        del self._panes[:gone]

    def at_least(self, code: int, start: int) -> Ids:
        """The groups with a code ≥ `code` in a pane from `start` on, ascending."""
        low = self._tree.first + bisect_left(self._panes, start)
        parts = [table.at_least(code) for table in self._tree.parts(low, self._tree.length)]
        return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
