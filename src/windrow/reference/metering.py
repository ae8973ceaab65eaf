"""Count the operations of a synopsis, so that tests can check the bounds of Arasu and Widom, VLDB 2004, Figure 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windrow.synopses.cells.folds import Array, Fold, State


@dataclass
class Meter:
    """The operations since the last `read`: merges, subtractions, comparisons, entries written or read."""

    operations: int = 0

    def add(self, operations: int) -> None:
        self.operations += operations

    def read(self) -> int:
        """Return the count and reset it."""
        counted, self.operations = self.operations, 0
        return counted


@dataclass(frozen=True)
class MeteredFold:
    """A fold that counts the values that it merges."""

    fold: Fold
    meter: Meter

    @property
    def dtypes(self) -> tuple[np.dtype[Any], ...]:
        return self.fold.dtypes

    def identity(self, shape: int | tuple[int, ...]) -> State:
        return self.fold.identity(shape)

    def reduce(self, state: Sequence[Array]) -> State:
        self.meter.add(max(state[0].size - state[0][:1].size, 0))
        return self.fold.reduce(state)

    def merge_into(self, into: Sequence[Array], state: Sequence[Array]) -> None:
        self.meter.add(into[0].size)
        self.fold.merge_into(into, state)

    def scatter_into(self, into: Sequence[Array], at: Array, state: Sequence[Array]) -> None:
        self.meter.add(len(at))
        self.fold.scatter_into(into, at, state)
