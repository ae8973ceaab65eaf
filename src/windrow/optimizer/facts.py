"""What is measured of streams, for rules that estimate; and what is assumed where nothing is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from windrow.optimizer.samples import ValueSample
from windrow.types import SqlType

K = TypeVar("K")
V = TypeVar("V")

ROWS_PER_VALUE = 10.0
"""Assumed: so many tuples of a window have the same value of a column."""

SELECTIVITY_EQUAL, SELECTIVITY_OTHER = 0.1, 1 / 3
"""Assumed: the fraction of tuples that an equality with a constant, or another condition, lets pass."""

UNBOUNDED_WINDOWS = 100.0
"""Assumed: an unbounded window holds so many times the tuples of the plan's longest bounded one."""


def _frozen(values: Mapping[K, V]) -> Mapping[K, V]:
    return MappingProxyType(dict(values))


@dataclass(frozen=True)
class StreamFacts:
    """`rate`: tuples per point of the window attribute (per microsecond, for timestamps); None: not measured.

    `distinct`: distinct values of a column, or of a Spark SQL expression over the stream's columns, among the tuples of
    a window. `selectivity`: the fraction of tuples that pass a condition, by its Spark SQL. `samples`: values of a
    column, or of those of its tuples that pass a condition (`sampled`).
    """

    rate: float | None = None
    distinct: Mapping[str, float] = field(default_factory=dict)
    selectivity: Mapping[str, float] = field(default_factory=dict)
    samples: Mapping[str, ValueSample] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.rate is not None and self.rate < 0:
            raise ValueError("a rate is not negative")
        object.__setattr__(self, "distinct", _frozen(self.distinct))
        object.__setattr__(self, "selectivity", _frozen(self.selectivity))
        object.__setattr__(self, "samples", _frozen(self.samples))

    def saved(self) -> dict[str, Any]:
        found = {"rate": self.rate, "distinct": dict(self.distinct), "selectivity": dict(self.selectivity)}
        return found | {"samples": {name: sample.saved() for name, sample in self.samples.items()}}

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> StreamFacts:
        samples = {name: ValueSample.restored(sample) for name, sample in saved.get("samples", {}).items()}
        return cls(saved["rate"], saved["distinct"], saved["selectivity"], samples)

    def rate_of(self, point: SqlType) -> float:
        """The rate; assumed where it is not measured: 1,000 tuples per second, or one per integer."""
        if self.rate is not None:
            return self.rate
        return 1e-3 if point.is_timestamp else 1.0


def sampled(sql: str, predicate: str | None = None) -> str:
    """The name of the sample of a column, among all tuples or among those that pass a condition."""
    return sql if predicate is None else f"{sql} WHERE {predicate}"


Facts = Mapping[str, StreamFacts]
"""By stream; nothing is measured of a stream that is missing."""

NOTHING_MEASURED: Facts = MappingProxyType({})
