"""The kernel of continuous plans in the Spark home: a task advances the stages of one level, in some ranges of buckets.

What tasks send to each other and to the driver are rows of ROWS: a place (the number of a range), the task's own place,
and a payload. `input` is the path of the exchange that the rows of the payload (an Arrow stream) belong to; '' is a
report: what a task has done and written, as JSON. Every task reports, so each place of the next level gets at least one
row, and reports travel through to the driver.

A worker process keeps what the next batch needs: mapped files, a DuckDB connection, and the state of its ranges, with
the token of the batch after which it was so. State of another batch is caught up from durable parts, or read anew.
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

from windrow.dataplane.blocks import BlockWriter
from windrow.dataplane.blocks.store import read_block_part
from windrow.dataplane.kernels.answering import packed
from windrow.dataplane.kernels.plan_tables import StoredRelation, TaskTables
from windrow.dataplane.stores import KeptColumn, MappedFiles, Selected, StoredRows, read_rows
from windrow.errors import StateError, first_line
from windrow.operators.advance import advance, emit
from windrow.operators.changes import AT, HEAD, stored
from windrow.operators.layouts.parts import Layout, StatePart
from windrow.operators.relations.table_scan import TableRows
from windrow.operators.scan import StreamRows, needs_history, read_window
from windrow.operators.stages.cutting import Stage, StagedPlan, buckets_in, node_at
from windrow.operators.stages.ranges import Range, is_within, restored_range
from windrow.operators.state import PlanState, compacted, is_strict, restore
from windrow.operators.tables.edges import TICK, Edge
from windrow.operators.tables.kernel import Kernel
from windrow.operators.tables.metering import PlanMeter
from windrow.operators.tables.rows import taken
from windrow.operators.ticks import DueTicks, OccupiedTicks
from windrow.operators.view import beginning, by_expiration, last_end, merged_view
from windrow.plan.algebra.nodes import ContinuousPlan, TableScan
from windrow.types import POINT_MAX

STATE, CHANGES, VIEW, ANSWERS = "state", "changes", "view", "answers"
"""Kinds of the parts that a plan writes."""

ROWS = pa.schema([("place", pa.int32()), ("source", pa.int32()), ("input", pa.string()), ("payload", pa.binary())])
REPORT = ""
MOST_PAYLOAD_BYTES = 64 << 20
MOST_STATE_BYTES = 1 << 30
"""The most state that a worker process keeps between batches."""


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
class StageBatch:
    """A batch of ticks.

    `token` names the state after it, `before` that before it; `known` has the commit of the state of earlier tokens
    since state was last merged. `state` are the parts of the state before, `shown` those of the view; it is merged with
    the changes if `merging`, and so is the state. `begins`: the plan begins on tuples of the past; `is_silent`: it only
    builds its state. `has_view`: a view is kept; `view_width`: by intervals of expiration of this width, each in a file
    of its own, and `shown` are the changes since it was merged; `is_derived`: the changes become tuples of a stream.
    `occupied`: the ticks that a periodic plan answers. `relations`: the tables that the plan reads.
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
    has_view: bool = True
    view_width: int | None = None
    is_derived: bool = False
    occupied: OccupiedTicks | None = None
    relations: tuple[StoredRelation, ...] = ()


@dataclass
class Received:
    """What the tasks of the level before sent to a place."""

    reports: list[tuple[int, bytes]] = field(default_factory=list)
    tables: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)


def run_stages(
    task: StagedTask, batch: StageBatch, level: int, rows: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Advance the stages of a level in the places that the rows are for; at level 0 these are numbers of places."""
    received = dict[int, Received]()
    for one in rows:
        if level == 0:
            received |= {place: Received() for place in one.column(0).to_pylist()}
            continue
        for place, source, path, payload in zip(*(column.to_pylist() for column in one.columns), strict=True):
            into = received.setdefault(place, Received())
            if path == REPORT:
                into.reports.append((source, payload))
            else:
                into.tables.setdefault(path, []).append((source, payload))
    for place, given in received.items():
        for source, payload in given.reports:
            yield _row(place, source, REPORT, payload)
        yield from _Place(task, batch, level, place, given).run()
    _WORKER.forget(task, batch)


def _row(place: int, source: int, path: str, payload: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([one], f.type) for one, f in zip((place, source, path, payload), ROWS, strict=True)], schema=ROWS
    )


@dataclass
class _Place:
    """A level's stages in one range."""

    task: StagedTask
    batch: StageBatch
    level: int
    place: int
    given: Received
    changes: int = 0
    meter: PlanMeter = field(default_factory=PlanMeter)
    kept: list[tuple[dict[str, Any], pa.Table]] = field(default_factory=list)
    views: list[tuple[int, pa.Table]] = field(default_factory=list)

    @property
    def buckets(self) -> Range:
        return self.batch.ranges[self.place]

    def run(self) -> Iterator[pa.RecordBatch]:
        report: dict[str, Any] = {"level": self.level, "place": self.place}
        sent: list[pa.RecordBatch] = []
        try:
            state = self._advance(sent)
            report |= self._written(state)
            _WORKER.keep(self._key, self.batch.token, state)
        except StateError as error:
            sent, report = [], {**report, "missing": str(error)}
        except Exception as error:
            sent, report = [], {**report, "error": first_line(error)}
        yield from sent
        for path, payloads in self.given.tables.items():  # for later levels
            if not self._is_read(path):
                yield from (_row(self.place, source, path, payload) for source, payload in payloads)
        yield _row(self.place, self.place, REPORT, json.dumps(report).encode())

    def _is_read(self, path: str) -> bool:
        return any(path in stage.inputs for stage in self.task.staged.at(self.level))

    # -- advancing -----------------------------------------------------------------------------

    def _advance(self, sent: list[pa.RecordBatch]) -> PlanState:
        task, batch, kernel = self.task, self.batch, _WORKER.kernel(self.task.max_value_bytes)
        state, parts = self._state(), list[StatePart]()
        for stage in task.staged.at(self.level):
            if stage.single and self.place:
                continue
            started = time.perf_counter()
            state = replace(state, ticked=batch.due.before)
            rows = {i: self._rows(stage, i) for i in stage.windows}
            edges = {path: self._edge(path) for path in stage.inputs}
            tables = self._tables(stage)
            read = time.perf_counter()
            if stage.sends_by is not None:
                done = emit(task.plan, stage, state, rows, edges, batch.due, kernel, self.meter, tables)
                sent += self._sent(stage, done.edge)
                state, made = done.state, done.parts
            else:
                explicit = task.explicit_expiry
                last = advance(task.plan, state, rows, batch.due, kernel, explicit, self.meter, edges, tables)
                self._show(stage, last.changes)
                state, made = last.state, last.parts
            parts += made
            self.meter.add_batch(0, read - started, time.perf_counter() - read)
        state = replace(state, ticked=batch.due.upto)
        for part in compacted(state) if batch.merging else parts:
            told = {"operator": part.path, "layout": part.layout.name, "lo": part.lo, "hi": min(part.hi, POINT_MAX)}
            self.kept.append(({"kind": STATE, **told}, part.rows))
        return state

    def _rows(self, stage: Stage, i: int) -> StreamRows:
        """The tuples of a window: in its range of buckets, or a share of the new ones where they may be anywhere."""
        task, batch, stored = self.task, self.batch, self.batch.windows[i]
        is_shared = task.staged.window_keys[i] is None and not stage.single
        buckets = None if is_shared or stage.single else range(*self.buckets)
        mapped = _WORKER.mapped(task)

        def read(lo: int, hi: int) -> pa.Table:
            selected = Selected(max(lo, stored.since), hi, stored.predicate, buckets)
            rows = read_rows(mapped, stored.files, task.columns[i], selected)
            if is_shared:
                bounds = [rows.num_rows * at // len(batch.ranges) for at in (self.place, self.place + 1)]
                return rows.slice(bounds[0], bounds[1] - bounds[0])
            return rows

        return read_window(task.plan.windows[i], read, needs_history(task.plan)[i], batch.due)

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
            found[one.path] = _WORKER.tables.shared(root, one, scan, names, buckets)
        return found

    def _edge(self, path: str) -> Edge:
        """The rows of an exchange, whatever the order in which they came."""
        payloads = sorted(self.given.tables[path], key=lambda one: one[0])
        rows = pa.concat_tables([pa.ipc.open_stream(payload).read_all() for _, payload in payloads])
        stage = next(one for one in self.task.staged.stages if one.path == path and one.sends_by is not None)
        return Edge(rows, stage.node.schema, TICK in rows.column_names)

    def _sent(self, stage: Stage, edge: Edge) -> list[pa.RecordBatch]:
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
                found.append(_row(place, self.place, stage.path, payload))
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
            self.kept.append(({"kind": kind, "lo": batch.due.upto, "hi": batch.due.upto}, changes))
        if batch.merging and batch.has_view:
            before = [self._shown(stage, part) for part in batch.shown]
            view = merged_view([*(one for one in before if one.num_rows), changes], batch.due.upto)
            if view.num_rows or self.place == 0:  # an empty view replaces earlier ones, too
                if batch.view_width is not None:
                    self.views = by_expiration(view, batch.view_width)
                else:
                    hi = None if self.task.is_withdrawn else last_end(view)
                    self.kept.append(({"kind": VIEW, "hi": hi}, view))

    def _shown(self, stage: Stage, part: StoredPart) -> pa.Table:
        """Those rows of a part of the view that are of this range."""
        rows = self._table(part)
        if stage.single or part.buckets == self.buckets:
            return rows
        by = self.task.staged.shown_by
        names = None if by is None else tuple(map(str, range(len(by))))
        values = rows if by is None else pa.table([rows.column(len(HEAD) + at) for at in by], names)
        return taken(rows, is_within(buckets_in(values, names, part.buckets), self.buckets))

    def _written(self, state: PlanState) -> dict[str, Any]:
        """Write everything into one file, but each part of a large view into its own. Return the report of it."""
        counts = {path: (one.rows, one.nbytes, one.seconds) for path, one in self.meter.counts.items()}
        report: dict[str, Any] = {"changes": self.changes, "sizes": state.sizes, "counts": counts}
        report |= {"read_s": self.meter.read_s, "advance_s": self.meter.advance_s}
        writer, owner, blocks = _WORKER.writer(self.task.root), f"plans/{self.task.number}", []
        if self.kept:
            ref, places = writer.write_many(owner, [table for _, table in self.kept])
            parts = [
                self._part(told, table.num_rows, *place) for (told, table), place in zip(self.kept, places, strict=True)
            ]
            blocks.append({"ref": asdict(ref), "parts": parts})
        refs = writer.write_each(owner, [table for _, table in self.views])
        for ref, (end, _) in zip(refs, self.views, strict=True):
            blocks.append(
                {"ref": asdict(ref), "parts": [self._part({"kind": VIEW, "hi": end}, ref.rows, 0, ref.bytes)]}
            )
        return {**report, "blocks": blocks}

    def _part(self, told: dict[str, Any], rows: int, offset: int, length: int) -> dict[str, Any]:
        return {**told, "rows": rows, "offset": offset, "length": length, "buckets": list(self.buckets)}


class _Worker:
    """What a worker process keeps between tasks, which it runs one after another."""

    def __init__(self) -> None:
        self.states: dict[tuple[str, int, int, Range], tuple[str, PlanState]] = {}
        self._kernels: dict[int, Kernel] = {}
        self._writers: dict[str, BlockWriter] = {}
        self._mapped: dict[tuple[str, int], MappedFiles] = {}
        self.tables = TaskTables()

    def kernel(self, max_value_bytes: int) -> Kernel:
        return self._kernels.setdefault(max_value_bytes, Kernel(max_value_bytes))

    def writer(self, root: str) -> BlockWriter:
        return self._writers.setdefault(root, BlockWriter(Path(root)))

    def mapped(self, task: StagedTask) -> MappedFiles:
        return self._mapped.setdefault((task.root, task.number), MappedFiles())

    def keep(self, key: tuple[str, int, int, Range], token: str, state: PlanState) -> None:
        """Keep a state as the newest; the oldest ones go if there is too much."""
        self.states.pop(key, None)
        self.states[key] = (token, state)
        sizes: Mapping[tuple[str, int, int, Range], int] = {one: s.nbytes for one, (_, s) in self.states.items()}
        total = sum(sizes.values())
        for one in list(self.states)[:-1]:
            if total <= MOST_STATE_BYTES:
                break
            total -= sizes[one]
            del self.states[one]

    def forget(self, task: StagedTask, batch: StageBatch) -> None:
        """Release files that the plan has no use for any more."""
        mapped = self.mapped(task)
        mapped.forget(mapped.paths - {file.path for window in batch.windows for file in window.files})


_WORKER = _Worker()


def read_reports(tables: Sequence[bytes]) -> list[dict[str, Any]]:
    """The reports of all tasks, by level and place."""
    found: list[dict[str, Any]] = [json.loads(one) for one in tables]
    return sorted(found, key=lambda one: (one["level"], one["place"]))
