"""The kernel of corrections: what late cells change in answers that were given, bucket by bucket (LATE REVISE).

The windows are looked up as they were, and once more with the late cells of the bucket merged in, as the driver home
does it. All rows of a group are in one bucket, so rows that stay need not leave it; only where there is a LIMIT the
first of all buckets are needed to know what has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windrow.dataplane.answers.finishing import Finisher
from windrow.dataplane.answers.revisions import bag_difference
from windrow.dataplane.kernels.answering import (
    QueryTask,
    WindowRequest,
    cells_between,
    lookup_of,
    packed,
    unpacked,
    wanted_by,
)
from windrow.dataplane.kernels.loading import Buckets, StoredCells
from windrow.synopses import BasicIntervalSynopsis, Looked
from windrow.synopses.answering.deriving import answered
from windrow.synopses.lookups import merged
from windrow.types import POINT_MAX

Mask = npt.NDArray[np.bool_]

CORRECTION_SCHEMA = pa.schema(
    [("query", pa.int32()), ("was", pa.binary()), ("now", pa.binary()), ("error", pa.string())]
)
"""A row for each bucket and query that it has something to say of: two Arrow streams, or why there are none."""


@dataclass(frozen=True)
class RevisedWindows:
    """Windows of a query that late cells may change; those that had been answered, and those that are to be."""

    asked: WindowRequest
    before: Mask
    after: Mask


@dataclass(frozen=True)
class Revision:
    """What a job answers: the windows of these queries, without the cells that are held apart, and with them."""

    stored: StoredCells
    late: StoredCells
    revised: tuple[RevisedWindows, ...]

    @property
    def bounds(self) -> tuple[int, int]:
        """All windows lie between these points."""
        asked = [one.asked for one in self.revised]
        return min(int(one.starts.min()) for one in asked), max(int(one.ends.max()) for one in asked)


@dataclass(frozen=True)
class BucketCorrection:
    """Parts of a query's answers by one bucket, as `Finisher.part` gives them. Without LIMIT, rows in both are in
    neither."""

    query: int
    was: pa.Table | None
    now: pa.Table | None
    error: str | None = None

    def row(self) -> dict[str, object]:
        return {"query": self.query, "was": packed(self.was), "now": packed(self.now), "error": self.error}

    @classmethod
    def of(cls, row: dict[str, object]) -> BucketCorrection:
        error = row["error"]
        told = None if error is None else str(error)
        return cls(int(str(row["query"])), unpacked(row["was"]), unpacked(row["now"]), told)


def revise_buckets(
    queries: Sequence[QueryTask], revision: Revision, buckets: Iterable[int]
) -> Iterator[pa.RecordBatch]:
    """The corrections of these buckets, in batches of CORRECTION_SCHEMA."""
    wanted = wanted_by([queries[one.asked.query] for one in revision.revised])
    held, late = Buckets(revision.stored, wanted), Buckets(revision.late, wanted)
    finisher = Finisher()
    try:
        for bucket in buckets:
            rows = [one.row() for one in _revise(queries, revision, held, late, bucket, finisher)]
            if rows:
                yield pa.RecordBatch.from_pylist(rows, schema=CORRECTION_SCHEMA)
    finally:
        finisher.close()


def _revise(
    queries: Sequence[QueryTask], revision: Revision, held: Buckets, late: Buckets, bucket: int, finisher: Finisher
) -> Iterator[BucketCorrection]:
    synopsis = revision.stored.synopsis()
    low, high = revision.bounds
    for cells in cells_between(late, bucket, synopsis.groups, low, high):
        synopsis.hold_late(cells)
    left = [one for one in revision.revised if synopsis.has_late or _needs_all(queries[one.asked.query], one)]
    if not left:
        return
    for cells in cells_between(held, bucket, synopsis.groups, low, high):
        synopsis.deposit(cells)
    synopsis.close(POINT_MAX)
    if synopsis.groups.count == 1 and revision.stored.bucketed_by:
        return
    alone = synopsis.late_alone()
    for one in left:
        part = _part(queries[one.asked.query], one, synopsis, alone, finisher)
        if any(one is not None for one in (part.was, part.now, part.error)):
            yield part


def _needs_all(told: QueryTask, revised: RevisedWindows) -> bool:
    """Whether buckets without a late cell have a say: what is among the first rows, and windows that had no answer."""
    return told.plan.limit is not None or not np.array_equal(revised.before, revised.after)


def _part(
    told: QueryTask,
    revised: RevisedWindows,
    synopsis: BasicIntervalSynopsis,
    alone: BasicIntervalSynopsis,
    finisher: Finisher,
) -> BucketCorrection:
    query, lookup = revised.asked.query, lookup_of(told.plan, revised.asked)
    derived = {lookup.query: told.derived}
    was = next(answered(synopsis.answer, [lookup], derived))
    now = merged(was, next(answered(alone.answer, [lookup], derived)))

    def rows(looked: Looked, there: Mask) -> pa.Table:
        table, _ = finisher.part(told.plan, looked, synopsis.groups)
        return table.filter(pa.array(there[table.column("w").to_numpy()]))

    try:
        old, new = rows(was, revised.before), rows(now, revised.after)
    except Exception as error:
        return BucketCorrection(query, None, None, str(error).splitlines()[0])
    if told.plan.limit is None:
        gone, come = bag_difference(old, new)
        old, new = old.take(gone), new.take(come)
    return BucketCorrection(query, old if old.num_rows else None, new if new.num_rows else None)
