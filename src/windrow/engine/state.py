"""A stream as it runs: its frontier, its queries and its synopses, in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.catalog.definitions import Punctuated, StreamDef
from windrow.cql.statements import CreateQuery, Policy
from windrow.dataplane.ingest.job import Grouping
from windrow.dataplane.sinks import Sink, StagingSink
from windrow.engine.ask.having import HavingFilters
from windrow.engine.ask.holistic_choice import HolisticChoice
from windrow.engine.intake.chooser import Chooser
from windrow.engine.metrics import QueryMetrics, StreamMetrics
from windrow.optimizer.same_answers import as_asked
from windrow.optimizer.shapes import Asked
from windrow.optimizer.synopsis_plans import SynopsisPlan
from windrow.plan.nodes import ROW_NUM, Finalise
from windrow.synopses import Asker, Cells, Looked, Lookup, Synopsis
from windrow.synopses.cells.merging import collapsed_panes, fold_cells
from windrow.windows import (
    Ended,
    Frontier,
    PerKeyFrontier,
    Points,
    RowFrontier,
    RowSlackFrontier,
    Silence,
    SlackFrontier,
    SourceFrontier,
)
from windrow.windows.lateness import Lateness
from windrow.windows.promises import Promises

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
    closed_by: int | None = None
    """The frontier that it found when it was created: windows due by then are not its own."""

    fresh: bool = False
    """Whether it came when groups had been answered early, and has still to answer them itself."""

    synopsis: int = 0
    """The number of the synopsis that it uses."""

    sink: Sink | StagingSink | None = None
    subscribers: list[Subscriber] = field(default_factory=list)
    batch_subscribers: list[Subscriber] = field(default_factory=list)
    metrics: QueryMetrics = field(default_factory=QueryMetrics)

    @property
    def axis(self) -> str:
        return self.plan.scan.attribute.column

    @cached_property
    def asked(self) -> Asked | None:
        """What makes its answers those of another query (CS8)."""
        return as_asked(self.plan)


@dataclass
class SynopsisState:
    """A synopsis and its durable side. `kept_from`: cells of panes below it are gone (None: none are)."""

    plan: SynopsisPlan
    synopsis: Synopsis
    since: dict[str, int | None]
    kept_from: int | None
    ranked: int = 0
    """Tuples in the panes that have left, where windows go by rank (SATTR rank)."""
    complete_from: int | None = None
    """Groups that were answered early have been let go of below it (None: none has)."""
    having: HavingFilters = field(default_factory=HavingFilters)
    """SubStream Filters over its closed panes: a second view of them, never saved."""
    holistic: HolisticChoice = field(default_factory=HolisticChoice)

    def collapsed(self, cells: Cells, ticked: int | None, into: Points) -> Cells:
        """Of landmark windows: the cells with all that has been answered in a pane for each of some points, merged."""
        if self.plan.style[0] != "landmark" or ticked is None or not len(cells):
            return cells
        panes = collapsed_panes(cells.panes, self.closed_at(ticked), into)
        return fold_cells([Cells(panes, cells.groups, cells.states)], None)

    def ask(
        self, lookups: Sequence[Lookup], once: Asker | None = None, part: Synopsis | None = None
    ) -> Iterator[Looked]:
        """What its queries, or someone `once`, ask of all that it holds, or of a part that has the same groups."""
        return (self.synopsis if part is None else part).ask(lookups, self.plan, once)

    def closed_at(self, frontier: int) -> int:
        """The start of the pane that the frontier stands in: those below it are closed."""
        return int(self.plan.schedule.pane_starts(np.array([frontier]))[0])

    @property
    def key_types(self) -> tuple[pa.DataType, ...]:
        return tuple(key.type.arrow for key in self.plan.keys)

    @property
    def bucketed_by(self) -> int:
        """How many of its keys, the first ones, say which bucket a cell is in, in the Spark home."""
        return len(self.plan.group_keys)

    @property
    def owner(self) -> str:
        return f"synopses/{self.plan.id}"

    @property
    def late_owner(self) -> str:
        """Whose the blocks are that a tick has still to take in, correcting the answers they change."""
        return f"{self.owner}/late"

    def grouping(self) -> Grouping:
        plan = self.plan
        return Grouping(plan.id, plan.keys, plan.schedule, plan.qualifies, plan.accumulators, plan.axis, plan.partition)


@dataclass(frozen=True)
class Unpublished:
    """A committed stage of a sink that is still to be made visible; `outbox` is its row in the catalog."""

    query: QueryState
    entry: str
    outbox: int


@dataclass
class StreamState:
    """Everything the engine knows about one stream. `frontiers`, `least` and `ticked` are by axis: the punctuated
    columns, and the row numbers.

    `batch_lock` is held for a whole micro-batch, so that queries come and go between micro-batches; `lock`
    guards the state itself, and is taken second: ticks, in a thread of their own, take only that. `stopping`
    is set while the stream is being stopped: a job that fails then was cancelled, and no query is to blame.
    """

    id: int
    definition: StreamDef
    directory: Path
    frontiers: dict[str, Frontier]
    last_batch: int = -1
    least: dict[str, int] = field(default_factory=dict)
    ticked: dict[str, int] = field(default_factory=dict)
    lateness: dict[str, Lateness] = field(default_factory=dict)
    promises: Promises = Promises()
    ended: dict[str, tuple[Ended, ...]] = field(default_factory=dict)
    """By axis: where the end of the input moved the frontier, those that still matter."""
    tick_seq: int = 0
    queries: dict[str, QueryState] = field(default_factory=dict)
    synopses: dict[int, SynopsisState] = field(default_factory=dict)
    chooser: Chooser = field(default_factory=Chooser)
    metrics: StreamMetrics = field(default_factory=StreamMetrics)
    dataframe: Any = None
    heard_us: int = 0
    """The wall clock at the last micro-batch, or when the stream was started."""
    silences: dict[str, Silence] = field(default_factory=dict)
    """By axis: how long nothing has arrived while the stream ran (HEARTBEAT AFTER)."""
    unpublished: list[Unpublished] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    lock: threading.RLock = field(default_factory=threading.RLock)
    batch_lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def numbered(self) -> int:
        """How many tuples have been given a row number."""
        rows = self.frontiers[ROW_NUM]
        assert isinstance(rows, RowFrontier)
        return rows.count

    def horizon(self, axis: str, frontier: int) -> int | None:
        """The point of an axis below which nothing comes any more when its frontier stands there; None: there is none.

        Row numbers are given in order of arrival: none is ever late."""
        return frontier if axis == ROW_NUM else self.definition.horizon(frontier)

    def landmarks(self, state: SynopsisState) -> Points:
        """Where the past of landmark windows is held together: from the landmark on, and from where each query that
        came later begins."""
        start = state.plan.style[1]
        since = [self.queries[name].since for name, _ in state.plan.queries]
        return np.array(sorted({start, *(point for point in since if point is not None and point > start)}), np.int64)

    def greatest(self, axis: str) -> int | None:
        """The greatest point of an axis that has been deposited, or the start of its pane. A tuple that is late on
        another axis, and taken in, moves no frontier, and may lie above all that did."""
        panes = [state.synopsis.last_pane for state in self.on_axis(axis)]
        known = [point for point in (self.frontiers[axis].greatest, *panes) if point is not None]
        return max(known, default=None)

    def on_axis(self, axis: str) -> list[SynopsisState]:
        return [state for state in self.synopses.values() if state.plan.axis == axis]

    @property
    def active(self) -> list[QueryState]:
        return [query for query in self.queries.values() if query.error is None]

    def groupings(self) -> list[Grouping]:
        return [synopsis.grouping() for synopsis in self.synopses.values() if synopsis.plan.queries]


def frontiers_of(definition: StreamDef) -> dict[str, Frontier]:
    """The frontiers of a stream of which nothing has been seen yet."""
    found: dict[str, Frontier] = {p.column: _frontier(p) for p in definition.punctuated}
    return {**found, ROW_NUM: RowFrontier()}


def _frontier(punctuated: Punctuated) -> Frontier:
    if punctuated.policy is Policy.PER_KEY:
        return PerKeyFrontier(punctuated.idle_after)
    if punctuated.policy is Policy.BY_SOURCE:
        return SourceFrontier()
    if punctuated.slack_rows is not None:
        return RowSlackFrontier(punctuated.slack_rows)
    return SlackFrontier(punctuated.slack)
