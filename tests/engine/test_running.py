"""Streams that run: started, stopped, restarted with back-off; and `run_available`, which raises."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from engine.helpers import answers, state_of, wait_until
from windrow.dataplane import ingest
from windrow.engine.delivery import Delivery
from windrow.engine.deposits import Depositor
from windrow.errors import ExecutionError, SourceError, StateError, WindrowError

pytestmark = pytest.mark.slow

QUERY = "CREATE QUERY q AS SELECT COUNT(*) AS n, SUM(x) AS total FROM s [RANGE 10 SLIDE 10]"


def shown(wr: Any, query: str = "q") -> str:
    return {row["name"]: row["state"] for row in wr.sql("SHOW QUERIES").rows()}[query]


def test_run_available_raises_and_nothing_is_lost(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.sql(QUERY)
    wr.feed("s", [(1, "a", 1)])
    with monkeypatch.context() as broken:
        broken.setattr(ingest, "run", lambda df: (_ for _ in ()).throw(RuntimeError("the executors are gone")))
        with pytest.raises(ExecutionError, match="the executors are gone"):
            wr.run_available()
    assert shown(wr) == "active"
    wr.feed("s", [(2, "a", 2), (11, "a", 4)])
    wr.run_available()
    assert answers(wr, "q") == [(0, 10, 2, 3)]


def test_a_tick_that_fails_is_raised_and_tried_again(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.sql(QUERY)
    wr.feed("s", [(1, "a", 1), (11, "a", 2)])
    with monkeypatch.context() as broken:
        broken.setattr(Delivery, "commit", lambda *a: (_ for _ in ()).throw(StateError("full", remedy="-")))
        with pytest.raises(WindrowError, match="full"):
            wr.run_available()
    wr.run_available()
    assert answers(wr, "q") == [(0, 10, 1, 1)]


def test_a_missing_directory_is_said_at_once(open_state: Any, tmp_path: Path) -> None:
    wr = open_state()
    wr.sql(
        f"CREATE STREAM f (t BIGINT) FROM files OPTIONS (path '{tmp_path}/none', format 'json')"
        " TIMESTAMP BY t PUNCTUATE ORDERED"
    )
    wr.query("q", "SELECT COUNT(*) AS n FROM f [RANGE 10 SLIDE 10]")
    for run in (wr.run_available, wr.start):
        with pytest.raises(SourceError, match="does not exist"):
            run()
    assert not wr._engine.is_running
    (tmp_path / "none").mkdir()
    wr.run_available()


def test_a_stream_that_dies_restarts_with_back_off(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.sql(QUERY)
    run, calls = ingest.run, []

    def flaky(df: Any) -> Any:
        calls.append(df)
        if len(calls) <= 4:  # the micro-batch, the query's two trials and the stream's own: the source fails
            raise RuntimeError("the source is away")
        return run(df)

    monkeypatch.setattr(ingest, "run", flaky)
    wr.feed("s", [(1, "a", 1), (11, "a", 2)])
    wr.start()
    try:
        wait_until(lambda: len(answers(wr, "q")) == 1)
        metrics = wr.metrics()["s"]
        assert metrics["restarts"] == 1
        assert "the source is away" in metrics["last_error"]
        assert shown(wr) == "active"
    finally:
        wr.stop()


def test_ticks_that_fail_are_tried_again_without_new_tuples(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.sql(QUERY)
    commit, calls = Delivery.commit, []

    def flaky(self: Any, *args: Any) -> None:
        calls.append(args)
        if len(calls) == 1:
            raise StateError("there is no space left", remedy="Free some.")
        commit(self, *args)

    monkeypatch.setattr(Delivery, "commit", flaky)
    wr.feed("s", [(1, "a", 1), (11, "a", 2)])
    wr.start()
    try:
        wait_until(lambda: len(answers(wr, "q")) == 1)
    finally:
        wr.stop()
    assert answers(wr, "q") == [(0, 10, 1, 1)]


def test_stopping_in_the_middle_of_a_job_blames_no_query(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark cancels the job, which then fails; so may the first trials to find who is to blame."""
    wr.sql(QUERY)
    wr.sql(QUERY.replace("QUERY q", "QUERY r").replace("RANGE 10", "RANGE 20"))
    at_work, go_on = threading.Event(), threading.Event()
    run, calls = ingest.run, []

    def cancelled(df: Any) -> Any:
        calls.append(df)
        at_work.set()
        assert go_on.wait(60)
        raise RuntimeError("Job 7 cancelled part of cancelled job group")

    monkeypatch.setattr(ingest, "run", cancelled)
    wr.feed("s", [(1, "a", 1), (11, "a", 2)])
    wr.start()
    assert at_work.wait(60)
    stopper = threading.Thread(target=wr.stop)
    stopper.start()
    wait_until(state_of(wr).stopping.is_set)
    go_on.set()
    stopper.join(60)
    assert not stopper.is_alive()
    monkeypatch.setattr(ingest, "run", run)
    assert (shown(wr, "q"), shown(wr, "r")) == ("active", "active")
    assert len(calls) == 1
    wr.run_available()
    assert answers(wr, "q") == [(0, 10, 1, 1)]


def test_a_failure_that_does_not_recur_blames_no_query(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.sql(QUERY)
    run, calls = ingest.run, []

    def flaky(df: Any) -> Any:
        calls.append(df)
        if len(calls) <= 2:
            raise RuntimeError("an executor was lost")
        return run(df)

    monkeypatch.setattr(ingest, "run", flaky)
    with pytest.raises(ExecutionError, match="an executor was lost"):
        wr.deposit("s", [(1, "a", 1)])
    wr.deposit("s", [(1, "a", 1), (11, "a", 1)])
    assert shown(wr) == "active"
    assert answers(wr, "q") == [(0, 10, 1, 1)]


def test_queries_come_and_go_while_the_stream_runs(wr: Any) -> None:
    wr.sql(QUERY)
    wr.start()
    try:
        for i in range(6):
            wr.feed("s", [(10 * i + 1, "a", 1)])
            wr.sql(QUERY.replace("QUERY q", f"QUERY r{i}").replace("RANGE 10", f"RANGE {10 + i}"))
            wait_until(lambda: state_of(wr).last_batch >= i)  # noqa: B023
            if i > 1:
                wr.sql(f"DROP QUERY r{i - 2}")
        wait_until(lambda: len(answers(wr, "q")) == 5)
        with pytest.raises(StateError, match="stop"):
            wr.run_available()
    finally:
        wr.stop()
    assert answers(wr, "q") == [(10 * i, 10 * i + 10, 1, 1) for i in range(5)]
    assert list(wr.queries) == ["q", "r4", "r5"]


def test_a_new_query_answers_no_window_that_had_closed(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However late the ticks are: here they are held back until the query is being created."""
    wr.sql(QUERY.replace("RANGE 10", "RANGE 30"))
    wr.deposit("s", [(1, "a", 1)])
    deposit, ticks = Depositor.deposit, wr._engine._ticks
    submit = ticks.submit
    monkeypatch.setattr(ticks, "submit", lambda stream: None)
    wr.deposit("s", [(11, "a", 1), (25, "a", 1)])
    monkeypatch.setattr(ticks, "submit", submit)
    assert Depositor.deposit is deposit
    wr.sql("CREATE QUERY new AS SELECT COUNT(*) AS n FROM s [RANGE 20 SLIDE 10]")
    wr.end_input("s")
    assert [row[:3] for row in answers(wr, "q")] == [
        (-20, 10, 1),
        (-10, 20, 2),
        (0, 30, 3),
        (10, 40, 2),
        (20, 50, 1),
    ]
    assert answers(wr, "new") == [(10, 30, 2), (20, 40, 1)]


def test_answers_can_be_read_while_they_are_retired(open_state: Any) -> None:
    wr = open_state(retained_answers=1)
    wr.sql("CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    wr.sql(QUERY)
    errors: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                assert len(wr.queries["q"].answers()) <= 2
            except BaseException as error:
                errors.append(error)
                return

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for i in range(25):
        wr.deposit("s", [(10 * i, "a", 1)])
    done.set()
    for reader in readers:
        reader.join()
    assert errors == []
