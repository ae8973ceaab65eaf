"""Couriers: calls run in order, one that blocks keeps its thread, and the lock is lent to them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from windrow.engine.lending import LendableLock
from windrow.engine.ticks.couriers import caller, run_errands

SOON_S = 10.0


def outcome(errand: Any) -> Any:
    return errand.error or (errand.result if errand.has_ended else "runs")


def test_results_errors_and_callers() -> None:
    def bad() -> None:
        raise OSError("away")

    first, second, third = run_errands([lambda: 1, bad, caller], SOON_S)
    assert first.result == 1 and isinstance(second.error, OSError)
    assert third.result is threading.current_thread()
    assert caller() is threading.current_thread()
    stopped = run_errands([lambda: 1, bad, lambda: 3], SOON_S, stop_at_error=True)
    assert [errand.has_ended for errand in stopped] == [True, True, False]


def test_a_call_that_blocks_delays_the_others_by_the_timeout_only() -> None:
    gate, ran = threading.Event(), list[int]()

    def call(number: int, blocks: bool = False) -> Callable[[], int]:
        def run() -> int:
            if blocks:
                assert gate.wait(SOON_S)
            ran.append(number)
            return number

        return run

    began_s = time.monotonic()
    errands = run_errands([call(1), call(2, blocks=True), call(3), call(4, blocks=True), call(5)], 0.1)
    assert time.monotonic() - began_s < SOON_S / 2
    assert [outcome(errand) for errand in errands] == [1, "runs", 3, "runs", 5] and ran == [1, 3, 5]
    gate.set()
    deadline_s = time.monotonic() + SOON_S
    while not all(errand.has_ended for errand in errands) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert [errand.result for errand in errands] == [1, 2, 3, 4, 5]


def test_the_lock_is_lent_while_the_holder_waits() -> None:
    lock, entered = LendableLock(), threading.Event()

    def read() -> str:
        with lock, lock:
            return "read"

    def other() -> None:
        with lock:
            entered.set()

    with lock:
        thread = threading.Thread(target=other)
        thread.start()
        assert run_errands([read, read], SOON_S, lock)[1].result == "read"
        assert not entered.is_set(), "only the courier is let in"
    thread.join(SOON_S)
    assert entered.is_set()


def test_a_late_call_waits_for_the_lock_like_any_other() -> None:
    lock, gate, inside = LendableLock(), threading.Event(), threading.Event()

    def late() -> None:
        assert gate.wait(SOON_S)
        with lock:
            inside.set()

    with lock:
        errand = run_errands([late], 0.05, lock)[0]
        gate.set()
        assert not inside.wait(0.1) and not errand.has_ended
    assert inside.wait(SOON_S)
