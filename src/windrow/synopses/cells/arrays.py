"""Helpers for NumPy arrays: room for more elements, and many ranges of indices at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from windrow.synopses.cells.folds import Array

Longs = npt.NDArray[np.int64]


def grown(array: Array, size: int, fill: int = 0) -> Array:
    """The array with room for `size`: itself, or a copy at least twice as large."""
    if size <= len(array):
        return array
    larger = np.full((max(size, 2 * len(array)), *array.shape[1:]), fill, array.dtype)
    larger[: len(array)] = array
    return larger


def ranges(starts: Longs, sizes: Longs) -> Longs:
    """starts[0], starts[0] + 1, …, for sizes[0] of them, then those of starts[1], and so on."""
    offsets = np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray(np.repeat(starts, sizes) + offsets)
