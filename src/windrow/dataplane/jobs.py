"""Spark jobs that can be cancelled together."""

from __future__ import annotations

from contextlib import suppress
from itertools import count

from pyspark import SparkContext

_numbers = count(1)

SNAPSHOTS = "snapshots"
"""The pool of Spark's fair scheduler in which one-time queries run."""


class JobGroup:
    """A job group of the Spark context that runs in this process; without a context it does nothing."""

    def __init__(self) -> None:
        self._name = f"windrow-{next(_numbers)}"

    def join(self, pool: str | None = None) -> None:
        """From now on, the jobs that this thread starts belong to the group, and run in a pool of the fair scheduler
        (None: in that of the thread)."""
        context = SparkContext._active_spark_context
        if context is not None:
            with suppress(Exception):  # if the JVM has ended, the job itself says so
                context.setJobGroup(self._name, "windrow sql")
                if pool is not None:
                    context.setLocalProperty("spark.scheduler.pool", pool)

    def cancel(self) -> None:
        """Cancel the jobs of the group that run."""
        context = SparkContext._active_spark_context
        if context is not None:
            with suppress(Exception):
                context.cancelJobGroup(self._name)

    def end(self) -> None:
        """Cancel the jobs of the group, those that begin from now on, too: a thread may be about to start one."""
        context = SparkContext._active_spark_context
        if context is not None:
            with suppress(Exception):
                context._jsc.sc().cancelJobGroupAndFutureJobs(self._name)
