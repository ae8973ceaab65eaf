"""VARIANCE of integers from sums alone, so that a running synopsis serves it (004_65e36a58973a8297.txt, section 3.2).

    Σ(x − mean)² = (n·Σx² − (Σx)²) / n

The right side cancels, which in doubles would cost the answer its digits; here n, Σx and Σx² are exact integers, and
only the last division rounds. Values are of 32 bits; a square is kept as two limbs, high·2³² + low.
"""

from __future__ import annotations

import numpy as np

from windrow.synopses.cells.folds import Array, State, adding

POWERS = adding(np.int64, 4)
"""The fold of (n, Σx, Σ high limb of x², Σ low limb of x²)."""

_LIMIT = 1 << 31
_WIDE = 4294967296


def powers_of(values: Array) -> State:
    """The cells of single values, each |x| ≤ 2³¹."""
    x = np.asarray(values, np.int64)
    if x.size and not (-_LIMIT <= int(x.min()) and int(x.max()) <= _LIMIT):
        raise ValueError("only integers of 32 bits have squares that are kept exactly")
    square = x * x
    return np.ones(x.shape, np.int64), x, square >> 32, square & 0xFFFFFFFF


def variance_of(state: State, sample: bool = True) -> Array:
    """VARIANCE (or VAR_POP) as doubles; NaN where there are too few values for one."""
    n, total, high, low = (np.atleast_1d(column) for column in state)
    top = n.astype(object) * (high.astype(object) * _WIDE + low.astype(object)) - total.astype(object) ** 2
    bottom = n.astype(object) * (n - 1 if sample else n).astype(object)
    pairs = zip(top.ravel().tolist(), bottom.ravel().tolist(), strict=True)
    return np.array([t / b if b > 0 else np.nan for t, b in pairs]).reshape(n.shape)
