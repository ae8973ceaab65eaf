"""Time-based windows over a synopsis of cells: instants become cell numbers (004_65e36a58973a8297.txt, section 2).

S[T_L, T_R] at τ holds the cells with τ − T_L < point ≤ τ − T_R (DESIGN 5: ts ≤ τ < ts + T), and since points ascend
those are an interval of cells. How many cells are within reach of the windows is not known beforehand: where they are
more than the synopsis spans, it is extended before anything is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from windrow.synopses.cells.groups import Ids
from windrow.synopses.index.sequence import AnswerT, CellsT, Longs, SequenceSynopsis
from windrow.windows import Points

C = TypeVar("C")
A = TypeVar("A")


class Extensible(SequenceSynopsis[CellsT, AnswerT], Protocol[CellsT, AnswerT]):
    """A synopsis whose span may grow."""

    def extend(self, span: int) -> None: ...


@dataclass(frozen=True)
class TimeWindow:
    """S[T_L, T_R], in the units of the window attribute: suffix if right = 0, historical otherwise."""

    left: int
    right: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.right < self.left:
            raise ValueError(f"a window has left > right ≥ 0, not [{self.left}, {self.right}]")


class TimeBased(Generic[C, A]):
    """A synopsis with the point of every cell (a timestamp, or a pane's start); windows reach back `reach` at most."""

    def __init__(self, synopsis: Extensible[C, A], reach: int):
        if reach < 1:
            raise ValueError(f"windows reach back at least one point, not {reach}")
        self.synopsis, self.reach = synopsis, reach
        self._buffer: Longs = np.empty(16, np.int64)
        self._from = self._to = 0

    @property
    def _points(self) -> Longs:
        """The points of the cells that a window may still reach."""
        return self._buffer[self._from : self._to]

    def update(self, points: Points, cells: C) -> None:
        """Append cells with their points, which ascend (they may repeat)."""
        new = np.asarray(points, np.int64)
        if not new.size:
            return
        if (new[1:] < new[:-1]).any() or (self._points.size and new[0] < self._points[-1]):
            raise ValueError("cells come in the order of their points")
        self._append(new)
        self._from += int(np.searchsorted(self._points, new[-1] - self.reach, "right"))
        if self._points.size > self.synopsis.span:
            self.synopsis.extend(2 * self._points.size)
        self.synopsis.update(cells)

    def _append(self, new: Longs) -> None:
        """At the buffer's end; where there is no room, what is still reached moves to one twice as large."""
        if self._to + new.size > self._buffer.size:
            held = self._points
            self._buffer = np.empty(2 * (held.size + new.size), np.int64)
            self._buffer[: held.size] = held
            self._from, self._to = 0, held.size
        self._buffer[self._to : self._to + new.size] = new
        self._to += new.size

    def intervals(self, windows: list[TimeWindow], now: int) -> tuple[Ids, Ids]:
        """The cells of each window at an instant."""
        lefts = now - np.array([w.left for w in windows], np.int64)
        rights = now - np.array([w.right for w in windows], np.int64)
        if self._points.size and lefts.size and int(lefts.min()) < int(self._points[-1]) - self.reach:
            raise ValueError(f"a window reaches back further than {self.reach}")
        base = self.synopsis.length - self._points.size
        low = np.searchsorted(self._points, lefts, "right") + base
        return low, np.searchsorted(self._points, rights, "right") + base

    def lookup(self, windows: list[TimeWindow], now: int) -> A:
        return self.synopsis.lookup(*self.intervals(windows, now))
