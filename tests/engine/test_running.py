"""Running streams: start, stop, restart with back-off, `run_available`, and many threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from engine.conftest import STREAM
from engine.helpers import answers, state_of, values, wait_until
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.ingest import job as ingest
from windrow.engine.intake.deposits import Depositor
from windrow.engine.run.runner import StreamRunner
from windrow.engine.ticks.delivery import Delivery
from windrow.errors import BindError, CatalogError, ExecutionError, SourceError, StateError, WindrowError

pytestmark = pytest.mark.slow

QUERY = "CREATE QUERY q AS SELECT COUNT(*) AS n, SUM(x) AS total FROM s [RANGE 10 SLIDE 10]"


def shown(wr: Any, query: str = "q") -> str:
    return {row["name"]: row["state"] for row in wr.sql("SHOW QUERIES").rows()}[query]


def test_run_available_raises_without_loss(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_failed_stream_does_not_hold_up_others(wr: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"u": 1}\n')
    wr.sql(
        f"CREATE STREAM bad (t BIGINT) FROM files OPTIONS (path '{tmp_path}/in', format 'json')"
        " TIMESTAMP BY t PUNCTUATE ORDERED"
    )
    wr.query("of_bad", "SELECT COUNT(*) AS n FROM bad [RANGE 10 SLIDE 10]")
    wr.sql(STREAM.replace("STREAM s", "STREAM z"))
    for stream in ("s", "z"):
        wr.query(f"of_{stream}", f"SELECT COUNT(*) AS n FROM {stream} [RANGE 10 SLIDE 10]")
        wr.feed(stream, [(1, "a", 1)])
    with pytest.raises(SourceError, match="'bad' has the declared column 't'"):
        wr.run_available(close=True)
    assert answers(wr, "of_s") == answers(wr, "of_z") == [(0, 10, 1)]


def test_streams_that_are_joined_run_together(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are begun before either is waited for; if one fails, the other is read to its end."""
    for name in "abc":
        wr.sql(STREAM.replace("STREAM s", f"STREAM {name}"))
        wr.feed(name, [(1, "a", 1), (2, "a", 2)])
    wr.query("of_b", "SELECT COUNT(*) AS n FROM b [RANGE 10 SLIDE 10]")
    wr.query("joined", "SELECT a.x, c.x AS y FROM a [RANGE 5], c [RANGE 5] WHERE a.x = c.x")
    steps = list[tuple[str, str]]()
    for step in ("begin_available", "await_available"):
        original = getattr(StreamRunner, step)

        def noted(self: Any, argument: Any, step: str = step, original: Any = original) -> Any:
            steps.append((step.split("_")[0], self.stream.name))
            return original(self, argument)

        monkeypatch.setattr(StreamRunner, step, noted)
    wr.run_available()
    joined = [("begin", "a"), ("begin", "c"), ("await", "a"), ("await", "c")]
    assert steps == [("begin", "b"), ("await", "b"), *joined]

    original = StreamRunner.await_available

    def broken(self: Any, run: Any) -> None:
        original(self, run)
        if self.stream.name == "a":
            raise ExecutionError("the executors are gone")

    with monkeypatch.context() as failing:
        failing.setattr(StreamRunner, "await_available", broken)
        wr.feed("c", [(3, "a", 3)])
        with pytest.raises(ExecutionError, match="the executors are gone"):
            wr.run_available()
    assert state_of(wr, "c").greatest("t") == 3


def test_failed_tick_is_retried(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.sql(QUERY)
    wr.feed("s", [(1, "a", 1), (11, "a", 2)])
    with monkeypatch.context() as broken:
        broken.setattr(Delivery, "commit", lambda *a: (_ for _ in ()).throw(StateError("full", remedy="-")))
        with pytest.raises(WindrowError, match="full"):
            wr.run_available()
    wr.run_available()
    assert answers(wr, "q") == [(0, 10, 1, 1)]


def test_restart_with_back_off(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.sql(QUERY)
    run, calls = ingest.run, []

    def flaky(df: Any) -> Any:
        calls.append(df)
        if len(calls) <= 4:  # the micro-batch, the query's two trials and the stream's own
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


def test_failed_tick_is_retried_without_new_tuples(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_stop_during_a_job_suspends_no_query(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark cancels the job, which then fails, as may the first trials of the queries."""
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


def test_transient_failure_suspends_no_query(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_create_and_drop_queries_while_running(wr: Any) -> None:
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


def test_new_query_skips_closed_windows(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ticks are held back until the query is being created."""
    wr.sql(QUERY.replace("RANGE 10", "RANGE 30"))
    wr.deposit("s", [(1, "a", 1)])
    deposit, ticks = Depositor.deposit, wr._engine.ticks
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


def test_read_answers_during_retirement(open_state: Any) -> None:
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


# -- threads that run, stop and close ------------------------------------------------------------------------


def held_job(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Make the first job of a micro-batch wait until the second event is set."""
    at_work, go_on = threading.Event(), threading.Event()
    run = ingest.run

    def slow(df: Any) -> Any:
        at_work.set()
        assert go_on.wait(60)
        return run(df)

    monkeypatch.setattr(ingest, "run", slow)
    return at_work, go_on


def in_threads(*calls: Callable[[], Any]) -> list[BaseException | None]:
    """Run the calls at once; return what each raised."""
    raised: list[BaseException | None] = [None] * len(calls)
    gate = threading.Barrier(len(calls))

    def call(n: int) -> None:
        gate.wait()
        try:
            calls[n]()
        except BaseException as error:
            raised[n] = error

    threads = [threading.Thread(target=call, args=(n,), daemon=True) for n in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    return raised


@pytest.mark.parametrize("end", ["stop", "close"])
@pytest.mark.parametrize("close", [False, True])
def test_interrupted_run_does_not_end_the_input(
    wr: Any, open_state: Any, monkeypatch: pytest.MonkeyPatch, end: str, close: bool
) -> None:
    wr.sql(QUERY)
    wr.feed("s", [(1, "a", 1), (2, "a", 2), (11, "a", 4)])
    at_work, go_on = held_job(monkeypatch)

    def interrupt() -> None:
        assert at_work.wait(60)
        threading.Timer(0.5, go_on.set).start()
        getattr(wr, end)()

    said, quiet = in_threads(lambda: wr.run_available(close=close), interrupt)
    assert isinstance(said, StateError) and "interrupted" in said.message
    assert quiet is None
    monkeypatch.undo()
    again = wr if end == "stop" else open_state()
    again.feed("s", [(12, "a", 8)])
    again.run_available(close=True)
    assert answers(again, "q") == [(0, 10, 2, 3), (10, 20, 2, 12)]


def test_stop_between_streams_does_not_end_the_input(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.sql(QUERY)
    wr.sql("CREATE STREAM r (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED")
    wr.sql(QUERY.replace("QUERY q", "QUERY p").replace("FROM s", "FROM r"))
    for name in "sr":
        wr.feed(name, [(1, "a", 1)])
    drain, calls = wr._engine.ticks.drain, []

    def stopping(stream: Any) -> None:
        drain(stream)
        calls.append(stream.name)
        if len(calls) == 1:
            wr.stop()

    monkeypatch.setattr(wr._engine.ticks, "drain", stopping)
    with pytest.raises(StateError, match="interrupted"):
        wr.run_available(close=True)
    assert (answers(wr, "q"), answers(wr, "p")) == ([], [])
    wr.run_available(close=True)
    assert (answers(wr, "q"), answers(wr, "p")) == ([(0, 10, 1, 1)], [(0, 10, 1, 1)])


def test_start_during_run_available_is_refused(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.sql(QUERY)
    wr.feed("s", [(1, "a", 1), (11, "a", 4)])
    at_work, go_on = held_job(monkeypatch)

    def start() -> None:
        assert at_work.wait(60)
        try:
            wr.start()
        finally:
            go_on.set()

    fine, refused = in_threads(wr.run_available, start)
    assert fine is None
    assert isinstance(refused, StateError) and "run_available() is running" in refused.message
    wr.start()
    try:
        wr.feed("s", [(21, "a", 8)])
        wait_until(lambda: answers(wr, "q") == [(0, 10, 1, 1), (10, 20, 1, 4)])
    finally:
        wr.stop()


def test_run_available_from_two_threads(wr: Any) -> None:
    wr.sql(QUERY)
    wr.feed("s", [(1, "a", 1), (11, "a", 4)])
    assert in_threads(*[wr.run_available] * 3) == [None] * 3
    assert answers(wr, "q") == [(0, 10, 1, 1)]


def test_deposits_from_several_threads(wr: Any) -> None:
    wr.sql("CREATE QUERY n AS SELECT COUNT(*) AS n FROM s [ROWS 1000 SLIDE 1000]")
    assert in_threads(*[lambda: wr.deposit("s", [(5, "a", 1)])] * 8) == [None] * 8
    wr.end_input("s")
    assert wr.metrics()["s"]["admitted"] == 8
    assert values(answers(wr, "n"), 2) == [8]


def test_random_calls_from_many_threads(wr: Any, open_state: Any) -> None:
    def feed() -> None:
        wr.feed("s", [(2, "a", 1)])

    wr.sql(QUERY)
    feed()
    raised = in_threads(wr.start, wr.stop, wr.run_available, wr.start, wr.stop, feed, *[wr.close] * 3)
    assert all(error is None or isinstance(error, StateError) for error in raised), raised
    assert raised[-3:] == [None] * 3
    assert not wr._engine.ticks.is_alive
    assert not any(thread.name == "windrow-supervisor" for thread in threading.enumerate())
    assert not wr.spark.streams.active
    files = list((wr.state_dir / "streams").rglob("*.parquet"))
    for call in (
        wr.start,
        wr.run_available,
        feed,
        wr._engine.running.start,
        lambda: wr._engine.inputs.feed("s", [(1, "a", 1)]),
    ):
        with pytest.raises(StateError, match="closed"):
            call()
    assert list((wr.state_dir / "streams").rglob("*.parquet")) == files
    wr.close()
    again = open_state()
    again.run_available(close=True)
    assert answers(again, "q")


def test_create_and_show_from_many_threads(wr: Any) -> None:
    made = STREAM.replace("STREAM s", "STREAM IF NOT EXISTS same")
    assert in_threads(*[lambda: wr.sql(made)] * 8) == [None] * 8
    raised = in_threads(*[lambda: wr.query("q", "SELECT COUNT(*) AS n FROM s [RANGE 10 SLIDE 10]")] * 4)
    assert [type(error) for error in raised if error is not None] == [CatalogError] * 3
    done = threading.Event()

    def change() -> None:
        try:
            for i in range(12):
                wr.sql(STREAM.replace("STREAM s", f"STREAM s{i}"))
                wr.sql(QUERY.replace("QUERY q", f"QUERY q{i}").replace("FROM s", f"FROM s{i}"))
                wr.sql(f"DROP QUERY q{i}")
                wr.sql(f"DROP STREAM s{i}")
        finally:
            done.set()

    def read() -> None:
        while not done.is_set():
            wr.sql("SHOW STREAMS")
            wr.sql("SHOW QUERIES")
            wr.metrics()

    assert in_threads(change, read, read) == [None] * 3


def test_a_subscriber_cannot_start_or_close(wr: Any) -> None:
    wr.sql(QUERY)
    said: list[str] = []

    def meddle(answer: Any) -> None:
        for call in (wr.start, wr.stop, wr._engine.close, lambda: wr.sql(STREAM.replace("STREAM s", "STREAM r"))):
            with pytest.raises(StateError) as raised:
                call()
            said.append(raised.value.message)

    wr.queries["q"].subscribe(meddle)
    wr.deposit("s", [(1, "a", 1), (11, "a", 4)])
    assert len(said) == 4 and all(text.startswith("a subscriber cannot") for text in said)


# -- errors ------------------------------------------------------------------------------------------------------


def test_full_disk_error(wr: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wr.sql(QUERY)
    wr.feed("s", [(1, "a", 1), (11, "a", 4)])
    with monkeypatch.context() as full:
        full.setattr(BlockStore, "write", lambda *a, **k: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(StateError, match="No space left on device") as raised:
            wr.run_available()
    assert "No space left" in str(raised.value).splitlines()[0] and raised.value.__cause__ is not None
    wr.run_available()
    assert answers(wr, "q") == [(0, 10, 1, 1)]


def test_full_disk_of_spark(wr: Any) -> None:
    wr.sql(QUERY)
    runner = wr._engine.running._runner(state_of(wr))
    spark = RuntimeError(
        "[STREAM_FAILED] Query [id = 1, runId = 2] failed\njava.io.IOException: No space left on device"
    )
    said = runner._error(spark)
    assert isinstance(said, StateError) and said.message == "stream 's' stopped: No space left on device"
    assert isinstance(runner._error(RuntimeError("other")), ExecutionError)


@pytest.mark.parametrize("upto", [10**18 + 1, -(10**18) - 1])
def test_punctuation_beyond_bounds_is_refused(wr: Any, upto: int) -> None:
    with pytest.raises(BindError, match="beyond"):
        wr.punctuate("s", upto)
    wr.sql(QUERY)
    wr.punctuate("s", 10)
    wr.deposit("s", [(11, "a", 1)])
    assert wr.metrics()["s"]["admitted"] == 1


def test_heartbeat_setting_advances_a_silent_stream(open_state: Any) -> None:
    wr = open_state(heartbeat="1 second")
    wr.sql("CREATE STREAM beats (ts TIMESTAMP, x INT) FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED")
    query = wr.query("q", "SELECT COUNT(*) AS n FROM beats [RANGE 1 SECOND SLIDE 1 SECOND]")
    wr.feed("beats", [(datetime(2030, 1, 1, tzinfo=timezone.utc), 1)])
    wr.start()
    wait_until(lambda: wr.metrics()["beats"]["admitted"] == 1)
    assert query.answers().arrow().num_rows == 0
    clock = wr._engine.opened.clock  # goes on each time: the micro-batch may be noted as heard after it is counted
    wait_until(lambda: clock.advance(3) is None and query.answers().arrow().num_rows > 0)
    wr.stop()
    assert [row["n"] for row in query.answers().rows()] == [1]
