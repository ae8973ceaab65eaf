"""Running merges along cells: out[i] = merge(cells[0], …, cells[i]).

Sums, minima and maxima have NumPy's own. For any other fold cells are merged in pairs, the pairs are scanned, and
each odd place is the scan of its pair: fewer than two merges a cell, all vectorised.
"""

from __future__ import annotations

from collections.abc import Sequence

from windrow.synopses.cells.folds import Array, Fold, State, UfuncFold


def running_merges(fold: Fold, state: Sequence[Array]) -> State:
    """Along the first axis; the state given is left as it is."""
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
