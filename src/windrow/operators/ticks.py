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

    def first_above(self, points: Points) -> Points:
        """The first tick above each point: a row enters at that of its ts, and is gone at that of its exp."""
        with np.errstate(over="ignore"):
            found = (points - self.origin) // self.step * self.step + self.origin + self.step
        return np.where(points >= NEVER - self.step, NEVER, found)


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
