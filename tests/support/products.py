"""Combines several folds into one, so that a test can compare all accumulators of a type in one synopsis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windrow.plan.accumulators import Accumulator
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import States
from windrow.synopses.cells.folds import Array, Fold, State, UfuncFold, adding


@dataclass(frozen=True)
class Together:
    """The product of folds: their columns one after another."""

    parts: tuple[Fold, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("a product of no folds")

    @property
    def dtypes(self) -> tuple[np.dtype[Any], ...]:
        return tuple(dtype for part in self.parts for dtype in part.dtypes)

    def split(self, state: Sequence[Array]) -> list[Sequence[Array]]:
        """Each part's own columns."""
        ends = np.cumsum([len(part.dtypes) for part in self.parts]).tolist()
        return [state[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def identity(self, shape: int | tuple[int, ...]) -> State:
        return tuple(column for part in self.parts for column in part.identity(shape))

    def reduce(self, state: Sequence[Array]) -> State:
        pairs = zip(self.parts, self.split(state), strict=True)
        return tuple(column for part, columns in pairs for column in part.reduce(columns))

    def merge_into(self, into: Sequence[Array], state: Sequence[Array]) -> None:
        for part, target, columns in zip(self.parts, self.split(into), self.split(state), strict=True):
            part.merge_into(target, columns)

    def scatter_into(self, into: Sequence[Array], at: Array, state: Sequence[Array]) -> None:
        for part, target, columns in zip(self.parts, self.split(into), self.split(state), strict=True):
            part.scatter_into(target, at, columns)


def added_up(accumulators: Sequence[Accumulator]) -> UfuncFold:
    """A product for sums of integers, which a running synopsis can subtract."""
    return adding(np.int64, len(fold_of_all(accumulators).dtypes))


def fold_of_all(accumulators: Sequence[Accumulator]) -> Together:
    return Together(tuple(fold_of(a) for a in accumulators))


def joined(accumulators: Iterable[Accumulator], states: States) -> State:
    """The states of the accumulators as one state, in their order."""
    return tuple(column for a in accumulators for column in states[a])


def parted(accumulators: Sequence[Accumulator], state: Sequence[Array]) -> States:
    """The inverse of `joined`."""
    split = fold_of_all(accumulators).split(state)
    return {a: tuple(columns) for a, columns in zip(accumulators, split, strict=True)}
