"""The jobs of continuous plans in the Spark home: a batch of ticks is one job, and exchanges are Spark's shuffle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import SparkSession

from windrow.dataplane.kernels.plan_stage import REPORT, ROWS, StageBatch, StagedTask, read_reports, run_stages
from windrow.dataplane.levels import LevelJobs, LevelKernel


class PlanStages:
    """Runs the jobs. A plan is broadcast once; what a batch reads goes with its job."""

    def __init__(self, spark: SparkSession):
        self._spark = spark
        self._jobs = LevelJobs(spark.sparkContext)
        self._told: dict[int, tuple[StagedTask, Broadcast[StagedTask]]] = {}

    @property
    def cores(self) -> int:
        return int(self._spark.sparkContext.defaultParallelism)

    def run(self, task: StagedTask, batch: StageBatch) -> list[dict[str, Any]]:
        """The reports of all tasks of a batch of ticks. Files that they have written are not named in the catalog
        yet."""
        held, places = self._broadcast(task), len(batch.ranges)
        kernels = [_kernel(held, batch, level) for level in range(task.staged.levels)]
        found = self._jobs.run(kernels, places, ROWS)
        return read_reports([p for p, at in zip(*_columns(found), strict=True) if at == REPORT])

    def _broadcast(self, task: StagedTask) -> Broadcast[StagedTask]:
        known = self._told.get(task.number)
        if known is not None and known[0] is task:
            return known[1]
        self.forget(task.number)
        held = self._spark.sparkContext.broadcast(task)
        self._told[task.number] = (task, held)
        return held

    def forget(self, number: int) -> None:
        """Destroy the broadcast of a plan."""
        known = self._told.pop(number, None)
        if known is not None:
            known[1].destroy()


def _columns(rows: pa.Table) -> tuple[list[bytes], list[str]]:
    return rows.column("payload").to_pylist(), rows.column("input").to_pylist()


def _kernel(held: Broadcast[StagedTask], batch: StageBatch, level: int) -> LevelKernel:
    def kernel(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return run_stages(held.value, batch, level, rows)

    return kernel
