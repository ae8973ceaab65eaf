"""Joins that plans of a job have in common, in the place of a task: each runs once, and its results are routed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from windrow.dataplane.kernels.stage_messages import SharedJoinBatch, SharedJoinTask, StoredWindow
from windrow.dataplane.kernels.stage_worker import StageWorker
from windrow.dataplane.stores import MappedFiles, ReadColumn, Selected, read_rows
from windrow.errors import first_line
from windrow.operators.advance import joined
from windrow.operators.scan import StreamRows, read_window
from windrow.operators.sharing.routing import routed_outputs
from windrow.operators.tables.edges import Edge
from windrow.operators.ticks import DueTicks
from windrow.plan.algebra.nodes import Join, Window


@dataclass(frozen=True)
class Share:
    """The share of rows that a place takes where they may be anywhere."""

    place: int
    places: int

    def of(self, rows: pa.Table) -> pa.Table:
        first, end = (rows.num_rows * at // self.places for at in (self.place, self.place + 1))
        return rows.slice(first, end - first)


def window_rows(
    mapped: MappedFiles,
    window: Window,
    stored: StoredWindow,
    columns: tuple[ReadColumn, ...],
    history: bool,
    due: DueTicks,
    buckets: range | None,
    share: Share | None = None,
) -> StreamRows:
    """The stored tuples of a window that a batch needs, in some buckets (None: in all)."""

    def read(lo: int, hi: int) -> pa.Table:
        rows = read_rows(mapped, stored.files, columns, Selected(max(lo, stored.since), hi, stored.predicate, buckets))
        return rows if share is None else share.of(rows)

    return read_window(window, read, history, due)


@dataclass(frozen=True)
class GivenJoin:
    """The output of a plan's join that was processed with those of other plans, or the plan's changes, if it only
    renames that output; and its share of the time."""

    path: str
    output: Edge | pa.Table
    windows: frozenset[int]
    seconds: float


@dataclass(frozen=True)
class GivenJoins:
    """What shared joins gave, by the number of the plan in the job; and why plans have to join alone."""

    edges: dict[int, GivenJoin]
    failures: dict[int, str]


def given_joins(
    worker: StageWorker,
    tasks: Sequence[SharedJoinTask],
    batches: Sequence[SharedJoinBatch],
    level: int,
    place: int,
) -> GivenJoins:
    """The outputs of the joins of a level in a place. If one fails, every plan processes its own, and who is guilty
    fails."""
    found = GivenJoins({}, {})
    for task, batch in zip(tasks, batches, strict=True):
        if batch.level != level or place >= len(batch.ranges) or (task.single and place):
            continue
        try:
            found.edges.update(_shared(worker, task, batch, place))
        except Exception as error:
            found.failures.update(dict.fromkeys(batch.plans, first_line(error)))
    return found


def _shared(worker: StageWorker, task: SharedJoinTask, batch: SharedJoinBatch, place: int) -> dict[int, GivenJoin]:
    started, join = time.perf_counter(), task.plan.root
    assert isinstance(join, Join)
    mapped, kernel = worker.mapped(task.root), worker.kernel(task.max_value_bytes)
    buckets = None if task.single else range(*batch.ranges[place])
    rows = {
        i: window_rows(mapped, window, stored, columns, True, batch.due, buckets)
        for i, (window, stored, columns) in enumerate(zip(task.plan.windows, batch.windows, task.columns, strict=True))
    }
    edge = joined(join, rows, batch.due, kernel, task.has_until)
    routes, renamed = [taker.route for taker in task.takers], [taker.renamed for taker in task.takers]
    outputs = routed_outputs(routes, renamed, edge, batch.due, kernel)
    seconds = (time.perf_counter() - started) / len(outputs)
    given = [GivenJoin(t.path, one, t.windows, seconds) for t, one in zip(task.takers, outputs, strict=True)]
    return dict(zip(batch.plans, given, strict=True))
