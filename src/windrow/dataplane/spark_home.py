"""The jobs of the Spark home: one answers all due queries of a synopsis, one merges its small blocks.

A task handles some of the buckets. Each job carries the windows to answer; the plans of the queries are in a broadcast
that is kept until the queries change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession

from windrow.dataplane.blocks import BlockRef
from windrow.dataplane.kernels import (
    BucketAnswer,
    BucketCorrection,
    Collapse,
    QueryTask,
    Question,
    Revision,
    StoredCells,
    WindowRequest,
    answer_buckets,
    fold_buckets,
    revise_buckets,
)
from windrow.plan.accumulators import Accumulator

LEAST_BUCKETS = 64
"""The least number of buckets of a synopsis, so that those of one task fit its memory. More cores give more buckets."""

BUCKETS_PER_CORE = 8
ROWS_PER_TASK = 200_000
"""Below this many cells another task costs more than it saves (a small job takes 0.04 s)."""

_ANSWERED = "query INT, rows BINARY, overflows BIGINT, groups BIGINT, error STRING"
_CORRECTED = "query INT, was BINARY, now BINARY, error STRING"
Queries = tuple[QueryTask, ...]
Batches = Iterable[pa.RecordBatch]


class SparkHome:
    """Runs the jobs of one state directory. Only one thread at a time may use a synopsis."""

    def __init__(self, spark: SparkSession, root: Path, max_value_bytes: Callable[[], int]):
        self._spark = spark
        self.root = str(root.resolve())
        self._max_value_bytes = max_value_bytes
        self._told: dict[str, tuple[Queries, Broadcast[Queries]]] = {}

    @property
    def cores(self) -> int:
        return int(self._spark.sparkContext.defaultParallelism)

    def buckets(self, keys: int) -> int:
        """The number of buckets of a synopsis; one if there are no keys, hence one group."""
        return max(LEAST_BUCKETS, BUCKETS_PER_CORE * self.cores) if keys else 1

    def answer(
        self, stored: StoredCells, name: str, queries: Queries, asked: Sequence[WindowRequest], rows: int
    ) -> tuple[list[list[BucketAnswer]], int]:
        """The buckets' answers to each query in `asked`, and the number of groups. `rows` is the number of cells in the
        blocks. The queries are broadcast once, under `name`."""
        question, held = Question(stored, tuple(asked)), self._broadcast(name, queries)
        most = self._max_value_bytes()

        def kernel(batches: Batches) -> Iterator[pa.RecordBatch]:
            return answer_buckets(held.value, question, _numbers(batches), most)

        table = self._over(stored.buckets, self._tasks(stored, rows)).mapInArrow(kernel, _ANSWERED).toArrow()
        found = list(BucketAnswer.read(table))
        del table
        by_query: dict[int, list[BucketAnswer]] = {one.query: [] for one in asked}
        for one in found:
            by_query[one.query].append(one)
        groups = sum(one.groups for one in by_query[asked[0].query])
        return [by_query[one.query] for one in asked], groups

    def revise(self, revision: Revision, name: str, queries: Queries, rows: int) -> list[list[BucketCorrection]]:
        """The buckets' corrections of each query; `rows` and `name` as in `answer`."""
        stored, held = revision.stored, self._broadcast(name, queries)
        most = self._max_value_bytes()

        def kernel(batches: Batches) -> Iterator[pa.RecordBatch]:
            return revise_buckets(held.value, revision, _numbers(batches), most)

        table = self._over(stored.buckets, self._tasks(stored, rows)).mapInArrow(kernel, _CORRECTED).toArrow()
        by_query: dict[int, list[BucketCorrection]] = {one.asked.query: [] for one in revision.revised}
        for row in table.to_pylist():
            one = BucketCorrection.of(row)
            by_query[one.query].append(one)
        return [by_query[one.asked.query] for one in revision.revised]

    def fold(
        self, stored: StoredCells, accumulators: Sequence[Accumulator], rows: int, most: int, collapse: Collapse | None
    ) -> list[tuple[BlockRef, int, int]]:
        """Merge the blocks into at most `most` new ones, each with its first and last pane. They are not named in the
        catalog yet."""
        accumulators = tuple(accumulators)

        def kernel(batches: Batches) -> Iterator[pa.RecordBatch]:
            made = fold_buckets(stored, accumulators, _numbers(batches), collapse)
            if made is not None:
                ref, first, last = made
                report = json.dumps({**asdict(ref), "first": first, "last": last})
                yield pa.RecordBatch.from_pydict({"wrote": [report]})

        tasks = min(most, self._tasks(stored, rows))
        table = self._over(stored.buckets, tasks).mapInArrow(kernel, "wrote STRING").toArrow()
        return [_written(text) for text in table.column("wrote").to_pylist()]

    def _tasks(self, stored: StoredCells, rows: int) -> int:
        """The number of tasks for this number of cells: several per core, so that no core waits long for another."""
        return max(1, min(stored.buckets, 4 * self.cores, rows // ROWS_PER_TASK))

    def _over(self, buckets: int, tasks: int) -> DataFrame:
        return self._spark.range(0, buckets, 1, tasks)

    def _broadcast(self, name: str, queries: Queries) -> Broadcast[Queries]:
        known = self._told.get(name)
        if known is not None and _same(known[0], queries):
            return known[1]
        self.forget(name)
        held = self._spark.sparkContext.broadcast(queries)
        self._told[name] = (queries, held)
        return held

    def forget(self, *names: str) -> None:
        """Destroy the broadcasts of these names."""
        for name in names:
            known = self._told.pop(name, None)
            if known is not None:
                known[1].destroy()


def _numbers(batches: Batches) -> list[int]:
    """The numbers of the buckets of a task."""
    return [number for batch in batches for number in batch.column(0).to_pylist()]


def _same(queries: Queries, others: Queries) -> bool:
    if len(queries) != len(others):
        return False
    return all(a.plan is b.plan and a.derived == b.derived for a, b in zip(queries, others, strict=True))


def _written(text: str) -> tuple[BlockRef, int, int]:
    report = json.loads(text)
    first, last = report.pop("first"), report.pop("last")
    return BlockRef(**report), first, last
