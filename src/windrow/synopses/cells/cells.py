"""Accumulator states from Spark's partial aggregates or from single rows, and to and from columns of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses.cells.folds import (
    BOTTOM,
    GREATEST,
    GREATEST_OBJECT,
    LEAST,
    LEAST_OBJECT,
    MOMENTS,
    TOP,
    Array,
    Fold,
    State,
    adding,
)
from windrow.synopses.cells.ordering import encode_doubles
from windrow.synopses.cells.sketches import SKETCHES, SketchFold, is_sketch, serialised, sketch_sql, sketches_of
from windrow.types import SqlType

_COUNT = adding(np.int64)
_LIMBS = adding(np.int64, 5)
_FOLDS: dict[Kind, Fold] = {
    Kind.COUNT: _COUNT,
    Kind.SUM_INT: _COUNT,
    Kind.SUM_LONG: adding(np.int64, 2),
    Kind.SUM_DOUBLE: adding(np.float64),
    Kind.SUM_DECIMAL: _LIMBS,
    Kind.MOMENTS: MOMENTS,
    **{kind: SketchFold(kind) for kind in SKETCHES},
}


def is_coded(value: SqlType) -> bool:
    """Whether MIN and MAX of this type fold int64 codes rather than objects."""
    if value.is_decimal:
        return value.decimal[0] <= 18
    return value.name not in ("STRING", "BINARY")


def fold_of(accumulator: Accumulator) -> Fold:
    if accumulator.kind in _FOLDS:
        return _FOLDS[accumulator.kind]
    assert accumulator.type is not None
    if accumulator.kind is Kind.LEAST:
        return LEAST if is_coded(accumulator.type) else LEAST_OBJECT
    return GREATEST if is_coded(accumulator.type) else GREATEST_OBJECT


def partial_sql(accumulator: Accumulator) -> list[str]:
    """The Spark aggregates that `state_of_partials` turns into the state of a cell."""
    arg, kind = accumulator.arg, accumulator.kind
    where = f" FILTER (WHERE {accumulator.condition})" if accumulator.condition else ""
    if kind is Kind.COUNT:
        return [f"count({'1' if arg is None else arg}){where}"]
    if is_sketch(accumulator):
        return [sketch_sql(accumulator)]
    if kind is Kind.SUM_LONG:
        return [f"sum(shiftright({arg}, 32)){where}", f"sum(({arg}) & 4294967295L){where}"]
    if kind is Kind.MOMENTS:
        x = f"CAST({arg} AS DOUBLE)"
        return [f"count({x}){where}", f"avg({x}){where}", f"var_pop({x}){where}"]
    if kind is Kind.SUM_DECIMAL:
        return [f"{sql}{where}" for sql in _decimal_sums(accumulator)]
    if kind is Kind.SUM_DOUBLE:
        return [f"sum(CAST({arg} AS DOUBLE)){where}"]
    name = {Kind.SUM_INT: "sum", Kind.LEAST: "min", Kind.GREATEST: "max"}[kind]
    return [f"{name}({arg}){where}"]


_SPLIT_DIGITS = 19


def _is_wide(accumulator: Accumulator) -> bool:
    """Whether Spark's sum, which has at most 38 digits, could overflow where the sum of the window does not."""
    assert accumulator.type is not None
    return accumulator.type.decimal[0] > 28


def _decimal_sums(accumulator: Accumulator) -> list[str]:
    """Sum and count; for wide decimals the sums of their upper and of their lower 19 digits."""
    arg = f"({accumulator.arg})"
    if not _is_wide(accumulator):
        return [f"sum({arg})", f"count({arg})"]
    assert accumulator.type is not None
    unit = f"{Decimal(10) ** (_SPLIT_DIGITS - accumulator.type.decimal[1]):f}BD"
    return [f"sum(CAST(({arg} - {arg} % {unit}) / {unit} AS DECIMAL(20,0)))", f"sum({arg} % {unit})"]


def state_of_partials(accumulator: Accumulator, columns: Sequence[pa.Array]) -> State:
    """The states of cells from the columns of `partial_sql`, one row per cell."""
    kind = accumulator.kind
    if is_sketch(accumulator):
        return sketches_of(accumulator, columns[0])
    if kind is Kind.MOMENTS:
        n, mean, variance = (_doubles(column) for column in columns)
        return n, mean, variance * n
    if kind is Kind.SUM_DECIMAL and _is_wide(accumulator):
        upper, lower = (unscaled(_limbs(column)) for column in columns)
        return (*_split(upper * 10**_SPLIT_DIGITS + lower), np.zeros(upper.size, np.int64))
    if kind is Kind.SUM_DECIMAL:
        limbs = _limbs(columns[0])
        overflowed = np.asarray(pc.is_null(columns[0])) & (_longs(columns[1]) > 0)
        return (*limbs, overflowed.astype(np.int64))
    if kind is Kind.SUM_DOUBLE:
        return (_doubles(columns[0]),)
    if kind in (Kind.LEAST, Kind.GREATEST):
        return (_codes(accumulator, columns[0]),)
    return tuple(_longs(column) for column in columns)


def state_of_rows(accumulator: Accumulator, values: pa.Array | None, count: int) -> State:
    """The states of `count` cells of one tuple each. Values are not null.

    Raises ValueError for sketches, which only Spark makes.
    """
    kind = accumulator.kind
    if is_sketch(accumulator):
        raise ValueError("Spark makes sketches; single rows cannot")
    if kind is Kind.COUNT:
        return (np.ones(count, np.int64),)
    assert values is not None
    if kind is Kind.SUM_LONG:
        x = _longs(values)
        return x >> 32, x & 0xFFFFFFFF
    if kind is Kind.SUM_DECIMAL:
        return (*_limbs(values), np.zeros(count, np.int64))
    if kind is Kind.SUM_DOUBLE:
        return (_doubles(values),)
    if kind is Kind.MOMENTS:
        return np.ones(count), _doubles(values), np.zeros(count)
    if kind is Kind.SUM_INT:
        return (_longs(values),)
    return (_codes(accumulator, values),)


def to_columns(accumulator: Accumulator, state: State) -> dict[str, pa.Array]:
    """The state as columns of a block, named after the accumulator's stable id."""
    if is_sketch(accumulator):
        return {f"{accumulator.id}_0": serialised(accumulator, state)}
    if state[0].dtype.hasobject:
        absent = np.fromiter((v is TOP or v is BOTTOM for v in state[0]), bool, len(state[0]))
        arrow = _object_type(accumulator)
        return {f"{accumulator.id}_0": pa.array(state[0], arrow, mask=absent)}
    return {f"{accumulator.id}_{i}": pa.array(column) for i, column in enumerate(state)}


def from_columns(accumulator: Accumulator, table: pa.Table) -> State | None:
    """The state in a block; None if the block was written before the accumulator existed."""
    fold = fold_of(accumulator)
    names = [f"{accumulator.id}_{i}" for i in range(len(fold.dtypes))]
    if names[0] not in table.column_names:
        return None
    columns = [table.column(name).combine_chunks() for name in names]
    if is_sketch(accumulator):
        return sketches_of(accumulator, columns[0])
    if fold.dtypes[0].hasobject:
        return (_objects(accumulator, columns[0]),)
    return tuple(column.to_numpy(zero_copy_only=False) for column in columns)


def _longs(column: pa.Array) -> Array:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False))


def _doubles(column: pa.Array) -> Array:
    # Not `safe`: an integer above 2^53 is rounded, as in Spark, instead of raising an error.
    plain = column.cast(pa.float64(), safe=False)
    return np.asarray(pc.fill_null(plain, 0.0).to_numpy(zero_copy_only=False))


def _limbs(column: pa.Array) -> State:
    """Unscaled 128-bit integers as four 32-bit limbs in int64, the last one signed, so that sums are exact."""
    words = _words(column)
    low, high = words[:, 0].view(np.uint64), words[:, 1]
    mask = np.uint64(0xFFFFFFFF)
    parts = (low & mask, low >> np.uint64(32))
    return (*(p.astype(np.int64) for p in parts), high & 0xFFFFFFFF, high >> 32)


def unscaled(limbs: Sequence[Array]) -> Array:
    """The exact sums of limbs as Python integers."""
    l0, l1, l2, l3 = (limb.astype(object) for limb in limbs[:4])
    return np.asarray(l0 + (l1 << 32) + (l2 << 64) + (l3 << 96), dtype=object)


def _split(integers: Array) -> State:
    """The inverse of `unscaled`."""
    lower = tuple(((integers >> shift) & 0xFFFFFFFF).astype(np.int64) for shift in (0, 32, 64))
    return (*lower, (integers >> 96).astype(np.int64))


def _words(column: pa.Array) -> Array:
    """The two 64-bit words of each decimal128, zero for nulls."""
    filled = pc.fill_null(column, pa.scalar(Decimal(0), column.type))
    raw = np.frombuffer(filled.buffers()[1], np.int64)
    start = 2 * filled.offset
    return raw[start : start + 2 * len(filled)].reshape(-1, 2)


def _codes(accumulator: Accumulator, column: pa.Array) -> Array:
    """MIN/MAX values as order-preserving codes or objects; the fold's identity for nulls."""
    fold = fold_of(accumulator)
    if fold.dtypes[0].hasobject:
        return _objects(accumulator, column)
    assert accumulator.type is not None
    kind = accumulator.type
    if kind.is_float:
        codes = encode_doubles(_doubles(column))
    elif kind.is_decimal:
        codes = _words(column)[:, 0].copy()
    elif kind.name == "DATE":
        codes = _longs(column.cast(pa.int32()))
    elif kind.is_timestamp:
        codes = _longs(column)
    else:
        codes = _longs(column)
    if column.null_count:
        codes = np.where(np.asarray(column.is_null()), fold.identity(1)[0], codes)
    return codes


def _object_type(accumulator: Accumulator) -> pa.DataType:
    assert accumulator.type is not None
    return accumulator.type.arrow if accumulator.type.is_decimal else pa.binary()


def _objects(accumulator: Accumulator, column: pa.Array) -> Array:
    neutral = fold_of(accumulator).identity(1)[0][0]
    out = np.empty(len(column), object)
    out[:] = [neutral if v is None else v for v in column.cast(_object_type(accumulator)).to_pylist()]
    return out
