"""What kernels import in a Spark worker is hidden from the garbage collector; in the driver nothing is."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from windrow.dataplane.kernels.worker_process import settle


def test_nothing_is_hidden_in_the_driver() -> None:
    before = gc.get_freeze_count()
    settle()
    assert gc.get_freeze_count() == before


@pytest.mark.slow
def test_imports_are_hidden_in_a_worker(spark: Any) -> None:
    def task(_: Iterable[int]) -> Iterator[tuple[int, int]]:
        settle()
        first = gc.get_freeze_count()
        [[] for _ in range(10_000)]
        settle()
        yield first, gc.get_freeze_count()

    ((first, second),) = spark.sparkContext.parallelize([0], 1).mapPartitions(task).collect()
    assert first > 10_000
    assert second == first
