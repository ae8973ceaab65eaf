"""Unions of intervals, of many owners at once: when a row has a match, and when it has none.

    united: ∪ of an owner's intervals        gaps: what an owner's bounds have beside that

An interval is start ≤ tick < end. Everything is sorted runs and running maxima; no owner is looked at by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.operators.ticks import Points
from windrow.synopses.cells.arrays import Mask


@dataclass(frozen=True)
class Intervals:
    """Intervals by owner, a number from 0."""

    owner: Points
    start: Points
    end: Points

    def where(self, mask: Mask) -> Intervals:
        return Intervals(self.owner[mask], self.start[mask], self.end[mask])


def united(given: Intervals) -> Intervals:
    """The union of each owner's intervals, as few as possible: they neither overlap nor adjoin. By owner and start."""
    order = np.lexsort((given.start, given.owner))
    owner, start, end = given.owner[order], given.start[order], given.end[order]
    if not owner.size:
        return Intervals(owner, start, end)
    latest = running_max(end, owner)
    begins = np.ones(owner.size, bool)
    begins[1:] = (owner[1:] != owner[:-1]) | (start[1:] > latest[:-1])
    first = np.flatnonzero(begins)
    return Intervals(owner[first], start[first], latest[np.append(first[1:], owner.size) - 1])


def gaps(covered: Intervals, start: Points, end: Points) -> Intervals:
    """What is not covered of start[i] ≤ tick < end[i], for every owner i. `covered` is a union within these bounds."""
    every = np.arange(start.size)
    begin_owner, begin = np.append(every, covered.owner), np.append(start, covered.end)
    stop_owner, stop = np.append(covered.owner, every), np.append(covered.start, end)
    at, until = np.lexsort((begin, begin_owner)), np.lexsort((stop, stop_owner))
    found = Intervals(begin_owner[at], begin[at], stop[until])
    return found.where(found.start < found.end)


def running_max(values: Points, owner: Points) -> Points:
    """The greatest value of an owner so far; the owners ascend."""
    if not values.size:
        return values
    # Ranks keep the maximum within an owner: a higher owner has higher ranks.
    levels, rank = np.unique(values, return_inverse=True)
    number = np.cumsum(np.append(False, owner[1:] != owner[:-1]))
    running = np.maximum.accumulate(number * levels.size + rank)
    return np.asarray(levels[running - number * levels.size])


def sums_by_tick(ids: Points, ticks: Points, *amounts: Points) -> tuple[Points, Points, list[Points]]:
    """The sums of amounts by id and tick, in that order: the ids, the ticks, and each sum."""
    order = np.lexsort((ticks, ids))
    ids, ticks = ids[order], ticks[order]
    pairs = np.flatnonzero(np.append(True, (ids[1:] != ids[:-1]) | (ticks[1:] != ticks[:-1])))[: ids.size]
    return ids[pairs], ticks[pairs], [np.add.reduceat(one[order], pairs) if pairs.size else one for one in amounts]
