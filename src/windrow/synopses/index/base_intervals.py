"""Base intervals: [2^ℓ·i, 2^ℓ·(i + 1)) is node i of level ℓ (Arasu and Widom, VLDB 2004, section 3.1.1).

An interval [low, high) is the disjoint union of at most two of them a level, all inside it (Theorem 3.1). At each level
it gives up a first node that is a right child, and a last node that is a left child; what remains is whole pairs, which
are the nodes of the next level. The decomposition stands here in three forms: of one interval, of many that are dropped
as they end, and of many side by side.

A heap holds the nodes over a ring of C cells, a power of two: level ℓ is C/2^ℓ slots from C/2^ℓ on. So slot h has the
children 2h and 2h + 1, the parent h >> 1 and the sibling h ^ 1; slot 0 is no node.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from windrow.synopses.cells.groups import Ids
from windrow.synopses.index.sequence import Longs

_FLIPPED = np.array([[-1], [0]])


def base_intervals(low: int, high: int, slots: int) -> Iterator[int]:
    """The base intervals of [low, high), from the cells up, as slots of a heap over a ring of so many cells."""
    while low < high:
        if low & 1:
            yield (low & (slots - 1)) | slots
        if high & 1:
            yield ((high - 1) & (slots - 1)) | slots
        low, high, slots = (low + 1) >> 1, high >> 1, slots >> 1


def base_intervals_of(low: Ids, high: Ids) -> Iterator[tuple[int, int, Ids, Ids]]:
    """The base intervals of many intervals, from the cells up, as (level, side, which, nodes).

    Interval which[i] has nodes[i] of the level; side 0 is its left end, 1 its right, with at most one node each.
    """
    which, level = np.arange(low.size), 0
    while which.size:
        live = low < high
        if not live.all():
            low, high, which = low[live], high[live], which[live]
        for side, (nodes, ends) in enumerate(((low, low), (high - 1, high))):
            taken = np.flatnonzero(ends & 1)
            if taken.size:
                yield level, side, which[taken], nodes[taken]
        low, high, level = (low + 1) >> 1, high >> 1, level + 1


def heap_slots_of(low: Longs, high: Longs, slots: int) -> Iterator[Longs]:
    """The base intervals of many intervals, from the cells up: of each level two rows of slots of a
    heap, for the left end and the right; 0 where there is none. The array is used again for the next level.

    Both ends are taken as exclusive. Below the level where their ways to the root meet, the left end passes a base
    interval, its right sibling, where its bit of that level is 0, and the right end its left sibling where that is 1.
    """
    ends = np.empty((2, low.size), np.int64)
    np.add(low, slots - 1, out=ends[0])
    np.add(high, slots, out=ends[1])
    meet = np.frexp((ends[0] ^ ends[1]).astype(np.float64))[1].astype(np.int64) - 1
    bits = (ends ^ _FLIPPED) & ((1 << meet) - 1)
    at = (ends & (slots - 1)) | slots
    passed, taken = np.empty_like(at), np.empty_like(at)
    for _ in range(int(np.maximum.reduce(bits, axis=None)).bit_length()):
        np.bitwise_and(bits, 1, out=taken)
        np.bitwise_xor(at, 1, out=passed)
        passed *= taken
        yield passed
        at >>= 1
        bits >>= 1
