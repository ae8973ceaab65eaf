"""Groups that a punctuation closes before their windows are due: how far each has come, and which cells it still needs.

A promise (`k = 'a', ts < v`) closes the groups it speaks of in every query that has all its columns as plain keys: each
such group has a frontier of its own, v if that is above the stream's.

Windows that count rows or slide by tuples, landmark windows, which have no last one, queries with LIMIT and those with
FREQUENT_ITEMS, which takes in whole panes, wait for the whole window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.dataplane.ingest.promised import bounds_of
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.optimizer.sharing.synopsis_plans import LANDMARK
from windrow.plan.nodes import Finalise
from windrow.synopses import Ability
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.releasing import released
from windrow.types import POINT_MIN
from windrow.windows import LandmarkWindow, PartitionedWindow, Points, SlideByTuple, greater
from windrow.windows.promises import Promise


def answers_groups(plan: Finalise) -> bool:
    """Whether a query's rows of a group stand by themselves, so that they can be answered before the others."""
    waits = isinstance(plan.window, PartitionedWindow | SlideByTuple | LandmarkWindow) or plan.limit is not None
    return bool(plan.input.keys) and not waits and plan.input.frequent is None


def closing(stream: StreamState, state: SynopsisState) -> list[Promise]:
    """The promises that close groups of a synopsis: all their columns are plain keys, and no window attributes.

    None of landmark windows: a promise with a far bound, or without one, would give them answers without an end.
    """
    promises = stream.promises.on(state.plan.axis)
    if not promises or state.synopsis.cannot(Ability.EARLY) is not None or state.plan.style[0] == LANDMARK:
        return []
    plain = set(_key_columns(stream, state)) - set(stream.definition.axes)
    return [promise for promise in promises if promise.conditions and plain.issuperset(promise.columns)]


def _key_columns(stream: StreamState, state: SynopsisState) -> dict[str, int]:
    """Which key a column is, of those that are keys as they stand."""
    names = {"`" + name.replace("`", "``") + "`": name for name, _ in stream.definition.columns}
    return {names[key.sql]: i for i, key in enumerate(state.plan.group_keys) if key.sql in names}


@dataclass(frozen=True)
class GroupBounds:
    """Of every group of a synopsis, by id: up to which point it is complete, and up to which it has been answered by
    promises (POINT_MIN: by none)."""

    promised: Points
    given: Points

    def given_to(self, query: QueryState) -> Points:
        """What has been answered for a query: nothing yet, where it came later."""
        return np.full(self.given.size, POINT_MIN, np.int64) if query.fresh else self.given


def group_bounds(stream: StreamState, state: SynopsisState) -> GroupBounds | None:
    """None where no promise closes a group of the synopsis."""
    promises = closing(stream, state)
    if not promises:
        return None
    count = state.synopsis.groups.count
    columns = state.synopsis.groups.key_columns(np.arange(count))
    named = {name: _decoded(columns[i]) for name, i in _key_columns(stream, state).items()}
    promised = bounds_of(promises, named, count)
    given = bounds_of(promises, named, count, lambda promise: promise.given)
    promised[0] = given[0] = POINT_MIN
    return GroupBounds(promised, given)


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def needed_from(stream: StreamState, state: SynopsisState) -> Callable[[int], int]:
    """From which point on a group's cells are needed, by how far it has been answered early."""
    waiting = [plan for name, plan in state.plan.queries if not answers_groups(plan) or stream.queries[name].fresh]
    return _needed(stream, state, waiting)


def _needed(stream: StreamState, state: SynopsisState, waiting: Sequence[Finalise]) -> Callable[[int], int]:
    ticked = stream.ticked.get(state.plan.axis, POINT_MIN)
    others = [plan for _, plan in state.plan.queries if not any(plan is one for one in waiting)]

    def needed(given: int) -> int:
        upto = max(given, ticked)
        if upto == POINT_MIN or (waiting and ticked == POINT_MIN):
            return POINT_MIN
        points = [plan.window.needed_from(upto) for plan in others]
        points += [plan.window.needed_from(ticked) for plan in waiting]
        return max(POINT_MIN, min([state.closed_at(upto), *points]))

    return needed


def complete_from(stream: StreamState, state: SynopsisState) -> int | None:
    """The point from which on the cells of all groups are there once those that promises close have been answered;
    None: all are. A query that comes later sees nothing below it."""
    bounds = [promise.bound for promise in closing(stream, state)]
    if not bounds:
        return state.complete_from
    needed = _needed(stream, state, [plan for _, plan in state.plan.queries if not answers_groups(plan)])
    beyond = state.plan.schedule.first_free(stream.greatest(state.plan.axis))
    released = min(needed(max(bounds)), beyond)
    return state.complete_from if released == POINT_MIN else greater(state.complete_from, released)


def _needed_by_group(stream: StreamState, state: SynopsisState) -> Points | None:
    bounds = group_bounds(stream, state) if stream.promises else None
    if bounds is None or state.complete_from is None:
        return None
    distinct, at = np.unique(bounds.given, return_inverse=True)
    needed = needed_from(stream, state)
    points = np.array([POINT_MIN if upto == POINT_MIN else needed(upto) for upto in distinct.tolist()], np.int64)
    return np.minimum(points, state.complete_from)[at]


def release(stream: StreamState, state: SynopsisState) -> None:
    """Let go of cells that no window to come needs, of groups that have been answered early; none that a query which
    comes later would count on (`complete_from`)."""
    needed = _needed_by_group(stream, state)
    if needed is not None:
        state.synopsis.release(needed)


def without_released(stream: StreamState, state: SynopsisState, cells: Cells) -> Cells:
    """Cells as they are worth keeping on disk."""
    needed = _needed_by_group(stream, state)
    return cells if needed is None else released(cells, needed)
