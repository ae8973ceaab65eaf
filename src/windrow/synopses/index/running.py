"""R-INT, the running synopsis: subtractable aggregates in O(1) (004_65e36a58973a8297.txt, section 3.2, Figure 6).

A running interval begins with the stream. Kept are f(1, r) for the last span + 1 values of r, in a ring:

    UPDATE    f(1, m + 1) = f(1, m) + f(a)            LOOKUP    f[low, high) = f(1, high) − f(1, low)

That is right only where a sum has an exact inverse. Integers have it, modulo 2⁶⁴: a running sum may wrap, and the
difference is the window's own sum all the same. So COUNT, and SUM and AVG of integers and of decimals (in limbs)
are served. Doubles are refused: their differences would keep the rounding of everything since the stream began, and
one great value would stay for good, where DESIGN 5 (Values) wants 1e-9 of the window itself. They go to B-INT
(`interval.py`), which only adds what is in the window.
"""

from __future__ import annotations

import numpy as np

from windrow.synopses.cells.folds import Array, Fold, State, UfuncFold
from windrow.synopses.cells.groups import Ids
from windrow.synopses.index.sequence import Longs, check_active, check_span, checked, power_of_two


def is_subtractable(fold: Fold) -> bool:
    """Whether g(X₂ − X₁) follows exactly from g(X₁) and g(X₂), X₁ ⊆ X₂: sums of integers do (004, section 3.2)."""
    return isinstance(fold, UfuncFold) and fold.ufunc is np.add and all(d.kind == "i" for d in fold.dtypes)


def sums_before(column: Array, axis: int = 0) -> Longs:
    """Running sums along an axis, one more than there are values: the i-th is the sum of the first i."""
    shape = list(column.shape)
    shape[axis] += 1
    sums = np.zeros(shape, np.int64)
    after = (slice(None),) * axis + (slice(1, None),)
    np.cumsum(column, axis=axis, out=sums[after])
    return sums


def differences(sums: Array, lows: Ids, highs: Ids, out: Array) -> None:
    """out[i] ← sums[highs[i]] − sums[lows[i]], along the first axis: what is between, for running sums."""
    np.subtract(rows_at(sums, highs), rows_at(sums, lows), out=out)


def rows_at(table: Array, at: Ids) -> Array:
    """The rows at these indices: a view where they are evenly spaced, as windows without gaps are, or all the same.

    Single values are quicker copied than compared.
    """
    if at.size > 1 and table.ndim > 1:
        step = int(at[1] - at[0])
        if step >= 0 and int(at[-1]) == int(at[0]) + step * (at.size - 1) and (np.diff(at) == step).all():
            return table[int(at[0]) : int(at[-1]) + 1 : step or 1]
    return np.take(table, at, axis=0)


class RunningSynopsis:
    """Running sums in a ring. `shape` is that of one cell: () for one value, (groups,) for all groups at once."""

    kind = "running"

    def __init__(self, fold: Fold, span: int, shape: tuple[int, ...] = ()):
        if not is_subtractable(fold):
            raise ValueError("only exact sums can be subtracted: use an interval synopsis")
        self.span = check_span(span)
        self.length = 0
        self._mask = power_of_two(span + 1) - 1
        self._sums = fold.identity((self._mask + 1, *shape))

    @property
    def first(self) -> int:
        return max(self.length - self.span, 0)

    @property
    def size(self) -> int:
        return sum(column.size for column in self._sums)

    def update(self, cells: State) -> None:
        """Append cells: columns of the fold, a row per cell."""
        count = len(cells[0])
        before, self.length = self.length, self.length + count
        for sums, column in zip(self._sums, cells, strict=True):
            running = np.add.accumulate(column, axis=0, dtype=sums.dtype)
            running += sums[before & self._mask]
            self._put(sums, running[-(self._mask + 1) :])

    def _put(self, sums: Array, newest: Array) -> None:
        """The newest sums at the end of the ring, which is at `length`."""
        first = (self.length - len(newest) + 1) & self._mask
        straight = min(len(newest), self._mask + 1 - first)
        sums[first : first + straight] = newest[:straight]
        sums[: len(newest) - straight] = newest[straight:]

    def lookup(self, lows: Ids, highs: Ids) -> State:
        low, high = checked(lows, highs, self.first, self.length)
        first, last = low & self._mask, high & self._mask
        found = tuple(np.empty((low.size, *sums.shape[1:]), sums.dtype) for sums in self._sums)
        for sums, out in zip(self._sums, found, strict=True):
            differences(sums, first, last, out)
        return found

    def lookup_one(self, low: int, high: int) -> State:
        check_active(low, high, self.first, self.length)
        first, last = low & self._mask, high & self._mask
        with np.errstate(over="ignore"):
            return tuple(np.asarray(sums[last] - sums[first]) for sums in self._sums)
