"""CREATE STREAM … AS SELECT: the output of a query as a stream that other queries can window."""

from __future__ import annotations

import pytest

import windrow
from engine.conftest import Open
from engine.helpers import answers, wait_until
from engine.plan_streams import A, B, rows
from windrow.errors import BindError, CatalogError, SourceError, UnsupportedError

BIG = "CREATE STREAM big AS SELECT k, x * 2 AS x2 FROM a [UNBOUNDED] WHERE x > 1"
PERIODIC = "CREATE QUERY p AS SELECT k, COUNT(*) AS n, SUM(x2) AS total FROM big [RANGE 10 SLIDE 5] GROUP BY k"
JOINED = "CREATE QUERY j AS SELECT big.k, x2, y FROM big [RANGE 10] JOIN b [RANGE 5] ON big.k = b.k"


@pytest.fixture
def ab(open_state: Open) -> windrow.Windrow:
    opened = open_state()
    opened.sql(f"{A}; {B}")
    return opened


def feed(wr: windrow.Windrow) -> None:
    wr.feed("a", [(1, "u", 1), (3, "v", 2), (6, "u", 3), (8, "u", 5)])
    wr.feed("b", [(2, "u", 10), (4, "v", 20), (7, "u", 30)])


def test_periodic_and_continuous_queries_window_it(ab: windrow.Windrow) -> None:
    ab.sql(f"{BIG}; {PERIODIC}; {JOINED}")
    feed(ab)
    ab.run_available()
    assert rows(ab.queries["j"].changes()) == [("+", 4, 9, "v", 4, 20), ("+", 6, 7, "u", 6, 10)]
    ab.run_available(close=True)
    assert sorted(answers(ab, "p"), key=lambda row: row[1:3]) == [
        (-5, 5, "v", 1, 4),
        (0, 10, "u", 2, 16),
        (0, 10, "v", 1, 4),
        (5, 15, "u", 2, 16),
    ]
    assert rows(ab.queries["j"].changes()) == [
        ("+", 4, 9, "v", 4, 20),
        ("+", 6, 7, "u", 6, 10),
        ("+", 7, 12, "u", 6, 30),
        ("+", 8, 12, "u", 10, 30),
    ]


def test_same_as_the_query_over_the_stream_itself(ab: windrow.Windrow) -> None:
    ab.sql(BIG)
    ab.query("direct", "SELECT k, COUNT(*) AS n FROM a [RANGE 4] WHERE x > 1 GROUP BY k")
    ab.query("derived", "SELECT k, COUNT(*) AS n FROM big [RANGE 4] GROUP BY k")
    for t in range(1, 40):
        ab.deposit("a", [(t, "uvw"[t * t % 3], t % 5)])
    found, expected = ab.queries["derived"].changes(), ab.queries["direct"].changes()
    assert rows(found) == rows(expected) and len(found) > 20


def test_derived_from_derived_with_istream(ab: windrow.Windrow) -> None:
    ab.sql("CREATE STREAM n AS SELECT ISTREAM(k, COUNT(*) AS n) FROM a [RANGE 10] GROUP BY k")
    ab.sql("CREATE STREAM m AS SELECT k, n FROM n [UNBOUNDED] WHERE n > 1")
    q = ab.query("q", "SELECT k, MAX(n) AS most FROM m [UNBOUNDED] GROUP BY k")
    ab.feed("a", [(1, "u", 0), (2, "u", 0), (3, "v", 0), (4, "u", 0), (30, "u", 0)])
    ab.run_available(close=True)
    assert rows(q.view()) == [("u", 3)]
    assert rows(ab.sql("SHOW STREAMS"))[3][4] is not None


def test_what_restore_reports_has_its_own_time(ab: windrow.Windrow) -> None:
    ab.sql("CREATE STREAM c (n BIGINT, k STRING) FROM memory TIMESTAMP BY n TICK 10 PUNCTUATE ORDERED")
    ab.sql("CREATE STREAM brief AS SELECT ISTREAM RESTORE(k) FROM c [RANGE 3]")
    q = ab.query("q", "SELECT k FROM brief [RANGE 12]")
    ab.feed("c", [(1, "u"), (12, "v"), (25, "w")])
    ab.run_available(close=True)
    assert rows(q.changes()) == [("+", 1, 13, "u"), ("+", 12, 24, "v"), ("+", 25, 37, "w")]


def test_output_that_is_no_stream_is_refused_with_the_reason(ab: windrow.Windrow) -> None:
    for select, why in (
        ("SELECT k FROM a [RANGE 5]", "leave their windows"),
        ("SELECT k, COUNT(*) AS n FROM a [UNBOUNDED] GROUP BY k", "replaces the old one"),
    ):
        with pytest.raises(UnsupportedError, match=why) as caught:
            ab.sql(f"CREATE STREAM s AS {select}")
        assert "ISTREAM" in str(caught.value)
    assert rows(ab.sql("SHOW STREAMS"))[2:] == []


def test_window_attribute_and_tick(ab: windrow.Windrow) -> None:
    ab.sql("CREATE STREAM s AS SELECT x AS ts, k FROM a [UNBOUNDED] TICK 4")
    described = [row[:2] for row in rows(ab.sql("DESCRIBE s"))]
    assert described == [("_ts", "BIGINT"), ("ts", "INT"), ("k", "STRING")]
    text = "\n".join(ab.sql("SHOW CREATE STREAM s")["statement"])
    assert text.startswith("CREATE STREAM s AS") and "TICK 4" in text
    q = ab.query("q", "SELECT k FROM s [RANGE 8]")
    ab.feed("a", [(1, "u", 0), (9, "v", 0)])
    ab.run_available()
    assert rows(q.view()) == [("u",)] and q.view().window == 8
    with pytest.raises(BindError, match="gets its tuples every 4"):
        ab.sql("CREATE STREAM d AS SELECT k FROM s [UNBOUNDED] TICK 6")


def test_tuples_and_time_come_from_the_query_alone(ab: windrow.Windrow) -> None:
    ab.sql(BIG)
    for call in (
        lambda: ab.feed("big", [(1, "u", 0)]),
        lambda: ab.deposit("big", [(1, "u", 0)]),
        lambda: ab.punctuate("big", 9),
        lambda: ab.end_input("big"),
    ):
        with pytest.raises(SourceError, match="the output of a query"):
            call()


def test_drop_is_refused_while_something_reads_it(ab: windrow.Windrow) -> None:
    ab.sql(f"{BIG}; {PERIODIC}; {JOINED}; CREATE STREAM more AS SELECT k FROM big [UNBOUNDED]")
    with pytest.raises(CatalogError, match="is read by: p, j, stream more"):
        ab.sql("DROP STREAM big")
    with pytest.raises(CatalogError, match="is read by: stream big"):
        ab.sql("DROP STREAM a")
    ab.sql("DROP QUERY p; DROP QUERY j; DROP STREAM more; DROP STREAM big; DROP STREAM a")
    assert [row[0] for row in rows(ab.sql("SHOW STREAMS"))] == ["b"]
    assert ab._engine.catalog.value("SELECT count(*) FROM plans") == 0


def test_names(ab: windrow.Windrow) -> None:
    ab.sql(BIG)
    assert "exists already" in ab.sql(BIG.replace("STREAM big", "STREAM IF NOT EXISTS big"))["result"][0]
    with pytest.raises(CatalogError, match="exists already"):
        ab.sql(BIG)
    with pytest.raises(CatalogError, match="is a derived stream"):
        ab.query("big", "SELECT k FROM a [RANGE 5]")
    ab.query("q", "SELECT k FROM a [RANGE 5]")
    with pytest.raises(CatalogError, match="there is a query 'q'"):
        ab.sql("CREATE STREAM q AS SELECT k FROM a [UNBOUNDED]")
    assert list(ab.queries) == ["q"] and len(ab.sql("SHOW QUERIES")) == 1


def test_restart(open_state: Open) -> None:
    wr = open_state()
    wr.sql(f"{A}; {B}; {BIG}; {PERIODIC}; {JOINED}")
    wr.deposit("a", [(1, "u", 1), (3, "v", 2), (6, "u", 3)])
    wr.deposit("b", [(2, "u", 10), (4, "v", 20), (7, "u", 30)])
    wr.close()
    wr = open_state()
    assert "AS" in wr.sql("SHOW CREATE STREAM big")["statement"][0]
    wr.deposit("a", [(8, "u", 5), (20, "u", 9)])
    wr.deposit("b", [(20, "z", 0)])
    assert [row[1] for row in rows(wr.queries["j"].changes())] == [4, 6, 7, 8]
    assert rows(wr.sql("SHOW STREAMS"))[2][5] == 3  # admitted: 3, 6 and 8; 20 has not ticked


def test_commit_that_was_not_deposited(open_state: Open) -> None:
    """A crash between the commit of a plan and the deposit of its rows: opening deposits them."""
    wr = open_state()
    wr.sql(f"{A}; {BIG}; {PERIODIC}")
    wr.deposit("a", [(1, "u", 5), (2, "u", 5)])
    wr._engine.plan_ticker.follow = lambda query, ended: None
    wr.deposit("a", [(3, "v", 7), (9, "u", 1)])
    assert wr.metrics()["big"]["admitted"] == 1
    wr.close()
    wr = open_state()
    assert wr.metrics()["big"]["admitted"] == 3
    wr.deposit("a", [(30, "u", 1)])
    assert sorted(answers(wr, "p"))[0] == (-5, 5, "u", 2, 20)
    assert wr.metrics()["big"]["admitted"] == 3


def test_changes_in_the_stream_are_not_kept_twice(ab: windrow.Windrow) -> None:
    ab.sql(BIG)
    for t in range(1, 30):
        ab.deposit("a", [(t, "u", 5)])
    kept = ab._engine.catalog.rows("SELECT kind, count(*) AS n FROM plan_parts GROUP BY kind")
    assert {row["kind"]: row["n"] for row in kept}.get("changes", 0) <= 1
    assert "view" not in {row["kind"] for row in kept}


def test_running_in_the_background(ab: windrow.Windrow) -> None:
    ab.sql(f"{BIG}; {PERIODIC}; {JOINED}; CREATE STREAM more AS SELECT k, x2 FROM big [UNBOUNDED] WHERE x2 > 4")
    q = ab.query("q", "SELECT k, COUNT(*) AS n FROM more [UNBOUNDED] GROUP BY k")
    ab.start()
    for t in range(1, 30, 3):
        ab.feed("a", [(t, "u", t)])
        ab.feed("b", [(t + 1, "u", t)])
    wait_until(lambda: rows(q.view()) == [("u", 8)])
    ab.stop()
    assert rows(ab.sql("SHOW STREAMS"))[2][9] == "stopped" and len(answers(ab, "p")) >= 4


def test_suspended_plan_is_shown_and_can_be_dropped(ab: windrow.Windrow) -> None:
    ab.sql(BIG)
    plan = ab._engine.plans.all()[0]
    ab._engine.plan_ticker.suspend(plan, "it fails")
    ab.deposit("a", [(1, "u", 5), (9, "u", 5)])
    assert rows(ab.sql("SHOW STREAMS"))[2][9] == "suspended: it fails"
    ab.sql("DROP STREAM big")
