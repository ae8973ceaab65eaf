"""The jobs of continuous plans in the Spark home: a batch of ticks of all plans that are due is one job, and exchanges
are Spark's shuffle."""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import SparkSession

from windrow.dataplane.kernels.plan_stage import run_stages
from windrow.dataplane.kernels.stage_messages import ROWS, SharedJoinTask, StagedTask, StageJob, read_reports
from windrow.dataplane.levels import LevelJobs, LevelKernel


class PlanStages:
    """Runs the jobs. A plan is broadcast once, and so is a join that plans share; what a batch reads goes with its
    job."""

    def __init__(self, spark: SparkSession):
        self._spark = spark
        self._jobs = LevelJobs(spark.sparkContext)
        self._told: dict[Hashable, tuple[object, Broadcast[Any]]] = {}

    @property
    def cores(self) -> int:
        return int(self._spark.sparkContext.defaultParallelism)

    def run(
        self, tasks: Sequence[StagedTask], joins: Sequence[SharedJoinTask], job: StageJob
    ) -> list[list[dict[str, Any]]]:
        """The reports of all tasks of a batch of ticks, by plan. The levels of all plans are aligned. Files that tasks
        have written are not named in the catalog yet."""
        held = [self._broadcast(task.number, task) for task in tasks]
        shared = [self._broadcast(("join", task.number), task) for task in joins]
        payload, levels = pickle.dumps(job, pickle.HIGHEST_PROTOCOL), max(task.staged.levels for task in tasks)
        kernels = [_kernel(held, shared, payload, level) for level in range(levels)]
        return read_reports(self._jobs.run(kernels, job.places, ROWS), len(tasks))

    def _broadcast(self, key: Hashable, what: object) -> Broadcast[Any]:
        known = self._told.get(key)
        if known is not None and known[0] is what:
            return known[1]
        self._forget(key)
        held = self._spark.sparkContext.broadcast(what)
        self._told[key] = (what, held)
        return held

    def forget(self, number: int) -> None:
        """Destroy the broadcast of a plan."""
        self._forget(number)

    def forget_join(self, number: int) -> None:
        """Destroy the broadcast of a shared join."""
        self._forget(("join", number))

    def _forget(self, key: Hashable) -> None:
        known = self._told.pop(key, None)
        if known is not None:
            known[1].destroy()


def _kernel(
    held: Sequence[Broadcast[StagedTask]], shared: Sequence[Broadcast[SharedJoinTask]], payload: bytes, level: int
) -> LevelKernel:
    def kernel(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        job: StageJob = pickle.loads(payload)
        return run_stages([one.value for one in held], [one.value for one in shared], job, level, rows)

    return kernel
