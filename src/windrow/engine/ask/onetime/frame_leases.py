"""Which frames hold versions, and for how long after they are gone."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

Release = Callable[[], None]


class FrameLeases:
    """Versions that frames read. Each is released when its frame is given back, `lease_s` seconds after the frame is
    gone, or at `close`. One timer serves them all."""

    def __init__(self, lease_s: float):
        self._lease_s = lease_s
        # Reentrant: a frame may go while its own thread is in here.
        self._lock = threading.RLock()
        self._held: dict[int, Release] = {}
        self._left: deque[tuple[float, Release]] = deque()
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def hold(self, frame: Any, release: Release) -> None:
        """Keep the version of a frame."""
        with self._lock:
            self._held[id(frame)] = release
        weakref.finalize(frame, self._leave, id(frame)).atexit = False

    def give_back(self, frame: Any) -> None:
        """Release the version of a frame; a second call does nothing."""
        with self._lock:
            release = self._held.pop(id(frame), None)
        if release is not None:
            release()

    def close(self) -> None:
        """Release all versions, and stop the timer."""
        with self._lock:
            self._is_closed = True
            releases = [*self._held.values(), *(release for _, release in self._left)]
            self._held.clear()
            self._left.clear()
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        for release in releases:
            release()

    @property
    def waiting(self) -> int:
        """How many frames are gone whose versions are still held."""
        with self._lock:
            return len(self._left)

    def _leave(self, number: int) -> None:
        with self._lock:
            release = self._held.pop(number, None)
            if release is not None:
                self._left.append((time.monotonic() + self._lease_s, release))
                self._wait()

    def _wait(self) -> None:
        """Wait for the first that is due, if nobody does."""
        if self._timer is None and self._left and not self._is_closed:
            self._timer = threading.Timer(max(0.0, self._left[0][0] - time.monotonic()), self._end_due)
            self._timer.daemon = True
            self._timer.start()

    def _end_due(self) -> None:
        due = list[Release]()
        with self._lock:
            while self._left and self._left[0][0] <= time.monotonic():
                due.append(self._left.popleft()[1])
            if not self._is_closed:
                self._timer = None
                self._wait()
        for release in due:
            release()
