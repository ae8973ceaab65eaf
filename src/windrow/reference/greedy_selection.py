"""Selection of one rank from sorted arrays: the greedy algorithm of Arasu and Widom, VLDB 2004, section 3.3.

`greedy` is the paper's algorithm. `select_one` first guesses where the answer lies, and falls back on `greedy`. The
engine selects for many windows at once (`synopses/selection.py`); tests hold it equal to these.
"""

from __future__ import annotations

from bisect import insort

import numpy as np

from windrow.reference.metering import Meter
from windrow.synopses.cells.arrays import Longs

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
    """The element of a rank (from 1) among sorted arrays, none empty: the greedy algorithm, O(p · log p · log q).

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
