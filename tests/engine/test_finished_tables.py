"""One-time queries over retained answers, the latest answer and dead letters; q.answers(last=…, since=…)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import windrow
from engine.conftest import STREAM
from engine.helpers import put
from windrow.engine.ask.kept_answers import KeptAnswers
from windrow.errors import (
    BindError,
    CatalogError,
    ExecutionError,
    FunctionError,
    ParseError,
    QuerySuspendedError,
    UnsupportedError,
)

pytestmark = pytest.mark.slow

PER_K = "CREATE QUERY per_k AS SELECT k, SUM(x) AS total FROM s [RANGE 10 SLIDE 10] GROUP BY k"
CLICKS = (
    "CREATE STREAM clicks (ts {kind}, page STRING) FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED",
    "CREATE QUERY Pages AS SELECT page, COUNT(*) AS n FROM clicks [RANGE 1 HOUR SLIDE 1 HOUR] GROUP BY page",
)


def rows(wr: Any, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in wr.sql(sql).rows()]


def plan(wr: Any, sql: str) -> str:
    return "\n".join(row["plan"] for row in wr.sql("EXPLAIN " + sql).rows())


def fill(wr: Any) -> Any:
    """Windows that end at 10, 20, 30 and 40: a has 1, 2, 4, 8 and b has 100, 200, none, 300."""
    wr.sql(STREAM)
    wr.sql(PER_K)
    put(wr, (1, "a", 1), (2, "b", 100), (11, "a", 2), (12, "b", 200))
    put(wr, (21, "a", 4), (31, "a", 8), (32, "b", 300), (40, "c", 0))
    return wr


@pytest.fixture(scope="module")
def per_k(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A state that tests only read, filled as by `fill`."""
    with windrow.open(tmp_path_factory.mktemp("per_k"), spark=spark, settings={"preaggregate": "driver"}) as wr:
        yield fill(wr)


def hours(wr: Any, kind: str = "TIMESTAMP") -> Any:
    """Windows that end at 01:00 … 06:00; page home has as many clicks as the hour, about has one at 06:00."""
    for statement in CLICKS:
        wr.sql(statement.format(kind=kind))
    clicks = [(f"2026-03-01 {hour - 1:02}:30:00", "home") for hour in range(1, 7) for _ in range(hour)]
    wr.deposit("clicks", [*clicks, ("2026-03-01 05:45:00", "about"), ("2026-03-01 06:00:00", "home")])
    return wr


def test_answers_and_the_latest_answer(per_k: Any) -> None:
    wr = per_k
    found = wr.sql("SELECT * FROM answers('per_k') ORDER BY window_end, k")
    assert found.arrow().sort_by([("window_end", "ascending"), ("k", "ascending")]).to_pylist() == (
        wr.queries["per_k"].answers().arrow().sort_by([("window_end", "ascending"), ("k", "ascending")]).to_pylist()
    )
    assert found.arrow().schema.equals(wr.queries["per_k"].answers().arrow().schema)
    assert rows(wr, "SELECT k, total, window_start FROM per_k ORDER BY k") == [("a", 8, 30), ("b", 300, 30)]
    assert wr.sql("SELECT * FROM per_k").rows() == wr.queries["per_k"].answer().rows()
    assert rows(wr, "SELECT k, SUM(total) AS t, COUNT(*) AS n FROM answers('PER_K') WHERE total > 1 GROUP BY k") == [
        ("a", 14, 3),
        ("b", 600, 3),
    ]


def test_now_against_before_in_one_statement(per_k: Any) -> None:
    join = (
        "SELECT now.k, now.total, ago.total AS before FROM per_k AS now {} JOIN answers('per_k') AS ago"
        " ON ago.k = now.k AND ago.window_end = now.window_end - 10 ORDER BY now.k"
    )
    assert rows(per_k, join.format("")) == [("a", 8, 4)]
    assert rows(per_k, join.format("LEFT")) == [("a", 8, 4), ("b", 300, None)]
    assert "Read ago: answers of query per_k with window_end = 30; columns window_end, k, total" in plan(
        per_k, join.format("LEFT")
    )
    self_join = (
        "SELECT a.window_end, a.total - b.total AS more FROM answers('per_k') a JOIN answers('per_k') b"
        " ON a.k = b.k AND a.window_end = b.window_end + 10 WHERE a.k = 'a' ORDER BY 1"
    )
    assert rows(per_k, self_join) == [(20, 1), (30, 2), (40, 4)]


def test_an_hour_ago_by_time(wr: Any) -> None:
    hours(wr)
    text = (
        "SELECT now.page, now.n, ago.n AS an_hour_ago FROM Pages now LEFT JOIN answers('pages') ago"
        " ON ago.page = now.page AND ago.window_end = now.window_end - INTERVAL 1 HOUR ORDER BY now.page"
    )
    assert rows(wr, text) == [("about", 1, None), ("home", 6, 5)]
    assert "with window_end = 2026-03-01 05:00:00;" in plan(wr, text)


def test_whole_select_language(open_state: Any) -> None:
    wr = fill(open_state())
    wr.sql("CREATE QUERY all_k AS SELECT SUM(x) AS total FROM s [RANGE 10 SLIDE 10]")
    put(wr, (51, "a", 1), (61, "a", 1))
    cases = {
        "WITH t AS (SELECT k, MAX(total) AS most FROM answers('per_k') GROUP BY k), u AS (SELECT * FROM t)"
        " SELECT k, most FROM u WHERE most > 5 ORDER BY k": [("a", 8), ("b", 300)],
        "SELECT k FROM answers('per_k') WHERE total = (SELECT MAX(total) FROM answers('per_k'))": [("b",)],
        "SELECT DISTINCT k FROM answers('per_k') ORDER BY k DESC LIMIT 2 OFFSET 1": [("b",), ("a",)],
        "SELECT k FROM answers('per_k') WHERE window_end = 10 UNION SELECT 'z' FROM per_k ORDER BY k": [
            ("a",),
            ("b",),
            ("z",),
        ],
        "SELECT window_end, LAG(total) OVER (PARTITION BY k ORDER BY window_end) AS before"
        " FROM answers('per_k') WHERE k = 'a' AND window_end <= 30 ORDER BY 1": [(10, None), (20, 1), (30, 2)],
        "SELECT p.k, a.total FROM answers('per_k') p JOIN answers('all_k') a USING (window_end) ORDER BY 1": [("a", 1)],
        "SELECT s.k, s.n FROM (SELECT k, COUNT(*) AS n FROM answers('per_k') GROUP BY k) AS s WHERE s.n > 3": [
            ("a", 5)
        ],
        "SELECT k FROM per_k p WHERE EXISTS (SELECT 1 FROM answers('per_k') a WHERE a.k = p.k AND a.window_end = 40)": [
            ("a",)
        ],
        "SELECT COUNT(*) AS n FROM answers('per_k')": [(9,)],
        "SELECT x, y FROM answers('per_k') AS a(w, window_end, r, x, y) WHERE y = 4": [("a", 4)],
        "SELECT k, MEDIAN(total) AS m FROM answers('per_k') GROUP BY k HAVING COUNT(*) > 3": [("a", 2.0)],
        "SELECT answers.k FROM answers('per_k') WHERE answers.total = 4": [("a",)],
        "SELECT COUNT(*) AS n FROM dead_letters('s') d JOIN per_k q ON d.batch = q.window_end": [(0,)],
        "SELECT SUM(DISTINCT is_revision::INT) AS n FROM answers('per_k')": [(0,)],
    }
    for text, expected in cases.items():
        assert rows(wr, text) == expected, text


@pytest.mark.parametrize(
    ("where", "ends", "found"),
    [
        ("window_end >= 20", " with window_end >= 20", [20, 20, 30, 40, 40]),
        ("20 < window_end AND (window_end < 40)", " with window_end >= 21 and window_end <= 39", [30]),
        ("window_end BETWEEN 5 + 5 AND 20", " with window_end >= 10 and window_end <= 20", [10, 10, 20, 20]),
        ("window_end = 20 OR k = 'b'", "", [10, 20, 20, 40]),
        ("NOT window_end = 20", "", [10, 10, 30, 40, 40]),
        ("window_end > LENGTH(k) * 20", "", [30, 40, 40]),
        ("window_end = NULL", "", []),
        ("window_end >= 19.5", "", [20, 20, 30, 40, 40]),
    ],
)
def test_only_windows_that_can_pass_are_read(per_k: Any, where: str, ends: str, found: list[int]) -> None:
    text = f"SELECT window_end, k FROM answers('per_k') WHERE {where} ORDER BY 1"
    assert [row[0] for row in rows(per_k, text)] == found
    read = f"  Read answers: answers of query per_k{ends}; columns window_end, k; 7 rows retained"
    assert read in plan(per_k, text).splitlines()


def test_outer_joins_keep_rows_that_conditions_do_not_drop(per_k: Any) -> None:
    """A condition in ON of an outer join does not bound the side whose rows are all kept."""
    on = "SELECT a.window_end AS e, b.k FROM answers('per_k') a {} JOIN per_k b ON a.window_end = 40 AND a.k = b.k"
    assert len(rows(per_k, on.format("LEFT"))) == 7
    assert len(rows(per_k, on.format("FULL"))) == 7
    assert len(rows(per_k, on.format("RIGHT"))) == 2
    assert len(rows(per_k, on.format("INNER"))) == 2


def test_large_retention_is_not_sent_whole(per_k: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    scan = KeptAnswers.scan
    monkeypatch.setattr(KeptAnswers, "scan", lambda *args: read.append(scan(*args)) or read[-1])
    rows(per_k, "SELECT SUM(total) AS t FROM answers('per_k') WHERE window_end = 30")
    assert [(table.num_rows, table.column_names) for table in read] == [(1, ["window_end", "total"])]


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_times(wr: Any, kind: str) -> None:
    hours(wr, kind)
    q = wr.queries["pages"]
    assert wr.sql("SELECT * FROM answers('Pages')").arrow().schema.equals(q.answers().arrow().schema)
    since = "SELECT n FROM answers('pages') WHERE window_end > '2026-03-01 04:00' AND page = 'home' ORDER BY n"
    assert rows(wr, since) == [(5,), (6,)]
    assert "window_end >= 2026-03-01 04:00:00.000001" in plan(wr, since)
    zoned = "SELECT MAX(n) AS n FROM answers('pages') WHERE window_end <= '2026-03-01 04:00:00+02:00'"
    assert rows(wr, zoned) == [(2 if kind == "TIMESTAMP" else 4,)]  # a time without a zone ignores it
    day = "SELECT COUNT(*) AS n FROM answers('pages') WHERE window_end < DATE '2026-03-02'"
    assert rows(wr, day) == [(7,)]
    assert "window_end <= 2026-03-01 23:59:59.999999" in plan(wr, day)


def test_names(wr: Any) -> None:
    """A name with a window is a stream, without one a query; names ignore case, and may be quoted."""
    wr.sql("CREATE QUERY s AS SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]")
    wr.sql("CREATE QUERY answers AS SELECT SUM(x) AS total FROM s [RANGE 10 SLIDE 10]")
    wr.sql("CREATE QUERY `Per key. It's` AS SELECT k, COUNT(*) AS n FROM s [RANGE 10 SLIDE 10] GROUP BY k")
    put(wr, (1, "a", 1), (2, "b", 2), (11, "a", 4))
    assert rows(wr, "SELECT n FROM s") == [(2,)]
    assert rows(wr, "SELECT S.N AS n FROM S") == [(2,)]
    assert rows(wr, "SELECT COUNT(*) AS n FROM s [RANGE 10]") == [(0, 10, False, 2)]
    assert rows(wr, "SELECT total FROM answers") == [(3,)]
    assert rows(wr, "SELECT total FROM answers('answers')") == [(3,)]
    assert rows(wr, "WITH answers AS (SELECT 7 AS x FROM s) SELECT x FROM answers") == [(7,)]
    assert rows(wr, "WITH s AS (SELECT n + 1 AS n FROM s) SELECT n FROM s") == [(3,)]
    assert rows(wr, "SELECT n FROM `per KEY. it's` WHERE k = 'a'") == [(1,)]
    assert rows(wr, "SELECT n FROM answers('per key. it\\'s') WHERE k = 'a'") == [(1,)]


def test_queries_without_answers(wr: Any) -> None:
    wr.sql(PER_K)
    for source in ("per_k", "answers('per_k')"):
        found = wr.sql(f"SELECT * FROM {source}")
        assert len(found) == 0
        assert found.arrow().column_names == ["window_start", "window_end", "is_revision", "k", "total"]
    assert "no window answered yet" in plan(wr, "SELECT * FROM per_k")
    assert len(wr.queries["per_k"].answers(last=3, since=5)) == 0
    wr.sql("DROP QUERY per_k")
    for source in ("per_k", "answers('per_k')"):
        with pytest.raises(CatalogError, match="there is no stream or query 'per_k'"):
            wr.sql(f"SELECT * FROM {source}")


def test_no_retention_leaves_the_latest_window(wr: Any) -> None:
    wr.sql("SET retained_answers = 0")
    wr.sql(PER_K)
    put(wr, (1, "a", 1), (11, "a", 2), (21, "a", 4), (22, "b", 4))
    put(wr, (31, "a", 8))
    assert rows(wr, "SELECT k, total FROM answers('per_k') ORDER BY k") == [("a", 4), ("b", 4)]
    assert rows(wr, "SELECT k, total FROM per_k ORDER BY k") == [("a", 4), ("b", 4)]


def test_latest_window_without_rows(wr: Any) -> None:
    """FROM q is empty if the latest window has no rows, as q.answer() is; answers('q') has the earlier ones."""
    wr.sql("CREATE QUERY big AS SELECT k, SUM(x) AS total FROM s [RANGE 10 SLIDE 10] GROUP BY k HAVING SUM(x) > 5")
    put(wr, (1, "a", 9), (11, "a", 1), (21, "a", 1))
    assert rows(wr, "SELECT total FROM big") == []
    assert rows(wr, "SELECT total FROM answers('big')") == [(9,)]


def test_suspended_query(wr: Any) -> None:
    wr.sql(PER_K)
    put(wr, (1, "a", 1), (11, "a", 2))
    with wr._engine.catalog.transaction() as tx:
        tx.execute("UPDATE queries SET error = 'no such pattern' WHERE name = 'per_k'")
    with pytest.raises(QuerySuspendedError, match="suspended.*no such pattern") as refused:
        wr.sql("SELECT *\nFROM per_k")
    assert refused.value.place is not None and refused.value.place.line == 2
    assert "answers('per_k')" in (refused.value.remedy or "")
    assert rows(wr, "SELECT total FROM answers('per_k')") == [(1,)]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT * FROM answers(per_k)", ParseError, "answers takes the name of a query, as text"),
        ("SELECT * FROM answers('per_k', 5)", ParseError, "answers takes the name of a query, as text"),
        ("SELECT * FROM dead_letters(s)", ParseError, "dead_letters takes the name of a stream, as text"),
        ("SELECT * FROM answers('s')", CatalogError, "'s' is a stream, and answers are of queries"),
        ("SELECT * FROM dead_letters('per_k')", CatalogError, "there is no stream 'per_k'"),
        ("SELECT * FROM per_l", CatalogError, "there is no stream or query 'per_l'"),
        ("SELECT 1 AS one", UnsupportedError, "a one-time query reads"),
        ("SELECT totl FROM per_k", BindError, "there is no column 'totl'"),
        ("SELECT a.totl FROM per_k a", BindError, "there is no column 'totl'"),
        ("SELECT * FROM per_k a JOIN per_k b ON a.k = b.k", BindError, "two columns of the result are called"),
        ("SELECT k FROM per_k GROUP BY total", BindError, "k"),
        ("SELECT user FROM per_k", FunctionError, "the function USER is not allowed"),
        ("SELECT reflect('java.lang.System', 'exit') FROM per_k", FunctionError, "REFLECT is not allowed"),
        ("SELECT a FROM per_k LATERAL VIEW explode(k) t AS a", UnsupportedError, "LATERAL VIEW"),
        ("SELECT * FROM default.per_k", UnsupportedError, "a name with a schema"),
        ("SELECT * FROM range(5)", FunctionError, "FROM takes a stream, a query"),
        ("SELECT TOP_K(k, 2) FROM per_k", UnsupportedError, "TOP_K aggregates windows of a stream"),
        ("SELECT * FROM answers('per_k') [RANGE 10]", UnsupportedError, "a window follows the name of a stream"),
        ("SELECT COUNT(*) FROM s [RANGE 10] JOIN per_k ON true", UnsupportedError, "no tuples of stream 's' are kept"),
        ("SELECT COUNT(*) FROM s JOIN s ON true", BindError, "a question needs a window"),
        ("WITH a AS (SELECT 1 AS x FROM per_k) SELECT x FROM b", CatalogError, "there is no stream or query 'b'"),
        ("SELECT k, (SELECT total FROM answers('per_k')) AS t FROM per_k", ExecutionError, "SCALAR_SUBQUERY"),
        (
            "CREATE QUERY z AS SELECT COUNT(*) FROM answers('per_k')",
            UnsupportedError,
            "a standing query reads a stream",
        ),
        ("CREATE QUERY z AS SELECT a FROM s UNION SELECT a FROM s", BindError, "needs a window"),
    ],
)
def test_refused(per_k: Any, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("(", "\\(")) as refused:
        per_k.sql(text)
    assert refused.value.remedy or "GROUP" in text  # type: ignore[attr-defined]
    if error is not ExecutionError and not text.startswith("CREATE"):
        # EXPLAIN of a join explains the standing query of that text, which lacks a window.
        with pytest.raises((error, BindError)):
            per_k.sql(f"EXPLAIN {text}")


def test_proposed_columns_include_those_not_read(per_k: Any) -> None:
    with pytest.raises(BindError) as refused:
        per_k.sql("SELECT totl FROM answers('per_k')")
    assert "total" in (refused.value.remedy or "")
    assert refused.value.place is not None and refused.value.place.column == 8


REVISED = (
    "CREATE STREAM r (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED LATE REVISE",
    "CREATE QUERY sums AS SELECT k, SUM(x) AS total FROM r [RANGE 10 SLIDE 10] GROUP BY k",
)


def test_corrected_answers(wr: Any) -> None:
    """answers('q') and FROM q show corrected rows, and is_revision marks corrected windows, as q.answers() does."""
    for statement in REVISED:
        wr.sql(statement)
    wr.deposit("r", [(1, "a", 1), (2, "b", 2), (11, "a", 4), (21, "a", 8)])
    wr.deposit("r", [(3, "a", 16), (12, "a", 32)])
    net = [(10, True, "a", 17), (10, True, "b", 2), (20, True, "a", 36)]
    text = "SELECT window_end, is_revision, k, total FROM {} ORDER BY window_end, k"
    assert rows(wr, text.format("answers('sums')")) == net
    assert rows(wr, text.format("sums")) == net[2:]
    assert rows(wr, "SELECT total FROM answers('sums') WHERE window_end = 10 ORDER BY total") == [(2,), (17,)]
    assert [r["total"] for r in wr.queries["sums"].answers(last=1).rows()] == [36]
    assert wr.queries["sums"].answer().rows() == wr.sql("SELECT * FROM sums").rows()


def test_partitioned_windows(wr: Any) -> None:
    wr.sql("CREATE QUERY last2 AS SELECT k, SUM(x) AS total FROM s [ROWS 2 SLIDE 1 PARTITION BY k]")
    put(wr, (1, "a", 1), (2, "b", 2), (3, "a", 4))
    put(wr, (4, "a", 8), (5, "b", 16))
    q = wr.queries["last2"]
    assert sorted(rows(wr, "SELECT k, total FROM last2")) == [("a", 12), ("b", 18)]
    assert len(wr.sql("SELECT * FROM answers('last2')")) == 5
    assert (
        len(wr.sql("SELECT l.k FROM last2 l JOIN answers('last2') a ON a.k = l.k AND a.window_end = l.window_end")) == 2
    )
    assert [r["total"] for r in q.answers(since=4).rows()] == [12]
    with pytest.raises(BindError, match="each partition counts its own rows"):
        q.answers(last=2)


def test_last_and_since(wr: Any) -> None:
    hours(wr)
    q = wr.queries["pages"]

    def ends(**given: Any) -> list[int]:
        return sorted({row["window_end"].hour for row in q.answers(**given).rows()})

    assert ends(last=2) == [5, 6]
    assert ends(last=100) == ends() == [1, 2, 3, 4, 5, 6]
    assert ends(last="2 hours") == ends(last=timedelta(hours=2)) == [5, 6]
    assert ends(last="90 minutes") == [5, 6]
    assert ends(since="2026-03-01 05:00:00") == [5, 6]
    assert ends(since=datetime(2026, 3, 1, 5)) == [5, 6]
    assert ends(since=datetime(2026, 3, 1, 5, 0, 0, 1, tzinfo=timezone.utc)) == [6]
    assert ends(last=3, since="2026-03-01 06:00:00") == [6]
    assert ends(last="3 hours", since="2026-03-01 05:00:00") == [5, 6]
    assert ends(since="2027-01-01") == []
    for given in ({"last": 0}, {"last": -1}, {"last": 1.5}, {"last": True}, {"last": "soon"}, {"last": "0 hours"}):
        with pytest.raises(BindError):
            q.answers(**given)
    for since in (5, "soon", 1.5):
        with pytest.raises(BindError, match="is no point of"):
            q.answers(since=since)


def test_last_and_since_on_integers(per_k: Any) -> None:
    q = per_k.queries["per_k"]
    assert [row["window_end"] for row in q.answers(last=2).rows()] == [30, 40, 40]
    assert [row["window_end"] for row in q.answers(since=30).rows()] == [30, 40, 40]
    for bad in ({"last": "1 hour"}, {"last": timedelta(hours=1)}, {"since": "10"}, {"since": datetime(2026, 1, 1)}):
        with pytest.raises(BindError):
            q.answers(**bad)


def test_last_and_since_on_row_numbers(wr: Any) -> None:
    wr.sql("CREATE QUERY pairs AS SELECT SUM(x) AS total FROM s [ROWS 2 SLIDE 2]")
    put(wr, (1, "a", 1), (2, "a", 2), (3, "a", 4), (4, "a", 8), (5, "a", 16))
    q = wr.queries["pairs"]
    assert [row["total"] for row in q.answers(last=1).rows()] == [12]
    assert [row["total"] for row in q.answers(since=q.answers().rows()[1]["window_end"]).rows()] == [12]
    assert rows(wr, "SELECT total FROM pairs") == [(12,)]


def test_after_a_restart(open_state: Any) -> None:
    first = fill(open_state())
    before = rows(first, "SELECT * FROM answers('per_k') ORDER BY window_end, k")
    first.close()
    again = open_state()
    assert rows(again, "SELECT * FROM answers('per_k') ORDER BY window_end, k") == before
    assert rows(again, "SELECT COUNT(*) AS n FROM per_k") == [(2,)]


def test_threads(per_k: Any) -> None:
    """Statements of several threads do not see each other's tables."""
    failures: list[Exception] = []

    def ask(end: int, expected: int) -> None:
        try:
            for _ in range(5):
                text = f"SELECT COUNT(*) AS n FROM answers('per_k') WHERE window_end = {end}"
                assert rows(per_k, text) == [(expected,)]
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=one) for one in ((10, 2), (30, 1), (99, 0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    views = [view.viewName for view in per_k.spark.sql("SHOW VIEWS").collect()]  # listTables() also looks into each
    assert not [name for name in views if name.startswith("windrow_finished")]
