"""Ctrl-C as a request, not an exception.

A KeyboardInterrupt can strike in the middle of a call to the JVM or of a commit. Here the first Ctrl-C (or
SIGTERM) is noted, whoever waits sees it within a tenth of a second and stops in order; the second one leaves
at once, which loses nothing either: a state directory survives a kill.
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
    """The user asked to stop."""


class Interrupts:
    """Holds SIGINT and SIGTERM while it is entered; work goes to `background`, the main thread waits."""

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
        # No lock may be taken here: the interrupted code may hold it.
        self._count += 1
        if self._count > 1:
            os._exit(EXIT_CODE)

    @property
    def requested(self) -> bool:
        return self._count > 0

    def wait(self, seconds: float) -> bool:
        """Sleep, at most until a Ctrl-C; whether there was one."""
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
        """The result of `work`, done in a thread; `meanwhile` is called every so often here.

        On a Ctrl-C, Interrupted is raised: at once, the work abandoned; or, with `stop`, when the work has
        ended, `stop` being called until it has.
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
