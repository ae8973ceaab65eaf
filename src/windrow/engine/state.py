"""A stream as it runs: its progress, its queries and its synopses, in memory.

`StreamState.install` alone replaces the progress of a stream, its synopses and its queries, after a commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.catalog.definitions import StreamDef
from windrow.cql.statements import CreateQuery
from windrow.dataplane.ingest.job import Grouping
from windrow.dataplane.sinks import Sink, StagingSink
from windrow.engine.ask.having import HavingFilters
from windrow.engine.ask.holistic_choice import HolisticChoice
from windrow.engine.intake.chooser import Chooser
from windrow.engine.metrics import QueryMetrics, StreamMetrics
from windrow.engine.progress import QueryProgress, StreamProgress, SynopsisProgress
from windrow.optimizer.sharing.periods import PeriodicAnswers, periodic_answers
from windrow.optimizer.sharing.synopsis_plans import SynopsisPlan
from windrow.optimizer.sharing.uses import SynopsisUse
from windrow.plan.nodes import ROW_NUM, Finalise
from windrow.synopses import Asker, Cells, Looked, Lookup, Synopsis
from windrow.synopses.cells.merging import collapsed_panes, fold_cells
from windrow.windows import Ended, Frontier, Points, RowFrontier
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
    progress: QueryProgress = QueryProgress()
    closed_by: int | None = None
    """The frontier that it found when it was created: windows due by then are not its own."""

    synopsis: int = 0
    """The number of the synopsis that it uses."""

    sink: Sink | StagingSink | None = None
    subscribers: list[Subscriber] = field(default_factory=list)
    batch_subscribers: list[Subscriber] = field(default_factory=list)
    metrics: QueryMetrics = field(default_factory=QueryMetrics)

    @property
    def error(self) -> str | None:
        return self.progress.error

    @property
    def last_end(self) -> int | None:
        return self.progress.last_end

    @property
    def fresh(self) -> bool:
        return self.progress.fresh

    @property
    def axis(self) -> str:
        return self.plan.scan.attribute.column

    @cached_property
    def periodic(self) -> PeriodicAnswers | None:
        """What makes its answers those of another query (CS8)."""
        return periodic_answers(self.plan)


@dataclass
class SynopsisState:
    """A synopsis, and what is committed of it."""

    progress: SynopsisProgress
    synopsis: Synopsis
    having: HavingFilters = field(default_factory=HavingFilters)
    """SubStream Filters over its closed panes: a second view of them, never saved."""
    holistic: HolisticChoice = field(default_factory=HolisticChoice)

    @property
    def plan(self) -> SynopsisPlan:
        return self.progress.plan

    @property
    def since(self) -> Mapping[str, int | None]:
        return self.progress.since

    @property
    def kept_from(self) -> int | None:
        return self.progress.kept_from

    @property
    def ranked(self) -> int:
        return self.progress.ranked

    @property
    def complete_from(self) -> int | None:
        return self.progress.complete_from

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
class UnpublishedStage:
    """A committed stage of a sink that is still to be made visible; `outbox` is its row in the catalog."""

    query: QueryState
    entry: str
    outbox: int


@dataclass(frozen=True)
class CommittedState:
    """What holds after a commit: of a stream, and of those of its synopses and queries that the commit changed."""

    progress: StreamProgress
    unpublished: tuple[UnpublishedStage, ...]
    synopses: tuple[tuple[SynopsisState, SynopsisProgress], ...] = ()
    queries: tuple[tuple[QueryState, QueryProgress], ...] = ()


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
    progress: StreamProgress
    unpublished: tuple[UnpublishedStage, ...] = ()
    queries: dict[str, QueryState] = field(default_factory=dict)
    synopses: dict[int, SynopsisState] = field(default_factory=dict)
    chooser: Chooser = field(default_factory=Chooser)
    metrics: StreamMetrics = field(default_factory=StreamMetrics)
    dataframe: Any = None
    heard_us: int = 0
    """The wall clock at the last micro-batch, or when the stream was started."""
    silent_since: dict[str, float] = field(default_factory=dict)
    """By axis: from when on silence counts beyond what is counted (HEARTBEAT AFTER), by the monotonic clock."""
    stopping: threading.Event = field(default_factory=threading.Event)
    lock: threading.RLock = field(default_factory=threading.RLock)
    batch_lock: threading.RLock = field(default_factory=threading.RLock)

    def install(self, committed: CommittedState) -> None:
        """Take over what was committed; with `lock` held, after the transaction."""
        self.progress = committed.progress
        self.unpublished = committed.unpublished
        for state, kept in committed.synopses:
            state.progress = kept
        for query, reached in committed.queries:
            query.progress = reached

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def frontiers(self) -> Mapping[str, Frontier]:
        return self.progress.frontiers

    @property
    def last_batch(self) -> int:
        return self.progress.last_batch

    @property
    def least(self) -> Mapping[str, int]:
        return self.progress.least

    @property
    def ticked(self) -> Mapping[str, int]:
        return self.progress.ticked

    @property
    def lateness(self) -> Mapping[str, Lateness]:
        return self.progress.lateness

    @property
    def promises(self) -> Promises:
        return self.progress.promises

    @property
    def ended(self) -> Mapping[str, tuple[Ended, ...]]:
        return self.progress.ended

    @property
    def tick_seq(self) -> int:
        return self.progress.tick_seq

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

    def use_of(self, plan: SynopsisPlan, since: Mapping[str, int | None], cut_factor: int) -> SynopsisUse:
        """One of its synopses as the sharing rules see it."""
        return SynopsisUse(plan, since, self.definition.columns, cut_factor, bool(self.promises), self._periodic)

    def _periodic(self, name: str, plan: Finalise) -> PeriodicAnswers | None:
        known = self.queries.get(name)
        return periodic_answers(plan) if known is None else known.periodic

    def groupings(self) -> list[Grouping]:
        return [synopsis.grouping() for synopsis in self.synopses.values() if synopsis.plan.queries]
