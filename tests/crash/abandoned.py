"""Kills without a process: a run stops at a crash point, and the next one finds its directory as a kill would leave it.

A child process spends most of its life starting Spark. So chains of kills use the session of the tests: the thread that
reaches the point copies the directory, every thread fails at its next point, and the copy takes the directory's place.
`test_crash_points.py` and `test_must_hold.py` kill processes.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from support.killed import copy_as_killed
from support.matrix import is_full

from crash import child
from windrow.crash import CRASH_AT, crash_plan


class Killed(Exception):
    """A thread of a run that is over."""


class Kill:
    """Takes a copy of a directory when a run passes a point for the n-th time, and lets no thread pass one afterwards."""

    def __init__(self, root: Path, copy: Path):
        self._root, self._copy = root, copy
        self._passes = 0
        self._lock = threading.Lock()
        self.is_done = False

    def passed(self, name: str, wanted: str) -> None:
        target, nth = crash_plan(wanted)
        with self._lock:  # other threads wait at their next point while the directory is copied
            if self.is_done:
                raise Killed(name)
            self._passes += name == target
            if name == target and self._passes == nth:
                copy_as_killed(self._root, self._copy)
                self.is_done = True
                raise Killed(name)


def run_to_kill(root: Path, spark: Any, crash_at: str, group: bool) -> None:
    """Run a workload up to a crash point. Afterwards its directory is as a kill there leaves it. The full matrix kills a
    process, alone or with its group."""
    if is_full():
        child.run_to_crash(root, crash_at, group)
        return
    copy = root.with_name(f"{root.name}.killed")
    kill = Kill(root, copy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CRASH_AT, crash_at)
        patch.setattr("windrow.crash._passed", kill.passed)
        try:
            child.run_uninterrupted(root, spark)
        except Exception as error:  # what threads report that fail at their next point
            if not kill.is_done:
                raise AssertionError(f"the run failed before it passed {crash_at}") from error
    assert kill.is_done, f"{crash_at} was not passed"
    shutil.rmtree(root)
    copy.rename(root)
    child.forget_unplanned(root)
