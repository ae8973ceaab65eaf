"""What a group-by computes: its aggregates taken apart, and the columns of its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from sqlglot import exp

from windrow.cql.select_text import parse_expression
from windrow.operators.tables.memo import by_identity
from windrow.plan import holistic
from windrow.plan.accumulators import Accumulator, AggregateCall, Key, Kind
from windrow.plan.algebra.nodes import GroupBy
from windrow.plan.calls import Called
from windrow.synopses.cells.cells import fold_of
from windrow.types import SqlType

PRESENCE = Accumulator(Kind.COUNT, None, None, None)
"""The number of a group's rows: a group without one is gone."""

SUBTRACTABLE = (Kind.COUNT, Kind.SUM_INT, Kind.SUM_LONG, Kind.SUM_DECIMAL)
"""Sums of integers, which what goes can be taken from exactly."""

GROUP, ENTER, LEAVE = "__group", "__enter", "__leave"
"""Columns of cells: the number of the group, and the ticks at which the cell's rows come and are gone."""

_DOUBLE = SqlType("DOUBLE")


@dataclass(frozen=True)
class GroupCalls:
    """The aggregates of a group-by. An approximate aggregate is computed exactly, from its counted values."""

    node: GroupBy
    calls: tuple[AggregateCall, ...]

    @cached_property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return tuple(dict.fromkeys((PRESENCE, *(part for call in self.calls for _, part in call.parts))))

    @cached_property
    def running(self) -> tuple[Accumulator, ...]:
        """Kept as totals per group, to which cells are added and from which they are taken."""
        plain = {part for call in self.calls if not call.values for _, part in call.parts} | {PRESENCE}
        return tuple(a for a in self.accumulators if a in plain and a.kind in SUBTRACTABLE)

    @cached_property
    def recomputed(self) -> tuple[Accumulator, ...]:
        """Merged anew from the cells of a group that is touched."""
        plain = {part for call in self.calls if not call.values for _, part in call.parts}
        return tuple(a for a in self.accumulators if a in plain and a.kind not in SUBTRACTABLE)

    @cached_property
    def values(self) -> tuple[Key, ...]:
        """The expressions whose values holistic aggregates count."""
        return tuple(dict.fromkeys(value for call in self.calls for value in call.values))

    @cached_property
    def is_running(self) -> bool:
        """Whether totals suffice, so that cells need not say when they came."""
        return not (self.recomputed or self.values)

    @cached_property
    def trees(self) -> dict[str, exp.Expr]:
        """The arguments, conditions and values, by their text."""
        texts = [text for a in self.accumulators for text in (a.arg, a.condition) if text is not None]
        return {text: parse_expression(text) for text in dict.fromkeys([*texts, *(v.sql for v in self.values)])}

    @property
    def key_names(self) -> list[str]:
        return [key.sql for key in self.node.keys]

    @property
    def value_names(self) -> list[str]:
        return [f"__v{i}" for i in range(len(self.values))]

    @property
    def cell_keys(self) -> list[str]:
        """The columns that tell cells apart."""
        return [LEAVE, GROUP] if self.is_running else [LEAVE, GROUP, ENTER, *self.value_names]

    @cached_property
    def cell_schema(self) -> pa.Schema:
        numbers = [(name, pa.int64()) for name in self.cell_keys if name in (LEAVE, GROUP, ENTER)]
        values = [(name, v.type.arrow) for name, v in zip(self.value_names, self.values, strict=True)]
        return pa.schema([*numbers, *values, *state_fields(self.accumulators)])

    @cached_property
    def group_schema(self) -> pa.Schema:
        """The state of a group: its keys and number, the totals, and the values shown."""
        keys = [(key.sql, key.type.arrow) for key in self.node.keys]
        shown = [(one.column.sql, one.column.type.arrow) for one in self.node.aggregates]
        return pa.schema([*keys, (GROUP, pa.int64()), *state_fields(self.running), *shown])


def state_fields(accumulators: Sequence[Accumulator]) -> list[pa.Field]:
    """The columns that `synopses/cells/cells.py` (`to_columns`) makes of states."""
    out = []
    for a in accumulators:
        for i, dtype in enumerate(fold_of(a).dtypes):
            kind = _object_type(a) if dtype.hasobject else pa.from_numpy_dtype(dtype)
            out.append(pa.field(f"{a.id}_{i}", kind))
    return out


def _object_type(accumulator: Accumulator) -> pa.DataType:
    assert accumulator.type is not None
    return accumulator.type.arrow if accumulator.type.is_decimal else pa.binary()


@by_identity
def calls_of(node: GroupBy) -> GroupCalls:
    """What a group-by computes, worked out once per node."""
    return GroupCalls(node, tuple(exact(one.call) for one in node.aggregates))


def exact(call: AggregateCall) -> AggregateCall:
    """An aggregate that needs no sketch and no panes: an approximate one as its exact counterpart, with the same type
    of result; FREQUENT_ITEMS with the whole input as its only pane, so that counts of values suffice."""
    if call.function == "FREQUENT_ITEMS":
        return replace(call, parts=tuple(part for part in call.parts if part[0] == holistic.ROWS))
    if not call.function.startswith("APPROX_"):
        return call
    sketch = call.parts[0][1]
    assert sketch.arg is not None and sketch.type is not None
    arg = Key(sketch.arg, sketch.type)
    if call.function == "APPROX_COUNT_DISTINCT":
        return holistic.count_distinct(Called("COUNT(DISTINCT)", arg, (), (), sketch.condition))
    if call.function == "APPROX_QUANTILE":
        arg = arg if arg.type == _DOUBLE else Key(f"CAST({arg.sql} AS DOUBLE)", _DOUBLE)
        return holistic.quantile(Called("QUANTILE", arg, (), call.parameters, sketch.condition))
    counted = holistic.top_k(Called("TOP_K", arg, (), call.parameters, sketch.condition), _no_weight)
    return counted


def _no_weight(key: Key, condition: str | None) -> AggregateCall:
    raise AssertionError("APPROX_TOP_K has no weight")
