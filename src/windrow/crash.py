"""Crash points: named places in the commit protocol where a test may kill the process.

`WINDROW_CRASH_AT=name` kills this process with SIGKILL when it first passes the point, `name:k` when it passes it for
the k-th time. `WINDROW_CRASH_GROUP=1` kills the whole process group, including the Spark JVM. SIGKILL prevents all
clean-up in Python and Java. Without these variables `crash_point(name)` costs one dictionary lookup.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

CRASH_AT = "WINDROW_CRASH_AT"
CRASH_GROUP = "WINDROW_CRASH_GROUP"

_passes: Counter[str] = Counter()


def crash_plan(text: str) -> tuple[str, int]:
    """Parse `name` or `name:k` as (name, k); k counts passes from 1."""
    name, colon, count = text.rpartition(":")
    if not colon:
        return text, 1
    if not name or not count.isdigit() or int(count) < 1:
        raise ValueError(f"{CRASH_AT} is 'name' or 'name:k' with k from 1, not {text!r}")
    return name, int(count)


def crash_point(name: str) -> None:
    """Kill the process here if the environment says so."""
    wanted = os.environ.get(CRASH_AT)
    if wanted:
        _passed(name, wanted)


def _passed(name: str, wanted: str) -> None:
    target, nth = crash_plan(wanted)
    if name != target:
        return
    _passes[name] += 1
    if _passes[name] != nth:
        return
    if os.environ.get(CRASH_GROUP) == "1":
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
