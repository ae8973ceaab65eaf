"""The binder of continuous queries: errors of EXISTS, IN, outer joins and set operations, with place and remedy."""

from __future__ import annotations

import pytest
from support.bound_plans import STREAMS, bind, pointed_at, refused, stream, types_of

from windrow.cql import parse_one
from windrow.cql.bounds.guards import check_bounds
from windrow.cql.statements import CreateQuery
from windrow.errors import BindError, FunctionError, UnsupportedError
from windrow.plan.continuous import bind_continuous

T = "SELECT 1 FROM t [NOW]"


@pytest.mark.parametrize(
    ("select", "says", "place", "remedy"),
    [
        (f"SELECT DISTINCT a FROM s [NOW] WHERE a > 1 OR EXISTS ({T})", "in a plain SELECT", "1 FROM t", "UNION ALL"),
        (
            f"SELECT DISTINCT a FROM s [NOW] WHERE NOT (a > 1 AND EXISTS ({T}))",
            "which is an OR",
            "1 FROM t",
            "two queries",
        ),
        (
            "SELECT a FROM s [NOW] WHERE a IN (SELECT k FROM t [NOW]) OR k IN (SELECT k FROM t [NOW])",
            "IN (SELECT …) under OR",
            "a IN",
            "UNION",
        ),
        (f"SELECT a FROM s [NOW] WHERE (EXISTS ({T})) = ok", "not in an expression", "1 FROM t", "of its own"),
        (f"SELECT EXISTS ({T}) AS e FROM s [NOW]", "EXISTS with a sub-query stands in WHERE", "1 FROM t", "Move it"),
        (f"SELECT a FROM s [NOW] JOIN t [NOW] ON EXISTS ({T})", "stands in WHERE", "1 FROM t", "Move it"),
        (
            f"SELECT COUNT(*) FILTER (WHERE EXISTS ({T})) AS n FROM s [NOW], t [NOW]",
            "stands in WHERE",
            "1 FROM t",
            "Move",
        ),
        (f"SELECT k FROM s [NOW] GROUP BY k HAVING EXISTS ({T})", "stands in WHERE", "1 FROM t", "Move it"),
        (
            "SELECT a FROM s [NOW] WHERE a IN (SELECT k, b FROM t [NOW])",
            "1 value with a sub-query of 2",
            "a IN",
            "as many",
        ),
        ("SELECT a FROM s [NOW] WHERE (a, k) IN (SELECT k FROM t [NOW])", "2 values with", "a, k", "as many"),
        ("SELECT a FROM s [NOW] WHERE name IN (SELECT k FROM t [NOW])", "STRING and BIGINT cannot", "name IN", "Cast"),
        ("SELECT a FROM s [NOW] WHERE SUM(a) IN (SELECT k FROM t [NOW])", "an aggregate cannot", "SUM", "HAVING"),
        ("SELECT a FROM s [NOW] WHERE a IN (SELECT ISTREAM(k) FROM t [NOW])", "needs a window", "ISTREAM", "[RANGE"),
        ("SELECT a FROM s [NOW] WHERE (a, k) = (1, 2)", "a list of values outside of IN", "", ""),
    ],
)
def test_conditions(select: str, says: str, place: str, remedy: str) -> None:
    error = refused(select)
    assert says in error.message and remedy in (error.remedy or "")
    assert pointed_at(error).startswith(place)


@pytest.mark.parametrize(
    ("inner", "why"),
    [
        ("SELECT COUNT(*) FROM t [NOW] WHERE t.k = s.k", "below GROUP BY or an aggregate"),
        ("SELECT k FROM t [NOW] WHERE t.k = s.k GROUP BY k", "below GROUP BY or an aggregate"),
        ("SELECT k FROM t [NOW] WHERE t.k = s.k LIMIT 1", "below LIMIT"),
        ("SELECT 1 FROM (SELECT k FROM t [NOW] WHERE t.k = s.k) AS x", "inside a sub-query in FROM"),
        ("SELECT 1 FROM t [NOW] UNION ALL SELECT 1 FROM t [NOW] WHERE t.k = s.k", "inside UNION, EXCEPT or INTERSECT"),
        ("SELECT 1 FROM t [NOW] JOIN t [NOW] AS u ON u.k = s.k", "outside of WHERE"),
        (
            "SELECT 1 FROM t [NOW] WHERE EXISTS (SELECT 1 FROM t [NOW] AS u WHERE u.k = s.k)",
            "more than one level below that query",
        ),
        ("SELECT k FROM t [NOW] GROUP BY k HAVING MAX(b) > s.k", "outside of WHERE"),
    ],
)
def test_correlation(inner: str, why: str) -> None:
    error = refused(f"SELECT a FROM s [NOW] WHERE NOT EXISTS ({inner})", UnsupportedError)
    assert error.message == f"'s.k' is a column of the query around this sub-query, and cannot be used {why}"
    assert pointed_at(error) == "s.k" and error.remedy


@pytest.mark.parametrize(
    ("inner", "says", "place"),
    [
        ("SELECT 1 FROM t [NOW] WHERE t.k = s.kk", "stream 's' has no column 'kk'", "s.kk"),
        ("SELECT 1 FROM t [NOW] WHERE t.kk = s.k", "stream 't' has no column 'kk'", "t.kk"),
        ("SELECT 1 FROM t [NOW] WHERE t.k = x.k", "'x' is not in FROM", "x.k"),
        ("SELECT nope FROM t [NOW]", "stream 't' has no column 'nope'", "nope"),
        ("SELECT 1 FROM t [NOW], s [NOW] AS u WHERE k = 1", "'k' is ambiguous", "k"),
        ("SELECT 1 FROM t [NOW] WHERE t.b", "WHERE needs a condition, and this is DOUBLE", "t.b"),
        ("SELECT 1 FROM t [NOW] WHERE t.b + s.a", "WHERE needs a condition, and this is DOUBLE", "t.b + s.a"),
        ("SELECT 1 FROM t [NOW] WHERE MAX(t.b) > s.a", "an aggregate cannot stand in WHERE", "MAX"),
        ("SELECT 1 FROM t [NOW] WHERE reflect('a', 'b') = s.name", "the function REFLECT is not allowed", "reflect"),
    ],
)
def test_names_and_types_in_a_sub_query(inner: str, says: str, place: str) -> None:
    error = refused(f"SELECT a FROM s [NOW] WHERE EXISTS ({inner})")
    assert says in error.message and error.remedy
    assert pointed_at(error).startswith(place)


@pytest.mark.parametrize(
    ("select", "says", "place"),
    [
        ("SELECT b FROM s [NOW] LEFT ANTI JOIN t [NOW] USING (k)", "stream 's' has no column 'b'", "b"),
        ("SELECT a FROM s [NOW] LEFT SEMI JOIN t [NOW] USING (k) WHERE t.b > 1", "'t' is not in FROM", "t.b"),
        ("SELECT k FROM s [NOW] LEFT JOIN t [NOW] ON s.k = t.k", "'k' is ambiguous", "k"),
        ("SELECT a FROM s [NOW] LEFT JOIN t [NOW] USING (a)", "stream 't' has no column 'a'", "a"),
        ("SELECT a FROM s [NOW] LEFT JOIN t [NOW] ON a + b", "ON needs a condition", "a + b"),
        ("SELECT a FROM s [NOW] EXCEPT SELECT name FROM s [NOW]", "a column of the EXCEPT is INT in one", "name"),
        ("SELECT a FROM s [NOW] INTERSECT SELECT a, k FROM s [NOW]", "of an INTERSECT have the same number", "a, k"),
        (
            "SELECT ISTREAM(a) FROM s [NOW] EXCEPT SELECT a FROM s [NOW]",
            "EXCEPT is of relations, and ISTREAM",
            "a) FROM s",
        ),
        ("SELECT a FROM s [RANGE 1 MINUTE INTERNAL] LEFT JOIN t [NOW] USING (k)", "a row without a match goes", "s"),
        ("SELECT a FROM s [NOW] EXCEPT SELECT a FROM s [RANGE 1 MINUTE INTERNAL]", "a value goes when", "a FROM"),
        ("SELECT a FROM s [ROWS 3], t [RANGE 1 MINUTE INTERNAL]", "push earlier ones out", "t"),
    ],
)
def test_joins_and_set_operations(select: str, says: str, place: str) -> None:
    error = refused(select)
    assert says in error.message and error.remedy
    assert pointed_at(error).startswith(place)


def test_only_spark_computes_it_over_an_outer_side() -> None:
    error = refused("SELECT CONCAT_WS('-', Label, 'x') AS c FROM s [NOW] LEFT JOIN t [NOW] USING (k)", FunctionError)
    assert "over a side of an outer join" in error.message and "in a sub-query" in (error.remedy or "")
    assert pointed_at(error) == "CONCAT_WS"


def test_stream_of_withdrawn_rows() -> None:
    error = refused("SELECT a FROM (SELECT a FROM s [ROWS 3]) [RANGE 1 MINUTE]")
    assert "later tuples push earlier ones out of a window of ROWS" in error.message


@pytest.mark.parametrize(
    ("created", "says", "remedy"),
    [
        ("bare (ts TIMESTAMP, k INT) FROM memory TIMESTAMP BY ts", None, None),
        ("bare (ts TIMESTAMP, k INT) FROM rate TIMESTAMP BY ts", "no order of arrival", "SEQUENCE BY"),
    ],
)
def test_rows_window_needs_an_order(created: str, says: str | None, remedy: str | None) -> None:
    known = {**STREAMS, "bare": stream(created)}
    text = "CREATE QUERY q AS SELECT k FROM bare [ROWS 3]"
    statement = parse_one(text)
    assert isinstance(statement, CreateQuery)

    def bound() -> None:
        bind_continuous(statement.select, text, lambda name, place: known[name.lower()], types_of)

    if says is None:
        bound()
        return
    with pytest.raises(BindError) as caught:
        bound()
    assert (
        says in caught.value.message
        and remedy in (caught.value.remedy or "")
        and pointed_at(caught.value) == "[ROWS 3]"
    )


def test_sub_queries_count_as_streams() -> None:
    many = " AND ".join(f"EXISTS (SELECT 1 FROM t [NOW] AS t{i} WHERE t{i}.k = s.k)" for i in range(64))
    assert "more than 64 streams" in refused(f"SELECT a FROM s [NOW] WHERE {many}", UnsupportedError).message
    few = " AND ".join(f"EXISTS (SELECT 1 FROM t [NOW] AS t{i} WHERE t{i}.k = s.k)" for i in range(12))
    assert bind(f"SELECT a FROM s [NOW] WHERE {few}").streams == ("s", "t")


def test_bounds_reach_into_sub_queries() -> None:
    text = (
        "CREATE QUERY q AS SELECT a FROM s [NOW] WHERE EXISTS (SELECT 1 FROM t [NOW] WHERE REPEAT('x', 999) = s.name)"
    )
    statement = parse_one(text)
    assert isinstance(statement, CreateQuery)
    with pytest.raises(BindError, match="at most 100 are allowed"):
        check_bounds(statement.select, text, 100)
    check_bounds(statement.select, text, 1000)
