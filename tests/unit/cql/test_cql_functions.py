"""The allow-list: what is allowed, what is refused, and the reasons."""

from __future__ import annotations

import pytest
from sqlglot import exp

from windrow.cql import check_functions, parse_expression, parse_one
from windrow.cql.functions import (
    AGGREGATE_NODES,
    AGGREGATES,
    FINAL_FUNCTIONS,
    OWN_AGGREGATES,
    ROW_FUNCTIONS,
    function_name,
    is_aggregate,
)
from windrow.cql.statements import Select
from windrow.errors import BindError, FunctionError, UnsupportedError


def check(expression: str) -> None:
    check_functions(parse_expression(expression), f"SELECT {expression}")


@pytest.mark.parametrize("name", sorted(AGGREGATES | OWN_AGGREGATES))
def test_aggregates_have_a_node(name: str) -> None:
    tree = parse_expression(f"{name}(a) FILTER (WHERE b > 1) + 1")
    check_functions(tree, "")
    assert [type(node) for node in tree.walk() if is_aggregate(node)][0] in AGGREGATE_NODES


def test_final_functions_are_row_functions() -> None:
    assert FINAL_FUNCTIONS <= ROW_FUNCTIONS and not ROW_FUNCTIONS & (AGGREGATES | OWN_AGGREGATES)


REFUSED = [
    ("reflect('java.lang.Runtime', 'x')", "it runs code"),
    ("java_method('a', 'b')", "it runs code"),
    ("try_reflect('a', 'b')", "it runs code"),
    ("input_file_name()", "reads the session"),
    ("current_user()", "reads the session"),
    ("current_user", "reads the session"),
    ("session_user", "reads the session"),
    ("current_catalog()", "reads the session"),
    ("spark_partition_id()", "reads the session"),
    ("rand()", "the same input"),
    ("uuid()", "the same input"),
    ("now()", "the same input"),
    ("current_timestamp", "the same input"),
    ("current_timestamp()", "the same input"),
    ("current_date", "the same input"),
    ("unix_timestamp()", "the current time"),
    ("parse_url(a, 'HOST')", "URLs"),
    ("url_encode(a)", "URLs"),
    ("raise_error('x')", "fails on purpose"),
    ("assert_true(a)", "fails on purpose"),
    ("explode(a)", "one row into several"),
    ("inline(a)", "one row into several"),
    ("stack(2, a, b)", "one row into several"),
    ("row_number()", "window functions"),
    ("lag(a)", "window functions"),
    ("window(ts, '1 minute')", "not how Windrow writes a window"),
    ("transform(a, x -> x + 1)", "take a function"),
    ("aggregate(a, 0, (x, y) -> x)", "take a function"),
    ("first(a)", "no such aggregate"),
    ("collect_list(a)", "no such aggregate"),
    ("count_if(a)", "no such aggregate"),
    ("array(1, 2)", "scalars"),
    ("struct(1)", "scalars"),
    ("from_json(a, 'b INT')", "scalars"),
    ("ai_query('m', a)", "calls a model"),
    ("identifier('a')", "spells out all names"),
    ("my_udf(a)", "not allowed"),
    ("uppr(a)", "Did you mean UPPER?"),
    ("avgg(a)", "Did you mean AVG?"),
    ("1 + abs(coalesce(b, shuffle(a)))", "the same input"),
    ("SUM(CASE WHEN rand() > 0.5 THEN 1 END)", "the same input"),
]


@pytest.mark.parametrize(("expression", "says"), REFUSED, ids=[row[0] for row in REFUSED])
def test_refused_functions(expression: str, says: str) -> None:
    with pytest.raises(FunctionError, match=says.replace("?", r"\?")):
        check(expression)


@pytest.mark.parametrize("expression", [row[0] for row in REFUSED] + ["SUM(DISTINCT a)", "SUM(a) OVER ()", "a[1]"])
def test_refusals_have_a_remedy(expression: str) -> None:
    with pytest.raises(BindError) as caught:
        check(expression)
    assert caught.value.remedy


@pytest.mark.parametrize("name", ["SUM", "MEDIAN"])
def test_distinct_in_other_aggregates(name: str) -> None:
    check("COUNT(DISTINCT a, b)")
    with pytest.raises(UnsupportedError, match=rf"{name}\(DISTINCT …\) yet") as caught:
        check(f"{name}(DISTINCT a)")
    assert "GROUP BY" in str(caught.value.remedy)


def test_place_of_refused_function() -> None:
    with pytest.raises(FunctionError) as caught:
        check("1 + abs(rand())")
    assert caught.value.place is not None
    assert (caught.value.place.column, caught.value.place.length) == (len("SELECT 1 + abs(") + 1, 4)


@pytest.mark.parametrize(
    "expression",
    [
        "(SELECT 1)",
        "a IN (SELECT 1)",
        "EXISTS (SELECT 1)",
        "a = (SELECT MAX(a) FROM t)",
        "SUM(a) OVER ()",
        "SUM(a) OVER (PARTITION BY b ORDER BY c)",
        "COUNT(DISTINCT *)",
        "SUM(DISTINCT a)",
        "SUM(a ORDER BY b)",
        "COUNT(a, b)",
        "abs(a) FILTER (WHERE b)",
        "a.b.c",
        "a.b.c.d",
        "x.f(1)",
        "a[1]",
        "(a, b)",
        "* EXCEPT (a)",
        ":p",
        "?",
        "${p}",
        "@v",
        "CAST(a AS ARRAY<INT>)",
        "CAST(a AS STRUCT<x: INT>)",
        "CAST(a AS INTERVAL)",
        "a COLLATE x",
        "a LIKE ANY ('x', 'y')",
        "a & b | c",
        "a ^ b & c",
        "f(x => 1)",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY a)",
        "a IS JSON",
        "1 = INTERVAL '1' DAY",
    ],
)
def test_refused_syntax(expression: str) -> None:
    with pytest.raises((UnsupportedError, FunctionError)) as caught:
        check(expression)
    assert caught.value.place is not None or expression in (":p", "?", "${p}", "@v")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM s, t",
        "SELECT a FROM s JOIN t ON s.a = t.a",
        "SELECT a FROM db.s",
        "SELECT a FROM cat.db.s",
        "SELECT a FROM parquet.`/etc/passwd`",
        "SELECT a FROM (SELECT a FROM s)",
        "SELECT a FROM s TABLESAMPLE (10 PERCENT)",
        "SELECT a FROM s LATERAL VIEW explode(b) t AS x",
        "SELECT a FROM s PIVOT (SUM(a) FOR b IN (1, 2))",
        "SELECT DISTINCT a FROM s",
        "SELECT a FROM s GROUP BY ROLLUP (a)",
        "SELECT a FROM s GROUP BY CUBE (a)",
        "SELECT a FROM s GROUP BY ALL",
        "SELECT a FROM s GROUP BY GROUPING SETS ((a))",
        "SELECT a FROM s LIMIT 5 OFFSET 3",
        "SELECT a FROM s LIMIT ALL",
        "SELECT a FROM s SORT BY a",
        "SELECT a FROM s CLUSTER BY a",
        "SELECT a FROM s AS p (x)",
        "SELECT a FROM s WINDOW w AS (ORDER BY a)",
        "SELECT a FROM s VERSION AS OF 3",
        "SELECT * FROM range(10)",
        "SELECT * FROM read_files('/etc')",
        "SELECT * FROM VALUES (1)",
        "SELECT TRANSFORM(a) FROM s",
        "SELECT a FROM s WHERE a = (SELECT 1)",
        "SELECT a FROM s WHERE reflect('a', 'b') = 1",
        "SELECT a FROM s ORDER BY rand()",
        "SELECT a FROM s LIMIT rand()",
    ],
)
def test_refused_queries(query: str) -> None:
    statement = parse_one(query)
    assert isinstance(statement, Select)
    with pytest.raises(BindError) as caught:
        check_functions(statement.select, query)
    assert caught.value.place is not None


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM dead_letters('packets')",
        "SELECT COUNT(*), MAX(a) FILTER (WHERE b) FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] AS p",
        "SELECT p.a, SUM(b) / COUNT(*) AS x FROM s p WHERE NOT a LIKE 'x!_%' ESCAPE '!' AND ts > now_ GROUP BY p.a "
        "HAVING x > 1 ORDER BY x DESC NULLS LAST, a LIMIT 10",
        "SELECT (a & b) | c, ts + INTERVAL '1' DAY - INTERVAL 2 HOURS, timestampadd(HOUR, 1, ts) FROM s",
        "SELECT extract(HOUR FROM ts), position('a' IN b), trim(BOTH 'x' FROM b), a << 2 FROM s",
        "SELECT CAST(a AS DECIMAL(10, 2)), a::int, DATE '2020-01-01', X'1F', 5L, TRY_CAST(a AS TIMESTAMP_NTZ) FROM s",
    ],
)
def test_allowed_queries(query: str) -> None:
    statement = parse_one(query)
    assert isinstance(statement, Select)
    check_functions(statement.select, query)


def test_unlisted_node_classes() -> None:
    """A node class that is not listed is refused."""

    class Unlisted(exp.Expression):
        arg_types = {"this": True}

    with pytest.raises(UnsupportedError, match="UNLISTED"):
        check_functions(Unlisted(this=exp.column("a")), "")


def test_function_name() -> None:
    assert function_name(parse_expression("ucase(a)")) == "UPPER"
    assert function_name(parse_expression("md5(a)")) == "MD5"
    assert function_name(parse_expression("a + 1")) is None
