"""A process whose Spark JVM ends again and again; it opens its state anew and continues. Run with a directory.

The outcome of each call after the JVM's end, and its duration, goes to `calls.json`; the answers stay in the state.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import windrow
from windrow.dataplane.ingest import job as ingest

SETTINGS = {"preaggregate": "spark", "driver_memory": "512 MB", "retained_answers": 10**6}
STREAM = "CREATE STREAM IF NOT EXISTS s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED"
QUERIES = (
    "CREATE QUERY IF NOT EXISTS sums AS SELECT k, SUM(x) AS total, COUNT(*) AS n FROM s [RANGE 20 SLIDE 10] GROUP BY k",
    "CREATE QUERY IF NOT EXISTS some AS SELECT COUNT(*) AS n FROM s [RANGE 30 SLIDE 10] WHERE x > 3",
)
BATCHES = 4
DEPOSITED, RUN = "deposited", "run"
"""Two states, since a stream is either deposited into or run. They share the session."""


def batch(number: int) -> list[tuple[int, str, int]]:
    return [(10 * number + i // 4, "abc"[i % 3], i % 7) for i in range(40)]


def opened(root: Path, state: str, **more: Any) -> windrow.Windrow:
    wr = windrow.open(root / state, **{"settings": SETTINGS, **more})
    for statement in (STREAM, *QUERIES):
        wr.sql(statement)
    return wr


def killed(wr: windrow.Windrow) -> None:
    os.kill(wr._engine.jvm.pid, signal.SIGKILL)


def out_of_memory(wr: windrow.Windrow) -> None:
    """Allocate an array that is larger than the heap."""
    gateway: Any = wr.spark.sparkContext._gateway
    with suppress(Exception):  # the JVM ends before it answers
        gateway.new_array(gateway.jvm.long, 200_000_000)


class CallLog:
    """The outcome of calls: the error, if any, and the seconds."""

    def __init__(self) -> None:
        self.calls: dict[str, dict[str, Any]] = {}

    def call(self, name: str, work: Callable[[], object]) -> None:
        found: dict[str, Any] = {"kind": None, "text": ""}
        started_s = time.monotonic()
        try:
            work()
        except BaseException as error:
            found = {"kind": type(error).__name__, "text": str(error)}
        self.calls[name] = {**found, "seconds": time.monotonic() - started_s}


def refused(deposited: windrow.Windrow, run: windrow.Windrow, log: CallLog) -> None:
    """Make every kind of call after the JVM has ended."""
    log.call("deposit", lambda: deposited.deposit("s", batch(1)))
    log.call("lookup", lambda: deposited.queries["sums"].lookup(10, 10))
    log.call("select", lambda: deposited.sql("SELECT * FROM dead_letters('s')"))
    log.call("create", lambda: deposited.sql("CREATE QUERY more AS SELECT SUM(x + 1) AS s FROM s [RANGE 10 SLIDE 10]"))
    log.call("explain", lambda: deposited.sql("EXPLAIN SELECT SUM(x + 2) AS s FROM s [RANGE 10 SLIDE 10]"))
    log.call("show", lambda: deposited.sql("SHOW STREAMS; SHOW QUERIES; SHOW SHARING"))
    log.call("answers", lambda: deposited.queries["sums"].answers())
    log.call("run_available", run.run_available)
    log.call("start", run.start)
    log.call("stop", run.stop)
    log.call("close", deposited.close)
    log.call("close", run.close)


def in_a_job(wr: windrow.Windrow, log: CallLog) -> None:
    """The JVM is killed while the job of a micro-batch of Structured Streaming runs."""
    run = ingest.run

    def run_killed(df: Any) -> Any:
        ingest.run = run
        killed(wr)
        return run(df)

    ingest.run = run_killed
    log.call("run_available in a job", wr.run_available)


def while_started(wr: windrow.Windrow, log: CallLog) -> None:
    """The JVM is killed while streams run in the background."""
    wr.start()
    wr.feed("s", batch(3))
    while wr.metrics()["s"]["rows"] == 0:
        time.sleep(0.05)
    killed(wr)
    until_s = time.monotonic() + 20
    while wr.metrics()["s"]["last_error"] is None and time.monotonic() < until_s:
        time.sleep(0.05)
    metrics = wr.metrics()["s"]
    log.calls["shown"] = {"running": wr.is_running, "last_error": metrics["last_error"], "state": metrics["state"]}
    log.call("run after start", wr.run_available)
    log.call("start after start", wr.start)
    log.call("stop after start", wr.stop)


def main(root: Path) -> None:
    log = CallLog()

    def both() -> tuple[windrow.Windrow, windrow.Windrow]:
        more = {"master": "local[2]", "settings": {**SETTINGS, "synopsis_home": "spark"}}
        return opened(root, DEPOSITED, **more), opened(root, RUN, **more)

    deposited, run = both()
    deposited.deposit("s", batch(0))
    deposited.deposit("s", batch(1))
    run.feed("s", batch(0))
    out_of_memory(run)
    refused(deposited, run, log)
    deposited, run = both()
    run.run_available()
    run.feed("s", batch(1))
    in_a_job(run, log)
    log.call("deposit after a job", lambda: deposited.deposit("s", batch(2)))
    run.close()
    run = opened(root, RUN, master="local[2]")  # the other state is still open, with the ended session
    deposited.close()
    run.run_available()
    run.feed("s", batch(2))
    while_started(run, log)
    run.close()
    deposited, run = both()
    deposited.deposit("s", batch(2))
    deposited.deposit("s", batch(3))
    deposited.end_input("s")
    run.run_available(close=True)
    for wr in (deposited, run):
        assert "suspended" not in str(wr.sql("SHOW QUERIES").rows())
        wr.close()
    (root / "calls.json").write_text(json.dumps(log.calls))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
