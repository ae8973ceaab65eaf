"""A small cluster whose executors are killed during jobs, in both homes of synopses and in ticks of a continuous query,
there also the Python worker of a task. Run with a directory.

Spark's `local-cluster` runs the master and two workers in the driver's JVM, and each executor in its own. The number of
killed processes goes to `kills.json`; the answers stay in the states.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

import windrow
from windrow.dataplane.ingest import job as ingest
from windrow.dataplane.plan_stages import PlanStages
from windrow.dataplane.spark_home import SparkHome

MASTER = "local-cluster[2,1,1024]"
SETTINGS = {"preaggregate": "spark", "retained_answers": 10**6}
STATEMENTS = (
    "CREATE STREAM s (t BIGINT, k STRING, x INT) FROM memory TIMESTAMP BY t PUNCTUATE ORDERED",
    "CREATE QUERY sums AS SELECT k, SUM(x) AS total, COUNT(*) AS n FROM s [RANGE 20 SLIDE 10] GROUP BY k",
    "CREATE QUERY most AS SELECT k, MAX(x) AS most FROM s [RANGE 30 SLIDE 10] WHERE x > 3 GROUP BY k",
    "CREATE QUERY pairs AS SELECT a.x, COUNT(*) AS n FROM s [RANGE 2] AS a JOIN s [RANGE 1] AS b ON a.k = b.k"
    " WHERE a.x < 9 GROUP BY a.x",
)
BATCHES, HOMES, ROWS = 4, ("driver", "spark"), 20_000
WAIT_S = 120.0


def batch(number: int) -> pa.Table:
    i = np.arange(ROWS)
    keys = np.char.mod("k%d", i * 7 % 500)
    return pa.table({"t": 10 * number + i * 10 // ROWS, "k": keys, "x": (i * 13 % 97).astype(np.int32)})


def take(wr: windrow.Windrow, number: int) -> None:
    wr.deposit("s", batch(number), partitions=6)


class Killer:
    """Kills executors while tasks run."""

    def __init__(self, wr: windrow.Windrow):
        self._spark, self._jvm = wr.spark, psutil.Process(wr._engine.jvm.pid)
        self.kills = 0

    def executors(self) -> dict[str, int]:
        """The process of each live executor."""
        found = {}
        for process in self._jvm.children(recursive=True):
            with suppress(psutil.Error):
                words = process.cmdline()
                if "--executor-id" in words:
                    found[words[words.index("--executor-id") + 1]] = process.pid
        return found

    def busy(self) -> list[str]:
        """The executors that have a task at this moment, according to the scheduler."""
        running = self._spark.sparkContext._jsc.sc().taskScheduler().runningTasksByExecutors()
        return re.findall(r"(\d+) -> [1-9]", running.toString())

    def during(self, owner: Any, name: str, a_worker: bool = False) -> threading.Thread:
        """Let the next call of a function kill an executor that has a task, or only the task's Python worker."""
        before = getattr(owner, name)
        thread = threading.Thread(target=self._kill, args=(a_worker,))

        def call(*args: Any) -> Any:
            setattr(owner, name, before)
            thread.start()
            return before(*args)

        setattr(owner, name, call)
        return thread

    def _kill(self, a_worker: bool) -> None:
        until_s = time.monotonic() + WAIT_S
        while time.monotonic() < until_s:
            known = self.executors()
            for name in self.busy():
                found = [known[name]] if name in known else []
                found = [pid for one in found for pid in python_workers(one)] if a_worker else found
                if found:
                    os.kill(found[0], signal.SIGKILL)
                    self.kills += 1
                    return


def python_workers(executor: int) -> list[int]:
    """The Python processes that compute for an executor: its daemon forks them."""
    with suppress(psutil.Error):
        daemons = [one for one in psutil.Process(executor).children() if "pyspark.daemon" in one.cmdline()]
        return [worker.pid for one in daemons for worker in one.children()]
    return []


def disturbed(wr: windrow.Windrow, home: str) -> int:
    """Take all micro-batches while processes are killed. Return how many were."""
    for statement in STATEMENTS:
        wr.sql(statement)
    killer = Killer(wr)
    take(wr, 0)
    deposited = killer.during(ingest, "run")
    take(wr, 1)
    deposited.join()
    if home == "spark":
        assert "home: Spark" in wr.queries["sums"].explain()
        answered = killer.during(SparkHome, "answer")
        ticked = killer.during(PlanStages, "run")
    take(wr, 2)
    if home == "spark":
        answered.join()
        ticked.join()
        worker = killer.during(PlanStages, "run", a_worker=True)
    take(wr, 3)
    if home == "spark":
        worker.join()
    wr.end_input("s")
    return killer.kills


def main(root: Path) -> None:
    kills = {}
    with ExitStack() as stack:  # states that are open at a time share a session, and so the cluster
        for home in HOMES:
            settings = {**SETTINGS, "synopsis_home": home, "plan_home": home}
            kills[home] = disturbed(
                stack.enter_context(windrow.open(root / home, master=MASTER, settings=settings)), home
            )
    (root / "kills.json").write_text(json.dumps(kills))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
