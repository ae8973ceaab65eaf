"""Frequency counters over base intervals of panes: exact COUNT DISTINCT, TOP_K and QUANTILE over group totals.

Golab's dissertation, sections 2.3.4 and 8.3.1: an interval synopsis whose intervals hold frequency counters. A cell is
one pane: the count, or the total weight, of each value of each group. The counters of a window are added up once, and
every aggregate with any parameter is read from the sum (rule CS1).

Groups and values are dense ids (`synopses/cells/groups.py`), packed into one key. If the order of values matters (for
ties and quantiles), `order[id]` is the rank of a value; without `order` the ids are the ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.reference.metering import Meter
from windrow.synopses.cells.arrays import Longs, place_in_run, run_starts
from windrow.synopses.cells.groups import Ids
from windrow.synopses.having.tables import TableIntervals
from windrow.synopses.holistic.phi import Phi
from windrow.synopses.index.sequence import check_span

_BITS = 32


@dataclass(frozen=True)
class Frequencies:
    """The count (or total weight) of each value of each group. The packed keys are distinct and ascend."""

    packed: Longs
    counts: Longs

    @classmethod
    def of(cls, groups: Ids, values: Ids, weights: Longs | None = None) -> Frequencies:
        """Build from single tuples; without `weights`, count them."""
        for ids in (groups, values):
            if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < 1 << (_BITS - 1):
                raise ValueError("ids of groups and values are dense, from 0")
        counts = np.ones(values.size, np.int64) if weights is None else np.asarray(weights, np.int64)
        return _summed((groups << _BITS) | values, counts)

    @property
    def groups(self) -> Ids:
        return self.packed >> _BITS

    @property
    def values(self) -> Ids:
        return self.packed & ((1 << _BITS) - 1)

    def count_distinct(self) -> tuple[Ids, Longs]:
        """Each group and its number of distinct values."""
        starts = run_starts(self.groups)
        return self.groups[starts], np.diff(np.append(starts, self.packed.size))

    def top_k(self, k: int, order: Longs | None = None) -> tuple[Ids, Ids, Longs]:
        """(group, value, count) of each group's k greatest counts, greatest first; ties by the value."""
        if k < 1:
            raise ValueError(f"a list has at least one place, not {k}")
        at = np.lexsort((self._rank(order), -self.counts, self.groups))
        at = at[place_in_run(self.groups) < k]
        return self.groups[at], self.values[at], self.counts[at]

    def quantile(self, phi: Phi, order: Longs | None = None) -> tuple[Ids, Ids]:
        """Each group and the value at position max(1, ⌊φ·N⌋), where each value occurs as often as its count."""
        at = np.lexsort((self._rank(order), self.groups))
        return self._position(phi, at, self.counts[at])

    def quantile_of_totals(self, phi: Phi, order: Longs | None = None) -> tuple[Ids, Ids]:
        """Each group and the value whose total is at position max(1, ⌊φ·D⌋) of its D totals; ties by the value."""
        at = np.lexsort((self._rank(order), self.counts, self.groups))
        return self._position(phi, at, np.ones(at.size, np.int64))

    def _position(self, phi: Phi, at: Longs, weights: Longs) -> tuple[Ids, Ids]:
        starts = run_starts(self.groups)
        if not starts.size:
            return self.groups, self.values
        upto = np.cumsum(weights)
        before = upto[starts] - weights[starts]
        rank = phi.rank(np.add.reduceat(weights, starts))
        found = at[np.searchsorted(upto, before + rank)]
        return self.groups[found], self.values[found]

    def _rank(self, order: Longs | None) -> Longs:
        return self.values if order is None else order[self.values]


def added(parts: list[Frequencies]) -> Frequencies:
    """The sum of several tables of counters."""
    if len(parts) == 1:
        return parts[0]
    packed = [part.packed for part in parts] or [np.zeros(0, np.int64)]
    counts = [part.counts for part in parts] or [np.zeros(0, np.int64)]
    return _summed(np.concatenate(packed), np.concatenate(counts))


def _summed(packed: Longs, counts: Longs) -> Frequencies:
    order = np.argsort(packed, kind="stable")  # a stable sort is fast, as merged tables are sorted runs
    packed, counts = packed[order], counts[order]
    starts = run_starts(packed)
    return Frequencies(packed[starts], np.add.reduceat(counts, starts) if starts.size else counts)


class FrequencySynopsis:
    """Counters of the last `span` panes, for lookups of any interval of them."""

    kind = "frequency"

    def __init__(self, span: int, meter: Meter | None = None):
        self.span = check_span(span)
        self._tree = TableIntervals(self._merged)
        self._meter = meter

    @property
    def length(self) -> int:
        return self._tree.length

    @property
    def first(self) -> int:
        return self._tree.first

    @property
    def size(self) -> int:
        return 2 * sum(table.packed.size for table in self._tree.tables())

    def _merged(self, left: Frequencies, right: Frequencies) -> Frequencies:
        if self._meter:
            self._meter.add(1)
        return added([left, right])

    def update(self, cells: list[Frequencies]) -> None:
        """Append panes, oldest first."""
        for cell in cells:
            self._tree.append(cell)
            self._tree.forget(self._tree.length - self.span)

    def lookup(self, lows: Ids, highs: Ids) -> list[Frequencies]:
        return [self.lookup_one(low, high) for low, high in zip(lows.tolist(), highs.tolist(), strict=True)]

    def lookup_one(self, low: int, high: int) -> Frequencies:
        parts = self._tree.parts(low, high)
        if self._meter:
            self._meter.add(len(parts))
        return added(parts)
