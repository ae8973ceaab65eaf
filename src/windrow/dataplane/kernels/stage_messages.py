"""What the driver and the tasks of continuous plans tell each other.

A job is a batch of ticks of several plans. The tasks and shared joins are broadcast once; a `StageJob` goes with its
job. What tasks send to each other and to the driver are rows of ROWS.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from windrow.dataplane.kernels.plan_tables import StoredRelation
from windrow.dataplane.stores import KeptColumn, ReadColumn, StoredRows
from windrow.operators.sharing.subplans import SubPlan
from windrow.operators.stages.cutting import StagedPlan
from windrow.operators.stages.ranges import Range
from windrow.operators.state import is_strict
from windrow.operators.ticks import DueTicks, OccupiedTicks
from windrow.optimizer.common_join import JoinRoute
from windrow.plan.algebra.nodes import ContinuousPlan

STATE, CHANGES, VIEW, ANSWERS = "state", "changes", "view", "answers"
"""Kinds of the parts that a plan writes."""

SHARED = "plans/shared"
"""The owner of files with parts of several plans."""

TOGETHER_ROWS = 50_000
"""What a plan writes at once is written with that of other plans up to this size: a file costs two syncs, and stays as
long as any of its parts."""

REPORT = ""
ROWS = pa.schema(
    [
        ("place", pa.int32()),
        ("source", pa.int32()),
        ("plan", pa.int32()),
        ("input", pa.string()),
        ("payload", pa.binary()),
    ]
)
"""A place (the number of a range) that the row is for, the place of the task that sends it, the number of the plan in
the job, and a payload. `input` is the path of the exchange that the rows of the payload (an Arrow stream) belong to;
REPORT: it is what a task has done and written for a plan, as JSON. Every task reports, so each place of the next level
gets at least one row, and reports travel through to the driver."""

MOST_PAYLOAD_BYTES = 64 << 20

Sent = tuple[int, int, int, str, bytes]
"""A row of ROWS."""


@dataclass(frozen=True)
class StagedTask:
    """What tasks know of a plan, for all batches. `columns`: by window, the columns of its store."""

    root: str
    number: int
    plan: ContinuousPlan
    staged: StagedPlan
    columns: tuple[tuple[KeptColumn, ...], ...]
    explicit_expiry: bool
    max_value_bytes: int

    @property
    def is_withdrawn(self) -> bool:
        """Whether rows of the answer are withdrawn by a '-'."""
        return self.explicit_expiry or is_strict(self.plan.root)


@dataclass(frozen=True)
class StoredPart:
    """A committed part of a plan: rows of a file, the commit, and the range of buckets that they are of."""

    path: str
    offset: int
    length: int
    seq: int
    buckets: Range
    operator: str = ""
    layout: str = ""
    lo: int = 0
    hi: int = 0


@dataclass(frozen=True)
class StoredWindow:
    """The files of a window's store that may have tuples for a batch; rows below `since` are not for the plan."""

    files: tuple[StoredRows, ...]
    since: int
    predicate: KeptColumn | None


@dataclass(frozen=True)
class MergedView:
    """How a view is merged: with the changes of the batch if `with_new`; by intervals of expiration of this width, each
    in a file of its own (None: as one part)."""

    with_new: bool
    width: int | None


@dataclass(frozen=True)
class StageBatch:
    """A batch of ticks of a plan.

    `token` names the state after it, `before` that before it; `known` has the commit of the state of earlier tokens
    since state was last merged. `state` are the parts of the state before; it is merged if `merging`. `begins`: the
    plan begins on tuples of the past; `is_silent`: it only builds its state. `view`: how the view is merged (None: it
    is not); `shown` are the parts of it that are written anew. `is_derived`: the changes become tuples of a stream.
    `occupied`: the ticks that a periodic plan answers. `subplans`: those that it may share, with their levels.
    `relations`: the tables that the plan reads.
    """

    token: str
    before: str | None
    known: tuple[tuple[str, int], ...]
    due: DueTicks
    ranges: tuple[Range, ...]
    windows: tuple[StoredWindow, ...]
    state: tuple[StoredPart, ...]
    shown: tuple[StoredPart, ...]
    merging: bool
    begins: bool
    is_silent: bool = False
    view: MergedView | None = None
    is_derived: bool = False
    occupied: OccupiedTicks | None = None
    subplans: tuple[tuple[int, SubPlan], ...] = ()
    relations: tuple[StoredRelation, ...] = ()


@dataclass(frozen=True)
class JoinTaker:
    """What a plan takes of the results of a shared join: at the path of its own join, in place of the windows below
    it."""

    path: str
    route: JoinRoute
    windows: frozenset[int]
    renamed: tuple[str, ...] | None = None
    """The columns of its join that the plan's changes have, if it only renames them and all of it is in one stage."""


@dataclass(frozen=True)
class SharedJoinTask:
    """What tasks know of a join that several plans have in common, which is the root of `plan`: the columns of the
    stores of its windows, and whether all its rows are in one place."""

    root: str
    number: int
    plan: ContinuousPlan
    columns: tuple[tuple[ReadColumn, ...], ...]
    takers: tuple[JoinTaker, ...]
    single: bool
    has_until: bool
    max_value_bytes: int


@dataclass(frozen=True)
class SharedJoinBatch:
    """A shared join in a batch of ticks, at the level at which its takers join. `plans` are their numbers in the job,
    in the order of the takers."""

    level: int
    due: DueTicks
    ranges: tuple[Range, ...]
    windows: tuple[StoredWindow, ...]
    plans: tuple[int, ...]


@dataclass(frozen=True)
class StageJob:
    """What one job reads: a batch for every task, and one for every shared join, in the order of those."""

    batches: tuple[StageBatch, ...]
    joins: tuple[SharedJoinBatch, ...] = ()

    @property
    def places(self) -> int:
        return max(len(batch.ranges) for batch in self.batches)


def record_batches(rows: Iterable[Sent]) -> Iterator[pa.RecordBatch]:
    """Rows of ROWS in few batches: each one costs Spark more than a row."""
    held, size = list[Sent](), 0
    for row in rows:
        if held and size + len(row[-1]) > MOST_PAYLOAD_BYTES:
            yield _record_batch(held)
            held, size = [], 0
        held.append(row)
        size += len(row[-1])
    if held:
        yield _record_batch(held)


def _record_batch(rows: list[Sent]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, ROWS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROWS)


def read_reports(rows: pa.Table, plans: int) -> list[list[dict[str, Any]]]:
    """The reports of all tasks for each of so many plans, by level and place."""
    found: list[list[dict[str, Any]]] = [[] for _ in range(plans)]
    names = ("plan", "input", "payload")
    for plan, path, payload in zip(*(rows.column(name).to_pylist() for name in names), strict=True):
        if path == REPORT:
            found[plan].append(json.loads(payload))
    return [sorted(mine, key=lambda one: (one["level"], one["place"])) for mine in found]
