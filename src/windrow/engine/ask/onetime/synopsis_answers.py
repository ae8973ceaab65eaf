"""One-time queries that the synopsis of a standing query answers: an aggregate over one window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from windrow.cql.bounds.guards import check_bounds
from windrow.dataplane.answers.finishing import Finisher
from windrow.engine.ask.lookups import HeldLookup, Lookups
from windrow.engine.ask.snapshots import SnapshotFit, fitting
from windrow.engine.choices.index_choice import apply_choice
from windrow.engine.isolation.instants import committed_upto
from windrow.engine.isolation.interface import DRIVER_ROWS, PaneRange, Partial, PinnedVersion, ReadWindow
from windrow.engine.queries.query_manager import QueryManager
from windrow.engine.state import StreamState
from windrow.plan.nodes import Finalise
from windrow.settings import Settings


@dataclass(frozen=True)
class SynopsisAnswer:
    """A lookup that gives the rows, the end of the window that they are of, and up to where the stream was complete
    then."""

    lookup: HeldLookup
    end: int
    plan: Finalise
    upto: int | None


class SynopsisRead:
    """A lookup of a synopsis (an `OneTimeRead`) that needs time. It reads what is held for it, whatever comes."""

    windows: tuple[ReadWindow, ...] = ()
    views: tuple[str, ...] = ()
    tick = 1
    keeps_partials = False
    read_rows = partial_rows = DRIVER_ROWS

    def __init__(self, lookup: HeldLookup):
        self._lookup = lookup

    def pin(self, at_most: int | None = None) -> PinnedVersion:
        return PinnedVersion(None)

    def partials(self, runs: Sequence[PaneRange], at: PinnedVersion) -> Iterator[Partial]:
        raise ValueError("this query keeps no partial results")

    def answer(self, partials: Sequence[Partial], at: PinnedVersion) -> pa.Table:
        return self._lookup.rows()


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
        """The answer from a synopsis that fits, whose lookup the caller releases; None if its window ends before
        `since`. Raises UnsupportedError if none fits."""
        stream = self._manager.stream(plan.scan.stream)
        with stream.lock:
            apply_choice(stream, self._settings())
            fit = fitting(stream, plan, select, self._settings(), text)
            if since is not None and fit.end < since:
                return None
            upto = committed_upto(stream, plan.scan.attribute.column)
            return SynopsisAnswer(self._lookups.held(fit.state, fit.request(plan)), fit.end, plan, upto)

    def forget(self, plan: Finalise) -> None:
        """Let what was generated for a plan go."""
        self._finisher.forget(plan)
