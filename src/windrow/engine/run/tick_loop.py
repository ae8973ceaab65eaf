"""The tick loop: it applies ticks in its own thread, so that answering overlaps the job of the next micro-batch.

An error in a tick is raised at the next `submit` or `drain`, and the tick is then tried again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from windrow.dataplane.jobs import TICKS, stay_in_pool
from windrow.engine.ticks.couriers import caller
from windrow.errors import StateError

QUICK_S = 0.1
"""Ticks that take less go before other work, which waits for them at most so long."""


class Ticking(Protocol):
    """What a loop ticks: a stream, or a continuous query."""

    id: int


T = TypeVar("T", bound=Ticking)


class TickLoop(Generic[T]):
    """`submit` what may be due; `drain` waits until its answers are delivered. `holds_back`: a submission waits while
    an earlier one has not begun, so that at most one deposit is ahead of the ticks of its stream."""

    def __init__(self, tick: Callable[[T], object], name: str = "windrow-ticks", holds_back: bool = True):
        self._tick = tick
        self._holds_back = holds_back
        self._changed = threading.Condition()
        self._waiting: dict[int, T] = {}
        self._busy: int | None = None
        self._errors: dict[int, BaseException] = {}
        self._failures: dict[int, int] = {}
        self._took_s: dict[int, float] = {}
        """About how long the last ticks took; the longest of them is forgotten by halves."""
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                number = next(iter(self._waiting))
                stream = self._waiting.pop(number)
                self._busy = number
                self._changed.notify_all()
            error: BaseException | None = None
            started_s = time.monotonic()
            try:
                stay_in_pool(TICKS)
                self._tick(stream)
            except BaseException as caught:
                error = caught
            with self._changed:
                self._busy = None
                self._took_s[number] = max(time.monotonic() - started_s, self._took_s.get(number, 0.0) / 2)
                if error is not None:
                    self._errors[number] = error
                self._failures[number] = 0 if error is None else self._failures.get(number, 0) + 1
                self._changed.notify_all()

    def refuse_inside(self, what: str) -> None:
        """Raise if called inside a tick, as subscribers are: the call would wait for the tick itself."""
        if caller() is self._thread:
            raise StateError(
                f"a subscriber cannot {what}: its answer is still being delivered",
                remedy="Hand it to another thread, and return from the subscriber.",
            )

    def submit(self, stream: T) -> None:
        """Queue it for a tick."""
        with self._changed:
            while self._holds_back and stream.id in self._waiting and not self._closed:
                self._changed.wait()
            self._raise(stream)
            self._waiting[stream.id] = stream
            self._changed.notify_all()

    def drain(self, stream: T) -> None:
        """Wait until no tick of the stream is queued or running. Raises the error of a failed tick."""
        with self._changed:
            while (stream.id in self._waiting or self._busy == stream.id) and not self._closed:
                self._changed.wait()
            self._raise(stream)

    def give_way(self, streams: Iterable[T]) -> None:
        """Wait until no tick of these is queued or running, if their last ones were quick, and only so long."""
        numbers = [one.id for one in streams]
        with self._changed:
            if all(self._took_s.get(number, 0.0) < QUICK_S for number in numbers):
                self._changed.wait_for(lambda: self._closed or not self._has_any(numbers), QUICK_S)

    def _has_any(self, numbers: Iterable[int]) -> bool:
        return any(number in self._waiting or number == self._busy for number in numbers)

    def catch_up(self, stream: T) -> None:
        """Answer all windows due now, and wait for it."""
        self.submit(stream)
        self.drain(stream)

    def failures(self, stream: T) -> int:
        """The number of ticks that have failed in a row."""
        with self._changed:
            return self._failures.get(stream.id, 0)

    def error(self, stream: T) -> BaseException | None:
        """The error of a failed tick that has not been raised yet."""
        with self._changed:
            return self._errors.get(stream.id)

    def retry(self, stream: T) -> BaseException | None:
        """Submit again after a failure; return the error that is thereby dropped."""
        with self._changed:
            error = self._errors.pop(stream.id, None)
        self.submit(stream)
        return error

    def retry_all(self, streams: Iterable[T]) -> list[tuple[T, BaseException]]:
        """`retry` of many at once, without holding back; returns those with an error that is thereby dropped."""
        with self._changed:
            found = [(one, self._errors.pop(one.id, None)) for one in streams]
            self._waiting.update({one.id: one for one, _ in found})
            self._changed.notify_all()
        return [(one, error) for one, error in found if error is not None]

    def _raise(self, stream: T) -> None:
        error = self._errors.pop(stream.id, None)
        if error is not None:
            raise error

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Finish the running tick, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
