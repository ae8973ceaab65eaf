"""Cuts between panes: the union of the window edges of the queries that share a synopsis.

A window's edges are arithmetic progressions, so a set of cuts is a few pairs (period, phase). The pane of a point
starts at the greatest cut at or below the point. When queries come or go, the cuts change above some cut
(`CutSchedule`); panes below it stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from windrow.types import POINT_MIN
from windrow.windows.contexts import Points

Progression = tuple[int, int]


def _implied(finer: Progression, coarser: Progression) -> bool:
    """Whether every member of `coarser` is a member of `finer`."""
    return coarser[0] % finer[0] == 0 and (coarser[1] - finer[1]) % finer[0] == 0


def _grid(progressions: Iterable[Progression]) -> Progression:
    """The coarsest single progression that contains all of them."""
    items = list(progressions)
    period, phase = items[0]
    for other_period, other_phase in items[1:]:
        period = math.gcd(period, other_period, abs(other_phase - phase))
    return period, phase % period


@dataclass(frozen=True)
class Cuts:
    """A union of progressions in normal form.

    No progression contains another. They are replaced by one grid if its density is at most twice theirs.
    """

    progressions: tuple[Progression, ...]

    def __post_init__(self) -> None:
        if not self.progressions or any(p <= 0 or not 0 <= q < p for p, q in self.progressions):
            raise ValueError("cuts are progressions with 0 <= phase < period")

    @classmethod
    def of(cls, progressions: Iterable[Progression]) -> Cuts:
        kept: list[Progression] = []
        for item in sorted(set(progressions)):
            if not any(_implied(finer, item) for finer in kept):
                kept.append(item)
        grid = _grid(kept)
        if Fraction(1, grid[0]) <= 2 * sum(Fraction(1, p) for p, _ in kept):
            return cls((grid,))
        return cls(tuple(kept))

    def union(self, other: Cuts) -> Cuts:
        return Cuts.of(self.progressions + other.progressions)

    @property
    def density(self) -> Fraction:
        """Cuts per point: an upper bound, as a cut of several progressions counts several times."""
        return sum((Fraction(1, p) for p, _ in self.progressions), Fraction(0))

    @property
    def grid_density(self) -> Fraction:
        return Fraction(1, _grid(self.progressions)[0])

    def holds(self, other: Cuts) -> bool:
        """Whether every cut of `other` is a cut here."""
        return all(any(_implied(finer, item) for finer in self.progressions) for item in other.progressions)

    def floor(self, points: Points) -> Points:
        """The greatest cut at or below each point."""
        best: Points | None = None
        for period, phase in self.progressions:
            cut = points - (points - phase) % period
            best = cut if best is None else np.maximum(best, cut)
        assert best is not None
        return best

    def above(self, point: int) -> int:
        """The least cut above a point."""
        return min(point - (point - phase) % period + period for period, phase in self.progressions)

    def sql(self, point: str) -> str:
        """`floor` as a Spark SQL expression over a BIGINT expression."""
        terms = [
            f"({point} - pmod({point} - {phase}L, {period}L))" if phase else f"({point} - pmod({point}, {period}L))"
            for period, phase in self.progressions
        ]
        return terms[0] if len(terms) == 1 else f"greatest({', '.join(terms)})"


@dataclass(frozen=True)
class CutSchedule:
    """Cuts that change over time: each regime (first point, cuts) holds up to the first point of the next."""

    regimes: tuple[tuple[int, Cuts], ...]

    def __post_init__(self) -> None:
        starts = [start for start, _ in self.regimes]
        if not starts or starts != sorted(set(starts)):
            raise ValueError("regimes start at ascending points")

    @classmethod
    def of(cls, cuts: Cuts) -> CutSchedule:
        return cls(((POINT_MIN, cuts),))

    @property
    def current(self) -> Cuts:
        return self.regimes[-1][1]

    def moved(self, cuts: Cuts, greatest: int | None) -> CutSchedule:
        """The schedule with new cuts, which start at the first current cut above the greatest deposited point.

        The first point of a regime (such as a landmark) is always a cut too, and stays one.
        """
        if greatest is None:
            return CutSchedule(tuple((start, cuts) for start, _ in self.regimes))
        if cuts == self.current:
            return self
        start = self.first_free(greatest)
        kept = tuple(regime for regime in self.regimes if regime[0] < start)
        return CutSchedule((*kept, (start, cuts)))

    def first_free(self, greatest: int | None) -> int:
        """The first cut above the greatest deposited point: a new regime may start there."""
        if greatest is None:
            return POINT_MIN
        start, cuts = self.regimes[-1]
        return max(start, cuts.above(greatest))

    def pruned(self, frontier: int) -> CutSchedule:
        """The schedule without regimes that end at or below the frontier: no tuple can arrive in them."""
        keep = 0
        while keep + 1 < len(self.regimes) and self.regimes[keep + 1][0] <= frontier:
            keep += 1
        return CutSchedule(self.regimes[keep:])

    def holds_since(self, cuts: Cuts) -> int | None:
        """The point above which every cut of `cuts` is a cut here; None if the current regime lacks one."""
        since: int | None = None
        for start, regime in reversed(self.regimes):
            if not regime.holds(cuts):
                break
            since = start
        return since

    def pane_starts(self, points: Points) -> Points:
        """The start of each point's pane."""
        panes = self.regimes[0][1].floor(points)
        for start, cuts in self.regimes[1:]:
            panes = np.where(points < start, panes, np.maximum(cuts.floor(points), start))
        return panes

    def sql(self, point: str) -> str:
        """`pane_starts` as a Spark SQL expression over a BIGINT expression."""
        text = self.regimes[0][1].sql(point)
        for start, cuts in self.regimes[1:]:
            text = f"(CASE WHEN {point} < {start}L THEN {text} ELSE greatest({start}L, {cuts.sql(point)}) END)"
        return text


INCOMMENSURATE = 64
"""With more grid cuts per union cut than this, two sets of edges practically never meet."""


def why_not_share(present: Cuts, incoming: Cuts, cut_factor: int) -> str | None:
    """Why a query with cuts `incoming` may not share a synopsis with cuts `present`; None if it may.

    It may not if the union has more than `cut_factor` times the present cuts, or if the two sets hardly ever coincide
    (333 ms and 1 s): sharing then saves nothing, and every window of both covers more panes.
    """
    union = present.union(incoming)
    if union == present:
        return None
    if union.density > cut_factor * present.density:
        return f"together more than {cut_factor} times the window edges there were (cut_factor)"
    if union == incoming or union.grid_density <= INCOMMENSURATE * union.density:
        return None
    return "window edges that hardly ever meet"
