"""Whether deadlines can be met at all, by trying every schedule.

Between two updates only a given number of runs fits. Each run answers one query, at the same cost. A query of period
n must be answered within n updates after its last answer, or after it came; not before the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations

Job = tuple[int, int]
"""The update at which a query comes, and its period."""


def can_answer_once(jobs: Sequence[Job], capacities: Sequence[int]) -> bool:
    """Whether each query can be answered once in time, and then goes. Update t allows capacities[t − 1] runs."""

    @cache
    def search(update: int, left: frozenset[int]) -> bool:
        if not left:
            return True
        if update > len(capacities) or any(sum(jobs[one]) < update for one in left):
            return False
        ready = sorted(one for one in left if jobs[one][0] < update)
        count = min(capacities[update - 1], len(ready))
        return any(search(update + 1, left - set(chosen)) for chosen in combinations(ready, count))

    return search(1, frozenset(range(len(jobs))))


def can_answer_again(periods: Sequence[int], capacities: Sequence[int], only_when_due: bool = False) -> bool:
    """Whether queries that all come at the start can be answered in time, again and again, until the updates end.

    `only_when_due`: no query is answered before its deadline.
    """

    @cache
    def search(update: int, slack: tuple[int, ...]) -> bool:
        """`slack`: how many updates each query may still wait, before this one."""
        if update > len(capacities):
            return True
        now = [one - 1 for one in slack]
        if min(now) < 0:
            return False
        ready = [i for i, one in enumerate(now) if one == 0 or not only_when_due]
        for count in range(min(capacities[update - 1], len(ready)), -1, -1):
            for chosen in combinations(ready, count):
                after = tuple(periods[i] if i in chosen else one for i, one in enumerate(now))
                if min(after) > 0 and search(update + 1, after):
                    return True
        return False

    return search(1, tuple(periods))
