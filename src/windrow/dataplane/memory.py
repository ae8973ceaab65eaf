"""Returns freed memory to the system.

Arrow's allocator (mimalloc) and the C library keep freed memory for the thread that freed it. After a micro-batch or an
answer of millions of rows the process stayed hundreds of MB larger than its data.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from resource import getpagesize

import pyarrow as pa

GROWN_BYTES = 128 << 20
"""How much the process may grow before memory is returned. Getting it back costs time (0.2 µs a page)."""

_STATM = Path("/proc/self/statm")


class _Watermark:
    """The least size of the process since memory was last returned."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._low: int | None = None

    def give_back(self) -> bool:
        resident = resident_bytes()
        if resident is None:
            return False
        with self._lock:
            self._low = resident if self._low is None else min(self._low, resident)
            if resident < self._low + GROWN_BYTES:
                return False
            pa.default_memory_pool().release_unused()
            _trim()(0)
            self._low = resident_bytes()
            return True


_watermark = _Watermark()


def give_back() -> bool:
    """Let allocators return free memory if the process has grown; return whether it had. Threads call this after they
    have dropped large tables."""
    return _watermark.give_back()


def resident_bytes() -> int | None:
    """The resident size of this process; None if the system does not say."""
    try:
        return int(_STATM.read_text().split()[1]) * getpagesize()
    except OSError:
        return None


@cache
def _trim() -> Callable[[int], int]:
    """The C library's `malloc_trim`, or a function that does nothing."""
    if sys.platform == "linux":
        found = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if found is not None:
            return found  # type: ignore[no-any-return]
    return lambda _: 0
