"""Algorithm 10 of Golab's dissertation: sub-groups of a group run together if they are due at the same update."""

from __future__ import annotations

from collections.abc import Callable

from windrow.schedulers.queries.machine import QueryMachine, Step


class ConservativeScheduler(QueryMachine):
    """Every sub-group keeps the period it asks for."""

    def __init__(self, *, slots: int = 1, ahead: bool = False, record: Callable[[Step], None] | None = None):
        super().__init__(slots=slots, ahead=ahead, record=record)

    def _reach(self, slack: int) -> int | None:
        return slack
