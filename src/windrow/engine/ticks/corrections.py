"""Corrections of given answers by late tuples (LATE REVISE).

A window is corrected if it has been answered and a late pane falls into it. Its rows are looked up without the late
cells and with them; the difference is delivered, '-' before '+'. Groups without a late tuple keep their states to the
last bit, so rounding never corrects them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windrow.dataplane.answers.finishing import Finished
from windrow.dataplane.answers.revisions import GIVEN, TAKEN, difference, with_ops
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.engine.store.tick_commits import LateMerge, TickCommits
from windrow.engine.ticks.guarded_finish import GuardedFinisher
from windrow.engine.ticks.query_answers import QueryAnswers
from windrow.plan.nodes import Finalise
from windrow.settings import Settings
from windrow.synopses import Lookup, LookupAnswer
from windrow.types import POINT_MIN
from windrow.windows import (
    Extents,
    LandmarkWindow,
    Points,
    SlideByTuple,
    SlideOver,
    SlidingWindow,
    Window,
    answered_upto,
)
from windrow.windows.ended import landmarks_upto

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class AffectedWindows:
    """Due windows of a query that late cells may change. `before`: had an answer; `after`: is to have one. The two
    differ for windows by rank, which late tuples create and remove."""

    query: QueryState
    extents: Extents
    before: Mask
    after: Mask

    def __len__(self) -> int:
        return len(self.extents)

    def part(self, rows: slice) -> AffectedWindows:
        return AffectedWindows(self.query, self.extents.part(rows), self.before[rows], self.after[rows])


class Corrector:
    """Computes the corrections of one synopsis from its late cells. The panes tell the affected windows; for windows by
    rank or by n rows, the counts too."""

    def __init__(self, stream: StreamState, state: SynopsisState, settings: Settings):
        self._stream, self._state = stream, state
        self._old, self._late = state.synopsis.closed_panes, state.synopsis.late_panes
        self._ticked = stream.ticked[state.plan.axis]
        self._emits = settings.text("empty_windows") == "emit"

    def applied(self) -> LateMerge:
        """The merge of the late cells, for the commit."""
        state, ranked = self._state, self._state.ranked
        plan = state.plan.queries[0][1] if state.plan.queries else None
        if plan is not None and _over(plan) is SlideOver.RANK:
            ranked += int(self._totals(plan, self._late)[1].sum())
        horizon = self._stream.horizon(state.plan.axis, self._ticked)
        return LateMerge(state, ranked, None if horizon is None else state.closed_at(horizon))

    def corrections(self, finisher: GuardedFinisher, commits: TickCommits, windows: int) -> Iterator[QueryAnswers]:
        """The corrections of every query whose answers change; at most `windows` windows are looked up at a time."""
        found: dict[str, list[_Changes]] = {}
        affected = [self._affected(self._stream.queries[name], plan) for name, plan in self._state.plan.queries]
        for batch in _batches(affected, windows):
            left = [one for one in batch if one.query.error is None]
            for one, (was, now) in zip(left, self._looked(left), strict=True):
                shown = one.query.plan.window.shown(one.extents)
                old = finisher.finish(self._stream, one.query, was, shown, self._state)
                new = None if old is None else finisher.finish(self._stream, one.query, now, shown, self._state)
                if old is not None and new is not None:
                    found.setdefault(one.query.name, []).append(_changes(one, old, new))
        for name, parts in found.items():
            query, changed = self._stream.queries[name], [part for part in parts if part.rows.num_rows]
            if changed and query.error is None:
                yield _delivered(query, changed, commits)

    def _looked(self, affected: Sequence[AffectedWindows]) -> Iterator[tuple[LookupAnswer, LookupAnswer]]:
        """The rows of each query's windows, without the late cells and with them."""
        lookups = [due_lookup(one.query, one.extents) for one in affected]
        there = [(one.before, one.after) for one in affected]
        return self._state.synopsis.revise(lookups, there, self._state.plan)

    # -- which windows -------------------------------------------------------------------------

    def _affected(self, query: QueryState, plan: Finalise) -> AffectedWindows:
        window = plan.window
        since = POINT_MIN if query.since is None else query.since
        old, late = (panes[np.searchsorted(panes, since) :] for panes in (self._old, self._late))
        if isinstance(window, SlideByTuple):
            return self._by_tuple(query, plan, window, old, late)
        extents = window.due(late, query.closed_by, self._answered_upto(window, np.union1d(old, late)))
        held = np.searchsorted(old, extents.ends) > np.searchsorted(old, np.maximum(extents.starts, since))
        upto = self._answered_upto(window, old)
        held = held & (extents.ticks <= upto)
        first = self._first_answered(old, since) if self._emits and not plan.input.keys else None
        if first is not None:
            emptied = self._emptied_upto(window) if isinstance(window, SlidingWindow) else upto
            held = held | ((extents.ends > first) & (extents.ticks <= emptied))
        return AffectedWindows(query, extents, np.asarray(held), np.ones(len(extents), bool))

    def _answered_upto(self, window: Window, panes: Points) -> int:
        """The frontier up to which windows with a tuple of these panes are answered. Landmark windows stop at the end
        of the input."""
        ends = self._stream.ended.get(self._state.plan.axis, ())
        if not ends or not isinstance(window, LandmarkWindow):
            return self._ticked
        return landmarks_upto(ends, window, panes, self._ticked)

    def _emptied_upto(self, window: SlidingWindow) -> int:
        """The frontier up to which empty windows have been answered."""
        return answered_upto(self._stream.ended.get(self._state.plan.axis, ()), window, self._ticked)

    def _first_answered(self, old: Points, since: int) -> int | None:
        """The point from which empty windows have been answered: the first tuple, or the start of the query; None if
        none have been. The first tuple may itself be late."""
        least = self._stream.least.get(self._state.plan.axis)
        if least is None:
            return None
        pane = self._state.closed_at(least)
        if pane in self._late and pane not in self._old:
            return int(old[0]) if old.size else None
        return max(least, since)

    def _by_tuple(
        self, query: QueryState, plan: Finalise, window: SlideByTuple, old: Points, late: Points
    ) -> AffectedWindows:
        """Affected windows that slide by tuple; a late value may be the id of a new window."""
        values = np.union1d(old, late)
        first = POINT_MIN if query.closed_by is None else query.closed_by
        values = values[np.searchsorted(values, first) : np.searchsorted(values, self._ticked)]
        touched = np.searchsorted(late, values, side="right") > np.searchsorted(late, values - (window.range - 1))
        if window.over is SlideOver.VALUE:
            before, after = np.isin(values, old), np.ones(values.size, bool)
        else:
            before, after = self._marked(plan, window, values)
        affected = np.asarray((touched & (before | after)) | (before != after))
        return AffectedWindows(query, window.extents(values[affected]), before[affected], after[affected])

    def _marked(self, plan: Finalise, window: SlideByTuple, values: Points) -> tuple[Mask, Mask]:
        """Which values were window ids, and which are now: those with an n-th row number or rank among their tuples."""
        counts, added = self._totals(plan, values)
        before = self._state.ranked - int(counts.sum())
        return window.marked(counts, before), window.marked(counts + added, before)

    def _totals(self, plan: Finalise, values: Points) -> tuple[Points, Points]:
        """The number of tuples per pane, of the cells that are not late and of those that are."""
        count, synopsis = plan.input.counts[0], self._state.synopsis
        return synopsis.totals(count, values), synopsis.totals(count, values, late=True)


def _batches(affected: Sequence[AffectedWindows], windows: int) -> Iterator[list[AffectedWindows]]:
    """The windows in lists of at most `windows`; a query occurs at most once in a list."""
    batch: list[AffectedWindows] = []
    for one in affected:
        for first in range(0, len(one), windows):
            part = one.part(slice(first, first + windows))
            if batch and sum(map(len, batch)) + len(part) > windows:
                yield batch
                batch = []
            batch.append(part)
    if batch:
        yield batch


def _changes(affected: AffectedWindows, old: Finished, new: Finished) -> _Changes:
    """The difference between the answers without and with the late cells."""
    old, new = _only(old, affected.before), _only(new, affected.after)
    gone, come = difference(old.table, old.window, new.table, new.window)
    rows = pa.concat_tables([old.table.take(gone), new.table.take(come)], promote_options="permissive")
    window = np.concatenate([old.window[gone], new.window[come]])
    taken = np.arange(window.size) < gone.size
    fresh = np.flatnonzero(affected.after & ~affected.before)
    order = np.lexsort((np.arange(window.size), ~taken, window))
    ends = affected.query.plan.window.shown(affected.extents)[1]
    return _Changes(rows.take(order), window[order], taken[order], ends, fresh)


@dataclass(frozen=True)
class _Changes:
    """Rows taken back (`taken`) or given. `window` is the index of each row's window in `ends`; `fresh` windows had no
    answer before."""

    rows: pa.Table
    window: Points
    taken: Mask
    ends: Points
    fresh: Points


def _over(plan: Finalise) -> SlideOver | None:
    return plan.window.over if isinstance(plan.window, SlideByTuple) else None


def _only(finished: Finished, wanted: Mask) -> Finished:
    """The rows of the wanted windows."""
    if wanted.all():
        return finished
    rows = np.flatnonzero(wanted[finished.window])
    return Finished(finished.table.take(rows), finished.window[rows], finished.windows)


def due_lookup(query: QueryState, extents: Extents) -> Lookup:
    """The lookup of some windows of a query."""
    aggregate, since = query.plan.input, query.since
    starts = extents.starts if since is None else extents.starts.clip(min=max(since, POINT_MIN))
    always, read = not aggregate.cell_keys, (aggregate.presence, aggregate.accumulators)
    return Lookup(query.name, starts, extents.ends, *read, always, partitions=extents.partitions)


def _delivered(query: QueryState, parts: list[_Changes], commits: TickCommits) -> QueryAnswers:
    """The changes with revision numbers: 0 for a first answer, then counting up."""
    ends = np.concatenate([part.ends for part in parts])
    before = np.cumsum([0, *(part.ends.size for part in parts[:-1])])
    window = np.concatenate([part.window + b for part, b in zip(parts, before, strict=True)])
    fresh = np.concatenate([part.fresh + b for part, b in zip(parts, before, strict=True)])
    taken = np.concatenate([part.taken for part in parts])
    changed, at = np.unique(window, return_inverse=True)
    known = commits.revisions(query, int(ends[changed[0]]), int(ends[changed[-1]]))
    is_fresh = np.isin(changed, fresh)
    windows = zip(ends[changed].tolist(), is_fresh.tolist(), strict=True)
    revisions = np.array([known.get(end, -1 if new else 0) + 1 for end, new in windows], np.int64)
    ops = pa.array(np.where(taken, TAKEN, GIVEN))
    table = with_ops(pa.concat_tables([part.rows for part in parts]), ops, revisions[at])
    return QueryAnswers(query, ends[changed], at, table, 0, revisions)
