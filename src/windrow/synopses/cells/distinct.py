"""Distinct values and the index of each row's value, as np.unique with its inverse, but with less sorting."""

from __future__ import annotations

import numpy as np

from windrow.synopses.cells.arrays import Longs, run_starts


def distinct_in_runs(values: Longs) -> tuple[Longs, Longs]:
    """For values in runs, such as pane starts: sorts one value per run."""
    if not values.size:
        return values, values
    starts = run_starts(values)
    heads, inverse = np.unique(values[starts], return_inverse=True)
    lengths = np.diff(np.append(starts, values.size))
    return heads, np.repeat(inverse, lengths)


def distinct_below(values: Longs, bound: int) -> tuple[Longs, Longs]:
    """For 0 ≤ value < bound: marks values instead of sorting, unless the bound far exceeds the number of rows."""
    if bound > max(8 * values.size, 1 << 16):
        found, inverse = np.unique(values, return_inverse=True)
        return found, inverse
    used = np.zeros(bound, bool)
    used[values] = True
    index = np.cumsum(used) - 1
    return np.flatnonzero(used), index[values]
