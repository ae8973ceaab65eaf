"""Continuous plans in the Spark home: what a batch of ticks reads, its job, and what the tasks report.

All plans that are due together are one job, and a join that several have in common runs once in it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from windrow.dataplane.blocks import BlockRef
from windrow.dataplane.kernels.plan_tables import StoredBase, StoredRelation
from windrow.dataplane.kernels.stage_messages import (
    JoinTaker,
    MergedView,
    SharedJoinBatch,
    SharedJoinTask,
    StageBatch,
    StagedTask,
    StageJob,
    StoredPart,
    StoredWindow,
)
from windrow.dataplane.plan_stages import PlanStages
from windrow.dataplane.stores import StoredRows
from windrow.engine.kept.window_stores import ATTEMPTS, StoreUse, WindowStores
from windrow.engine.plans.commits import ANSWERS, CHANGES, STATE, VIEW, PlanCommits, PlanPart, WrittenBlock
from windrow.engine.plans.homes import (
    SPARK,
    PlanBatch,
    PlanDelay,
    PlanFailure,
    PlanOutcome,
    begins_now,
    is_silent,
    needed_from,
    occupied_ticks,
)
from windrow.engine.plans.query import ContinuousQuery, HomeState, ViewMerge
from windrow.engine.plans.sharing.joins import JoinGroup, JoinMember, SharedJoins
from windrow.engine.plans.sharing.subplans import TakenBy, note_sharers, subplans_of
from windrow.engine.plans.tables import ordered
from windrow.engine.tables.stored import change_schema
from windrow.engine.tables.uses import Effects, TableUse
from windrow.errors import SessionError, StateError, WindrowError, first_line
from windrow.operators.changes import AT, HEAD, changes_schema, in_order, stored
from windrow.operators.layouts.parts import Departures, Layout, LayoutUse
from windrow.operators.sharing.subplans import SubPlan
from windrow.operators.stages.cutting import stage_of, staged
from windrow.operators.stages.ranges import WHOLE, Range, ranges_of
from windrow.operators.tables.kernel import Kernel
from windrow.operators.ticks import DueTicks
from windrow.plan.algebra.nodes import ContinuousPlan
from windrow.settings import Settings

log = logging.getLogger("windrow")

BYTES_PER_TASK = 512 << 20
"""There are more tasks than cores when each would have more than this to read."""

REMEMBERED = 64
"""So many shared joins are remembered by tasks."""

KNOWN = 32
"""So many states of earlier batches can be caught up by tasks."""


@dataclass(frozen=True)
class StageState:
    """The state of a plan as Spark tasks have it: the ranges of buckets that it is cut into, the token of the batch
    that it is after, the commits of earlier ones, its sizes, the last tick, and layouts that depend on what leaves."""

    ranges: tuple[Range, ...]
    token: str | None = None
    known: tuple[tuple[str, int], ...] = ()
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    ticked: int | None = None
    layouts: Mapping[str, LayoutUse] = field(default_factory=dict)

    def skipped_to(self, ticked: int) -> StageState:
        """The state after ticks at which nothing is there."""
        return replace(self, ticked=ticked)

    @property
    def nbytes(self) -> int:
        return sum(size for _, size in self.sizes.values())

    @property
    def rows(self) -> int:
        return sum(rows for rows, _ in self.sizes.values())


@dataclass(frozen=True)
class _Due:
    """A query in a job: what tasks know of its plan, its batch, and how its view is merged, if it is."""

    query: ContinuousQuery
    task: StagedTask
    batch: StageBatch
    merge: ViewMerge | None


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
        self._shared = SharedJoins()
        self._joins: dict[tuple[object, ...], SharedJoinTask] = {}
        self._made_joins = 0

    def forget(self, number: int) -> None:
        """Forget a query that was dropped."""
        self._tasks.pop(number, None)
        self._stages.forget(number)
        for key in [key for key in self._joins if number in key]:
            self._stages.forget_join(self._joins.pop(key).number)

    def advance(self, queries: Sequence[ContinuousQuery], due: DueTicks, merging: bool) -> list[PlanOutcome]:
        found = dict[int, PlanOutcome]()
        waiting = [query for query in queries if not self._pass_idle(query, due, merging, found)]
        for attempt in range(ATTEMPTS):
            missing = list[ContinuousQuery]()
            for one, reports in self._job(waiting, due, merging):
                failed = next((told for told in reports if "error" in told or "missing" in told), None)
                if failed is None:
                    found[one.query.id] = self._done(one, reports)
                elif "error" in failed:
                    found[one.query.id] = PlanFailure(failed["error"])
                elif attempt < ATTEMPTS - 1:
                    missing.append(one.query)
                    self._stores.look_again(one.query.uses)  # a file may have been merged meanwhile, or have expired
                else:
                    remedy = "Restore the state directory from a copy."
                    found[one.query.id] = PlanDelay(StateError(failed["missing"], remedy=remedy))
            waiting = missing
        return [found[query.id] for query in queries]

    def built(self, query: ContinuousQuery, due: DueTicks) -> PlanBatch | None:
        for _ in range(ATTEMPTS):
            plan = self._due(query, due, False, _StoreFiles(self._stores), state=None)
            ((_, reports),) = self._run([plan], [], StageJob((plan.batch,), ()))
            if any("error" in told for told in reports):
                return None
            if not any("missing" in told for told in reports):
                return self._done(plan, reports)
            self._stores.look_again(query.uses)
        return None

    def _pass_idle(self, query: ContinuousQuery, due: DueTicks, merging: bool, found: dict[int, PlanOutcome]) -> bool:
        """Pass the ticks of a query for which nothing comes and nothing goes; return whether it is one."""
        before = self._before(query)
        if query.home != SPARK or merging or not self._is_idle(query, before, due):
            return False
        idle, effects = before.skipped_to(due.upto), query.effects_after(due)
        found[query.id] = PlanBatch(0, lambda: _no_changes(query), idle, effects=effects)
        return True

    def _before(self, query: ContinuousQuery) -> StageState:
        before = query.version.state if query.home == SPARK else StageState(())
        assert isinstance(before, StageState)
        return before

    def _job(
        self, queries: Sequence[ContinuousQuery], due: DueTicks, merging: bool
    ) -> list[tuple[_Due, list[dict[str, Any]]]]:
        """Process a batch of ticks of these queries as one job. Return what tasks report of each."""
        if not queries:
            return []
        files, states = _StoreFiles(self._stores), self._commits.state_parts([query.id for query in queries])
        plans = [self._due(query, due, merging, files, states[query.id]) for query in queries]
        joins, batches = self._common(plans, due, files)
        return self._run(plans, joins, StageJob(tuple(one.batch for one in plans), tuple(batches)))

    def _run(
        self, plans: Sequence[_Due], joins: Sequence[SharedJoinTask], job: StageJob
    ) -> list[tuple[_Due, list[dict[str, Any]]]]:
        queries = [one.query for one in plans]
        try:
            with self._watched():
                reports = self._stages.run([one.task for one in plans], joins, job)
        except WindrowError:
            raise
        except Exception as error:
            names = f"query '{queries[0].name}'" if len(queries) == 1 else f"{len(queries)} queries"
            raise SessionError(
                f"the Spark job of a tick of {names} failed: {first_line(error)}",
                remedy="Nothing is lost: the tick is tried again. See the messages of the Spark executors.",
            ) from error
        for one, mine in zip(plans, reports, strict=True):
            alone = next((told["alone"] for told in mine if "alone" in told), None)
            if alone is not None:
                one.query.shares_join_with = ()
                log.warning("query '%s' joins alone, since the join that it shares failed: %s", one.query.name, alone)
        self._forget_joins(joins)
        self._note_sharers(queries, reports)
        return list(zip(plans, reports, strict=True))

    def _forget_joins(self, used: Sequence[SharedJoinTask]) -> None:
        """Forget shared joins if there are too many, but not those of the last job."""
        numbers = {task.number for task in used}
        if len(self._joins) > max(REMEMBERED, len(used)):
            for key in [key for key, task in self._joins.items() if task.number not in numbers]:
                self._stages.forget_join(self._joins.pop(key).number)

    def _note_sharers(self, queries: Sequence[ContinuousQuery], reports: list[list[dict[str, Any]]]) -> None:
        taken = dict[TakenBy, None]()  # the places of a query report the same
        for query, mine in zip(queries, reports, strict=True):
            for told in mine:
                for path, by, its_path in told.get("took", ()):
                    taken[query.id, path, queries[by].id, its_path] = None
        note_sharers(queries, taken)

    # -- joins that queries have in common -----------------------------------------------------

    def _common(
        self, plans: Sequence[_Due], due: DueTicks, files: _StoreFiles
    ) -> tuple[list[SharedJoinTask], list[SharedJoinBatch]]:
        """The joins that plans of a job have in common. Their rows must be in the same places at the same level."""
        numbers = {one.query.id: i for i, one in enumerate(plans)}

        def where(member: JoinMember) -> object:
            one = plans[numbers[member.query.id]]
            stage = stage_of(one.task.staged, member.path)
            return stage.level, stage.single, one.batch.ranges

        tasks, batches = list[SharedJoinTask](), list[SharedJoinBatch]()
        for group in self._shared.groups([one.query for one in plans], due, where):
            members = tuple(numbers[member.query.id] for member in group.members)
            first = plans[members[0]]
            stage = stage_of(first.task.staged, group.members[0].path)
            tasks.append(self._join_task(group, stage.single))
            windows = tuple(self._join_window(group, i, due, files) for i in range(len(group.common.windows)))
            batches.append(SharedJoinBatch(stage.level, due, first.batch.ranges, windows, members))
        return tasks, batches

    def _join_task(self, group: JoinGroup, single: bool) -> SharedJoinTask:
        """What tasks know of a shared join; the same object as long as it is the same, since it is broadcast."""
        most = self._settings().integer("max_value_bytes")
        key = (*(member.query.id for member in group.members), ("single", single, most))
        if key not in self._joins:
            self._made_joins += 1
            plan = group.members[0].query.plan
            takers = tuple(
                JoinTaker(member.path, route, frozenset(member.windows), _renamed(member))
                for member, route in zip(group.members, group.common.routes, strict=True)
            )
            self._joins[key] = SharedJoinTask(
                self._root,
                self._made_joins,
                ContinuousPlan(group.common.join, plan.point, plan.step, plan.origin),
                group.columns,
                takers,
                single,
                group.has_until,
                most,
            )
        return self._joins[key]

    def _join_window(self, group: JoinGroup, i: int, due: DueTicks, files: _StoreFiles) -> StoredWindow:
        member = group.members[0]
        return files.window(group.use(i), *_points(member.query, member.windows[i], due))

    # -- what a batch reads --------------------------------------------------------------------

    def _task(self, query: ContinuousQuery) -> StagedTask:
        """What tasks know of a plan; the same object as long as it is the same, since it is broadcast."""
        most, known = self._settings().integer("max_value_bytes"), self._tasks.get(query.id)
        if known is None or known.plan is not query.plan or known.max_value_bytes != most:
            explicit = query.choices.explicit_expiry
            known = StagedTask(self._root, query.id, query.plan, staged(query.plan), query.columns, explicit, most)
            self._tasks[query.id] = known
        return known

    def _due(
        self,
        query: ContinuousQuery,
        due: DueTicks,
        merging: bool,
        files: _StoreFiles,
        state: Sequence[PlanPart] | None,
    ) -> _Due:
        """`state` None: the query has no state yet, whatever is on record under its number."""
        task, before = self._task(query), StageState(()) if state is None else self._before(query)
        windows = tuple(files.window(use, *_points(query, i, due)) for i, use in enumerate(query.uses))
        merge = query.view_merge(due.upto, self._settings().integer("retained_changes")) if merging else None
        batch = self._batch(query, task, before, due, merging, merge, windows, state or ())
        return _Due(query, task, replace(batch, subplans=()) if state is None else batch, merge)

    def _batch(
        self,
        query: ContinuousQuery,
        task: StagedTask,
        before: StageState,
        due: DueTicks,
        merging: bool,
        merge: ViewMerge | None,
        windows: tuple[StoredWindow, ...],
        state: Sequence[PlanPart],
    ) -> StageBatch:
        ranges = before.ranges
        if merging or not ranges:
            ranges = self._ranges(query, task, due)
        shown = self._commits.view_parts(query.id) if merge is not None else ()
        return StageBatch(
            token=uuid.uuid4().hex,
            before=before.token if ranges == before.ranges else None,
            known=before.known if ranges == before.ranges else (),
            due=due,
            ranges=ranges,
            windows=windows,
            state=tuple(map(_stored, state)),
            shown=tuple(_stored(part) for part in shown if merge is not None and _is_taken(part, merge)),
            merging=merging,
            begins=begins_now(query, due),
            is_silent=is_silent(query, due),
            view=None if merge is None else MergedView(merge.with_new, merge.width),
            is_derived=query.derived is not None,
            occupied=occupied_ticks(query, self._stores, due),
            subplans=tuple(_in_stages(query, task, ranges, due)),
            relations=tuple(stored_relation(use, query.progress.effects) for use in query.tables),
        )

    def _ranges(self, query: ContinuousQuery, task: StagedTask, due: DueTicks) -> tuple[Range, ...]:
        """A range per core, more if each is large: a job of four tasks on two cores takes up to 2.5 times as long."""
        if task.staged.is_single:
            return (WHOLE,)
        size = query.version.state.nbytes + query.unread_bytes
        for i, use in enumerate(query.uses):
            size += self._stores.bytes_from(use, _points(query, i, due)[0])
        return ranges_of(min(WHOLE[1], max(self._stages.cores, size // BYTES_PER_TASK)))

    def _is_idle(self, query: ContinuousQuery, before: StageState, due: DueTicks) -> bool:
        """Whether nothing comes and there is nothing to go."""
        if before.rows or query.progress.ticked is None or before.token is None:
            return False
        if any(use.is_changed(query.progress.effects, due) for use in query.tables):
            return False
        for i, window in enumerate(query.plan.windows):
            lo, hi = due.before - window.lifetime.offset, due.upto - window.lifetime.offset
            if any(one.hi >= lo and one.lo < hi for one in self._stores.files(query.uses[i])):
                return False
        return True

    # -- what it gives -------------------------------------------------------------------------

    def _done(self, due: _Due, reports: list[dict[str, Any]]) -> PlanBatch:
        query, batch, merge = due.query, due.batch, due.merge
        seq = query.progress.seq + 1
        view_seq = seq if merge is None else merge.upto
        blocks = tuple(_block(told, seq, view_seq) for one in reports for told in one["blocks"])
        parts = [part for block in blocks for part in block.parts]
        # Without parts of state, the state is that of the commit before, whether or not this becomes one.
        known = (batch.token, seq if any(part.kind == STATE for part in parts) else seq - 1)
        earlier = () if batch.merging else batch.known[-KNOWN:]
        kept = (_sizes(reports), batch.due.upto, _layouts(reports))
        state = StageState(batch.ranges, batch.token, (*earlier, known), *kept)
        is_rewritten = merge is not None and merge.is_rewritten
        drops = () if not batch.merging else (STATE, VIEW) if is_rewritten else (STATE,)
        self._meter(query, batch, reports)

        def changes() -> pa.Table:
            shown = [self._commits.read(part) for part in parts if part.kind in (CHANGES, ANSWERS)]
            found = in_order([_no_changes(query), *shown])
            return ordered(query.plan, found, self._kernel, first=HEAD[AT]) if query.plan.periodic else found

        covered = None if batch.occupied is None else batch.occupied.stop
        count = sum(one["changes"] for one in reports)
        return PlanBatch(
            count,
            changes,
            state,
            blocks=blocks,
            drops=drops,
            covered=covered,
            effects=query.effects_after(batch.due),
            overflows=sum(one["overflows"] for one in reports),
            merge=merge,
        )

    def _meter(self, query: ContinuousQuery, batch: StageBatch, reports: list[dict[str, Any]]) -> None:
        """Count what the operators did in all tasks."""
        query.meter.add_tasks(report["counts"] for report in reports)
        reading, working = (max((one[name] for one in reports), default=0.0) for name in ("read_s", "advance_s"))
        query.meter.add_batch(batch.due.upto - batch.due.before, reading, working)


class _StoreFiles:
    """The files of stores, listed once for a job: equal lists are one object, which is sent once."""

    def __init__(self, stores: WindowStores):
        self._stores = stores
        self._listed: dict[int, Sequence[StoredRows]] = {}
        self._needed: dict[tuple[int, int, int], tuple[StoredRows, ...]] = {}

    def window(self, use: StoreUse, lo: int, hi: int) -> StoredWindow:
        """What a use needs of its store, for points from lo to below hi."""
        needed = self._needed.get((use.store, lo, hi))
        if needed is None:
            if use.store not in self._listed:
                self._listed[use.store] = self._stores.files(use)
            needed = tuple(one for one in self._listed[use.store] if one.hi >= lo and one.lo < hi)
            self._needed[use.store, lo, hi] = needed
        return StoredWindow(needed, lo if use.since is None else max(lo, use.since), use.predicate)


def _renamed(member: JoinMember) -> tuple[str, ...] | None:
    """The columns of its join that a query's changes have, if it only renames them where they are joined."""
    return member.renamed if len(staged(member.query.plan).stages) == 1 else None


def _in_stages(
    query: ContinuousQuery, task: StagedTask, ranges: tuple[Range, ...], due: DueTicks
) -> Iterator[tuple[int, SubPlan]]:
    """The sub-plans that a query may share, with their levels: each is within one stage, so that its rows are in the
    same places as those of others that read the same stores."""
    for one in subplans_of(query, due):
        stage = stage_of(task.staged, one.path)
        if one.windows <= set(stage.windows):
            stores = tuple(query.uses[i].store for i in sorted(one.windows))
            yield stage.level, replace(one, key=(one.key, stage.level, stage.single, ranges, stores))


def _points(query: ContinuousQuery, i: int, due: DueTicks) -> tuple[int, int]:
    """The points of window i that a batch may read."""
    return needed_from(query, i, due.before), due.upto - query.plan.windows[i].lifetime.offset


def _no_changes(query: ContinuousQuery) -> pa.Table:
    return stored(changes_schema(query.plan.schema).empty_table())


def restored_state(parts: list[PlanPart], ticked: int | None) -> HomeState:
    """The state of a plan in the Spark home after a restart; its first batch cuts and merges it anew."""
    sizes = dict[str, tuple[int, int]]()
    for part in parts:
        rows, size = sizes.get(part.operator or "", (0, 0))
        sizes[part.operator or ""] = (rows + part.rows, size + part.length)
    tables = {part.operator or "": LayoutUse(tables=1) for part in parts if part.layout == Layout.KEYED.name}
    return StageState((), sizes=sizes, ticked=ticked, layouts=tables)


def _sizes(reports: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    found = dict[str, tuple[int, int]]()
    for report in reports:
        for path, (rows, size) in report["sizes"].items():
            before = found.get(path, (0, 0))
            found[path] = (before[0] + rows, before[1] + size)
    return found


def _layouts(reports: list[dict[str, Any]]) -> dict[str, LayoutUse]:
    found = dict[str, LayoutUse]()
    for report in reports:
        for path, use in report["layouts"].items():
            told = LayoutUse(use["calendars"], use["tables"], Departures(**use["departures"]))
            found[path] = found.get(path, LayoutUse()) + told
    return found


def _is_taken(part: PlanPart, merge: ViewMerge) -> bool:
    """Whether a part of the view is written anew."""
    return merge.is_rewritten if part.kind == VIEW else part.seq <= merge.upto


def _block(report: dict[str, Any], seq: int, view_seq: int) -> WrittenBlock:
    """A block of the commit `seq`; the view has the changes up to `view_seq`."""
    ref = BlockRef(**report["ref"])
    parts = []
    for told in report["parts"]:
        buckets, at = (told["buckets"][0], told["buckets"][1]), view_seq if told["kind"] == VIEW else seq
        state = (told.get("operator"), told.get("layout"), told.get("lo"), told.get("hi"))
        parts.append(
            PlanPart(told["kind"], at, ref.path, told["offset"], told["length"], told["rows"], *state, buckets)
        )
    return WrittenBlock(ref, tuple(parts))


def stored_relation(use: TableUse, effects: Effects) -> StoredRelation:
    """What tasks read of a table. A statement holds `changing` while it waits for this tick, so a tick does not wait
    for it; and it changes the table only after it has waited."""
    table, since = use.table, effects.get(use.table.id)
    fed = None if table.feed is None else change_schema(table.definition)
    held: AbstractContextManager[object] = nullcontext() if fed is None else table.changing
    with held:
        changes = tuple((one.seq, one.path) for one in table.changes)
        seq, base = table.version.seq, table.base
    block = None if base.path is None else StoredBase(base.seq, base.path, base.is_bucketed)
    return StoredRelation(use.path, table.id, table.definition.key, seq, block, changes, since, fed)


def _stored(part: PlanPart) -> StoredPart:
    place = (part.path, part.offset, part.length, part.seq, part.buckets)
    return StoredPart(*place, part.operator or "", part.layout or "", part.lo or 0, part.hi or 0)
