"""Spark jobs that can be cancelled together."""

from __future__ import annotations

from contextlib import suppress
from itertools import count

from pyspark import SparkContext

_numbers = count(1)


class JobGroup:
    """A job group of the Spark context that runs in this process; without a context it does nothing."""

    def __init__(self) -> None:
        self._name = f"windrow-{next(_numbers)}"

    def join(self) -> None:
        """From now on, the jobs that this thread starts belong to the group."""
        context = SparkContext._active_spark_context
        if context is not None:
            with suppress(Exception):  # if the JVM has ended, the job itself says so
                context.setJobGroup(self._name, "windrow sql")

    def cancel(self) -> None:
        """Cancel the jobs of the group that run."""
        context = SparkContext._active_spark_context
        if context is not None:
            with suppress(Exception):
                context.cancelJobGroup(self._name)
