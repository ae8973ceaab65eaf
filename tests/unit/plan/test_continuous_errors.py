"""The binder of continuous queries: errors with place and remedy."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from support.bound_plans import bind, check, pointed_at, refused, source_of

from windrow.cql import parse_one
from windrow.cql.statements import CreateQuery
from windrow.errors import BindError, CatalogError, FunctionError, UnsupportedError, WindrowError
from windrow.plan.continuous import bind_continuous
from windrow.types import SqlType

ST = "s [NOW] JOIN t [NOW] ON s.k = t.k"


@pytest.mark.parametrize(
    ("select", "says", "place", "remedy"),
    [
        (f"SELECT ts FROM {ST}", "'ts' is ambiguous", "ts", "Write s.ts or t.ts."),
        ("SELECT x.k FROM s [NOW] x, s [NOW] y, s [NOW] z WHERE a = 1", "ambiguous", "a", "Write x.a, y.a or z.a."),
        (f"SELECT x.a FROM {ST}", "'x' is not in FROM", "x.a", "FROM has: s, t."),
        ("SELECT x.* FROM s [NOW] AS xx", "'x' is not in FROM", "x.*"[:1], "Did you mean 'xx'?"),
        (f"SELECT s.lable FROM {ST}", "stream 's' has no column 'lable'", "s.lable", "Columns of s: ts, k, a"),
        (f"SELECT lable FROM {ST}", "FROM has no column 'lable'", "lable", "Did you mean 'Label'?"),
        ("SELECT aa FROM s [NOW]", "stream 's' has no column 'aa'", "aa", "Did you mean 'a'? Its columns: ts, k, a"),
        ("SELECT b FROM (SELECT MAX(a) AS a FROM s [NOW]) AS x", "sub-query 'x' has no column 'b'", "b", "Its columns"),
        ("SELECT k FROM (SELECT a FROM s [NOW]) AS x", "has no column 'k'", "k", "Its columns: a."),
        ("SELECT a FROM s [NOW], s [NOW]", "two inputs of FROM are called 's'", "s", "AS a JOIN s [RANGE …] AS b"),
        ("SELECT s.a FROM s [NOW] JOIN t [NOW] ON s.k = x.k JOIN s [NOW] x ON TRUE", "'x' is not", "x.k", "s, t"),
        ("SELECT s.a FROM s [NOW] JOIN t [NOW] USING (a)", "stream 't' has no column 'a'", "a", "both sides"),
        ("SELECT s.a FROM s [NOW] JOIN t [NOW] USING (zz)", "stream 's' has no column 'zz'", "zz", "both sides"),
        (f"SELECT * FROM {ST}", "two columns of the answer are called 'ts'", "*", "s.ts AS s_ts, t.ts AS t_ts"),
        ("SELECT a, k AS A FROM s [NOW]", "two columns of the answer are called 'A'", "k AS A"[:1], "alias"),
        ("SELECT ISTREAM a FROM s [NOW]", "ISTREAM stands around the select list", "ISTREAM", "SELECT ISTREAM(…)"),
        ("SELECT window_end FROM s [NOW]", "'window_end' is a column of the answer", "window_end", "Leave it out"),
        ("SELECT a AS window_end FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE]", "every answer has", "a", "another name"),
    ],
)
def test_names(select: str, says: str, place: str, remedy: str) -> None:
    error = refused(select)
    assert says in error.message and remedy in (error.remedy or "")
    assert pointed_at(error).startswith(place)


def test_unknown_stream() -> None:
    assert pointed_at(refused("SELECT a FROM s [NOW], nope [NOW]", CatalogError)) == "nope"
    error = refused("WITH tops AS (SELECT a FROM s [NOW]) SELECT a FROM top", CatalogError)
    assert pointed_at(error) == "top" and error.remedy == "Did you mean 'tops' of WITH?"


@pytest.mark.parametrize(
    ("select", "says"),
    [
        ("SELECT a FROM s [NOW] NATURAL JOIN t [NOW]", "NATURAL JOIN"),
        ("SELECT a FROM s [NOW] WHERE k = (SELECT MAX(k) FROM t [NOW])", "a sub-query in an expression"),
        ("SELECT a FROM s [NOW] LEFT JOIN LATERAL (SELECT MAX(k) AS m FROM t [NOW]) AS x ON TRUE", "a lateral join"),
        ("WITH RECURSIVE x AS (SELECT a FROM s [NOW]) SELECT * FROM x", "WITH RECURSIVE"),
    ],
)
def test_later_version(select: str, says: str) -> None:
    error = refused(select, UnsupportedError)
    assert error.message.startswith(says) and "comes with a later version" in error.message
    assert error.place is not None and error.remedy


@pytest.mark.parametrize("strict", ["SELECT k, COUNT(*) AS n FROM t [NOW] GROUP BY k", "SELECT k FROM t [NOW] LIMIT 3"])
def test_internal_window_beside_a_query_that_withdraws_rows(strict: str) -> None:
    error = refused(f"SELECT a FROM ({strict}) AS x, s [RANGE 1 MINUTE INTERNAL]", UnsupportedError)
    assert "stay for ever and be withdrawn" in error.message and pointed_at(error) == "s"
    union = f"(SELECT k FROM s [RANGE 1 MINUTE INTERNAL] UNION ALL SELECT k FROM ({strict}) AS z)"
    assert "INTERNAL" in refused(f"SELECT x.k FROM {union} AS x, s [NOW]", UnsupportedError).message


@pytest.mark.parametrize(
    ("select", "says", "place"),
    [
        (f"SELECT s.name FROM {ST} AND s.name = t.b", "STRING and DOUBLE cannot be compared", "s.name = t.b"),
        ("SELECT a FROM s [NOW], t [NOW] WHERE s.name > t.k", "> of STRING, BIGINT cannot be used", "s.name > t.k"),
        ("SELECT a FROM s [NOW] WHERE a", "WHERE needs a condition, and this is INT", "a"),
        ("SELECT a FROM s [NOW] JOIN t [NOW] ON a + b", "ON needs a condition, and this is DOUBLE", "a + b"),
        ("SELECT a FROM s [NOW] JOIN t [NOW] ON SUM(a) > 1", "an aggregate cannot stand in ON", "SUM"),
        ("SELECT a FROM s [NOW] WHERE SUM(a) > 1", "an aggregate cannot stand in WHERE", "SUM"),
        ("SELECT a FROM s [NOW], t [NOW] WHERE ok = 'maybe'", "'maybe' is no BOOLEAN", "'maybe'"),
        ("SELECT a FROM s [NOW] HAVING a > 1", "HAVING is of a query with GROUP BY", "a > 1"),
        ("SELECT name, a FROM s [RANGE 1 MINUTE] GROUP BY name", "neither grouped nor aggregated", "a"),
        ("SELECT * FROM s [RANGE 1 MINUTE] GROUP BY name", "'ts' in the select list is neither", "*"[:0]),
        ("SELECT SUM(name) AS x FROM s [RANGE 1 MINUTE]", "SUM takes a number, and name is STRING", "name"),
        ("SELECT TOP_K(name, 2, Label) AS x FROM s [NOW], t [NOW]", "weight of TOP_K is a number, and Label", "Label"),
        ("SELECT TOP_K(name, 0) AS x FROM s [NOW], t [NOW]", "a whole number from 1", "0"),
        ("SELECT SUM(MAX(a)) AS x FROM s [RANGE 1 MINUTE]", "an aggregate cannot stand in an aggregate", "MAX"),
        ("SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY NULL", "not NULL", ""),
        ("SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY 2", "the select list has 1 column", "2"),
        ("SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY 1", "an aggregate cannot stand in GROUP BY", "COUNT"),
        ("SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY nn", "nor is it an alias", "nn"),
        ("SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE] HAVING nn > 1", "nor is it an alias", "nn"),
        ("SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE] HAVING n", "HAVING needs a condition", "n"),
        ("SELECT COUNT(*) FILTER (WHERE a) AS n FROM s [RANGE 1 MINUTE]", "FILTER needs a condition", "a"),
        ("SELECT a FROM s [NOW] ORDER BY k", "ORDER BY goes by columns of the answer, and k", "k"),
        ("SELECT name FROM s [RANGE 1 MINUTE] GROUP BY name ORDER BY COUNT(*)", "and COUNT(*) is none", "COUNT"),
        ("SELECT a FROM s [NOW] ORDER BY 2", "ORDER BY 2: the select list has 1 column", "2"),
        ("SELECT TOP_K(a, 3) AS x FROM s [RANGE 1 MINUTE] ORDER BY x", "ORDER BY needs a value that has an order", "x"),
        ("SELECT a FROM s [NOW] LIMIT -1", "LIMIT is a whole number", "-1"),
        ("SELECT a FROM s [NOW] UNION ALL SELECT name FROM s [NOW]", "is INT in one query and STRING", "name"),
        ("SELECT a FROM s [NOW] UNION ALL SELECT a, k FROM s [NOW]", "same number of columns, not 1 and 2", "a, k"),
        ("SELECT rand() AS r FROM s [NOW], t [NOW]", "the function RAND is not allowed", "rand"),
        ("WITH x AS (SELECT a FROM s [NOW]), X AS (SELECT k FROM s [NOW]) SELECT * FROM x", "WITH has two", "X"),
    ],
)
def test_errors(select: str, says: str, place: str) -> None:
    error = refused(select)
    assert says in error.message and error.remedy
    assert pointed_at(error).startswith(place)


@pytest.mark.parametrize(
    ("select", "place", "over", "remedy"),
    [
        (
            f"SELECT UPPER(CONCAT(s.name, t.label)) AS x FROM {ST}",
            "UPPER",
            "over more than one input of FROM",
            "CONCAT(f(s.x), f(t.x))",
        ),
        (
            f"SELECT a FROM {ST} AND CONCAT_WS('-', s.name, t.label) = 'x'",
            "CONCAT_WS",
            "over more than one input of FROM",
            "Compute it over each",
        ),
        (
            "SELECT UPPER('a') AS x FROM (SELECT DISTINCT name FROM s [NOW])",
            "UPPER",
            "over constants alone",
            "Write its value.",
        ),
        (
            "SELECT UPPER(n) AS x FROM (SELECT MAX(name) AS n FROM s [RANGE 1 MINUTE]) AS y",
            "UPPER",
            "over sub-query 'y'",
            "Compute it over one stream in a sub-query",
        ),
        (
            "SELECT UPPER(name) AS x FROM (SELECT DISTINCT name FROM s [RANGE 1 MINUTE])",
            "UPPER",
            "over the sub-query",
            "Compute it over one stream in a sub-query",
        ),
        (
            "SELECT y.name FROM s [NOW] JOIN (SELECT DISTINCT name FROM s [NOW]) AS y ON s.name = UPPER(y.name)",
            "UPPER",
            "over sub-query 'y'",
            "Compute it over one stream in a sub-query",
        ),
    ],
)
def test_only_spark_computes_it(select: str, place: str, over: str, remedy: str) -> None:
    error = refused(select, FunctionError)
    assert error.message.endswith(f"cannot be used {over}")
    assert remedy in (error.remedy or "") and pointed_at(error) == place


@pytest.mark.parametrize("place", ["a + 1", "UPPER(name)", "LENGTH(Label)", "a + b"])
def test_place_of_what_spark_refuses(place: str) -> None:
    text = f"CREATE QUERY q AS SELECT {place} AS x FROM s [NOW] JOIN t [NOW] ON s.k = t.k"
    statement = parse_one(text)
    assert isinstance(statement, CreateQuery)
    with pytest.raises(BindError, match="Spark says no") as caught:
        bind_continuous(statement.select, text, source_of, _refuse)
    assert pointed_at(caught.value) == place.split("(")[0]


def _refuse(columns: object, expressions: Sequence[str]) -> list[SqlType]:
    if expressions[0].startswith("CAST"):
        return [SqlType("BIGINT")]
    raise BindError("Spark says no", remedy="Leave it out.")


def test_too_many_inputs() -> None:
    assert (
        "more than 8 inputs" in refused("SELECT 1 AS x FROM " + ", ".join(f"s [NOW] AS s{i}" for i in range(9))).message
    )
    assert bind("SELECT 1 AS x FROM " + ", ".join(f"s [NOW] AS s{i}" for i in range(8)))


def test_with_that_explodes() -> None:
    names = [f"x{i} AS (SELECT p.a FROM x{i - 1} AS p, x{i - 1} AS q)" for i in range(1, 12)]
    error = refused(f"WITH x0 AS (SELECT a FROM s [NOW]), {', '.join(names)} SELECT a FROM x11", UnsupportedError)
    assert "more than 64 streams" in error.message


# -- random queries -------------------------------------------------------------------------------------------

WINDOWS = (
    "[NOW]",
    "[RANGE 1 MINUTE]",
    "[RANGE 1 MINUTE OFFSET 5 SECONDS]",
    "[UNBOUNDED]",
    "[RANGE 9 SECONDS INTERNAL]",
    "[RANGE 1 MINUTE SLIDE 5 SECONDS]",
    "[RANGE 5]",
    "",
)
GOOD = (
    *("x.a", "x.k", "x.ts", "x.name", "x.ok", "x.price", "1", "'t'", "x.a + 1", "UPPER(x.name)", "LENGTH(x.name)"),
    *("IF(x.ok, 1, x.k)", "x.ts + INTERVAL '1' HOUR", "CAST(x.a AS STRING)", "CASE WHEN x.k > 1 THEN x.a END"),
)
TERMS = (
    *("a", "k", "name", "ok", "ts", "b", "Label", "c", "y.k", "y.name", "y.a", "zz", "q.a", "x.a + y.k", "NULL"),
    *(
        "UPPER(CONCAT(x.name, y.name))",
        "CASE WHEN x.k > 1 THEN y.k ELSE 2 END",
        "x.price / y.k",
        "CONCAT(x.name, y.name)",
    ),
)
AGGREGATES = ("COUNT(*)", "SUM({})", "MAX({})", "COUNT(DISTINCT {})", "TOP_K({}, 3)", "AVG({}) FILTER (WHERE x.ok)")
CONDITIONS = (
    "{} = {}",
    "{} > {}",
    "x.k = y.k",
    "ok",
    "{} IS NULL",
    "{} IN (1, 2)",
    "TRUE",
    "{} BETWEEN {} AND {}",
    "{}",
)


class _Queries:
    """Random queries that can be read: many of them are accepted."""

    def __init__(self, seed: int):
        self._chance = random.Random(seed)
        self._any = self._chance.choice

    def _fill(self, pattern: str) -> str:
        return pattern.format(*(self._term() for _ in range(3)))

    def _term(self) -> str:
        return self._any(GOOD if self._chance.random() < 0.85 else TERMS)

    def query(self, depth: int = 2) -> str:
        one = self._select(depth)
        if self._chance.random() < 0.15:
            one += f" {self._any(('UNION ALL', 'UNION', 'UNION ALL'))} {self._select(depth)}"
        if self._chance.random() < 0.2:
            one += f" ORDER BY {self._any(('1', 'c0 DESC', 'c0 + 1', 'zz'))}"
        return one + (" LIMIT 3" if self._chance.random() < 0.1 else "")

    def _select(self, depth: int) -> str:
        terms = [self._term() for _ in range(self._chance.randint(1, 3))]
        grouped = self._chance.random() < 0.3
        items = [f"{term} AS c{index}" for index, term in enumerate(terms)]
        if grouped:
            items.append(f"{self._fill(self._any(AGGREGATES))} AS n")
        shown = self._any(("*", "x.*")) if self._chance.random() < 0.1 else ", ".join(items)
        shown = f"{self._any(('ISTREAM', 'DSTREAM', 'RSTREAM'))}({shown})" if self._chance.random() < 0.1 else shown
        distinct = "DISTINCT " if self._chance.random() < 0.1 else ""
        where = f" WHERE {self._condition()}" if self._chance.random() < 0.5 else ""
        group = f" GROUP BY {', '.join(terms)}" if grouped and self._chance.random() < 0.8 else ""
        having = f" HAVING {self._any(('n > 2', 'COUNT(*) > 1', 'zz > 1'))}" if grouped and depth % 2 else ""
        return f"SELECT {distinct}{shown} FROM {self._from(depth)}{where}{group}{having}"

    def _condition(self) -> str:
        parts = [self._fill(self._any(CONDITIONS)) for _ in range(self._chance.randint(1, 3))]
        return self._any((" AND ", " OR ")).join(parts)

    def _from(self, depth: int) -> str:
        first = f"{self._source(depth)} AS x"
        if self._chance.random() < 0.4:
            return first
        joined = self._any(
            (", {} AS y", " JOIN {} AS y ON x.k = y.k", " JOIN {} AS y USING (k)", " CROSS JOIN {} AS y")
        )
        return first + joined.format(self._source(depth))

    def _source(self, depth: int) -> str:
        if depth and self._chance.random() < 0.25:
            return f"({self.query(depth - 1)}) {self._any((*WINDOWS[:5], '', '', '', ''))}"
        window = self._any(WINDOWS[:2]) if self._chance.random() < 0.8 else self._any(WINDOWS)
        return f"{self._any('ssssssstun')} {window}"


@pytest.mark.parametrize("seed", range(4))
def test_random_queries(seed: int) -> None:
    """Every query is bound, or refused with an error that has a place and can be printed."""
    queries, bound = _Queries(seed), 0
    for _ in range(300):
        try:
            plan = bind(queries.query())
        except WindrowError as error:
            assert error.place is not None and str(error)
            continue
        check(plan)
        bound += 1
    assert bound > 20
