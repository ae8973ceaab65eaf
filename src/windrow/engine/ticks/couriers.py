"""Couriers: threads that call sinks and subscribers, so that one that blocks does not block the engine.

Calls run one after the other in one thread. A call that takes longer than the timeout keeps its thread, and the others
go on in a new one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from windrow.engine.lending import LendableLock


class Errand:
    """One call. `has_ended` is read after the wait: until then the call runs, or has not begun."""

    __slots__ = ("call", "error", "has_ended", "result")

    def __init__(self, call: Callable[[], Any]):
        self.call = call
        self.has_ended = False
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self.call()
        except BaseException as error:
            self.error = error


class Courier:
    """A thread that runs errands for one caller at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._errands: list[Errand] = []
        self._began_s = 0.0
        self._stop_at_error = False
        self._is_left = False
        self.caller: threading.Thread | None = None
        self._thread = threading.Thread(target=self._run, name="windrow-courier", daemon=True)
        self._thread.start()

    @property
    def ident(self) -> int:
        assert self._thread.ident is not None
        return self._thread.ident

    def _run(self) -> None:
        _COURIERS[threading.get_ident()] = self
        while True:
            with self._changed:
                while not self._errands and not self._is_left:
                    self._changed.wait()
                if self._is_left:
                    break
                errand = self._errands[0]
                self._began_s = time.monotonic()
            errand.run()
            with self._changed:
                errand.has_ended = True
                stop = errand.error is not None and self._stop_at_error
                self._errands = [] if stop else self._errands[1:]
                if not self._errands:  # to wake the caller after each call would cost more than most calls
                    self._changed.notify_all()
            del errand  # an idle courier holds no answers
        del _COURIERS[threading.get_ident()]

    def begin(self, errands: Sequence[Errand], stop_at_error: bool) -> None:
        with self._changed:
            self._errands, self._stop_at_error = list(errands), stop_at_error
            self.caller = threading.current_thread()
            self._began_s = time.monotonic()
            self._changed.notify_all()

    def wait(self, timeout_s: float | None) -> Errand | None:
        """Wait for all errands. Return the first that takes longer than the timeout; the courier is then left to it."""
        with self._changed:
            while self._errands:
                left_s = None if timeout_s is None else self._began_s + timeout_s - time.monotonic()
                if left_s is not None and left_s <= 0:
                    late, self._errands, self._is_left = self._errands[0], [], True
                    return late
                self._changed.wait(left_s)
        return None


_COURIERS: dict[int, Courier] = {}
_IDLE: list[Courier] = []


def caller() -> threading.Thread:
    """The thread on whose behalf this one runs a sink or a subscriber; otherwise this thread."""
    courier = _COURIERS.get(threading.get_ident())
    return threading.current_thread() if courier is None or courier.caller is None else courier.caller


def run_errands(
    calls: Sequence[Callable[[], Any]],
    timeout_s: float | None,
    lock: LendableLock | None = None,
    stop_at_error: bool = False,
) -> list[Errand]:
    """Run calls in order, each for at most the timeout; one that has not ended by then runs on. The lock, which the
    caller holds, is lent to the calls meanwhile. `stop_at_error`: calls behind one that raises do not begin."""
    errands = [Errand(call) for call in calls]
    left = errands
    while left:
        try:
            courier = _IDLE.pop()
        except IndexError:
            courier = Courier()
        if lock is not None:
            lock.lend(courier.ident)
        courier.begin(left, stop_at_error)
        try:
            late = courier.wait(timeout_s)
        finally:
            if lock is not None:
                lock.take_back()
        if late is None:
            _IDLE.append(courier)
            break
        left = left[left.index(late) + 1 :]
    return errands
