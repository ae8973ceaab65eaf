"""Algorithm 9 of Golab's dissertation: earliest deadline first, without sharing.

Its tasks are sub-groups, as in the experiments of section 8.5: the queries of a group with one period run together,
but sub-groups do not, even if they are due at the same update.
"""

from __future__ import annotations

from collections.abc import Callable

from windrow.schedulers.queries.machine import QueryMachine, Step


class EdfScheduler(QueryMachine):
    """Runs one task at a time, and every query for itself: CS8 does not apply."""

    shares_output = False

    def __init__(self, *, slots: int = 1, ahead: bool = False, record: Callable[[Step], None] | None = None):
        super().__init__(slots=slots, ahead=ahead, record=record)

    def _reach(self, slack: int) -> int | None:
        return None
