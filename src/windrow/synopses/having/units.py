"""Coarse units: a collective index counts weights in units of 2^s where thresholds are large.

CI-SUM writes O(p·log a) entries for an element of value a (Arasu and Widom, VLDB 2004, section 4.2), most of them at
levels far below every threshold in use. So a filter counts only the multiples of 2^s that the sum of a substream
passes, one unit each; cells that pass none cost nothing. The last v + 1 places of a substream hold at least
⌊(v + 1) / 2^s⌋ such multiples, so no group with more than v is missed. A group that is found may have up to two units
less than ε allows. With 2^s ≤ v / 16 this adds an eighth to the error, which does not change exact answers.
"""

from __future__ import annotations

import numpy as np

from windrow.synopses.cells.arrays import Longs, grown, run_starts
from windrow.synopses.cells.groups import Ids
from windrow.synopses.having.collective_index import Levels
from windrow.synopses.having.filter_tests import FilterTest
from windrow.windows import Points

FINEST = 16
"""A threshold is at least this many units."""


def coarseness(test: FilterTest, exact: bool) -> int:
    """The largest s that a test allows; 0 if its answers are not compared again, or if it is an upper bound."""
    return max(0, (test.value // FINEST).bit_length() - 1) if exact and test.is_outer else 0


def level_of(test: FilterTest, levels: Levels, shift: int = 0) -> int:
    """The level that a test reads in a collective index over units of 2^shift."""
    if not test.is_outer:
        return levels.for_less_than(max(test.value, 1))
    return levels.for_more_than(test.value if not shift else ((test.value + 1) >> shift) - 1)


class Units:
    """The part of its present unit that every substream has filled."""

    def __init__(self, shift: int):
        self.shift = shift
        self._rest: Longs = np.zeros(0, np.int64)

    def passed(self, panes: Points, groups: Ids, weights: Longs) -> Longs:
        """The units that each element completes. Elements come by pane; a group occurs once in a pane."""
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
        first = run_starts(group)
        sums = np.cumsum(weight)
        before = np.repeat(sums[first] - weight[first], np.diff(np.append(first, group.size)))
        whole = self._rest[group] + sums - before
        last = np.append(first[1:], group.size) - 1
        self._rest[group[last]] = whole[last] & ((1 << self.shift) - 1)
        out = np.empty_like(weights)
        out[order] = (whole >> self.shift) - ((whole - weight) >> self.shift)
        return out
