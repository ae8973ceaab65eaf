"""Baselines for the synopses: PSoup's tree and the two extremes, in NumPy, for many inputs at a time.

Arasu and Widom, VLDB 2004, sections 3.1.3 and 6.1. Each has `update(values)` and `lookup(sizes)`; a size is the number
of elements of a suffix window.
"""

from __future__ import annotations

import numpy as np

from windrow.synopses.cells.folds import Fold
from windrow.synopses.index.sequence import checked


class PSoupTree:
    """A search tree over the last elements, for any fold: each leaf is an element, each inner node the merge of its
    leaves.

    A new leaf replaces an expired one, and every node on its path to the root is recomputed. A lookup walks from the
    root to both ends of the window. Both are O(log N_max) per element or lookup.
    """

    def __init__(self, fold: Fold, span: int):
        self._fold, self._span, self._length = fold, span, 0
        self._slots = 1 << span.bit_length()
        self._tree = fold.identity(2 * self._slots)

    def update(self, values: np.ndarray) -> None:
        for start in range(0, values.size, self._span):
            part = values[start : start + self._span]
            number = np.arange(self._length, self._length + part.size)
            self._length += part.size
            at = self._slots + (number & (self._slots - 1))
            for tree in self._tree:
                tree[at] = part
            while at[0] > 1:
                at >>= 1
                node = [tree.take(2 * at) for tree in self._tree]
                self._fold.merge_into(node, [tree.take(2 * at + 1) for tree in self._tree])
                for tree, column in zip(self._tree, node, strict=True):
                    tree[at] = column

    def lookup(self, sizes: np.ndarray) -> np.ndarray:
        """Walk from the root to both ends, level by level, and merge the subtrees between them."""
        first = max(self._length - self._span, 0)
        low, high = checked(self._length - sizes, np.full(sizes.size, self._length), first, self._length)
        ends = np.stack((low - 1, high)) + self._slots
        meet = np.frexp((ends[0] ^ ends[1]).astype(np.float64))[1].astype(np.int64) - 1
        bits = (ends ^ np.array([[-1], [0]])) & ((1 << meet) - 1)
        leaf = (ends & (self._slots - 1)) | self._slots
        sides = self._fold.identity(ends.shape)
        for level in range(self._slots.bit_length() - 2, -1, -1):
            at = ((leaf >> level) ^ 1) * ((bits >> level) & 1)
            self._fold.merge_into(sides, [tree.take(at) for tree in self._tree])
        return self._fold.reduce(sides)[0]


class MaterialiseAll:
    """The answer of every operator, updated with every element; a lookup reads it."""

    def __init__(self, span: int):
        self._sizes = np.arange(span + 1)
        self._answers = np.zeros(span + 1, np.int64)
        self._values = np.zeros(span, np.int64)

    def update(self, values: np.ndarray) -> None:
        """Operator n gains the new element and loses the one n before it, giving one row of answers per element."""
        for start in range(0, values.size, 250):
            part = values[start : start + 250]
            joined = np.concatenate((self._values, part))
            number = np.arange(self._values.size, joined.size)
            change = part[:, None] - joined[number[:, None] - self._sizes]
            self._answers = (self._answers + np.cumsum(change, axis=0))[-1]
            self._values = joined[part.size :]

    def lookup(self, sizes: np.ndarray) -> np.ndarray:
        return self._answers[sizes]


class MaterialiseNone:
    """The elements themselves; a lookup adds up its window."""

    def __init__(self, span: int):
        self._values = np.zeros(span, np.int64)

    def update(self, values: np.ndarray) -> None:
        joined = np.concatenate((self._values, values))
        self._values = joined[-self._values.size :]

    def lookup(self, sizes: np.ndarray) -> np.ndarray:
        ends = np.full(sizes.size, self._values.size)
        pairs = np.stack((ends - sizes, ends), axis=1).ravel()
        totals = np.add.reduceat(np.append(self._values, 0), pairs)[0::2]
        return np.where(sizes > 0, totals, 0)
