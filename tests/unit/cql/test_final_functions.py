"""Every FINAL function and operator: DuckDB's result against Spark's, value by value and type by type.

The table holds every pair of the nasty values of each type, so a binary operation meets all of them.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from windrow.cql import check_functions, finalize, parse_expression, parse_one, to_duckdb
from windrow.cql.final.functions import FUNCTIONS
from windrow.cql.final.sql import ordered_by
from windrow.cql.functions import FINAL_FUNCTIONS, function_name
from windrow.cql.statements import Select
from windrow.errors import FunctionError
from windrow.types import SqlType

pytestmark = pytest.mark.slow

NAN, INF = math.nan, math.inf
VALUES: dict[tuple[str, str, str], list[Any]] = {
    ("b", "c", "BOOLEAN"): [None, True, False],
    ("y", "z", "TINYINT"): [None, 0, -128, 127, 3, -1],
    ("i", "j", "INT"): [None, 0, 1, -1, 2**31 - 1, -(2**31), 7, -3],
    ("l", "k", "BIGINT"): [None, 0, 1, -1, 2**63 - 1, -(2**63), 10, -7, 2**53 + 1],
    ("f", "g", "FLOAT"): [
        None,
        NAN,
        INF,
        -INF,
        0.0,
        -0.0,
        1.5,
        -2.5,
        3.4028234663852886e38,
        1.401298464324817e-45,
        0.1,
    ],
    ("d", "e", "DOUBLE"): [
        *(None, NAN, INF, -INF, 0.0, -0.0, 1.0, -1.5, 2.5, 2.675, 1e308, 5e-324, 1e16, -123456.789, 0.1, -0.05, 1.005)
    ],
    ("m", "o", "DECIMAL(10,2)"): [
        None,
        *map(Decimal, ("0.00", "-0.05", "99999999.99", "-99999999.99", "2.50", "1.00", "-1.45")),
    ],
    ("n", "p", "DECIMAL(20,4)"): [
        None,
        *map(Decimal, ("0.0000", "9999999999999999.9999", "-0.0001", "2.5000", "-3.1415")),
    ],
    ("s", "t", "STRING"): [
        *(
            None,
            "",
            "a",
            "ab",
            "ß",
            "é",
            "e\u0301",
            "👩‍👩‍👧x",
            " a ",
            "12",
            "-7 ",
            "+3.9",
            "1e3",
            "abc%_\\",
            "9" * 22,
            "\t5\n",
        ),
        *(".", "2147483648", "A'b\"", "NaN", "x\ny"),
    ],
    ("ts", "us", "TIMESTAMP"): [
        None,
        datetime(1970, 1, 1),
        datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime(2026, 2, 28, 12, 34, 56, 789012),
        datetime(1, 1, 1),
        datetime(9999, 12, 31, 23, 59, 59, 999999),
        datetime(2000, 2, 29, 1, 2, 3, 4),
        datetime(1582, 10, 4),
        datetime(1900, 1, 1, 0, 0, 1),
    ],
    ("dt", "du", "DATE"): [
        None,
        *(
            date(1970, 1, 1),
            date(1969, 12, 31),
            date(2026, 2, 28),
            date(1, 1, 1),
            date(9999, 12, 31),
            date(2000, 2, 29),
        ),
    ],
}
ROWS = max(len(values) ** 2 for values in VALUES.values())
TYPES = {name: SqlType(kind) for *names, kind in VALUES for name in names}

EXPRESSIONS = [
    "contains(s, t)",
    "startswith(s, t)",
    "endswith(s, t)",
    "locate(s, t)",
    "instr(s, t)",
    "position(s IN t)",
    "trim(s)",
    "trim(concat('  ', s, t, ' '))",
    "ltrim(concat('  ', s, ' '))",
    "rtrim(concat('  ', s, ' '))",
    "datediff(dt, du)",
    "datediff(ts, dt)",
    "datediff(dt, us)",
    "CASE WHEN right(t, 1) <> '\\\\' THEN s LIKE t END",
    "CASE WHEN right(t, 1) <> '\\\\' THEN s LIKE concat(left(t, 1), '_%') END",
    "CASE WHEN right(t, 1) <> '\\\\' THEN concat(s, t) LIKE concat('%', t) END",
    "s LIKE concat('%', left(t, 1), '\\\\%_')",
    "i + j",
    "i - j",
    "i * j",
    "y + z",
    "y * z",
    "l + k",
    "l - k",
    "l * k",
    "i + l",
    "l % k",
    "i % j",
    "y % z",
    "l DIV k",
    "i DIV j",
    "-l",
    "-i",
    "-y",
    "l / k",
    "i / j",
    "d / e",
    "d / l",
    "f / g",
    "d + e",
    "d - e",
    "d * e",
    "d % e",
    "f + g",
    "f * g",
    "f + i",
    "f * l",
    "f % g",
    "d + l",
    "d + m",
    "m + o",
    "m - o",
    "m * o",
    "m + n",
    "m * n",
    "n - p",
    "m % o",
    "n % p",
    "m + 1",
    "m * 2",
    "m + i",
    "n + l",
    "m + 1.5",
    "-m",
    "m / d",
    "m * d",
    "1 + 2",
    "1.5 + i",
    "2 * d",
    "i = j",
    "i <> j",
    "l < k",
    "l <= k",
    "l > d",
    "d = e",
    "d <> e",
    "d < e",
    "d <= e",
    "d > e",
    "d >= e",
    "d <=> e",
    "i <=> j",
    "f = g",
    "f < g",
    "f = d",
    "l = d",
    "m = o",
    "m < n",
    "m = i",
    "m > 1",
    "m > 1.005",
    "n >= l",
    "m = d",
    "s = t",
    "s < t",
    "s <=> t",
    "s >= 'a'",
    "b = c",
    "b < c",
    "ts = us",
    "ts < us",
    "dt < du",
    "dt = ts",
    "ts > '2000-01-01'",
    "ts > '2000-01-01 10:00'",
    "ts >= TIMESTAMP '2000-02-29 01:02:03.000004'",
    "dt > DATE '2000-01-01'",
    "dt = '2000-02-29'",
    "b AND c",
    "b OR c",
    "NOT b",
    "NOT (i > j)",
    "b AND NULL",
    "i IS NULL",
    "i IS NOT NULL",
    "b IS TRUE",
    "b IS NOT FALSE",
    "i IS DISTINCT FROM j",
    "d IS NOT DISTINCT FROM e",
    "i BETWEEN j AND 5",
    "d BETWEEN e AND 2",
    "i NOT BETWEEN 0 AND 2",
    "i IN (1, 2, NULL)",
    "d IN (e, 1)",
    "l IN (1, i, 10)",
    "s IN ('a', t)",
    "s NOT IN ('a', 'b')",
    "m IN (1, 2.5)",
    "s LIKE 'a%'",
    "s LIKE '%\\\\%\\\\_%'",
    "s LIKE '_'",
    "s LIKE 'x%y'",
    "s NOT LIKE '%b%'",
    "CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' ELSE 'z' END",
    "CASE i WHEN 1 THEN d WHEN 7 THEN l END",
    "CASE WHEN b THEN i ELSE l END",
    "CASE WHEN b THEN m ELSE i END",
    "CASE WHEN b THEN m ELSE d END",
    "CASE WHEN b THEN NULL ELSE 1 END",
    "if(b, i, y)",
    "if(b, m, n)",
    "if(i > 1, 'a', NULL)",
    "coalesce(i, j, 0)",
    "coalesce(d, i)",
    "coalesce(m, 0)",
    "coalesce(f, l)",
    "coalesce(s, t, 'x')",
    "coalesce(ts, us)",
    "coalesce(dt, ts)",
    "ifnull(i, 1)",
    "nvl(d, 1)",
    "nvl2(s, i, j)",
    "nullif(i, j)",
    "nullif(d, e)",
    "nullif(m, 1)",
    "nullif(l, d)",
    "greatest(i, j)",
    "greatest(d, e)",
    "least(d, e)",
    "least(i, j, l)",
    "greatest(m, n)",
    "greatest(s, t)",
    "least(s, t)",
    "greatest(d, i)",
    "greatest(ts, us)",
    "greatest(f, g)",
    "least(f, g)",
    "isnull(i)",
    "isnotnull(s)",
    "isnan(d)",
    "isnan(f)",
    "nanvl(d, e)",
    "nullifzero(i)",
    "nullifzero(d)",
    "nullifzero(m)",
    "zeroifnull(i)",
    "zeroifnull(d)",
    "zeroifnull(m)",
    "abs(i)",
    "abs(l)",
    "abs(y)",
    "abs(d)",
    "abs(f)",
    "abs(m)",
    "ceil(d)",
    "ceiling(d)",
    "floor(d)",
    "ceil(i)",
    "floor(l)",
    "ceil(m)",
    "floor(n)",
    "ceil(f)",
    "floor(y)",
    "round(d)",
    "round(d, 1)",
    "round(d, 2)",
    "round(d, 10)",
    "round(i)",
    "round(l, 2)",
    "round(m)",
    "round(m, 1)",
    "round(n, 2)",
    "round(m, 5)",
    "sqrt(d)",
    "sqrt(i)",
    "sqrt(m)",
    "exp(d)",
    "exp(y)",
    "ln(d)",
    "ln(i)",
    "ln(m)",
    "log(d)",
    "log(2, d)",
    "log(d, e)",
    "log2(d)",
    "log10(d)",
    "log10(l)",
    "pow(d, e)",
    "power(i, 2)",
    "pow(d, 2)",
    "pow(2, y)",
    "sign(d)",
    "sign(i)",
    "sign(m)",
    "signum(l)",
    "mod(i, j)",
    "div(i, j)",
    "concat(s, t)",
    "concat(s, i)",
    "concat(s, '-', l, '-', b)",
    "s || t",
    "s || 'x'",
    "length(s)",
    "octet_length(s)",
    "octet_length(i)",
    "len(s)",
    "character_length(s)",
    "char_length(s)",
    "substring(s, 1, 2)",
    "substring(s, 0, 2)",
    "substring(s, 2)",
    "substr(s, 2, 100)",
    "left(s, 1)",
    "right(s, 2)",
    "left(s, 0)",
    "right(s, 0)",
    "replace(s, 'a', 'bb')",
    "replace(s, t, '-')",
    "replace(s, '', 'x')",
    "replace(s, 'b')",
    "CAST(i AS BIGINT)",
    "CAST(l AS INT)",
    "CAST(l AS TINYINT)",
    "CAST(i AS SMALLINT)",
    "CAST(d AS INT)",
    "CAST(d AS BIGINT)",
    "CAST(f AS INT)",
    "CAST(f AS BIGINT)",
    "CAST(l AS FLOAT)",
    "CAST(l AS DOUBLE)",
    "CAST(m AS DOUBLE)",
    "CAST(n AS DOUBLE)",
    "CAST(n AS FLOAT)",
    "CAST(m AS BIGINT)",
    "CAST(n AS BIGINT)",
    "CAST(i AS DECIMAL(10,2))",
    "CAST(l AS DECIMAL(38,2))",
    "CAST(l AS DECIMAL(5,0))",
    "CAST(d AS DECIMAL(10,2))",
    "CAST(d AS DECIMAL(38,10))",
    "CAST(n AS DECIMAL(10,1))",
    "CAST(m AS DECIMAL(20,5))",
    "CAST(n AS DECIMAL(18,2))",
    "CAST(i AS STRING)",
    "CAST(l AS STRING)",
    "CAST(b AS STRING)",
    "CAST(m AS STRING)",
    "CAST(n AS STRING)",
    "CAST(dt AS STRING)",
    "CAST(s AS INT)",
    "CAST(s AS BIGINT)",
    "CAST(b AS INT)",
    "CAST(b AS DOUBLE)",
    "CAST(i AS BOOLEAN)",
    "CAST(d AS BOOLEAN)",
    "CAST(m AS BOOLEAN)",
    "CAST(ts AS DATE)",
    "CAST(dt AS TIMESTAMP)",
    "CAST(f AS DOUBLE)",
    "CAST(s || '.5' AS INT)",
    "CAST('-' || s AS BIGINT)",
    "m * o * i",
    "CAST(l AS SMALLINT)",
    "NOT s LIKE '%'",
    "s NOT LIKE '%a' AND b",
    "m * 2 + 1",
    "SUBSTRING(s, 3, 0)",
    "CAST(NULL AS INT)",
    "CAST(i AS INT)",
    "year(ts)",
    "month(ts)",
    "day(ts)",
    "dayofmonth(dt)",
    "year(dt)",
    "month(dt)",
    "hour(ts)",
    "minute(ts)",
    "second(ts)",
    "unix_micros(ts)",
    "unix_millis(ts)",
    "unix_seconds(ts)",
    "CASE WHEN year(ts) < 9999 THEN ts + INTERVAL 5 MINUTES END",
    "CASE WHEN year(ts) < 9999 THEN INTERVAL '1.5' SECONDS + ts END",
    "CASE WHEN year(ts) > 1 THEN ts - INTERVAL '2' DAY END",
    "CASE WHEN year(dt) < 9999 THEN dt + INTERVAL 3 DAYS END",
    "CASE WHEN year(dt) > 1 THEN dt - INTERVAL 1 WEEK END",
    "timestampdiff(SECOND, ts, us)",
    "timestampdiff(MINUTE, ts, us)",
    "timestampdiff(HOUR, ts, us)",
    "timestampdiff(DAY, ts, us)",
    "timestampdiff(MILLISECOND, ts, us)",
    "timestampdiff(MICROSECOND, ts, us)",
    "(i + j) * 2 - l / k",
    "1.5BD * m",
    "m - 5L",
    "m * 2S",
    "3Y + y",
    "2.5F * f",
    "1.5D + m",
    "7BD + m",
    "-5L + l",
    "d > 1e-3",
    "1e300 > d",
    "5L + i",
    "-5",
    "-9223372036854775808",
    "9223372036854775808",
    "1e3",
    ".5",
    "1.50",
    "'it''s \\\\ \"x\"'",
    "TRUE",
    "NULL",
]

REFUSED = [
    *(
        "m / o",
        "m / 2",
        "n * p",
        "m DIV 2",
        "CAST(d AS TINYINT)",
        "CAST(d AS FLOAT)",
        "CAST(m AS INT)",
        "CAST(d AS STRING)",
    ),
    *(
        "CAST(s AS DOUBLE)",
        "CAST(s AS DATE)",
        "CAST(s AS BOOLEAN)",
        "CAST(ts AS BIGINT)",
        "CAST(ts AS STRING)",
        "TRY_CAST(s AS INT)",
    ),
    *(
        "s + 1",
        "s = 1",
        "s > d",
        "i + b",
        "b + c",
        "ts - us",
        "dt + 1",
        "i AND b",
        "NOT i",
        "if(b, s, i)",
        "coalesce(s, i)",
    ),
    *(
        "ts > 'x'",
        "s LIKE i",
        "s LIKE 'a\\\\b'",
        "locate(s, t, 2)",
        "contains(s, i)",
        "datediff(s, dt)",
        "round(d, -1)",
        "round(d, i)",
        "round(f)",
        "ceil(d, 1)",
        "substring(s, -1)",
    ),
    *(
        "substring(s, i)",
        "left(s, i)",
        "upper(s)",
        "lower(s)",
        "trim(BOTH 'a' FROM s)",
        "md5(s)",
        "i & 1",
        "s RLIKE 'a'",
        "greatest(s, i)",
    ),
    *("unknown", "i IN (s)", "'a\\0b'", "year(s)", "timestampdiff(MONTH, ts, us)", "-s", "nullif(NULL, 1)", "isnan(i)"),
]


def arrow_table() -> pa.Table:
    columns = {"row_id": pa.array(range(ROWS), pa.int64())}
    for (first, second, kind), values in VALUES.items():
        pairs = list(itertools.product(values, values))
        for place, name in enumerate((first, second)):
            columns[name] = pa.array([pairs[row % len(pairs)][place] for row in range(ROWS)], SqlType(kind).arrow)
    return pa.table(columns)


@pytest.fixture(scope="module")
def frame() -> Iterator[DataFrame]:
    active = SparkSession.getActiveSession()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = active.newSession() if active else builder.config("spark.driver.memory", "1g").getOrCreate()
    for name, value in {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }.items():
        spark.conf.set(name, value)
    yield spark.createDataFrame(arrow_table()).coalesce(1)
    if active is None:
        spark.stop()


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    table = arrow_table()
    naive = [
        (field.name, pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type) for field in table.schema
    ]
    with duckdb.connect() as connection:
        connection.register("answers", table.cast(pa.schema(naive)))
        yield connection


def same(spark: Any, ours: Any) -> bool:
    if isinstance(spark, float) and isinstance(ours, float):
        return (math.isnan(spark) and math.isnan(ours)) or spark == ours or math.isclose(spark, ours, rel_tol=1e-12)
    return type(spark) is type(ours) and bool(spark == ours)


def differences(expressions: list[str], frame: DataFrame, duck: duckdb.DuckDBPyConnection) -> list[str]:
    """The expressions whose values in DuckDB or whose types differ from Spark's, found with one Spark job."""
    finals = [finalize(parse_expression(expression), TYPES) for expression in expressions]
    spark = frame.selectExpr(*(f"{expression} AS x{index}" for index, expression in enumerate(expressions)))
    theirs = spark.toArrow()
    columns = ", ".join(f"{final.sql} AS x{index}" for index, final in enumerate(finals))
    ours = duck.sql(f"SELECT {columns} FROM answers").to_arrow_table()
    wrong = []
    for index, (expression, final) in enumerate(zip(expressions, finals, strict=True)):
        kind = spark.schema[index].dataType.simpleString().upper()
        if kind != str(final.type):
            wrong.append(f"{expression}: is {kind}, not {final.type}")
        expected = [v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in theirs.column(index).to_pylist()]
        pairs = zip(expected, ours.column(index).to_pylist(), strict=True)
        wrong += [f"{expression}: Spark {a!r}, DuckDB {b!r}" for a, b in pairs if not same(a, b)][:2]
    return wrong


def test_results_match_spark(frame: DataFrame, duck: duckdb.DuckDBPyConnection) -> None:
    assert differences(EXPRESSIONS, frame, duck) == []


class Nested:
    """Random nested expressions of numbers, strings and conditions."""

    def __init__(self, seed: int):
        self.chance = random.Random(seed)

    def number(self, depth: int) -> str:
        pick, inner = self.chance.choice, depth - 1
        if depth == 0:
            return pick("y i j l k f d e m o n 1 2 0 -3 1.5 0.25 5L 1e2 2147483648".split())
        forms = [
            lambda: f"({self.number(inner)} {pick('+ - * / % DIV'.split())} {self.number(inner)})",
            lambda: f"(-{self.number(inner)})",
            lambda: f"{pick('abs ceil floor round sqrt ln sign zeroifnull exp'.split())}({self.number(inner)})",
            lambda: f"{pick('coalesce greatest least nullif pow'.split())}({self.number(inner)}, {self.number(inner)})",
            lambda: f"CASE WHEN {self.condition(inner)} THEN {self.number(inner)} ELSE {self.number(inner)} END",
            lambda: f"CAST({self.number(inner)} AS {pick('INT BIGINT DOUBLE DECIMAL(12,3) SMALLINT'.split())})",
            lambda: f"length({self.string(inner)})",
        ]
        return pick(forms * 2 + forms[:1] * 6)()

    def string(self, depth: int) -> str:
        pick, inner = self.chance.choice, depth - 1
        if depth == 0:
            return pick(["s", "t", "'x'"])
        forms = [
            lambda: f"concat({self.string(inner)}, {pick(['i', 'l', 'b', self.string(inner)])})",
            lambda: f"substring({self.string(inner)}, {pick([0, 1, 2])}, {pick([0, 1, 2])})",
            lambda: f"if({self.condition(inner)}, {self.string(inner)}, {self.string(inner)})",
            lambda: f"replace({self.string(inner)}, {self.string(0)}, {self.string(0)})",
        ]
        return pick(forms)()

    def condition(self, depth: int) -> str:
        pick, inner = self.chance.choice, depth - 1
        if depth == 0:
            return pick(["b", "c", "TRUE"])
        forms = [
            lambda: f"({self.number(inner)} {pick('= <> < <= > >= <=>'.split())} {self.number(inner)})",
            lambda: f"({self.condition(inner)} {pick(['AND', 'OR'])} {self.condition(inner)})",
            lambda: f"(NOT {self.condition(inner)})",
            lambda: f"({self.number(inner)} IN ({self.number(0)}, {self.number(0)}))",
            lambda: f"({self.number(inner)} BETWEEN {self.number(inner)} AND {self.number(inner)})",
            lambda: f"({self.string(inner)} {pick('= < >='.split())} {self.string(inner)})",
        ]
        return pick(forms)()

    def accepted(self, count: int) -> list[str]:
        """`count` expressions that `finalize` accepts."""
        expressions: list[str] = []
        while len(expressions) < count:
            expression = self.chance.choice([self.number, self.number, self.string, self.condition])(3)
            try:
                finalize(parse_expression(expression), TYPES)
            except FunctionError:
                continue
            expressions.append(expression)
        return expressions


def test_escape_that_spark_refuses_is_an_error(frame: DataFrame, duck: duckdb.DuckDBPyConnection) -> None:
    final = finalize(parse_expression("s LIKE t"), TYPES)
    with pytest.raises(duckdb.Error, match="the pattern of LIKE"):
        duck.sql(f"SELECT {final.sql} AS x FROM answers").fetchall()
    with pytest.raises(Exception, match="INVALID_FORMAT"):
        frame.selectExpr("s LIKE t").toArrow()


def test_nested_expressions_match_spark(frame: DataFrame, duck: duckdb.DuckDBPyConnection) -> None:
    assert differences(Nested(seed=20260101).accepted(150), frame, duck) == []


def test_every_final_function_is_tested() -> None:
    used = {function_name(node) for text in EXPRESSIONS for node in parse_expression(text).walk()}
    text = " ".join(EXPRESSIONS).upper()
    assert {name for name in FINAL_FUNCTIONS if f"{name}(" not in text and name not in used} == set()
    assert set(FUNCTIONS) <= FINAL_FUNCTIONS


@pytest.mark.parametrize("expression", REFUSED)
def test_refused(expression: str) -> None:
    with pytest.raises(FunctionError, match="cannot be used over aggregates"):
        to_duckdb(parse_expression(expression), TYPES, f"SELECT {expression}")


def test_place_of_refused_expression() -> None:
    text = "1 + round(f)"
    tree = parse_expression(text)
    check_functions(tree, f"SELECT {text}")
    with pytest.raises(FunctionError) as caught:
        to_duckdb(tree, TYPES, f"SELECT {text}")
    assert caught.value.place is not None and caught.value.place.column == len("SELECT 1 + ") + 1


def test_order_matches_spark(frame: DataFrame, duck: duckdb.DuckDBPyConnection) -> None:
    """NaN is the greatest value, NULLs have Spark's position, and strings are ordered by their bytes."""
    terms = [f"{name} {way}" for name in "dlms" for way in ("ASC", "DESC", "ASC NULLS LAST", "DESC NULLS FIRST")]
    statement = parse_one(f"SELECT a FROM answers ORDER BY {', '.join(terms)}")
    assert isinstance(statement, Select)
    ours = [
        ordered_by(to_duckdb(term.this, TYPES), bool(term.args.get("desc")), bool(term.args.get("nulls_first")))
        for term in statement.select.args["order"].expressions
    ]
    ranks = [f"CAST(rank() OVER (ORDER BY {term}) AS INT)" for term in terms]
    theirs = frame.selectExpr("row_id", *ranks).collect()
    duckdb_ranks = ", ".join(f"CAST(rank() OVER (ORDER BY {term}) AS INTEGER)" for term in ours)
    found = duck.sql(f"SELECT row_id, {duckdb_ranks} FROM answers").fetchall()
    assert sorted(tuple(row) for row in theirs) == sorted(found)
