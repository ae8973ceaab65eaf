"""The homes of continuous plans: where a batch of ticks is processed, and what it gives to commit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

import pyarrow as pa

from windrow.engine.kept.window_stores import WindowStores
from windrow.engine.plans.commits import ANSWERS, CHANGES, STATE, VIEW, NewPart, PlanCommits, WrittenBlock
from windrow.engine.plans.due import lingering, occupied
from windrow.engine.plans.query import ContinuousQuery, HomeState, ViewMerge, counts_windows
from windrow.engine.plans.sharing.joins import Given, JoinsInDriver
from windrow.engine.plans.sharing.subplans import TakenBy, note_sharers, subplans_of
from windrow.engine.plans.tables import answers_table, ordered
from windrow.engine.tables.uses import Effects
from windrow.errors import StateError, WindrowError, first_line
from windrow.operators.advance import Advance, advance
from windrow.operators.changes import AT, HEAD, in_order, stored
from windrow.operators.layouts.parts import StatePart
from windrow.operators.scan import StreamRows, added, births_end, reach, read_window
from windrow.operators.sharing.subplans import CompactedOnce, SharedSubPlans, SubPlan
from windrow.operators.stages.cutting import staged
from windrow.operators.stages.ranges import WHOLE, Range, restored_range
from windrow.operators.state import PlanState
from windrow.operators.tables.edges import Edge
from windrow.operators.tables.kernel import Kernel
from windrow.operators.ticks import DueTicks, OccupiedTicks, Points
from windrow.operators.view import beginning, by_expiration, lifespan, merged_view
from windrow.plan.algebra.nodes import ToStream
from windrow.settings import Settings
from windrow.types import POINT_MAX, POINT_MIN

log = logging.getLogger("windrow")

DRIVER, SPARK = "driver", "spark"
BACK = 4
"""A plan moves back to the driver when it is smaller than this part of the bound."""


@dataclass(frozen=True)
class PlanBatch:
    """What a batch of ticks gives: `count` changes, which `changes` reads in order; the state after it; the parts to
    write, or the blocks that tasks have written; and the kinds of earlier parts that these replace. `covered`, of a
    periodic plan: the tick from which on its windows hold no tuple so far."""

    count: int
    changes: Callable[[], pa.Table]
    state: HomeState
    parts: tuple[NewPart, ...] = ()
    blocks: tuple[WrittenBlock, ...] = ()
    drops: tuple[str, ...] = ()
    covered: int | None = None
    effects: Effects = field(default_factory=dict)
    """By table, the last change that is in effect after it."""
    overflows: int = 0
    """How many values that it reports, or that HAVING tests, are NULL because they do not fit."""
    merge: ViewMerge | None = None
    """What of the view was merged, and is among the parts or the blocks."""

    @property
    def shows_new(self) -> bool:
        """Whether its own changes are in the merged view."""
        return self.merge is not None and self.merge.with_new

    @property
    def is_written(self) -> bool:
        """Whether it has anything to write."""
        return bool(self.parts or self.blocks)


@dataclass(frozen=True)
class PlanFailure:
    """Why a plan cannot be processed."""

    why: str


@dataclass(frozen=True)
class PlanDelay:
    """Why a plan stays where it is, until its next tick tries again."""

    error: WindrowError


PlanOutcome = PlanBatch | PlanFailure | PlanDelay


class PlanHome(Protocol):
    """Processes batches of ticks. It changes neither the query nor the catalog."""

    def advance(self, queries: Sequence[ContinuousQuery], due: DueTicks, merging: bool) -> list[PlanOutcome]:
        """Process all due ticks of the queries. `merging`: state is written anew, as few parts, in place of all earlier
        ones, and so is what `ContinuousQuery.view_merge` says of the view; state that is so already may stay. If the
        state of a query is in another home, `merging` is set, and the state comes over."""

    def built(self, query: ContinuousQuery, due: DueTicks) -> PlanBatch | None:
        """Process the ticks of a query that takes the place of another, from the tuples that are kept alone: nothing
        that is on record under its number is read. None: it cannot be done here."""


class PlanHomes:
    """Chooses homes, and knows which there are. `homes`: by name."""

    def __init__(self, homes: dict[str, PlanHome], stores: WindowStores, settings: Callable[[], Settings]):
        self._homes = homes
        self._stores = stores
        self._settings = settings

    def __getitem__(self, name: str) -> PlanHome:
        return self._homes[name]

    def choose(self, queries: Sequence[ContinuousQuery], due: DueTicks) -> dict[int, tuple[str, str]]:
        """The homes of queries for the next batch, and why, by number of the query."""
        wish, bound = self._settings().text("plan_home"), self._settings().integer("driver_plan_bytes")
        if SPARK not in self._homes or wish == DRIVER:
            return {query.id: (DRIVER, "plan_home = 'driver'") for query in queries}
        if wish == SPARK:
            return {query.id: (SPARK, "plan_home = 'spark'") for query in queries}
        read = _ReadBytes(self._stores)
        return {query.id: self._by_size(query, due, bound, read) for query in queries}

    def fits_driver(self, query: ContinuousQuery) -> bool:
        """Whether what a tick of a query reads may come to the driver (`driver_plan_bytes`), wherever it is now."""
        ticked = query.progress.ticked
        size = query.version.state.nbytes + query.unread_bytes
        if ticked is not None:
            size += _ReadBytes(self._stores).above(query, ticked)
        return size <= self._settings().integer("driver_plan_bytes")

    def built(self, query: ContinuousQuery, due: DueTicks, home: str) -> PlanBatch | None:
        """As `PlanHome.built`, in a home."""
        return self._homes[home].built(query, due)

    def _by_size(self, query: ContinuousQuery, due: DueTicks, bound: int, read: _ReadBytes) -> tuple[str, str]:
        if staged(query.plan).is_single:
            return DRIVER, "all its rows must be in one place"
        size = query.version.state.nbytes + read.above(query, due.before) + query.unread_bytes
        least = bound // BACK if query.home == SPARK else bound
        if size > least:
            return SPARK, f"a tick reads {size:,} bytes, more than {least:,} (driver_plan_bytes)"
        return DRIVER, f"a tick reads {size:,} bytes, at most {least:,} (driver_plan_bytes)"


class _ReadBytes:
    """The bytes of the files that ticks read; those of a store are added up once for all queries."""

    def __init__(self, stores: WindowStores):
        self._stores = stores
        self._known: dict[tuple[int, int], int] = {}

    def above(self, query: ContinuousQuery, ticked: int) -> int:
        """Those that ticks above this one read."""
        found = 0
        for i, use in enumerate(query.uses):
            asked = use.store, needed_from(query, i, ticked)
            if asked not in self._known:
                self._known[asked] = self._stores.bytes_from(use, asked[1])
            found += self._known[asked]
        return found


def needed_from(query: ContinuousQuery, i: int, ticked: int) -> int:
    """The least point of window i that a tick above `ticked` reads."""
    below = reach(query.plan.windows[i], query.history[i])
    return POINT_MIN if below is None else ticked - below


def reads_tuples(query: ContinuousQuery, stores: WindowStores, ticked: int) -> bool:
    """Whether there are tuples that a tick above `ticked` may read."""
    return any(stores.bytes_from(use, needed_from(query, i, ticked)) for i, use in enumerate(query.uses))


def is_past(query: ContinuousQuery, due: DueTicks) -> bool:
    """Whether these ticks were due when the query was created, or its tables are not known at them: they only build its
    state."""
    return query.choices.begins_after is not None and due.upto <= query.choices.begins_after


def begins_now(query: ContinuousQuery, due: DueTicks) -> bool:
    """Whether the query reports its answer at the last of these ticks, and nothing of the past before."""
    return is_past(query, due) and not is_silent(query, due)


def is_silent(query: ContinuousQuery, due: DueTicks) -> bool:
    """Whether the query reports nothing of these ticks: windows that closed before it was created, and a stream
    (ISTREAM, DSTREAM, RSTREAM) before its first tick."""
    return is_past(query, due) and (query.plan.periodic or isinstance(query.plan.root, ToStream))


def has_view(query: ContinuousQuery) -> bool:
    """Whether a view is kept of the query's changes."""
    return not query.plan.periodic and query.derived is None


def new_rows(query: ContinuousQuery, stores: WindowStores, due: DueTicks) -> int:
    """The most tuples that the due ticks bring."""
    found = 0
    for window, use in zip(query.plan.windows, query.uses, strict=True):
        lo, hi = due.before - window.lifetime.offset, due.upto - window.lifetime.offset
        found += sum(file.rows for file in stores.files(use) if file.hi >= lo and file.lo < hi)
    return found


def lifetimes(query: ContinuousQuery, stores: WindowStores, due: DueTicks) -> list[tuple[Points, Points]]:
    """When the new tuples of each window are born, and when no tick counts them any more."""
    found, counts_all, lingers = [], counts_windows(query.plan), lingering(query.plan)
    for window, use in zip(query.plan.windows, query.uses, strict=True):
        lifetime, use = window.lifetime, replace(use, predicate=None) if counts_all else use
        lo, hi = due.before - lifetime.offset, due.upto - lifetime.offset
        lo = lo if lifetime.since is None else min(max(lo, lifetime.since), hi)
        births = stores.rows(use, (), lo, hi).column("__t").to_numpy() + lifetime.offset
        found.append((births, added(births_end(births, lifetime), lingers)))
    return found


def occupied_ticks(query: ContinuousQuery, stores: WindowStores, due: DueTicks) -> OccupiedTicks | None:
    """The due ticks at which a window of a periodic plan holds a tuple: only these are answered."""
    if not query.plan.periodic:
        return None
    return occupied(due, lifetimes(query, stores, due), query.progress.covered)


@dataclass
class _DriverBatch:
    """A batch of ticks of several queries: the sub-plans that they share, and who took which."""

    due: DueTicks
    merging: bool
    shared: SharedSubPlans
    taken: list[TakenBy] = field(default_factory=list)
    compacted: CompactedOnce = field(default_factory=CompactedOnce)


class DriverHome:
    """Advances plans in this process, over mapped files."""

    def __init__(self, commits: PlanCommits, stores: WindowStores, settings: Callable[[], Settings]):
        self._commits = commits
        self._stores = stores
        self._settings = settings
        self._kernel = Kernel(settings().integer("max_value_bytes"))
        self._shared = JoinsInDriver(stores, self._kernel)

    def advance(self, queries: Sequence[ContinuousQuery], due: DueTicks, merging: bool) -> list[PlanOutcome]:
        given = self._given(queries, due)
        subplans = {query.id: subplans_of(query, due) for query in queries}
        batch = _DriverBatch(due, merging, SharedSubPlans.of(subplans.values(), due.before, merging))
        found = list[PlanOutcome]()
        for query in queries:
            try:
                found.append(self._one(query, batch, given.get(query.id), subplans[query.id]))
            except StateError as error:
                found.append(PlanDelay(error))
            except Exception as error:
                found.append(PlanFailure(first_line(error)))
        note_sharers(queries, batch.taken)
        return found

    def built(self, query: ContinuousQuery, due: DueTicks) -> PlanBatch | None:
        return None  # here the state of the other query is at hand, and is carried over

    def _given(self, queries: Sequence[ContinuousQuery], due: DueTicks) -> dict[int, Given]:
        """The joins that the queries share. If one fails, every query processes its own, and who is guilty fails."""
        try:
            return self._shared.given(queries, due)
        except Exception as error:
            log.warning("a join that queries share failed, so each of them joins alone: %s", first_line(error))
            return {}

    def _one(
        self, query: ContinuousQuery, batch: _DriverBatch, given: Given | None, subplans: Sequence[SubPlan]
    ) -> PlanBatch:
        state, due, merging = query.version.state, batch.due, batch.merging
        if query.home != DRIVER:
            state = restored(query, self._commits, due.before)
        runs = occupied_ticks(query, self._stores, due)
        done = self._advance(query, cast(PlanState, state), batch, runs, given, subplans)
        if merging:
            done = replace(done, state=batch.compacted.relaid(query.plan, done.state))
        parts, drops = self._parts(query, done, batch)
        blocks: tuple[WrittenBlock, ...] = ()
        merge = query.view_merge(due.upto, self._settings().integer("retained_changes")) if merging else None
        if merge is not None:
            shown = (*merge.taken(query.version), done.changes if merge.with_new else done.changes.slice(0, 0))
            drops += [VIEW] if merge.is_rewritten else []
            if merge.width is None:
                parts.append(view_part(query, merged_view(shown, due.upto), merge.upto))
            else:
                views = by_expiration(shown, due.upto, merge.width)
                blocks = self._commits.write_views(query.id, merge.upto, views)
        return PlanBatch(
            done.changes.num_rows,
            lambda: done.changes if query.plan.periodic else in_order([done.changes]),
            done.state,
            parts=tuple(parts),
            blocks=blocks,
            drops=tuple(drops),
            covered=None if runs is None else runs.stop,
            effects=query.effects_after(due),
            overflows=done.overflows,
            merge=merge,
        )

    def _advance(
        self,
        query: ContinuousQuery,
        state: PlanState,
        batch: _DriverBatch,
        runs: OccupiedTicks | None,
        given: Given | None,
        subplans: Sequence[SubPlan],
    ) -> Advance:
        if given is not None and not isinstance(given.output, Edge):
            query.meter.add_batch(batch.due.upto - batch.due.before, 0.0, 0.0)
            return self._shown(query, Advance(given.output, state.skipped_to(batch.due.upto), ()), batch.due, runs)
        started, due = time.perf_counter(), batch.due
        edges, read_before = ({}, frozenset()) if given is None else ({given.path: given.output}, given.windows)
        taken = batch.shared.find(subplans, state)
        edges, read_before = {**edges, **taken.edges}, read_before | taken.windows
        rows = {i: self._rows(query, i, due) for i in range(len(query.uses)) if i not in read_before}
        relations = {use.path: use.rows(query.progress.effects, due) for use in query.tables}
        read, asked = time.perf_counter(), batch.shared.wanted(subplans)
        explicit, paths = query.choices.explicit_expiry, [one.path for one in asked]
        done = advance(query.plan, state, rows, due, self._kernel, explicit, query.meter, edges, relations, paths)
        after, parts = taken.added_to(done.state, done.parts)
        done = replace(done, state=after, parts=parts)
        batch.taken += [(query.id, *source) for source in taken.sources()]
        for path, edge in taken.edges.items():
            query.meter.add(path, edge.rows.num_rows, edge.rows.get_total_buffer_size(), 0.0)
        batch.shared.add(query.id, asked, state, done.state, done.parts, done.edges)
        query.meter.add_batch(due.upto - due.before, read - started, time.perf_counter() - read)
        return self._shown(query, replace(done, changes=stored(done.changes)), due, runs)

    def _shown(self, query: ContinuousQuery, done: Advance, due: DueTicks, runs: OccupiedTicks | None) -> Advance:
        """With the changes that the query reports."""
        changes = done.changes
        if is_silent(query, due):
            return replace(done, changes=changes.slice(0, 0), overflows=0)
        if runs is not None:
            kept = in_order([changes.filter(pa.array(runs.has(changes.column(AT).to_numpy())))])
            return replace(done, changes=ordered(query.plan, kept, self._kernel, first=HEAD[AT]))
        return replace(done, changes=beginning(changes, due.upto) if begins_now(query, due) else changes)

    def _rows(self, query: ContinuousQuery, i: int, due: DueTicks) -> StreamRows:
        """The stored tuples that a window of the plan needs for these ticks."""

        def read(lo: int, hi: int) -> pa.Table:
            return self._stores.rows(query.uses[i], query.columns[i], lo, hi)

        return read_window(query.plan.windows[i], read, query.history[i], due)

    def _parts(self, query: ContinuousQuery, done: Advance, batch: _DriverBatch) -> tuple[list[NewPart], list[str]]:
        """What a commit writes beside the view, and the kinds of parts that it replaces."""
        ticked, merging = batch.due.upto, batch.merging
        is_rewritten = merging and not _is_settled(query, done)
        state = batch.compacted.parts(done.state) if is_rewritten else done.parts
        found = [state_part(part) for part in state]
        drops = [STATE] if is_rewritten else []
        if done.changes.num_rows:
            is_answer = query.plan.periodic and query.derived is None
            if is_answer:
                found.append(NewPart(ANSWERS, answers_table(query.plan, done.changes), lo=ticked, hi=ticked))
            else:
                found.append(changes_part(query, done.changes))
        return found, drops


def _is_settled(query: ContinuousQuery, done: Advance) -> bool:
    """Whether the durable state is as the last merge wrote it, and nothing in it expires: it has rows of tables."""
    is_new = query.home != DRIVER or query.has_new_state or bool(done.parts)
    return not is_new and not query.keeps_expiring


def changes_part(query: ContinuousQuery, changes: pa.Table) -> NewPart:
    """Changes as a part to write. When those end that withdraw others is not said."""
    first, last = lifespan(changes, query.is_withdrawn)
    return NewPart(CHANGES, changes, lo=first, hi=None if query.is_withdrawn else last)


def view_part(query: ContinuousQuery, view: pa.Table, upto: int | None = None) -> NewPart:
    """A merged view as one part to write, with the changes up to a commit (None: the one that writes it). One from
    which rows are withdrawn is replaced, not dropped."""
    first, last = lifespan(view)
    return NewPart(VIEW, view, lo=first, hi=None if query.is_withdrawn else last, seq=upto)


def state_part(part: StatePart) -> NewPart:
    """A part of state to write. Rows that never expire end above all points."""
    return NewPart(STATE, part.rows, part.path, part.layout.name, part.lo, min(part.hi, POINT_MAX))


def restored(query: ContinuousQuery, commits: PlanCommits, ticked: int) -> PlanState:
    """The state of a plan from its durable parts, wherever they were written."""
    sources = dict[Range, list[StatePart]]()
    for part in commits.parts(query.id, STATE):
        sources.setdefault(part.buckets, []).append(commits.state_part(part))
    return restored_range(query.plan, staged(query.plan).cuts, sources, WHOLE, ticked)
