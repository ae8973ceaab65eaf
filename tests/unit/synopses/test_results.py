"""Values of every aggregate and type equal plain Python's; and the result of a statement."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.brute_force import MOMENTS, TYPES, Row, calls_of, cells_of, expected, roles_of, same, values_of

from windrow.plan.accumulators import AggregateCall
from windrow.plan.aggregates import decompose
from windrow.result import ROWS_SHOWN, Result
from windrow.synopses.cells.cells import fold_of, state_of_rows
from windrow.synopses.cells.chunks import States, build_chunks, widened
from windrow.synopses.cells.groups import Groups
from windrow.synopses.results.values import overflows, result_of
from windrow.types import SqlType


def states_of(values: list[Any], calls: list[AggregateCall], type_: SqlType) -> States:
    """The merged state of one group."""
    roles = roles_of(calls)
    if not values:
        return {a: fold_of(a).identity(1) for a in roles}
    cells = cells_of([Row(0, (), value) for value in values], roles, type_, Groups([]))
    (chunk,) = build_chunks(cells)
    return {a: tuple(c.reshape(-1) for c in widened(fold_of(a), state)) for a, state in chunk.states.items()}


def result(function: str, type_name: str, values: list[Any]) -> Any:
    call = decompose(function, "x", SqlType(type_name), None)
    found = result_of(call, states_of(values, [call], SqlType(type_name)))
    assert len(found) == 1 and found.type == call.result.arrow
    return found[0].as_py()


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_every_aggregate_equals_plain_python(type_: SqlType, data: Any) -> None:
    values = data.draw(st.lists(st.none() | values_of(type_), max_size=7))
    conditioned = all(v is None or not type_.is_numeric or abs(v) < 10**6 or math.isinf(v) or v != v for v in values)
    calls = [call for call in calls_of(type_) if conditioned or call.function not in MOMENTS]
    states = states_of(values, calls, type_)
    for call in calls:
        found = result_of(call, states)
        assert found.type == call.result.arrow
        wanted = expected(call, type_, values)
        assert same(found[0].as_py(), wanted), (call.function, values, found[0].as_py(), wanted)
        lost = wanted is None and call.function == "SUM" and any(v is not None for v in values)
        assert overflows(call, states) == int(lost)


BIG = (1 << 63) - 1


def test_sum_of_bigints_overflows_to_null() -> None:
    assert result("SUM", "BIGINT", [BIG, 1]) is None
    assert result("SUM", "BIGINT", [-BIG - 1, -1]) is None
    assert result("SUM", "BIGINT", [BIG, BIG, -BIG, -1]) == BIG - 1
    assert result("SUM", "BIGINT", [-BIG - 1]) == -BIG - 1
    assert result("SUM", "BIGINT", [-1]) == -1
    assert result("SUM", "BIGINT", [BIG]) == BIG


def test_average_where_the_sum_overflows() -> None:
    assert result("AVG", "BIGINT", [BIG, BIG, BIG]) == pytest.approx(BIG)
    assert result("AVG", "BIGINT", [-1, 1, -1, 1, -2]) == pytest.approx(-0.4)


def test_average_does_not_cancel() -> None:
    """For −1 and 1 a hundred million times, the two halves of the state exceed 2^53 but the sum is 0."""
    call = decompose("AVG", "x", SqlType("BIGINT"), None)
    half = 100_000_000
    high, low = np.array([-half]), np.array([half * 0xFFFFFFFF + half])
    states: States = {call.part("n"): (np.array([2 * half]),), call.part("s"): (high, low)}
    assert result_of(call, states)[0].as_py() == 0.0
    states[call.part("s")] = (high, low + 3)
    assert result_of(call, states)[0].as_py() == pytest.approx(3 / (2 * half), rel=1e-12)


def test_decimals_beyond_their_precision_are_null() -> None:
    top, lowest = Decimal("9" * 38), Decimal("-" + "9" * 38)
    assert result("SUM", "DECIMAL(38,0)", [top]) == top
    assert result("SUM", "DECIMAL(38,0)", [top, Decimal(1)]) is None
    assert result("SUM", "DECIMAL(38,0)", [top, Decimal(1), Decimal(-2)]) == Decimal("9" * 37 + "8")
    assert result("SUM", "DECIMAL(20,3)", [Decimal("-0.001"), Decimal("-99999999999999999.999")]) == Decimal("-1e17")
    assert result("AVG", "DECIMAL(12,2)", [Decimal("0.01"), Decimal("0.02"), Decimal("0.02")]) == Decimal("0.016667")
    assert result("AVG", "DECIMAL(12,2)", [Decimal("-0.01"), Decimal("-0.02"), Decimal("-0.02")]) == Decimal(
        "-0.016667"
    )
    assert result("MIN", "DECIMAL(38,0)", [top, lowest]) == lowest
    assert result("MAX", "DECIMAL(18,4)", [Decimal("-1.0000"), Decimal("-0.9999")]) == Decimal("-0.9999")


def test_decimal_overflow_in_spark_is_null() -> None:
    call = decompose("SUM", "x", SqlType("DECIMAL(38,0)"), None)
    zero = np.array([0])
    states: States = {call.part("n"): (np.array([2]),), call.part("s"): (zero, zero, zero, zero, np.array([1]))}
    assert result_of(call, states)[0].as_py() is None
    assert overflows(call, states) == 1


def test_special_doubles() -> None:
    nan, inf = math.nan, math.inf
    assert same(result("SUM", "DOUBLE", [1.0, nan]), nan)
    assert result("SUM", "DOUBLE", [1.0, inf]) == inf
    assert result("SUM", "DOUBLE", [1.0, -inf]) == -inf
    assert same(result("SUM", "DOUBLE", [inf, -inf]), nan)
    assert result("AVG", "FLOAT", [inf, 1.5]) == inf
    assert same(result("MAX", "DOUBLE", [inf, nan]), nan)
    assert result("MIN", "DOUBLE", [inf, nan]) == inf
    assert result("MIN", "DOUBLE", [-0.0, 5.0]) == 0.0
    assert same(result("VARIANCE", "DOUBLE", [1.0, inf]), nan)
    assert same(result("STDDEV_POP", "DOUBLE", [nan]), nan)


def test_moments_of_one_value() -> None:
    assert result("VARIANCE", "INT", [5]) is None
    assert result("STDDEV", "DOUBLE", [5.0]) is None
    assert result("VAR_POP", "INT", [5]) == 0.0
    assert result("STDDEV_POP", "DECIMAL(12,2)", [Decimal("5.00")]) == 0.0
    assert result("VARIANCE", "DOUBLE", []) is None


def test_moments_of_large_integers_round_as_in_spark() -> None:
    assert result("VAR_POP", "BIGINT", [BIG, -BIG]) == pytest.approx(float(BIG) ** 2)
    assert result("STDDEV_POP", "BIGINT", [(1 << 53) + 1] * 3) == 0.0


@pytest.mark.parametrize("value", [32767, 0.1, 1e-300, 1e308])
@pytest.mark.parametrize("count", [2, 3, 7, 1000])
def test_variance_of_equal_values(value: float, count: int) -> None:
    assert result("STDDEV", "DOUBLE", [float(value)] * count) == 0.0


def test_null_mask() -> None:
    call = decompose("MAX", "x", SqlType("STRING"), None)
    codes = np.empty(3, object)
    codes[:] = [b"b", None, "é".encode()]
    states: States = {call.part("n"): (np.array([1, 0, 2]),), call.part("v"): (codes,)}
    assert result_of(call, states).to_pylist() == ["b", None, "é"]
    total = decompose("SUM", "x", SqlType("INT"), None)
    states = {total.part("n"): (np.array([0, 3]),), total.part("s"): (np.array([0, 7]),)}
    assert result_of(total, states).equals(pa.array([None, 7], pa.int64()))
    assert overflows(total, states) == 0


@pytest.mark.parametrize("type_", TYPES, ids=str)
@settings(max_examples=10, deadline=None)
@given(st.data())
def test_states_of_a_sliced_column(type_: SqlType, data: Any) -> None:
    values = data.draw(st.lists(values_of(type_), min_size=2, max_size=4))
    part = pa.array(values, type_.arrow).slice(1)
    for accumulator in roles_of(calls_of(type_)):
        sliced = state_of_rows(accumulator, part, len(part))
        copied = state_of_rows(accumulator, pa.array(values[1:], type_.arrow), len(part))
        assert all(a.tolist() == b.tolist() or type_.is_float for a, b in zip(sliced, copied, strict=True))


# -- the result of a statement ------------------------------------------------------------------------------


def test_result_prints_as_a_table() -> None:
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    table = pa.table(
        {"name": ["packets", None], "at": pa.array([moment, None], pa.timestamp("us", tz="UTC")), "n": [1, 22]}
    )
    told = Result(table)
    assert str(told).splitlines() == [
        "name    | at                  | n",
        "--------+---------------------+---",
        "packets | 2026-01-01 00:00:00 | 1",
        "NULL    | NULL                | 22",
    ]
    assert repr(told) == str(told) and len(told) == 2
    assert told.arrow() is table and told.rows()[1] == {"name": None, "at": None, "n": 22}
    assert told.pandas()["n"].tolist() == [1, 22]


def test_long_result() -> None:
    lines = str(Result(pa.table({"n": range(ROWS_SHOWN + 7)}))).splitlines()
    assert len(lines) == ROWS_SHOWN + 3 and lines[-1] == "… 7 more rows"
    assert "more rows" not in str(Result(pa.table({"n": range(ROWS_SHOWN)})))


def test_empty_result() -> None:
    assert (
        str(Result(pa.table({"n": pa.array([], pa.int64()), "name": pa.array([], pa.string())})))
        == "n | name\n--+-----"
    )


def test_messages_and_lines() -> None:
    assert Result.message("created").rows() == [{"result": "created"}]
    assert Result.lines("plan", "a\nb").rows() == [{"plan": "a"}, {"plan": "b"}]
