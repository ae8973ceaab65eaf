"""Ctrl-C as a request, not an exception.

A KeyboardInterrupt can strike in the middle of a call to the JVM or of a commit. So the first Ctrl-C (or SIGTERM) is
only recorded; waiting code sees it within a tenth of a second and stops in order. The second one exits at once. That
loses nothing either, since a state directory survives a kill. So does a SIGTERM that has not ended the program after
`LEAVE_S`: stopping in order finishes what is due, which may take long, and whoever sent the signal sends no second one.
In the shell a Ctrl-C cancels a statement (`Cancels`), and never ends the program.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Generic, TypeVar

T = TypeVar("T")
POLL_S = 0.1
STOP_AGAIN_S = 0.5
LEAVE_S = 20.0
"""A SIGTERM ends the program after so many seconds at the latest."""
EXIT_CODE = 130


class Interrupted(Exception):
    """The user requested a stop."""


class Interrupts:
    """A context that records SIGINT and SIGTERM. `background` does the work while the main thread waits."""

    SIGNALS: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, leave_s: float = LEAVE_S) -> None:
        self._count = 0
        self._previous: dict[int, Any] = {}
        self._leave_s = leave_s
        self._terminated: int | None = None
        """The file descriptor that tells of a SIGTERM: a signal handler may write to it."""

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            if signal.SIGTERM in self.SIGNALS:
                heard, self._terminated = os.pipe()
                threading.Thread(target=self._leave, args=(heard,), name="windrow-leave", daemon=True).start()
            for number in self.SIGNALS:
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if self._terminated is not None:
            os.close(self._terminated)  # `_leave` returns
            self._terminated = None

    def _leave(self, heard: int) -> None:
        """End the program some time after a SIGTERM; return if `__exit__` came without one."""
        told = os.read(heard, 1)
        if told and not select.select([heard], [], [], self._leave_s)[0]:
            print("windrow: left what was being computed; nothing is lost", file=sys.stderr, flush=True)
            os._exit(EXIT_CODE)
        os.close(heard)

    def _note(self, number: int, frame: FrameType | None) -> None:
        # Take no lock in a signal handler: the interrupted code may hold it.
        self._count += 1
        if self._count > 1:
            os._exit(EXIT_CODE)
        if number == signal.SIGTERM and self._terminated is not None:
            os.write(self._terminated, b"x")

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
        doing = _Work(work)
        self._wait(doing, meanwhile)
        if self.requested:
            if stop is not None:
                doing.end(stop)
            raise Interrupted
        return doing.result()

    def attempt(
        self,
        work: Callable[[], T],
        *,
        cancel: Callable[[], None] | None = None,
        patience_s: float | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> T:
        """Run `work` in a thread and return its result, as `background` does, but cancel it on Ctrl-C.

        Without `cancel` the work is not disturbed and its result is returned. With it, `cancel` is called repeatedly
        until the work has ended, and Interrupted is raised then, or after `patience_s` at the latest.
        """
        doing = _Work(work)
        self._wait(doing, meanwhile)
        if self.requested and cancel is not None:
            reaper = threading.Thread(target=doing.end, args=(cancel,), name="windrow-cancel", daemon=True)
            reaper.start()
            reaper.join(patience_s)
            raise Interrupted
        doing.thread.join()
        return doing.result()

    def _wait(self, doing: _Work[Any], meanwhile: Callable[[], None] | None) -> None:
        """Wait for the end of the work or a Ctrl-C."""
        while doing.thread.is_alive():
            doing.thread.join(POLL_S)
            if self.requested:
                return
            if meanwhile is not None:
                meanwhile()


class Cancels(Interrupts):
    """Ctrl-C in the shell: a request to cancel one statement, however often it comes. `clear` forgets it.

    SIGTERM stays with `outer` and ends the shell.
    """

    SIGNALS = (signal.SIGINT,)

    def __init__(self, outer: Interrupts):
        super().__init__()
        self._outer = outer

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._count += 1

    @property
    def requested(self) -> bool:
        return self._count > 0 or self._outer.requested

    @property
    def is_ended(self) -> bool:
        """Whether the shell has to end."""
        return self._outer.requested

    def clear(self) -> None:
        self._count = 0


class _Work(Generic[T]):
    """Work in a thread of its own, and how it ended."""

    def __init__(self, work: Callable[[], T]):
        self._work = work
        self._outcome: list[T] = []
        self._failure: list[BaseException] = []
        self.thread = threading.Thread(target=self._body, name="windrow-work", daemon=True)
        self.thread.start()

    def _body(self) -> None:
        try:
            self._outcome.append(self._work())
        except BaseException as error:
            self._failure.append(error)

    def end(self, stop: Callable[[], None]) -> None:
        """Call `stop` until the work has ended."""
        while self.thread.is_alive():
            stop()
            self.thread.join(STOP_AGAIN_S)

    def result(self) -> T:
        if self._failure:
            raise self._failure[0]
        return self._outcome[0]
