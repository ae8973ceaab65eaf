"""Which synopsis a query joins, by the rules of 001_3bbbc8a20ffc7252.txt, 8.3 (all of them: `rules.py`).

SS1 A synopsis may be used by queries computing the same aggregate, or different aggregates that need the
    same data per interval, over different window lengths. Here: same stream and grouping; predicates are
    conditions of the accumulators, so queries that differ in WHERE share the scan and the cells' groups.
CS2 All queries accessing the same basic interval synopsis are computed together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from windrow.plan.accumulators import Accumulator
from windrow.plan.nodes import Finalise, Key
from windrow.windows import (
    Cuts,
    CutSchedule,
    LandmarkWindow,
    PartitionedWindow,
    SlideByTuple,
    SlideOver,
    Window,
    may_share,
)

SHARE_SYNOPSES = "share_synopses"
Style = tuple[str, int]
BUFFER: Style = ("buffer", 0)


@dataclass(frozen=True)
class SynopsisPlan:
    """One synopsis and its users. `since` tells from which point on an accumulator has been kept.

    `axis` is what its panes are cut on, and `style` what kind of windows it serves: they do not mix, since panes that
    suit the one cost the other dearly (a pane per value, or all of the past in one).
    """

    id: int
    keys: tuple[Key, ...]
    schedule: CutSchedule
    queries: tuple[tuple[str, Finalise], ...]
    axis: str
    style: Style

    @property
    def partition(self) -> int:
        return self.queries[0][1].input.partition if self.queries else 0

    @cached_property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return tuple(dict.fromkeys(a for _, plan in self.queries for a in plan.input.accumulators))

    @cached_property
    def qualifies(self) -> str | None:
        """The tuples that some query takes; None where one takes all, or counts all."""
        predicates = dict.fromkeys(plan.input.input.predicate for _, plan in self.queries)
        if not predicates or None in predicates or self.partition:
            return None
        return " OR ".join(f"({p})" for p in predicates)


PER_POINT = Cuts.of({(1, 0)})


def style_of(window: Window, schedule: CutSchedule) -> Style:
    """Windows of the same style may share a synopsis. Panes finer than the window asks for are buffered tuples."""
    if schedule.current == PER_POINT and window.cuts() != PER_POINT:
        return BUFFER
    if isinstance(window, LandmarkWindow):
        return "landmark", window.start
    if isinstance(window, SlideByTuple) and window.over is SlideOver.RANK:
        return "rank", 0
    return type(window).__name__, 0


def schedule_for(window: Window, buffered: bool = False) -> CutSchedule:
    """The cuts that a window needs: at its edges, and, of a landmark window, at the landmark; at every point where
    its tuples are to be buffered."""
    if buffered:
        return CutSchedule.of(PER_POINT)
    schedule = CutSchedule.of(window.cuts())
    if isinstance(window, LandmarkWindow) and window.since is not None:
        return CutSchedule((*schedule.regimes, (window.since, window.cuts())))
    return schedule


def wanted_cuts(plans: Iterable[Finalise]) -> Cuts | None:
    """The union of the window edges of these queries."""
    cuts: Cuts | None = None
    for plan in plans:
        mine = plan.window.cuts()
        cuts = mine if cuts is None else cuts.union(mine)
    return cuts


def choose_synopsis(plan: Finalise, candidates: Sequence[SynopsisPlan], cut_factor: int) -> SynopsisPlan | None:
    """The synopsis that a new query joins (SS1), or None where it needs one of its own.

    A query that counts partitions or ranks counts from when it came, so it has one of its own.
    """
    axis, mine = plan.scan.attribute.column, plan.window.cuts()
    style = style_of(plan.window, schedule_for(plan.window))
    if isinstance(plan.window, PartitionedWindow) or style[0] == "rank":
        return None
    for candidate in candidates:
        alike = candidate.keys == plan.input.keys and candidate.axis == axis and candidate.style == style
        if alike and may_share(candidate.schedule.current, mine, cut_factor):
            return candidate
    return None
