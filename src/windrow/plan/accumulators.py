"""Accumulators: the mergeable parts that aggregates are computed from (Golab's dissertation, section 2.3.4).

AVG is SUM and COUNT; VARIANCE is (n, mean, M2). Two queries share an accumulator if kind, argument and condition are
the same text. This room defines accumulators; `synopses/` merges their states.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import cached_property
from typing import Any

from windrow.types import SqlType


class Kind(Enum):
    COUNT = "count"
    SUM_INT = "sum of 32-bit integers"
    SUM_LONG = "sum of 64-bit integers"
    SUM_DOUBLE = "sum of finite doubles"
    SUM_DECIMAL = "sum of decimals"
    LEAST = "least"
    GREATEST = "greatest"
    MOMENTS = "moments"
    HLL = "sketch of distinct values"
    KLL = "sketch of quantiles"
    FREQUENT = "sketch of frequent items"


@dataclass(frozen=True)
class Accumulator:
    """One mergeable value per cell. `arg` and `condition` are Spark SQL over the stream's columns.

    A row counts if the condition is true and the argument is not NULL. `arg` None (COUNT only) counts every row.
    `every_n` is set if the condition is that the row number is a multiple of it.
    """

    kind: Kind
    arg: str | None
    type: SqlType | None
    condition: str | None
    every_n: int | None = None

    def __post_init__(self) -> None:
        if (self.arg is None) != (self.type is None):
            raise ValueError("an argument has a type")
        if self.arg is None and self.kind is not Kind.COUNT:
            raise ValueError("only COUNT has no argument")
        # Every tick looks up thousands of accumulators, so the hash is computed once.
        object.__setattr__(self, "_hash", hash((self.kind.name, self.arg, self.type, self.condition)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Construct it again when unpickled: strings have other hashes in another process."""
        return Accumulator, (self.kind, self.arg, self.type, self.condition, self.every_n)

    def __hash__(self) -> int:
        return int(self._hash)  # type: ignore[attr-defined]

    @cached_property
    def id(self) -> str:
        """The stable name of the accumulator's columns in blocks: equal text gives equal names."""
        text = "\x00".join((self.kind.name, self.arg or "", str(self.type or ""), self.condition or ""))
        return hashlib.sha1(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Key:
    """A grouping expression: of GROUP BY, or an expression whose values a holistic aggregate counts."""

    sql: str
    type: SqlType


Parameter = int | Decimal
"""A constant argument of an aggregate: k, or φ as the exact decimal in the text."""


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate in a query: its accumulators by role, and its result type.

    A holistic aggregate is computed from the counts of its `values`, so its accumulators are kept per value.
    """

    function: str
    result: SqlType
    parts: tuple[tuple[str, Accumulator], ...]
    values: tuple[Key, ...] = ()
    parameters: tuple[Parameter, ...] = ()

    def part(self, role: str) -> Accumulator:
        return dict(self.parts)[role]
