"""How far a stream, a synopsis and a query have come: values, each replaced as a whole after a commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from windrow.catalog.definitions import Punctuated, StreamDef
from windrow.cql.statements import Policy
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
    """How far a stream has come. All but the numbers and the promises is by axis: the punctuated columns, and the row
    numbers. `least`: the least point deposited; `ticked`: windows due by there are answered."""

    frontiers: Mapping[str, Frontier]
    last_batch: int = -1
    least: Mapping[str, int] = field(default_factory=dict)
    ticked: Mapping[str, int] = field(default_factory=dict)
    lateness: Mapping[str, Lateness] = field(default_factory=dict)
    promises: Promises = Promises()
    ended: Mapping[str, tuple[Ended, ...]] = field(default_factory=dict)
    """Where the end of the input moved the frontier, those that still matter."""
    silent: Mapping[str, int] = field(default_factory=dict)
    """How many microseconds of silence heartbeats have counted (HEARTBEAT AFTER)."""
    tick_seq: int = 0

    def after_deposit(
        self,
        batch_id: int,
        seen: Mapping[str, Seen],
        least: Mapping[str, int],
        told: Announcement,
        lateness: Mapping[str, Lateness],
        has_arrived: bool,
    ) -> StreamProgress:
        """After a micro-batch, with what its punctuations told. `has_arrived`: it ends a silence."""
        frontiers = {axis: f.after(seen[axis]) if axis in seen else f for axis, f in self.frontiers.items()}
        return replace(
            self,
            frontiers=_promised(frontiers, told),
            last_batch=batch_id,
            least={**least, **{axis: min(point, least.get(axis, point)) for axis, point in self.least.items()}},
            lateness=lateness,
            promises=self.promises.after(told.promises, self.ticked),
            silent={} if has_arrived else self.silent,
        )

    def after_punctuation(
        self, told: Announcement, greatest: Mapping[str, int] | None = None, silent: Mapping[str, int] | None = None
    ) -> StreamProgress:
        """After punctuations by hand, the end of the input (then `greatest` are the greatest points, by axis) or
        heartbeats (then `silent` is what they have counted, by axis)."""
        frontiers = _promised(self.frontiers, told)
        ended = dict(self.ended)
        for axis, point in (greatest or {}).items():
            before, upto = self.frontiers[axis].value, frontiers[axis].value
            ended[axis] = after_end(ended.get(axis, ()), before, point, upto, self.ticked.get(axis))
        promises = self.promises.after(told.promises, self.ticked)
        counted = {**self.silent, **(silent or {})}
        return replace(self, frontiers=frontiers, promises=promises, ended=ended, silent=counted)

    def after_tick(self, axis: str, ticked: int | None, promises: Promises) -> StreamProgress:
        """After a tick batch of an axis, which answered windows up to a point (None: none were)."""
        answered = self.ticked if ticked is None else {**self.ticked, axis: ticked}
        return replace(self, ticked=answered, promises=promises, tick_seq=self.tick_seq + 1)

    def resumed(self, axis: str) -> StreamProgress:
        """When an axis gets its first query: ticks had stopped, and go on from the frontier."""
        frontier = self.frontiers[axis].value
        if axis == ROW_NUM or frontier is None:
            return self
        return replace(self, ticked={**self.ticked, axis: frontier})


@dataclass(frozen=True)
class SynopsisProgress:
    """What is committed of a synopsis, besides its blocks. `since`: from where on it has each accumulator."""

    plan: SynopsisPlan
    since: Mapping[str, int | None]
    kept_from: int | None = None
    """Cells of panes below it are gone (None: none are)."""
    ranked: int = 0
    """Tuples in the panes that have left, where windows go by rank (SATTR rank)."""
    complete_from: int | None = None
    """Groups that were answered early have been let go of below it (None: none has)."""

    def without(self, query: str) -> SynopsisProgress:
        """Without what only this query needed."""
        plan = self.plan.without(query)
        return self if plan is self.plan else self.planned(plan)

    def planned(self, plan: SynopsisPlan) -> SynopsisProgress:
        """With a plan that needs less."""
        wanted = {a.id for a in plan.accumulators}
        return replace(self, plan=plan, since={a: point for a, point in self.since.items() if a in wanted})

    def expired(self, below: int | None, ranked: int) -> SynopsisProgress:
        """Without the cells below a point; `ranked` tuples are gone with all that have left."""
        plan = self.plan
        if below is not None and plan.style[0] != "landmark":
            plan = replace(plan, schedule=plan.schedule.pruned(below))
        return replace(self, plan=plan, kept_from=below, ranked=ranked)


@dataclass(frozen=True)
class QueryProgress:
    """How far a query has come. `error`: why it is suspended; `last_end`: the end of the latest window answered."""

    error: str | None = None
    last_end: int | None = None
    fresh: bool = False
    """Whether it came when groups had been answered early, and has still to answer them itself."""


def start_of(definition: StreamDef) -> StreamProgress:
    """The progress of a stream of which nothing has been seen yet."""
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


def _promised(frontiers: Mapping[str, Frontier], told: Announcement) -> dict[str, Frontier]:
    return {**frontiers, **{axis: frontiers[axis].promise(upto) for axis, upto in told.frontiers.items()}}
