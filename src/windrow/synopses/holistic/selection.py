"""Selection from several sorted arrays: the element of a rank in their union (004_65e36a58973a8297.txt, section 3.3).

`greedy` is the document's, `select_one` tries a guess first, and `select` serves many askers at once. There each asker
has a row of arrays. A round takes a pivot from the largest array that is left, where the rank would be if
all arrays were alike, finds by bisection how many elements each array has up to the pivot, and keeps the side that
holds the rank; every third round the pivot is the middle, so a round in three halves the largest array whatever the
values. Equal values are told apart by array and place, so every round drops its pivot at least.
"""

from __future__ import annotations

from bisect import insort

import numpy as np

from windrow.synopses.cells.groups import AnyIds
from windrow.synopses.index.sequence import Longs
from windrow.synopses.metering import Meter


def select(values: AnyIds, begins: Longs, ends: Longs, ranks: Longs, meter: Meter | None = None) -> Longs:
    """For row i the element of ranks[i] (from 1) in the union of values[begins[i, j] : ends[i, j]], each sorted."""
    out = np.empty(ranks.size, np.int64)
    who, rank, low, high = np.arange(ranks.size), ranks.astype(np.int64), begins, ends
    turn = 0
    while who.size:
        row = np.arange(who.size)
        largest, place = _pivots(low, high, rank, turn)
        pivot = values[place]
        cut = _up_to(values, low, high, pivot, largest, meter)
        cut[row, largest] = place + 1
        before = (cut - low).sum(axis=1)
        hit, lower = before == rank, rank < before
        out[who[hit]] = pivot[hit]
        high = np.where(lower[:, None], cut, high)
        high[row[lower], largest[lower]] = place[lower]
        low = np.where(lower[:, None], low, cut)
        rank = np.where(lower, rank, rank - before)
        if hit.any():
            rest = np.flatnonzero(~hit)
            who, rank, low, high = who[rest], rank[rest], low[rest], high[rest]
        turn += 1
    return out


def count_below(values: AnyIds, begins: Longs, ends: Longs, bounds: Longs, meter: Meter | None = None) -> Longs:
    """For row i how many elements of all values[begins[i, j] : ends[i, j]], each sorted, are below bounds[i]."""
    nowhere = np.zeros(bounds.size, np.int64)
    return np.asarray((_up_to(values, begins, ends, bounds, nowhere, meter) - begins).sum(axis=1))


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
        # The second try aims past the rank, on the side that has more left: a hit on each side leaves little between.
        slack = 2.0 * np.sqrt(share * (1 - share) / size) if turn % 3 else 0.0
        inside = (size * (share + np.where(share < 0.5, slack, -slack))).astype(np.int64)
    return largest, low[row, largest] + np.clip(inside, 0, size - 1)


def _up_to(values: AnyIds, low: Longs, high: Longs, pivot: AnyIds, largest: Longs, meter: Meter | None) -> Longs:
    """For each array the place after its last element not beyond the pivot, which is in array `largest` of its row."""
    low, pivot = low.copy(), pivot[:, None]
    first = np.arange(low.shape[1]) < largest[:, None]
    step = 1 << int((high - low).max(initial=0)).bit_length() >> 1
    while step:
        beyond = low + step
        inside = beyond <= high
        value = values.take(beyond - 1, mode="clip")
        low += step * (((value < pivot) | ((value == pivot) & first)) & inside)
        step >>= 1
        if meter:
            meter.add(int(inside.sum()))
    return low


SLACK = 3.5
"""Standard deviations that the answer may be off its share: one lookup in two thousand needs the greedy way then."""

LAST = np.iinfo(np.int64).max
SMALL = 128
"""Arrays up to this size are taken whole: searching them costs more than partitioning what is not needed of them."""


def select_one(arrays: list[Longs], rank: int, meter: Meter | None = None) -> int:
    """The element of a rank (from 1) among sorted arrays, none empty.

    If the largest array is like the others, the answer is between two of its elements, around its share of the rank:
    what all arrays have between these, O(√W) elements, and all of the small ones, is partitioned, which takes less time
    than the greedy way's O(log² W · log log W) steps in Python. What is left out is below the one or above the other of
    the two: so what is found is right if it is between them. Else, or where it is too much, the greedy way finds it.
    """
    largest = max(arrays, key=len)
    size = largest.size
    share = (rank - 0.5) / sum(map(len, arrays))
    slack = SLACK * (share * (1 - share) * size) ** 0.5 + 1
    least = int(largest[max(int(share * size - slack), 0)])
    most = int(largest[min(int(share * size + slack), size - 1)])
    if most == LAST:
        return greedy(arrays, rank, meter)
    edges, before, between = np.array((least, most + 1)), 0, []
    for array in arrays:
        if array.size > SMALL:
            start, end = array.searchsorted(edges).tolist()
            before += start
            array = array[start:end]
        between.append(array)
    held = np.concatenate(between)
    if meter:
        meter.add(2 * sum(array.size.bit_length() for array in arrays) + held.size)
    if before < rank <= before + held.size and held.size <= 64 * (slack + len(arrays)) + 4 * SMALL:
        found = np.partition(held, rank - before - 1)[rank - before - 1]
        if least <= found <= most:
            return int(found)
    return greedy(arrays, rank, meter)


def greedy(arrays: list[Longs], rank: int, meter: Meter | None = None) -> int:
    """The element of a rank (from 1) among sorted arrays, none empty: 004's greedy algorithm, O(p · log p · log q).

    The arrays are kept in order of their middles. With c_i elements below the middle of array i, at least p − 1 + Σ c_i
    elements are not above the greatest middle, and as many as are not below the least one: so if rank > 1 + Σ c_i the
    lower half of the array with the least middle is below the answer, else the upper half of the array with the
    greatest middle is not needed. A step halves one array.
    """
    spans = [(0, len(a)) for a in arrays]
    order = sorted((int(a[(len(a) - 1) // 2]), i) for i, a in enumerate(arrays))
    below = sum((len(a) - 1) // 2 for a in arrays)
    while len(order) > 1:
        upper = rank > below + 1
        _, i = order.pop(0 if upper else -1)
        low, high = spans[i]
        middle = low + (high - low - 1) // 2
        below -= middle - low
        if upper:
            rank -= middle + 1 - low
            low = middle + 1
        else:
            high = middle
        spans[i] = low, high
        if low < high:
            below += (high - low - 1) // 2
            insort(order, (int(arrays[i][low + (high - low - 1) // 2]), i))
        if meter:
            meter.add(len(arrays).bit_length())
    i = order[0][1]
    return int(arrays[i][spans[i][0] + rank - 1])
