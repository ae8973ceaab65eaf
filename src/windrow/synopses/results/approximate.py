"""Computes approximate aggregates from merged sketches (`cells/sketches.py`), once per answer row."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.plan.accumulators import AggregateCall
from windrow.synopses.cells.chunks import States
from windrow.synopses.cells.sketches import ds
from windrow.types import SqlType

_FLAGS, _MODE = 5, 7
"""Byte offsets in a serialised HLL sketch (DataSketches' PreambleUtil): the flags; the mode, in its lowest two bits."""

_OUT_OF_ORDER, _REGISTERS = 16, 2


def distinct_count(call: AggregateCall, states: States) -> pa.Array:
    """APPROX_COUNT_DISTINCT; 0 where no tuple counts."""
    sketches = states[call.part("d")][0].tolist()
    return pa.array([0 if data is None else round(distinct_estimate(data)) for data in sketches], pa.int64())


def distinct_estimate(data: bytes) -> float:
    """The estimate from the registers alone, so that it does not depend on how the tuples fell into micro-batches.

    A sketch that was never merged also keeps a slightly better estimate from its history, which depends on the order of
    arrival. Merged sketches are marked as out of order and use the registers. This function marks every sketch so.
    """
    if data[_MODE] & 3 == _REGISTERS:
        data = data[:_FLAGS] + bytes([data[_FLAGS] | _OUT_OF_ORDER]) + data[_FLAGS + 1 :]
    return float(ds.hll_sketch.deserialize(data).get_estimate())


def quantile(call: AggregateCall, states: States) -> pa.Array:
    """APPROX_QUANTILE(x, φ): the element at position max(1, ⌊φN⌋), as near as the sketch can tell.

    The sketch leaves out NaNs; they are counted beside it and come after all numbers.
    """
    sketches, phi = states[call.part("q")][0], Fraction(call.parameters[0])
    roles = dict(call.parts)
    nan = states[roles["nan"]][0] if "nan" in roles else np.zeros(sketches.size, np.int64)
    elements = [_at(data, n, phi) for data, n in zip(sketches.tolist(), nan.tolist(), strict=True)]
    return pa.array(elements, pa.float64())


def _at(data: bytes | None, nan: int, phi: Fraction) -> float | None:
    sketch = None if data is None else ds.kll_doubles_sketch.deserialize(data)
    numbers = 0 if sketch is None else sketch.n
    position = max(1, math.floor(phi * (numbers + nan)))
    if position > numbers or sketch is None:
        return math.nan if nan else None
    return element_at(sketch, position)


def element_at(sketch: Any, position: int) -> float:
    """The element at a position, from 1. The first and the last are exact.

    The sketch returns the first element with at least ⌈rank·n⌉ elements up to it (`inclusive`). A rank halfway between
    two positions is safe from rounding.
    """
    if position == 1:
        return float(sketch.get_min_value()) + 0.0
    if position == sketch.n:
        return float(sketch.get_max_value()) + 0.0
    return float(sketch.get_quantile((position - 0.5) / sketch.n, True)) + 0.0  # never −0.0


def top_k(call: AggregateCall, states: States) -> pa.Array:
    """APPROX_TOP_K(x, k): items by descending count, ties by ascending item; an empty list where no tuple counts."""
    part, k = call.part("f"), int(call.parameters[0])
    assert part.type is not None
    sketches = states[part][0].tolist()
    lists = [[] if sketch is None else top_items(sketch, k, part.type) for sketch in sketches]
    return pa.array([[{"item": item, "count": n} for item, n in rows] for rows in lists], call.result.arrow)


def top_items(sketch: Any, k: int, type_: SqlType) -> list[tuple[Any, int]]:
    """The k items with the greatest counts. Only items that may be among them are parsed from their texts."""
    found = sketch.get_frequent_items(ds.frequent_items_error_type.NO_FALSE_NEGATIVES)
    counts = np.array([count for _, count, _, _ in found])
    least = int(np.partition(counts, counts.size - k)[counts.size - k]) if counts.size > k else 0
    read = _reader(type_)
    items = [(read(text), count) for text, count, _, _ in found if count >= least]
    items.sort(key=lambda item: (-item[1], _order(item[0])))
    return items[:k]


def _order(item: Any) -> Any:
    """NaN comes after all numbers, as in Spark."""
    return (item != item, item) if isinstance(item, float) else item


def _reader(type_: SqlType) -> Callable[[str], Any]:
    """Parses what `cells/sketches.py` (`_text`) writes."""
    if type_.is_float:
        return float
    if type_.is_decimal:
        return Decimal
    if type_.is_integer or type_.is_timestamp or type_.name == "DATE":
        return int
    if type_.name == "BOOLEAN":
        return lambda text: text == "true"
    return bytes.fromhex if type_.name == "BINARY" else str
