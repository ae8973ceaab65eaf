"""The engine loop: ticks run one at a time, errors reach the stream that caused them, and it ends when told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from windrow.catalog.definitions import StreamDef
from windrow.cql.statements import ColumnDef, CreateStream
from windrow.engine.progress import start_of
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
    """What a loop calls: waits at a gate where there is one, then records or raises."""

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
    """Work that is expected to wait; joined at the end."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield thread
    thread.join(SOON_S)
    assert not thread.is_alive()


def test_what_was_submitted_is_ticked_before_draining_returns(loop: TickLoop, ticks: Ticks) -> None:
    one, two = stream(1), stream(2)
    loop.submit(one)
    loop.submit(two)
    loop.drain(one)
    loop.drain(two)
    assert ticks.done == [1, 2]


def test_draining_what_was_never_submitted_returns_at_once(loop: TickLoop) -> None:
    loop.drain(stream(1))


def test_one_submission_waits_ahead_and_the_next_is_held_back(loop: TickLoop, ticks: Ticks) -> None:
    """Backpressure: while a tick runs one deposit may be ahead of it, not two."""
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


def test_another_stream_is_not_held_back(loop: TickLoop, ticks: Ticks) -> None:
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


def test_draining_waits_for_the_tick_under_way(loop: TickLoop, ticks: Ticks) -> None:
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


def test_an_error_is_raised_at_the_next_submission_and_the_one_after_ticks(loop: TickLoop, ticks: Ticks) -> None:
    one, two = stream(1), stream(2)
    ticks.errors[1] = RuntimeError("no space")
    loop.submit(one)
    loop.catch_up(two)
    with pytest.raises(RuntimeError, match="no space"):
        loop.submit(one)
    loop.catch_up(one)
    assert ticks.done == [2, 1]


def test_failures_in_a_row_are_counted_until_a_tick_succeeds(loop: TickLoop, ticks: Ticks) -> None:
    one = stream(1)
    assert loop.failures(one) == 0
    for count in (1, 2):
        ticks.errors[1] = RuntimeError("no space")
        with pytest.raises(RuntimeError):
            loop.catch_up(one)
        assert loop.failures(one) == count
    loop.catch_up(one)
    assert loop.failures(one) == 0


def test_retrying_passes_over_the_error_and_gives_it(loop: TickLoop, ticks: Ticks) -> None:
    one = stream(1)
    ticks.errors[1] = error = RuntimeError("no space")
    loop.submit(one)
    loop.catch_up(stream(2))
    assert loop.retry(one) is error
    loop.drain(one)
    assert ticks.done == [2, 1]
    assert loop.retry(one) is None


def test_a_tick_may_not_wait_for_itself(loop: TickLoop, ticks: Ticks) -> None:
    """Subscribers run inside ticks: what would wait for the tick is refused there and nowhere else."""
    ticks.inside = lambda: loop.refuse_inside("run the streams")
    with pytest.raises(StateError, match="a subscriber cannot run the streams"):
        loop.catch_up(stream(1))
    loop.refuse_inside("run the streams")


def test_closing_finishes_the_tick_under_way(ticks: Ticks) -> None:
    loop = TickLoop(ticks)
    ticks.gate = threading.Event()
    loop.submit(stream(1))
    ticks.wait_begun()
    with in_thread(loop.close) as closing:
        closing.join(0.1)
        assert closing.is_alive()
        ticks.gate.set()
    assert ticks.done == [1]


def test_closing_lets_go_of_whoever_waits(ticks: Ticks) -> None:
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
    assert ticks.done == done, "a tick that had not begun is left to the next opening"
