"""A continuous query in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from windrow.cql.statements import CreateQuery
from windrow.dataplane.sinks import Sink, StagingSink
from windrow.engine.metrics import QueryMetrics
from windrow.engine.store.window_stores import StoreUse
from windrow.operators.state import PlanState
from windrow.operators.view import View
from windrow.plan.algebra.nodes import ContinuousPlan

Subscriber = Callable[[Any], None]


@dataclass(frozen=True)
class PlanProgress:
    """How far a plan has ticked. `ticked` is the last tick that was processed; None: none yet. `seq` counts its commits.
    `error`: why the query is suspended."""

    ticked: int | None = None
    seq: int = 0
    error: str | None = None


@dataclass(frozen=True)
class PlanVersion:
    """What readers see: a progress, the state and the view that belong to it. It is replaced as a whole."""

    progress: PlanProgress
    state: PlanState
    view: View


@dataclass
class ContinuousQuery:
    """A continuous query. `uses` has the store of each of its plan's windows; it sees tuples from `since` on (None:
    all)."""

    id: int
    name: str
    statement: CreateQuery
    text: str
    plan: ContinuousPlan
    uses: tuple[StoreUse, ...]
    since: int | None
    version: PlanVersion
    sink: Sink | StagingSink | None = None
    subscribers: list[Subscriber] = field(default_factory=list)
    metrics: QueryMetrics = field(default_factory=QueryMetrics)
    ticking: threading.RLock = field(default_factory=threading.RLock)
    """Held while it ticks, and while it is dropped."""

    @property
    def progress(self) -> PlanProgress:
        return self.version.progress

    @property
    def error(self) -> str | None:
        return self.progress.error
