"""A stream in memory: its progress, its queries and its synopses.

Only `StreamState.install` replaces the progress of a stream, its synopses and its queries, after a commit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.catalog.definitions import StreamDef
from windrow.cql.statements import CreateQuery
from windrow.dataplane.answers.finishing import answer_schema
from windrow.dataplane.ingest.grouping import Grouping
from windrow.dataplane.sinks import Sink, StagingSink
from windrow.engine.choices.chooser import GroupingChoice
from windrow.engine.choices.having import HavingFilters
from windrow.engine.choices.holistic_choice import HolisticChoice
from windrow.engine.lags import LagRing
from windrow.engine.lending import LendableLock
from windrow.engine.metrics import QueryMetrics, StreamMetrics
from windrow.engine.progress import QueryProgress, StreamProgress, SynopsisProgress
from windrow.optimizer.sharing.periods import PeriodicAnswers, periodic_answers
from windrow.optimizer.sharing.synopsis_plans import SynopsisPlan
from windrow.optimizer.sharing.uses import SynopsisUse
from windrow.plan.nodes import ROW_NUM, Finalise
from windrow.synopses import Cells, Lookup, LookupAnswer, OneTimeQuery, Synopsis
from windrow.synopses.cells.merging import collapsed_panes, fold_cells
from windrow.windows import Ended, Frontier, Points, RowFrontier
from windrow.windows.lateness import Lateness
from windrow.windows.promises import Promises

Subscriber = Callable[[Any], None]


@dataclass
class QueryState:
    """A standing query. It sees tuples from the point `since` on (None: all)."""

    id: int
    name: str
    statement: CreateQuery
    text: str
    plan: Finalise
    since: int | None
    progress: QueryProgress = QueryProgress()
    closed_by: int | None = None
    """The frontier when it was created; it does not answer windows due by then."""

    synopsis: int = 0
    """The number of its synopsis."""

    sink: Sink | StagingSink | None = None
    is_new: bool = False
    """It was created since the state directory was opened."""
    tried: bool = False
    """It took part in a micro-batch since the state directory was opened."""
    subscribers: list[Subscriber] = field(default_factory=list)
    batch_subscribers: list[Subscriber] = field(default_factory=list)
    metrics: QueryMetrics = field(default_factory=QueryMetrics)
    late_call: Any = None
    """The call of its sink or subscribers that did not end in time and still runs."""
    is_paused: bool = False
    """Its answers wait until it is resumed (ALTER QUERY … PAUSE)."""
    delivery_error: str | None = None
    """Why its delivery is suspended: answers wait until the sink and the subscribers work again."""

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
        """What rule CS8 compares with other queries."""
        return periodic_answers(self.plan)

    @cached_property
    def answer_schema(self) -> pa.Schema:
        """The columns of its answers, without those of corrections."""
        return answer_schema(self.plan.outputs, self.plan.scan.attribute.type)


@dataclass
class SynopsisState:
    """A synopsis and its committed progress."""

    progress: SynopsisProgress
    synopsis: Synopsis
    having: HavingFilters = field(default_factory=HavingFilters)
    """SubStream Filters over its closed panes; they are never saved."""
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
        """For landmark windows, the cells with all answered panes merged into one per point of `into`."""
        if self.plan.style[0] != "landmark" or ticked is None or not len(cells):
            return cells
        panes = collapsed_panes(cells.panes, self.closed_at(ticked), into)
        return fold_cells([Cells(panes, cells.groups, cells.states)], None)

    def ask(
        self, lookups: Sequence[Lookup], once: OneTimeQuery | None = None, part: Synopsis | None = None
    ) -> Iterator[LookupAnswer]:
        """Answer lookups of its queries, or of the asker `once`, from all cells or from a `part` with the same
        groups."""
        return (self.synopsis if part is None else part).ask(lookups, self.plan, once)

    def closed_at(self, frontier: int) -> int:
        """The start of the pane that contains the frontier; panes below it are closed."""
        return int(self.plan.schedule.pane_starts(np.array([frontier]))[0])

    @property
    def key_types(self) -> tuple[pa.DataType, ...]:
        return tuple(key.type.arrow for key in self.plan.keys)

    @property
    def bucketed_by(self) -> int:
        """How many leading keys determine the bucket of a cell in the Spark home."""
        return len(self.plan.group_keys)

    @property
    def owner(self) -> str:
        return f"synopses/{self.plan.id}"

    @property
    def late_owner(self) -> str:
        """The owner of late blocks that no tick has merged yet."""
        return f"{self.owner}/late"

    def grouping(self) -> Grouping:
        plan = self.plan
        return Grouping(plan.id, plan.keys, plan.schedule, plan.qualifies, plan.accumulators, plan.axis, plan.partition)


@dataclass(frozen=True)
class UnpublishedStage:
    """Committed answers that a sink does not show yet; `outbox` is their row in the catalog. `entry` names a stage of
    the sink; or, with `block`, it is a `WaitingEntry`: answers that nobody has taken yet."""

    query: QueryState
    entry: str
    outbox: int
    block: int | None = None


@dataclass(frozen=True)
class CommittedState:
    """The progress after a commit, of a stream and of its synopses and queries that the commit changed."""

    progress: StreamProgress
    unpublished: tuple[UnpublishedStage, ...]
    synopses: tuple[tuple[SynopsisState, SynopsisProgress], ...] = ()
    queries: tuple[tuple[QueryState, QueryProgress], ...] = ()


@dataclass
class StreamState:
    """Everything the engine knows about one stream.

    `batch_lock` is held for a whole micro-batch, so queries are created and dropped between micro-batches. `lock`
    guards the state itself and is taken second; ticks run in their own thread and take only `lock`. `stopping` is set
    while the stream is being stopped: a job that fails then was cancelled, and no query is to blame.
    """

    id: int
    definition: StreamDef
    directory: Path
    progress: StreamProgress
    unpublished: tuple[UnpublishedStage, ...] = ()
    queries: dict[str, QueryState] = field(default_factory=dict)
    readers: frozenset[str] = frozenset()
    """The readers of its window stores, for which its tuples are kept: continuous plans."""
    synopses: dict[int, SynopsisState] = field(default_factory=dict)
    chooser: GroupingChoice = field(default_factory=GroupingChoice)
    metrics: StreamMetrics = field(default_factory=StreamMetrics)
    dataframe: Any = None
    heard_us: int = 0
    """The wall clock at the last micro-batch, or when the stream was started."""
    silent_since: dict[str, float] = field(default_factory=dict)
    """By axis: when the silence not yet counted began, by the monotonic clock (HEARTBEAT AFTER)."""
    sizes_seen: Mapping[str, int] | None = None
    """The sizes that were saved last."""
    size_again_s: float = 0.0
    """From when on they may be measured again, by the monotonic clock."""
    suspects: set[int] = field(default_factory=set)
    """The ids of queries one of which may have ended the JVM when the state directory was open before."""
    stopping: threading.Event = field(default_factory=threading.Event)
    lags: LagRing = field(default_factory=LagRing)
    """How far the frontier of its window attribute was behind its greatest tuple."""
    tick_lags: dict[str, LagRing] = field(default_factory=dict)
    """By axis, how far the answers of its periodic queries were behind the frontier when they were given."""
    watchers: dict[str, Callable[[], None]] = field(default_factory=dict)
    """What is called after every commit, by who asked for it: the one-time queries that read it just now."""
    lock: LendableLock = field(default_factory=LendableLock)
    batch_lock: threading.RLock = field(default_factory=threading.RLock)

    def install(self, committed: CommittedState) -> None:
        """Install the result of a commit. Call it after the transaction, with `lock` held."""
        before, self.progress = self.progress, committed.progress
        self.unpublished = committed.unpublished
        for state, kept in committed.synopses:
            state.progress = kept
        for query, reached in committed.queries:
            query.progress = reached
        if before is not self.progress:
            self._note_lags(before)
            for tell in list(self.watchers.values()):
                tell()

    def _note_lags(self, before: StreamProgress) -> None:
        now_s = time.monotonic()
        frontier = None if self.definition.attribute is None else self.frontiers.get(self.definition.attribute)
        if frontier is not None and frontier.value is not None and before.frontiers is not self.frontiers:
            self.lags.note(now_s, (frontier.greatest or frontier.value) - frontier.value)
        for axis, ticked in self.ticked.items():
            known, reached = before.ticked.get(axis), self.frontiers[axis].value
            if known is not None and known < ticked and reached is not None:
                self.tick_lags.setdefault(axis, LagRing()).note(now_s, reached - known)

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
        """The number of tuples that have a row number."""
        rows = self.frontiers[ROW_NUM]
        assert isinstance(rows, RowFrontier)
        return rows.count

    def horizon(self, axis: str, frontier: int) -> int | None:
        """The point of an axis below which no tuple is admitted any more when its frontier is at `frontier`; None: no
        such point. Row numbers follow the order of arrival, so they are never late."""
        return frontier if axis == ROW_NUM else self.definition.horizon(frontier)

    def landmarks(self, state: SynopsisState) -> Points:
        """The points from which the past of landmark windows is merged: the landmark, and the start of each query that
        was created later."""
        start = state.plan.style[1]
        since = [self.queries[name].since for name, _ in state.plan.queries]
        return np.array(sorted({start, *(point for point in since if point is not None and point > start)}), np.int64)

    def sizes(self) -> dict[str, int]:
        """How much state the queries share."""
        synopses = list(self.synopses.values())
        return {
            "synopses": len(synopses),
            "groups": sum(s.synopsis.group_count for s in synopses),
            "closed_panes": sum(int(s.synopsis.closed_panes.size) for s in synopses),
            "synopsis_bytes": sum(s.synopsis.nbytes for s in synopses),
            "index_bytes": sum(s.synopsis.index_bytes for s in synopses),
            "filter_bytes": sum(s.having.nbytes for s in synopses),
        }

    def greatest(self, axis: str) -> int | None:
        """The greatest point deposited on an axis, or the start of its pane. A late tuple that is admitted on another
        axis moves no frontier, and may lie above all that did."""
        panes = [state.synopsis.last_pane for state in self.on_axis(axis)]
        known = [point for point in (self.frontiers[axis].greatest, *panes) if point is not None]
        return max(known, default=None)

    def on_axis(self, axis: str) -> list[SynopsisState]:
        return [state for state in self.synopses.values() if state.plan.axis == axis]

    @property
    def active(self) -> list[QueryState]:
        return [query for query in self.queries.values() if query.error is None]

    @property
    def is_read(self) -> bool:
        """Whether an active query or a continuous plan reads the stream."""
        return bool(self.readers or self.active)

    def use_of(self, plan: SynopsisPlan, since: Mapping[str, int | None], cut_factor: int) -> SynopsisUse:
        """A synopsis of the stream as the sharing rules see it."""
        return SynopsisUse(plan, since, self.definition.columns, cut_factor, bool(self.promises), self._periodic)

    def _periodic(self, name: str, plan: Finalise) -> PeriodicAnswers | None:
        known = self.queries.get(name)
        return periodic_answers(plan) if known is None else known.periodic

    def groupings(self) -> list[Grouping]:
        return [synopsis.grouping() for synopsis in self.synopses.values() if synopsis.plan.queries]
