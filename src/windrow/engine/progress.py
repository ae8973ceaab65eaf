"""The progress of a stream, a synopsis and a query: immutable values, replaced after a commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from windrow.catalog.definitions import Punctuated, StreamDef
from windrow.cql.statements import Policy
from windrow.dataplane.sources.columns.source_columns import SourceColumns
from windrow.optimizer.sharing.synopsis_plans import SynopsisPlan
from windrow.plan.nodes import ROW_NUM
from windrow.windows import (
    Ended,
    Frontier,
    PerKeyFrontier,
    RowFrontier,
    RowSlackFrontier,
    Seen,
    SlackFrontier,
    SourceFrontier,
)
from windrow.windows.ended import after_end
from windrow.windows.lateness import Lateness
from windrow.windows.promises import Announcement, Promises


@dataclass(frozen=True)
class StreamProgress:
    """The progress of a stream. Mappings are by axis: the punctuated columns, and the row number. `least` is the least
    point deposited; windows due by `ticked` are answered."""

    frontiers: Mapping[str, Frontier]
    last_batch: int = -1
    least: Mapping[str, int] = field(default_factory=dict)
    ticked: Mapping[str, int] = field(default_factory=dict)
    lateness: Mapping[str, Lateness] = field(default_factory=dict)
    promises: Promises = Promises()
    ended: Mapping[str, tuple[Ended, ...]] = field(default_factory=dict)
    """Where the end of the input moved the frontier; only entries that still matter."""
    silent: Mapping[str, int] = field(default_factory=dict)
    """The microseconds of silence that heartbeats have counted (HEARTBEAT AFTER)."""
    tick_seq: int = 0
    columns: SourceColumns = SourceColumns()
    input_ended: bool = False
    """Whether the input has ended and nothing was admitted since: the stream then holds no plan back."""

    def after_deposit(
        self,
        batch_id: int,
        seen: Mapping[str, Seen],
        least: Mapping[str, int],
        announced: Announcement,
        lateness: Mapping[str, Lateness],
        has_arrived: bool,
        columns: SourceColumns | None = None,
    ) -> StreamProgress:
        """The progress after a micro-batch and its punctuations. `has_arrived`: the micro-batch ends a silence.
        `columns`: what is then known of the source's columns (None: nothing new)."""
        frontiers = {axis: f.after(seen[axis]) if axis in seen else f for axis, f in self.frontiers.items()}
        return replace(
            self,
            frontiers=_promised(frontiers, announced),
            last_batch=batch_id,
            least={**least, **{axis: min(point, least.get(axis, point)) for axis, point in self.least.items()}},
            lateness=lateness,
            promises=self.promises.after(announced.promises, self.ticked),
            silent={} if has_arrived else self.silent,
            columns=self.columns if columns is None else columns,
            input_ended=self.input_ended and not seen,
        )

    def after_punctuation(
        self,
        announced: Announcement,
        greatest: Mapping[str, int] | None = None,
        silent: Mapping[str, int] | None = None,
    ) -> StreamProgress:
        """The progress after punctuations by hand, the end of the input (`greatest`: the greatest points, by axis) or
        heartbeats (`silent`: the silence counted, by axis)."""
        frontiers = _promised(self.frontiers, announced)
        ended = dict(self.ended)
        for axis, point in (greatest or {}).items():
            before, upto = self.frontiers[axis].value, frontiers[axis].value
            ended[axis] = after_end(ended.get(axis, ()), before, point, upto, self.ticked.get(axis))
        promises = self.promises.after(announced.promises, self.ticked)
        counted = {**self.silent, **(silent or {})}
        input_ended = self.input_ended or greatest is not None
        return replace(
            self, frontiers=frontiers, promises=promises, ended=ended, silent=counted, input_ended=input_ended
        )

    def promised(self, axis: str, upto: int) -> StreamProgress:
        """The progress when no more tuples below a point come on an axis."""
        return replace(self, frontiers={**self.frontiers, axis: self.frontiers[axis].promise(upto)})

    def after_tick(self, axis: str, ticked: int | None, promises: Promises) -> StreamProgress:
        """The progress after a tick batch of an axis that answered windows up to `ticked` (None: it answered none)."""
        answered = self.ticked if ticked is None else {**self.ticked, axis: ticked}
        return replace(self, ticked=answered, promises=promises, tick_seq=self.tick_seq + 1)

    def resumed(self, axis: str) -> StreamProgress:
        """The progress when an axis gets its first query: its ticks resume at the frontier."""
        frontier = self.frontiers[axis].value
        if axis == ROW_NUM or frontier is None:
            return self
        return replace(self, ticked={**self.ticked, axis: frontier})


@dataclass(frozen=True)
class SynopsisProgress:
    """The committed state of a synopsis besides its blocks. `since` has the point from which each accumulator is kept
    (None: always), by id."""

    plan: SynopsisPlan
    since: Mapping[str, int | None]
    kept_from: int | None = None
    """Cells of panes below this point have expired (None: none)."""
    ranked: int = 0
    """The number of tuples in expired panes, for windows by rank (SATTR rank)."""
    complete_from: int | None = None
    """Below this point, cells of groups that were answered early have been released (None: none)."""

    def without(self, query: str) -> SynopsisProgress:
        """The progress without a query and what only it needed."""
        plan = self.plan.without(query)
        return self if plan is self.plan else self.planned(plan)

    def planned(self, plan: SynopsisPlan) -> SynopsisProgress:
        """The progress with a plan that keeps fewer accumulators."""
        wanted = {a.id for a in plan.accumulators}
        return replace(self, plan=plan, since={a: point for a, point in self.since.items() if a in wanted})

    def expired(self, below: int | None, ranked: int) -> SynopsisProgress:
        """The progress after the cells below a point have expired; `ranked` is the new total."""
        plan = self.plan
        if below is not None and plan.style[0] != "landmark":
            plan = replace(plan, schedule=plan.schedule.pruned(below))
        return replace(self, plan=plan, kept_from=below, ranked=ranked)


@dataclass(frozen=True)
class QueryProgress:
    """The progress of a query. `error`: why it is suspended; `last_end`: the end of its latest answered window."""

    error: str | None = None
    last_end: int | None = None
    fresh: bool = False
    """Whether groups were answered early before the query was created, and it has yet to answer them itself."""

    def answered(self, last_end: int | None) -> QueryProgress:
        """The progress after answers up to a window end. Every answered query of a tick calls this; `replace` takes 2.5
        times as long."""
        return QueryProgress(self.error, last_end, self.fresh)


def start_of(definition: StreamDef) -> StreamProgress:
    """The progress of a new stream."""
    frontiers: dict[str, Frontier] = {p.column: _frontier(p) for p in definition.punctuated}
    return StreamProgress({**frontiers, ROW_NUM: RowFrontier()})


def _frontier(punctuated: Punctuated) -> Frontier:
    if punctuated.policy is Policy.PER_KEY:
        return PerKeyFrontier(punctuated.idle_after)
    if punctuated.policy is Policy.BY_SOURCE:
        return SourceFrontier()
    if punctuated.slack_rows is not None:
        return RowSlackFrontier(punctuated.slack_rows)
    return SlackFrontier(punctuated.slack)


def _promised(frontiers: Mapping[str, Frontier], announced: Announcement) -> dict[str, Frontier]:
    return {**frontiers, **{axis: frontiers[axis].promise(upto) for axis, upto in announced.frontiers.items()}}
