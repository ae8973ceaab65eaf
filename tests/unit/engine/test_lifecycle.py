"""The phases of an open state directory: their order, and which call waits for which."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from windrow.engine.run.lifecycle import Lifecycle, Phase
from windrow.errors import StateError

SOON_S = 10.0


@pytest.fixture
def life() -> Lifecycle:
    return Lifecycle()


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def stop(life: Lifecycle) -> None:
    with life.lock:
        life.interrupt()
        life.stopped()


def test_a_run_begins_and_ends_opened(life: Lifecycle) -> None:
    assert life.phase is Phase.OPENED
    with life.running_available() as refuse_interrupted:
        assert life.phase is Phase.AVAILABLE
        refuse_interrupted()
        with pytest.raises(StateError, match=r"run_available\(\) is running"):
            life.may_start()
    assert life.phase is Phase.OPENED and life.may_start()


def test_a_run_that_fails_leaves_it_opened(life: Lifecycle) -> None:
    with pytest.raises(KeyError), life.running_available():
        raise KeyError
    assert life.phase is Phase.OPENED


def test_start_and_run_while_started(life: Lifecycle) -> None:
    life.started()
    assert not life.may_start()
    with pytest.raises(StateError, match="the streams are running"), life.running_available():
        pass
    stop(life)
    assert life.phase is Phase.OPENED


def test_stop_interrupts_a_run(life: Lifecycle) -> None:
    with life.running_available() as refuse_interrupted:
        stopping = in_thread(lambda: stop(life))
        stopping.join(0.1)
        assert stopping.is_alive()
        with pytest.raises(StateError, match="interrupted"):
            refuse_interrupted()
    stopping.join(SOON_S)
    assert not stopping.is_alive()
    with life.running_available() as refuse_interrupted:
        refuse_interrupted()


def test_stop_interrupts_waiting_runs(life: Lifecycle) -> None:
    said: list[StateError] = []

    def run() -> None:
        try:
            with life.running_available():
                pass
        except StateError as error:
            said.append(error)

    with life.running_available():
        waiting = in_thread(run)
        waiting.join(0.1)
        assert waiting.is_alive()
        with life.lock:
            life.interrupt()
    waiting.join(SOON_S)
    assert [error.message.split()[2] for error in said] == ["interrupted"]


def test_stop_in_a_signal_handler(life: Lifecycle) -> None:
    with life.running_available() as refuse_interrupted:
        stop(life)
        with pytest.raises(StateError, match="interrupted"):
            refuse_interrupted()


def test_close_from_two_threads(life: Lifecycle) -> None:
    assert life.begin_closing()
    assert not life.begin_closing(), "closing within closing returns"
    others: list[bool] = []
    waiting = in_thread(lambda: others.append(life.begin_closing()))
    waiting.join(0.1)
    assert waiting.is_alive() and life.phase is Phase.CLOSING
    for refused in (life.refuse_closed, life.may_start, lambda: life.running_available().__enter__()):
        with pytest.raises(StateError, match="closed"):
            refused()
    life.closed()
    waiting.join(SOON_S)
    assert others == [False] and life.phase is Phase.CLOSED
    assert not life.begin_closing()
    with pytest.raises(StateError, match="closed"):
        life.refuse_closed()


def test_close_while_started(life: Lifecycle) -> None:
    life.started()
    assert life.begin_closing()
    stop(life)
    assert life.phase is Phase.CLOSING
