"""Samples of the values of a column, by which it is estimated how the tuples of two streams meet.

A sample has the values with the smallest hashes, and how many tuples have each. Equal values have equal hashes, so a
value that two streams have is in both samples or, beyond the smaller of their bounds, in neither: the samples are
*coordinated*. With fᵢ(v) the share of stream i's tuples that have the value v, and θ the smaller bound,

    Σ_v f₁(v) f₂(v)  ≈  Σ over values v with hash below θ of f₁(v) f₂(v) / θ

estimates which part of all pairs of tuples are equal. Counts of distinct values alone cannot tell: streams may have few
values in common, or many tuples with a few values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp
from types import MappingProxyType
from typing import Any

MOST_VALUES = 64
"""So many values a sample has at most."""

LEAST_VALUES = 8
"""From fewer values below the smaller bound nothing is concluded, unless these are all values."""


@dataclass(frozen=True)
class ValueSample:
    """`counts`: by its hash, how many of `rows` tuples have a value. `bound`: the part of all hashes, the smallest
    ones, of which every value is there."""

    counts: Mapping[int, int] = field(repr=False)
    bound: float
    rows: int

    def __post_init__(self) -> None:
        if not (0 < self.bound <= 1 and self.rows > 0):
            raise ValueError("a sample has tuples, and a bound between 0 and 1")
        object.__setattr__(self, "counts", MappingProxyType(dict(self.counts)))

    def saved(self) -> dict[str, Any]:
        return {"counts": [list(one) for one in self.counts.items()], "bound": self.bound, "rows": self.rows}

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> ValueSample:
        return cls(dict(saved["counts"]), saved["bound"], saved["rows"])

    def share(self, value: int) -> float:
        """The part of the tuples that have the value with this hash."""
        return self.counts.get(value, 0) / self.rows


def meeting(one: ValueSample, other: ValueSample) -> float | None:
    """The part of all pairs of tuples that have equal values; None if the samples are too small to tell."""
    values, bound = _common(one, other), min(one.bound, other.bound)
    if not values:
        return None
    return sum(one.share(value) * other.share(value) for value in values if value in other.counts) / bound


def matched(one: ValueSample, other: ValueSample) -> float | None:
    """The part of one stream's tuples whose value the other has; None if the samples are too small to tell."""
    values = _common(one, other)
    every = sum(one.counts[value] for value in values)
    return sum(one.counts[value] for value in values if value in other.counts) / every if every else None


def firsts(one: ValueSample, other: ValueSample, live: float) -> float | None:
    """How often a new tuple of the other stream, of which so many are alive, has a value that no other live one has,
    times the part of the first stream's tuples that have that value; None if the samples are too small to tell."""
    values = _common(one, other)
    if not values:
        return None
    shares = ((one.share(value), other.share(value)) for value in values)
    return sum(mine * theirs * exp(-live * theirs) for mine, theirs in shares) / min(one.bound, other.bound)


def _common(one: ValueSample, other: ValueSample) -> list[int]:
    """The values of the first that would be in the sample of the second if that had them; none if these are too few."""
    bound = min(one.bound, other.bound)
    found = [value for value in one.counts if value < bound * 2.0**64]
    return found if bound == 1.0 or len(found) >= LEAST_VALUES else []
