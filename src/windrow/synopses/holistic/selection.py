"""Selects the element of a rank in the union of several sorted arrays (Arasu and Widom, VLDB 2004, section 3.3).

`select` answers many requests at once, each with a row of arrays. A round takes a pivot from the largest remaining
array, at the place where the rank would be if all arrays were alike. It finds by bisection how many elements of each
array are up to the pivot, and keeps the side that holds the rank. Every third round takes the middle as pivot, so the
largest array is halved every third round for any values. Equal values are ordered by array and place, so every round
drops at least its pivot.
"""

from __future__ import annotations

import numpy as np

from windrow.synopses.cells.arrays import Longs
from windrow.synopses.cells.groups import AnyIds


def select(values: AnyIds, begins: Longs, ends: Longs, ranks: Longs) -> Longs:
    """For row i the element of ranks[i] (from 1) in the union of values[begins[i, j] : ends[i, j]], each sorted."""
    out = np.empty(ranks.size, np.int64)
    left, rank, low, high = np.arange(ranks.size), ranks.astype(np.int64), begins, ends
    turn = 0
    while left.size:
        row = np.arange(left.size)
        largest, place = _pivots(low, high, rank, turn)
        pivot = values[place]
        cut = _up_to(values, low, high, pivot, largest)
        cut[row, largest] = place + 1
        before = (cut - low).sum(axis=1)
        hit, lower = before == rank, rank < before
        out[left[hit]] = pivot[hit]
        high = np.where(lower[:, None], cut, high)
        high[row[lower], largest[lower]] = place[lower]
        low = np.where(lower[:, None], low, cut)
        rank = np.where(lower, rank, rank - before)
        if hit.any():
            rest = np.flatnonzero(~hit)
            left, rank, low, high = left[rest], rank[rest], low[rest], high[rest]
        turn += 1
    return out


def count_below(values: AnyIds, begins: Longs, ends: Longs, bounds: Longs) -> Longs:
    """For row i the number of elements below bounds[i] in all values[begins[i, j] : ends[i, j]], each sorted."""
    nowhere = np.zeros(bounds.size, np.int64)
    return np.asarray((_up_to(values, begins, ends, bounds, nowhere) - begins).sum(axis=1))


def _pivots(low: Longs, high: Longs, rank: Longs, turn: int) -> tuple[Longs, Longs]:
    """The largest array of each row, and a place in it."""
    sizes = high - low
    largest = sizes.argmax(axis=1)
    row = np.arange(rank.size)
    size, total = sizes[row, largest], sizes.sum(axis=1)
    if turn % 3 == 2:
        inside = size >> 1
    else:
        share = (rank - 0.5) / total
        # The second round aims past the rank, towards the larger side: a pivot on either side leaves few elements.
        slack = 2.0 * np.sqrt(share * (1 - share) / size) if turn % 3 else 0.0
        inside = (size * (share + np.where(share < 0.5, slack, -slack))).astype(np.int64)
    return largest, low[row, largest] + np.clip(inside, 0, size - 1)


def _up_to(values: AnyIds, low: Longs, high: Longs, pivot: AnyIds, largest: Longs) -> Longs:
    """For each array the place after its last element up to the pivot, which is from array `largest` of its row."""
    low, pivot = low.copy(), pivot[:, None]
    first = np.arange(low.shape[1]) < largest[:, None]
    step = 1 << int((high - low).max(initial=0)).bit_length() >> 1
    while step:
        beyond = low + step
        inside = beyond <= high
        value = values.take(beyond - 1, mode="clip")
        low += step * (((value < pivot) | ((value == pivot) & first)) & inside)
        step >>= 1
    return low
