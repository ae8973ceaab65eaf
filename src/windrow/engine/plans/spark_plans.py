"""Continuous plans in the Spark home: what a batch of ticks reads, its job, and what the tasks report."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from windrow.dataplane.blocks import BlockRef
from windrow.dataplane.kernels.plan_stage import StageBatch, StagedTask, StoredPart, StoredWindow
from windrow.dataplane.kernels.plan_tables import StoredRelation
from windrow.dataplane.plan_stages import PlanStages
from windrow.engine.kept.window_stores import ATTEMPTS, WindowStores
from windrow.engine.plans.commits import ANSWERS, CHANGES, STATE, VIEW, PlanCommits, PlanPart, WrittenBlock
from windrow.engine.plans.homes import (
    SPARK,
    PlanBatch,
    PlanFailure,
    begins_now,
    has_view,
    is_silent,
    needed_from,
    occupied_ticks,
)
from windrow.engine.plans.query import ContinuousQuery, HomeState
from windrow.engine.plans.tables import ordered
from windrow.engine.tables.uses import TableUse
from windrow.errors import SessionError, StateError, WindrowError, first_line
from windrow.operators.changes import AT, HEAD, changes_schema, in_order, stored
from windrow.operators.stages.cutting import staged
from windrow.operators.stages.ranges import WHOLE, Range, ranges_of
from windrow.operators.tables.kernel import Kernel
from windrow.operators.ticks import DueTicks
from windrow.settings import Settings

BYTES_PER_TASK = 512 << 20
"""There are more tasks than cores when each would have more than this to read."""

KNOWN = 32
"""So many states of earlier batches can be caught up by tasks."""


@dataclass(frozen=True)
class StageState:
    """The state of a plan as Spark tasks have it: the ranges of buckets that it is cut into, the token of the batch
    that it is after, the commits of earlier ones, its sizes, and the last tick."""

    ranges: tuple[Range, ...]
    token: str | None = None
    known: tuple[tuple[str, int], ...] = ()
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    ticked: int | None = None

    def skipped_to(self, ticked: int) -> StageState:
        """The state after ticks at which nothing is there."""
        return replace(self, ticked=ticked)

    @property
    def nbytes(self) -> int:
        return sum(size for _, size in self.sizes.values())

    @property
    def rows(self) -> int:
        return sum(rows for rows, _ in self.sizes.values())


class SparkPlans:
    """Advances plans by Spark jobs."""

    def __init__(
        self,
        stages: PlanStages,
        commits: PlanCommits,
        stores: WindowStores,
        root: str,
        settings: Callable[[], Settings],
        watched: Callable[[], AbstractContextManager[None]],
    ):
        self._stages = stages
        self._commits = commits
        self._stores = stores
        self._root = root
        self._settings = settings
        self._watched = watched
        self._kernel = Kernel(settings().integer("max_value_bytes"))
        self._tasks: dict[int, StagedTask] = {}

    def forget(self, number: int) -> None:
        """Forget a query that was dropped."""
        self._tasks.pop(number, None)
        self._stages.forget(number)

    def advance(
        self, queries: Sequence[ContinuousQuery], due: DueTicks, merging: bool
    ) -> list[PlanBatch | PlanFailure]:
        return [self._one(query, due, merging) for query in queries]

    def _one(self, query: ContinuousQuery, due: DueTicks, merging: bool) -> PlanBatch | PlanFailure:
        before = query.version.state if query.home == SPARK else StageState(())
        assert isinstance(before, StageState)
        if query.home == SPARK and not merging and self._is_idle(query, before, due):
            idle = before.skipped_to(due.upto)
            return PlanBatch(0, lambda: _no_changes(query), idle, effects=query.progress.effects)
        task = self._task(query)
        for attempt in range(ATTEMPTS):
            batch = self._batch(query, task, before, due, merging)
            reports = self._run(query, task, batch)
            failed = next((one for one in reports if "error" in one or "missing" in one), None)
            if failed is None:
                return self._done(query, batch, reports)
            if "error" in failed:
                return PlanFailure(failed["error"])
            if attempt == ATTEMPTS - 1:
                raise StateError(failed["missing"], remedy="Restore the state directory from a copy.")
            self._stores.look_again(query.uses)  # a file may have been merged meanwhile, or have expired
        raise AssertionError

    def _run(self, query: ContinuousQuery, task: StagedTask, batch: StageBatch) -> list[dict[str, Any]]:
        try:
            with self._watched():
                return self._stages.run(task, batch)
        except WindrowError:
            raise
        except Exception as error:
            raise SessionError(
                f"the Spark job of a tick of query '{query.name}' failed: {first_line(error)}",
                remedy="Nothing is lost: the tick is tried again. See the messages of the Spark executors.",
            ) from error

    # -- what a batch reads --------------------------------------------------------------------

    def _task(self, query: ContinuousQuery) -> StagedTask:
        """What tasks know of a plan; the same object as long as it is the same, since it is broadcast."""
        most, known = self._settings().integer("max_value_bytes"), self._tasks.get(query.id)
        if known is None or known.plan is not query.plan or known.max_value_bytes != most:
            explicit = query.choices.explicit_expiry
            known = StagedTask(self._root, query.id, query.plan, staged(query.plan), query.columns, explicit, most)
            self._tasks[query.id] = known
        return known

    def _batch(
        self, query: ContinuousQuery, task: StagedTask, before: StageState, due: DueTicks, merging: bool
    ) -> StageBatch:
        windows = tuple(self._window(query, i, due) for i in range(len(query.uses)))
        ranges = before.ranges
        if merging or not ranges:
            ranges = self._ranges(query, task, due)
        shown = self._commits.view_parts(query.id) if merging and has_view(query) else []
        width = query.view_width
        if width is not None:
            shown = [part for part in shown if part.kind == CHANGES]
        return StageBatch(
            token=uuid.uuid4().hex,
            before=before.token if ranges == before.ranges else None,
            known=before.known if ranges == before.ranges else (),
            due=due,
            ranges=ranges,
            windows=windows,
            state=tuple(_stored(part) for part in self._commits.parts(query.id, STATE)),
            shown=tuple(_stored(part) for part in shown),
            merging=merging,
            begins=begins_now(query, due),
            is_silent=is_silent(query, due),
            has_view=has_view(query),
            view_width=width,
            is_derived=query.derived is not None,
            occupied=occupied_ticks(query, self._stores, due),
            relations=tuple(_relation(use, query) for use in query.tables),
        )

    def _window(self, query: ContinuousQuery, i: int, due: DueTicks) -> StoredWindow:
        lo, hi = self._points(query, i, due)
        use = query.uses[i]
        files = tuple(one for one in self._stores.files(use) if one.hi >= lo and one.lo < hi)
        return StoredWindow(files, lo if use.since is None else max(lo, use.since), use.predicate)

    def _points(self, query: ContinuousQuery, i: int, due: DueTicks) -> tuple[int, int]:
        lo = needed_from(query, i, due.before)
        return lo, due.upto - query.plan.windows[i].lifetime.offset

    def _ranges(self, query: ContinuousQuery, task: StagedTask, due: DueTicks) -> tuple[Range, ...]:
        """A range per core, more if each is large: a job of four tasks on two cores takes up to 2.5 times as long."""
        if task.staged.is_single:
            return (WHOLE,)
        size = query.version.state.nbytes
        for i, use in enumerate(query.uses):
            size += self._stores.bytes_from(use, self._points(query, i, due)[0])
        return ranges_of(min(WHOLE[1], max(self._stages.cores, size // BYTES_PER_TASK)))

    def _is_idle(self, query: ContinuousQuery, before: StageState, due: DueTicks) -> bool:
        """Whether nothing comes and there is nothing to go."""
        if before.rows or query.progress.ticked is None or before.token is None:
            return False
        if query.effects_now != query.progress.effects:
            return False
        for i, window in enumerate(query.plan.windows):
            lo, hi = due.before - window.lifetime.offset, due.upto - window.lifetime.offset
            if any(one.hi >= lo and one.lo < hi for one in self._stores.files(query.uses[i])):
                return False
        return True

    # -- what it gives -------------------------------------------------------------------------

    def _done(self, query: ContinuousQuery, batch: StageBatch, reports: list[dict[str, Any]]) -> PlanBatch:
        seq = query.progress.seq + 1
        blocks = tuple(_block(told, seq) for one in reports for told in one["blocks"])
        parts = [part for block in blocks for part in block.parts]
        # Without parts of state, the state is that of the commit before, whether or not this becomes one.
        known = (batch.token, seq if any(part.kind == STATE for part in parts) else seq - 1)
        earlier = () if batch.merging else batch.known[-KNOWN:]
        state = StageState(batch.ranges, batch.token, (*earlier, known), _sizes(reports), batch.due.upto)
        is_rewritten = batch.has_view and batch.view_width is None
        drops = () if not batch.merging else (STATE, VIEW) if is_rewritten else (STATE,)
        self._meter(query, batch, reports)

        def changes() -> pa.Table:
            shown = [self._commits.read(part) for part in parts if part.kind in (CHANGES, ANSWERS)]
            found = in_order([_no_changes(query), *shown])
            return ordered(query.plan, found, self._kernel, first=HEAD[AT]) if query.plan.periodic else found

        covered = None if batch.occupied is None else batch.occupied.stop
        count = sum(one["changes"] for one in reports)
        effects = {one.table: one.seq for one in batch.relations}
        return PlanBatch(count, changes, state, blocks=blocks, drops=drops, covered=covered, effects=effects)

    def _meter(self, query: ContinuousQuery, batch: StageBatch, reports: list[dict[str, Any]]) -> None:
        """Count what the operators did in all tasks."""
        for report in reports:
            for path, (rows, size, seconds) in report["counts"].items():
                query.meter.add(path, rows, size, seconds)
        reading, working = (max((one[name] for one in reports), default=0.0) for name in ("read_s", "advance_s"))
        query.meter.add_batch(batch.due.upto - batch.due.before, reading, working)


def _no_changes(query: ContinuousQuery) -> pa.Table:
    return stored(changes_schema(query.plan.schema).empty_table())


def restored_state(parts: list[PlanPart], ticked: int | None) -> HomeState:
    """The state of a plan in the Spark home after a restart; its first batch cuts and merges it anew."""
    sizes = dict[str, tuple[int, int]]()
    for part in parts:
        rows, size = sizes.get(part.operator or "", (0, 0))
        sizes[part.operator or ""] = (rows + part.rows, size + part.length)
    return StageState((), sizes=sizes, ticked=ticked)


def _sizes(reports: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    found = dict[str, tuple[int, int]]()
    for report in reports:
        for path, (rows, size) in report["sizes"].items():
            before = found.get(path, (0, 0))
            found[path] = (before[0] + rows, before[1] + size)
    return found


def _block(report: dict[str, Any], seq: int) -> WrittenBlock:
    ref = BlockRef(**report["ref"])
    parts = []
    for told in report["parts"]:
        buckets = (told["buckets"][0], told["buckets"][1])
        state = (told.get("operator"), told.get("layout"), told.get("lo"), told.get("hi"))
        parts.append(
            PlanPart(told["kind"], seq, ref.path, told["offset"], told["length"], told["rows"], *state, buckets)
        )
    return WrittenBlock(ref, tuple(parts))


def _relation(use: TableUse, query: ContinuousQuery) -> StoredRelation:
    table = use.table
    changes = tuple((one.seq, one.path) for one in table.changes)
    since = query.progress.effects.get(table.id)
    return StoredRelation(use.path, table.id, table.definition.key, table.version.seq, table.base.path, changes, since)


def _stored(part: PlanPart) -> StoredPart:
    place = (part.path, part.offset, part.length, part.seq, part.buckets)
    return StoredPart(*place, part.operator or "", part.layout or "", part.lo or 0, part.hi or 0)
