"""Finishing answers in a tick: a query whose own expression fails is suspended, and the tick goes on without it."""

from __future__ import annotations

from windrow.dataplane.answers.finishing import Edges, Finished, Finisher
from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.engine.store.journal import Journal
from windrow.errors import first_line
from windrow.plan.nodes import Finalise
from windrow.synopses import LookupAnswer


class GuardedFinisher:
    """Finishes the looked-up windows of queries and suspends those that fail."""

    def __init__(self, finisher: Finisher, journal: Journal):
        self._finisher, self._journal = finisher, journal

    def finish(
        self,
        stream: StreamState,
        query: QueryState,
        looked: LookupAnswer,
        shown: Edges,
        state: SynopsisState,
        plan: Finalise | None = None,
    ) -> Finished | None:
        """The answer rows, by `plan` or the query's own. If an expression fails, suspend the query and return None."""
        try:
            return self._finisher.finish(plan or query.plan, looked, *shown, state.synopsis.groups)
        except Exception as error:
            self._journal.suspend(stream, query, first_line(error))
            return None
