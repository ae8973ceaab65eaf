"""The binder of continuous queries: EXISTS and IN, outer joins, set operations, count-based windows."""

from __future__ import annotations

import pytest
from support.bound_plans import bind, check, lines

from windrow.cql import parse_one
from windrow.cql.statements import CreateQuery
from windrow.plan.algebra import invariants
from windrow.plan.continuous import is_monotonic, is_periodic_chain
from windrow.plan.continuous.properties import is_strict

U = "(SELECT k, a AS c, ok FROM s [RANGE 2 MINUTES]) AS u"


def plan_of(select: str) -> list[str]:
    plan = bind(select)
    check(plan)
    invariants.check(plan)
    return lines(plan)


# -- EXISTS and IN ------------------------------------------------------------------------------------------


def test_not_exists_with_keys_and_conditions() -> None:
    """An equality is a key, a comparison the condition; a condition on the sub-query alone goes to its stream."""
    assert plan_of(
        "SELECT a FROM s [RANGE 1 MINUTE] WHERE a > 0 AND NOT EXISTS "
        "(SELECT 1 FROM t [RANGE 2 MINUTES] WHERE t.k = s.k AND t.b > s.a AND Label = 'x')"
    ) == [
        "Project c4 a INT=c3",
        "  SemiJoin anti [c0=c1] if c2 > c3",
        "    StreamWindow s <60s> c0=CAST(`k` AS BIGINT), c3=`a` where `a` > 0",
        "    StreamWindow t <120s> c1=`k`, c2=`b` where `Label` = 'x'",
    ]


def test_exists_without_correlation() -> None:
    assert plan_of("SELECT a FROM s [RANGE 1 MINUTE] WHERE EXISTS (SELECT * FROM t [RANGE 1 MINUTE])") == [
        "SemiJoin semi []",
        "  StreamWindow s <60s> c0=`a`",
        "  StreamWindow t <60s>",
    ]


def test_condition_on_the_query_around_alone() -> None:
    """It filters the rows of a semi-join; of an anti-join it is a condition: a row that fails it has no match."""
    assert plan_of("SELECT a FROM s [NOW] WHERE EXISTS (SELECT 1 FROM t [NOW] WHERE s.ok)")[1:] == [
        "  StreamWindow s <5s> c0=`a` where `ok`",
        "  StreamWindow t <5s>",
    ]
    assert plan_of("SELECT a FROM s [NOW] WHERE NOT EXISTS (SELECT 1 FROM t [NOW] WHERE s.ok)")[1:] == [
        "  SemiJoin anti [] if c0",
        "    StreamWindow s <5s> c0=`ok`, c1=`a`",
        "    StreamWindow t <5s>",
    ]


def test_correlation_with_a_join() -> None:
    """What the condition reads of the sub-query is computed where its stream is; <=> is a key in which NULL is NULL."""
    assert plan_of(
        f"SELECT a FROM s [RANGE 1 MINUTE] WHERE EXISTS "
        f"(SELECT * FROM t [NOW] JOIN {U} ON t.k = u.k WHERE UPPER(t.label) = s.name AND u.k <=> s.k)"
    ) == [
        "Project c9 a INT=c8",
        "  SemiJoin semi [c6=c4, c7<=>c5]",
        "    StreamWindow s <60s> c6=`name`, c7=`k`, c8=`a`",
        "    Project c4 __c0 STRING=c2, c5 __c1 INT=c3",
        "      Join [c0=c1]",
        "        StreamWindow t <5s> c0=`k`, c2=UPPER(`Label`)",
        "        StreamWindow s <120s> c1=CAST(`k` AS BIGINT), c3=`k`",
    ]


def test_names_of_the_sub_query_come_first() -> None:
    """k is t.k inside, so nothing is correlated."""
    assert plan_of("SELECT a FROM s [NOW] WHERE EXISTS (SELECT 1 FROM t [NOW] WHERE k = 1)")[0] == "SemiJoin semi []"
    assert "c0=c1" in plan_of("SELECT a FROM s [NOW] WHERE EXISTS (SELECT 1 FROM t [NOW] WHERE k = a)")[1]


def test_exists_in_exists() -> None:
    assert plan_of(
        f"SELECT a FROM s [NOW] WHERE EXISTS "
        f"(SELECT 1 FROM t [NOW] WHERE t.k = s.k AND NOT EXISTS (SELECT 1 FROM {U} WHERE u.c = t.b))"
    ) == [
        "Project c6 a INT=c5",
        "  SemiJoin semi [c4=c3]",
        "    StreamWindow s <5s> c4=CAST(`k` AS BIGINT), c5=`a`",
        "    Project c3 __c0 BIGINT=c2",
        "      SemiJoin anti [c0=c1]",
        "        StreamWindow t <5s> c0=`b`, c2=`k`",
        "        StreamWindow s <120s> c1=CAST(`a` AS DOUBLE)",
    ]


def test_in() -> None:
    assert plan_of(
        "SELECT a FROM s [RANGE 1 MINUTE] WHERE k IN (SELECT DISTINCT k FROM t [NOW] WHERE b > 1 ORDER BY k)"
    ) == [
        "Project c3 a INT=c2",
        "  SemiJoin semi [c0=c1]",
        "    StreamWindow s <60s> c0=CAST(`k` AS BIGINT), c2=`a`",
        "    StreamWindow t <5s> c1=`k` where `b` > 1",
    ]


def test_in_of_groups() -> None:
    assert plan_of("SELECT a FROM s [NOW] WHERE k IN (SELECT k FROM t [NOW] GROUP BY k HAVING COUNT(*) > 3)") == [
        "Project c5 a INT=c4",
        "  SemiJoin semi [c3=c2]",
        "    StreamWindow s <5s> c3=CAST(`k` AS BIGINT), c4=`a`",
        "    Project c2 k BIGINT=c0",
        "      Filter c1 > 3",
        "        GroupBy [c0] c1=COUNT(*)",
        "          StreamWindow t <5s> c0=`k`",
    ]


def test_not_in() -> None:
    """One anti-join by the key, one with the NULLs of the sub-query, one for the NULLs before NOT IN; all correlated."""
    assert plan_of("SELECT a FROM s [NOW] WHERE a NOT IN (SELECT b FROM t [RANGE 1 MINUTE] WHERE t.k = s.k)") == [
        "Project c8 a INT=c7",
        "  SemiJoin anti [c0=c5] if c6",
        "    SemiJoin anti [c0=c4]",
        "      SemiJoin anti [c0=c1, c2=c3]",
        "        StreamWindow s <5s> c0=CAST(`k` AS BIGINT), c2=CAST(`a` AS DOUBLE), c6=`a` IS NULL, c7=`a`",
        "        StreamWindow t <60s> c1=`k`, c3=`b`",
        "      StreamWindow t <60s> c4=`k` where `b` IS NULL",
        "    StreamWindow t <60s> c5=`k`",
    ]


def test_not_in_of_a_stream_with_a_window() -> None:
    inner = "SELECT k FROM (SELECT ISTREAM(k) FROM t [NOW]) [RANGE 1 MINUTE] AS x"
    plan = plan_of(f"SELECT a FROM s [NOW] WHERE k NOT IN ({inner})")
    assert sum("OutputWindow" in line for line in plan) == 3


def test_in_of_several_values() -> None:
    assert plan_of("SELECT a FROM s [NOW] WHERE (k, name) IN (SELECT k, label FROM t [NOW])")[1] == (
        "  SemiJoin semi [c0=c1, c2=c3]"
    )
    assert plan_of("SELECT a FROM s [NOW] WHERE (k, name) NOT IN (SELECT k, label FROM t [NOW])")[1:3] == [
        "  SemiJoin anti [] if (c4 = c5 OR c6 OR c7) AND (c2 = c8 OR c9 OR c10)",
        "    SemiJoin anti [c0=c1, c2=c3]",
    ]


def test_de_morgan() -> None:
    """NOT of an OR is an AND of NOTs; two NOTs are none."""
    assert plan_of("SELECT a FROM s [NOW] WHERE NOT (a > 1 OR EXISTS (SELECT 1 FROM t [NOW]))") == [
        "SemiJoin anti []",
        "  StreamWindow s <5s> c0=`a` where NOT (`a` > 1)",
        "  StreamWindow t <5s>",
    ]
    assert plan_of("SELECT a FROM s [NOW] WHERE NOT (a > 1 OR NOT EXISTS (SELECT 1 FROM t [NOW]))")[0] == (
        "SemiJoin semi []"
    )


def test_exists_below_an_aggregate() -> None:
    assert plan_of("SELECT k, COUNT(*) AS n FROM s [NOW] WHERE EXISTS (SELECT 1 FROM t [NOW]) GROUP BY k")[1:] == [
        "  GroupBy [c0] c1=COUNT(*)",
        "    Project c0 k INT=c0",
        "      SemiJoin semi []",
        "        StreamWindow s <5s> c0=`k`",
        "        StreamWindow t <5s>",
    ]


def test_names_of_with_reach_into_conditions() -> None:
    with_ = "WITH x AS (SELECT k FROM s [RANGE 1 MINUTE])"
    assert plan_of(f"{with_} SELECT a FROM s [NOW] WHERE k IN (SELECT k FROM x)")[-1] == (
        "    StreamWindow s <60s> c1=`k`"
    )


# -- outer joins --------------------------------------------------------------------------------------------


def test_left_join() -> None:
    """WHERE on the kept side goes down, WHERE on the other side stays above the join; so does IS NULL."""
    assert plan_of("SELECT a FROM s [NOW] LEFT JOIN t [NOW] ON s.k = t.k WHERE b IS NULL AND a > 3") == [
        "Project c4 a INT=c3",
        "  Filter c2 IS NULL",
        "    OuterJoin left [c0=c1]",
        "      StreamWindow s <5s> c0=CAST(`k` AS BIGINT), c3=`a` where `a` > 3",
        "      StreamWindow t <5s> c1=`k`, c2=`b`",
    ]


def test_on_of_a_left_join() -> None:
    """ON on the right side filters it; ON on the kept side decides which rows have a match."""
    assert plan_of("SELECT a FROM s [NOW] LEFT JOIN t [NOW] ON s.k = t.k AND a > 3 AND b > 2 AND a > b")[1:] == [
        "  OuterJoin left [c0=c1] if c2 AND c3 > c4",
        "    StreamWindow s <5s> c0=CAST(`k` AS BIGINT), c2=`a` > 3, c3=`a`",
        "    StreamWindow t <5s> c1=`k`, c4=`b` where `b` > 2",
    ]


def test_right_and_full_join() -> None:
    assert plan_of("SELECT a FROM s [NOW] RIGHT JOIN t [NOW] ON s.k = t.k AND a > 3 AND b > 2 WHERE t.b > 7")[1:] == [
        "  OuterJoin right [c0=c1] if c2",
        "    StreamWindow s <5s> c0=CAST(`k` AS BIGINT), c3=`a` where `a` > 3",
        "    StreamWindow t <5s> c1=`k`, c2=`b` > 2 where `b` > 7",
    ]
    assert plan_of("SELECT a FROM s [NOW] FULL OUTER JOIN t [NOW] ON s.k = t.k AND a > 3 WHERE b + a > 7 AND 1 = 1")[
        1:
    ] == [
        "  Filter c3 + c4 > 7 AND 1 = 1",
        "    OuterJoin full [c0=c1] if c2",
        "      StreamWindow s <5s> c0=CAST(`k` AS BIGINT), c2=`a` > 3, c4=`a`",
        "      StreamWindow t <5s> c1=`k`, c3=`b`",
    ]


def test_joins_in_the_order_written() -> None:
    """An inner join after an outer one: its conditions on the outer side stay at it, and do not go below."""
    assert plan_of(
        f"SELECT s.a, u.c FROM s [NOW] LEFT JOIN t [NOW] ON s.k = t.k JOIN {U} ON u.k = t.k AND s.ok "
        "WHERE u.c > t.b AND t.b > 5 AND u.ok"
    ) == [
        "Project c7 a INT=c6, c8 c INT=c3",
        "  Join [c1=c2] if c3 > c4",
        "    Filter c5",
        "      OuterJoin left [c0=c1]",
        "        StreamWindow s <5s> c0=CAST(`k` AS BIGINT), c6=`a` where `ok`",
        "        StreamWindow t <5s> c1=`k`, c4=`b`, c5=`b` > 5",
        "    StreamWindow s <120s> c2=CAST(`k` AS BIGINT), c3=`a` where `ok`",
    ]


def test_expressions_over_an_outer_side() -> None:
    """COALESCE of a NULL is none, so it is computed above; UPPER of a NULL is NULL, so Spark computes it below."""
    assert plan_of("SELECT COALESCE(b, 0) AS b, UPPER(Label) AS l FROM s [NOW] LEFT JOIN t [NOW] USING (k)") == [
        "Project c4 b DOUBLE=COALESCE(c2, 0), c5 l STRING=c3",
        "  OuterJoin left [c0=c1]",
        "    StreamWindow s <5s> c0=CAST(`k` AS BIGINT)",
        "    StreamWindow t <5s> c1=`k`, c2=`b`, c3=UPPER(`Label`)",
    ]


def test_expressions_below_an_outer_side() -> None:
    """A sub-query computes its column before the join, so that it is NULL where there is no row."""
    assert (
        plan_of("SELECT y FROM s [NOW] LEFT JOIN (SELECT k, COALESCE(b, 0) AS y FROM t [NOW]) AS t ON s.k = t.k")[-1]
        == "    StreamWindow t <5s> c1=`k`, c2=COALESCE(`b`, 0)"
    )


@pytest.mark.parametrize(
    ("join", "key", "kind"),
    [
        ("JOIN", "c2", "INT"),
        ("LEFT JOIN", "c2", "INT"),
        ("RIGHT JOIN", "c1", "BIGINT"),
        ("FULL JOIN", "COALESCE(c2, c1)", "BIGINT"),
    ],
)
def test_value_of_using(join: str, key: str, kind: str) -> None:
    assert plan_of(f"SELECT k FROM s [NOW] {join} t [NOW] USING (k)")[0].endswith(f" k {kind}={key}")
    assert [
        column.name
        for column in bind(
            f"SELECT * FROM (SELECT k, a FROM s [NOW]) AS s {join} (SELECT k, b FROM t [NOW]) AS t USING (k)"
        ).schema
    ] == ["k", "a", "b"]


def test_using_thrice() -> None:
    plan = plan_of(
        f"SELECT k, s.k AS sk, COUNT(*) AS n FROM s [NOW] FULL JOIN t [NOW] USING (k) FULL JOIN {U} USING (k) GROUP BY k, s.k"
    )
    assert "COALESCE(COALESCE(" in plan[2]


def test_semi_and_anti_joins() -> None:
    """The names of the right side end with the join."""
    assert plan_of("SELECT * FROM (SELECT k, a FROM s [NOW]) AS s LEFT ANTI JOIN t [NOW] USING (k)") == [
        "Project c4 k INT=c2, c5 a INT=c3",
        "  SemiJoin anti [c0=c1]",
        "    StreamWindow s <5s> c0=CAST(`k` AS BIGINT), c2=`k`, c3=`a`",
        "    StreamWindow t <5s> c1=`k`",
    ]
    assert plan_of("SELECT a, k FROM s [NOW] SEMI JOIN t [NOW] ON a > b AND s.ok AND b > 1 WHERE k > 0") == [
        "SemiJoin semi [] if c0 > c1",
        "  StreamWindow s <5s> c0=`a`, c2=`k` where (`ok`) AND (`k` > 0)",
        "  StreamWindow t <5s> c1=`b` where `b` > 1",
    ]


def test_group_by_over_a_left_join() -> None:
    assert (
        plan_of(
            "SELECT s.k, COUNT(Label) AS n, MAX(COALESCE(b, -1)) AS m FROM s [NOW] LEFT JOIN t [NOW] ON s.k = t.k GROUP BY s.k"
        )[2]
        == "    Project c2 k INT=c2, c3 Label STRING=c3, c6 coalesce(b, -1) DOUBLE=COALESCE(c5, -1)"
    )


# -- set operations -----------------------------------------------------------------------------------------


def test_precedence() -> None:
    """INTERSECT first, then from left to right."""
    assert plan_of(
        "SELECT k FROM s [NOW] EXCEPT SELECT k FROM t [NOW] UNION ALL SELECT a FROM s [NOW] INTERSECT ALL "
        "SELECT k FROM s [NOW]"
    ) == [
        "MergeUnion c7 k BIGINT",
        "  SetOperation EXCEPT c2 k BIGINT",
        "    StreamWindow s <5s> c0=CAST(`k` AS BIGINT)",
        "    StreamWindow t <5s> c1=`k`",
        "  Project c6 a BIGINT=CAST(c5 AS BIGINT)",
        "    SetOperation INTERSECT ALL c5 a INT",
        "      StreamWindow s <5s> c3=`a`",
        "      StreamWindow s <5s> c4=`k`",
    ]


def test_parentheses_order_and_limit() -> None:
    assert plan_of(
        "SELECT k FROM s [NOW] MINUS (SELECT k FROM t [NOW] UNION SELECT a FROM s [NOW]) ORDER BY k LIMIT 3"
    )[:4] == [
        "TopRows [c4] 3",
        "  SetOperation EXCEPT c4 k BIGINT",
        "    StreamWindow s <5s> c3=CAST(`k` AS BIGINT)",
        "    Distinct",
    ]


def test_set_operation_in_from_and_in() -> None:
    both = "SELECT k FROM t [NOW] EXCEPT ALL SELECT k FROM s [NOW]"
    assert plan_of(f"SELECT k FROM ({both}) AS x WHERE k > 1")[:2] == [
        "Filter c2 > 1",
        "  SetOperation EXCEPT ALL c2 k BIGINT",
    ]
    assert "SetOperation" in plan_of(f"SELECT a FROM s [NOW] WHERE k IN ({both})")[3]


# -- count-based windows ------------------------------------------------------------------------------------


def test_rows_window() -> None:
    assert plan_of("SELECT a FROM s [ROWS 5]") == ["RowsWindow s last 5: c0=`a`"]


def test_selection_stands_above_a_rows_window() -> None:
    """Every tuple counts, so WHERE is a selection above the window, of conditions that Spark computes."""
    assert plan_of("SELECT a, UPPER(name) AS n FROM s [ROWS 5 PARTITION BY k, K] WHERE a > 3 AND ok") == [
        "Project c5 a INT=c0, c6 n STRING=c1",
        "  Filter c3 AND c4",
        "    RowsWindow s last 5 by c2: c0=`a`, c1=UPPER(`name`), c2=`k`, c3=`a` > 3, c4=`ok`",
    ]


def test_view_of_a_rows_window() -> None:
    assert plan_of("SELECT n + 1 AS m FROM (SELECT a AS n FROM s [ROWS 5] WHERE ok) AS x WHERE n > 2") == [
        "Project c3 m INT=c0",
        "  Filter c1 AND c2",
        "    RowsWindow s last 5: c0=`a` + 1, c1=`ok`, c2=`a` > 2",
    ]


def test_rows_window_in_a_join_and_in_exists() -> None:
    assert plan_of(
        "SELECT a FROM s [ROWS 1 PARTITION BY k] JOIN t [RANGE 1 MINUTE] ON s.k = t.k WHERE s.a + t.b > 3 AND NOT EXISTS "
        "(SELECT 1 FROM t [ROWS 2] AS x WHERE x.k = s.k)"
    )[1:] == [
        "  SemiJoin anti [c0=c4]",
        "    Join [c0=c1] if c2 + c3 > 3",
        "      RowsWindow s last 1 by c5: c0=CAST(`k` AS BIGINT), c2=`a`, c5=`k`",
        "      StreamWindow t <60s> c1=`k`, c3=`b`",
        "    RowsWindow t last 2: c4=`k`",
    ]


def test_rows_window_with_a_slide() -> None:
    """In a plan it slides with the others, on the window attribute: the last tuples below the slide's end."""
    plan = bind("SELECT s.a FROM s [ROWS 5 SLIDE 1 MINUTE] JOIN t [RANGE 1 MINUTE SLIDE 1 MINUTE] ON s.k = t.k")
    assert (plan.periodic, plan.step) == (True, 60_000_000)


# -- properties ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "select",
    [
        "SELECT a FROM s [ROWS 5]",
        "SELECT a FROM s [UNBOUNDED] WHERE EXISTS (SELECT 1 FROM t [UNBOUNDED])",
        "SELECT a FROM s [UNBOUNDED] LEFT JOIN t [UNBOUNDED] ON s.k = t.k",
        "SELECT a FROM s [UNBOUNDED] INTERSECT SELECT a FROM s [UNBOUNDED]",
    ],
)
def test_output_is_withdrawn(select: str) -> None:
    root = bind(select).root
    assert is_strict(root) and not is_monotonic(root)


@pytest.mark.parametrize(
    "where", ["EXISTS (SELECT 1 FROM t [RANGE 1 MINUTE SLIDE 1 MINUTE])", "k IN (SELECT k FROM t [NOW])"]
)
def test_aggregate_with_a_sub_query_is_a_plan(where: str) -> None:
    statement = parse_one(
        f"CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] WHERE {where}"
    )
    assert isinstance(statement, CreateQuery)
    assert not is_periodic_chain(statement.select)


def test_rstream_of_what_the_left_side_bounds() -> None:
    assert plan_of("SELECT RSTREAM(a) FROM s [NOW] WHERE EXISTS (SELECT 1 FROM t [UNBOUNDED])")[0] == "ToStream RSTREAM"
