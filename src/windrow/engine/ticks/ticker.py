"""Ticks: all the windows that a frontier has passed, answered together per synopsis, delivered and committed.

A stream has an axis per punctuated column and one of row numbers; each ticks by its own frontier. A tick batch
is everything due on an axis, in slices of bounded size; each slice is one commit. Which windows are in which
slice changes nothing about the answers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from windrow.dataplane.answers.finishing import Edges, Finished, Finisher
from windrow.dataplane.answers.revisions import first_answers
from windrow.dataplane.kernels import Corrected
from windrow.engine.ask.having import Narrowed
from windrow.engine.ask.holistic_choice import Asked
from windrow.engine.ask.index_choice import apply_choice
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.engine.store.homes import Homes
from windrow.engine.store.journal import Expired, Journal, Left
from windrow.engine.ticks.corrections import Affected, Corrector, Finish, Look, lookup_of
from windrow.engine.ticks.delivery import Delivered, Delivery
from windrow.engine.ticks.early import EarlyAnswers, complete_from, group_bounds, left_to_answer, release
from windrow.engine.ticks.shared_answers import Asking, answered_once
from windrow.optimizer.same_answers import SHARE_ANSWERS
from windrow.plan.nodes import ROW_NUM, Finalise
from windrow.settings import Settings
from windrow.synopses import BasicIntervalSynopsis, Looked, PartitionedSynopsis, StoredSynopsis
from windrow.synopses.answering.planner import why_not_selected
from windrow.synopses.holistic.selecting import selected
from windrow.synopses.holistic.value_codes import outer_of
from windrow.types import POINT_MIN
from windrow.windows import Extents, PaneWindow, PartitionedWindow, Points, SlideByTuple, SlideOver, SlidingWindow
from windrow.windows.ended import every_to_the_end
from windrow.windows.frontier import greater

SLOTS_PER_SLICE = 4_000_000
"""(window, group) slots answered per commit: bounds memory, about 100 MB for three aggregates."""


ANSWER_BLOCKS = 4
"""Small blocks of answers before they are folded, as a multiple of the setting `synopsis_blocks`."""


@dataclass(frozen=True)
class Due:
    """The windows that one query must answer now; `by_selection`: its holistic aggregates selected from sorted base
    intervals rather than rolled up from counters."""

    state: SynopsisState
    query: QueryState
    extents: Extents
    by_selection: bool = False

    @property
    def slots(self) -> int:
        """About how many answer rows a window takes while it is answered. In the Spark home a task has a bucket at a
        time; where HAVING or LIMIT leave few, few come to the driver."""
        synopsis, plan = self.state.synopsis, self.query.plan
        assert not isinstance(synopsis, PartitionedSynopsis)
        if not isinstance(synopsis, StoredSynopsis):
            groups = synopsis.groups
            return outer_of(groups, len(plan.input.keys)).count if self.by_selection else groups.count
        reduced = plan.having is not None or plan.limit is not None
        return synopsis.slots if reduced else 1 + synopsis.groups_seen


class Ticker:
    """Applies ticks to one stream at a time."""

    def __init__(self, journal: Journal, delivery: Delivery, homes: Homes):
        self._homes = homes
        self._journal = journal
        self._delivery = delivery
        self.finisher = Finisher()

    def close(self) -> None:
        self.finisher.close()

    def tick(self, stream: StreamState, settings: Settings) -> int:
        """Answer everything due; returns how many windows were answered."""
        with stream.lock:
            self._delivery.publish(stream)
            apply_choice(stream, settings)
            return sum(self._tick_axis(stream, axis, settings) for axis in list(stream.frontiers))

    def _tick_axis(self, stream: StreamState, axis: str, settings: Settings) -> int:
        frontier, ticked = stream.frontiers[axis].value, stream.ticked.get(axis)
        answered = self._correct(stream, axis, settings)
        # Where no query is, the first that comes goes on from the frontier (`QueryManager`).
        idle = not stream.on_axis(axis)
        if frontier is not None and (ticked is None or frontier > ticked) and not idle:
            answered += self._tick_to(stream, axis, frontier, settings)
        if stream.promises:
            self._answer_early(stream, axis, settings)
        return answered

    def _tick_to(self, stream: StreamState, axis: str, frontier: int, settings: Settings) -> int:
        started, answered = time.monotonic(), 0
        due: list[Due] = []
        for state in stream.on_axis(axis):
            if not isinstance(state.synopsis, PartitionedSynopsis):
                state.synopsis.close(state.closed_at(frontier))
                mine = [item for item in self._due(stream, state, frontier, settings) if len(item.extents)]
                due += _by_selection(stream, state, mine)
        for upto, part in _slices(due, frontier):
            answered += self._slice(stream, axis, upto, part, upto == frontier, settings)
        self._measure(stream, started, settings)
        return answered

    def _measure(self, stream: StreamState, started: float, settings: Settings) -> None:
        """After a tick batch; blocks of answers are kept few."""
        self._journal.compact_answers(
            ANSWER_BLOCKS * settings.integer("synopsis_blocks"), settings.integer("retained_answers")
        )
        stream.metrics.tick_s += time.monotonic() - started
        stream.metrics.tick_batches += 1

    def _correct(self, stream: StreamState, axis: str, settings: Settings) -> int:
        """Take late cells in, and correct the answers that they change: a commit of its own, before what is due."""
        on_axis = stream.on_axis(axis)
        late = [s for s in on_axis if not isinstance(s.synopsis, PartitionedSynopsis) and s.synopsis.has_late]
        if not late:
            return 0

        delivered, applied = [], []
        for state in late:
            corrector = Corrector(stream, state, settings, self._homes.totals)
            if isinstance(state.synopsis, StoredSynopsis):
                look, slots = self._look_stored(stream, state), state.synopsis.slots
            else:
                look, slots = corrector.in_driver(self._finish_in(stream)), state.synopsis.groups.count
            windows = max(1, SLOTS_PER_SLICE // max(1, slots))
            delivered += list(corrector.corrections(look, self._journal.revisions, windows))
            applied.append(corrector.applied())
        self._delivery.commit(stream, axis, stream.ticked[axis], delivered, [], settings, applied)
        for taken in applied:
            assert not isinstance(taken.state.synopsis, PartitionedSynopsis)
            taken.state.synopsis.merge_late()
            taken.state.ranked = taken.ranked
        self._delivery.publish(stream)
        return sum(item.first_answers for item in delivered)

    def _look_stored(self, stream: StreamState, state: SynopsisState) -> Look:
        """How windows that are corrected are looked at in the Spark home: one job for many of all queries."""

        def look(asked: Sequence[Affected]) -> Iterator[tuple[Finished, Finished] | None]:
            if not asked:
                return
            lookups = [lookup_of(one.query, one.extents) for one in asked]
            found = self._homes.revise(state, lookups, [(one.before, one.after) for one in asked])
            for one, parts in zip(asked, found, strict=True):
                yield self._corrected(stream, one, parts)

        return look

    def _corrected(
        self, stream: StreamState, affected: Affected, parts: Sequence[Corrected]
    ) -> tuple[Finished, Finished] | None:
        """The answers as they were and as they are, of all buckets; None where the query's own expression fails."""
        query, extents = affected.query, affected.extents
        error = next((part.error for part in parts if part.error is not None), None)
        if error is not None:
            self._journal.suspend(stream, query, error)
            return None
        edges, count = _on_panes(query.plan).shown(extents), len(extents)
        was = self._join(stream, query, [part.was for part in parts if part.was is not None], edges, count)
        now = self._join(stream, query, [part.now for part in parts if part.now is not None], edges, count)
        return None if was is None or now is None else (was, now)

    def _answer_early(self, stream: StreamState, axis: str, settings: Settings) -> None:
        """Answer the groups that promises have closed: a commit of its own, after what is due."""
        fresh = tuple(query for query in stream.active if query.fresh and query.axis == axis)
        if not fresh and not stream.promises.waiting(axis):
            return
        started, delivered = time.monotonic(), []
        for state in stream.on_axis(axis):
            bounds = group_bounds(stream, state)
            if bounds is not None:
                delivered += list(
                    EarlyAnswers(stream, state, bounds).delivered(self._finish_in(stream), SLOTS_PER_SLICE)
                )
        complete = tuple((state, complete_from(stream, state)) for state in stream.on_axis(axis))
        promises, frontier = stream.promises.answered(axis), stream.frontiers[axis].value
        if not stream.on_axis(axis) and frontier is not None:
            promises = promises.overtaken(axis, frontier)  # no tick will
        left = Left(promises, fresh, complete)
        self._delivery.commit(stream, axis, stream.ticked.get(axis), delivered, [], settings, (), left)
        for state in stream.on_axis(axis):
            release(stream, state)
        self._delivery.publish(stream)
        self._measure(stream, started, settings)

    def _due(self, stream: StreamState, state: SynopsisState, frontier: int, settings: Settings) -> Iterator[Due]:
        assert not isinstance(state.synopsis, PartitionedSynopsis)
        known: dict[tuple[PaneWindow, int | None, int | None], Extents] = {}
        ended = bool(stream.ended.get(state.plan.axis))
        for name, plan in state.plan.queries:
            query = stream.queries[name]
            key = _on_panes(plan), query.since, query.closed_by if ended else None
            if key not in known:
                known[key] = self._extents(stream, state, query, frontier, settings)
            yield Due(state, query, known[key])

    def _extents(
        self, stream: StreamState, state: SynopsisState, query: QueryState, frontier: int, settings: Settings
    ) -> Extents:
        """The windows of a query that the frontier has passed; the same for all queries with its window and `since`."""
        assert not isinstance(state.synopsis, PartitionedSynopsis)
        plan, axis, panes = query.plan, state.plan.axis, state.synopsis.closed_panes
        window, ticked, least = _on_panes(plan), stream.ticked.get(axis), stream.least.get(axis)
        emits = settings.text("empty_windows") == "emit" and not plan.input.keys
        if emits and least is not None and not isinstance(window, SlideByTuple):
            first = least if query.since is None else max(least, query.since)
            if stream.ended.get(axis) and isinstance(window, SlidingWindow):
                seen = panes[np.searchsorted(panes, first) :]
                return every_to_the_end(stream.ended[axis], window, seen, first, ticked, query.closed_by, frontier)
            return window.every(first, ticked, frontier)
        seen = panes if query.since is None else panes[np.searchsorted(panes, query.since) :]
        extents = window.due(seen, ticked, frontier)
        if isinstance(window, SlideByTuple) and window.over is not SlideOver.VALUE:
            return extents.part(self._marked(state, plan, window, extents))
        return extents

    def _marked(self, state: SynopsisState, plan: Finalise, window: SlideByTuple, extents: Extents) -> np.ndarray:
        """Which of the values are window ids: an n-th row number, or an n-th rank, is among their tuples."""
        return window.marked(self._totals(state, plan, extents.ends - 1), state.ranked)

    def _ranked(self, stream: StreamState, state: SynopsisState, upto: int) -> int:
        """How many tuples lie below a point, where windows go by rank."""
        plan = state.plan.queries[0][1] if state.plan.queries else None
        window = None if plan is None else plan.window
        if plan is None or not isinstance(window, SlideByTuple) or window.over is not SlideOver.RANK:
            return 0
        assert not isinstance(state.synopsis, PartitionedSynopsis)
        panes = state.synopsis.closed_panes
        first = np.searchsorted(panes, stream.ticked.get(state.plan.axis, POINT_MIN))
        passed = panes[first : int(np.searchsorted(panes, upto))]
        return state.ranked + int(self._totals(state, plan, passed).sum())

    def _totals(self, state: SynopsisState, plan: Finalise, panes: Points) -> Points:
        """The tuples of closed panes that windows by rank or by n rows go by."""
        if isinstance(state.synopsis, StoredSynopsis):
            return self._homes.totals(state, plan.input.counts[0], panes)
        assert isinstance(state.synopsis, BasicIntervalSynopsis)
        return state.synopsis.totals(plan.input.counts[0], panes)

    def _slice(
        self, stream: StreamState, axis: str, upto: int, due: Sequence[Due], is_last: bool, settings: Settings
    ) -> int:
        delivered: list[Delivered] = []
        for state in stream.on_axis(axis):
            if isinstance(state.synopsis, PartitionedSynopsis):
                delivered += self._answer_partitions(stream, state) if is_last else []
                continue
            mine = [item for item in due if item.state is state]
            if mine:
                delivered += self._answer_once(stream, state, mine, settings)
        expired = [
            gone
            for state in stream.on_axis(axis)
            if (gone := _expired(stream, state, upto, self._ranked(stream, state, upto))) is not None
        ]
        left = Left(stream.promises.overtaken(axis, upto)) if stream.promises else None
        self._delivery.commit(stream, axis, upto, delivered, expired, settings, (), left)
        for gone in expired:
            _expire(gone)
        for state in stream.on_axis(axis):
            _collapse(stream, state, upto)
            if is_last and isinstance(state.synopsis, PartitionedSynopsis):
                state.synopsis.expire()
        self._delivery.publish(stream)
        return sum(int(item.ends.size) for item in delivered)

    def _answer_once(
        self, stream: StreamState, state: SynopsisState, due: Sequence[Due], settings: Settings
    ) -> list[Delivered]:
        """Rule CS8, where no group was answered early: that depends on when a query came."""

        def answer(due: Sequence[Due]) -> list[Delivered]:
            if isinstance(state.synopsis, StoredSynopsis):
                state.having.clear()
                return self._answer_stored(stream, state, due)
            return self._answer(stream, state, due, settings)

        if stream.promises or SHARE_ANSWERS in settings.text("disabled_rules").split(","):
            return answer(due)
        asking = [Asking(item.query, item.extents, _shown(item, slice(None))[1]) for item in due]
        return answered_once(asking, lambda some: answer([due[i] for i in some]))

    def _answer(
        self, stream: StreamState, state: SynopsisState, due: Sequence[Due], settings: Settings
    ) -> list[Delivered]:
        parts: dict[str, list[Finished]] = {item.query.name: [] for item in due}
        done: dict[str, int] = dict.fromkeys(parts, 0)
        by_name = {item.query.name: item for item in due}
        early = group_bounds(stream, state) if stream.promises else None
        asked = [(lookup_of(item.query, item.extents), item.query.plan) for item in due if not item.by_selection]
        assert isinstance(state.synopsis, BasicIntervalSynopsis)
        narrowed = state.having.narrowed(state.plan, state.synopsis, asked, settings, stream.definition.revises)
        for looked in _looked(state, due, narrowed):
            item = by_name[looked.query]
            if item.query.error is not None:
                continue
            first = done[looked.query]
            done[looked.query] += looked.windows
            shown = _shown(item, slice(first, first + looked.windows))
            if early is not None:
                looked = left_to_answer(early, item.query, looked, item.extents.ticks[first:])
            plan = narrowed.plans.get(looked.query, item.query.plan)
            finished = self._finish(stream, item.query, looked, shown, state, plan)
            if finished is not None:
                parts[looked.query].append(finished)
                slots = looked.windows * (state.synopsis.groups.count - 1)
                state.having.passed(plan, slots, finished.table.num_rows)
        return [
            _delivered(stream, item.query, _shown(item, slice(None))[1], parts[item.query.name])
            for item in due
            if item.query.error is None
        ]

    def _answer_stored(self, stream: StreamState, state: SynopsisState, due: Sequence[Due]) -> list[Delivered]:
        """All due windows of a synopsis in the Spark home: one job."""
        due = [item for item in due if item.query.error is None]
        if not due:
            return []
        lookups = [lookup_of(item.query, item.extents) for item in due]
        found, out = self._homes.answer(state, lookups), []
        for item, parts in zip(due, found, strict=True):
            query, edges = item.query, _shown(item, slice(None))
            error = next((part.error for part in parts if part.error is not None), None)
            if error is None:
                rows = [part.rows for part in parts if part.rows is not None]
                finished = self._join(stream, query, rows, edges, len(item.extents))
                if finished is not None:
                    whole = replace(finished, overflows=sum(part.overflows for part in parts))
                    out.append(_delivered(stream, query, edges[1], [whole]))
            else:
                self._journal.suspend(stream, query, error)
        return out

    def _join(
        self, stream: StreamState, query: QueryState, parts: Sequence[pa.Table], edges: Edges, windows: int
    ) -> Finished | None:
        """The answer rows of all buckets; None where the query's own expression fails: it is suspended."""
        try:
            return self.finisher.joined(query.plan, parts, edges, windows)
        except Exception as error:
            self._journal.suspend(stream, query, str(error).splitlines()[0])
            return None

    def _answer_partitions(self, stream: StreamState, state: SynopsisState) -> list[Delivered]:
        synopsis = state.synopsis
        assert isinstance(synopsis, PartitionedSynopsis)
        out = []
        ended = (stream.frontiers[ROW_NUM].promised or 0) > stream.numbered + 1
        for name, plan in state.plan.queries:
            query, window = stream.queries[name], plan.window
            assert isinstance(window, PartitionedWindow)
            which, wids = synopsis.due(ended)
            if not which.size:
                continue
            order = np.lexsort((which, wids))
            which, extents = which[order], window.of_ranks.extents(wids[order])
            parts = []
            step = max(1, SLOTS_PER_SLICE // max(1, synopsis.groups.count // max(1, synopsis.ranks.counts.size - 1)))
            for first in range(0, which.size, step):
                some = slice(first, first + step)
                aggregate = plan.input
                looked = synopsis.answer(
                    name,
                    which[some],
                    (extents.starts[some], extents.ends[some]),
                    aggregate.presence,
                    aggregate.accumulators,
                    not aggregate.is_grouped,
                )
                shown = (extents.starts[some], extents.ends[some])
                finished = self._finish(stream, query, looked, shown, state)
                if finished is None:
                    break
                parts.append(finished)
            if query.error is None:
                out.append(_delivered(stream, query, extents.ends, parts))
        return out

    def _finish_in(self, stream: StreamState) -> Finish:
        def finish(query: QueryState, looked: Looked, extents: Extents, state: SynopsisState) -> Finished | None:
            return self._finish(stream, query, looked, _on_panes(query.plan).shown(extents), state)

        return finish

    def _finish(
        self,
        stream: StreamState,
        query: QueryState,
        looked: Looked,
        shown: tuple[Points | None, Points],
        state: SynopsisState,
        plan: Finalise | None = None,
    ) -> Finished | None:
        """The answer rows, by the query's own plan or another; None where its expression fails: it is suspended."""
        assert not isinstance(state.synopsis, StoredSynopsis)
        try:
            return self.finisher.finish(plan or query.plan, looked, *shown, state.synopsis.groups)
        except Exception as error:
            self._journal.suspend(stream, query, str(error).splitlines()[0])
            return None


def _looked(state: SynopsisState, due: Sequence[Due], narrowed: Narrowed) -> Iterator[Looked]:
    """What the due queries ask of a synopsis in the driver, each the cheaper way."""
    yield from narrowed.looked
    yield from state.answer(narrowed.lookups)
    chosen = [(item.query.plan.input, lookup_of(item.query, item.extents)) for item in due if item.by_selection]
    if chosen:
        assert isinstance(state.synopsis, BasicIntervalSynopsis)
        yield from selected(state.synopsis, chosen)


def _by_selection(stream: StreamState, state: SynopsisState, due: Sequence[Due]) -> list[Due]:
    """The same, each the cheaper way: those that are selected share what is sorted for them."""
    holistic = [i for i, item in enumerate(due) if item.query.plan.input.is_holistic]
    if not isinstance(state.synopsis, BasicIntervalSynopsis) or not holistic:
        return list(due)
    asked = []
    for i in holistic:
        query, lookup = due[i].query, lookup_of(due[i].query, due[i].extents)
        derived = bool(state.plan.derived.get(query.name))
        hindered = why_not_selected(query.plan.input, stream.definition.revises, derived, bool(stream.promises))
        asked.append(Asked(query.name, query.plan.input, lookup.starts, lookup.ends, hindered))
    chosen = dict(zip(holistic, state.holistic.selects(state.synopsis, asked), strict=True))
    return [replace(item, by_selection=chosen.get(i, False)) for i, item in enumerate(due)]


def _on_panes(plan: Finalise) -> PaneWindow:
    assert not isinstance(plan.window, PartitionedWindow)
    return plan.window


def _shown(item: Due, some: slice) -> tuple[Points | None, Points]:
    return _on_panes(item.query.plan).shown(item.extents.part(some))


def _delivered(stream: StreamState, query: QueryState, ends: Points, parts: Sequence[Finished]) -> Delivered:
    """The parts of an answer one after another, the windows of each counted on from those before."""
    table, window = parts[0].table, parts[0].window
    if len(parts) > 1:
        before = np.cumsum([0, *(part.windows for part in parts)])
        window = np.concatenate([part.window + first for part, first in zip(parts, before, strict=False)])
        table = pa.concat_tables([part.table for part in parts])
    if stream.definition.revises:
        table = first_answers(table)
    return Delivered(query, ends, window, table, sum(part.overflows for part in parts))


def _expired(stream: StreamState, state: SynopsisState, upto: int, ranked: int) -> Expired | None:
    """What no window to come, none that may still be corrected, and not the last that was answered, can hold; None
    where nothing has changed. The last one is kept for lookups: else a tumbling window would leave nothing to look up.

    Never above the open pane: where SLIDE exceeds RANGE, a query that joins later may need what lies between.
    """
    if isinstance(state.synopsis, PartitionedSynopsis) or not state.plan.queries:
        return None
    horizon, below = stream.horizon(state.plan.axis, upto), state.kept_from
    if horizon is not None:
        needed = [_on_panes(plan).held_from(horizon) for _, plan in state.plan.queries]
        below = greater(below, min(*needed, state.closed_at(horizon)))
    return None if (below, ranked) == (state.kept_from, state.ranked) else Expired(state, below, ranked)


def _expire(gone: Expired) -> None:
    state = gone.state
    assert not isinstance(state.synopsis, PartitionedSynopsis)
    state.kept_from, state.ranked = gone.below, gone.ranked
    if gone.below is None:
        return
    state.synopsis.expire(gone.below)
    if state.plan.style[0] != "landmark":
        state.plan = replace(state.plan, schedule=state.plan.schedule.pruned(gone.below))


def _collapse(stream: StreamState, state: SynopsisState, upto: int) -> None:
    """Landmark windows look at their past as a whole: it becomes one pane, as far as nothing can come into it; one more
    for each query that came later, whose past is shorter."""
    horizon = stream.horizon(state.plan.axis, upto)
    if state.plan.style[0] == "landmark" and horizon is not None:
        assert not isinstance(state.synopsis, PartitionedSynopsis)
        state.synopsis.collapse(state.closed_at(horizon), stream.landmarks(state))


def _slices(due: Sequence[Due], frontier: int) -> Iterator[tuple[int, list[Due]]]:
    """Cut the due windows at common ticks into parts of bounded size; the last part reaches the frontier."""
    if not due:
        yield frontier, []
        return
    ticks = np.concatenate([item.extents.ticks for item in due])
    slots = np.concatenate([np.full(len(item.extents), item.slots) for item in due])
    order = np.argsort(ticks, kind="stable")
    part_of = np.cumsum(slots[order]) // SLOTS_PER_SLICE
    last = np.flatnonzero(np.append(part_of[1:] != part_of[:-1], True))
    bounds = sorted(set(ticks[order][last].tolist()))
    bounds[-1] = frontier
    below: int | None = None
    for bound in bounds:
        part = []
        for item in due:
            first = 0 if below is None else int(np.searchsorted(item.extents.ticks, below, side="right"))
            final = int(np.searchsorted(item.extents.ticks, bound, side="right"))
            if final > first:
                part.append(replace(item, extents=item.extents.part(slice(first, final))))
        yield bound, part
        below = bound
