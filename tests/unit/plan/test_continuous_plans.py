"""The binder of continuous queries: the plans that it makes."""

from __future__ import annotations

import pytest
from support.bound_plans import bind, lines

from windrow.cql import parse_one
from windrow.cql.statements import CreateQuery
from windrow.plan.accumulators import Kind
from windrow.plan.algebra.nodes import GroupBy, Join, StreamWindow, walk
from windrow.plan.continuous import is_periodic_chain


def plan_of(select: str) -> list[str]:
    return lines(bind(select))


@pytest.mark.parametrize(
    ("select", "periodic"),
    [
        ("SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE]", True),
        ("SELECT k FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY k", True),
        ("SELECT COUNT(*) AS n FROM s [NOW]", True),
        ("SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE SLIDE 5 ROWS]", True),
        ("SELECT k FROM s [ROWS 5 SLIDE 5 PARTITION BY k]", True),
        ("SELECT k FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] ORDER BY MAX(a)", True),
        ("SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE]", False),
        ("SELECT COUNT(*) AS n FROM s", False),
        ("SELECT k FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE]", False),
        ("SELECT k FROM s [NOW]", False),
        ("SELECT DISTINCT k FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY k", False),
        ("SELECT ISTREAM(COUNT(*)) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE]", False),
        ("SELECT COUNT(*) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE INTERNAL]", False),
        ("SELECT COUNT(*) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE], t [RANGE 1 MINUTE SLIDE 1 MINUTE]", False),
        ("SELECT COUNT(*) FROM (SELECT k FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE])", False),
        ("WITH x AS (SELECT k FROM s [NOW]) SELECT COUNT(*) FROM x", False),
        ("SELECT COUNT(*) FROM s [NOW] UNION ALL SELECT COUNT(*) FROM t [NOW]", False),
        ("SELECT 1", False),
    ],
)
def test_which_queries_are_periodic_chains(select: str, periodic: bool) -> None:
    statement = parse_one(f"CREATE QUERY q AS {select}")
    assert isinstance(statement, CreateQuery)
    assert is_periodic_chain(statement.select) is periodic


# -- one stream ---------------------------------------------------------------------------------------------


def test_star() -> None:
    plan = bind("SELECT * FROM s [RANGE 1 MINUTE]")
    assert [(column.name, column.type.name) for column in plan.schema] == [
        ("ts", "TIMESTAMP"),
        ("k", "INT"),
        ("a", "INT"),
        ("name", "STRING"),
        ("ok", "BOOLEAN"),
        ("price", "DECIMAL(10,2)"),
    ]
    assert isinstance(plan.root, StreamWindow) and plan.streams == ("s",)
    assert (plan.point.name, plan.step, plan.origin, plan.periodic) == ("TIMESTAMP", 1_000_000, 0, False)


def test_spark_computes_what_is_over_one_stream() -> None:
    assert plan_of("SELECT UPPER(name) AS n, A + 1 AS x FROM S [RANGE 1 MINUTE] AS p WHERE p.ok AND a > 3") == [
        "StreamWindow s <60s> c0=UPPER(`name`), c1=`a` + 1 where (`ok`) AND (`a` > 3)"
    ]


def test_an_expression_twice_is_computed_once() -> None:
    assert plan_of("SELECT a + 1 AS x, a + 1 AS y FROM s [RANGE 1 MINUTE]") == [
        "Project c1 x INT=c0, c2 y INT=c0",
        "  StreamWindow s <60s> c0=`a` + 1",
    ]


def test_column_ids_are_unique() -> None:
    plan = bind("SELECT x.a AS a, y.a AS b, x.a + y.a AS c FROM s [NOW] AS x, s [NOW] AS y, t [NOW] GROUP BY 1, 2, 3")
    columns: dict[int, str] = {}
    for node in walk(plan.root):
        for column in node.schema:
            assert columns.setdefault(column.id, column.name) == column.name


def test_null_and_constants() -> None:
    assert plan_of("SELECT 1 AS one, NULL AS nil, UPPER('x') AS u FROM s [RANGE 1 MINUTE]") == [
        "Project c1 one INT=1, c2 nil VOID=NULL, c3 u STRING=c0",
        "  StreamWindow s <60s> c0=UPPER('x')",
    ]


def test_bytes_as_text_are_made_valid() -> None:
    assert "MAKE_VALID_UTF8(" in plan_of("SELECT DECODE(UNHEX(name), 'utf-8') AS x FROM s [RANGE 1 MINUTE]")[0]


def test_order_and_limit() -> None:
    plan = bind("SELECT name, a FROM s [RANGE 1 MINUTE] ORDER BY a DESC, 1, LENGTH(name) NULLS LAST LIMIT 3")
    assert lines(plan) == ["TopRows [c1 DESC, c0, LENGTH(c0)] 3", "  StreamWindow s <60s> c0=`name`, c1=`a`"]
    assert [(one.descending, one.nulls_first) for one in plan.order] == [(True, False), (False, True), (False, False)]


def test_order_without_limit_sorts_the_view_alone() -> None:
    plan = bind("SELECT a + k AS x FROM s [RANGE 1 MINUTE] ORDER BY a + k")
    assert lines(plan) == ["StreamWindow s <60s> c0=`a` + `k`"]
    assert [one.expression.sql() for one in plan.order] == ["c0"]


def test_order_of_sub_query_does_not_matter() -> None:
    assert plan_of("SELECT a FROM (SELECT a FROM s [RANGE 1 MINUTE] ORDER BY a)") == ["StreamWindow s <60s> c0=`a`"]


def test_distinct() -> None:
    assert plan_of("SELECT DISTINCT name FROM s [RANGE 1 MINUTE]") == ["Distinct", "  StreamWindow s <60s> c0=`name`"]


# -- joins --------------------------------------------------------------------------------------------------


def test_join_conditions_go_where_they_belong() -> None:
    assert plan_of(
        "SELECT s.a, b FROM s [RANGE 1 MINUTE] JOIN t [RANGE 2 MINUTES] ON s.k = t.k AND ok AND a > b "
        "WHERE UPPER(Label) = 'X' AND s.ts < t.ts + INTERVAL '5' SECONDS AND TRUE"
    ) == [
        "Project c6 a INT=c2, c7 b DOUBLE=c3",
        "  Join [c0=c1] if c2 > c3 AND c4 < c5",
        "    StreamWindow s <60s> c0=CAST(`k` AS BIGINT), c2=`a`, c4=`ts` where `ok`",
        "    StreamWindow t <120s> c1=`k`, c3=`b`, c5=`ts` + INTERVAL '5' SECONDS where UPPER(`Label`) = 'X'",
    ]


@pytest.mark.parametrize("joined", ["s [NOW] AS x, s [NOW] AS y WHERE", "s [NOW] AS x JOIN s [NOW] AS y ON"])
def test_self_join(joined: str) -> None:
    assert plan_of(f"SELECT x.a AS p, y.a AS q FROM {joined} y.k = x.k AND x.ts < y.ts")[1:] == [
        "  Join [c0=c1] if c2 < c3",
        "    StreamWindow s <1s> c0=`k`, c2=`ts`, c4=`a`",
        "    StreamWindow s <1s> c1=`k`, c3=`ts`, c5=`a`",
    ]


def test_join_without_condition() -> None:
    assert plan_of("SELECT a, b FROM s [NOW] CROSS JOIN t [NOW]") == [
        "Join []",
        "  StreamWindow s <5s> c0=`a`",
        "  StreamWindow t <5s> c1=`b`",
    ]


def test_joins_are_left_deep_and_keys_may_be_over_several_inputs() -> None:
    plan = plan_of(
        "SELECT s.a FROM s [NOW], u [NOW] AS x, u [NOW] AS y WHERE s.a + x.c = y.c AND s.k = x.k AND s.k = y.k + 1"
    )
    assert plan[1:3] == ["  Join [c0 + c1=c2, c3=c5]", "    Join [c3=c4]"]


def test_equality_within_one_side_is_no_key() -> None:
    plan = bind("SELECT s.a FROM s [NOW] JOIN u [NOW] ON s.a = u.c + s.k")
    join = next(node for node in walk(plan.root) if isinstance(node, Join))
    assert join.keys == () and join.condition is not None


def test_or_between_inputs_is_a_condition() -> None:
    assert plan_of("SELECT a FROM s [NOW], t [NOW] WHERE a > 1 OR b < 2")[1:] == [
        "  Join [] if c0 OR c1",
        "    StreamWindow s <5s> c0=`a` > 1, c2=`a`",
        "    StreamWindow t <5s> c1=`b` < 2",
    ]


def test_using_has_one_column() -> None:
    plan = bind("SELECT * FROM s [NOW] JOIN u [NOW] USING (k, ts)")
    assert [column.name for column in plan.schema] == ["k", "ts", "a", "name", "ok", "price", "c"]
    assert bind("SELECT k FROM s [NOW] JOIN u [NOW] USING (k)").schema[0].type.name == "INT"


def test_using_puts_keys_first() -> None:
    plan = bind("SELECT s.* FROM s [NOW] JOIN u [NOW] USING (k)")
    assert [column.name for column in plan.schema] == ["k", "ts", "a", "name", "ok", "price"]
    plan = bind("SELECT u.* FROM s [NOW] JOIN u [NOW] USING (k)")
    assert [column.name for column in plan.schema] == ["k", "ts", "c"]


def test_using_twice() -> None:
    plan = plan_of("SELECT k FROM s [NOW] JOIN u [NOW] USING (k) JOIN s [NOW] AS x USING (k)")
    assert plan[1:3] == ["  Join [c0=c2]", "    Join [c0=c1]"]


def test_star_of_one_input() -> None:
    plan = bind("SELECT t.*, a FROM s [NOW] JOIN t [NOW] ON s.k = t.k")
    assert [column.name for column in plan.schema] == ["ts", "k", "b", "Label", "a"]


def test_keys_have_one_type() -> None:
    plan = bind("SELECT a FROM s [NOW] JOIN t [NOW] ON price = t.k")
    join = next(node for node in walk(plan.root) if isinstance(node, Join))
    assert [one.schema[0].type.name for one in join.inputs] == ["DECIMAL(22,2)", "DECIMAL(22,2)"]


def test_case_over_two_inputs() -> None:
    assert plan_of("SELECT CASE WHEN a > 0 THEN s.k ELSE t.k END AS c FROM s [NOW], t [NOW]")[0] == (
        "Project c3 c BIGINT=CASE WHEN c0 THEN c1 ELSE c2 END"
    )


# -- sub-queries --------------------------------------------------------------------------------------------


def test_sub_query_over_one_stream_is_merged() -> None:
    assert plan_of(
        "SELECT UPPER(x.y) AS z FROM (SELECT CONCAT(name, 'a') AS y, k FROM s [RANGE 1 MINUTE] WHERE ok) AS x WHERE k > 1"
    ) == ["StreamWindow s <60s> c0=UPPER((CONCAT(`name`, 'a'))) where (`ok`) AND (`k` > 1)"]


def test_with_is_inlined() -> None:
    assert plan_of(
        "WITH x AS (SELECT a, k FROM s [UNBOUNDED] WHERE ok), y AS (SELECT a AS b, k FROM x) "
        "SELECT x.a, y.b FROM x [RANGE 1 MINUTE] JOIN y [RANGE 2 MINUTES OFFSET 1 MINUTE] USING (k)"
    )[1:] == [
        "  Join [c0=c1]",
        "    StreamWindow s <60s> c0=`k`, c2=`a` where `ok`",
        "    StreamWindow s <120s+60s> c1=`k`, c3=`a` where `ok`",
    ]


def test_name_of_with_hides_a_stream() -> None:
    assert bind("WITH t AS (SELECT a FROM s [NOW]) SELECT * FROM t").streams == ("s",)


def test_condition_on_a_sub_query_with_groups() -> None:
    assert plan_of("SELECT n FROM (SELECT k, COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY k) AS x WHERE x.n > 2") == [
        "Project c4 n BIGINT=c3",
        "  Filter c3 > 2",
        "    Project c2 k INT=c0, c3 n BIGINT=c1",
        "      GroupBy [c0] c1=COUNT(*)",
        "        StreamWindow s <60s> c0=`k`",
    ]


def test_join_with_a_sub_query() -> None:
    assert plan_of(
        "SELECT a, z FROM s [NOW] JOIN (SELECT x.k, x.c + y.c AS z FROM u [NOW] AS x, u [NOW] AS y) AS j "
        "ON s.k = j.k AND z > 3 AND a < z"
    )[1:4] == [
        "  Join [c5=c3] if c6 < c4",
        "    StreamWindow s <2s> c5=`k`, c6=`a`",
        "    Filter c4 > 3",
    ]


# -- group-by -----------------------------------------------------------------------------------------------


def test_group_by_having_order_limit() -> None:
    plan = bind(
        "SELECT name, COUNT(*) AS n, SUM(a) FILTER (WHERE ok) AS t, AVG(a * 2) / COUNT(*) AS r FROM s [RANGE 1 MINUTE] "
        "GROUP BY name HAVING n > 3 AND MAX(k) > 1 ORDER BY COUNT(*) DESC, r LIMIT 3"
    )
    assert lines(plan) == [
        "TopRows [c10 DESC, c12] 3",
        "  Project c9 name STRING=c0, c10 n BIGINT=c1, c11 t BIGINT=c4, c12 r DOUBLE=c6 / c1",
        "    Filter (c1) > 3 AND c8 > 1",
        "      GroupBy [c0] c1=COUNT(*), c4=SUM(c2 if c3), c6=AVG(c5), c8=MAX(c7)",
        "        StreamWindow s <60s> c0=`name`, c2=`a`, c3=`ok`, c5=`a` * 2, c7=`k`",
    ]


def test_group_by_over_a_join() -> None:
    assert plan_of(
        "SELECT s.name AS x, Label, SUM(a + b) AS q FROM s [NOW] JOIN t [NOW] ON s.k = t.k GROUP BY x, t.label"
    )[:3] == [
        "Project c8 x STRING=c2, c9 Label STRING=c3, c10 q DOUBLE=c7",
        "  GroupBy [c2, c3] c7=SUM(c6)",
        "    Project c2 name STRING=c2, c3 Label STRING=c3, c6 a + b DOUBLE=c4 + c5",
    ]


def test_accumulators_are_over_plan_columns() -> None:
    plan = bind("SELECT SUM(b) AS x, COUNT(DISTINCT a, b) AS d, TOP_K(Label, 2, b) AS t FROM s [NOW], t [NOW]")
    group = next(node for node in walk(plan.root) if isinstance(node, GroupBy))
    total, distinct, top = (one.call for one in group.aggregates)
    assert total.part("s").condition == "abs(CAST(c0 AS DOUBLE)) < double('Infinity')"
    assert [value.sql for value in distinct.values] == ["c2", "c0"] and distinct.part("rows").kind is Kind.COUNT
    assert [value.sql for value in top.values] == ["c4"] and top.part("s").arg == "c0"


@pytest.mark.parametrize(
    "aggregate",
    "COUNT(*),COUNT(a),SUM(a),SUM(price),AVG(a),MIN(name),MAX(t.ts),VARIANCE(a),VAR_POP(a),STDDEV(a),STDDEV_POP(price),"
    "MEDIAN(a),QUANTILE(name; 0.9),COUNT(DISTINCT a),TOP_K(name; 3),APPROX_COUNT_DISTINCT(a),APPROX_QUANTILE(a; 0.5),"
    "APPROX_TOP_K(name; 3)".split(","),
)
def test_aggregates(aggregate: str) -> None:
    called = aggregate.replace(";", ",")
    plan = bind(f"SELECT s.k, {called} AS x FROM s [NOW] JOIN t [NOW] ON s.k = t.k GROUP BY s.k")
    assert any(isinstance(node, GroupBy) for node in walk(plan.root))


def test_equal_aggregates_are_computed_once() -> None:
    plan = bind("SELECT SUM(a) AS x, sum(A) + 1 AS y FROM s [RANGE 1 MINUTE] HAVING SUM(a) > 3")
    group = next(node for node in walk(plan.root) if isinstance(node, GroupBy))
    assert len(group.aggregates) == 1


def test_function_of_a_key_that_only_spark_knows() -> None:
    assert plan_of("SELECT UPPER(name) AS u, COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY name")[1:] == [
        "  GroupBy [c0, c1] c2=COUNT(*)",
        "    StreamWindow s <60s> c0=`name`, c1=UPPER(`name`)",
    ]


def test_expression_of_keys() -> None:
    assert plan_of("SELECT (a + k) * 2 AS x FROM s [RANGE 1 MINUTE] GROUP BY a + k")[0] == "Project c1 x INT=c0 * 2"


def test_count_over_join_needs_no_columns() -> None:
    assert plan_of("SELECT COUNT(*) AS n FROM s [NOW], t [NOW]")[1:4] == [
        "  GroupBy [] c0=COUNT(*)",
        "    Project",
        "      Join []",
    ]


# -- union --------------------------------------------------------------------------------------------------


def test_union_all_has_common_types() -> None:
    plan = bind("SELECT a, name FROM s [NOW] UNION ALL SELECT k, Label FROM t [NOW] ORDER BY a DESC LIMIT 2")
    assert lines(plan) == [
        "TopRows [c4 DESC] 2",
        "  MergeUnion c4 a BIGINT, c5 name STRING",
        "    StreamWindow s <5s> c0=CAST(`a` AS BIGINT), c1=`name`",
        "    StreamWindow t <5s> c2=`k`, c3=`Label`",
    ]


def test_union_of_joins_is_cast_above_them() -> None:
    plan = plan_of("SELECT x.a FROM s [NOW] AS x, s [NOW] AS y UNION ALL SELECT k FROM t [NOW]")
    assert plan[:2] == ["MergeUnion c3 a BIGINT", "  Project c1 a BIGINT=CAST(c0 AS BIGINT)"]


def test_chain_of_unions_is_one_union() -> None:
    union = "SELECT k FROM s [NOW] UNION ALL SELECT a FROM s [NOW] UNION ALL SELECT k + 1 FROM s [NOW]"
    assert [line[:14] for line in plan_of(union)] == ["MergeUnion c3 ", *["  StreamWindow"] * 3]


def test_null_in_a_union_takes_the_other_type() -> None:
    assert (
        bind("SELECT a, NULL AS x FROM s [NOW] UNION ALL SELECT k, name FROM s [NOW]").schema[1].type.name == "STRING"
    )


def test_union_without_all_is_distinct() -> None:
    assert plan_of("SELECT k FROM s [NOW] UNION SELECT a FROM s [NOW]")[:2] == ["Distinct", "  MergeUnion c2 k INT"]


def test_types_are_asked_of_spark_in_the_same_order() -> None:
    query = "SELECT a + b AS x, UPPER(name) AS n FROM s [NOW] JOIN t [NOW] ON s.k = t.k WHERE a > 3"
    assert bind(query) == bind(query)
