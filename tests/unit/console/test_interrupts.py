"""SIGTERM ends a program, also one that does not stop when it is asked to."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import sys, time
from windrow.console.interrupts import Cancels, Interrupted, Interrupts
with Interrupts(leave_s={leave_s}) as outer, Cancels(outer) as inner:
    try:
        print("ready", flush=True)
        inner.attempt(lambda: time.sleep({work_s}), cancel=lambda: None)
    except Interrupted:
        print("in order", flush=True)
"""


@pytest.mark.parametrize(("work_s", "leave_s", "said"), [(600, 0.3, ""), (0.6, 60, "in order\n")])
def test_sigterm_ends_within_a_bound(work_s: float, leave_s: float, said: str) -> None:
    made = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(work_s=work_s, leave_s=leave_s)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert made.stdout is not None and made.stdout.readline() == "ready\n"
        begun = time.monotonic()
        made.send_signal(signal.SIGTERM)
        out, told = made.communicate(timeout=30)
        assert time.monotonic() - begun < 30
    finally:
        made.kill()
    assert out == said
    assert (made.returncode, "nothing is lost" in told) == ((0, False) if said else (130, True))
