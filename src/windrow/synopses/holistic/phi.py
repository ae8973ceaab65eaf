"""φ, the parameter of QUANTILE, and the rank that it selects in a sorted window."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from windrow.synopses.cells.arrays import Longs


@dataclass(frozen=True)
class Phi:
    """A quantile's parameter, 0 ≤ φ ≤ 1, as the exact decimal in the query: ⌊0.29 · 100⌋ is 29 (28 in doubles)."""

    fraction: Fraction

    def __post_init__(self) -> None:
        if not 0 <= self.fraction <= 1:
            raise ValueError(f"a quantile has 0 ≤ φ ≤ 1, not {self.fraction}")
        if self.fraction.denominator > 10**9:
            raise ValueError(f"a quantile has at most nine digits, not {self.fraction}")

    @classmethod
    def of(cls, value: float | str) -> Phi:
        return cls(Fraction(str(value)))

    def rank(self, counts: Longs) -> Longs:
        """The rank max(1, ⌊φ·N⌋) for each count N."""
        return np.maximum(counts * self.fraction.numerator // self.fraction.denominator, 1)
