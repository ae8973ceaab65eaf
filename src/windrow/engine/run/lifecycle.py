"""The phases of an open state directory, and which calls are refused in each, from any thread.

    opened -- run_available --> running available -- it ends, or stop --> opened
    opened -- start --> started -- stop --> opened
    any of these -- close --> closing --> closed

The lock is held while the phase changes, so `start`, `stop` and `close` are serialised. `run_available` does not hold
it while it runs: `stop` and `close` interrupt the run and wait until it has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum

from windrow.errors import StateError


class Phase(Enum):
    """The phase of an open state directory."""

    OPENED = "opened"
    AVAILABLE = "running what is available"
    STARTED = "started"
    CLOSING = "closing"
    CLOSED = "closed"


class Lifecycle:
    """The phase of one engine. `lock` is re-entrant and is taken before any lock of a stream."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._phase = Phase.OPENED
        self._owner: int | None = None
        """The thread that is in `run_available`."""
        self._closer: int | None = None
        self._stops = 0
        self._runs = 0

    @property
    def phase(self) -> Phase:
        if self._phase is Phase.OPENED and self._owner is not None:
            return Phase.AVAILABLE
        return self._phase

    def refuse_closed(self) -> None:
        if self._phase in (Phase.CLOSING, Phase.CLOSED):
            raise StateError("the state directory is closed", remedy="Open it again: windrow.open(…).")

    @contextmanager
    def running_available(self) -> Iterator[Callable[[], None]]:
        """The phase AVAILABLE; waits for a run of another thread. Yields a function that raises if this run has been
        interrupted."""
        with self.lock:
            before = self._stops

            def refuse_interrupted() -> None:
                if self._stops != before:
                    raise interrupted()

            while self.phase is Phase.AVAILABLE and self._owner != threading.get_ident():
                self._changed.wait()
            self.refuse_closed()
            refuse_interrupted()
            if self.phase is not Phase.OPENED:
                raise StateError("the streams are running", remedy="Stop them first: stop(), or \\stop in the shell.")
            self._owner = threading.get_ident()
            self._runs += 1
        try:
            yield refuse_interrupted
        finally:
            with self.lock:
                self._owner = None
                self._changed.notify_all()

    def may_start(self) -> bool:
        """Whether the streams are not started yet; raises if they cannot be. Call it with the lock held."""
        self.refuse_closed()
        if self.phase is Phase.AVAILABLE:
            raise StateError(
                "run_available() is running in another thread", remedy="Wait until it returns, or call stop() first."
            )
        return self.phase is Phase.OPENED

    def started(self) -> None:
        self._phase = Phase.STARTED

    def interrupt(self) -> None:
        """Interrupt `run_available` before its next stream. Call it with the lock held."""
        self._stops += 1

    def stopped(self) -> None:
        """Leave the phase STARTED, and wait until an interrupted run has ended. Call it with the lock held.

        A signal handler may stop the run of its own thread; that run is not waited for.
        """
        if self._phase is Phase.STARTED:
            self._phase = Phase.OPENED
        run = self._runs
        while self._owner not in (None, threading.get_ident()) and self._runs == run:
            self._changed.wait()

    def begin_closing(self) -> bool:
        """Whether the caller must close. If another thread is closing, wait for it and return False."""
        with self.lock:
            while self._phase is Phase.CLOSING and self._closer != threading.get_ident():
                self._changed.wait()
            if self._phase in (Phase.CLOSING, Phase.CLOSED):
                return False
            self._phase, self._closer = Phase.CLOSING, threading.get_ident()
            return True

    def closed(self) -> None:
        with self.lock:
            self._phase = Phase.CLOSED
            self._changed.notify_all()


def interrupted() -> StateError:
    """The error of a `run_available` that `stop` or `close` interrupted."""
    return StateError(
        "run_available was interrupted before it had read everything",
        remedy="Nothing is lost, and no input was ended: run it again to go on.",
    )
