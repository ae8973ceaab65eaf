"""The binder: logical plans of queries, and errors with place and remedy."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import sqlglot
from sqlglot import exp
from support.bound_plans import pointed_at

from windrow.catalog.definitions import StreamDef, define_stream
from windrow.cql import CQL, parse_one
from windrow.cql.statements import CreateQuery, CreateStream
from windrow.cql.tokens import named_place
from windrow.cql.window_clause import Measure, Unit, WindowClause, WindowKind
from windrow.errors import BindError, CatalogError, Place, WindrowError
from windrow.explain.text import aggregate_lines
from windrow.plan.accumulators import Accumulator, Kind
from windrow.plan.bind_window import MOST_POINTS, bind_window
from windrow.plan.binder import bind_query
from windrow.plan.nodes import ROW_NUM, Attribute, Finalise, Key
from windrow.types import SqlType
from windrow.windows import LandmarkWindow, PartitionedWindow, SlideByTuple, SlideOver, SlidingWindow, Window

MINUTE = 60_000_000
PACKETS = (
    "CREATE STREAM packets (ts TIMESTAMP, src STRING, Dst STRING, length INT, price DECIMAL(12,2), ok BOOLEAN) "
    "FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED"
)
CARS = "CREATE STREAM cars (odometer BIGINT, id STRING) FROM memory TIMESTAMP BY odometer PUNCTUATE WITH SLACK 5"
DEAF = "CREATE STREAM deaf (ts TIMESTAMP, src STRING) FROM memory TIMESTAMP BY ts"
BARE = "CREATE STREAM bare (ts TIMESTAMP, src STRING) FROM memory"
W = "[RANGE 10 MINUTES SLIDE 1 MINUTE]"


def stream(text: str) -> StreamDef:
    statement = parse_one(text)
    assert isinstance(statement, CreateStream)
    return define_stream(statement)


TICKS = "CREATE STREAM ticks (timestamp TIMESTAMP) FROM rate TIMESTAMP BY timestamp PUNCTUATE ORDERED"
STREAMS = {definition.name: definition for definition in map(stream, (PACKETS, CARS, DEAF, BARE, TICKS))}


def stream_of(name: str, place: Place | None) -> StreamDef:
    if name.lower() not in STREAMS:
        raise CatalogError(f"there is no stream '{name}'", place=place)
    return STREAMS[name.lower()]


def types_of(columns: Sequence[tuple[str, SqlType]], expressions: Sequence[str]) -> list[SqlType]:
    """A stand-in for Spark's analyser, sufficient for these tests."""
    known = dict(columns)
    return [_type(sqlglot.parse_one(text, dialect="spark"), known) for text in expressions]


def _type(tree: exp.Expression, known: dict[str, SqlType]) -> SqlType:
    if isinstance(tree, exp.Column):
        return known[tree.name]
    if isinstance(tree, (exp.Predicate, exp.Connector, exp.Not, exp.Boolean)):
        return SqlType("BOOLEAN")
    if isinstance(tree, exp.Null):
        return SqlType("VOID")
    if isinstance(tree, exp.Literal):
        return SqlType("STRING" if tree.is_string else "INT")
    if isinstance(tree, exp.Div):
        return SqlType("DOUBLE")
    return _type(tree.this, known)


def bind(select: str) -> Finalise:
    text = f"CREATE QUERY q AS {select}"
    statement = parse_one(text)
    assert isinstance(statement, CreateQuery)
    return bind_query(statement.select, text, stream_of, types_of)


def refused(select: str, kind: type[WindrowError] = BindError) -> WindrowError:
    with pytest.raises(kind) as raised:
        bind(select)
    return raised.value


# -- plans --------------------------------------------------------------------------------------------------


def test_whole_query() -> None:
    plan = bind(
        f"SELECT src, SUM(length) AS total, COUNT(*) AS n FROM packets {W} WHERE ok "
        "GROUP BY src HAVING SUM(length) > 100 ORDER BY total DESC, src LIMIT 3"
    )
    assert plan.scan.stream == "packets" and plan.scan.attribute == Attribute("ts", SqlType("TIMESTAMP"))
    assert plan.window == SlidingWindow(10 * MINUTE, MINUTE)
    assert plan.input.input.predicate == "`ok`"
    assert plan.input.keys == (Key("`src`", SqlType("STRING")),)
    assert [call.function for call in plan.input.aggregates] == ["SUM", "COUNT"]
    assert plan.input.presence == Accumulator(Kind.COUNT, None, None, "`ok`")
    assert [(o.name, o.expression.sql(), o.type.name) for o in plan.outputs] == [
        ("src", "k0", "STRING"),
        ("total", "a0", "BIGINT"),
        ("n", "a1", "BIGINT"),
    ]
    assert plan.having is not None and plan.having.sql() == "a0 > 100"
    assert [(o.expression.sql(), o.descending, o.nulls_first) for o in plan.order] == [
        ("a0", True, False),
        ("k0", False, True),
    ]
    assert plan.limit == 3 and not plan.is_plain


def test_names_ignore_case() -> None:
    plan = bind(f"SELECT DST, MAX(LENGTH) AS m FROM Packets {W} AS p GROUP BY p.dst")
    assert plan.input.keys == (Key("`Dst`", SqlType("STRING")),)
    assert plan.outputs[0].name == "DST"
    assert plan.input.aggregates[0].part("v").arg == "`length`"


def test_equal_aggregates_are_computed_once() -> None:
    plan = bind(f"SELECT SUM(length) AS a, sum(LENGTH) + 1 AS b, SUM(length) FILTER (WHERE ok) AS c FROM packets {W}")
    assert [o.expression.sql() for o in plan.outputs] == ["a0", "a0 + 1", "a1"]
    assert plan.input.aggregates[1].part("s").condition == "`ok`"


def test_where_and_filter() -> None:
    plan = bind(f"SELECT COUNT(*) FILTER (WHERE ok) AS n FROM packets {W} WHERE length > 0")
    assert plan.input.aggregates[0].part("n").condition == "(`length` > 0) AND (`ok`)"
    assert plan.input.presence.condition == "`length` > 0"


@pytest.mark.parametrize("count", ["COUNT(*)", "COUNT(1)", "COUNT('x')"])
def test_count_rows(count: str) -> None:
    plan = bind(f"SELECT {count} AS n FROM packets {W}")
    assert plan.input.aggregates[0].part("n") == Accumulator(Kind.COUNT, None, None, None)


def test_count_null() -> None:
    plan = bind(f"SELECT COUNT(NULL) AS n FROM packets {W}")
    assert plan.input.aggregates[0].part("n").arg == "NULL"


@pytest.mark.parametrize("group", ["length + 1", "1", "grown", "(length + 1)", "length + 1, 1, grown"])
def test_group_by_expression_ordinal_or_alias(group: str) -> None:
    plan = bind(f"SELECT length + 1 AS grown, COUNT(*) AS n FROM packets {W} GROUP BY {group}")
    assert [key.sql for key in plan.input.keys] == ["`length` + 1"]
    assert plan.outputs[0].expression.sql() == "k0"


def test_parentheses_around_key() -> None:
    plan = bind(f"SELECT src, COUNT(*) AS n FROM packets {W} GROUP BY (src)")
    assert [key.sql for key in plan.input.keys] == ["`src`"] and plan.is_plain


def test_column_or_alias_precedence() -> None:
    plan = bind(f"SELECT Dst AS src, COUNT(*) AS n FROM packets {W} GROUP BY src, Dst ORDER BY src")
    assert [key.sql for key in plan.input.keys] == ["`src`", "`Dst`"]
    assert plan.order[0].expression.sql() == "k1"


def test_expressions_over_keys_and_aggregates() -> None:
    plan = bind(f"SELECT (length + 1) * 2 AS z, MAX(length) - MIN(length) AS d FROM packets {W} GROUP BY length + 1")
    assert [o.expression.sql() for o in plan.outputs] == ["(k0) * 2", "a0 - a1"]


def test_having_and_order_by_see_aliases() -> None:
    plan = bind(
        f"SELECT src, SUM(length) AS total FROM packets {W} GROUP BY src HAVING total * 2 > 5 ORDER BY 2, total"
    )
    assert plan.having is not None and plan.having.sql() == "(a0) * 2 > 5"
    assert [o.expression.sql() for o in plan.order] == ["a0", "a0"]


def test_alias_in_expression_is_parenthesised() -> None:
    plan = bind(f"SELECT SUM(length) + 1 AS total FROM packets {W} HAVING total * 2 > 5")
    assert plan.having is not None and plan.having.sql() == "(a0 + 1) * 2 > 5"


def test_order_of_nulls() -> None:
    plan = bind(
        f"SELECT src FROM packets {W} GROUP BY src ORDER BY src, src DESC, src NULLS LAST, src DESC NULLS FIRST"
    )
    assert [(o.descending, o.nulls_first) for o in plan.order] == [
        (False, True),
        (True, False),
        (False, False),
        (True, True),
    ]


def test_default_column_names() -> None:
    plan = bind(f"SELECT src, COUNT(*), SUM(length) FROM packets {W} GROUP BY src")
    assert [o.name for o in plan.outputs] == ["src", "count(*)", "sum(length)"]
    assert plan.is_plain


def test_integer_attributes() -> None:
    plan = bind("SELECT COUNT(*) AS n FROM cars [RANGE 1000 SLIDE 10 WATTR odometer]")
    assert plan.window == SlidingWindow(1000, 10) and plan.scan.attribute.type == SqlType("BIGINT")


# -- errors ---------------------------------------------------------------------------------------------------

MISTAKES = [
    (f"SELECT srcc, COUNT(*) AS n FROM packets {W} GROUP BY srcc", "srcc", "Did you mean 'src'"),
    (f"SELECT COUNT(*) AS n FROM packets {W} WHERE lenght > 0", "lenght", "Did you mean 'length'"),
    (f"SELECT SUM(lenght) AS n FROM packets {W}", "lenght", "Did you mean 'length'"),
    (f"SELECT src, COUNT(*) AS n FROM packets {W}", "src", "Add it to GROUP BY"),
    (f"SELECT COUNT(*) AS n FROM packets {W} GROUP BY src HAVING Dst > 'a'", "Dst", "Add it to GROUP BY"),
    (f"SELECT COUNT(*) AS n FROM packets {W} GROUP BY src ORDER BY length", "length", "Add it to GROUP BY"),
    (f"SELECT other.src, COUNT(*) AS n FROM packets {W} GROUP BY src", "other.src", "is not in FROM"),
    (f"SELECT packets.src FROM packets {W} AS p GROUP BY src", "packets.src", "is not in FROM"),
    (f"SELECT COUNT(*) AS n FROM packets {W} WHERE SUM(length) > 5", "SUM(length)", "Use HAVING"),
    (f"SELECT COUNT(*) AS n FROM packets {W} GROUP BY SUM(length)", "SUM(length)", "Group by a column"),
    (f"SELECT SUM(MAX(length)) AS n FROM packets {W}", "MAX(length)", "cannot be nested"),
    (f"SELECT SUM(ok) AS n FROM packets {W}", "ok", "takes a number"),
    (f"SELECT COUNT(*) AS n FROM packets {W} WHERE length", "length", "WHERE needs a condition"),
    (f"SELECT COUNT(*) FILTER (WHERE length) AS n FROM packets {W}", "length", "FILTER needs a condition"),
    (f"SELECT COUNT(*) AS n FROM packets {W} GROUP BY 3", "3", "has 1 column"),
    (f"SELECT COUNT(*) AS n FROM packets {W} ORDER BY 0", "0", "has 1 column"),
    (f"SELECT * FROM packets {W}", "*", "List the keys and the aggregates"),
    (f"SELECT COUNT(*) AS window_end FROM packets {W}", "window_end", "Choose another alias"),
    ("SELECT COUNT(*) AS n FROM packets [RANGE 10 SLIDE 1]", "[RANGE 10 SLIDE 1]", "10 MINUTES"),
    ("SELECT COUNT(*) AS n FROM cars [RANGE 1 HOUR SLIDE 5]", "[RANGE 1 HOUR SLIDE 5]", "a plain number"),
    ("SELECT COUNT(*) AS n FROM cars [RANGE 1 HOUR SLIDE 5]", "[RANGE 1 HOUR SLIDE 5]", "[RANGE 1000 SLIDE 100]"),
    ("SELECT COUNT(*) AS n FROM cars [RANGE 5]", "[RANGE 5]", "[RANGE 1000 SLIDE 100]"),
    (f"SELECT COUNT(*) AS m FROM packets {W} ORDER BY mm", "mm", "Did you mean 'm'?"),
    (f"SELECT COUNT(*) AS m FROM packets {W} HAVING mm > 1", "mm", "Did you mean 'm'?"),
    (f"SELECT src AS origin, COUNT(*) AS m FROM packets {W} GROUP BY orign", "orign", "Did you mean 'origin'?"),
    (f"SELECT COUNT(*) AS n FROM packets {W} LIMIT -1", "-1", "from 0 to 2,147,483,647, not -1"),
    (f"SELECT COUNT(*) AS n FROM packets {W} LIMIT 1.5", "1.5", "For example LIMIT 10"),
    (f"SELECT src, Dst AS src FROM packets {W} GROUP BY src, Dst", "Dst AS src", "two columns of the answer"),
    (f"SELECT COUNT() AS n FROM packets {W}", "COUNT", "Write COUNT(*)."),
    (
        "SELECT COUNT(*) AS n FROM cars [RANGE 10 SLIDE 1 WATTR id]",
        "[RANGE 10 SLIDE 1 WATTR id]",
        "no PUNCTUATE covers",
    ),
    (
        "SELECT COUNT(*) AS n FROM cars [RANGE 10 SLIDE 1 WATTR nope]",
        "[RANGE 10 SLIDE 1 WATTR nope]",
        "no column 'nope'",
    ),
]


@pytest.mark.parametrize(("text", "at", "expected"), MISTAKES, ids=[text for text, _, _ in MISTAKES])
def test_error_place_and_remedy(text: str, at: str, expected: str) -> None:
    error = refused(text)
    assert expected in str(error) and error.remedy
    marked = pointed_at(error)
    assert marked in at or at in marked


DECLARATIONS = [
    ("(ts TIMESTAMP, x INT)", "TIMESTAMP BY tss PUNCTUATE ORDERED", "tss", "Did you mean 'ts'?"),
    ("(ts TIMESTAMP, x INT)", "TIMESTAMP BY ts PUNCTUATE PER xx", "xx", "Did you mean 'x'?"),
    ("(ts TIMESTAMP, n5 INT)", "TIMESTAMP BY ts PUNCTUATE WITH SLACK 5", "5", "For example SLACK 5 SECONDS."),
    ("(n INT)", "TIMESTAMP BY n PUNCTUATE WITH SLACK 5 SECONDS", "5 SECONDS", "For example SLACK 100."),
    ("(n INT)", "TIMESTAMP BY n PUNCTUATE PER n IDLE AFTER 5 ROWS", "5 ROWS", "For example IDLE AFTER 100."),
    ("(ts STRING)", "TIMESTAMP BY ts PUNCTUATE ORDERED", "ts", "Declare it as ts TIMESTAMP"),
    ("(ts TIMESTAMP, __x INT)", "TIMESTAMP BY ts", "__x", "Call it for example x."),
    ("(ts TIMESTAMP)", "TIMESTAMP BY ts PUNCTUATE ORDERED RETAIN 10", "10", "For example RETAIN 5 SECONDS."),
    ("(ts TIMESTAMP)", "TIMESTAMP BY ts RETAIN 1 HOUR", "RETAIN", "Add PUNCTUATE ORDERED"),
    ("(ts TIMESTAMP)", "PUNCTUATE ORDERED", "PUNCTUATE", "Add TIMESTAMP BY column."),
    ("(n INT)", "TIMESTAMP BY n PUNCTUATE ORDERED HEARTBEAT AFTER 5 SECONDS", "n", "wr.punctuate(stream, upto)"),
]


@pytest.mark.parametrize(("columns", "clauses", "at", "expected"), DECLARATIONS, ids=[row[1] for row in DECLARATIONS])
def test_errors_in_create_stream(columns: str, clauses: str, at: str, expected: str) -> None:
    text = f"CREATE STREAM s {columns} FROM memory {clauses}"
    with pytest.raises(BindError) as raised:
        stream(text)
    error = raised.value
    assert expected in str(error.remedy)
    error.place = named_place(error.message, text, CQL())
    assert pointed_at(error) == at


def test_idle_after_on_integer_attribute() -> None:
    definition = stream("CREATE STREAM s (n INT, k STRING) FROM memory TIMESTAMP BY n PUNCTUATE PER k IDLE AFTER 7")
    assert definition.punctuated[0].idle_after == 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT COUNT(*) AS n FROM packets", "needs a window"),
        ("SELECT COUNT(*) AS n FROM bare [RANGE 1 MINUTE SLIDE 1 MINUTE]", "has no window attribute"),
        ("SELECT COUNT(*) AS n FROM deaf [RANGE 1 MINUTE SLIDE 1 MINUTE]", "no PUNCTUATE covers 'ts'"),
        (f"SELECT COUNT(*) AS n, SUM(length) AS N FROM packets {W}", "two columns of the answer are called 'N'"),
        ("SELECT 1 AS one", "reads a stream"),
    ],
)
def test_errors_without_place(text: str, expected: str) -> None:
    error = refused(text)
    assert expected in str(error) and error.remedy


def test_group_by_null() -> None:
    error = refused(f"SELECT NULL AS k, COUNT(*) AS n FROM packets {W} GROUP BY NULL")
    assert "typed expression" in str(error)


def test_unknown_stream() -> None:
    error = refused(f"SELECT COUNT(*) AS n FROM packet {W}", CatalogError)
    assert pointed_at(error) == "packet"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"SELECT SUM(DISTINCT length) AS n FROM packets {W}", "DISTINCT"),
        (f"SELECT DISTINCT src FROM packets {W} GROUP BY src", "DISTINCT"),
        (f"SELECT src FROM packets {W}", "[WR290] a one-time query over a stream has an aggregate"),
        (f"SELECT 1 AS one FROM packets {W}", "CREATE QUERY name AS SELECT"),
        ("SELECT COUNT(*) AS n FROM packets [RANGE 1 MINUTE]", "without SLIDE"),
        ("SELECT COUNT(*) AS n FROM packets [ROWS 5]", "without SLIDE"),
        ("SELECT COUNT(*) AS n FROM packets [UNBOUNDED]", "without SLIDE"),
        ("SELECT COUNT(*) AS n FROM packets [RANGE 1 MINUTE SLIDE 1 MINUTE INTERNAL]", "INTERNAL"),
    ],
)
def test_unsupported(text: str, what: str) -> None:
    assert what in str(refused(text))


# -- windows ----------------------------------------------------------------------------------------------------

TS, ODOMETER = Attribute("ts", SqlType("TIMESTAMP")), Attribute("odometer", SqlType("BIGINT"))


def window_on(attribute: Attribute, made: WindowClause) -> Window:
    return bind_window(made, STREAMS["packets" if attribute is TS else "cars"]).window


def clause(range_: int, slide: int, unit: Unit = Unit.TIME, origin: str | int | None = None) -> WindowClause:
    return WindowClause(WindowKind.RANGE, Measure(range_, unit), Measure(slide, unit), origin=origin)


@pytest.mark.parametrize(
    ("origin", "point"),
    [
        (None, 0),
        ("1970-01-01 00:00:01", 1_000_000),
        ("1969-12-31 23:59:59.500", -500_000),
        ("1970-01-01T01:00:00+01:00", 0),
    ],
)
def test_origin_on_timestamp(origin: str | None, point: int) -> None:
    assert window_on(TS, clause(60, 10, origin=origin)) == SlidingWindow(60, 10, point)


def test_origin_on_integer() -> None:
    window = window_on(ODOMETER, clause(60, 10, Unit.VALUES, -7))
    assert window == SlidingWindow(60, 10, -7)


@pytest.mark.parametrize(
    ("bad", "attribute", "expected"),
    [
        (clause(60, 10, origin="yesterday"), TS, "is not a time"),
        (clause(60, 10, origin=5), TS, "ORIGIN on 'ts' is a time"),
        (clause(60, 10, Unit.VALUES, "2026-01-01"), ODOMETER, "ORIGIN on 'odometer' is a whole number"),
        (clause(0, 10), TS, "RANGE is positive"),
        (clause(10, 0), TS, "SLIDE is positive"),
        (clause(MOST_POINTS + 1, 1), TS, "RANGE is positive, and at most"),
        (clause(1, MOST_POINTS + 1, Unit.VALUES), ODOMETER, "SLIDE is positive, and at most"),
        (clause(10, 10, Unit.VALUES), TS, "an interval such as 10 MINUTES"),
    ],
)
def test_bad_windows(bad: WindowClause, attribute: Attribute, expected: str) -> None:
    with pytest.raises(BindError, match=expected):
        window_on(attribute, bad)


ROWS = "SELECT COUNT(*) AS n FROM packets"


def test_partition_by_repeated_column() -> None:
    plan = bind(f"{ROWS} [ROWS 5 SLIDE 2 PARTITION BY src, Dst, SRC]")
    assert [key.sql for key in plan.input.keys] == ["`src`", "`Dst`"] and plan.input.partition == 2


def test_partition_is_a_group_key() -> None:
    text = f"{ROWS} [ROWS 5 SLIDE 2 PARTITION BY src]"
    assert bind(f"{text} GROUP BY src") == bind(text)


@pytest.mark.parametrize(
    ("text", "window", "axis"),
    [
        ("[ROWS 5 SLIDE 2]", SlidingWindow(5, 2, 1), ROW_NUM),
        ("[ROWS 5 OFFSET 3 SLIDE 2]", SlidingWindow(5, 2, 1, 3), ROW_NUM),
        ("[ROWS 5 SLIDE 2 WATTR row_num]", SlidingWindow(5, 2, 1), ROW_NUM),
        ("[ROWS 5 SLIDE 2 PARTITION BY src]", PartitionedWindow(5, 2), ROW_NUM),
        ("[RANGE 1 SECOND OFFSET 2 SECONDS SLIDE 1 SECOND]", SlidingWindow(10**6, 10**6, 0, 2 * 10**6), "ts"),
        ("[RANGE 1 SECOND SLIDE 1 ROW]", SlideByTuple(10**6), "ts"),
        ("[RANGE 1 SECOND SLIDE 3 ROWS RATTR ts]", SlideByTuple(10**6, 3, SlideOver.ROW), "ts"),
        ("[RANGE 1 SECOND SLIDE 3 ROWS SATTR row_num]", SlideByTuple(10**6, 3, SlideOver.ROW), "ts"),
        ("[RANGE 1 SECOND SLIDE 3 ROWS SATTR rank(ts)]", SlideByTuple(10**6, 3, SlideOver.RANK), "ts"),
        ("[RANGE 1 SECOND SLIDE 1 ROW SATTR rank(ts)]", SlideByTuple(10**6), "ts"),
        ("[NOW]", SlideByTuple(1), "ts"),
        ("[NOW SLIDE 1 SECOND]", SlidingWindow(1, 10**6), "ts"),
        ("[SINCE '1970-01-01 00:00:01' SLIDE 1 SECOND]", LandmarkWindow(10**6, 10**6), "ts"),
        ("[UNBOUNDED SLIDE 1 SECOND]", LandmarkWindow(None, 10**6), "ts"),
    ],
)
def test_every_kind_of_window(text: str, window: Window, axis: str) -> None:
    plan = bind(f"{ROWS} {text}")
    assert plan.window == window and plan.scan.attribute.column == axis


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[ROWS 5 SLIDE 1 SECOND]", "slides by rows"),
        ("[ROWS 5 SLIDE 1 WATTR ts]", "is on the row number"),
        ("[ROWS 5 SLIDE 1 ORIGIN 5]", "ORIGIN goes with"),
        ("[ROWS 5 SLIDE 1 RATTR ts]", "RATTR and SATTR"),
        ("[ROWS 5 SLIDE 1 PARTITION BY nope]", "no column 'nope'"),
        ("[RANGE 1 SECOND SLIDE 1 SECOND PARTITION BY src]", "PARTITION BY goes with"),
        ("[RANGE 1 SECOND SLIDE 1 SECOND RATTR ts]", "goes with SLIDE n ROWS"),
        ("[RANGE 1 SECOND SLIDE 2 ROWS SATTR src]", "SATTR is the row number or a rank"),
        ("[RANGE 1 SECOND SLIDE 2 ROWS SATTR rank(src)]", "over the range attribute"),
        ("[RANGE 1 SECOND OFFSET 1 SECOND SLIDE 2 ROWS]", "OFFSET goes with"),
        ("[SINCE '1970-01-01' SLIDE 2 ROWS]", "slides on the window attribute"),
        ("[SINCE 5 SLIDE 1 SECOND]", "SINCE on 'ts' is a time"),
    ],
)
def test_bad_combinations_in_windows(text: str, expected: str) -> None:
    error = refused(f"{ROWS} {text}")
    assert expected in str(error) and error.place is not None and error.remedy


def test_rows_need_order_of_arrival() -> None:
    error = refused("SELECT COUNT(*) AS n FROM ticks [ROWS 5 SLIDE 1]")
    assert "SEQUENCE BY" in str(error)
    assert bind("SELECT COUNT(*) AS n FROM ticks [RANGE 1 SECOND SLIDE 1 ROW]").window == SlideByTuple(10**6)


def test_longest_window() -> None:
    window = SlidingWindow(MOST_POINTS, MOST_POINTS)
    for t in (10**18 - 1, -(10**18) + 1):
        for w in window.wids(t):
            assert all(-(1 << 63) <= edge < 1 << 63 for edge in window.extent(w))


@pytest.mark.parametrize(
    ("text", "expected", "at"),
    [
        (f"SELECT TOP_K(src, 2) AS top FROM packets {W} ORDER BY top", "has an order", "top"),
        (f"SELECT src, TOP_K(length, 2) AS top FROM packets {W} GROUP BY src ORDER BY 2", "has an order", "2"),
        (f"SELECT COUNT(*) AS n FROM packets {W} HAVING TOP_K(src, 2) IS NULL", "nothing can be computed", None),
        (f"SELECT MEDIAN(length) + MEDIAN(ok) AS m FROM packets {W}", "MEDIAN takes a number", "ok"),
        (f"SELECT MEDIAN(src) AS m FROM packets {W}", "MEDIAN takes a number, and `src` is STRING", "src"),
        (f"SELECT TOP_K(length, 2, src) AS m FROM packets {W}", "weight of TOP_K is a number", "src"),
        (f"SELECT TOP_K(src, 2, ok) AS m FROM packets {W}", "weight of TOP_K is a number", "ok"),
        (f"SELECT QUANTILE(length, 2) AS q FROM packets {W}", "from 0 to 1", "2"),
        (f"SELECT TOP_K(length, -2) AS q FROM packets {W}", "from 1 to 10,000", "-2"),
        (f"SELECT MEDIAN() AS q FROM packets {W}", "does not take 0 arguments", "MEDIAN"),
        (f"SELECT COUNT(DISTINCT MAX(src)) AS q FROM packets {W}", "cannot stand in an aggregate", "MAX"),
        (
            f"SELECT FREQUENT_ITEMS(src, 2) AS f, MEDIAN(length) AS m FROM packets {W}",
            "MEDIAN cannot",
            "FREQUENT_ITEMS",
        ),
        (
            f"SELECT COUNT(DISTINCT src) AS d, FREQUENT_ITEMS(src, 2) AS f, TOP_K(src, 2) AS t FROM packets {W}",
            "one with FREQUENT_ITEMS alone, one with COUNT(DISTINCT …) and TOP_K;",
            "FREQUENT_ITEMS",
        ),
        (
            f"SELECT FREQUENT_ITEMS(src, 2) AS f, FREQUENT_ITEMS(src, 3) AS g FROM packets {W}",
            "a second FREQUENT_ITEMS cannot stand beside it",
            "FREQUENT_ITEMS",
        ),
        (f"SELECT COUNT(DISTINCT *) AS d FROM packets {W}", "takes columns, not *", "*"),
        (f"SELECT 1.0 / SUM(length) AS r FROM packets {W}", "/ of DECIMAL(2,1), BIGINT", "1.0 / SUM(length)"),
        (
            f"SELECT 1 + COUNT(*) FILTER (WHERE (ok)) / 1.0 AS r FROM packets {W}",
            "/ of BIGINT, DECIMAL(2,1)",
            "COUNT(*) FILTER (WHERE (ok)) / 1.0",
        ),
    ],
)
def test_errors_in_holistic_aggregates(text: str, expected: str, at: str | None) -> None:
    error = refused(text)
    assert expected in str(error) and error.remedy
    assert at is None or pointed_at(error) == at


def test_holistic_values_are_cell_keys() -> None:
    plan = bind(
        f"SELECT src, MEDIAN(length) AS m, QUANTILE(length, 0.9) AS q, COUNT(DISTINCT src) AS d FROM packets {W} GROUP BY src"
    )
    src, length = Key("`src`", SqlType("STRING")), Key("`length`", SqlType("INT"))
    assert plan.input.keys == (src,) and plan.input.values == (length,) and plan.input.cell_keys == (src, length)
    assert plan.input.accumulators == (plan.input.presence,)
    (line,) = aggregate_lines(plan, "w")
    assert "a1 = QUANTILE 0.9 (INT)" in line and line.endswith("frequency counters of v0 = `length`")
    (line,) = aggregate_lines(bind(f"SELECT FREQUENT_ITEMS(src, 3) AS f FROM packets {W}"), "w")
    assert line.endswith("frequency counters of v0 = `src`, of closed panes the 3 most frequent")


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (
            "MEDIAN(length) AS m, COUNT(DISTINCT src) AS d",
            "kept per (`ok`, `length`, `src`), every combination; a query for each of `length` and `src` keeps",
        ),
        (
            "COUNT(DISTINCT src, dst) AS d, MEDIAN(length) AS m, COUNT(DISTINCT src) AS e",
            "a query for each of (`src`, `Dst`) and `length` keeps",
        ),
        ("COUNT(DISTINCT src, length) AS d, MEDIAN(length) AS m", None),
        ("COUNT(DISTINCT ok) AS d, MEDIAN(length) AS m", None),
    ],
    ids=["two", "a set and one", "one within the other", "a key"],
)
def test_explain_of_value_combinations(listed: str, expected: str | None) -> None:
    lines = aggregate_lines(bind(f"SELECT ok, {listed} FROM packets {W} GROUP BY ok"), "w")
    assert len(lines) == 1 + (expected is not None) and (expected is None or expected in lines[1])
