"""Early answers: rows of groups that a punctuation closes before their windows are due.

The rows of a closed group (`store/closed_groups.py`) in the windows due by the promise's bound are answered at once (Li
et al., SIGMOD 2005, section 2). They are left out when the windows themselves are due.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.engine.store.closed_groups import GroupBounds, answers_groups
from windrow.engine.ticks.corrections import due_lookup
from windrow.engine.ticks.guarded_finish import GuardedFinisher
from windrow.engine.ticks.query_answers import QueryAnswers
from windrow.synopses import LookupAnswer, Synopsis
from windrow.synopses.lookups import merged
from windrow.types import POINT_MIN
from windrow.windows import Extents, Points


def left_to_answer(bounds: GroupBounds, query: QueryState, looked: LookupAnswer, ticks: Points) -> LookupAnswer:
    """The rows of a due query without those given early; `ticks` are those of the windows looked up."""
    if not answers_groups(query.plan):
        return looked
    return looked.where(ticks[looked.window] > bounds.given_to(query)[looked.groups])


class EarlyAnswers:
    """Answers the closed groups of one synopsis."""

    def __init__(self, stream: StreamState, state: SynopsisState, bounds: GroupBounds):
        self._stream, self._state, self._bounds = stream, state, bounds
        self._synopsis = state.synopsis
        self._ticked = stream.ticked.get(state.plan.axis, POINT_MIN)

    def delivered(self, finisher: GuardedFinisher, slots: int) -> Iterator[QueryAnswers]:
        """The rows of the newly complete groups, by query; at most `slots` answer rows are looked up at a time."""
        step = max(1, slots // max(1, self._synopsis.groups.count))
        for name, plan in self._state.plan.queries:
            query = self._stream.queries[name]
            if not answers_groups(plan):
                continue
            below = np.maximum(self._bounds.given_to(query), self._ticked)
            closed = self._bounds.promised > below
            if not closed.any():
                continue
            alone = self._synopsis.open_alone(closed)
            extents = self._extents(query, alone, int(below[closed].min()), int(self._bounds.promised[closed].max()))
            parts = [
                part
                for first in range(0, len(extents), step)
                for part in self._rows(query, extents.part(slice(first, first + step)), alone, below, finisher)
            ]
            if parts and query.error is None:
                yield _together(query, parts, self._stream.promises.heard)

    def _extents(self, query: QueryState, alone: Synopsis, above: int, upto: int) -> Extents:
        """The windows with a tuple that are due at a frontier in (above, upto]."""
        panes = np.union1d(self._synopsis.closed_panes, alone.closed_panes)
        if query.since is not None:
            panes = panes[np.searchsorted(panes, query.since) :]
        return query.plan.window.due(panes, None if above == POINT_MIN else above, upto)

    def _rows(
        self, query: QueryState, extents: Extents, alone: Synopsis, below: Points, finisher: GuardedFinisher
    ) -> Iterator[_Part]:
        lookup = due_lookup(query, extents)
        looked = merged(next(self._state.ask([lookup])), next(self._state.ask([lookup], part=alone)))
        ticks = extents.ticks[looked.window]
        looked = looked.where((ticks > below[looked.groups]) & (ticks <= self._bounds.promised[looked.groups]))
        if query.error is not None:
            return
        shown = query.plan.window.shown(extents)
        finished = finisher.finish(self._stream, query, looked, shown, self._state)
        if finished is not None and finished.table.num_rows:
            present, at = np.unique(finished.window, return_inverse=True)
            yield _Part(shown[1][present], at, finished.table, finished.overflows)


@dataclass(frozen=True)
class _Part:
    """Rows of windows with these ends; `window` is the index of each row's window."""

    ends: Points
    window: Points
    table: pa.Table
    overflows: int


def _together(query: QueryState, parts: Sequence[_Part], heard: int) -> QueryAnswers:
    before = np.cumsum([0, *(part.ends.size for part in parts[:-1])])
    return QueryAnswers(
        query,
        np.concatenate([part.ends for part in parts]),
        np.concatenate([part.window + b for part, b in zip(parts, before, strict=True)]),
        pa.concat_tables([part.table for part in parts]),
        sum(part.overflows for part in parts),
        early=heard,
    )
