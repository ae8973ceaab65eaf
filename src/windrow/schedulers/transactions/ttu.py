"""Algorithm 8 of Golab's dissertation: latest-window serializability, reading by highest time to update (TTU).

The pane that leaves a query's window next is read last, so that it may leave before it is read. An attempt is aborted
only if it would be with every order of its reads (Theorem 7.4).
"""

from __future__ import annotations

from collections.abc import Callable

from windrow.schedulers.history import Entry
from windrow.schedulers.panes import Pane
from windrow.schedulers.transactions.latest import LatestScheduler
from windrow.schedulers.transactions.machine import RESTARTS
from windrow.schedulers.transactions.running import RunningQuery


def highest_ttu(query: RunningQuery) -> Pane:
    """The unread pane that stays in the query's window longest: the youngest of one of its sources."""
    return max(((one.ttu(unread[-1]), unread[-1]) for one, unread in query.unread()), key=lambda pair: pair[0])[1]


class TtuScheduler(LatestScheduler):
    """Algorithm 7 with the reads in the order of Algorithm 8."""

    def __init__(self, *, slots: int = 1, restarts: int = RESTARTS, record: Callable[[Entry], None] | None = None):
        super().__init__(slots=slots, restarts=restarts, order=highest_ttu, record=record)
