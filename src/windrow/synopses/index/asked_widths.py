"""Recent widths of windows, for which landmark intervals are built (Arasu and Widom, VLDB 2004, section 3.1.2).

Standing queries repeat a few widths; landmark intervals then give O(1) lookups for O(γ) an update. They do not help
where widths vary, nor in the first windows of a stream, each of which is wider than the one before.
"""

from __future__ import annotations

import numpy as np

from windrow.synopses.cells.arrays import run_starts
from windrow.synopses.cells.groups import Ids
from windrow.synopses.index.landmark import Partition, partitions_of
from windrow.synopses.index.sequence import TupleWindow

MOST_WIDTHS = 16
FORGOTTEN = 0.05
FADING = 0.8


class AskedWidths:
    """The widths of recent windows in panes, and how far back a window of each begins; old ones fade."""

    def __init__(self) -> None:
        self._asked: dict[int, tuple[float, int]] = {}
        self._others = 0.0
        self._partitions: tuple[Partition, ...] | None = ()

    def ask(self, lows: Ids, highs: Ids, held: int) -> None:
        """Note windows over [low, high) of `held` panes; empty ones do not count."""
        widths = highs - lows
        order = np.argsort(widths, kind="stable")
        ascending = widths[order]
        first = run_starts(ascending)
        farthest = np.maximum.reduceat(held - lows[order], first)
        for width, left in zip(ascending[first].tolist(), farthest.tolist(), strict=True):
            if width > 0:
                self._note(width, left)

    def _note(self, width: int, left: int) -> None:
        if width in self._asked or len(self._asked) < MOST_WIDTHS:
            weight, known = self._asked.get(width, (0.0, 0))
            self._asked[width] = weight + 1.0, max(known, left)
            if left > known:
                self._partitions = None
        else:
            self._others += 1.0
            self._partitions = None

    def close(self) -> None:
        """Fade the widths noted before, since panes have closed."""
        faded = {width: (FADING * weight, left) for width, (weight, left) in self._asked.items()}
        self._asked = {width: kept for width, kept in faded.items() if kept[0] > FORGOTTEN}
        self._others *= FADING
        self._partitions = None

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The partitions of landmark intervals for the recent widths; none if there are too many widths."""
        if self._partitions is None:  # each lookup asks for them, and few change them
            windows = (TupleWindow(left, left - width) for width, (_, left) in self._asked.items())
            self._partitions = () if self._others > FORGOTTEN else partitions_of(windows)
        return self._partitions
