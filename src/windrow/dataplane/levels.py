"""Jobs that run kernels level by level, with Spark's shuffle between the levels.

They are jobs over RDDs: two tasks that do nothing take 0.13 s on a busy machine, and the same with a DataFrame's
`mapInArrow` 0.23 s and twice the processor's time, since it is analysed and planned. What flows are few messages, not
tuples: rows of `schema`, of which the first column is the place that they are for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import RDD, SparkContext

LevelKernel = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Message = tuple[int, tuple[Any, ...]]
"""A place, and the values of a row."""


class LevelJobs:
    """Runs the jobs of a session."""

    def __init__(self, context: SparkContext):
        self._context = context
        self._places: dict[int, RDD[int]] = {}

    def run(self, kernels: Sequence[LevelKernel], places: int, schema: pa.Schema) -> pa.Table:
        """What the last of the kernels gives in all places. The first gets, in each place, a row with its number; the
        others what the one before them sent there."""
        if places not in self._places:
            self._places[places] = self._context.parallelize(range(places), places)
        rows = self._places[places].mapPartitionsWithIndex(_first(kernels[0]))
        for kernel in kernels[1:]:
            rows = rows.partitionBy(places, _place).mapPartitions(_later(kernel, schema))
        return pa.Table.from_batches([_batch(rows.collect(), schema)])


def _first(kernel: LevelKernel) -> Callable[[int, Iterable[int]], Iterator[Message]]:
    def run(place: int, _: Iterable[int]) -> Iterator[Message]:
        return _messages(kernel([pa.RecordBatch.from_pydict({"place": [place]})]))

    return run


def _later(kernel: LevelKernel, schema: pa.Schema) -> Callable[[Iterable[Message]], Iterator[Message]]:
    def run(messages: Iterable[Message]) -> Iterator[Message]:
        return _messages(kernel([_batch(list(messages), schema)]))

    return run


def _messages(batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    for batch in batches:
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield row[0], row


def _batch(messages: Sequence[Message], schema: pa.Schema) -> pa.RecordBatch:
    values = zip(*(row for _, row in messages), strict=True) if messages else ([] for _ in schema)
    arrays = [pa.array(one, field.type) for one, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _place(place: int) -> int:
    return place
