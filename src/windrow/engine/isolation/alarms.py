"""Calls at a later time, from one thread that runs only while a call is due some day."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable
from itertools import count

log = logging.getLogger("windrow")


class Alarms:
    """Calls functions when their time has come. They must be quick, and look themselves whether they still matter."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call a function after so many seconds, unless this is closed before."""
        with self._changed:
            if self._is_closed:
                return
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), call))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="windrow-alarms", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Forget what is due; the thread ends."""
        with self._changed:
            self._is_closed = True
            self._due.clear()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._due:
                    self._thread = None
                    return
                left = self._due[0][0] - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
                call = heapq.heappop(self._due)[2]
            try:
                call()
            except Exception:
                log.exception("a timed call failed")
