"""Slide-by-tuple windows in one pass over disordered tuples (Li et al., SIGMOD 2005, section 6, Figures 4–6).

    windows(T) = { w | t ∈ T, w = t.RATTR }        extent(w) = { u ∈ T | w − RANGE < u.RATTR ≤ w }

A tuple at s has a *start bin* at s, the first extent that contains it, and an *end bin* at s + RANGE, the first later
extent that does not. A bin's partial aggregate holds for every extent from its own window id up to the next bin, so a
new bin starts with the partial aggregate of the bin at or below it. No tuple is kept and none is read twice.

It serves distributive and algebraic aggregates, and is clear rather than fast. It differs from Figure 6 in three ways:
end bins go to E; bins below a punctuation are purged, except the newest, from which later bins start; and a bin starts
from the bin *at* its window id if there is one (the end bin of a tuple exactly RANGE older, or the start bin of an
equal value). So RATTR values may repeat: there is one window per distinct value, with all tuples of that value.
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

    `update` returns the new partial aggregate and does not change the old one, which bins share.
    """

    init: P
    update: Callable[[P, V], P]


@dataclass
class Bin(Generic[P]):
    """`tup_cnt` is the number of all tuples so far at or below the bin's window id, including expired ones."""

    pa: P
    tup_cnt: int


@dataclass
class StartBin(Bin[P]):
    """The bin of a window. `ties` tuples have its value; `row_num` belongs to one, divisible by SLIDE if possible."""

    row_num: int
    ties: int = 0


class SlideByTupleBins(Generic[V, P]):
    """`[RANGE r SLIDE n ROWS]` for one aggregate: section 6.1.2 if n = 1, else a variation of section 6.1.3.

    Over "row", a value is a window id if one of its tuples has a row number (from 1, in order of arrival) divisible by
    n. Over "rank", if one of its tuples has a rank divisible by n in the order of (value, row number).
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
        """Start with only the init bin at −∞, which holds the extents before all tuples."""
        self.S: dict[int, StartBin[P]] = {}
        self.E: dict[float, Bin[P]] = {-math.inf: Bin(self.aggregate.init, 0)}
        self._wids: list[float] = [-math.inf]  # of S ∪ E, ascending
        self._rows = 0
        self._promised = -math.inf

    def process_tuple(self, t: int, value: V) -> None:
        """Add a tuple at t, which is at or above the last punctuation; tuples come in any order."""
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
        """No more tuples below p (∞ at the end of the input). Returns the windows that are now complete, by window id.

        Only the newest bin below p stays, as an end bin, and only if there is no bin at p itself: later tuples are at p
        or above, so no bin starts from another one.
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
        """The existing ones of the start bin and the end bin at a window id; they have the same contents."""
        found: list[Bin[P]] = []
        if wid in self.S:
            found.append(self.S[int(wid)])
        if wid in self.E:
            found.append(self.E[wid])
        return found

    def _is_window(self, bin_: StartBin[P]) -> bool:
        """Whether a row number, or a rank, of the tuples with this value is divisible by SLIDE."""
        if self.over == "row":
            return bin_.row_num % self.slide == 0
        return bin_.tup_cnt // self.slide > (bin_.tup_cnt - bin_.ties) // self.slide
