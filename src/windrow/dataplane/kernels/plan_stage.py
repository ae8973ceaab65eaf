"""The kernel of continuous plans in the Spark home: a task advances the stages of one level, in some ranges of buckets,
of all plans of a job.

Joins that plans have in common come first; then each plan is advanced, and what it gives is written. A plan that fails
reports it, and the others go on. A worker process keeps what the next batch needs (`stage_worker.py`). State of another
batch is caught up from durable parts, or read anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.dataplane.blocks import BlockRef
from windrow.dataplane.blocks.store import read_block_part
from windrow.dataplane.kernels.answering import packed
from windrow.dataplane.kernels.shared_stage import GivenJoin, Share, given_joins, window_rows
from windrow.dataplane.kernels.stage_messages import (
    ANSWERS,
    CHANGES,
    MOST_PAYLOAD_BYTES,
    REPORT,
    SHARED,
    STATE,
    TOGETHER_ROWS,
    VIEW,
    Sent,
    SharedJoinTask,
    StageBatch,
    StagedTask,
    StageJob,
    StoredPart,
    record_batches,
)
from windrow.dataplane.kernels.stage_worker import StageWorker
from windrow.dataplane.kernels.worker_process import settle
from windrow.errors import StateError, first_line
from windrow.operators.advance import Advance, Emission, advance, emit
from windrow.operators.changes import AT, HEAD, stored
from windrow.operators.layouts.parts import Layout, StatePart
from windrow.operators.relations.table_scan import TableRows
from windrow.operators.scan import StreamRows, needs_history
from windrow.operators.sharing.subplans import CompactedOnce, SharedSubPlans, TakenSubPlans
from windrow.operators.stages.cutting import Stage, buckets_in, node_at
from windrow.operators.stages.ranges import Range, is_within, restored_range
from windrow.operators.state import PlanState, restore
from windrow.operators.tables.edges import TICK, Edge
from windrow.operators.tables.metering import PlanMeter
from windrow.operators.tables.rows import taken
from windrow.operators.view import beginning, by_expiration, lifespan, merged_view
from windrow.plan.algebra.nodes import TableScan
from windrow.types import POINT_MAX

_WORKER = StageWorker()


@dataclass
class Received:
    """What the tasks of the level before sent to a place, for a plan."""

    reports: list[tuple[int, bytes]] = field(default_factory=list)
    tables: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)


def run_stages(
    tasks: Sequence[StagedTask],
    joins: Sequence[SharedJoinTask],
    job: StageJob,
    level: int,
    rows: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Advance the stages of a level in the places that the rows are for; at level 0 these are numbers of places."""
    settle()
    received = dict[int, dict[int, Received]]()
    for one in rows:
        if level == 0:
            received |= {place: {} for place in one.column(0).to_pylist()}
            continue
        for place, source, plan, path, payload in zip(*(column.to_pylist() for column in one.columns), strict=True):
            into = received.setdefault(place, {}).setdefault(plan, Received())
            if path == REPORT:
                into.reports.append((source, payload))
            else:
                into.tables.setdefault(path, []).append((source, payload))
    for place, given in received.items():
        yield from record_batches(_at_place(tasks, joins, job, level, place, given))
    _WORKER.release(zip(tasks, job.batches, strict=True))


def _at_place(
    tasks: Sequence[StagedTask],
    joins: Sequence[SharedJoinTask],
    job: StageJob,
    level: int,
    place: int,
    received: Mapping[int, Received],
) -> Iterator[Sent]:
    """What a place sends: the reports of earlier levels, and what the plans give at this level."""
    for plan, one in received.items():
        yield from ((place, source, plan, REPORT, payload) for source, payload in one.reports)
    given, common = given_joins(_WORKER, joins, job.joins, level, place), _Common.of(job)
    small = list[_PlanPlace]()
    for plan, (task, batch) in enumerate(zip(tasks, job.batches, strict=True)):
        if level >= task.staged.levels or place >= len(batch.ranges):
            continue
        came = received.get(plan, Received())
        mine = _PlanPlace(task, batch, level, place, plan, came, common, given.edges.get(plan))
        mine.alone = given.failures.get(plan)
        mine.advance()
        if mine.is_small:
            small.append(mine)
        else:
            _write([mine], f"plans/{task.number}", common)
            yield from mine.sent()
    if small:
        _write(small, SHARED if len(small) > 1 else f"plans/{small[0].task.number}", common)
    for mine in small:
        yield from mine.sent()


@dataclass
class _Common:
    """What the plans of a job share in a place: the sub-plans that they have in common, and tables of state, each of
    which is compacted once and written once (with the table itself, so that its identity is not given to another)."""

    subplans: SharedSubPlans
    compacted: CompactedOnce = field(default_factory=CompactedOnce)
    written: dict[int, tuple[pa.Table, BlockRef, int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, job: StageJob) -> _Common:
        first = job.batches[0]
        plans = ([one for _, one in batch.subplans] for batch in job.batches)
        return cls(SharedSubPlans.of(plans, first.due.before, first.merging))


@dataclass
class _PlanPlace:
    """A level's stages of a plan in one range. `plan` is the number of the plan in the job."""

    task: StagedTask
    batch: StageBatch
    level: int
    place: int
    plan: int
    given: Received
    common: _Common
    join: GivenJoin | None
    alone: str | None = None
    """Why its join could not be processed with those of others."""
    took: list[tuple[str, int, str]] = field(default_factory=list)
    """The sub-plans that it took from other plans: the path, the number of the plan, the path there."""
    changes: int = 0
    overflows: int = 0
    meter: PlanMeter = field(default_factory=PlanMeter)
    kept: list[tuple[dict[str, Any], pa.Table]] = field(default_factory=list)
    views: list[pa.Table] = field(default_factory=list)
    exchanged: list[Sent] = field(default_factory=list)
    state: PlanState = field(default_factory=PlanState)
    failed: dict[str, str] = field(default_factory=dict)
    blocks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def buckets(self) -> Range:
        return self.batch.ranges[self.place]

    @property
    def is_small(self) -> bool:
        """Whether what it writes may be in one file with what others write."""
        rows: int = sum(table.num_rows for _, table in self.kept if id(table) not in self.common.written)
        return rows <= TOGETHER_ROWS and not self.views

    def advance(self) -> None:
        try:
            self.state = self._advance()
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Keep an error for the report."""
        self.failed = {"missing": str(error)} if isinstance(error, StateError) else {"error": first_line(error)}
        self.kept, self.views = [], []

    def sent(self) -> Iterator[Sent]:
        """Its output, what later levels read of earlier ones, and its report."""
        report: dict[str, Any] = {"level": self.level, "place": self.place, **self.failed}
        if not self.failed:
            _WORKER.keep(self._key, self.batch.token, self.state)
            report |= self._report()
            yield from self.exchanged
        for path, payloads in self.given.tables.items():
            if not self._is_read(path):
                yield from ((self.place, source, self.plan, path, payload) for source, payload in payloads)
        yield self.place, self.place, self.plan, REPORT, json.dumps(report).encode()

    def _is_read(self, path: str) -> bool:
        return any(path in stage.inputs for stage in self.task.staged.at(self.level))

    # -- advancing -----------------------------------------------------------------------------

    def _advance(self) -> PlanState:
        task, batch, kernel = self.task, self.batch, _WORKER.kernel(self.task.max_value_bytes)
        state, parts = self._state(), list[StatePart]()
        for stage in task.staged.at(self.level):
            if stage.single and self.place:
                continue
            started = time.perf_counter()
            if self.join is not None and isinstance(self.join.output, pa.Table):
                changes = self.join.output
                self.meter.add_upwards(self.join.path, changes.num_rows, changes.nbytes, self.join.seconds)
                self._show(stage, changes)
                continue
            state = replace(state, ticked=batch.due.before)
            subplans = [p for level, p in batch.subplans if level == self.level and p.windows <= set(stage.windows)]
            taken, asked = self.common.subplans.find(subplans, state), self.common.subplans.wanted(subplans)
            shared, read_before = self._shared(stage, taken)
            rows = {i: self._rows(stage, i) for i in stage.windows if i not in read_before}
            edges = {path: self._edge(path) for path in stage.inputs} | shared
            tables = self._tables(stage)
            read, paths = time.perf_counter(), [one.path for one in asked]
            done: Emission | Advance
            if stage.sends_by is not None:
                done = emit(task.plan, stage, state, rows, edges, batch.due, kernel, self.meter, tables, paths)
                self.exchanged += self._sent(stage, done.edge)
            else:
                explicit = task.explicit_expiry
                done = advance(task.plan, state, rows, batch.due, kernel, explicit, self.meter, edges, tables, paths)
                self._show(stage, done.changes)
            after, made = taken.added_to(done.state, done.parts)
            self.common.subplans.add(self.plan, asked, state, after, made, done.edges)
            state, self.took = after, self.took + taken.sources()
            self.overflows += 0 if batch.is_silent else done.overflows
            parts += made
            self.meter.add_batch(0, read - started, time.perf_counter() - read)
        state = replace(state, ticked=batch.due.upto)
        if batch.merging:
            state = self.common.compacted.relaid(task.plan, state)
        for part in self.common.compacted.parts(state) if batch.merging else parts:
            told = {"operator": part.path, "layout": part.layout.name, "lo": part.lo, "hi": min(part.hi, POINT_MAX)}
            self.kept.append(({"kind": STATE, **told}, part.rows))
        return state

    def _shared(self, stage: Stage, taken: TakenSubPlans) -> tuple[dict[str, Edge], frozenset[int]]:
        """What was processed with other plans, by path, and the windows below: its join, and sub-plans."""
        edges, windows = dict[str, Edge](), frozenset[int]()
        if self.join is not None:
            assert isinstance(self.join.output, Edge)
            edges, windows = {self.join.path: self.join.output}, self.join.windows
            if windows <= set(stage.windows):
                self._count(self.join.path, self.join.output, self.join.seconds)
        for path, edge in taken.edges.items():
            self._count(path, edge, 0.0)
        return edges | taken.edges, windows | taken.windows

    def _count(self, path: str, edge: Edge, seconds: float) -> None:
        self.meter.add(path, edge.rows.num_rows, edge.rows.get_total_buffer_size(), seconds)

    def _rows(self, stage: Stage, i: int) -> StreamRows:
        """The tuples of a window: in its range of buckets, or a share of the new ones where they may be anywhere."""
        task, batch = self.task, self.batch
        is_anywhere = task.staged.window_keys[i] is None and not stage.single
        share = Share(self.place, len(batch.ranges)) if is_anywhere else None
        buckets = None if is_anywhere or stage.single else range(*self.buckets)
        source = (task.plan.windows[i], batch.windows[i], task.columns[i])
        return window_rows(_WORKER.mapped(task.root), *source, needs_history(task.plan)[i], batch.due, buckets, share)

    def _tables(self, stage: Stage) -> dict[str, TableRows]:
        """What the stage reads of tables."""
        found = dict[str, TableRows]()
        for one in self.batch.relations:
            path = one.path + "."
            if not path.startswith(stage.path + ".") or any(path.startswith(below + ".") for below in stage.inputs):
                continue
            names, root = self.task.staged.scans[one.path], self.task.root
            if names is None:
                found[one.path] = _WORKER.tables.whole(root, one)
                continue
            scan = node_at(self.task.plan.root, one.path)
            assert isinstance(scan, TableScan)
            buckets = None if stage.single else self.buckets
            found[one.path] = _WORKER.tables.shared(root, one, scan, names, buckets, self.batch.due)
        return found

    def _edge(self, path: str) -> Edge:
        """The rows of an exchange, whatever the order in which they came."""
        payloads = sorted(self.given.tables[path], key=lambda one: one[0])
        rows = pa.concat_tables([pa.ipc.open_stream(payload).read_all() for _, payload in payloads])
        stage = next(one for one in self.task.staged.stages if one.path == path and one.sends_by is not None)
        return Edge(rows, stage.node.schema, TICK in rows.column_names)

    def _sent(self, stage: Stage, edge: Edge) -> list[Sent]:
        """The output of a stage, to the places where its rows belong. Each place gets something from its own, so that
        it knows the columns."""
        assert stage.sends_by is not None
        starts = np.array([one[0] for one in self.batch.ranges])
        rows = edge.rows.combine_chunks()
        at = np.searchsorted(starts, buckets_in(rows, stage.sends_by), "right") - 1
        found = []
        for place in range(len(starts)):
            some = taken(rows, at == place)
            if not some.num_rows and place != self.place and not stage.single:
                continue
            step = max(1, some.num_rows * MOST_PAYLOAD_BYTES // max(some.nbytes, 1))
            for first in range(0, max(some.num_rows, 1), step):
                payload = packed(some.slice(first, step))
                assert payload is not None
                found.append((place, self.place, self.plan, stage.path, payload))
        return found

    # -- state ---------------------------------------------------------------------------------

    @property
    def _key(self) -> tuple[str, int, int, Range]:
        return self.task.root, self.task.number, self.level, self.buckets

    def _state(self) -> PlanState:
        """The state of this range and level before the batch."""
        batch, plan, held = self.batch, self.task.plan, _WORKER.states.get(self._key)
        if held is not None and held[0] == batch.before:
            return held[1]
        mine = {path for path, stage in self.task.staged.tables.items() if stage.level == self.level}
        parts = [part for part in batch.state if part.operator in mine]
        seq = None if held is None else dict(batch.known).get(held[0])
        if held is not None and seq is not None:
            newer = [part for part in parts if part.seq > seq and part.buckets == self.buckets]
            return restore(plan, [self._read(part) for part in newer], batch.due.before, held[1])
        sources = dict[Range, list[StatePart]]()
        for part in parts:
            if part.buckets[0] < self.buckets[1] and self.buckets[0] < part.buckets[1]:
                sources.setdefault(part.buckets, []).append(self._read(part))
        return restored_range(plan, self.task.staged.cuts, sources, self.buckets, batch.due.before)

    def _read(self, part: StoredPart) -> StatePart:
        return StatePart(part.operator, Layout[part.layout], self._table(part), part.lo, part.hi)

    def _table(self, part: StoredPart) -> pa.Table:
        return read_block_part(Path(self.task.root, part.path), part.offset, part.length)

    # -- results -------------------------------------------------------------------------------

    def _show(self, stage: Stage, changes: pa.Table) -> None:
        """Keep the changes, and the view that they lead to if it is merged."""
        batch, changes = self.batch, stored(changes)
        if batch.occupied is not None:
            changes = changes.filter(pa.array(batch.occupied.has(changes.column(AT).to_numpy())))
        if batch.begins:
            changes = beginning(changes, batch.due.upto)
        elif batch.is_silent:
            changes = changes.slice(0, 0)
        self.changes = changes.num_rows
        if changes.num_rows:
            kind = ANSWERS if self.task.plan.periodic and not batch.is_derived else CHANGES
            ends = self._lifespan(changes) if kind == CHANGES else {"lo": batch.due.upto, "hi": batch.due.upto}
            self.kept.append(({"kind": kind, **ends}, changes))
        if batch.view is not None:
            before = [self._shown(stage, part) for part in batch.shown]
            new = changes if batch.view.with_new else changes.slice(0, 0)
            self._merge([*(one for one in before if one.num_rows), new], batch.view.width)

    def _lifespan(self, changes: pa.Table) -> dict[str, Any]:
        """What the catalog says of the ends of changes, or of a view. From one that withdraws rows, none is dropped by
        its end."""
        first, last = lifespan(changes, self.task.is_withdrawn)
        return {"lo": first, "hi": None if self.task.is_withdrawn else last}

    def _merge(self, shown: Sequence[pa.Table], width: int | None) -> None:
        """Keep the view after these changes. That of the first place is also kept if it is empty, since it replaces
        earlier ones."""
        upto = self.batch.due.upto
        if width is not None:
            self.views = [view for view in by_expiration(shown, upto, width) if view.num_rows or self.place == 0]
            return
        view = merged_view(shown, upto)
        if view.num_rows or self.place == 0:
            self.kept.append(({"kind": VIEW, **self._lifespan(view)}, view))

    def _shown(self, stage: Stage, part: StoredPart) -> pa.Table:
        """Those rows of a part of the view that are of this range."""
        rows = self._table(part)
        if stage.single or part.buckets == self.buckets:
            return rows
        by = self.task.staged.shown_by
        names = None if by is None else tuple(map(str, range(len(by))))
        values = rows if by is None else pa.table([rows.column(len(HEAD) + at) for at in by], names)
        return taken(rows, is_within(buckets_in(values, names, part.buckets), self.buckets))

    # -- what it writes ------------------------------------------------------------------------

    def placed(self) -> None:
        """Note where its parts were written."""
        by_file = dict[str, dict[str, Any]]()
        for told, table in self.kept:
            _, ref, offset, length = self.common.written[id(table)]
            block = by_file.setdefault(ref.path, {"ref": asdict(ref), "parts": []})
            block["parts"].append(self._part(told, table.num_rows, offset, length))
        self.blocks += by_file.values()

    def write_views(self) -> None:
        """Write each part of a large view into a file of its own."""
        owner = f"plans/{self.task.number}"
        refs = _WORKER.writer(self.task.root).write_each(owner, self.views)
        for ref, view in zip(refs, self.views, strict=True):
            part = self._part({"kind": VIEW, **self._lifespan(view)}, ref.rows, 0, ref.bytes)
            self.blocks.append({"ref": asdict(ref), "parts": [part]})

    def _part(self, told: dict[str, Any], rows: int, offset: int, length: int) -> dict[str, Any]:
        return {**told, "rows": rows, "offset": offset, "length": length, "buckets": list(self.buckets)}

    def _report(self) -> dict[str, Any]:
        counts = {path: (one.rows, one.nbytes, one.seconds) for path, one in self.meter.counts.items()}
        times = {"read_s": self.meter.read_s, "advance_s": self.meter.advance_s}
        layouts = {path: asdict(use) for path, use in self.state.layouts.items()}
        kept = {"sizes": self.state.sizes, "layouts": layouts, "blocks": self.blocks}
        report = {"changes": self.changes, "overflows": self.overflows, "counts": counts, **kept, **times}
        if self.took:
            report["took"] = self.took
        return report if self.alone is None else {**report, "alone": self.alone}


def _write(plans: Sequence[_PlanPlace], owner: str, common: _Common) -> None:
    """Write what these plans keep into one file, but each part of a large view into its own. If that fails, it fails
    for all of them."""
    writing = [one for one in plans if not one.failed]
    try:
        fresh = {id(table): table for one in writing for _, table in one.kept if id(table) not in common.written}
        if fresh:
            ref, places = _WORKER.writer(writing[0].task.root).write_many(owner, list(fresh.values()))
            for (number, table), place in zip(fresh.items(), places, strict=True):
                common.written[number] = (table, ref, *place)
        for one in writing:
            one.placed()
    except Exception as error:
        for one in writing:
            one.fail(error)
    for one in plans:
        if one.views and not one.failed:
            try:
                one.write_views()
            except Exception as error:
                one.fail(error)
