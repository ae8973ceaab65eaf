"""NumPy helpers: growing arrays, and many ranges of indices at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from windrow.synopses.cells.folds import Array

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def grown(array: Array, size: int, fill: int = 0) -> Array:
    """The array itself if it has room for `size` elements, else a copy at least twice as large."""
    if size <= len(array):
        return array
    larger = np.full((max(size, 2 * len(array)), *array.shape[1:]), fill, array.dtype)
    larger[: len(array)] = array
    return larger


def ranges(starts: Longs, sizes: Longs) -> Longs:
    """The ranges [starts[i], starts[i] + sizes[i]), one after another."""
    offsets = np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray(np.repeat(starts, sizes) + offsets)
