"""Slide-by-tuple windows in one pass over disordered tuples (Li et al., SIGMOD 2005, section 6, Figures 4–6).

    windows(T) = { w | t ∈ T, w = t.RATTR }        extent(w) = { u ∈ T | w − RANGE < u.RATTR ≤ w }

A tuple at s has a *start bin* at s, the first extent it is in, and an *end bin* at s + RANGE, the first one after
it that it is not in. A bin's partial aggregate holds for every extent from its own window id up to the next bin's,
so a new bin starts with what the bin at or below it has. No tuple is kept and none is seen twice.

This is the reference for distributive and algebraic aggregates: clear rather than fast. Figure 6 is read with these
changes: end bins go to E; bins below a punctuation are purged, but for the newest, which later bins start from; and
a bin starts from the one *at* its window id if there is one, an end bin of a tuple just RANGE older or a start bin of
an equal value. So RATTR values may repeat: one window for each distinct value, with all tuples that have it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

V = TypeVar("V")
P = TypeVar("P")


@dataclass(frozen=True)
class Aggregate(Generic[V, P]):
    """The value of an empty extent, and the update of a partial aggregate by one tuple's value.

    `update` returns the new partial aggregate and leaves the old one as it is: bins share it.
    """

    init: P
    update: Callable[[P, V], P]


@dataclass
class Bin(Generic[P]):
    """`tup_cnt` is the number of all tuples so far at or below the bin's window id, expired ones too."""

    pa: P
    tup_cnt: int


@dataclass
class StartBin(Bin[P]):
    """The bin of a window: `ties` tuples have its value; `row_num` is one of theirs, one that SLIDE divides if any."""

    row_num: int
    ties: int = 0


class SlideByTupleBins(Generic[V, P]):
    """`[RANGE r SLIDE n ROWS]` for one aggregate; with n = 1 slide-by-tuple windows (6.1.2), else a variation (6.1.3).

    Over "row", a value is a window if a tuple that has it has a row number (from 1, in order of arrival) that n
    divides; over "rank", if one has such a rank in order of (value, row number).
    """

    def __init__(
        self, range_: int, aggregate: Aggregate[V, P], slide: int = 1, over: Literal["row", "rank"] = "row"
    ) -> None:
        if range_ <= 0 or slide <= 0:
            raise ValueError("RANGE and SLIDE are positive")
        self.range = range_
        self.aggregate = aggregate
        self.slide = slide
        self.over = over
        self.initialise()

    def initialise(self) -> None:
        """Only the init bin, at −∞: what extents before all tuples hold."""
        self.S: dict[int, StartBin[P]] = {}
        self.E: dict[float, Bin[P]] = {-math.inf: Bin(self.aggregate.init, 0)}
        self._wids: list[float] = [-math.inf]  # of S ∪ E, ascending
        self._rows = 0
        self._promised = -math.inf

    def process_tuple(self, t: int, value: V) -> None:
        """Take a tuple at t, in any order at or above the last punctuation."""
        if t < self._promised:
            raise ValueError(f"a tuple at {t} comes after the punctuation {self._promised}")
        self._rows += 1
        self._add_start(t)
        self._add_end(t + self.range)
        for wid in self._wids[bisect_left(self._wids, t) :]:
            for bin_ in self._bins(wid):
                bin_.tup_cnt += 1
                if wid < t + self.range:
                    bin_.pa = self.aggregate.update(bin_.pa, value)
        self.S[t].ties += 1

    def process_punctuation(self, p: float) -> list[tuple[int, P]]:
        """No more tuples below p (∞: at the end of input). The windows that are now complete, by window id.

        Of the bins below p only the newest stays, as an end bin, and only where no bin is at p itself: later tuples
        are at p or above, and no other one can be what they start from.
        """
        if p <= self._promised:
            return []
        self._promised = p
        due = [int(w) for w in self._wids[: bisect_left(self._wids, p)] if w in self.S]
        emitted = [(w, self.S[w].pa) for w in due if self._is_window(self.S[w])]
        newest = bisect_right(self._wids, p) - 1
        stays = self._bins(self._wids[newest])[0]
        if self._wids[newest] < p:
            self.E[self._wids[newest]] = Bin(stays.pa, stays.tup_cnt)
        for w in due:
            del self.S[w]
        for wid in self._wids[:newest]:
            self.E.pop(wid, None)
        del self._wids[:newest]
        return emitted

    def _add_start(self, wid: int) -> None:
        if wid not in self.S:
            split = self._at_or_below(wid)
            self._know(wid)
            self.S[wid] = StartBin(split.pa, split.tup_cnt, self._rows)
        elif self._rows % self.slide == 0:
            self.S[wid].row_num = self._rows

    def _add_end(self, wid: int) -> None:
        if wid not in self.E:
            split = self._at_or_below(wid)
            self._know(wid)
            self.E[wid] = Bin(split.pa, split.tup_cnt)

    def _know(self, wid: int) -> None:
        if wid not in self.S and wid not in self.E:
            insort(self._wids, wid)

    def _at_or_below(self, wid: int) -> Bin[P]:
        """The bin that a new one at `wid` starts from."""
        return self._bins(self._wids[bisect_right(self._wids, wid) - 1])[0]

    def _bins(self, wid: float) -> list[Bin[P]]:
        """The start bin and the end bin at a window id, whichever there are: both hold the same."""
        found: list[Bin[P]] = []
        if wid in self.S:
            found.append(self.S[int(wid)])
        if wid in self.E:
            found.append(self.E[wid])
        return found

    def _is_window(self, bin_: StartBin[P]) -> bool:
        """Whether SLIDE divides the row number, or one of the ranks, of the tuples that have this value."""
        if self.over == "row":
            return bin_.row_num % self.slide == 0
        return bin_.tup_cnt // self.slide > (bin_.tup_cnt - bin_.ties) // self.slide
