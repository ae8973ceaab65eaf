"""A lock whose holder may let one other thread in while it waits for that thread."""

from __future__ import annotations

import threading


class LendableLock:
    """A re-entrant lock. The thread of a subscriber reads the stream while the tick that called it waits."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holder: int | None = None
        self._depth = 0
        self._guest: int | None = None
        self._inside: int | None = None
        self._guest_depth = 0

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._changed:
            while not self._enter(me):
                self._changed.wait()

    def _enter(self, me: int) -> bool:
        if me in (self._guest, self._inside):
            self._inside = me
            self._guest_depth += 1
            return True
        if self._holder not in (None, me) or self._inside is not None:
            return False
        self._holder = me
        self._depth += 1
        return True

    def __exit__(self, *exc: object) -> None:
        with self._changed:
            if self._inside == threading.get_ident():
                self._guest_depth -= 1
                self._inside = self._inside if self._guest_depth else None
            else:
                self._depth -= 1
                self._holder = self._holder if self._depth else None
            self._changed.notify_all()

    def lend(self, guest: int) -> None:
        """Let a thread in beside the holder, who must not touch what the lock guards until `take_back`."""
        with self._changed:
            if self._holder == threading.get_ident():
                self._guest = guest
                self._changed.notify_all()

    def take_back(self) -> None:
        """End the loan. Waits until the guest is outside; from then on it waits like any other thread."""
        with self._changed:
            self._guest = None
            while self._inside is not None and self._holder == threading.get_ident():
                self._changed.wait()
