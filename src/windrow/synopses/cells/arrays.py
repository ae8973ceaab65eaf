"""NumPy helpers: growing arrays, and runs of equal numbers."""

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


def run_starts(numbers: Longs) -> Longs:
    """The position where each run of equal numbers starts."""
    if not numbers.size:
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))


def place_in_run(numbers: Longs) -> Longs:
    """The place of each number in its run of equal numbers, from 0."""
    starts = run_starts(numbers)
    return np.arange(numbers.size) - np.repeat(starts, np.diff(np.append(starts, numbers.size)))
