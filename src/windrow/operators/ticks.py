"""Due ticks, and the columns of a lifetime."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windrow.types import POINT_MAX

Points = npt.NDArray[np.int64]

TS, EXP, UNTIL = "__ts", "__exp", "__until"
"""Columns of a lifetime, int64: when a row is born, when it leaves the state, and when it leaves the output (only where
a window is INTERNAL; elsewhere the two are the same)."""

NEVER = POINT_MAX
"""The `__exp` of a row that does not expire."""


@dataclass(frozen=True)
class DueTicks:
    """The ticks above `before` and up to `upto` that are due; both are ticks: `origin` plus a multiple of `step`.

    Rows born below `before` were processed by earlier ticks.
    """

    before: int
    upto: int
    step: int
    origin: int = 0

    def __post_init__(self) -> None:
        if self.step <= 0 or (self.before - self.origin) % self.step or (self.upto - self.origin) % self.step:
            raise ValueError("ticks are multiples of the step")
        if self.upto <= self.before:
            raise ValueError("no tick is due")

    @property
    def count(self) -> int:
        return (self.upto - self.before) // self.step

    @property
    def instants(self) -> DueTicks:
        """Every point of the same time as a tick: what came and went between two ticks is then seen."""
        return DueTicks(self.before, self.upto, 1)

    def first_above(self, points: Points) -> Points:
        """The first tick above each point: a row enters at that of its ts, and is gone at that of its exp."""
        with np.errstate(over="ignore"):
            found = (points - self.origin) // self.step * self.step + self.origin + self.step
        return np.where(points >= NEVER - self.step, NEVER, found)


MOST_PACKED = 1 << 62
"""A number that is packed with that of a tick stays below this."""


@dataclass(frozen=True)
class TickNumbers:
    """Ticks as numbers below `width`, in their order, to be packed with the number of a group or value. They count the
    ticks above `before`; where so many do not fit, after a long gap, they count the `levels`, the ticks that occur."""

    due: DueTicks
    levels: Points | None = None

    @staticmethod
    def of(due: DueTicks, ticks: Points, groups: int) -> TickNumbers:
        """Numbers for these ticks, to be packed with numbers of up to so many groups."""
        fits = (groups + 1) * (due.count + 2) < MOST_PACKED
        return TickNumbers(due, None if fits else np.unique(ticks))

    @property
    def width(self) -> int:
        return self.due.count + 2 if self.levels is None else self.levels.size + 1

    def at(self, ticks: Points) -> Points:
        """The number of each tick; of one that does not occur, that of the next one."""
        if self.levels is not None:
            return np.asarray(np.searchsorted(self.levels, ticks), np.int64)
        bounded = np.clip(ticks, self.due.before, self.due.upto + self.due.step)
        return np.asarray((bounded - self.due.before) // self.due.step, np.int64)

    def upto(self, ticks: Points) -> Points:
        """The number of each tick; of one that does not occur, that of the one before, or −1."""
        return self.at(ticks) if self.levels is None else np.searchsorted(self.levels, ticks, "right") - 1

    def ticks(self, numbers: Points) -> Points:
        """The ticks with these numbers."""
        return self.due.before + numbers * self.due.step if self.levels is None else self.levels[numbers]


@dataclass(frozen=True)
class OccupiedTicks:
    """Runs of ticks at which some window of a plan holds a tuple: starts[i] ≤ tick < stops[i], ascending, apart."""

    starts: Points
    stops: Points

    def has(self, ticks: Points) -> np.ndarray:
        """Which of the ticks are in a run."""
        if not self.starts.size:
            return np.zeros(ticks.size, bool)
        at = np.searchsorted(self.starts, ticks, side="right") - 1
        return np.asarray((at >= 0) & (ticks < self.stops[np.maximum(at, 0)]))

    @property
    def stop(self) -> int | None:
        """The tick after the last run."""
        return int(self.stops[-1]) if self.stops.size else None
