"""The jobs of continuous plans in the Spark home: a batch of ticks of all plans that are due is one job, and exchanges
are Spark's shuffle."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import SparkSession

from windrow.dataplane.kernels.plan_stage import run_stages
from windrow.dataplane.kernels.stage_messages import ROWS, SharedJoinTask, StagedTask, StageJob, read_reports
from windrow.dataplane.levels import LevelJobs, LevelKernel

MOST_TOLD = 16
"""So many broadcasts are held."""


@dataclass(frozen=True, eq=False)
class _Told:
    """What tasks know by one broadcast, and the place of each member in it, by identity."""

    members: tuple[StagedTask | SharedJoinTask, ...]
    places: dict[int, int]
    held: Broadcast[tuple[Any, ...]]


_Picked = tuple[Broadcast[tuple[Any, ...]] | None, tuple[int, ...]]
"""A broadcast, and the places of some of its members. Tasks get no object of this module, which they would import."""


class PlanStages:
    """Runs the jobs. Plans and joins that plans share are broadcast when a job first has them, all of a job together:
    to name a hundred broadcasts in a job takes some 200 calls of the JVM. What a batch reads goes with its job."""

    def __init__(self, spark: SparkSession):
        self._spark = spark
        self._jobs = LevelJobs(spark.sparkContext)
        self._told: list[_Told] = []
        self._forgotten: list[Callable[[object], bool]] = []
        self._running = threading.Lock()

    @property
    def cores(self) -> int:
        return int(self._spark.sparkContext.defaultParallelism)

    def run(
        self, tasks: Sequence[StagedTask], joins: Sequence[SharedJoinTask], job: StageJob
    ) -> list[list[dict[str, Any]]]:
        """The reports of all tasks of a batch of ticks, by plan. The levels of all plans are aligned. Files that tasks
        have written are not named in the catalog yet."""
        try:
            with self._running:
                held, shared = self._broadcast(tasks), self._broadcast(joins)
                payload, levels = pickle.dumps(job, pickle.HIGHEST_PROTOCOL), max(task.staged.levels for task in tasks)
                kernels = [_kernel(held, shared, payload, level) for level in range(levels)]
                found = self._jobs.run(kernels, job.places, ROWS)
        finally:
            self._destroy_forgotten()
        return read_reports(found, len(tasks))

    def _broadcast(self, wanted: Sequence[StagedTask | SharedJoinTask]) -> _Picked:
        """A broadcast that has all of these, perhaps among others: fewer plans are due at some ticks than at others."""
        if not wanted:
            return None, ()
        told = next((one for one in self._told if all(id(task) in one.places for task in wanted)), None)
        if told is None:
            places = {id(task): i for i, task in enumerate(wanted)}
            told = _Told(tuple(wanted), places, self._spark.sparkContext.broadcast(tuple(wanted)))
        self._told = [told, *(one for one in self._told if one is not told)]
        self._destroy(self._told[MOST_TOLD:])
        return told.held, tuple(told.places[id(task)] for task in wanted)

    def forget(self, number: int) -> None:
        """Destroy the broadcasts with a plan, when no job uses them."""
        self._forgotten.append(lambda one: isinstance(one, StagedTask) and one.number == number)
        self._destroy_forgotten()

    def forget_join(self, number: int) -> None:
        """Destroy the broadcasts with a shared join, when no job uses them."""
        self._forgotten.append(lambda one: isinstance(one, SharedJoinTask) and one.number == number)
        self._destroy_forgotten()

    def _destroy_forgotten(self) -> None:
        """Destroy what is forgotten, now or at the end of the job that runs."""
        if self._forgotten and self._running.acquire(blocking=False):
            try:
                tests, self._forgotten = self._forgotten, []
                self._destroy([told for told in self._told if any(test(o) for test in tests for o in told.members)])
            finally:
                self._running.release()

    def _destroy(self, gone: Sequence[_Told]) -> None:
        self._told = [told for told in self._told if told not in gone]
        for told in gone:
            told.held.destroy()


def _kernel(told: _Picked, shared: _Picked, payload: bytes, level: int) -> LevelKernel:
    def kernel(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        job: StageJob = pickle.loads(payload)
        tasks, joins = ([] if held is None else [held.value[at] for at in places] for held, places in (told, shared))
        return run_stages(tasks, joins, job, level, rows)

    return kernel
