"""Groups that a punctuation closes before their windows are due: their bounds, and the cells they still need.

A promise (`k = 'a', ts < v`) closes the groups it matches in every query that has all its columns as plain keys. Each
such group has its own frontier: v, if that is above the stream's.

Some queries wait for the whole window: those whose windows count rows or slide by tuples, landmark windows (they have
no last one), LIMIT, and FREQUENT_ITEMS (it takes in whole panes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.dataplane.ingest.promised import promised_bounds
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.optimizer.sharing.synopsis_plans import LANDMARK
from windrow.plan.nodes import Finalise
from windrow.synopses import Ability
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.releasing import released
from windrow.types import POINT_MIN
from windrow.windows import LandmarkWindow, PartitionedWindow, Points, SlideByTuple, max_or_none
from windrow.windows.promises import Promise


def answers_groups(plan: Finalise) -> bool:
    """Whether a query can answer one group before the others."""
    waits = isinstance(plan.window, PartitionedWindow | SlideByTuple | LandmarkWindow) or plan.limit is not None
    return bool(plan.input.keys) and not waits and plan.input.frequent is None


def closing(stream: StreamState, state: SynopsisState) -> list[Promise]:
    """The promises that close groups of a synopsis: all their columns are plain keys and not window attributes.

    Landmark windows have none: a promise with a far bound, or without one, would give endless answers.
    """
    promises = stream.promises.on(state.plan.axis)
    if not promises or state.synopsis.cannot(Ability.EARLY) is not None or state.plan.style[0] == LANDMARK:
        return []
    plain = set(_key_columns(stream, state)) - set(stream.definition.axes)
    return [promise for promise in promises if promise.conditions and plain.issuperset(promise.columns)]


def _key_columns(stream: StreamState, state: SynopsisState) -> dict[str, int]:
    """The index of each column that is a plain key."""
    names = {"`" + name.replace("`", "``") + "`": name for name, _ in stream.definition.columns}
    return {names[key.sql]: i for i, key in enumerate(state.plan.group_keys) if key.sql in names}


@dataclass(frozen=True)
class GroupBounds:
    """For every group of a synopsis, by id: the point up to which promises make it complete, and the point up to which
    it has been answered early (POINT_MIN: none)."""

    promised: Points
    given: Points

    def given_to(self, query: QueryState) -> Points:
        """The points up to which groups have been answered early for a query; none for a query created later."""
        return np.full(self.given.size, POINT_MIN, np.int64) if query.fresh else self.given


def group_bounds(stream: StreamState, state: SynopsisState) -> GroupBounds | None:
    """The bounds of the groups of a synopsis; None if no promise closes one."""
    promises = closing(stream, state)
    if not promises:
        return None
    count = state.synopsis.groups.count
    columns = state.synopsis.groups.key_columns(np.arange(count))
    named = {name: _decoded(columns[i]) for name, i in _key_columns(stream, state).items()}
    promised = promised_bounds(promises, named, count)
    given = promised_bounds(promises, named, count, lambda promise: promise.given)
    promised[0] = given[0] = POINT_MIN
    return GroupBounds(promised, given)


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def needed_from(stream: StreamState, state: SynopsisState) -> Callable[[int], int]:
    """A function from the point up to which a group has been answered early to the point from which its cells are
    still needed."""
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
    """The point from which the cells of all groups are kept after the closed groups have been answered; None: all cells
    are kept. A query created later sees nothing below it."""
    bounds = [promise.bound for promise in closing(stream, state)]
    if not bounds:
        return state.complete_from
    needed = _needed(stream, state, [plan for _, plan in state.plan.queries if not answers_groups(plan)])
    beyond = state.plan.schedule.first_free(stream.greatest(state.plan.axis))
    released = min(needed(max(bounds)), beyond)
    return state.complete_from if released == POINT_MIN else max_or_none(state.complete_from, released)


def _needed_by_group(stream: StreamState, state: SynopsisState) -> Points | None:
    bounds = group_bounds(stream, state) if stream.promises else None
    if bounds is None or state.complete_from is None:
        return None
    distinct, at = np.unique(bounds.given, return_inverse=True)
    needed = needed_from(stream, state)
    points = np.array([POINT_MIN if upto == POINT_MIN else needed(upto) for upto in distinct.tolist()], np.int64)
    return np.minimum(points, state.complete_from)[at]


def release(stream: StreamState, state: SynopsisState) -> None:
    """Release cells of early-answered groups that no later window needs, but none from `complete_from` on, which later
    queries count on."""
    needed = _needed_by_group(stream, state)
    if needed is not None:
        state.synopsis.release(needed)


def without_released(stream: StreamState, state: SynopsisState, cells: Cells) -> Cells:
    """The cells without those that `release` drops, for writing to disk."""
    needed = _needed_by_group(stream, state)
    return cells if needed is None else released(cells, needed)
