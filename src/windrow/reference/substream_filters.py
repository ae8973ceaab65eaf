"""SubStream Filters over elements (Arasu and Widom, VLDB 2004, section 4).

One filter answers GROUP BY k HAVING COUNT(*) > v, or SUM(x) > v over positive x, for any v and any window. A collective
index returns a superset of the keys that pass. For exact answers (the default) the substreams of these keys decide. For
approximate answers the index decides alone: a key passes if it meets the relaxed range, more than v·(1 − ε) or less
than v / (1 − ε). All values are integers, so ≥ v is > v − 1 and ≤ v is < v + 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.plan.having import Comparison
from windrow.reference.metering import Meter
from windrow.reference.substreams import Substreams
from windrow.synopses.cells.groups import Ids
from windrow.synopses.having.collective_index import CollectiveIndex, Levels
from windrow.synopses.index.sequence import Longs, Mask
from windrow.windows import Points


@dataclass(frozen=True)
class Range:
    """A one-sided range condition on an aggregate."""

    comparison: Comparison
    value: int

    @property
    def is_lower(self) -> bool:
        """Whether the range is (v, ∞)."""
        return self.comparison.is_lower

    @property
    def open_end(self) -> int:
        """The v of (v, ∞) or (0, v)."""
        return self.value + {Comparison.AT_LEAST: -1, Comparison.AT_MOST: 1}.get(self.comparison, 0)

    def holds(self, values: Longs) -> Mask:
        return np.asarray(values > self.open_end if self.is_lower else values < self.open_end)


@dataclass(frozen=True)
class Passing:
    """The keys that pass, ascending, and their aggregates (None if the answer is approximate)."""

    keys: Ids
    values: Longs | None


class SubstreamFilter:
    """COUNT over the substreams, or SUM of positive integers if `summed`, over suffix windows within the reach."""

    def __init__(self, levels: Levels, reach: int, summed: bool = False, meter: Meter | None = None):
        self.index = CollectiveIndex(levels, reach)
        self.substreams = Substreams(reach, meter)
        self.summed = summed

    @property
    def size(self) -> int:
        return self.index.size + self.substreams.size

    def update(self, keys: Ids, stamps: Points, weights: Longs | None = None) -> None:
        """Append elements with ascending stamps. A key is an id of `Groups`; SUM needs the weights."""
        if self.summed != (weights is not None):
            raise ValueError("sums need weights" if self.summed else "counts have no weights")
        self.index.update(keys, stamps, weights)
        self.substreams.update(keys, stamps, weights)

    def update_one(self, key: int, stamp: int) -> None:
        """One element of a count."""
        self.index.update_one(key, stamp)
        self.substreams.update_one(key, stamp)

    def lookup(self, range_: Range, since: int, exact: bool = True) -> Passing:
        """The keys whose aggregate over the elements with stamp > since is in the range (τ − T for S[T, 0] at τ).

        Only keys with such an element can pass: a group without a tuple has no row.
        """
        found = np.sort(self._candidates(range_, since))
        if not exact:
            return Passing(found, None)
        values = self.substreams.sums(found, since) if self.summed else self.substreams.counts(found, since)
        passed = range_.holds(values)
        return Passing(found[passed], values[passed])

    def _candidates(self, range_: Range, since: int) -> Ids:
        end = range_.open_end
        if range_.is_lower:
            return self.index.more_than(max(end, 0), since)
        return self.index.less_than(end, since) if end > 0 else np.zeros(0, np.int64)
