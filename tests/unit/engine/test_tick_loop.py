"""The tick loop: ticks run one at a time, errors reach their stream, and close ends it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from windrow.catalog.definitions import StreamDef
from windrow.cql.statements import ColumnDef, CreateStream
from windrow.engine.progress import start_of
from windrow.engine.run import tick_loop
from windrow.engine.run.tick_loop import TickLoop
from windrow.engine.state import StreamState
from windrow.errors import StateError
from windrow.types import SqlType

SOON_S = 10.0


def stream(number: int) -> StreamState:
    statement = CreateStream(f"s{number}", (ColumnDef("t", "BIGINT"),), "memory")
    definition = StreamDef(statement, (("t", SqlType("BIGINT")),), "t", ())
    return StreamState(number, definition, Path("nowhere"), start_of(definition))


class Ticks:
    """A tick function: waits at a gate if there is one, then records or raises."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.errors: dict[int, BaseException] = {}
        self.gate: threading.Event | None = None
        self.began = threading.Semaphore(0)
        self.inside: Callable[[], None] = lambda: None

    def __call__(self, ticked: StreamState) -> None:
        self.began.release()
        if self.gate is not None:
            assert self.gate.wait(SOON_S)
        self.inside()
        error = self.errors.pop(ticked.id, None)
        if error is not None:
            raise error
        self.done.append(ticked.id)

    def wait_begun(self) -> None:
        assert self.began.acquire(timeout=SOON_S)


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


@pytest.fixture
def loop(ticks: Ticks) -> Iterator[TickLoop]:
    made = TickLoop(ticks)
    yield made
    if ticks.gate is not None:
        ticks.gate.set()
    made.close()


@contextmanager
def in_thread(work: Callable[[], None]) -> Iterator[threading.Thread]:
    """A thread that is expected to wait; joined at the end."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield thread
    thread.join(SOON_S)
    assert not thread.is_alive()


def test_drain_waits_for_submitted_ticks(loop: TickLoop, ticks: Ticks) -> None:
    one, two = stream(1), stream(2)
    loop.submit(one)
    loop.submit(two)
    loop.drain(one)
    loop.drain(two)
    assert ticks.done == [1, 2]


def test_drain_without_submission(loop: TickLoop) -> None:
    loop.drain(stream(1))


def test_second_submission_waits(loop: TickLoop, ticks: Ticks) -> None:
    """Backpressure: at most one deposit may be ahead of a running tick."""
    one = stream(1)
    ticks.gate = threading.Event()
    loop.submit(one)
    ticks.wait_begun()
    loop.submit(one)
    with in_thread(lambda: loop.submit(one)) as third:
        third.join(0.1)
        assert third.is_alive()
        ticks.gate.set()
    loop.drain(one)
    assert ticks.done == [1, 1, 1]


def test_other_stream_does_not_wait(loop: TickLoop, ticks: Ticks) -> None:
    one, two = stream(1), stream(2)
    ticks.gate = threading.Event()
    loop.submit(one)
    ticks.wait_begun()
    loop.submit(one)
    loop.submit(two)
    ticks.gate.set()
    loop.drain(two)
    loop.drain(one)
    assert sorted(ticks.done) == [1, 1, 2]


def test_drain_waits_for_the_running_tick(loop: TickLoop, ticks: Ticks) -> None:
    one = stream(1)
    ticks.gate = threading.Event()
    loop.submit(one)
    ticks.wait_begun()
    with in_thread(lambda: loop.drain(one)) as draining:
        draining.join(0.1)
        assert draining.is_alive()
        ticks.gate.set()
    assert ticks.done == [1]


def test_an_error_is_raised_to_its_own_stream_once(loop: TickLoop, ticks: Ticks) -> None:
    one, two = stream(1), stream(2)
    ticks.errors[1] = RuntimeError("no space")
    loop.submit(one)
    loop.submit(two)
    loop.drain(two)
    with pytest.raises(RuntimeError, match="no space"):
        loop.drain(one)
    loop.drain(one)
    assert ticks.done == [2]


def test_error_is_raised_at_the_next_submission(loop: TickLoop, ticks: Ticks) -> None:
    one, two = stream(1), stream(2)
    ticks.errors[1] = RuntimeError("no space")
    loop.submit(one)
    loop.catch_up(two)
    with pytest.raises(RuntimeError, match="no space"):
        loop.submit(one)
    loop.catch_up(one)
    assert ticks.done == [2, 1]


def test_many_are_tried_again_at_once(loop: TickLoop, ticks: Ticks) -> None:
    one, two = stream(1), stream(2)
    ticks.errors[1] = RuntimeError("no space")
    loop.submit(one)
    loop.catch_up(two)
    ((failed, error),) = loop.retry_all([one, two])
    assert failed is one and str(error) == "no space"
    loop.drain(one)
    loop.drain(two)
    assert ticks.done == [2, 1, 2]


def test_failures_in_a_row(loop: TickLoop, ticks: Ticks) -> None:
    one = stream(1)
    assert loop.failures(one) == 0
    for count in (1, 2):
        ticks.errors[1] = RuntimeError("no space")
        with pytest.raises(RuntimeError):
            loop.catch_up(one)
        assert loop.failures(one) == count
    loop.catch_up(one)
    assert loop.failures(one) == 0


def test_retry_returns_the_error(loop: TickLoop, ticks: Ticks) -> None:
    one = stream(1)
    ticks.errors[1] = error = RuntimeError("no space")
    loop.submit(one)
    loop.catch_up(stream(2))
    assert loop.retry(one) is error
    loop.drain(one)
    assert ticks.done == [2, 1]
    assert loop.retry(one) is None


def test_a_tick_may_not_wait_for_itself(loop: TickLoop, ticks: Ticks) -> None:
    """Subscribers run inside ticks; calls that would wait for the tick are refused only there."""
    ticks.inside = lambda: loop.refuse_inside("run the streams")
    with pytest.raises(StateError, match="a subscriber cannot run the streams"):
        loop.catch_up(stream(1))
    loop.refuse_inside("run the streams")


def test_close_finishes_the_running_tick(ticks: Ticks) -> None:
    loop = TickLoop(ticks)
    ticks.gate = threading.Event()
    loop.submit(stream(1))
    ticks.wait_begun()
    with in_thread(loop.close) as closing:
        closing.join(0.1)
        assert closing.is_alive()
        ticks.gate.set()
    assert ticks.done == [1]


def test_close_releases_waiting_threads(ticks: Ticks) -> None:
    loop = TickLoop(ticks)
    one = stream(1)
    ticks.gate = threading.Event()
    loop.submit(one)
    ticks.wait_begun()
    loop.submit(one)
    with in_thread(lambda: loop.drain(one)), in_thread(lambda: loop.submit(one)), in_thread(loop.close):
        ticks.gate.set()
    done = list(ticks.done)
    loop.submit(one)
    loop.drain(one)
    loop.close()
    assert ticks.done == done, "a tick that has not begun is left to the next opening"


def test_other_work_gives_way_to_quick_ticks(ticks: Ticks, loop: TickLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = stream(1), stream(2)
    monkeypatch.setattr(tick_loop, "QUICK_S", SOON_S)
    ticks.inside = lambda: time.sleep(0.05)
    for each in (one, other):
        loop.submit(each)
    loop.give_way([one, other])
    assert ticks.done == [1, 2]


def test_nobody_waits_long_for_ticks(ticks: Ticks, loop: TickLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most as long as a quick tick takes; and not at all after a slow one."""
    one, ticks.gate = stream(1), threading.Event()
    monkeypatch.setattr(tick_loop, "QUICK_S", 0.05)
    loop.submit(one)
    loop.give_way([one])
    assert ticks.done == []
    ticks.gate.set()
    loop.drain(one)
    monkeypatch.setattr(tick_loop, "QUICK_S", 0.01)
    ticks.gate.clear()
    loop.submit(one)
    monkeypatch.setattr(loop._changed, "wait_for", pytest.fail)
    loop.give_way([one])
    ticks.gate.set()
