"""Windows and clocks of continuous queries: lifetimes, ticks, windows on sub-queries, ISTREAM and INTERNAL."""

from __future__ import annotations

import pytest
from support.bound_plans import bind, lines, pointed_at, refused

from windrow.errors import BindError, UnsupportedError
from windrow.plan.algebra.nodes import Lifetime, StreamWindow
from windrow.plan.continuous import is_monotonic, refuse_unless_monotonic
from windrow.plan.continuous.properties import too_short

SECOND, MINUTE = 1_000_000, 60_000_000
SLIDE = "[RANGE 1 MINUTE SLIDE 10 SECONDS]"


@pytest.mark.parametrize(
    ("window", "lifetime"),
    [
        ("RANGE 1 MINUTE", Lifetime(MINUTE)),
        ("RANGE 2 MINUTES OFFSET 1 MINUTE", Lifetime(2 * MINUTE, MINUTE)),
        ("UNBOUNDED", Lifetime(None)),
        ("RANGE UNBOUNDED", Lifetime(None)),
        ("NOW", Lifetime(SECOND)),
        ("RANGE 1 MINUTE INTERNAL", Lifetime(MINUTE, internal=True)),
        ("RANGE 1 MINUTE SLIDE 10 SECONDS", Lifetime(MINUTE)),
        ("NOW SLIDE 10 SECONDS", Lifetime(1)),
        ("RANGE 1 MINUTE WATTR TS", Lifetime(MINUTE)),
    ],
)
def test_lifetimes(window: str, lifetime: Lifetime) -> None:
    root = bind(f"SELECT a FROM s [{window}]").root
    assert isinstance(root, StreamWindow) and root.lifetime == lifetime and root.attribute.column == "ts"


def test_since() -> None:
    plan = bind("SELECT a FROM s [SINCE '2026-01-01' SLIDE 1 HOUR] WHERE ok")
    assert lines(plan) == [
        "StreamWindow s <unbounded> c0=`a` where (`ts` >= CAST('2026-01-01 00:00:00' AS TIMESTAMP)) AND (`ok`)"
    ]
    assert plan.periodic and plan.step == 60 * MINUTE
    assert "`at` >= 5" in lines(bind("SELECT k FROM n [SINCE 5 SLIDE 10]"))[0]


@pytest.mark.parametrize(
    ("sources", "point", "step"),
    [
        ("s [NOW]", "TIMESTAMP", SECOND),
        ("t [NOW]", "TIMESTAMP", 5 * SECOND),
        ("s [NOW], t [NOW]", "TIMESTAMP", 5 * SECOND),
        ("u [NOW], s [NOW]", "TIMESTAMP", 2 * SECOND),
        ("u [NOW]", "TIMESTAMP_NTZ", 2 * SECOND),
        ("n [NOW]", "BIGINT", 1),
        ("n [NOW], m [RANGE 5]", "BIGINT", 10),
    ],
)
def test_ticks(sources: str, point: str, step: int) -> None:
    plan = bind(f"SELECT 1 AS x FROM {sources}")
    assert (plan.point.name, plan.step, plan.origin, plan.periodic) == (point, step, 0, False)


def test_ticks_that_do_not_fit() -> None:
    error = refused("SELECT 1 AS x FROM t [NOW], u [RANGE 1 MINUTE]")
    assert "TICK of 't' (5 SECONDS) is not a multiple of the TICK of 'u' (2 SECONDS)" in error.message
    assert pointed_at(error) == "[RANGE 1 MINUTE]" and "same SLIDE" in (error.remedy or "")


def test_slide_is_the_step() -> None:
    plan = bind(
        "SELECT a, c FROM s [RANGE 1 HOUR SLIDE 7 SECONDS ORIGIN '1970-01-01 00:00:03'], "
        "u [RANGE 1 MINUTE SLIDE 7 SECONDS ORIGIN '1970-01-01 00:00:03']"
    )
    assert plan.periodic and (plan.step, plan.origin) == (7 * SECOND, 3 * SECOND)


@pytest.mark.parametrize(
    ("select", "says", "place"),
    [
        ("SELECT a FROM s", "'s' is a stream: a query needs a window on it", "s"),
        ("SELECT a FROM s [RANGE 5]", "RANGE on 'ts' (TIMESTAMP) is an interval", "[RANGE 5]"),
        ("SELECT k FROM n [RANGE 5 SECONDS]", "RANGE on 'at' (BIGINT) is a plain number", "[RANGE 5 SECONDS]"),
        ("SELECT a FROM s [ROWS 5 SLIDE 1]", "slides by rows in anything but", "[ROWS 5 SLIDE 1]"),
        ("SELECT a FROM s [ROWS 5 OFFSET 2]", "OFFSET does not go with [ROWS n]", "[ROWS 5 OFFSET 2]"),
        ("SELECT a FROM s [ROWS 5 INTERNAL]", "later tuples push earlier ones out", "s"),
        ("SELECT a FROM s [ROWS 5 WATTR row_num]", "the last n tuples by a window attribute", "[ROWS 5 WATTR row_num]"),
        ("SELECT a FROM s [ROWS 5 PARTITION BY kk]", "stream 's' has no column 'kk'", "[ROWS 5 PARTITION BY kk]"),
        ("SELECT a FROM s [ROWS 5 WATTR a]", "no PUNCTUATE covers 'a'", "[ROWS 5 WATTR a]"),
        ("SELECT a FROM s [RANGE 1 MINUTE SLIDE 1 ROW]", "later version", "[RANGE 1 MINUTE SLIDE 1 ROW]"),
        ("SELECT a FROM s [SINCE '2026-01-01']", "SINCE needs a SLIDE", "[SINCE '2026-01-01']"),
        ("SELECT a FROM s [NOW ORIGIN '2026-01-01']", "ORIGIN goes with SLIDE", "[NOW ORIGIN '2026-01-01']"),
        ("SELECT a FROM s [NOW WATTR name]", "no PUNCTUATE covers 'name'", "[NOW WATTR name]"),
        ("SELECT a FROM s [NOW PARTITION BY k]", "PARTITION BY goes with", "[NOW PARTITION BY k]"),
        ("SELECT a FROM s [NOW RATTR ts]", "RATTR and SATTR", "[NOW RATTR ts]"),
        ("SELECT k FROM late [NOW]", "LATE REVISE", "late"),
        ("SELECT a FROM s [NOW], n [NOW]", "of one unit", "[NOW]"),
        (f"SELECT a FROM s {SLIDE}, t [NOW]", "some windows of this query have a SLIDE", "[NOW]"),
        (f"SELECT a FROM t [RANGE 9 SECONDS], s {SLIDE}", "this one has none", "[RANGE 9 SECONDS]"),
        (
            f"SELECT a FROM s {SLIDE}, t [RANGE 1 MINUTE SLIDE 1 MINUTE]",
            "same SLIDE and",
            "[RANGE 1 MINUTE SLIDE 1 MINUTE]",
        ),
        ("SELECT 1", "reads a stream", "1"),
        ("SELECT 1 CROSS JOIN s [NOW]", "reads a stream", "1 CROSS JOIN s"),
        ("SELECT * FROM answers('q')", "reads a stream, not a function", "answers('q'"),
    ],
)
def test_errors_in_windows(select: str, says: str, place: str) -> None:
    error = refused(select)
    assert says in error.message and pointed_at(error) == place and error.remedy


def test_instead_of_a_slide_by_rows() -> None:
    once = "Leave SLIDE out: [ROWS 4] changes with every tick."
    assert refused("SELECT n.k FROM n [ROWS 4 SLIDE 5], n [NOW] AS m").remedy == once
    by_time = f"{once} Or let it slide by time: [ROWS 4 SLIDE 1 MINUTE]."
    assert refused("SELECT s.a FROM s [ROWS 4 SLIDE 5], t [NOW]").remedy == by_time


# -- windows on sub-queries -----------------------------------------------------------------------------------

INTERNAL_JOIN = "SELECT a FROM s [RANGE 1 MINUTE INTERNAL] JOIN u [RANGE 1 MINUTE INTERNAL] ON s.k = u.k"


def test_window_on_a_monotonic_join() -> None:
    plan = bind(f"SELECT COUNT(*) AS n FROM ({INTERNAL_JOIN}) [RANGE 5 MINUTES] AS x")
    assert lines(plan)[3].strip() == "OutputWindow <300s>"
    assert lines(plan)[-2:] == [
        "            StreamWindow s <60s internal> c0=`k`, c2=`a`",
        "            StreamWindow u <60s internal> c1=`k`",
    ]


@pytest.mark.parametrize("inner", ["UNBOUNDED", "RANGE 1 MINUTE INTERNAL", "UNBOUNDED INTERNAL"])
def test_window_on_a_selection_is_one_on_the_stream(inner: str) -> None:
    assert lines(bind(f"SELECT a FROM (SELECT a FROM s [{inner}] WHERE ok) [RANGE 5 MINUTES OFFSET 9 SECONDS]")) == [
        "StreamWindow s <300s+9s> c0=`a` where `ok`"
    ]


def test_now_on_a_sub_query_is_one_step() -> None:
    assert "OutputWindow <2s>" in lines(bind(f"SELECT a FROM ({INTERNAL_JOIN}) [NOW] AS x"))


@pytest.mark.parametrize("kind", ["ISTREAM", "DSTREAM", "RSTREAM"])
def test_window_on_a_stream_of_changes(kind: str) -> None:
    plan = bind(f"SELECT n FROM (SELECT {kind}(k, COUNT(*) AS n) FROM s [RANGE 1 MINUTE] GROUP BY k) [NOW] AS x")
    assert [line.strip() for line in lines(plan)[1:3]] == ["OutputWindow <1s>", f"ToStream {kind}"]


@pytest.mark.parametrize(
    ("inner", "why"),
    [
        ("SELECT a FROM s [RANGE 1 MINUTE]", "leave the answer when they leave their windows"),
        ("SELECT a FROM s [RANGE 1 MINUTE], u [UNBOUNDED]", "leave the answer when they leave their windows"),
        ("SELECT COUNT(*) AS a FROM s [UNBOUNDED]", "a new value of an aggregate replaces the old one"),
        ("SELECT a FROM s [UNBOUNDED] LIMIT 3", "LIMIT withdraws rows"),
        ("SELECT DISTINCT a FROM s [RANGE 1 MINUTE]", "leave the answer when"),
    ],
)
def test_window_on_what_shrinks(inner: str, why: str) -> None:
    error = refused(f"SELECT * FROM ({inner}) [RANGE 9 SECONDS] AS x")
    assert why in error.message and pointed_at(error) == "[RANGE 9 SECONDS]"
    assert "ISTREAM" in (error.remedy or "")
    assert ("INTERNAL" in (error.remedy or "")) == ("LIMIT" not in inner and "DISTINCT" not in inner)


@pytest.mark.parametrize(
    "inner", ["SELECT ISTREAM(a) FROM s [NOW]", "SELECT COUNT(*) AS a FROM s [RANGE 1 MINUTE INTERNAL]"]
)
def test_stream_in_from_needs_a_window(inner: str) -> None:
    assert "it needs a window" in refused(f"SELECT a FROM ({inner}) AS x").message


@pytest.mark.parametrize(
    ("window", "says"),
    [
        ("NOW WATTR a", "WATTR goes with a stream"),
        ("NOW SLIDE 5 SECONDS", "the windows inside have none"),
        ("ROWS 10 OFFSET 2", "OFFSET does not go with [ROWS n] on the output"),
        ("ROWS 10 PARTITION BY a", "PARTITION BY does not go with [ROWS n] on the output"),
        ("RANGE 5", "is an interval"),
    ],
)
def test_errors_in_windows_on_sub_queries(window: str, says: str) -> None:
    error = refused(f"SELECT a FROM (SELECT a FROM s [UNBOUNDED]) [{window}]")
    assert says in error.message and pointed_at(error) == f"[{window}]"


def test_window_on_a_sub_query_goes_by_its_slide() -> None:
    """The example of Golab's section 3.4: a sum over a minute from sums over six seconds."""
    plan = bind(
        "SELECT SUM(x) AS y FROM (SELECT SUM(a) AS x FROM s [RANGE 6 SECONDS SLIDE 6 SECONDS INTERNAL]) [RANGE 1 MINUTE]"
    )
    assert plan.periodic and plan.step == 6 * SECOND
    assert [line.strip() for line in lines(plan)[3:]] == [
        "OutputWindow <60s>",
        "ToStream RSTREAM",
        "Project c2 x BIGINT=c1",
        "GroupBy [] c1=SUM(c0)",
        "StreamWindow s <6s> c0=`a`",
    ]
    assert (
        "same SLIDE"
        in refused("SELECT a FROM (SELECT a FROM s [UNBOUNDED SLIDE 6 SECONDS]) [NOW SLIDE 9 SECONDS]").message
    )


# -- INTERNAL -----------------------------------------------------------------------------------------------


def test_aggregate_over_internal_windows_reports_every_value() -> None:
    assert lines(bind("SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE INTERNAL], u [NOW INTERNAL]")) == [
        "ToStream ISTREAM",
        "  Project c1 n BIGINT=c0",
        "    GroupBy [] c0=COUNT(*)",
        "      Project",
        "        Join []",
        "          StreamWindow s <60s>",
        "          StreamWindow u <2s>",
    ]


def test_aggregate_over_internal_and_external_windows() -> None:
    error = refused("SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE INTERNAL], u [NOW]", UnsupportedError)
    assert "INTERNAL and other windows" in error.message


@pytest.mark.parametrize(
    "query", ["SELECT DISTINCT a FROM s [NOW INTERNAL]", "SELECT a FROM s [NOW INTERNAL] UNION SELECT a FROM s [NOW]"]
)
def test_distinct_over_internal_windows(query: str) -> None:
    assert "DISTINCT cannot read an INTERNAL window" in refused(query).message


# -- ISTREAM, DSTREAM, RSTREAM ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ISTREAM", "DSTREAM", "RSTREAM"])
def test_relation_to_stream(kind: str) -> None:
    plan = bind(f"SELECT {kind}(s.*, c + 1 AS d) FROM s [RANGE 1 MINUTE] JOIN u [NOW] ON s.k = u.k")
    assert lines(plan)[0] == f"ToStream {kind}" and plan.schema[-1].name == "d"


def test_istream_of_limit_and_distinct() -> None:
    plan = bind("SELECT DISTINCT ISTREAM(name) FROM s [RANGE 1 MINUTE] ORDER BY name LIMIT 3")
    assert [line.split()[0] for line in lines(plan)] == ["ToStream", "TopRows", "Distinct", "StreamWindow"]


@pytest.mark.parametrize(
    ("select", "says"),
    [
        ("SELECT RSTREAM(a) FROM s [UNBOUNDED]", "RSTREAM repeats the whole answer"),
        ("SELECT RSTREAM(COUNT(*)) FROM s [UNBOUNDED]", "RSTREAM repeats the whole answer"),
        ("SELECT DSTREAM(a) FROM s [UNBOUNDED]", "none leave this one"),
        ("SELECT ISTREAM(a), k FROM s [NOW]", "ISTREAM stands around the whole select list"),
        ("SELECT ISTREAM(a) AS x FROM s [NOW]", "ISTREAM stands around the whole select list"),
        ("SELECT ISTREAM() FROM s [NOW]", "ISTREAM stands around the whole select list"),
        ("SELECT a FROM s [NOW] WHERE ISTREAM(a) > 1", "ISTREAM, DSTREAM, RSTREAM or WSTREAM here"),
    ],
)
def test_errors_in_relation_to_stream(select: str, says: str) -> None:
    error = refused(select)
    assert says in error.message and error.place is not None and error.remedy


def test_rstream_over_unbounded_with_slide() -> None:
    assert lines(bind("SELECT RSTREAM(a) FROM s [UNBOUNDED SLIDE 1 MINUTE]"))[0] == "ToStream RSTREAM"


@pytest.mark.parametrize(
    ("select", "grows"),
    [
        ("SELECT a FROM s [UNBOUNDED]", True),
        ("SELECT ISTREAM(a) FROM s [NOW]", True),
        (INTERNAL_JOIN, True),
        ("SELECT DISTINCT a FROM s [UNBOUNDED]", True),
        ("SELECT COUNT(*) AS n FROM s [NOW INTERNAL]", True),
        ("SELECT a FROM s [UNBOUNDED] UNION ALL SELECT a FROM s [NOW]", False),
        ("SELECT COUNT(*) AS n FROM s [UNBOUNDED]", False),
        ("SELECT a FROM s [UNBOUNDED] LIMIT 1", False),
        (f"SELECT a FROM ({INTERNAL_JOIN}) [NOW] AS x", False),
    ],
)
def test_monotonic(select: str, grows: bool) -> None:
    root = bind(select).root
    assert is_monotonic(root) is grows
    if grows:
        refuse_unless_monotonic(root, "x")
    else:
        with pytest.raises(BindError, match="'x' cannot be a stream"):
            refuse_unless_monotonic(root, "x")


@pytest.mark.parametrize(
    ("text", "shortest"),
    [
        ("SELECT x.a FROM s [RANGE 1 SECOND] x JOIN s [RANGE 1 MINUTE] y ON x.a = y.a", SECOND),
        ("SELECT x.a FROM s [RANGE 9 SECONDS] x JOIN s [UNBOUNDED] y ON x.a = y.a", 9 * SECOND),
        ("SELECT x.a FROM s [RANGE 10 SECONDS] x JOIN s [RANGE 1 MINUTE] y ON x.a = y.a", None),
        ("SELECT x.a FROM s [RANGE 1 SECOND INTERNAL] x JOIN s [RANGE 1 MINUTE] y ON x.a = y.a", None),
        (f"SELECT x.a FROM s {SLIDE} x JOIN s {SLIDE} y ON x.a = y.a", None),
        ("SELECT x.a FROM s [NOW] x JOIN s [RANGE 1 MINUTE] y ON x.a = y.a", None),
        ("SELECT x.a FROM s [NOW] x JOIN s [NOW] y ON x.a = y.a", None),
        ("SELECT x.a FROM s [NOW] x JOIN s [RANGE 5 SECONDS] y ON x.a = y.a", 5 * SECOND),
        ("SELECT a FROM s [RANGE 1 SECOND]", None),
        ("SELECT a FROM s [RANGE 500 MILLISECONDS]", SECOND // 2),
    ],
)
def test_windows_that_are_short_for_the_tick(text: str, shortest: int | None) -> None:
    assert too_short(bind(text)) == shortest
