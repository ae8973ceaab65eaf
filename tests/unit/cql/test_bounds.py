"""Bounds on the values that functions make: what is refused, what is guarded, and that a guard is right."""

from __future__ import annotations

import duckdb
import pytest

from windrow.cql import parse_one
from windrow.cql.bounds.constants import check_sizes
from windrow.cql.bounds.guards import bounded_sql, guarded, oversized_sql
from windrow.cql.bounds.sizes import BOUNDED
from windrow.cql.final.sql import to_duckdb
from windrow.cql.functions import FINAL_FUNCTIONS, ROW_FUNCTIONS
from windrow.cql.select_text import parse_expression
from windrow.errors import BindError
from windrow.types import SqlType

MOST = 1000


@pytest.mark.parametrize(
    "call",
    [
        "REPEAT('a', 1000000000)",
        "REPEAT('a', 1000 * 1000 * 1000)",
        "REPEAT(k, 2000)",
        "REPEAT(REPEAT('ab', 100), 10)",
        "SPACE(2000000000)",
        "SPACE(CAST(2000 AS INT))",
        "LPAD(k, 1001)",
        "RPAD(k, 1001, 'x')",
        "CONCAT(REPEAT('a', 900), k, SPACE(101))",
        "REPEAT('a', 900) || k || SPACE(101)",
        "CONCAT_WS(',', REPEAT('a', 900), SPACE(101))",
        "REPLACE(REPEAT('a', 900), 'a', 'bb')",
        "HEX(REPEAT('a', 501))",
        "FORMAT_STRING('%1001d', x)",
        "PRINTF('%.1001f', x)",
        "FORMAT_NUMBER(x, 1001)",
    ],
)
def test_constant_that_is_too_large(call: str) -> None:
    text = f"SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10] WHERE LENGTH({call}) > 0"
    with pytest.raises(BindError, match="at most 1,000 are allowed") as refused:
        check_sizes(parse_one(text).select, text, MOST)
    assert refused.value.place is not None and "max_value_bytes" in str(refused.value)


def test_too_many_inside_each_other() -> None:
    call = "k"
    for _ in range(13):
        call = f"HEX({call})"
    text = f"SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10] WHERE {call} > 'a'"
    with pytest.raises(BindError, match="more than 12 functions"):
        check_sizes(parse_one(text).select, text, MOST)


@pytest.mark.parametrize(
    "plain",
    ["k", "UPPER(k)", "LPAD(k, 10, '0')", "REPLACE(k, 'ab', 'c')", "CONCAT('a', 'b')", "REPEAT('a', 10)", "x + 1"],
)
def test_no_guard_where_nothing_grows(plain: str) -> None:
    assert bounded_sql(plain, MOST) == plain and oversized_sql(plain, MOST) is None


def test_bounded_functions_are_allowed_functions() -> None:
    assert BOUNDED <= ROW_FUNCTIONS
    assert BOUNDED & FINAL_FUNCTIONS == {"CONCAT", "REPLACE"}, "the others need a translation of their guards"


def test_text_of_nested_guards_stays_short() -> None:
    call = "k"
    for _ in range(12):
        call = f"REPLACE({call}, 'a', k)"
    assert len(bounded_sql(call, MOST)) < 10_000 and len(oversized_sql(call, MOST) or "") < 50_000


@pytest.mark.parametrize(
    ("call", "values"),
    [
        ("CONCAT(k, k)", {"a": ("aa", 0), "abc": (None, 1), None: (None, 0)}),
        ("k || '-' || 7", {"abc": ("abc-7", 0), "abcd": (None, 1)}),
        ("REPLACE(k, 'a', 'bb')", {"aa": ("bbbb", 0), "aaa": (None, 1), "xxxxx": ("xxxxx", 0)}),
        ("REPLACE(REPLACE(k, 'a', 'bb'), 'b', 'cc')", {"a": ("cccc", 0), "aa": (None, 1), "aaa": (None, 1)}),
        ("CASE WHEN k = 'abc' THEN 'x' ELSE CONCAT(k, k) END", {"abc": ("x", 0), "abcd": (None, 1)}),
        ("COALESCE(CONCAT(k, k), 'none')", {"abcd": ("none", 1)}),
    ],
)
def test_guards_in_duckdb(call: str, values: dict[str | None, tuple[str | None, int]]) -> None:
    found = guarded(parse_expression(call), None)
    types = {"k": SqlType("STRING")}
    assert found.oversized is not None
    sql = f"SELECT {to_duckdb(found.tree, types)}, {to_duckdb(found.oversized, types)} FROM (SELECT ?::VARCHAR AS k)"
    with duckdb.connect() as connection:
        connection.execute("SET VARIABLE max_value_bytes = 5")
        for value, expected in values.items():
            assert connection.execute(sql, [value]).fetchall() == [expected], value


def test_long_chain_of_operators() -> None:
    text = " + ".join(["LENGTH(REPEAT(k, x))", *["1"] * 380])
    assert bounded_sql(text, MOST).startswith("LENGTH(IF(") and oversized_sql(text, MOST) is not None
    joined = bounded_sql(" || ".join(["k"] * 380), MOST)
    assert joined.count("IF(") == 1 and joined.count("CONCAT(") == 1
