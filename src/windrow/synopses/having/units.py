"""Weights in coarse units: what a collective index over cells counts where thresholds are large.

CI-SUM writes O(p·log a) entries for an element of value a (004_65e36a58973a8297.txt, section 4.2), most of them at
levels far below every threshold that is compared with. So a filter counts the multiples of 2^s that a substream passes
and nothing between them: one unit each, and cells that pass none cost nothing. Of the last v + 1 places of a substream,
at least ⌊(v + 1) / 2^s⌋ are such multiples, so nobody with more than v is missed; somebody named has at least 2^s times
one unit less than was asked for. With 2^s ≤ v / 16 that is an eighth more of error than ε: exact answers do not mind.
"""

from __future__ import annotations

import numpy as np

from windrow.synopses.cells.arrays import Longs, grown
from windrow.synopses.cells.groups import Ids
from windrow.synopses.having.collective_index import Levels
from windrow.synopses.having.filter_tests import FilterTest
from windrow.windows import Points

FINEST = 16
"""A threshold is at least so many units."""


def coarseness(test: FilterTest, exact: bool) -> int:
    """The s that a test can do with: 0 where its answers are not compared once more, or is asked who has little."""
    return max(0, (test.value // FINEST).bit_length() - 1) if exact and test.is_outer else 0


def level_of(test: FilterTest, levels: Levels, shift: int = 0) -> int:
    """The level of a collective index, over units of 2^shift, that a test reads."""
    if not test.is_outer:
        return levels.for_less_than(max(test.value, 1))
    return levels.for_more_than(test.value if not shift else ((test.value + 1) >> shift) - 1)


class Units:
    """How far into its present unit every substream is."""

    def __init__(self, shift: int):
        self.shift = shift
        self._rest: Longs = np.zeros(0, np.int64)

    def passed(self, panes: Points, groups: Ids, weights: Longs) -> Longs:
        """How many units each element completes; elements by pane, each group once in a pane."""
        if not self.shift or not weights.size:
            return weights
        self._rest = grown(self._rest, int(groups.max()) + 1)
        if panes[0] == panes[-1]:
            whole = self._rest[groups] + weights
            self._rest[groups] = whole & ((1 << self.shift) - 1)
            return np.asarray(whole >> self.shift)
        return self._passed_in_turn(groups, weights)

    def _passed_in_turn(self, groups: Ids, weights: Longs) -> Longs:
        order = np.argsort(groups, kind="stable")
        group, weight = groups[order], weights[order]
        first = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
        sums = np.cumsum(weight)
        before = np.repeat(sums[first] - weight[first], np.diff(np.append(first, group.size)))
        whole = self._rest[group] + sums - before
        last = np.append(first[1:], group.size) - 1
        self._rest[group[last]] = whole[last] & ((1 << self.shift) - 1)
        out = np.empty_like(weights)
        out[order] = (whole >> self.shift) - ((whole - weight) >> self.shift)
        return out
