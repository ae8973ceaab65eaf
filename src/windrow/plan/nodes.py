"""Logical plans: frozen nodes that refuse illegal values.

A periodic query is Scan → Selection → WindowAggregate → Finalise. Expressions below the aggregate are Spark SQL text
over the stream's columns; above it they are trees over `k0…` (group keys) and `a0…` (aggregates).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from windrow.plan.accumulators import Accumulator, AggregateCall, Kind
from windrow.plan.accumulators import Key as Key
from windrow.types import SqlType
from windrow.windows import PartitionedWindow, SlideByTuple, SlideOver, Window

ROW_NUM = "#row-num"
"""The name of the axis of row numbers; no unquoted column can have it."""


@dataclass(frozen=True)
class Attribute:
    """The axis of a window: a punctuated column of the stream, or its row numbers."""

    column: str
    type: SqlType

    def __post_init__(self) -> None:
        if not self.type.is_window_attribute:
            raise ValueError(f"{self.type} cannot be a window attribute")

    @property
    def is_rows(self) -> bool:
        return self.column == ROW_NUM

    def __str__(self) -> str:
        return "row number" if self.is_rows else self.column


ROW_COLUMN, RANK_COLUMN = "__row", "__rank"
"""Columns of a micro-batch: a tuple's row number, and its rank in its partition."""

ROWS_AXIS = Attribute(ROW_NUM, SqlType("BIGINT"))


@dataclass(frozen=True)
class Scan:
    stream: str
    attribute: Attribute


@dataclass(frozen=True)
class Selection:
    """WHERE; `predicate` None lets every tuple pass."""

    input: Scan
    predicate: str | None


@dataclass(frozen=True)
class WindowAggregate:
    """Group-by and aggregates over each extent of the window.

    The first `partition` keys are the PARTITION BY columns of a partitioned window. A group without a qualifying tuple
    has no row; without keys every window has exactly one row.
    """

    input: Selection
    window: Window
    keys: tuple[Key, ...]
    aggregates: tuple[AggregateCall, ...]
    partition: int = 0

    def __post_init__(self) -> None:
        if (self.partition > 0) != isinstance(self.window, PartitionedWindow) or self.partition > len(self.keys):
            raise ValueError("a partitioned window has its partition among the keys")

    @cached_property
    def values(self) -> tuple[Key, ...]:
        """The expressions whose values its holistic aggregates count, except those that are keys."""
        counted = dict.fromkeys(value for call in self.aggregates for value in call.values)
        return tuple(value for value in counted if value not in self.keys)

    @cached_property
    def cell_keys(self) -> tuple[Key, ...]:
        """The keys of a cell: those of the group, and for holistic aggregates the value.

        `synopses/holistic/roll_up.py` merges the cells of a group.
        """
        return self.keys + self.values

    @cached_property
    def value_sets(self) -> tuple[tuple[Key, ...], ...]:
        """The sets of values that its holistic aggregates count together, without subsets of other sets.

        With several sets a cell belongs to a combination of all their values, finer than any aggregate needs.
        """
        sets = dict.fromkeys(tuple(v for v in call.values if v not in self.keys) for call in self.aggregates)
        return tuple(values for values in sets if values and not any(set(values) < set(other) for other in sets))

    @cached_property
    def is_holistic(self) -> bool:
        return any(call.values for call in self.aggregates)

    @cached_property
    def frequent(self) -> AggregateCall | None:
        """The call of FREQUENT_ITEMS, if there is one; it has its own top-k lists."""
        return next((call for call in self.aggregates if call.function == "FREQUENT_ITEMS"), None)

    @cached_property
    def presence(self) -> Accumulator:
        """The number of qualifying tuples; a group without one has no row."""
        return Accumulator(Kind.COUNT, None, None, self.input.predicate)

    @cached_property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """All accumulators that the query reads from its synopsis, without duplicates."""
        parts = (part for call in self.aggregates for _, part in call.parts)
        return tuple(dict.fromkeys((self.presence, *self.counts, *parts)))

    @property
    def counts(self) -> tuple[Accumulator, ...]:
        """The accumulators that determine the windows: ranks, all tuples, or the tuples with every n-th row number."""
        if isinstance(self.window, PartitionedWindow):
            return (Accumulator(Kind.GREATEST, RANK_COLUMN, SqlType("BIGINT"), None),)
        if not isinstance(self.window, SlideByTuple) or self.window.over is SlideOver.VALUE:
            return ()
        if self.window.over is SlideOver.RANK:
            return (Accumulator(Kind.COUNT, None, None, None),)
        n = self.window.every_n
        return (Accumulator(Kind.COUNT, None, None, f"pmod({ROW_COLUMN}, {n}L) = 0", every_n=n),)


def internal_columns(aggregate: WindowAggregate) -> list[tuple[str, SqlType]]:
    """k0…, a0… with their types: the columns of expressions above the aggregate."""
    keys = [(f"k{i}", key.type) for i, key in enumerate(aggregate.keys)]
    return keys + [(f"a{i}", call.result) for i, call in enumerate(aggregate.aggregates)]


@dataclass(frozen=True)
class Output:
    """One column of the answer: `expression` over k0…, a0…."""

    name: str
    expression: exp.Expr
    type: SqlType

    @property
    def is_plain(self) -> bool:
        """Whether it is just a key or an aggregate, with nothing to compute."""
        return isinstance(self.expression, exp.Column)

    @property
    def is_of_group(self) -> bool:
        """Whether it is computed from group keys alone."""
        columns = list(self.expression.find_all(exp.Column))
        return bool(columns) and all(column.name.startswith("k") for column in columns)


@dataclass(frozen=True)
class Order:
    expression: exp.Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Finalise:
    """HAVING, the select list, ORDER BY and LIMIT, per window."""

    input: WindowAggregate
    outputs: tuple[Output, ...]
    having: exp.Expr | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None

    def __post_init__(self) -> None:
        if not self.outputs:
            raise ValueError("a query has at least one output")
        if self.limit is not None and self.limit < 0:
            raise ValueError("LIMIT is not negative")

    @property
    def is_plain(self) -> bool:
        return self.having is None and not self.order and self.limit is None and all(o.is_plain for o in self.outputs)

    @property
    def scan(self) -> Scan:
        return self.input.input.input

    @cached_property
    def window(self) -> Window:
        return self.input.window
