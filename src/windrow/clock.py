"""The only place that reads the wall clock; tests put a settable one in its stead."""

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
