"""Ctrl-C as a request, not an exception.

A KeyboardInterrupt can strike in the middle of a call to the JVM or of a commit. So the first Ctrl-C (or SIGTERM) is
only recorded; waiting code sees it within a tenth of a second and stops in order. The second one exits at once. That
loses nothing either, since a state directory survives a kill.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
POLL_S = 0.1
STOP_AGAIN_S = 0.5
EXIT_CODE = 130


class Interrupted(Exception):
    """The user requested a stop."""


class Interrupts:
    """A context that records SIGINT and SIGTERM. `background` does the work while the main thread waits."""

    def __init__(self) -> None:
        self._count = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        # Take no lock in a signal handler: the interrupted code may hold it.
        self._count += 1
        if self._count > 1:
            os._exit(EXIT_CODE)

    @property
    def requested(self) -> bool:
        return self._count > 0

    def wait(self, seconds: float) -> bool:
        """Sleep until the time is over or Ctrl-C comes; return whether it came."""
        until = time.monotonic() + seconds
        while not self.requested and (left := until - time.monotonic()) > 0:
            time.sleep(min(POLL_S, left))
        return self.requested

    def background(
        self,
        work: Callable[[], T],
        *,
        stop: Callable[[], None] | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> T:
        """Run `work` in a thread and return its result; meanwhile call `meanwhile` every tenth of a second.

        After a Ctrl-C, raise Interrupted. Without `stop` the work is abandoned; with it, `stop` is called repeatedly
        until the work has ended.
        """
        outcome: list[T] = []
        failure: list[BaseException] = []

        def body() -> None:
            try:
                outcome.append(work())
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=body, name="windrow-work", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(POLL_S)
            if self.requested:
                break
            if meanwhile is not None:
                meanwhile()
        if self.requested:
            _end(thread, stop)
            raise Interrupted
        if failure:
            raise failure[0]
        return outcome[0]


def _end(thread: threading.Thread, stop: Callable[[], None] | None) -> None:
    while stop is not None and thread.is_alive():
        stop()
        thread.join(STOP_AGAIN_S)
