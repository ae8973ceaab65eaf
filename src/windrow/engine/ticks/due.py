"""The windows that a frontier makes due, and the slices in which they are answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from windrow.dataplane.answers.finishing import Edges
from windrow.engine.choices.holistic_choice import HolisticRequest
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.engine.ticks.corrections import due_lookup
from windrow.plan.nodes import ROW_NUM, Finalise
from windrow.settings import Settings
from windrow.synopses import Ability, DueRequest
from windrow.synopses.answering.planner import why_not_selected
from windrow.types import POINT_MIN
from windrow.windows import Extents, LandmarkWindow, Points, SlideByTuple, SlideOver, SlidingWindow, Window
from windrow.windows.ended import every_to_the_end, landmarks_to_the_end

SLOTS_PER_SLICE = 4_000_000
"""The most (window, group) slots answered per commit; it bounds memory to about 100 MB for three aggregates."""


@dataclass(frozen=True)
class DueWindows:
    """The windows that one query must answer now. `by_selection`: its holistic aggregates are selected from sorted base
    intervals rather than rolled up from counters."""

    state: SynopsisState
    query: QueryState
    extents: Extents
    by_selection: bool = False

    @property
    def slots(self) -> int:
        """About how many rows a window takes in the driver while it is answered. With HAVING or LIMIT, tasks of the
        Spark home send few."""
        plan = self.query.plan
        reduced = plan.having is not None or plan.limit is not None
        return self.state.synopsis.slots(reduced, len(plan.input.keys) if self.by_selection else None)

    def shown(self, some: slice = slice(None)) -> Edges:
        """window_start and window_end of these windows."""
        return self.query.plan.window.shown(self.extents.part(some))


def due_on(stream: StreamState, state: SynopsisState, frontier: int, settings: Settings) -> list[DueWindows]:
    """The windows that the queries of a synopsis must answer when the frontier of its axis is at `frontier`. Its panes
    must be closed already."""
    known: dict[tuple[Window, int | None, int | None], Extents] = {}
    ended, found = bool(stream.ended.get(state.plan.axis)), []
    for name, plan in state.plan.queries:
        query = stream.queries[name]
        key = plan.window, query.since, query.closed_by if ended else None
        if key not in known:
            known[key] = _extents(stream, state, query, frontier, settings)
        if len(known[key]):
            found.append(DueWindows(state, query, known[key]))
    return _by_selection(stream, state, found)


def _extents(
    stream: StreamState, state: SynopsisState, query: QueryState, frontier: int, settings: Settings
) -> Extents:
    """The windows of a query that the frontier has passed; they depend only on its window, `since` and `closed_by`."""
    plan, axis, window = query.plan, state.plan.axis, query.plan.window
    ticked, least = stream.ticked.get(axis), stream.least.get(axis)
    emits = settings.text("empty_windows") == "emit" and not plan.input.keys
    if stream.ended.get(axis) and isinstance(window, LandmarkWindow):
        return _landmarks(stream, state, query, window, least if emits else None, frontier)
    if emits and least is not None and isinstance(window, SlidingWindow | LandmarkWindow):
        first = least if query.since is None else max(least, query.since)
        if stream.ended.get(axis) and isinstance(window, SlidingWindow):
            panes = state.synopsis.closed_panes
            seen = panes[np.searchsorted(panes, first) :]
            return every_to_the_end(stream.ended[axis], window, seen, first, ticked, query.closed_by, frontier)
        return window.every(first, ticked, frontier)
    ended = (stream.frontiers[ROW_NUM].promised or 0) > stream.numbered + 1
    extents = state.synopsis.due(DueRequest(window, query.since, ticked, frontier, ended))
    if isinstance(window, SlideByTuple) and window.over is not SlideOver.VALUE:
        return extents.part(_marked(state, plan, window, extents))
    return extents


def _landmarks(
    stream: StreamState,
    state: SynopsisState,
    query: QueryState,
    window: LandmarkWindow,
    least: int | None,
    frontier: int,
) -> Extents:
    """Due landmark windows after the input has ended; from the point `least` on, empty ones too."""
    panes, axis, since = state.synopsis.closed_panes, query.axis, POINT_MIN if query.since is None else query.since
    seen = panes[np.searchsorted(panes, since) :]
    held = seen[np.searchsorted(seen, window.start) :]
    if least is None and not held.size:
        return window.extents(np.empty(0, np.int64))
    first = int(held[0]) if least is None else max(least, since)
    ends, ticked = stream.ended[axis], stream.ticked.get(axis)
    revised = seen if stream.definition.revises else seen[:0]
    return landmarks_to_the_end(ends, window, revised, first, ticked, query.closed_by, frontier)


def _marked(state: SynopsisState, plan: Finalise, window: SlideByTuple, extents: Extents) -> np.ndarray:
    """Which values are window ids: those with an n-th row number or rank among their tuples."""
    return window.marked(_tuples(state, plan, extents.ends - 1), state.ranked)


def _tuples(state: SynopsisState, plan: Finalise, panes: Points) -> Points:
    """The number of tuples in each closed pane, for windows by rank or by n rows."""
    return state.synopsis.totals(plan.input.counts[0], panes)


def ranked_below(stream: StreamState, state: SynopsisState, upto: int) -> int:
    """The number of tuples below a point, for windows by rank; else 0."""
    plan = state.plan.queries[0][1] if state.plan.queries else None
    window = None if plan is None else plan.window
    if plan is None or not isinstance(window, SlideByTuple) or window.over is not SlideOver.RANK:
        return 0
    panes = state.synopsis.closed_panes
    first = np.searchsorted(panes, stream.ticked.get(state.plan.axis, POINT_MIN))
    passed = panes[first : int(np.searchsorted(panes, upto))]
    return state.ranked + int(_tuples(state, plan, passed).sum())


def _by_selection(stream: StreamState, state: SynopsisState, due: list[DueWindows]) -> list[DueWindows]:
    """The due windows with `by_selection` set where it is cheaper. Selected queries share the sorted intervals, so they
    are decided together."""
    holistic = [i for i, item in enumerate(due) if item.query.plan.input.is_holistic]
    if state.synopsis.cannot(Ability.READ) is not None or not holistic:
        return due
    requests = []
    for i in holistic:
        query, lookup = due[i].query, due_lookup(due[i].query, due[i].extents)
        derived = bool(state.plan.derived.get(query.name))
        hindered = why_not_selected(query.plan.input, stream.definition.revises, derived, bool(stream.promises))
        requests.append(HolisticRequest(query.name, query.plan.input, lookup.starts, lookup.ends, hindered))
    chosen = dict(zip(holistic, state.holistic.selects(state.synopsis, requests), strict=True))
    return [replace(item, by_selection=True) if chosen.get(i) else item for i, item in enumerate(due)]


def slices(due: Sequence[DueWindows], frontier: int) -> Iterator[tuple[int, list[DueWindows]]]:
    """Cut the due windows at common ticks into slices of bounded size; the last slice reaches the frontier."""
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
            if final - first == len(item.extents):
                part.append(item)
            elif final > first:
                part.append(replace(item, extents=item.extents.part(slice(first, final))))
        yield bound, part
        below = bound
