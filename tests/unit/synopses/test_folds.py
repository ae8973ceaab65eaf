"""Folds are commutative and associative with an identity; reduce and scatter equal repeated merges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.folds import BOTTOM, MOMENTS, TOP, Fold, State
from windrow.synopses.cells.ordering import decode_doubles, encode_doubles
from windrow.types import SqlType

some = settings(max_examples=30, deadline=None)

INT64 = st.integers(-(1 << 62), (1 << 62) - 1)
SMALL = st.integers(-(1 << 40), 1 << 40)
QUARTERS = st.integers(-(1 << 30), 1 << 30).map(lambda n: n / 4)
BYTES = st.binary(max_size=3)
DECIMALS = st.integers(-(10**30), 10**30).map(lambda n: Decimal(n).scaleb(-3))


def folding(kind: Kind, type_: str) -> Fold:
    return fold_of(Accumulator(kind, "x", SqlType(type_), None))


FOLDS: dict[str, tuple[Fold, Sequence[st.SearchStrategy[Any]]]] = {
    "count": (folding(Kind.COUNT, "INT"), [SMALL]),
    "sum of integers": (folding(Kind.SUM_INT, "INT"), [SMALL]),
    "sum of longs": (folding(Kind.SUM_LONG, "BIGINT"), [SMALL] * 2),
    "sum of doubles": (folding(Kind.SUM_DOUBLE, "DOUBLE"), [QUARTERS]),
    "sum of decimals": (folding(Kind.SUM_DECIMAL, "DECIMAL(20,3)"), [SMALL] * 5),
    "least code": (folding(Kind.LEAST, "BIGINT"), [INT64]),
    "greatest code": (folding(Kind.GREATEST, "DOUBLE"), [INT64]),
    "least string": (folding(Kind.LEAST, "STRING"), [BYTES | st.just(TOP)]),
    "greatest string": (folding(Kind.GREATEST, "STRING"), [BYTES | st.just(BOTTOM)]),
    "least wide decimal": (folding(Kind.LEAST, "DECIMAL(38,3)"), [DECIMALS | st.just(TOP)]),
    "greatest wide decimal": (folding(Kind.GREATEST, "DECIMAL(38,3)"), [DECIMALS | st.just(BOTTOM)]),
}


def column(values: Sequence[Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    out = np.empty(len(values), dtype)
    out[:] = values
    return out


@st.composite
def moments(draw: st.DrawFn) -> tuple[float, float, float]:
    """(n, mean, M2) of a few values, or the identity."""
    values = draw(st.lists(st.integers(-1000, 1000), max_size=4))
    if not values:
        return 0.0, 0.0, 0.0
    mean = sum(values) / len(values)
    return float(len(values)), mean, sum((v - mean) ** 2 for v in values)


def states_of(draw: Any, name: str, size: int) -> State:
    if name == "moments":
        rows = [draw(moments()) for _ in range(size)]
        return tuple(np.array([row[i] for row in rows]) for i in range(3))
    fold, parts = FOLDS[name]
    return tuple(
        column([draw(part) for _ in range(size)], dtype) for part, dtype in zip(parts, fold.dtypes, strict=True)
    )


def fold_named(name: str) -> Fold:
    return MOMENTS if name == "moments" else FOLDS[name][0]


def merged(fold: Fold, a: State, b: State) -> State:
    into = tuple(c.copy() for c in a)
    fold.merge_into(into, b)
    return into


def assert_equal(a: Sequence[Any], b: Sequence[Any]) -> None:
    assert len(a) == len(b)
    for mine, theirs in zip(a, b, strict=True):
        if mine.dtype == np.float64:
            np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-6)
        else:
            assert mine.tolist() == theirs.tolist()


every_fold = pytest.mark.parametrize("name", [*FOLDS, "moments"])


@every_fold
@some
@given(st.data())
def test_merge_laws(name: str, data: Any) -> None:
    fold = fold_named(name)
    a, b, c = (states_of(data.draw, name, 3) for _ in range(3))
    assert_equal(merged(fold, a, fold.identity(3)), a)
    assert_equal(merged(fold, fold.identity(3), a), a)
    assert_equal(merged(fold, a, b), merged(fold, b, a))
    assert_equal(merged(fold, a, merged(fold, b, c)), merged(fold, merged(fold, a, b), c))


@every_fold
@some
@given(st.data(), st.integers(1, 5), st.integers(1, 3))
def test_reduce_equals_merging_panes(name: str, data: Any, panes: int, groups: int) -> None:
    fold = fold_named(name)
    rows = [states_of(data.draw, name, groups) for _ in range(panes)]
    stacked = [np.stack(columns) for columns in zip(*rows, strict=True)]
    one_by_one = fold.identity(groups)
    for row in rows:
        fold.merge_into(one_by_one, row)
    assert_equal(fold.reduce(stacked), one_by_one)


@every_fold
@some
@given(st.data(), st.lists(st.integers(0, 3), max_size=6))
def test_scatter_equals_merging(name: str, data: Any, at: list[int]) -> None:
    fold = fold_named(name)
    into, cells = states_of(data.draw, name, 4), states_of(data.draw, name, len(at))
    one_by_one = tuple(c.copy() for c in into)
    for i, target in enumerate(at):
        fold.merge_into([c[target : target + 1] for c in one_by_one], [c[i : i + 1] for c in cells])
    fold.scatter_into(into, np.array(at, np.int64), cells)
    assert_equal(into, one_by_one)


@some
@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=12), st.floats(-1e9, 1e9))
def test_moments_far_from_zero(spread: list[int], far: float) -> None:
    """M2 does not depend on how far the mean is from zero."""
    values = np.array(spread, np.float64) + round(far)
    state = MOMENTS.identity(1)
    MOMENTS.scatter_into(state, np.zeros(values.size, np.int64), (np.ones(values.size), values, np.zeros(values.size)))
    near = np.array(spread, np.float64)
    assert state[0][0] == values.size
    np.testing.assert_allclose(state[2][0], ((near - near.mean()) ** 2).sum(), rtol=1e-9, atol=1e-3)


def test_empty_scatter() -> None:
    for name in [*FOLDS, "moments"]:
        fold = fold_named(name)
        into = fold.identity(2)
        fold.scatter_into(into, np.empty(0, np.int64), fold.identity(0))
        assert_equal(into, fold.identity(2))


# -- doubles as codes -------------------------------------------------------------------------------------


@some
@given(st.floats(), st.floats())
@example(-0.0, 0.0)
@example(math.nan, math.inf)
@example(-math.inf, -1e308)
def test_double_codes_keep_spark_order(a: float, b: float) -> None:
    """NaN equals NaN and is above everything; −0.0 equals 0.0."""
    x, y = encode_doubles(np.array([a, b])).tolist()

    def place(v: float) -> tuple[bool, float]:
        return (True, 0.0) if v != v else (False, v)

    assert (x < y) == (place(a) < place(b))
    assert (x == y) == (place(a) == place(b))


@some
@given(st.lists(st.floats(), max_size=8))
def test_double_codes_round_trip(values: list[float]) -> None:
    array = np.array(values, np.float64)
    np.testing.assert_array_equal(decode_doubles(encode_doubles(array)), array)


def test_codes_are_between_the_identities() -> None:
    codes = encode_doubles(np.array([np.nan, np.inf, -np.inf, np.finfo(np.float64).max, 0.0]))
    assert np.all(codes < np.iinfo(np.int64).max) and np.all(codes > np.iinfo(np.int64).min)
