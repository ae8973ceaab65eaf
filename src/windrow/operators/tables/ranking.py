"""The first rows of every tick.

    first(t) = the first `limit` rows, in their order, of those with low ≤ t < high

A row is there for a run of ticks, which is a union of base intervals: at most two per level. Of the rows that are there
for a whole base interval only the first `limit` can matter, and the two halves of an interval inherit them. So the work
grows with rows times levels and with ticks times `limit`, not with rows times ticks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windrow.operators.ticks import Points
from windrow.synopses.cells.arrays import run_starts
from windrow.synopses.index.base_intervals import base_intervals_of


@dataclass(frozen=True)
class Ranked:
    """Rows at ticks, by tick and then in their order: the number of the tick, the row, and how many times it counts."""

    tick: Points
    row: Points
    count: Points

    def of(self, rows: Points) -> Ranked:
        """The same, where row i is rows[i]."""
        return Ranked(self.tick, rows[self.row], self.count)

    def moved(self, ticks: int) -> Ranked:
        """The same, so many ticks later."""
        return Ranked(self.tick + ticks, self.row, self.count)

    def at(self, tick: int) -> Ranked:
        """The rows of one tick."""
        here = self.tick == tick
        return Ranked(self.tick[here], self.row[here], self.count[here])


NOTHING = Ranked(*(np.zeros(0, np.int64) for _ in range(3)))


def joined(parts: Sequence[Ranked]) -> Ranked:
    """All of them."""
    return Ranked(*(np.concatenate([getattr(one, name) for one in parts]) for name in ("tick", "row", "count")))


def first_rows(low: Points, high: Points, counts: Points, ticks: int, limit: int) -> Ranked:
    """The first rows of the ticks 0 … ticks − 1. Row i stands i-th in the order, is there at low[i] ≤ t < high[i], and
    counts as counts[i] equal rows."""
    counts = np.minimum(counts, limit)
    own: dict[int, list[tuple[Points, Points]]] = {}
    for level, _, which, nodes in base_intervals_of(low, high):
        own.setdefault(level, []).append((nodes, which))
    node, row = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for level in range(max(own, default=0), -1, -1):
        found = own.get(level, [])
        node = np.concatenate([2 * node, 2 * node + 1, *(nodes for nodes, _ in found)])
        row = np.concatenate([row, row, *(which for _, which in found)])
        inside = node << level < ticks
        node, row = node[inside], row[inside]
        order = np.lexsort((row, node))
        node, row = node[order], row[order]
        kept = _before(node, counts[row]) < limit
        node, row = node[kept], row[kept]
    return Ranked(node, row, np.minimum(counts[row], limit - _before(node, counts[row])))


def _before(runs: Points, counts: Points) -> Points:
    """How many rows stand before each in its run."""
    total = np.cumsum(counts) - counts
    starts = run_starts(runs)
    return np.asarray(total - np.repeat(total[starts], np.diff(np.append(starts, runs.size))))


def differences(now: Ranked, before: Ranked, ticks: int) -> Ranked:
    """What changes from each of the ticks to the next: how many more (or, below zero, fewer) of a row it has than the
    one before it. The first tick is compared with `before`, the rows of the tick before it."""
    ending = now.tick < ticks - 1
    tick = np.concatenate([now.tick, now.tick[ending] + 1, np.zeros(before.tick.size, np.int64)])
    row = np.concatenate([now.row, now.row[ending], before.row])
    count = np.concatenate([now.count, -now.count[ending], -before.count])
    order = np.lexsort((row, tick))
    tick, row, count = tick[order], row[order], count[order]
    starts = np.flatnonzero(np.concatenate(([True], (tick[1:] != tick[:-1]) | (row[1:] != row[:-1])))[: tick.size])
    sums = np.add.reduceat(count, starts) if starts.size else count
    kept = sums != 0
    return Ranked(tick[starts][kept], row[starts][kept], sums[kept])
