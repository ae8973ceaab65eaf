"""Runs a plan in stages as Spark tasks do, in this process: the same kernel, with files in a directory."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from support.continuous import batches_of, stored
from windrow.dataplane.blocks import BlockWriter
from windrow.dataplane.blocks.store import read_block_part
from windrow.dataplane.kernels import plan_stage
from windrow.dataplane.kernels.plan_stage import run_stages
from windrow.dataplane.kernels.plan_tables import StoredRelation
from windrow.dataplane.kernels.stage_messages import (
    ROWS,
    MergedView,
    SharedJoinTask,
    StageBatch,
    StagedTask,
    StageJob,
    StoredPart,
    StoredWindow,
    read_reports,
)
from windrow.dataplane.stores import ARRIVAL, KeptColumn, StoredRows, write_rows
from windrow.dataplane.stores.specs import WindowStoreSpec
from windrow.engine.plans.query import kept_columns
from windrow.operators.changes import changes_schema, in_order
from windrow.operators.changes import stored as stored_changes
from windrow.operators.scan import ARRIVED
from windrow.operators.stages.cutting import staged
from windrow.operators.stages.ranges import ranges_of
from windrow.operators.ticks import DueTicks
from windrow.plan.algebra.nodes import ContinuousPlan
from windrow.reference.window_operators import History
from windrow.types import POINT_MIN

NUMBER = 7


class StagedRun:
    """Batches of a plan, in `ranges(batch)` ranges. `lose(batch)`: whether workers have lost their state before it."""

    def __init__(self, root: Path, plan: ContinuousPlan, history: History, explicit_expiry: bool = False):
        self.root, self.plan = root, plan
        columns = tuple(kept_columns(window)[0] for window in plan.windows)
        self.task = StagedTask(str(root), NUMBER, plan, staged(plan), columns, explicit_expiry, 1 << 20)
        self.windows = [self._window(i, rows) for i, rows in enumerate(stored(plan, history))]
        self.state: list[StoredPart] = []
        self.shown: list[StoredPart] = []
        self.known: list[tuple[str, int]] = []
        self.token: str | None = None
        self.ranges: tuple[tuple[int, int], ...] = ()
        self.seq = 0

    def _window(self, i: int, rows: pa.Table) -> StoredWindow:
        """The rows of a window in two files."""
        kept = {one.column.sql: KeptColumn(one.sql, one.column.type) for one in self.plan.windows[i].columns}
        kept |= {ARRIVED: ARRIVAL} if ARRIVED in rows.column_names else {}
        keys = tuple(kept[name] for name in self.task.staged.window_keys[i] or ())
        spec = WindowStoreSpec(i, "s", "t", keys, tuple(dict.fromkeys(kept.values())))
        writer, files = BlockWriter(self.root), list[StoredRows]()
        for some in (rows.slice(0, rows.num_rows // 2), rows.slice(rows.num_rows // 2)):
            names = [plan_stage_point(), *(kept[name].id for name in some.column_names[1:])]
            file = write_rows(writer, spec, some.rename_columns(names))
            if file is not None:
                files.append(StoredRows(f"{self.root}/{file.ref.path}", file.lo, file.hi, file.ref.rows))
        return StoredWindow(tuple(files), POINT_MIN, None)

    def batch(self, due: DueTicks, count: int, merging: bool, relations: tuple[StoredRelation, ...] = ()) -> pa.Table:
        """The changes of a batch, which reads these tables."""
        ranges = ranges_of(1 if self.task.staged.is_single else count)
        merging = merging or ranges != self.ranges
        same = ranges == self.ranges
        batch = StageBatch(
            uuid.uuid4().hex,
            self.token if same else None,
            tuple(self.known) if same else (),
            due,
            ranges,
            tuple(self.windows),
            tuple(self.state),
            tuple(self.shown),
            merging,
            False,
            view=MergedView(with_new=True, width=None) if merging else None,
            relations=relations,
        )
        return self._done(batch, self._job(batch))

    def _job(self, batch: StageBatch) -> list[dict[str, Any]]:
        return run_job([self.task], [], StageJob((batch,)))[0]

    def _done(self, batch: StageBatch, reports: list[dict[str, Any]]) -> pa.Table:
        failed = [one for one in reports if "error" in one or "missing" in one]
        assert not failed, failed[0]
        self.seq += 1
        if batch.merging:
            self.state, self.shown, self.known = [], [], []
        changes = [stored_changes(changes_schema(self.plan.schema).empty_table())]
        for block in (block for report in reports for block in report["blocks"]):
            for told in block["parts"]:
                place = (block["ref"]["path"], told["offset"], told["length"], self.seq, tuple(told["buckets"]))
                rest = (told.get(name, 0) for name in ("operator", "layout", "lo", "hi"))
                part = StoredPart(*place, *rest)
                if told["kind"] == "state":
                    self.state.append(part)
                if told["kind"] == ("view" if batch.merging else "changes"):
                    self.shown.append(part)
                if told["kind"] == "changes":
                    changes.append(self.read(part))
        self.known.append((batch.token, self.seq))
        self.token, self.ranges = batch.token, batch.ranges
        return in_order(changes)

    def read(self, part: StoredPart) -> pa.Table:
        return read_block_part(self.root / part.path, part.offset, part.length)

    def view(self) -> list[pa.Table]:
        """The view and the changes since."""
        return [
            stored_changes(changes_schema(self.plan.schema).empty_table()),
            *(self.read(part) for part in self.shown),
        ]


def run_job(tasks: Sequence[StagedTask], joins: Sequence[SharedJoinTask], job: StageJob) -> list[list[dict[str, Any]]]:
    """What the tasks of a job report, by plan; rows reach their places in any order."""
    rows = [pa.record_batch({"id": [place]}) for place in range(job.places)]
    for level in range(max(task.staged.levels for task in tasks)):
        found = list[pa.RecordBatch]()
        for place in range(job.places) if level else range(1):
            mine = [one.filter(pc.equal(one.column(0), place)) for one in rows] if level else rows
            random.Random(place).shuffle(mine)
            found += run_stages(tasks, joins, job, level, mine)
        rows = found
    return read_reports(pa.Table.from_batches(rows, ROWS), len(tasks))


def plan_stage_point() -> str:
    return "__t"


def run_staged(
    root: Path,
    plan: ContinuousPlan,
    history: History,
    ticks: Iterable[int],
    ranges: Callable[[int], int] = lambda batch: 2,
    merging: Callable[[int], bool] = lambda batch: False,
    lose: Callable[[int], bool] = lambda batch: False,
    relations: Callable[[DueTicks, bool], tuple[StoredRelation, ...]] = lambda due, is_first: (),
    **settings: Any,
) -> tuple[list[pa.Table], StagedRun]:
    """The changes of every batch, and the run at its end."""
    run, found = StagedRun(root, plan, history, **settings), []
    for i, due in enumerate(batches_of(ticks, plan.step)):
        if lose(i):
            plan_stage._WORKER.states.clear()
        found.append(run.batch(due, ranges(i), merging(i), relations(due, i == 0)))
    return found, run
