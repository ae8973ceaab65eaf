"""The test helpers in windrow.testing: clock, sink, script, crash points."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from windrow.testing import CollectingSink, ManualClock, Script, crash_plan

SRC = Path(__file__).resolve().parents[2] / "src"


def test_settable_clock() -> None:
    clock = ManualClock("1970-01-01 00:00:05")
    assert (clock.now_us(), clock.monotonic_s()) == (5_000_000, 0.0)
    clock.advance(1.5)
    clock.advance(timedelta(milliseconds=1))
    assert clock.now_us() == 6_501_000 and clock.monotonic_s() == pytest.approx(1.501)
    clock.set(datetime(1970, 1, 1))
    assert clock.now_us() == 0 and clock.monotonic_s() == pytest.approx(1.501)
    with pytest.raises(ValueError, match="advances"):
        clock.advance(-1)


@dataclass(frozen=True)
class _Batch:
    query: str
    key: str
    table: pa.Table


def test_sink_keeps_each_batch_once() -> None:
    sink = CollectingSink()
    one, two = pa.table({"x": [1]}), pa.table({"x": [2]})
    sink.write(_Batch("q", "1", one))
    sink.write(_Batch("q", "2", two))
    sink.write(_Batch("r", "1", two))
    sink.write(_Batch("q", "1", pa.table({"x": [1]})))
    assert sink.repetitions == 1
    assert sink.table("q").to_pydict() == {"x": [1, 2]} and sink.rows("r") == [{"x": 2}]
    with pytest.raises(AssertionError, match="other rows"):
        sink.write(_Batch("q", "1", two))
    with pytest.raises(KeyError):
        sink.table("nobody")
    sink.clear()
    assert sink.batches() == [] and sink.repetitions == 0


def test_script_feed_and_recut() -> None:
    rows = [{"x": n} for n in range(5)]
    script = Script("s", [rows[:2], rows[2:]])
    fed: list[tuple[str, int]] = []
    script.feed(lambda stream, batch: fed.append((stream, len(batch))), after_each=lambda: fed.append(("ran", 0)))
    assert fed == [("s", 2), ("ran", 0), ("s", 3), ("ran", 0)]
    assert [len(b) for b in script.recut(2)] == [2, 2, 1] and [len(b) for b in script.recut(None)] == [5]
    assert script.recut(3).rows() == rows and Script.of("s", rows).batches == [rows]
    with pytest.raises(ValueError, match="at least one"):
        script.recut(0)


def test_crash_plans() -> None:
    assert crash_plan("commit") == ("commit", 1) and crash_plan("tick:before:3") == ("tick:before", 3)
    for wrong in ("commit:", "commit:0", ":2", "commit:x"):
        with pytest.raises(ValueError, match="WINDROW_CRASH_AT"):
            crash_plan(wrong)


_PASSES = """
from windrow.crash import crash_point
for n in range(1, 4):
    crash_point("other")
    crash_point("commit")
    print(n, flush=True)
"""


def _passes(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _PASSES],
        env={**os.environ, "PYTHONPATH": str(SRC), **environment},
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )


def test_crash_point_at_nth_pass() -> None:
    assert _passes().stdout.split() == ["1", "2", "3"]
    killed = _passes(WINDROW_CRASH_AT="commit:2")
    assert killed.returncode == -signal.SIGKILL and killed.stdout.split() == ["1"]
    assert _passes(WINDROW_CRASH_AT="elsewhere").returncode == 0


def test_crash_point_kills_the_group() -> None:
    start = f"subprocess.run([sys.executable, '-c', {_PASSES!r}])"
    program = f"import subprocess, sys; {start}; print('survived')"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(SRC), "WINDROW_CRASH_AT": "commit", "WINDROW_CRASH_GROUP": "1"},
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert ran.returncode == -signal.SIGKILL and "survived" not in ran.stdout
