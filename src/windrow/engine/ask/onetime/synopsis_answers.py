"""One-time queries that the synopsis of a standing query answers: an aggregate over one window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from windrow.cql.bounds.guards import check_bounds
from windrow.dataplane.answers.finishing import Finisher
from windrow.engine.ask.lookups import Lookups
from windrow.engine.ask.snapshots import SnapshotFit, fitting
from windrow.engine.choices.index_choice import apply_choice
from windrow.engine.queries.query_manager import QueryManager
from windrow.engine.state import StreamState
from windrow.plan.nodes import Finalise
from windrow.settings import Settings


@dataclass(frozen=True)
class SynopsisAnswer:
    """Rows, and the end of the window that they are of."""

    rows: pa.Table
    end: int
    plan: Finalise


class SynopsisAnswers:
    """Answers from synopses, as of the last committed tick."""

    def __init__(self, manager: QueryManager, finisher: Finisher, settings: Callable[[], Settings]):
        self._manager = manager
        self._finisher = finisher
        self._lookups = Lookups(finisher)
        self._settings = settings

    def bind(self, select: exp.Expr, text: str) -> Finalise:
        """The plan of an aggregate over one window; raises BindError."""
        check_bounds(select, text, self._settings().integer("max_value_bytes"))
        return self._manager.bind_snapshot(select, text)

    def fitted(self, select: exp.Expr, text: str) -> tuple[Finalise, StreamState, SnapshotFit]:
        """The plan of a one-time query, its stream, and the synopsis that would answer it."""
        plan = self.bind(select, text)
        stream = self._manager.stream(plan.scan.stream)
        with stream.lock:
            return plan, stream, fitting(stream, plan, select, self._settings(), text)

    def answer(self, plan: Finalise, select: exp.Expr, text: str, since: int | None) -> SynopsisAnswer | None:
        """The answer from a synopsis that fits; None if its window ends before `since`. Raises UnsupportedError if none
        fits."""
        stream = self._manager.stream(plan.scan.stream)
        with stream.lock:
            apply_choice(stream, self._settings())
            fit = fitting(stream, plan, select, self._settings(), text)
            if since is not None and fit.end < since:
                return None
            return SynopsisAnswer(self._lookups.answer(fit.state, fit.request(plan)), fit.end, plan)

    def forget(self, plan: Finalise) -> None:
        """Let what was generated for a plan go."""
        self._finisher.forget(plan)
