"""One-time queries over windows: what RETAIN keeps and lets go, how a query is answered, and frames over versions."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

import windrow
from windrow.dataplane.kernels import window_rows
from windrow.dataplane.window_frames import PartialJobs
from windrow.engine.ask.onetime import asking as asking_module
from windrow.engine.ask.onetime import spark_read
from windrow.engine.ask.onetime.driver_read import DriverRead
from windrow.engine.ask.onetime.tasked_read import TaskedRead
from windrow.errors import ReadOnlyError, ResultLimitError, SpanError, UnsupportedError

from .conftest import Open
from .helpers import put

STREAM = "CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t TICK 10 PUNCTUATE ORDERED RETAIN 100"
COUNT = "SELECT COUNT(*) AS n FROM s [RANGE 50]"


@pytest.fixture
def wr(open_state: Open) -> Any:
    opened = open_state()
    opened.sql(STREAM)
    return opened


def rows(first: int, last: int) -> list[tuple[int, str, int]]:
    return [(t, "ab"[t % 2], t) for t in range(first, last)]


def stored(wr: Any) -> list[tuple[int, int]]:
    """The least and the greatest point of each file of the window stores."""
    found = wr._engine.opened.stores
    return sorted((f.lo, f.hi) for store in found.stores for f in found._located(store.id, found._named(store.id)))


# -- RETAIN ------------------------------------------------------------------------------------


def test_old_tuples_go(wr: Any) -> None:
    for first in range(0, 400, 20):
        put(wr, *rows(first, first + 20))
    assert min(hi for _, hi in stored(wr)) >= 399 // 10 * 10 - 100 - 5  # needs_from moves by twentieths
    assert wr.sql("SELECT MIN(x) AS least, COUNT(*) AS n FROM s [RANGE 100]").rows() == [{"least": 290, "n": 100}]


def test_rows_of_partitions_that_have_gone(wr: Any) -> None:
    question = "SELECT k, COUNT(*) AS n FROM s [ROWS 3 PARTITION BY k] GROUP BY k ORDER BY k"
    put(wr, (0, "old", 1), *rows(1, 61))
    assert wr.sql(question).rows() == [{"k": "a", "n": 3}, {"k": "b", "n": 3}, {"k": "old", "n": 1}]
    for first in range(61, 301, 60):
        put(wr, *rows(first, first + 60))
    found = wr.sql(question)
    assert (found.rows(), found.complete_from is None) == ([{"k": "a", "n": 3}, {"k": "b", "n": 3}], False)
    put(wr, (301, "new", 1))
    with pytest.raises(SpanError, match="some partition has fewer than 3"):
        wr.sql(question)


def test_silence_empties_it(wr: Any) -> None:
    put(wr, *rows(0, 50))
    assert stored(wr)
    wr.punctuate("s", 1000)
    assert not stored(wr)
    assert wr.sql(COUNT).rows() == [{"n": 0}]


def test_restart_keeps_it(open_state: Open) -> None:
    wr = open_state()
    wr.sql(STREAM)
    put(wr, *rows(0, 50))
    wr.close()
    wr = open_state()
    assert wr.sql(COUNT).rows() == [{"n": 40}]  # 49 is the frontier, 40 the last tick
    put(wr, *rows(50, 61))
    assert wr.sql(COUNT).rows() == [{"n": 50}]


def test_dropped_stream_leaves_nothing(wr: Any) -> None:
    put(wr, *rows(0, 50))
    wr.sql("DROP STREAM s")
    assert not wr._engine.opened.stores.stores
    assert not list((Path(wr.state_dir) / "stores").rglob("*.arrow"))


def test_stream_without_its_reader_gets_it_when_opened(open_state: Open) -> None:
    """A crash may come between the creation of a stream and that of its reader."""
    wr = open_state()
    wr.sql(STREAM)
    opened = wr._engine.opened
    opened.stores.drop(f"retain/{opened.manager.stream('s').id}")
    wr.close()
    wr = open_state()
    put(wr, *rows(0, 21))
    assert wr.sql(COUNT).rows() == [{"n": 20}]


def test_young_store_says_from_when_it_is_complete(open_state: Open) -> None:
    wr = open_state()
    wr.sql("CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t TICK 10 PUNCTUATE ORDERED")
    wr.sql("CREATE QUERY first AS SELECT k FROM s [RANGE 10]")
    put(wr, *rows(0, 45))
    wr.sql("CREATE QUERY j AS SELECT a.x FROM s [RANGE 60] AS a LEFT JOIN s [RANGE 60] AS b ON a.x = b.x")
    put(wr, *rows(45, 71))
    found = wr.sql("SELECT MIN(x) AS least FROM s [RANGE 60]")
    assert (found.rows(), found.window, found.complete_from) == ([{"least": 45}], 70, 45)
    put(wr, *rows(71, 121))
    assert wr.sql("SELECT MIN(x) AS least FROM s [RANGE 60]").complete_from is None
    with pytest.raises(UnsupportedError, match="are not kept as long as this window needs them"):
        wr.sql("SELECT MIN(s.x) AS least FROM s [RANGE 70] AS s JOIN s [RANGE 70] AS b ON s.x = b.x")


# -- how it is answered ------------------------------------------------------------------------


def test_synopsis_answers_if_it_is_as_fresh(wr: Any) -> None:
    wr.sql("CREATE QUERY q AS SELECT k, COUNT(*) AS n FROM s [RANGE 50 SLIDE 50] GROUP BY k")
    question = "SELECT k, COUNT(*) AS n FROM s [RANGE 50] GROUP BY k"
    put(wr, *rows(0, 101))
    fresh = wr.sql(question)
    assert fresh.columns == ["k", "n"]
    assert (fresh.answered_from, fresh.window) == ("synopsis", 100)
    assert "from the state of a standing query" in wr.sql(f"EXPLAIN {question}").plan
    put(wr, *rows(101, 121))
    later = wr.sql(question)
    assert (later.answered_from, later.window) == ("driver", 120)
    assert sorted(later["n"]) == [25, 25]
    assert wr.sql(f"EXPLAIN {question}").plan.startswith("One-time query, in the driver: it reads about")


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (COUNT, "tasks make partial results"),
        ("SELECT a.x FROM s [RANGE 20] AS a JOIN s [RANGE 30] AS b ON a.x = b.x", "its text is Spark SQL"),
        ("SELECT MEDIAN(a.x) AS m FROM s [RANGE 20] AS a JOIN s [RANGE 30] AS b ON a.x = b.x", "Spark SQL"),
    ],
)
def test_large_questions_go_to_spark(wr: Any, question: str, reason: str) -> None:
    put(wr, *rows(0, 61))
    small = wr.sql(question)
    assert small.answered_from == "driver"
    wr.sql("SET driver_ask_bytes = '1 B'")
    large = wr.sql(question)
    assert large.answered_from == "spark"
    assert sorted(map(str, large.rows())) == sorted(map(str, small.rows()))
    assert reason in wr.sql(f"EXPLAIN {question}").plan


@pytest.mark.parametrize(("read_rows", "partial_rows"), [(1000, 20), (20, 7)])
def test_tasks_make_a_partial_result_of_each_piece(
    wr: Any, monkeypatch: pytest.MonkeyPatch, read_rows: int, partial_rows: int
) -> None:
    """Small files are read together, large ones in parts; the rows of one point, in shares."""
    monkeypatch.setattr(TaskedRead, "read_rows", read_rows)
    monkeypatch.setattr(TaskedRead, "partial_rows", partial_rows)
    monkeypatch.setattr(window_rows, "LEAST_ROWS", 1)
    for lo, hi in ((0, 1), (1, 3), (3, 40), (40, 42), (42, 43)):
        put(wr, *rows(lo, hi))
    put(wr, *([(45, "c", 1)] * 30), (50, "a", 0))
    for question in (
        "SELECT k, COUNT(*) AS n, SUM(x) AS s, MAX(x) AS m FROM s [RANGE 45] WHERE x % 3 <> 1 OR k = 'c' GROUP BY k",
        "SELECT COUNT(*) AS n FROM s [SINCE 2]",
        "SELECT x FROM s [UNBOUNDED] WHERE k = 'c' OR x > 20",
        "SELECT COUNT(*) AS n FROM s [RANGE 4]",
    ):
        wr.sql("SET ask_home = 'driver'")
        expected = wr.sql(question)
        wr.sql("SET ask_home = 'spark'")
        found = wr.sql(question)
        assert (found.answered_from, found.window) == ("spark", expected.window)
        assert sorted(map(str, found.rows())) == sorted(map(str, expected.rows())) != []


def test_askers_of_one_text_have_views_of_their_own(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.sql("SET ask_home = 'spark'")
    put(wr, *rows(0, 61))
    make, made = spark_read.question_frame, list[list[str]]()

    def frame(spark: Any, sql: str, windows: Any, tables: Any) -> Any:
        assert all(name in sql for name in windows)
        made.append(list(windows))
        return make(spark, sql, windows, tables)

    monkeypatch.setattr(spark_read, "question_frame", frame)
    for _ in range(2):
        wr.sql("SELECT a.x FROM s [RANGE 20] AS a JOIN s [RANGE 30] AS b ON a.x = b.x")
    assert [len(names) for names in made] == [2, 2]
    assert set(made[0]).isdisjoint(made[1])


@pytest.mark.slow
def test_tasks_keep_the_rows_that_are_asked_for(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below LIMIT and DISTINCT, a task gives no more rows than the answer has."""
    monkeypatch.setattr(window_rows, "LEAST_ROWS", 1)
    monkeypatch.setattr(TaskedRead, "partial_rows", 30)
    most = list[int]()
    run = PartialJobs.run

    def noted(jobs: PartialJobs, work: Any, numbers: range) -> Any:
        found = list(run(jobs, work, numbers))
        most.append(max(table.num_rows for table in found))
        return found

    monkeypatch.setattr(PartialJobs, "run", noted)
    put(wr, *rows(0, 61))
    wr.sql("SET ask_home = 'spark'")
    wr.sql("SET max_result_rows = 4")
    for question, found in (
        ("SELECT x, k FROM s [UNBOUNDED] ORDER BY x DESC, k LIMIT 2", [(59, "b"), (58, "a")]),
        ("SELECT x, k FROM s [UNBOUNDED] WHERE x > 7 LIMIT 2", [(8, "a"), (9, "b")]),
        ("SELECT DISTINCT k FROM s [UNBOUNDED] ORDER BY k", [("a",), ("b",)]),
        ("SELECT COUNT(*) AS n FROM (SELECT x FROM s [UNBOUNDED] ORDER BY x LIMIT 2) AS f WHERE x > 0", [(1,)]),
    ):
        assert sorted(tuple(row.values()) for row in wr.sql(question).rows()) == sorted(found)
    assert most == [2] * 4
    with pytest.raises(ResultLimitError, match="more than 4 rows, which is max_result_rows"):
        wr.sql("SELECT x FROM s [UNBOUNDED]")


def test_own_aggregates_over_joins_stay_in_the_driver(wr: Any) -> None:
    put(wr, *rows(0, 61))
    wr.sql("SET ask_home = 'spark'")
    found = wr.sql("SELECT QUANTILE(a.x, 0.5) AS m FROM s [RANGE 20] AS a JOIN s [RANGE 30] AS b ON a.x = b.x")
    assert (found.answered_from, found.rows()) == ("driver", [{"m": 49}])


def test_views_and_tables_are_read_in_the_driver(wr: Any) -> None:
    wr.sql("CREATE QUERY v AS SELECT k, SUM(x) AS total FROM s [RANGE 50] GROUP BY k")
    wr.sql("CREATE TABLE names (k STRING PRIMARY KEY, name STRING)")
    wr.sql("INSERT INTO names VALUES ('a', 'anna'), ('b', 'bob')")
    put(wr, *rows(0, 51))
    found = wr.sql("SELECT name, total FROM v JOIN names ON v.k = names.k WHERE total > 600 ORDER BY name")
    assert found.rows() == [{"name": "bob", "total": 625}]
    assert (found.answered_from, found.window) == ("driver", 50)
    assert wr.sql("SELECT COUNT(*) AS n, RANK() OVER (ORDER BY k) AS r FROM v GROUP BY k").answered_from == "spark"


def test_answers_over_a_view_are_remembered_until_it_ticks(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    question = "SELECT k, s FROM v ORDER BY s DESC LIMIT 1"
    evaluate, evaluated = DriverRead.answer, list[str]()

    def answer(self: DriverRead, *given: Any) -> Any:
        evaluated.append(self.text)
        return evaluate(self, *given)

    monkeypatch.setattr(DriverRead, "answer", answer)
    wr.query("v", "SELECT k, SUM(x) AS s FROM s [RANGE 20] GROUP BY k")
    put(wr, *rows(0, 41))
    assert [wr.sql(question).rows() for _ in range(3)] == [[{"k": "b", "s": 300}]] * 3
    assert evaluated == [question]
    put(wr, *rows(41, 51))
    assert [wr.sql(question).rows() for _ in range(3)] == [[{"k": "b", "s": 400}]] * 3
    assert evaluated == [question] * 2


@pytest.mark.parametrize(
    "question, found",
    [
        ("ORDER BY x LIMIT 2", [(None, "b"), (1, "a")]),
        ("ORDER BY x DESC NULLS LAST, k LIMIT 3", [(2, "a"), (2, "b"), (1, "a")]),
        ("ORDER BY x % 2 DESC LIMIT 3", [(1, "a"), (1, "c"), (2, "a")]),
        ("LIMIT 2", [(None, "b"), (1, "a")]),
        ("ORDER BY x LIMIT 0", []),
        ("ORDER BY x LIMIT 100", [(None, "b"), (1, "a"), (1, "c"), (2, "a"), (2, "b")]),
    ],
)
def test_first_rows(wr: Any, question: str, found: list[tuple[int | None, str]]) -> None:
    wr.query("v", "SELECT x, k FROM s [RANGE 100]")
    put(wr, (1, "b", None), (2, "a", 2), (3, "c", 1), (4, "b", 2), (5, "a", 1), (10, "z", 9))
    for source in ("s [RANGE 100]", "v"):
        answer = [tuple(row.values()) for row in wr.sql(f"SELECT x, k FROM {source} {question}").rows()]
        assert (answer if "ORDER" in question else sorted(answer, key=lambda row: row[0] or 0)) == found


def test_plans_are_remembered_until_the_catalog_changes(wr: Any) -> None:
    put(wr, *rows(0, 51))
    asked = wr._engine.reads.asking
    wr.sql(COUNT)
    known = asked._known[COUNT][1]
    wr.sql(COUNT)
    assert asked._known[COUNT][1] is known
    wr.sql("CREATE TABLE other (k STRING PRIMARY KEY)")
    wr.sql(COUNT)
    assert asked._known[COUNT][1] is not known


def test_remembered_plans_are_bounded(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking_module, "MOST_TEXTS", 3)
    put(wr, *rows(0, 51))
    for n in range(6):
        wr.sql(f"SELECT x FROM s [RANGE 10] WHERE x > {n}")
    assert len(wr._engine.reads.asking._known) == 3


def test_stream_of_another_name_is_found_anew(wr: Any) -> None:
    put(wr, *rows(0, 51))
    assert wr.sql("SELECT COUNT(*) AS n FROM s [RANGE 10] WHERE k = 'a'").rows() == [{"n": 5}]
    wr.sql("DROP STREAM s")
    wr.sql(STREAM.replace("k STRING", "k INT"))
    put(wr, *((t, t, t) for t in range(51)))
    assert wr.sql("SELECT COUNT(*) AS n FROM s [RANGE 10] WHERE k = 45").rows() == [{"n": 1}]


def test_columns_of_one_name_and_other_types(open_state: Open) -> None:
    wr = open_state()
    for name, kind, value in (("a", "BIGINT", 2_000_000_000), ("b", "INT", 2_000_000_000), ("c", "STRING", "9")):
        wr.sql(STREAM.replace("STREAM s", f"STREAM {name}").replace("x INT", f"x {kind}"))
        wr.feed(name, [(0, "a", value), (20, "a", value)])
    wr.run_available()
    found = [wr.sql(f"SELECT COUNT(*) AS n FROM {name} [RANGE 20] WHERE x * 2 > 0").rows()[0]["n"] for name in "abc"]
    assert found == [1, 0, 1], "4,000,000,000 is not an INT"


def test_too_many_rows_of_a_synopsis(wr: Any) -> None:
    wr.sql("CREATE QUERY q AS SELECT k, COUNT(*) AS n FROM s [RANGE 50 SLIDE 50] GROUP BY k")
    put(wr, *rows(0, 101))
    wr.sql("SET max_result_rows = 1")
    with pytest.raises(ResultLimitError, match="the answer has 2 rows"):
        wr.sql("SELECT k, COUNT(*) AS n FROM s [RANGE 50] GROUP BY k")


def test_spark_collects_no_more_rows_than_an_answer_may_have(wr: Any) -> None:
    put(wr, *rows(0, 61))
    wr.sql("SET ask_home = 'spark'")
    wr.sql("SET max_result_rows = 5")
    joined = "SELECT a.x FROM s [RANGE 20] AS a JOIN s [RANGE 30] AS b ON a.x = b.x"
    with pytest.raises(ResultLimitError, match="the answer has more than 5 rows"):
        wr.sql(joined)
    assert len(wr.sql(f"{joined} WHERE a.x > 55")) == 4


# -- frames, and other openings ----------------------------------------------------------------


def test_frame_shows_its_version(wr: Any) -> None:
    put(wr, *rows(0, 51))
    pins = wr._engine.opened.blocks.pins
    frame = wr.frame("SELECT k, x FROM s [RANGE 50]")
    assert pins.count
    for first in range(51, 400, 20):
        put(wr, *rows(first, first + 20))
    assert pins.waiting, "files that the frame reads have expired"
    assert sorted(row.x for row in frame.collect()) == list(range(50))
    wr.release(frame)
    wr.release(frame)
    assert pins.count == pins.waiting == 0


def test_frame_of_what_spark_lacks(wr: Any) -> None:
    put(wr, *rows(0, 51))
    assert wr.frame("SELECT QUANTILE(x, 0.5) AS m FROM s [RANGE 50]").collect()[0].m == 24


def test_window_since_a_later_point_is_empty(wr: Any) -> None:
    put(wr, *rows(0, 51))
    assert wr.frame("SELECT QUANTILE(x, 0.5) AS m FROM s [SINCE 500]").collect()[0].m is None
    assert wr.frame("SELECT k, QUANTILE(x, 0.5) AS m FROM s [SINCE 50] GROUP BY k").collect() == []


def test_frame_of_a_frame_that_is_gone(wr: Any) -> None:
    put(wr, *rows(0, 51))
    pins = wr._engine.opened.blocks.pins
    counted = wr.frame("SELECT k FROM s [RANGE 50]").groupBy("k").count()
    gc.collect()
    assert wr._frames.waiting == 1
    for first in range(51, 400, 20):
        put(wr, *rows(first, first + 20))
    assert pins.waiting, "files that the frame reads have expired"
    assert sorted(row["count"] for row in counted.collect()) == [25, 25]
    wr.close()
    assert pins.count == pins.waiting == 0


def test_frame_takes_one_select(wr: Any) -> None:
    with pytest.raises(windrow.WindrowError, match="frame takes one SELECT"):
        wr.frame("SHOW STREAMS")


@pytest.mark.parametrize("clause", ["ISOLATION 'serial'", "PRIORITY 2", "TIMEOUT 5 SECONDS"])
def test_frame_takes_no_terms(wr: Any, clause: str) -> None:
    with pytest.raises(UnsupportedError, match=f"a frame has no {clause.split()[0]}"):
        wr.frame(f"SELECT k FROM s [RANGE 50] {clause}")


def test_read_only_cannot_ask_windows(open_state: Open) -> None:
    wr = open_state()
    wr.sql(STREAM)
    put(wr, *rows(0, 51))
    with (
        windrow.open(str(wr.state_dir), spark=wr.spark, read_only=True) as other,
        pytest.raises(ReadOnlyError, match="needs the memory of the process"),
    ):
        other.sql(COUNT)


def test_nothing_has_come(wr: Any) -> None:
    with pytest.raises(SpanError, match="no instant of stream 's' is complete yet"):
        wr.sql("SELECT x FROM s [RANGE 10]")


def test_results_convert(wr: Any) -> None:
    put(wr, *rows(0, 51))
    found = wr.sql("SELECT k, COUNT(*) AS n FROM s [RANGE 50] GROUP BY k ORDER BY k")
    assert found.to_arrow().to_pylist() == [{"k": "a", "n": 25}, {"k": "b", "n": 25}]
    assert found.to_pandas()["n"].tolist() == [25, 25]


def test_a_query_over_views_that_grows_too_large_is_an_error(wr: Any) -> None:
    """Spark SQL does not evaluate it instead."""
    wr.query("v", "SELECT k, x FROM s [RANGE 100]")
    put(wr, *rows(0, 61))
    question = "SELECT a.x AS x, b.x AS y FROM v AS a JOIN v AS b ON a.k = b.k"
    assert len(wr.sql(question).rows()) == 2 * 30 * 30
    wr.sql("SET max_partial_bytes = '10 KB'")
    with pytest.raises(ResultLimitError, match="an intermediate result of this query takes more than 10 KB"):
        wr.sql(question + " WHERE a.x >= 0")
