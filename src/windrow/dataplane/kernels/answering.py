"""The kernel of a tick: it loads a bucket's blocks into a synopsis, which answers all due queries as in the driver
home.

A bucket has all cells of its groups, so its rows are final: HAVING is applied here. ORDER BY and LIMIT are applied here
and once more in the driver, over the parts of all buckets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from windrow.dataplane.answers.finishing import Finisher
from windrow.dataplane.kernels.loading import Buckets, StoredCells
from windrow.dataplane.kernels.worker_process import settle
from windrow.errors import first_line
from windrow.optimizer.sharing.derivations import Derivation, read_of
from windrow.plan.accumulators import Accumulator
from windrow.plan.nodes import Finalise
from windrow.synopses import BasicIntervalSynopsis, Cells, Lookup, LookupAnswer
from windrow.synopses.answering.deriving import kept_lookups, with_derived
from windrow.synopses.cells.groups import Groups
from windrow.types import POINT_MAX
from windrow.windows import Points

ANSWER_SCHEMA = pa.schema(
    [
        ("query", pa.int32()),
        ("rows", pa.binary()),
        ("overflows", pa.int64()),
        ("groups", pa.int64()),
        ("error", pa.string()),
    ]
)
"""One row per bucket and answered query: its part of the answer as an Arrow stream, or the error."""


@dataclass(frozen=True)
class WindowRequest:
    """The due windows of a query; starts are not before the point from which it counts tuples."""

    query: int
    starts: Points
    ends: Points


@dataclass(frozen=True)
class QueryTask:
    """A query as tasks know it: its plan, and the accumulators derived from those that its synopsis keeps (SS4)."""

    plan: Finalise
    derived: tuple[Derivation, ...] = ()


@dataclass(frozen=True)
class Question:
    """What a job answers. Due queries are given by their index in the list that is broadcast for many jobs."""

    stored: StoredCells
    asked: tuple[WindowRequest, ...]


@dataclass(frozen=True)
class BucketAnswer:
    """A bucket's part of one query's answers."""

    query: int
    rows: pa.Table | None
    overflows: int
    groups: int
    error: str | None = None

    def row(self) -> dict[str, object]:
        return {
            "query": self.query,
            "rows": packed(self.rows),
            "overflows": self.overflows,
            "groups": self.groups,
            "error": self.error,
        }

    @classmethod
    def read(cls, table: pa.Table) -> Iterator[BucketAnswer]:
        """Read rows of ANSWER_SCHEMA; the parts are not copied."""
        parts = (part for chunk in table.column("rows").chunks for part in chunk)
        for part, row in zip(parts, table.drop_columns(["rows"]).to_pylist(), strict=True):
            yield cls(row["query"], unpacked(part.as_buffer()), row["overflows"], row["groups"], row["error"])


def answer_buckets(
    queries: Sequence[QueryTask], question: Question, buckets: Iterable[int], max_value_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The answers of these buckets, in batches of ANSWER_SCHEMA."""
    settle()
    blocks = Buckets(question.stored, accumulators_read([queries[one.query] for one in question.asked]))
    finisher = Finisher(lambda: max_value_bytes)
    try:
        for bucket in buckets:
            rows = [one.row() for one in _answer(queries, question, blocks, bucket, finisher)]
            if rows:
                yield pa.RecordBatch.from_pylist(rows, schema=ANSWER_SCHEMA)
    finally:
        finisher.close()


def _answer(
    queries: Sequence[QueryTask], question: Question, blocks: Buckets, bucket: int, finisher: Finisher
) -> Iterator[BucketAnswer]:
    synopsis = question.stored.synopsis()
    low = min(int(one.starts.min()) for one in question.asked)
    high = max(int(one.ends.max()) for one in question.asked)
    for cells in cells_between(blocks, bucket, synopsis.groups, low, high):
        synopsis.deposit(cells)
    synopsis.close(POINT_MAX)
    if synopsis.groups.count == 1 and question.stored.bucketed_by:
        return
    failed: set[int] = set()
    lookups = [bucket_lookup(queries[one.query].plan, one) for one in question.asked]
    derived = {str(i): one.derived for i, one in enumerate(queries) if one.derived}
    for looked in with_derived(synopsis.answer(kept_lookups(lookups, derived)), lookups, derived):
        query = int(looked.query)
        if query not in failed:
            part = _part(queries[query].plan, query, looked, synopsis, finisher)
            if part.error is not None:
                failed.add(query)
            yield part


def accumulators_read(queries: Sequence[QueryTask]) -> tuple[Accumulator, ...]:
    """The accumulators that the queries read."""
    return tuple(dict.fromkeys(a for one in queries for a in read_of(one.plan.input, one.derived)))


def cells_between(blocks: Buckets, bucket: int, groups: Groups, low: int, high: int) -> Iterator[Cells]:
    """The cells of a bucket in panes that start in [low, high)."""
    for cells in blocks.cells(bucket, groups):
        seen = (cells.panes >= low) & (cells.panes < high)
        yield cells if seen.all() else cells.where(seen)


def bucket_lookup(plan: Finalise, asked: WindowRequest) -> Lookup:
    """The lookup of a query's due windows in a bucket's synopsis."""
    aggregate = plan.input
    reads = aggregate.accumulators
    return Lookup(str(asked.query), asked.starts, asked.ends, aggregate.presence, reads, not aggregate.cell_keys)


def _part(
    plan: Finalise, query: int, looked: LookupAnswer, synopsis: BasicIntervalSynopsis, finisher: Finisher
) -> BucketAnswer:
    groups = synopsis.groups.count - 1
    try:
        rows, spoiled = finisher.part(plan, looked, synopsis.groups)
    except Exception as error:
        return BucketAnswer(query, None, 0, groups, first_line(error))
    return BucketAnswer(query, rows, spoiled, groups)


def packed(table: pa.Table | None) -> bytes | None:
    """A table as an Arrow stream."""
    if table is None:
        return None
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpacked(stream: object) -> pa.Table | None:
    """The inverse of `packed`."""
    return None if stream is None else pa.ipc.open_stream(pa.py_buffer(stream)).read_all()
