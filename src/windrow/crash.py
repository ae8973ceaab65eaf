"""Crash points: named places of the commit protocol where a test may kill the process.

`crash_point(name)` costs one dictionary look-up and does nothing unless the environment says
otherwise. `WINDROW_CRASH_AT=name` kills this process with SIGKILL the first time the point is
passed, `name:k` the k-th time. With `WINDROW_CRASH_GROUP=1` the whole process group dies, the Spark
JVM included. SIGKILL on purpose: nothing of Python's or Java's clean-up may run.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

CRASH_AT = "WINDROW_CRASH_AT"
CRASH_GROUP = "WINDROW_CRASH_GROUP"

_passes: Counter[str] = Counter()


def crash_plan(text: str) -> tuple[str, int]:
    """`name` or `name:k` as (name, k); k counts passes from 1."""
    name, colon, count = text.rpartition(":")
    if not colon:
        return text, 1
    if not name or not count.isdigit() or int(count) < 1:
        raise ValueError(f"{CRASH_AT} is 'name' or 'name:k' with k from 1, not {text!r}")
    return name, int(count)


def crash_point(name: str) -> None:
    """Die here if the environment asks for it; otherwise do nothing."""
    wanted = os.environ.get(CRASH_AT)
    if not wanted:
        return
    target, nth = crash_plan(wanted)
    if name != target:
        return
    _passes[name] += 1
    if _passes[name] != nth:
        return
    if os.environ.get(CRASH_GROUP) == "1":
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
