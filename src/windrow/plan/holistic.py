"""Decompose holistic aggregates into one counter per value.

The values are additional keys of the cells (`WindowAggregate.cell_keys`), so a cell is a frequency counter (Golab's
dissertation, section 2.3.4). NULL never counts.
"""

from __future__ import annotations

from collections.abc import Callable

from windrow.errors import BindError
from windrow.plan.accumulators import Accumulator, AggregateCall, Key, Kind
from windrow.plan.calls import COUNT_DISTINCT, ArgumentError, Called
from windrow.types import SqlType, array_type, struct_type

BIGINT, DOUBLE, STRING = SqlType("BIGINT"), SqlType("DOUBLE"), SqlType("STRING")

ROWS, LEAST = "rows", "least"
"""Roles of accumulators: the number of tuples with a value, and the least count in the top-k list of the value."""

Sum = Callable[[Key, str | None], AggregateCall]
"""(argument, condition) → the decomposition of SUM."""


def median(called: Called) -> AggregateCall:
    """MEDIAN of numbers. Strings are refused: Spark would silently read those that are not numbers as NULL."""
    value = called.arg
    if value.type.name == "VOID":
        value = Key(f"CAST({value.sql} AS DOUBLE)", DOUBLE)
    if not value.type.is_numeric:
        cast = f"MEDIAN(CAST({value.sql} AS DOUBLE)) is of numbers in text; " if value.type.name == "STRING" else ""
        raise BindError(
            f"MEDIAN takes a number, and {value.sql} is {value.type}",
            remedy=f"{cast}QUANTILE({value.sql}, 0.5) is the middle of values of any type.",
        )
    return AggregateCall("MEDIAN", DOUBLE, _counter(called), (value,))


def quantile(called: Called) -> AggregateCall:
    value = _value(called.arg)
    return AggregateCall("QUANTILE", value.type, _counter(called), (value,), called.parameters)


def count_distinct(called: Called) -> AggregateCall:
    values = tuple(dict.fromkeys(_value(arg) for arg in (called.arg, *called.more)))
    return AggregateCall(COUNT_DISTINCT, BIGINT, _counter(called), values)


def top_k(called: Called, sum_of: Sum) -> AggregateCall:
    """TOP_K by count, or by the sum of a weight."""
    value = _value(called.arg)
    if not called.more:
        entry = struct_type(item=value.type, count=BIGINT)
        return AggregateCall("TOP_K", array_type(entry), _counter(called), (value,), called.parameters)
    weight = called.more[0]
    if not (weight.type.is_numeric or weight.type.name == "VOID"):
        raise ArgumentError(
            f"the weight of TOP_K is a number, and {weight.sql} is {weight.type}",
            at=1,
            remedy=f"Cast it, for example TOP_K({value.sql}, {called.parameters[0]}, CAST({weight.sql} AS DOUBLE)).",
        )
    total = sum_of(weight, called.condition)
    entry = struct_type(item=value.type, total=total.result)
    return AggregateCall("TOP_K", array_type(entry), _counter(called) + total.parts, (value,), called.parameters)


def frequent_items(called: Called) -> AggregateCall:
    """FREQUENT_ITEMS from top-k lists per pane.

    A tuple adds 0 to the least count of its list, which is known only when the pane closes
    (`synopses/holistic/frequent_panes.py`).
    """
    value, (k,) = _value(called.arg), called.parameters
    least = Accumulator(Kind.SUM_INT, f"0 /* least of the top {k} */", SqlType("INT"), None)
    entry = struct_type(item=value.type, count=BIGINT, at_most=BIGINT)
    result = struct_type(threshold=BIGINT, items=array_type(entry))
    return AggregateCall("FREQUENT_ITEMS", result, (*_counter(called), (LEAST, least)), (value,), called.parameters)


def _counter(called: Called) -> tuple[tuple[str, Accumulator], ...]:
    """The counter of a value's tuples; without FILTER it equals `WindowAggregate.presence`."""
    return ((ROWS, Accumulator(Kind.COUNT, None, None, called.condition)),)


def _value(arg: Key) -> Key:
    """The argument; an untyped NULL becomes a STRING."""
    return Key(f"CAST({arg.sql} AS STRING)", STRING) if arg.type.name == "VOID" else arg
