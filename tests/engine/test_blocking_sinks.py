"""A sink or subscriber that blocks suspends the delivery of its query; nothing is lost, and the others go on."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from engine.conftest import STREAM
from engine.helpers import answers, put, state_of, wait_until
from engine.test_delivery import EXPECTED, QUERY, Staging, feed_all, lines
from windrow.dataplane.sinks import checking
from windrow.dataplane.sinks.jsonl import JsonLinesSink
from windrow.errors import SinkError, StateError
from windrow.testing import CollectingSink

pytestmark = pytest.mark.slow

SOON_S = 60.0


@pytest.fixture
def gate() -> Any:
    """Closed by the test, and opened at its end, so that no thread is left behind."""
    opened = threading.Event()
    yield opened
    opened.set()


@pytest.fixture
def impatient(open_state: Any) -> Any:
    wr = open_state(sink_timeout="200 milliseconds")
    wr.sql(STREAM)
    return wr


class Blocking(CollectingSink):
    """Blocks in `write` until the gate opens, then takes the batch."""

    def __init__(self, gate: threading.Event):
        super().__init__()
        self._gate = gate

    def write(self, batch: Any) -> None:
        assert self._gate.wait(SOON_S)
        super().write(batch)


def rows_of(sink: CollectingSink) -> list[Any]:
    return [(r["window_start"], r["window_end"], r["k"], r["total"]) for r in sink.rows("q")]


def state(wr: Any, query: str) -> str:
    return {row["name"]: row["state"] for row in wr.sql("SHOW QUERIES").rows()}[query]


def catch_up(wr: Any) -> None:
    wr._engine.ticks.catch_up(state_of(wr))


def waiting_blocks(wr: Any) -> int:
    return int(wr._engine.catalog.value("SELECT count(*) FROM blocks WHERE owner = 'undelivered'"))


def test_blocked_sink_suspends_its_delivery(impatient: Any, gate: threading.Event) -> None:
    wr, sink, other = impatient, Blocking(gate), CollectingSink()
    q = wr.query("q", QUERY, sink=sink)
    wr.query("other", QUERY, sink=other)
    began_s = time.monotonic()
    feed_all(wr)
    assert time.monotonic() - began_s < SOON_S / 2
    expected = answers(wr, "q")
    assert expected[:4] == EXPECTED and answers(wr, "other") == expected
    assert len(other.rows("other")) == len(expected), "the other query goes on"
    assert sink.rows("q") == []
    assert state(wr, "q").startswith("delivery suspended: ") and "sink_timeout" in state(wr, "q")
    assert state(wr, "other") == "active"
    metrics = q.metrics()
    assert (
        metrics["sink_timeouts"] == 1 and metrics["undelivered"] >= 4 and "sink_timeout" in metrics["last_sink_error"]
    )
    gate.set()
    wait_until(lambda: sink.rows("q") != [])
    wait_until(lambda: catch_up(wr) is None and state(wr, "q") == "active")
    assert rows_of(sink) == expected and sink.repetitions == 0
    assert q.metrics()["undelivered"] == 0 and waiting_blocks(wr) == 0


def test_waiting_answers_survive_a_restart(impatient: Any, open_state: Any, gate: threading.Event) -> None:
    wr, after = impatient, CollectingSink()
    wr.query("q", QUERY, sink=Blocking(gate))
    for i in range(3):
        put(wr, (10 * i + 1, "a", 2**i))
    wr.close()
    again = open_state()
    put(again, (31, "a", 8))
    again.query("q", QUERY, sink=after)
    again.end_input("s")
    catch_up(again)
    expected = answers(again, "q")
    assert expected[:4] == EXPECTED
    delivered = rows_of(after)
    assert delivered[:2] == EXPECTED[:2], "they were taken by nobody before the restart"
    assert [row for row in delivered if row[1] in (10, 20)] == EXPECTED[:2]


def test_blocked_staging_sink_holds_every_answer_once(impatient: Any, gate: threading.Event) -> None:
    class Stuck(Staging):
        blocks = "stage"

        def stage(self, batch: Any, seq: int) -> str:
            if self.blocks == "stage":
                assert gate.wait(SOON_S)
            return super().stage(batch, seq)

        def publish(self, entry: str) -> None:
            if self.blocks == "publish":
                assert gate.wait(SOON_S)
            super().publish(entry)

    for where in ("stage", "publish"):
        gate.clear()
        name, sink = f"q_{where}", Stuck()
        impatient.sql(
            f"CREATE STREAM {name}_s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
        )
        sink.blocks = where
        impatient.query(name, QUERY.replace("FROM s ", f"FROM {name}_s "), sink=sink)
        for i in range(4):
            put(impatient, (10 * i + 1, "a", 2**i), stream=f"{name}_s")
        assert sink.rows == [] and state(impatient, name).startswith("delivery suspended")
        gate.set()

        def caught_up(name: str = name) -> bool:
            impatient._engine.ticks.catch_up(state_of(impatient, f"{name}_s"))
            return state(impatient, name) == "active"

        wait_until(caught_up)
        assert sink.rows == answers(impatient, name) == EXPECTED[:3]


def test_blocked_file_sink(impatient: Any, tmp_path: Path, gate: threading.Event, monkeypatch: Any) -> None:
    """As on a network file system that hangs: in stage, in publish, and while the query is created."""
    stage, publish, target = JsonLinesSink.stage, JsonLinesSink.publish, tmp_path / "out"
    impatient.sql(f"CREATE QUERY q AS {QUERY} INTO jsonl OPTIONS (path '{target}')")
    impatient.sql(f"CREATE QUERY good AS {QUERY} INTO jsonl OPTIONS (path '{tmp_path}/good')")

    def hang(real: Any) -> Any:
        def call(self: Any, *args: Any) -> Any:
            if self._path == target:
                assert gate.wait(SOON_S)
            return real(self, *args)

        return call

    monkeypatch.setattr(JsonLinesSink, "publish", hang(publish))
    put(impatient, (1, "a", 1), (11, "a", 2))
    monkeypatch.setattr(JsonLinesSink, "stage", hang(stage))
    put(impatient, (21, "a", 4))
    assert lines(tmp_path / "good") == EXPECTED[:2] and not target.exists()
    with monkeypatch.context() as patched:
        patched.setattr(checking.JsonLinesSink, "check", lambda self: gate.wait(SOON_S))
        with pytest.raises(SinkError, match="does not respond within"):
            impatient.sql(f"CREATE QUERY r AS {QUERY} INTO jsonl OPTIONS (path '{tmp_path}/r')")
    gate.set()
    wait_until(lambda: catch_up(impatient) is None and state(impatient, "q") == "active")
    feed_all(impatient, first=3)
    assert lines(target) == lines(tmp_path / "good") == answers(impatient, "q")
    assert answers(impatient, "q")[:4] == EXPECTED


def test_blocked_subscriber(impatient: Any, gate: threading.Event) -> None:
    """It gets the waiting answers of all windows, also of those without rows, in order."""
    wr, seen, told = impatient, list[Any](), list[str]()
    q = wr.query("q", "SELECT SUM(x) AS total FROM s [RANGE 5 SLIDE 5]")

    def slow(answer: Any) -> None:
        assert gate.wait(SOON_S)
        with pytest.raises(StateError) as caught:
            wr.sql("DROP QUERY q")
        told.append(str(caught.value))
        seen.append((answer.window_end, answer.table.num_rows, answer.key))

    q.subscribe(slow)
    wr.sql("SET empty_windows = 'skip'")
    for t in (1, 11, 31, 36):
        put(wr, (t, "a", 1))
    assert seen == [] and state(wr, "q").startswith("delivery suspended")
    gate.set()
    wait_until(lambda: catch_up(wr) is None and state(wr, "q") == "active")
    ends = [end for end, _, _ in seen]
    assert ends == sorted(set(ends)) and [key for _, _, key in seen] == [f"q@{end}" for end in ends]
    assert sum(rows for _, rows, _ in seen) == len(answers(wr, "q")) == 3
    assert all("subscriber" in text for text in told)


def test_sink_that_fails_after_it_blocked(impatient: Any, gate: threading.Event) -> None:
    """Its answers go on waiting, and the other queries go on."""

    class Broken(CollectingSink):
        is_broken = True

        def write(self, batch: Any) -> None:
            assert gate.wait(SOON_S)
            if self.is_broken:
                raise OSError("the other side is away")
            super().write(batch)

    sink = Broken()
    impatient.query("q", QUERY, sink=sink)
    impatient.query("good", QUERY)
    put(impatient, (1, "a", 1), (11, "a", 2))
    gate.set()
    wait_until(lambda: catch_up(impatient) is None and "the other side is away" in state(impatient, "q"))
    feed_all(impatient, first=2)
    assert answers(impatient, "good")[:4] == EXPECTED
    sink.is_broken = False
    wait_until(lambda: catch_up(impatient) is None and state(impatient, "q") == "active")
    assert rows_of(sink) == answers(impatient, "q")


def test_query_with_a_blocked_sink_is_dropped(impatient: Any, gate: threading.Event) -> None:
    impatient.query("q", QUERY, sink=Blocking(gate))
    put(impatient, (1, "a", 1), (11, "a", 2))
    put(impatient, (21, "a", 4))
    assert waiting_blocks(impatient) == 2
    impatient.sql("DROP QUERY q")
    assert waiting_blocks(impatient) == 0
    impatient.query("q", QUERY)
    put(impatient, (31, "a", 8))
    assert state(impatient, "q") == "active"


def test_running_streams_deliver_when_the_sink_works_again(impatient: Any, gate: threading.Event) -> None:
    sink = Blocking(gate)
    impatient.query("q", QUERY, sink=sink)
    impatient.feed("s", [(10 * i + 1, "a", 2**i) for i in range(4)])
    impatient.start()
    wait_until(lambda: state(impatient, "q").startswith("delivery suspended"))
    gate.set()
    wait_until(lambda: state(impatient, "q") == "active")
    impatient.stop()
    assert rows_of(sink) == answers(impatient, "q") == EXPECTED[:3]


def test_a_subscriber_may_look_up_windows(impatient: Any) -> None:
    impatient.sql("SET sink_timeout = '1 minute'")
    q = impatient.query("q", QUERY)
    found: list[Any] = []

    def look(answer: Any) -> None:
        if answer.window_end == 30:
            found.append(q.lookup(20, 20).rows()[0]["total"])

    q.subscribe(look)
    put(impatient, (1, "a", 1), (11, "a", 2), (21, "a", 4))
    put(impatient, (31, "a", 8))
    assert q.metrics()["callback_errors"] == 0, q.metrics()["last_callback_error"]
    assert found == [3]
