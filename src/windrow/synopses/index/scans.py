"""Running merges along cells: out[i] = merge(cells[0], …, cells[i]).

NumPy has them for sums, minima and maxima. For any other fold, cells are merged in pairs and the pairs are scanned;
the scan of a pair is the result at its second cell. That takes fewer than two merges per cell, all vectorised.
"""

from __future__ import annotations

from collections.abc import Sequence

from windrow.synopses.cells.folds import Array, Fold, State, UfuncFold


def running_merges(fold: Fold, state: Sequence[Array]) -> State:
    """Running merges along the first axis; does not change `state`."""
    if isinstance(fold, UfuncFold):
        return tuple(fold.ufunc.accumulate(column, axis=0) for column in state)
    return _by_pairs(fold, state)


def _by_pairs(fold: Fold, state: Sequence[Array]) -> State:
    out = tuple(column.copy() for column in state)
    if len(out[0]) < 2:
        return out
    odd = [column[1::2] for column in out]
    fold.merge_into(odd, [column[0::2][: len(odd[0])] for column in state])
    scanned = _by_pairs(fold, odd)
    for target, column in zip(odd, scanned, strict=True):
        target[...] = column
    even = [column[2::2] for column in out]
    fold.merge_into(even, [column[: len(even[0])] for column in scanned])
    return out
