"""Answers taken from another query's (CS8): finished once, for all queries that are the same but for their period."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from windrow.engine.state import QueryState
from windrow.engine.ticks.delivery import QueryAnswers
from windrow.optimizer.sharing.periods import leaders
from windrow.types import POINT_MIN
from windrow.windows import Extents, Points


@dataclass(frozen=True)
class AnswerRequest:
    """The windows that a query is due to answer, and the ends that they are shown with."""

    query: QueryState
    extents: Extents
    ends: Points

    @property
    def starts(self) -> Points:
        """From where on it sees tuples of each window."""
        since = self.query.since
        return self.extents.starts if since is None else self.extents.starts.clip(min=max(since, POINT_MIN))


def answered_once(
    due: Sequence[AnswerRequest], answer: Callable[[list[int]], list[QueryAnswers]]
) -> list[QueryAnswers]:
    """The answers to all windows, in the order of the queries. `answer` works out those of some, by index; it leaves a
    query out where that fails. A query whose windows another has all answered takes its rows; where the other has been
    suspended, or has overflows to count, it is asked itself."""
    leading = leaders([one.query.periodic for one in due])
    followed = {i: leader for i, leader in enumerate(leading) if leader is not None}
    places = {i: found for i, leader in followed.items() if (found := _places(due[leader], due[i])) is not None}
    delivered = _by_index(due, answer, [i for i in range(len(due)) if i not in places])
    taken: dict[int, QueryAnswers] = {}
    for i, place in places.items():
        whole = delivered.get(followed[i])
        if whole is not None and not whole.overflows:
            taken[i] = _taken(whole, due[i], place)
    left = [i for i in places if i not in taken]
    delivered |= taken | (_by_index(due, answer, left) if left else {})
    return [delivered[i] for i in sorted(delivered)]


def _by_index(
    due: Sequence[AnswerRequest], answer: Callable[[list[int]], list[QueryAnswers]], wanted: list[int]
) -> dict[int, QueryAnswers]:
    index = {due[i].query.name: i for i in wanted}
    return {index[item.query.name]: item for item in answer(wanted)}


def _places(leader: AnswerRequest, mine: AnswerRequest) -> Points | None:
    """Where a query's windows stand among another's; None where not all are there, or seen from the same point on."""
    at = np.searchsorted(leader.ends, mine.ends)
    if not at.size or int(at[-1]) >= leader.ends.size:
        return None
    alike = (leader.ends[at] == mine.ends) & (leader.starts[at] == mine.starts)
    return at if alike.all() else None


def _taken(whole: QueryAnswers, mine: AnswerRequest, place: Points) -> QueryAnswers:
    """The rows of some windows."""
    if place.size == whole.ends.size:
        return QueryAnswers(mine.query, mine.ends, whole.window, whole.table, 0)
    number = np.full(whole.ends.size, -1, np.int64)
    number[place] = np.arange(place.size)
    window = number[whole.window]
    rows = np.flatnonzero(window >= 0)
    return QueryAnswers(mine.query, mine.ends, window[rows], whole.table.take(rows), 0)
