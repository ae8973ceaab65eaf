"""Bounds of HAVING are found, compared exactly, and removed from what DuckDB evaluates."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from sqlglot import exp, parse_one

from windrow.plan.accumulators import Accumulator, Kind
from windrow.plan.aggregates import decompose
from windrow.plan.having import Comparison, having_bounds
from windrow.plan.nodes import Attribute, Finalise, Key, Output, Scan, Selection, WindowAggregate
from windrow.synopses.having.bound_tests import bound_tests
from windrow.types import SqlType
from windrow.windows import SlidingWindow

INT, LONG, DOUBLE = SqlType("INT"), SqlType("BIGINT"), SqlType("DOUBLE")
CALLS = (
    decompose("COUNT", None, None, None),
    decompose("SUM", "x", LONG, None),
    decompose("MAX", "x", INT, None),
    decompose("AVG", "x", INT, None),
    decompose("MIN", "y", DOUBLE, None),
)


def plan(having: str | None) -> Finalise:
    """HAVING over a0 = COUNT(*), a1 = SUM(x), a2 = MAX(x), a3 = AVG(x), a4 = MIN(y) of doubles."""
    scan = Selection(Scan("s", Attribute("t", LONG)), None)
    aggregate = WindowAggregate(scan, SlidingWindow(10, 5), (Key("k", INT),), CALLS)
    tree = None if having is None else parse_one(having)
    return Finalise(aggregate, (Output("k", exp.column("k0"), INT),), tree)


@pytest.mark.parametrize(
    ("having", "found"),
    [
        ("a0 > 5", ["COUNT > 5"]),
        ("5 < a0", ["COUNT > 5"]),
        ("a0 <= -5", ["COUNT <= -5"]),
        ("(a0 > 5 AND k0 = 3) AND (a2 >= 1.5)", ["COUNT > 5", "MAX >= 1.5"]),
        ("a1 BETWEEN 2 AND 7", ["SUM >= 2", "SUM <= 7"]),
        ("a4 < 1e3", ["MIN < 1E+3"]),
        ("a0 > 5 OR k0 = 3", []),
        ("NOT a0 > 5", []),
        ("a0 > a1", []),
        ("a0 + 1 > 5", []),
        ("a3 > 5", []),
        ("a0 > '5'", []),
        ("a0 = 5", []),
    ],
)
def test_bounds_of_conjuncts(having: str, found: list[str]) -> None:
    assert [bound.text for bound in having_bounds(plan(having))] == found


def test_no_having() -> None:
    assert having_bounds(plan(None)) == ()


@pytest.mark.parametrize(
    ("having", "tests", "rest"),
    [
        ("a0 > 5", 1, None),
        ("a0 > 5 AND k0 = 3 AND a1 <= 7", 2, "k0 = 3"),
        ("a1 BETWEEN 2 AND 7", 2, None),
        ("a1 BETWEEN 2 AND a0", 0, "a1 BETWEEN 2 AND a0"),
        ("a4 < 2", 0, "a4 < 2"),
        (f"a0 < {1 << 60}", 0, f"a0 < {1 << 60}"),
    ],
)
def test_compared_bounds_are_removed(having: str, tests: int, rest: str | None) -> None:
    found, left = bound_tests(plan(having))
    assert len(found) == tests
    assert (None if left.having is None else left.having.sql()) == rest


@pytest.mark.parametrize("comparison", list(Comparison))
@pytest.mark.parametrize("value", [-1, 0, 2, Decimal("2.5"), 3])
def test_comparisons_and_null(comparison: Comparison, value: Decimal) -> None:
    count, values = CALLS[0].part("n"), [None, -3, -1, 0, 1, 2, 3, 9]
    numbers = np.array([v or 0 for v in values], np.int64)
    seen = np.array([v is not None for v in values], np.int64)
    sums, extremes, n = CALLS[1].part("s"), CALLS[2].part("v"), Accumulator(Kind.COUNT, "x", LONG, None)
    states = {count: (numbers,), sums: (numbers >> 32, numbers & 0xFFFFFFFF), n: (seen,)}
    states |= {extremes: (numbers,), CALLS[2].part("n"): (seen,)}
    compare = {">": "__gt__", ">=": "__ge__", "<": "__lt__", "<=": "__le__"}[comparison.value]
    for column in ("a1", "a2"):
        [test], _ = bound_tests(plan(f"{column} {comparison.value} {value}"))
        expected = [v is not None and getattr(Decimal(v), compare)(Decimal(value)) for v in values]
        assert test.holds(states).tolist() == expected
