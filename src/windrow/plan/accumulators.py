"""Accumulators: the distributive parts that an aggregate is computed from (001_3bbbc8a20ffc7252.txt, 2.3.4).

AVG is SUM and COUNT; VARIANCE is (n, mean, M2). Two queries share an accumulator when kind, argument and
condition are the same text. This room says *what* they are; `synopses/` says how cells are merged.
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

    Rows count where the condition is true and the argument is not null; `arg` None (COUNT only) takes
    every row. `every_n`: the condition is that the row number is a multiple of it.
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
        # Accumulators are looked up by the thousand at every tick: their hash is computed once.
        object.__setattr__(self, "_hash", hash((self.kind.name, self.arg, self.type, self.condition)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Made anew in another process, where text has another hash."""
        return Accumulator, (self.kind, self.arg, self.type, self.condition, self.every_n)

    def __hash__(self) -> int:
        return int(self._hash)  # type: ignore[attr-defined]

    @cached_property
    def id(self) -> str:
        """A stable name for the accumulator's columns in blocks: the same text gives the same name."""
        text = "\x00".join((self.kind.name, self.arg or "", str(self.type or ""), self.condition or ""))
        return hashlib.sha1(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Key:
    """A grouping expression: of GROUP BY, or what a holistic aggregate counts the values of."""

    sql: str
    type: SqlType


Parameter = int | Decimal
"""A constant that an aggregate takes: k, or φ as the exact decimal that was written."""


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate of a select list: its accumulators by role, and its result type.

    A holistic one is computed from how often each of its `values` occurs, so its accumulators are kept per value.
    """

    function: str
    result: SqlType
    parts: tuple[tuple[str, Accumulator], ...]
    values: tuple[Key, ...] = ()
    parameters: tuple[Parameter, ...] = ()

    def part(self, role: str) -> Accumulator:
        return dict(self.parts)[role]
