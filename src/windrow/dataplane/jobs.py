"""Spark jobs that can be cancelled together, and the pools of Spark's fair scheduler that they run in.

Tasks are not preempted. `fair_pools.xml` gives a free core to micro-batches and ticks first, so a window update waits
for one task of a one-time query at most. In a user's session the pools are as that session has them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

from pyspark import SparkContext

_numbers = count(1)

INGEST, TICKS, SNAPSHOTS = "ingest", "ticks", "snapshots"
"""The pools of micro-batches, of ticks, and of one-time queries."""

_POOL = "spark.scheduler.pool"
_of_thread = threading.local()


@contextmanager
def in_pool(pool: str) -> Iterator[None]:
    """Within the block, or the function, the jobs that this thread starts run in a pool."""
    before = _pool()
    _set_pool(pool)
    try:
        yield
    finally:
        _set_pool(before)


def stay_in_pool(pool: str) -> None:
    """From now on, the jobs that this thread starts run in a pool. The thread uses no other pool, so the JVM is told
    once."""
    context = SparkContext._active_spark_context
    if context is not None and getattr(_of_thread, "told", None) is not context:
        _set_pool(pool)
        _of_thread.told = context


def _pool() -> str | None:
    context = SparkContext._active_spark_context
    with suppress(Exception):  # if the JVM has ended, the job itself says so
        return None if context is None else context.getLocalProperty(_POOL)
    return None


def _set_pool(pool: str | None) -> None:
    context = SparkContext._active_spark_context
    if context is not None:
        with suppress(Exception):
            context._jsc.setLocalProperty(_POOL, pool)


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
                    context.setLocalProperty(_POOL, pool)

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
