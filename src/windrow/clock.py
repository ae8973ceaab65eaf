"""The wall clock. Only this module reads it, so that tests can replace it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time in microseconds since the epoch, and a monotonic time for durations."""

    def now_us(self) -> int: ...

    def monotonic_s(self) -> float: ...


class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        return time.monotonic()
