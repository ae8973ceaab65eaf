"""The plan of a synopsis: its queries, what it keeps, and which queries may join it.

Queries of the same stream and grouping may share one synopsis. Predicates are conditions of the accumulators, so
queries that differ in WHERE share the scan and the groups of cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from windrow.optimizer.sharing.derivations import Derivation, read_of
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
    why_not_share,
)

Style = tuple[str, int]
BUFFER: Style = ("buffer", 0)
FREQUENT = "frequent"
LANDMARK = "landmark"


@dataclass(frozen=True)
class SynopsisPlan:
    """One synopsis and its queries.

    Its panes are cut on `axis`. `style` is the kind of windows it serves; kinds do not mix, since panes that suit one
    are costly for another (a pane per value, or all of the past in one). Its last keys may be `values` that holistic
    aggregates count; queries with other values, or with these as groups, use another synopsis.
    """

    id: int
    keys: tuple[Key, ...]
    schedule: CutSchedule
    queries: tuple[tuple[str, Finalise], ...]
    axis: str
    style: Style
    derived: Mapping[str, tuple[Derivation, ...]] = field(default_factory=dict)
    """By query: its accumulators that are not kept but derived from others (SS4)."""
    values: tuple[Key, ...] = ()

    @property
    def group_keys(self) -> tuple[Key, ...]:
        """The grouping keys of its queries, without the values that holistic aggregates count."""
        return self.keys[: len(self.keys) - len(self.values)]

    @property
    def need(self) -> Need:
        """The requirements for a query to join."""
        return Need(self.axis, self.keys, self.values, self.style, self.schedule.current)

    @property
    def partition(self) -> int:
        return self.queries[0][1].input.partition if self.queries else 0

    @cached_property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """All accumulators that its queries read or derive from."""
        kept: dict[Accumulator, None] = {}
        for name, plan in self.queries:
            kept.update(dict.fromkeys(read_of(plan.input, self.derived.get(name, ()))))
        return tuple(kept)

    def grown(self, name: str, plan: Finalise, schedule: CutSchedule, derived: tuple[Derivation, ...]) -> SynopsisPlan:
        """The plan with one more query. The accumulators of the others are not computed again."""
        every = {**self.derived, name: derived} if derived else self.derived
        more = replace(self, schedule=schedule, queries=(*self.queries, (name, plan)), derived=every)
        more.__dict__["accumulators"] = tuple(dict.fromkeys((*self.accumulators, *read_of(plan.input, derived))))
        return more

    def without(self, name: str) -> SynopsisPlan:
        """The plan without a query; the plan itself if it has no such query."""
        left = tuple(entry for entry in self.queries if entry[0] != name)
        if len(left) == len(self.queries):
            return self
        return replace(self, queries=left, derived={n: d for n, d in self.derived.items() if n != name})

    def renamed(self, name: str, new: str) -> SynopsisPlan:
        """The plan in which a query has another name."""
        queries = tuple((new if one == name else one, plan) for one, plan in self.queries)
        return replace(self, queries=queries, derived={new if n == name else n: d for n, d in self.derived.items()})

    @cached_property
    def qualifies(self) -> str | None:
        """The condition of the tuples that some query reads; None if all are read. A query that subtracts also reads
        the tuples it subtracts; the accumulators that a query only adds contain no other tuples than its own."""
        predicates = dict.fromkeys(plan.input.input.predicate for _, plan in self.queries)
        less = (one for derived in self.derived.values() for one in derived if one.subtracted)
        predicates.update(dict.fromkeys(base.condition for one in less for base in one.bases))
        if not predicates or None in predicates or self.partition:
            return None
        return " OR ".join(f"({p})" for p in predicates)


PER_POINT = Cuts.of({(1, 0)})


def style_of(window: Window, schedule: CutSchedule) -> Style:
    """The style of a window; windows of the same style may share a synopsis. Panes finer than the window needs are
    buffered tuples."""
    if schedule.current == PER_POINT and window.cuts() != PER_POINT:
        return BUFFER
    if isinstance(window, LandmarkWindow):
        return LANDMARK, window.start
    if isinstance(window, SlideByTuple) and window.over is SlideOver.RANK:
        return "rank", 0
    return type(window).__name__, 0


def style_for(plan: Finalise, schedule: CutSchedule) -> Style:
    """The style of a query: that of its window, or of its FREQUENT_ITEMS, with the length of the lists."""
    frequent = plan.input.frequent
    return style_of(plan.window, schedule) if frequent is None else (FREQUENT, int(frequent.parameters[0]))


def style_of_all(plans: Sequence[Finalise], schedule: CutSchedule) -> Style:
    """The style of the queries of one synopsis. Panes finer than they need together are buffered tuples."""
    own = schedule if wanted_cuts(plans) != schedule.current else schedule_for(plans[0].window)
    return style_for(plans[0], own)


def schedule_for(window: Window, buffered: bool = False) -> CutSchedule:
    """The cuts that a window needs: at its edges and its landmark, or at every point if its tuples are buffered."""
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


@dataclass(frozen=True)
class Need:
    """What a query needs from a synopsis, or what a synopsis offers. If they differ only in cuts, the query may join if
    the cuts can be united."""

    axis: str
    keys: tuple[Key, ...]
    values: tuple[Key, ...]
    style: Style
    cuts: Cuts


def need_of(plan: Finalise) -> Need:
    style = style_for(plan, schedule_for(plan.window))
    return Need(plan.scan.attribute.column, plan.input.cell_keys, plan.input.values, style, plan.window.cuts())


_ALONE = {
    PartitionedWindow.__name__: "partitions are counted per query, from its creation on",
    "rank": "ranks are counted per query, from its creation on",
    FREQUENT: "the lists of FREQUENT_ITEMS belong to the window edges of one query",
    BUFFER[0]: "buffered tuples (window_evaluation)",
}
"""The styles that are not shared, and why."""


def why_apart(need: Need, other: SynopsisPlan, cut_factor: int) -> str | None:
    """Why a query with this need cannot join the synopsis, in words; None if it can (SS1)."""
    mine, theirs = need.keys[: len(need.keys) - len(need.values)], other.group_keys
    if other.axis != need.axis:
        return "another window attribute"
    if theirs != mine:
        return "the same GROUP BY in another order" if set(theirs) == set(mine) else "another GROUP BY"
    if other.values != need.values:
        return "other columns whose values are counted"
    for style in (need.style, other.style):
        if style[0] in _ALONE:
            return _ALONE[style[0]]
    if other.style != need.style:
        return "another landmark" if other.style[0] == need.style[0] else "another kind of window"
    return why_not_share(other.schedule.current, need.cuts, cut_factor)
