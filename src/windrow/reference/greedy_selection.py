"""Select the element of one rank from sorted arrays: the greedy algorithm of Arasu and Widom, VLDB 2004, section 3.3.

`greedy` is the paper's algorithm. `select_one` first guesses where the answer lies, and falls back on `greedy`. The
engine selects for many windows at once (`synopses/holistic/selection.py`); tests compare it with these.
"""

from __future__ import annotations

from bisect import insort

import numpy as np

from windrow.reference.metering import Meter
from windrow.synopses.index.sequence import Longs

SLACK = 3.5
"""How many standard deviations the answer may be off its share: one lookup in two thousand falls back on `greedy`."""

LAST = np.iinfo(np.int64).max
SMALL = 128
"""Arrays up to this size are taken whole: searching them costs more than partitioning their unneeded elements."""


def select_one(arrays: list[Longs], rank: int, meter: Meter | None = None) -> int:
    """The element of a rank (from 1) among sorted arrays, none empty.

    If the largest array is like the others, the answer lies between two of its elements, around its share of the rank.
    Only the elements between these two, O(√W) in all arrays, and all small arrays are partitioned, which takes less
    time than the O(log² W · log log W) steps of `greedy` in Python. All other elements are below the one or above the
    other, so a result between the two is right. Otherwise, or if there are too many elements, `greedy` finds it.
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

    The p arrays are ordered by their middles, and c_i is the number of elements before the middle of array i. At most
    Σ c_i elements are below the least middle: if rank > 1 + Σ c_i, the lower half of its array is below the answer. At
    least p − 1 + Σ c_i other elements are not above the greatest middle: if rank ≤ 1 + Σ c_i, the upper half of its
    array is not needed. Each step halves one array.
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
