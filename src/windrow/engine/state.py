"""A stream as it runs: its frontier, its queries and its synopses, in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windrow.catalog.definitions import StreamDef
from windrow.cql.statements import CreateQuery
from windrow.dataplane.ingest import Grouping
from windrow.dataplane.sinks import Sink, StagingSink
from windrow.engine.chooser import Chooser
from windrow.engine.metrics import QueryMetrics, StreamMetrics
from windrow.optimizer.sharing import SynopsisPlan
from windrow.plan.nodes import Finalise
from windrow.synopses import BasicIntervalSynopsis
from windrow.types import POINT_MIN
from windrow.windows import Frontier, Points

Subscriber = Callable[[Any], None]


@dataclass
class QueryState:
    """A standing query. `since`: only tuples at or above this point are seen (None: all)."""

    id: int
    name: str
    statement: CreateQuery
    text: str
    plan: Finalise
    since: int | None
    error: str | None = None
    last_end: int | None = None
    sink: Sink | StagingSink | None = None
    subscribers: list[Subscriber] = field(default_factory=list)
    batch_subscribers: list[Subscriber] = field(default_factory=list)
    metrics: QueryMetrics = field(default_factory=QueryMetrics)

    @property
    def first_complete_end(self) -> int | None:
        """The end of the first window that sees all of its tuples; None: all do."""
        if self.since is None:
            return None
        window = self.plan.window
        wid = -((window.origin + window.slide - window.range - self.since) // window.slide)
        return window.extent(wid)[1]


@dataclass
class SynopsisState:
    """A synopsis and its durable side. `kept_from`: cells of panes below it are gone (None: none are)."""

    plan: SynopsisPlan
    synopsis: BasicIntervalSynopsis
    since: dict[str, int | None]
    kept_from: int | None

    @property
    def owner(self) -> str:
        return f"synopses/{self.plan.id}"

    def grouping(self) -> Grouping:
        plan = self.plan
        return Grouping(plan.id, plan.keys, plan.schedule, plan.qualifies, plan.accumulators)


@dataclass(frozen=True)
class Unpublished:
    """A committed stage of a sink that is still to be made visible; `outbox` is its row in the catalog."""

    query: QueryState
    entry: str
    outbox: int


@dataclass
class StreamState:
    """Everything the engine knows about one stream.

    `batch_lock` is held for a whole micro-batch, so that queries come and go between micro-batches; `lock`
    guards the state itself, and is taken second: ticks, in a thread of their own, take only that. `stopping`
    is set while the stream is being stopped: a job that fails then was cancelled, and no query is to blame.
    """

    id: int
    definition: StreamDef
    directory: Path
    frontier: Frontier
    last_batch: int = -1
    least: int | None = None
    ticked: int | None = None
    tick_seq: int = 0
    queries: dict[str, QueryState] = field(default_factory=dict)
    synopses: dict[int, SynopsisState] = field(default_factory=dict)
    chooser: Chooser = field(default_factory=Chooser)
    metrics: StreamMetrics = field(default_factory=StreamMetrics)
    dataframe: Any = None
    unpublished: list[Unpublished] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    lock: threading.RLock = field(default_factory=threading.RLock)
    batch_lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def active(self) -> list[QueryState]:
        return [query for query in self.queries.values() if query.error is None]

    def groupings(self) -> list[Grouping]:
        return [synopsis.grouping() for synopsis in self.synopses.values() if synopsis.plan.queries]


def window_starts(query: QueryState, ends: Points) -> Points:
    """Where the query's windows begin, cut off at what it may see."""
    starts = ends - query.plan.window.range
    return starts if query.since is None else starts.clip(min=max(query.since, POINT_MIN))
