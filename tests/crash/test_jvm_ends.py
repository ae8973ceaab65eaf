"""If the Spark JVM ends, killed or out of memory, every call says so, nothing hangs, and the same process can continue."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.short_lived_jvm import ROUGH

import windrow
from crash import ending
from crash.child import TESTS, TIMEOUT_S, rows_of

pytestmark = [pytest.mark.slow, pytest.mark.crash]

REFUSED = ("deposit", "lookup", "select", "create", "explain", "run_available", "start")
SERVED = ("show", "answers", "stop", "close")


def answers(wr: windrow.Windrow) -> dict[str, list[tuple[Any, ...]]]:
    return {name: sorted(rows_of(query.answers().arrow())) for name, query in wr.queries.items()}


@pytest.fixture(scope="module")
def expected(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    with ending.opened(tmp_path_factory.mktemp("undisturbed"), ending.DEPOSITED, spark=spark) as wr:
        for number in range(ending.BATCHES):
            wr.deposit("s", ending.batch(number))
        wr.end_input("s")
        return answers(wr)


def test_process_outlives_its_jvm(spark: Any, tmp_path: Path, expected: dict[str, list[tuple[Any, ...]]]) -> None:
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    environment = {**os.environ, "PYTHONPATH": path, "JDK_JAVA_OPTIONS": ROUGH}
    command = [sys.executable, str(TESTS / "crash" / "ending.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr and "Py4J" not in done.stderr
    calls = json.loads((tmp_path / "calls.json").read_text())
    for name in REFUSED:
        assert calls[name]["kind"] == "SparkEndedError", (name, calls[name])
        assert "it ran out of memory" in calls[name]["text"] and "driver_memory" in calls[name]["text"]
    assert [calls[name]["kind"] for name in SERVED] == [None] * len(SERVED)
    for name in (
        "run_available in a job",
        "deposit after a job",
        "run after start",
        "start after start",
        "stop after start",
    ):
        assert calls[name]["kind"] == "SparkEndedError", (name, calls[name])
        assert "SIGKILL" in calls[name]["text"] and "Nothing that was committed is lost" in calls[name]["text"]
    assert calls["shown"]["running"] is False and "[WR610]" in calls["shown"]["last_error"]
    assert calls["shown"]["state"] == "stopped: the Spark JVM has ended"
    assert max(one["seconds"] for one in calls.values() if "seconds" in one) < 60
    for state in (ending.DEPOSITED, ending.RUN):
        with ending.opened(tmp_path, state, spark=spark) as wr:
            assert answers(wr) == expected and len(expected["sums"]) >= 12
