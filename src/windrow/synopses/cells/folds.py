"""Folds: how the cells of a synopsis are merged, vectorised over groups.

A fold's state is a tuple of arrays, its columns. Every fold is commutative and associative with an identity, so cells
may be merged in any order and grouping. Panes and synopses rely on that.

    merge(a, identity) = a          merge(a, merge(b, c)) = merge(merge(a, b), c)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
State = tuple[Array, ...]


class Fold(Protocol):
    """The merge of one accumulator."""

    @property
    def dtypes(self) -> tuple[np.dtype[Any], ...]: ...

    def identity(self, shape: int | tuple[int, ...]) -> State:
        """A state that leaves any state unchanged when merged."""
        ...

    def reduce(self, state: Sequence[Array]) -> State:
        """Merge along the first axis, the panes."""
        ...

    def merge_into(self, into: Sequence[Array], state: Sequence[Array]) -> None:
        """into ← merge(into, state), element by element, in place."""
        ...

    def scatter_into(self, into: Sequence[Array], at: Array, state: Sequence[Array]) -> None:
        """into[at[i]] ← merge(into[at[i]], state[i]) for every i; indices may repeat."""
        ...


_INT_MIN, _INT_MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class UfuncFold:
    """Sums, counts, minima and maxima: one ufunc on every column."""

    ufunc: np.ufunc
    neutral: object
    dtypes: tuple[np.dtype[Any], ...]

    def identity(self, shape: int | tuple[int, ...]) -> State:
        return tuple(np.full(shape, self.neutral, dtype) for dtype in self.dtypes)

    def reduce(self, state: Sequence[Array]) -> State:
        return tuple(self.ufunc.reduce(column, axis=0) for column in state)

    def merge_into(self, into: Sequence[Array], state: Sequence[Array]) -> None:
        for target, column in zip(into, state, strict=True):
            self.ufunc(target, column, out=target)

    def scatter_into(self, into: Sequence[Array], at: Array, state: Sequence[Array]) -> None:
        for target, column in zip(into, state, strict=True):
            self.ufunc.at(target, at, column)


def adding(dtype: type[np.generic], columns: int = 1) -> UfuncFold:
    return UfuncFold(np.add, 0, (np.dtype(dtype),) * columns)


LEAST = UfuncFold(np.minimum, _INT_MAX, (np.dtype(np.int64),))
GREATEST = UfuncFold(np.maximum, _INT_MIN, (np.dtype(np.int64),))


class _Top:
    """Above every value: the identity of a minimum over values without a greatest one."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return True

    def __le__(self, other: object) -> bool:
        return other is self

    def __ge__(self, other: object) -> bool:
        return True


class _Bottom:
    """Below every value: the identity of a maximum."""

    def __lt__(self, other: object) -> bool:
        return True

    def __gt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return True

    def __ge__(self, other: object) -> bool:
        return other is self


TOP, BOTTOM = _Top(), _Bottom()
LEAST_OBJECT = UfuncFold(np.minimum, TOP, (np.dtype(object),))
GREATEST_OBJECT = UfuncFold(np.maximum, BOTTOM, (np.dtype(object),))
"""For strings (as UTF-8 bytes, which is Spark's order), binaries and wide decimals, which no int64 can encode."""


@dataclass(frozen=True)
class MomentsFold:
    """(n, mean, M2) for VARIANCE and STDDEV, merged without cancellation.

    n = Σ nᵢ    mean = Σ nᵢ·meanᵢ / n    M2 = Σ M2ᵢ + Σ nᵢ·(meanᵢ − mean)²

    The mean is computed relative to a pivot, one of the meanᵢ. So equal means give that mean to the last bit, and a
    spread of exactly zero.
    """

    dtypes: tuple[np.dtype[Any], ...] = (np.dtype(np.float64),) * 3

    def identity(self, shape: int | tuple[int, ...]) -> State:
        return tuple(np.zeros(shape, dtype) for dtype in self.dtypes)

    def reduce(self, state: Sequence[Array]) -> State:
        n, mean, m2 = state
        total = n.sum(axis=0)
        pivot = np.where(n > 0, mean, -np.inf).max(axis=0)
        pivot = np.where(total > 0, pivot, 0.0)
        centre = pivot + _pull(_ratio(n, np.broadcast_to(total, n.shape)), mean, pivot).sum(axis=0)
        return total, centre, m2.sum(axis=0) + _spread(n, mean, centre).sum(axis=0)

    def merge_into(self, into: Sequence[Array], state: Sequence[Array]) -> None:
        merged = self.reduce([np.stack((a, b)) for a, b in zip(into, state, strict=True)])
        for target, column in zip(into, merged, strict=True):
            target[...] = column

    def scatter_into(self, into: Sequence[Array], at: Array, state: Sequence[Array]) -> None:
        n, mean, m2 = state
        size = into[0].shape[0]
        total = np.bincount(at, n, size)
        pivot = np.zeros(size)
        pivot[at[n > 0]] = mean[n > 0]
        centre = pivot + np.bincount(at, _pull(_ratio(n, total[at]), mean, pivot[at]), size)
        spread = np.bincount(at, m2 + _spread(n, mean, centre[at]), size)
        self.merge_into(into, (total, centre, spread))


def _pull(share: Array, mean: Array, pivot: Array) -> Array:
    """share·(mean − pivot), in a form that does not overflow if the two are far apart."""
    return np.asarray(share * mean - share * pivot)


def _spread(n: Array, mean: Array, centre: Array) -> Array:
    """n·(mean − centre)², and 0 where n is 0: a far centre squared is infinite, and 0·∞ is NaN."""
    with np.errstate(over="ignore"):
        return np.asarray(n * np.where(n > 0, mean - centre, 0.0) ** 2)


def _ratio(top: Array, bottom: Array) -> Array:
    return np.divide(top, bottom, out=np.zeros_like(top, dtype=np.float64), where=bottom != 0)


MOMENTS = MomentsFold()
