"""The partial results that a query keeps of its window, each of one run of panes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from windrow.engine.isolation.interface import Partial


@dataclass(frozen=True)
class KeptPartial:
    """The partial result of the points from `lo` to below `hi`."""

    lo: int
    hi: int
    value: Partial

    @property
    def nbytes(self) -> int:
        """The memory that it takes, if it says so."""
        return int(getattr(self.value, "nbytes", 0) or 0)


def split_at(intervals: Iterable[tuple[int, int]], cuts: Iterable[int]) -> list[tuple[int, int]]:
    """The intervals, in pieces between the cuts."""
    points = sorted(set(cuts))
    pieces = list[tuple[int, int]]()
    for lo, hi in intervals:
        inner = points[bisect_right(points, lo) : bisect_left(points, hi)]
        pieces += pairwise([lo, *inner, hi])
    return pieces


class KeptPartials:
    """Disjoint runs of one window. A run of which a part has left the window is dropped whole, and what is left of it
    is read again: rows below the instant do not change, so that may be done at any time."""

    def __init__(self) -> None:
        self._runs: list[KeptPartial] = []

    def leave(self, low: int) -> None:
        """Drop the runs that begin below the window."""
        self._runs = [run for run in self._runs if run.lo >= low]

    def add(self, lo: int, hi: int, value: Partial) -> None:
        self._runs.append(KeptPartial(lo, hi, value))

    def gaps(self, intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """What of these intervals is in no run: disjoint, in order, adjacent ones as one."""
        missing: list[tuple[int, int]] = []
        held = sorted((run.lo, run.hi) for run in self._runs)
        for lo, hi in sorted(intervals):
            at = lo
            for start, end in held:
                if end <= at or start >= hi:
                    continue
                if start > at:
                    missing.append((at, start))
                at = max(at, end)
            if at < hi:
                missing.append((at, hi))
        joined: list[tuple[int, int]] = []
        for lo, hi in missing:
            if joined and joined[-1][1] >= lo:
                joined[-1] = (joined[-1][0], max(hi, joined[-1][1]))
            else:
                joined.append((lo, hi))
        return joined

    @property
    def values(self) -> list[Any]:
        """The partial results, oldest first."""
        return [run.value for run in sorted(self._runs, key=lambda run: run.lo)]

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self._runs)
