"""Punctuation patterns: their text, what they promise, and that the promises kept judge tuples like all patterns."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.cql.patterns import BadPatternError, equals, parse_pattern, pattern_text
from windrow.dataplane.ingest.promised import bound_of_record, broken_sql, promised_bounds
from windrow.oracle import patterns as oracle
from windrow.types import SqlType
from windrow.windows.promises import ALWAYS, Promise, Promises, announced_by, united

TYPES = {
    "n": SqlType("BIGINT"),
    "m": SqlType("BIGINT"),
    "k": SqlType("STRING"),
    "d": SqlType("DOUBLE"),
    "ts": SqlType("TIMESTAMP"),
    "p q": SqlType("DECIMAL(5,2)"),
    "b": SqlType("BOOLEAN"),
    "day": SqlType("DATE"),
}
N, M = {"n": TYPES["n"]}, {"m": TYPES["m"]}


@pytest.mark.parametrize(
    ("text", "back"),
    [
        ("k='a', n<10", "k = 'a', n < 10"),
        ("(K = *, N <= 20)", "n <= 20"),
        ("k in ('b','it''s'), n<=-19", "k IN ('b', 'it''s'), n <= -19"),
        ("n between 3 and 5", "n BETWEEN 3 AND 5"),
        ("k = NULL", "k = NULL"),
        ("d >= 1.5e3", "d >= 1500.0"),
        ("ts < '2026-01-01 12:00:00'", "ts < '2026-01-01 12:00:00+00:00'"),
        ("ts < '2026-01-01T13:00:00+01:00'", "ts < '2026-01-01 12:00:00+00:00'"),
        ("`p q` = 1.5, b = TRUE", "`p q` = 1.50, b = true"),
        ("day > '2026-02-01'", "day > '2026-02-01'"),
    ],
)
def test_pattern_text(text: str, back: str) -> None:
    pattern = parse_pattern(text, TYPES)
    assert pattern_text(pattern) == back
    assert parse_pattern(back, TYPES) == pattern


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a pattern"),
        ("()", "not a pattern"),
        ("k = *, n = *", "not a pattern"),
        ("n before noon", "not a pattern"),
        ("n <", "not a pattern"),
        ("n < 10,", "not a pattern"),
        ("k = 'a' n < 3", "not a pattern"),
        ("k < NULL", "not a pattern"),
        ("k IN ('a', NULL)", "not a pattern"),
        ("k ~ 3", "not a pattern"),
        ("k IN ('a' 'b')", "not a pattern"),
        ("q < 3", "unknown column"),
        ("n < 'x'", "a value that does not fit"),
        ("n < 99999999999999999999", "a value that does not fit"),
        ("n < 5000000000000000000", "a value that does not fit"),
        ("d = 1e999", "a value that does not fit"),
        ("`p q` = 1.234", "a value that does not fit"),
        ("k = 5", "a value that does not fit"),
        ("ts < 'noon'", "a value that does not fit"),
    ],
)
def test_bad_patterns(text: str, reason: str) -> None:
    with pytest.raises(BadPatternError, match=f"^{reason}"):
        announced_by(parse_pattern(text, TYPES), N)


@pytest.mark.parametrize("value", [True, "x", 1.5, float("nan")])
def test_bad_value(value: Any) -> None:
    with pytest.raises(BadPatternError):
        equals("n", value, TYPES)
    assert equals("K", "x", TYPES).column == "k"


def told(text: str, axes: dict[str, SqlType] = N) -> Any:
    return announced_by(parse_pattern(text, TYPES), axes)


def test_promises_of_patterns() -> None:
    assert told("n < 10").frontiers == {"n": 10}
    assert told("n <= 10, n < 30, k = *").frontiers == {"n": 11}
    assert [(p.axis, p.text, p.bound) for p in told("k IN ('a', 'b', 'a'), n < 5").promises] == [
        ("n", "k = 'a'", 5),
        ("n", "k = 'b'", 5),
    ]
    assert [(p.axis, p.bound) for p in told("k = 'a'", N | M).promises] == [("n", ALWAYS), ("m", ALWAYS)]
    assert [(p.text, p.bound) for p in told("n BETWEEN 3 AND 8").promises] == [("n BETWEEN 3 AND 8", 9)]
    assert [(p.text, p.bound) for p in told("n > 3").promises] == [("n > 3", ALWAYS)]
    assert [(p.text, p.bound) for p in told("n < 9, m < 4, k = 'a'", N | M).promises] == [("k = 'a', m < 4", 9)]


def test_promises_kept() -> None:
    held = Promises()
    for text in ("k = 'a', n < 5", "k = 'a', n < 3", "k = 'b', n < 9", "d > 1, n < 4"):
        held = held.after(told(text).promises, {})
    assert {p.text: p.bound for p in held} == {"k = 'a'": 5, "k = 'b'": 9, "d > 1.0": 4}
    assert held.waiting("n")
    held = held.answered("n").after(told("k IN ('a', 'c'), n < 7").promises, {"n": 6})
    assert {p.text: (p.bound, p.given) for p in held if p.bound == 7} == {"k = 'a'": (7, 5), "k = 'c'": (7, None)}
    assert [p.text for p in held.overtaken("n", 7)] == ["k = 'b'"]
    assert held.overtaken("m", 100) is held
    assert held.after(told("k = 'z', n < 6").promises, {"n": 6}).held.keys() == held.held.keys()
    assert held.heard == 6


def test_sql_of_equal_bounds() -> None:
    promises = united(told(f"k = '{k}', n < 10") for k in "abc").promises + told("k = 'x', d = 1, n < 3").promises
    found = broken_sql(promises, TYPES, lambda axis, v: f"{axis} < {v}")
    assert found == ["(n < 3 AND d = CAST('1.0' AS DOUBLE) AND k = 'x')", "(n < 10 AND k IN ('a', 'b', 'c'))"]


def test_binary_and_wide_decimal_values() -> None:
    with pytest.raises(BadPatternError, match="BINARY"):
        equals("raw", b"x", {"raw": SqlType("BINARY")})
    wide = {"w": SqlType("DECIMAL(38,0)")}
    promise = Promise("n", (equals("w", Decimal("12345678901234567890123"), wide),), 10)
    assert bound_of_record([promise], '{"n": 1, "w": 12345678901234567890123}', wide) == 10
    assert bound_of_record([promise], '{"n": 1, "w": 1e99}', wide) is None


def test_sql_of_many_bounds() -> None:
    promises = united(told(f"k = 'k{i}', n < {i}") for i in range(40)).promises + told("k = 'z'").promises
    found = broken_sql(promises, TYPES, lambda axis, v: f"{axis} < {v}")
    assert found[0] == "(k IN ('z'))"
    assert len(found) == 2 and "map_from_arrays" in found[1] and "'k39'" in found[1] and "39L" in found[1]


# -- against the oracle ------------------------------------------------------------------------------

numbers = st.integers(-3, 12)
strings = st.sampled_from(["'a'", "'b'", "''"])
doubles = st.sampled_from(["0", "-0.0", "1.5", "2"])


def conditions(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    ops = st.sampled_from(["=", "<", "<=", ">", ">="])
    return st.one_of(
        st.tuples(ops, values).map(lambda one: f"{column} {one[0]} {one[1]}"),
        st.tuples(values, values).map(lambda one: f"{column} BETWEEN {one[0]} AND {one[1]}"),
        st.lists(values, min_size=1, max_size=3).map(lambda many: f"{column} IN ({', '.join(map(str, many))})"),
        st.sampled_from([f"{column} = *", f"{column} = NULL"]),
    )


one = st.one_of(
    conditions("n", numbers),
    conditions("m", numbers),
    conditions("k", strings),
    conditions("d", doubles),
    numbers.map(lambda n: f"n < {n}"),
)
texts = st.lists(one, min_size=1, max_size=3).filter(lambda many: any(not c.endswith("*") for c in many)).map(", ".join)
rows = st.fixed_dictionaries(
    {
        "n": numbers,
        "m": numbers,
        "k": st.sampled_from(["a", "b", "", None]),
        "d": st.sampled_from([0.0, -0.0, 1.5, 2.0, float("nan"), None]),
    }
)


@pytest.mark.hypothesis
@given(st.lists(texts, max_size=6), st.lists(rows, min_size=1, max_size=8), st.sampled_from([N, N | M]))
def test_promises_kept_match_oracle(written: list[str], tuples: list[dict[str, Any]], axes: dict[str, SqlType]) -> None:
    """The kept promises (lists expanded, lower bounds and overtaken ones dropped) make the oracle's tuples late."""
    frontiers: dict[str, int] = {}
    kept = Promises()
    for text in written:
        found = told(text, axes)
        frontiers |= {axis: max(v, frontiers.get(axis, v)) for axis, v in found.frontiers.items()}
        kept = kept.after(found.promises, frontiers)
        for axis, upto in frontiers.items():
            kept = kept.overtaken(axis, upto)
    columns = {name: pa.array([row[name] for row in tuples], TYPES[name].arrow) for name in ("n", "m", "k", "d")}
    late = np.zeros(len(tuples), bool)
    for axis in axes:
        points = columns[axis].to_numpy()
        late |= (points < frontiers.get(axis, -(1 << 62))) | (
            points < promised_bounds(kept.on(axis), columns, len(tuples))
        )
    patterns = [oracle.parse_pattern(text, TYPES) for text in written]
    assert late.tolist() == [any(pattern.met_by(row) for pattern in patterns) for row in tuples]


def test_bounds_of_single_values() -> None:
    promises = [
        Promise("n", (equals("k", k, TYPES), equals("d", d, TYPES)), v) for k, d, v in (("a", 0.0, 4), (None, 2, 9))
    ]
    columns = {"k": pa.array(["a", None, "a", "z"]), "d": pa.array([-0.0, 2.0, None, 0.0])}
    assert promised_bounds(promises, columns, 4).tolist() == [4, 9, -(1 << 63), -(1 << 63)]
