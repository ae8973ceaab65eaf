"""One-time queries through the public interface: what a Result says of its freshness, and how a query is stopped."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from windrow.cli import app
from windrow.engine.ask.onetime.driver_read import DriverRead
from windrow.engine.ask.tables_read import TablesRead
from windrow.errors import QueryCancelledError, QueryTimeoutError, ResultLimitError, SettingError, StateError

from .conftest import Open
from .helpers import put, wait_until

STREAM = (
    "CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t TICK 10 PUNCTUATE WITH SLACK 5 RETAIN 1000"
)
COUNT = "SELECT COUNT(*) AS n FROM s [RANGE 20]"


@pytest.fixture
def wr(open_state: Open) -> Any:
    opened = open_state()
    opened.sql(STREAM)
    put(opened, *((t, "ab"[t % 2], t) for t in range(49)))
    return opened


class Gate:
    """Stops every evaluation until it is opened."""

    def __init__(self, patch: pytest.MonkeyPatch, kind: type[DriverRead] | type[TablesRead] = DriverRead):
        self.reached = threading.Event()
        self.opened = threading.Event()
        answer: Any = kind.answer

        def waiting(read: Any, *arguments: Any) -> Any:
            self.reached.set()
            assert self.opened.wait(30)
            return answer(read, *arguments)

        patch.setattr(kind, "answer", waiting)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Gate(monkeypatch)
    yield made
    made.opened.set()


def in_thread(work: Any) -> tuple[threading.Thread, list[Any]]:
    """Run work in a thread; what it returns or raises comes into the list."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, found


def test_a_result_says_how_fresh_it_is(wr: Any) -> None:
    found = wr.sql(COUNT)
    assert (found.rows(), found.window, found.isolation) == ([{"n": 20}], 40, "latest")
    assert (found.rescans, found.aborts) == (0, 0)
    stale = found.stale_by
    assert (stale.total, stale.slack, stale.behind, stale.stream) == (8, 5, 3, "s")


@pytest.mark.parametrize("level", ["latest", "window", "serial"])
def test_isolation_by_setting_and_by_statement(wr: Any, level: str) -> None:
    assert wr.sql(f"{COUNT} ISOLATION '{level}'").isolation == level
    wr.sql(f"SET isolation = '{level}'")
    assert wr.sql(COUNT).isolation == level
    assert wr.sql(f"{COUNT} ISOLATION latest").isolation == "latest"


def test_an_unknown_isolation(wr: Any) -> None:
    with pytest.raises(SettingError, match="'snapshot' is not a value for 'isolation'"):
        wr.sql("SET isolation = 'snapshot'")


def test_an_update_during_the_evaluation(wr: Any, gate: Gate) -> None:
    asking = {
        level: in_thread(lambda level=level: wr.sql(f"{COUNT} ISOLATION '{level}'")) for level in ("latest", "window")
    }
    assert gate.reached.wait(30)
    wait_until(lambda: len(wr.sql("SHOW SNAPSHOTS")) == 2)
    put(wr, (70, "a", 0))
    gate.opened.set()
    for thread, _ in asking.values():
        thread.join(30)
    latest, window = (asking[level][1][0] for level in ("latest", "window"))
    assert (latest.window, latest.isolation, latest.rows()) == (60, "latest", [{"n": 9}])
    assert (window.window, window.isolation, window.rows()) == (40, "window", [{"n": 20}])
    assert window.stale_by.behind == 25


def test_a_serial_query_holds_back_one_time_queries_alone(wr: Any, gate: Gate) -> None:
    wr.sql("SET serial_hold = '10 seconds'")
    wr.sql("CREATE QUERY c AS SELECT COUNT(*) AS n FROM s [RANGE 20]")
    thread, found = in_thread(lambda: wr.sql(f"{COUNT} ISOLATION 'serial'"))
    assert gate.reached.wait(30)
    put(wr, (70, "a", 0))  # neither the deposit nor the standing query waits
    assert wr.queries["c"].view().window == 60
    gate.opened.set()
    thread.join(30)
    assert (found[0].window, found[0].isolation) == (40, "serial")
    assert wr.sql(COUNT).window == 60


def test_a_hold_that_lasts_too_long(wr: Any, gate: Gate) -> None:
    wr.sql("SET serial_hold = '50 milliseconds'")
    thread, found = in_thread(lambda: wr.sql(f"{COUNT} ISOLATION 'serial'"))
    assert gate.reached.wait(30)
    put(wr, (70, "a", 0))
    wait_until(lambda: wr._engine.coordinator._sources.published("s.t") == 60)
    gate.opened.set()
    thread.join(30)
    assert (found[0].window, found[0].isolation, found[0].rows()) == (40, "window", [{"n": 20}])


def test_cancel(wr: Any, gate: Gate) -> None:
    thread, found = in_thread(lambda: wr.sql(f"{COUNT} PRIORITY 7"))
    assert gate.reached.wait(30)
    (running,) = wr.sql("SHOW SNAPSHOTS").rows()
    assert (running["query"], running["priority"], running["state"]) == (f"{COUNT} PRIORITY 7", 7, "reading")
    assert wr.cancel(running["id"] + 1) == 0
    assert wr.cancel(running["id"]) == 1
    thread.join(30)
    assert isinstance(found[0], QueryCancelledError)
    assert len(wr.sql("SHOW SNAPSHOTS")) == 0


def test_cancel_all_of_a_thread(wr: Any, gate: Gate) -> None:
    thread, found = in_thread(lambda: wr.sql(COUNT))
    assert gate.reached.wait(30)
    assert thread.ident is not None and wr.cancel_of(thread.ident + 1) == 0
    assert wr.cancel_of(thread.ident) == 1
    thread.join(30)
    assert isinstance(found[0], QueryCancelledError)


LONG = (
    "SELECT COUNT(*) AS n FROM s [RANGE 40] AS a JOIN s [RANGE 40] AS b ON a.x >= 0 JOIN s [RANGE 40] AS c ON b.x >= 0 "
    "JOIN s [RANGE 40] AS d ON c.x >= 0 JOIN s [RANGE 40] AS e ON d.x >= 0 JOIN s [RANGE 40] AS f ON e.x >= 0"
)
"""Counts four billion rows."""


@pytest.mark.slow
@pytest.mark.parametrize("home", ["driver", "spark"])
@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_a_long_evaluation_ends(wr: Any, spark: Any, home: str, how: str) -> None:
    tracker = spark.sparkContext.statusTracker()
    wr.sql(f"SET ask_home = '{home}'")
    thread, found = in_thread(lambda: wr.sql(f"{LONG} TIMEOUT {2 if how == 'timeout' else 300} SECONDS"))
    wait_until(lambda: bool(wr._engine.coordinator.running))
    (asked,) = wr._engine.coordinator.running
    if how == "cancel":
        if home == "spark":
            wait_until(lambda: bool(tracker.getJobIdsForGroup(asked.jobs._name)))
        else:
            wait_until(lambda: bool(asked.permit._interrupts))
        assert wr.cancel(asked.number) == 1
    thread.join(30)
    assert isinstance(found[0], QueryTimeoutError if how == "timeout" else QueryCancelledError)
    wait_until(lambda: not asked.is_reading, 30)
    wait_until(lambda: not tracker.getActiveJobsIds(), 30)
    assert not asked.permit._interrupts
    wr.sql("SET ask_home = 'auto'")
    assert wr.sql(COUNT).rows() == [{"n": 20}]


def test_timeout_by_setting_and_by_statement(wr: Any, gate: Gate) -> None:
    with pytest.raises(QueryTimeoutError, match=r"longer than 0\.05 s"):
        wr.sql(f"{COUNT} TIMEOUT 50 MILLISECONDS")
    wr.sql("SET timeout = '60 milliseconds'")
    with pytest.raises(QueryTimeoutError, match=r"longer than 0\.06 s"):
        wr.sql(COUNT)
    gate.opened.set()
    assert wr.sql(f"{COUNT} TIMEOUT 30 SECONDS").rows() == [{"n": 20}]


def test_closing_while_a_query_runs(open_state: Open, gate: Gate) -> None:
    other: Any = open_state("other")
    other.sql(STREAM)
    put(other, *((t, "a", t) for t in range(49)))
    thread, found = in_thread(lambda: other.sql(COUNT))
    assert gate.reached.wait(30)
    closing, _ = in_thread(other.close)
    thread.join(30)
    assert isinstance(found[0], QueryCancelledError)
    gate.opened.set()
    closing.join(60)
    with pytest.raises(StateError, match="is closed"):
        other.sql(COUNT)


def test_limits(wr: Any) -> None:
    wr.sql("SET max_result_rows = 5")
    with pytest.raises(ResultLimitError, match="the answer has 20 rows, and max_result_rows is 5"):
        wr.sql("SELECT x FROM s [RANGE 20]")
    wr.sql("SET max_result_rows = 1000")
    wr.sql("SET max_result_bytes = '10 B'")
    with pytest.raises(ResultLimitError, match="max_result_bytes is 10 B"):
        wr.sql("SELECT x FROM s [RANGE 20]")


def test_freshness_can_be_queried(wr: Any) -> None:
    wr.sql("CREATE QUERY c AS SELECT COUNT(*) AS n FROM s [RANGE 20]")
    wr.sql("CREATE QUERY p AS SELECT COUNT(*) AS n FROM s [RANGE 20 SLIDE 10]")
    put(wr, (69, "a", 0))
    put(wr, (99, "a", 0))
    shown = {row["name"]: row for row in wr.sql("SHOW FRESHNESS").rows()}
    assert {name: (row["kind"], row["lag"], row["worst_lag"]) for name, row in shown.items()} == {
        "s": ("stream", 5, 5),
        "c": ("query", 4, 40),  # it begins on what is kept
        "p": ("query", 0, 30),
    }
    found = wr.sql("SELECT name, lag FROM freshness() WHERE kind = 'query' ORDER BY lag DESC")
    assert found.rows() == [{"name": "c", "lag": 4.0}, {"name": "p", "lag": 0.0}]


def test_views_are_isolated_too(wr: Any) -> None:
    wr.sql("CREATE QUERY c AS SELECT k, COUNT(*) AS n FROM s [RANGE 20] GROUP BY k")
    put(wr, (55, "a", 0), (56, "b", 0), (70, "a", 0))
    found = wr.sql("SELECT SUM(n) AS n FROM c")
    assert (found.rows(), found.window, found.isolation) == ([{"n": 2}], 60, "latest")
    stale = found.stale_by
    assert (stale.total, stale.slack, stale.behind) == (10, 5, 5)
    assert wr.sql("SELECT * FROM c ISOLATION 'window'").isolation == "window"


def test_views_of_different_ticks(wr: Any) -> None:
    """The answer is of the least tick, and as far behind as the view that is farthest behind its streams."""
    wr.sql("CREATE STREAM u (t BIGINT) FROM memory TIMESTAMP BY t TICK 10 PUNCTUATE ORDERED")
    wr.sql("CREATE QUERY c AS SELECT COUNT(*) AS n FROM s [RANGE 20]")
    wr.sql("CREATE QUERY d AS SELECT COUNT(*) AS n FROM u [RANGE 20]")
    wr.deposit("u", [(t,) for t in (200, 210)])
    put(wr, (55, "a", 0), (56, "b", 0), (70, "a", 0))
    for text in ("SELECT d.n FROM d, c", "SELECT c.n FROM c CROSS JOIN d", "SELECT d.n + 1 FROM d, c"):
        found = wr.sql(text)
        stale = found.stale_by
        assert (found.window, stale.stream, stale.total, stale.behind) == (60, "s", 10, 5)


def test_what_reads_no_continuous_view_says_what_is_true_of_it(wr: Any) -> None:
    wr.sql("CREATE QUERY p AS SELECT COUNT(*) AS n FROM s [RANGE 20 SLIDE 20]")
    wr.sql("CREATE TABLE names (k STRING PRIMARY KEY, name STRING)")
    put(wr, (55, "a", 0), (65, "b", 0), (105, "a", 0))  # the frontier is 100, and [80, 100) has no tuple
    for text in ("SELECT * FROM p", "SELECT n FROM p WHERE n > 0", "SELECT p.n FROM p LEFT JOIN names ON k = 'a'"):
        found = wr.sql(text)
        stale = found.stale_by
        assert (found.window, found.isolation) == (80, "window"), text
        assert (stale.stream, stale.total, stale.slack, stale.behind) == ("s", 25, 5, 20)
    for text in ("SELECT * FROM names", "SELECT n FROM answers('p')", "SELECT * FROM dead_letters('s')"):
        found = wr.sql(text)
        assert (found.window, found.isolation, found.stale_by) == (None, "window", None), text
        assert (found.rescans, found.aborts) == (0, 0)


def test_explain_says_where_a_view_is_evaluated_and_why(wr: Any) -> None:
    wr.sql("CREATE QUERY c AS SELECT k, COUNT(*) AS n FROM s [RANGE 20] GROUP BY k")
    put(wr, (55, "a", 0), (56, "b", 0), (70, "a", 0))
    for text, size, where, why in (
        ("SELECT * FROM c", "64 MB", "view", "as it is"),
        ("SELECT n FROM c", "64 MB", "driver", "at most 67,108,864 (driver_ask_bytes)"),
        ("SELECT n FROM c", "1 B", "spark", "more than 1 (driver_ask_bytes)"),
        ("SELECT n + 1 FROM c", "64 MB", "spark", "has no alias"),
    ):
        wr.sql(f"SET driver_ask_bytes = '{size}'")
        plan = wr.sql(f"EXPLAIN {text}").plan
        assert why in plan and {"view": "as it is", "driver": "in the driver", "spark": "by Spark SQL"}[where] in plan
        assert wr.sql(text).answered_from == where


@pytest.mark.parametrize("level", ["latest", "window", "serial"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM c",
        "SELECT SUM(n) AS n FROM c",
        "SELECT a.n + b.n AS n FROM c AS a CROSS JOIN c AS b",
        "SELECT a.n, ROW_NUMBER() OVER (ORDER BY a.n) AS i FROM c AS a",
    ],
)
def test_a_tick_of_a_view_before_the_evaluation(
    wr: Any, monkeypatch: pytest.MonkeyPatch, text: str, level: str
) -> None:
    wr.sql("CREATE QUERY c AS SELECT COUNT(*) AS n FROM s [RANGE 20]")
    put(wr, (55, "a", 0))
    before = wr.sql(text)
    gate = Gate(monkeypatch, TablesRead)
    thread, found = in_thread(lambda: wr.sql(f"{text} ISOLATION '{level}'"))
    assert gate.reached.wait(30)
    put(wr, (70, "a", 0), (71, "a", 0))
    wait_until(lambda: wr.queries["c"].view().window == 60)
    gate.opened.set()
    thread.join(60)
    expected = wr.sql(text) if level == "latest" else before
    assert expected.window == (60 if level == "latest" else 50)
    assert (found[0].rows(), found[0].window, found[0].isolation) == (expected.rows(), expected.window, level)


def test_a_recorded_history_is_checked(wr: Any, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with wr.record_history(path):
        for t in (60, 80, 100):
            wr.sql(COUNT)
            put(wr, (t, "a", 0))
        wr.sql("SELECT COUNT(*) AS n FROM s [RANGE 20] AS a JOIN s [RANGE 30] AS b ON a.x = b.x")
    checked = CliRunner().invoke(app, ["check-history", str(path)])
    assert checked.exit_code == 0
    assert "4 queries" in checked.output and "latest-window-serializable (LWS)  yes" in checked.output


def test_explain_says_what_an_update_does(wr: Any) -> None:
    def explained(text: str) -> str:
        return "\n".join(wr.sql(f"EXPLAIN {text}")["plan"])

    assert "Isolation latest: runs of panes are read, the youngest first" in explained(COUNT)
    assert "Isolation window: it keeps to this version" in explained(f"{COUNT} ISOLATION 'window'")
    assert "Isolation serial: other one-time queries see no update" in explained(f"{COUNT} ISOLATION 'serial'")
    join = "SELECT COUNT(*) AS n FROM s [RANGE 20] AS a JOIN s [RANGE 30] AS b ON a.x = b.x"
    assert "Isolation latest: it begins again when an update comes; after 3 times" in explained(join)
