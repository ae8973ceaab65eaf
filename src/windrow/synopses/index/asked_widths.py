"""How wide the windows are that are asked for: what landmark intervals are made for (004_65e36a58973a8297.txt, 3.1.2).

Standing queries ask for a few widths over and over; then O(1) lookups can be had for an update of O(γ). Lookups of any
width have none, and nor has a stream in its first windows, each of which is wider than the last.
"""

from __future__ import annotations

import numpy as np

from windrow.synopses.cells.groups import Ids
from windrow.synopses.index.landmark import Partition, partitions_of
from windrow.synopses.index.sequence import TupleWindow

MOST_WIDTHS = 16
FORGOTTEN = 0.05
FADING = 0.8


class AskedWidths:
    """The widths of windows, in places, and the farthest place that a window of each begins at; they fade."""

    def __init__(self) -> None:
        self._asked: dict[int, tuple[float, int]] = {}
        self._others = 0.0

    def ask(self, lows: Ids, highs: Ids, held: int) -> None:
        """Windows over [low, high) of `held` places; empty ones are anybody's."""
        widths = highs - lows
        order = np.argsort(widths, kind="stable")
        ascending = widths[order]
        first = np.flatnonzero(np.concatenate(([True], ascending[1:] != ascending[:-1])))
        farthest = np.maximum.reduceat(held - lows[order], first)
        for width, left in zip(ascending[first].tolist(), farthest.tolist(), strict=True):
            if width > 0:
                self._note(width, left)

    def _note(self, width: int, left: int) -> None:
        if width in self._asked or len(self._asked) < MOST_WIDTHS:
            weight, known = self._asked.get(width, (0.0, 0))
            self._asked[width] = weight + 1.0, max(known, left)
        else:
            self._others += 1.0

    def close(self) -> None:
        """Panes have closed: what was asked before counts for less."""
        faded = {width: (FADING * weight, left) for width, (weight, left) in self._asked.items()}
        self._asked = {width: kept for width, kept in faded.items() if kept[0] > FORGOTTEN}
        self._others *= FADING

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """Of landmark intervals that serve what is asked for of late; none where that is too much."""
        if self._others > FORGOTTEN:
            return ()
        return partitions_of(TupleWindow(left, left - width) for width, (_, left) in self._asked.items())
