"""Computes the values of aggregates from merged states, vectorised over answer rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from windrow.plan.accumulators import AggregateCall, Kind
from windrow.synopses.cells.arrays import Mask
from windrow.synopses.cells.cells import is_coded, unscaled
from windrow.synopses.cells.chunks import States
from windrow.synopses.cells.folds import Array, State
from windrow.synopses.cells.ordering import decode_doubles
from windrow.synopses.results import approximate
from windrow.types import SqlType

_LIMB = np.int64(0xFFFFFFFF)


def result_of(call: AggregateCall, states: States) -> pa.Array:
    """The column of an aggregate; null where no value counts, or where an exact sum overflows."""
    return _RESULTS[call.function](call, states)


def overflows(call: AggregateCall, states: States) -> int:
    """The number of rows that are null because the exact sum does not fit; sums never wrap."""
    return int(unfit_rows(call, result_of(call, states), states).sum()) if _is_exact_sum(call) else 0


def unfit_rows(call: AggregateCall, column: pa.Array, states: States) -> Mask:
    """Where the column of an aggregate is null because the exact sum does not fit."""
    if not column.null_count or not _is_exact_sum(call):
        return np.zeros(len(column), bool)
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False) & (_n(call, states) > 0))


def _is_exact_sum(call: AggregateCall) -> bool:
    return call.function == "SUM" and call.part("s").kind in (Kind.SUM_LONG, Kind.SUM_DECIMAL)


def _n(call: AggregateCall, states: States) -> Array:
    return states[call.part("n")][0]


def _array(values: Array, present: Array, type_: SqlType) -> pa.Array:
    if present.all():
        return pa.array(values, type_.arrow)
    return pa.array(values, type_.arrow, mask=~present)


def _count(call: AggregateCall, states: States) -> pa.Array:
    return pa.array(_n(call, states))


def _sum(call: AggregateCall, states: States) -> pa.Array:
    n, part = _n(call, states), call.part("s")
    state = states[part]
    if part.kind is Kind.SUM_DOUBLE:
        return _array(_with_specials(call, states, state[0]), n > 0, call.result)
    if part.kind is Kind.SUM_DECIMAL:
        return _decimals(unscaled(state), (n > 0) & (state[4] == 0), call.result)
    if part.kind is Kind.SUM_INT:
        return _array(state[0], n > 0, call.result)
    high, low = _carried(state)
    fits = (high >= -(1 << 31)) & (high < (1 << 31))
    return _array((high << 32) | low, (n > 0) & fits, call.result)


def _carried(state: State) -> State:
    """A sum of 64-bit integers in the normal form high·2³² + low, 0 ≤ low < 2³²."""
    high, low = state
    return high + (low >> 32), low & _LIMB


def _average(call: AggregateCall, states: States) -> pa.Array:
    n, part = _n(call, states), call.part("s")
    state = states[part]
    if part.kind is Kind.SUM_DECIMAL:
        assert part.type is not None
        shift = 10 ** (call.result.decimal[1] - part.type.decimal[1])
        counts = np.maximum(n, 1).astype(object)
        return _decimals(_half_up(unscaled(state) * shift, counts), (n > 0) & (state[4] == 0), call.result)
    if part.kind is Kind.SUM_DOUBLE:
        total = _with_specials(call, states, state[0])
    elif part.kind is Kind.SUM_INT:
        total = state[0].astype(np.float64)
    else:
        high, low = _carried(state)
        total = high.astype(np.float64) * 4294967296.0 + low
    return _array(np.divide(total, n, out=np.zeros(n.size), where=n > 0), n > 0, call.result)


def _with_specials(call: AggregateCall, states: States, total: Array) -> Array:
    nan, above, below = (states[call.part(role)][0] for role in ("nan", "above", "below"))
    if not (nan.any() or above.any() or below.any()):
        return total
    total = np.where(above > 0, np.inf, total)
    total = np.where(below > 0, -np.inf, total)
    return np.where((nan > 0) | ((above > 0) & (below > 0)), np.nan, total)


def _half_up(top: Array, bottom: Array) -> Array:
    """Integer division rounded half away from zero."""
    sign = np.where(top < 0, -1, 1).astype(object)
    return np.asarray(sign * ((2 * abs(top) + bottom) // (2 * bottom)), dtype=object)


def _decimals(unscaled: Array, present: Array, type_: SqlType) -> pa.Array:
    """Exact integers as decimals; null where absent or too large for the precision."""
    precision, scale = type_.decimal
    bound = 10**precision
    words = [
        int(v).to_bytes(16, "little", signed=True) if keep and -bound < v < bound else None
        for v, keep in zip(unscaled.tolist(), present.tolist(), strict=True)
    ]
    raw = pa.array(words, pa.binary(16))
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(words), raw.buffers(), raw.null_count)


def _extreme(call: AggregateCall, states: States) -> pa.Array:
    n, part = _n(call, states), call.part("v")
    values, type_ = states[part][0], call.result
    present = n > 0
    if not is_coded(type_):
        plain = pa.array(values, type_.arrow if type_.is_decimal else pa.binary(), mask=~present)
        return plain.cast(type_.arrow)
    codes = values if present.all() else np.where(present, values, 0)
    if type_.is_float:
        return _array(decode_doubles(codes).astype(type_.arrow.to_pandas_dtype()), present, type_)
    if type_.is_decimal:
        return _decimals(codes.astype(object), present, type_)
    if type_.name == "BOOLEAN":
        return _array(codes.astype(bool), present, type_)
    if type_.is_integer:
        return _array(codes.astype(type_.arrow.to_pandas_dtype(), copy=False), present, type_)
    narrow = _array(codes, present, SqlType("BIGINT"))
    if type_.name == "DATE":
        return narrow.cast(pa.int32()).cast(pa.date32())
    return narrow.cast(type_.arrow)


def _moment(call: AggregateCall, states: States) -> pa.Array:
    n, (finite, _, m2) = _n(call, states), states[call.part("m")]
    sample = call.function in ("VARIANCE", "STDDEV")
    divisor = n - 1 if sample else n
    present = divisor > 0
    value = np.divide(m2, divisor, out=np.zeros(n.size), where=present)
    if call.function.startswith("STDDEV"):
        value = np.sqrt(value)
    return _array(np.where(finite < n, np.nan, value), present, call.result)


_RESULTS: dict[str, Callable[[AggregateCall, States], pa.Array]] = {
    "COUNT": _count,
    "SUM": _sum,
    "AVG": _average,
    "MIN": _extreme,
    "MAX": _extreme,
    "VARIANCE": _moment,
    "VAR_POP": _moment,
    "STDDEV": _moment,
    "STDDEV_POP": _moment,
    "APPROX_COUNT_DISTINCT": approximate.distinct_count,
    "APPROX_QUANTILE": approximate.quantile,
    "APPROX_TOP_K": approximate.top_k,
}
