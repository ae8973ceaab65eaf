"""Answers shared between queries that differ only in their period (CS8): they are finished once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windrow.engine.state import QueryState
from windrow.engine.ticks.query_answers import QueryAnswers
from windrow.optimizer.sharing.periods import leaders
from windrow.types import POINT_MIN
from windrow.windows import Extents, Points


@dataclass(frozen=True)
class AnswerRequest:
    """The due windows of a query, and the ends they are shown with."""

    query: QueryState
    extents: Extents
    ends: Points

    @property
    def starts(self) -> Points:
        """The point from which the query sees tuples of each window."""
        since = self.query.since
        return self.extents.starts if since is None else self.extents.starts.clip(min=max(since, POINT_MIN))


@dataclass(frozen=True)
class Following:
    """A query that takes its rows from another, the leader, by index; `places`: its windows among the leader's."""

    leader: int
    places: Points


def followers(due: Sequence[AnswerRequest]) -> dict[int, Following]:
    """By index, the queries whose windows another query answers as well."""
    leading = enumerate(leaders([one.query.periodic for one in due]))
    found = ((i, leader, _places(due[leader], due[i])) for i, leader in leading if leader is not None)
    return {i: Following(leader, places) for i, leader, places in found if places is not None}


def _places(leader: AnswerRequest, mine: AnswerRequest) -> Points | None:
    """The indices of a query's windows among the leader's; None if one is missing or starts at another point."""
    at = np.searchsorted(leader.ends, mine.ends)
    if not at.size or int(at[-1]) >= leader.ends.size:
        return None
    alike = (leader.ends[at] == mine.ends) & (leader.starts[at] == mine.starts)
    return at if alike.all() else None


def taken_rows(whole: QueryAnswers | None, mine: AnswerRequest, place: Points) -> QueryAnswers | None:
    """A follower's rows out of its leader's; None where the leader was suspended or has overflows to count: then the
    follower is answered by itself."""
    if whole is None or whole.overflows:
        return None
    if place.size == whole.ends.size:
        return QueryAnswers(mine.query, mine.ends, whole.window, whole.table, 0)
    number = np.full(whole.ends.size, -1, np.int64)
    number[place] = np.arange(place.size)
    window = number[whole.window]
    rows = np.flatnonzero(window >= 0)
    return QueryAnswers(mine.query, mine.ends, window[rows], whole.table.take(rows), 0)
