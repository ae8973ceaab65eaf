"""Who shares what: the rules of 001_3bbbc8a20ffc7252.txt, 8.3, as far as this version has them.

SS1 A synopsis may be used by queries computing the same aggregate, or different aggregates that need the
    same data per interval, over different window lengths. Here: same stream and grouping; predicates are
    conditions of the accumulators, so queries that differ in WHERE share the scan and the cells' groups.
CS2 All queries accessing the same basic interval synopsis are computed together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from windrow.plan.accumulators import Accumulator
from windrow.plan.nodes import Finalise, Key
from windrow.windows import Cuts, CutSchedule, may_share

SHARE_SYNOPSES = "share_synopses"


@dataclass(frozen=True)
class SynopsisPlan:
    """One synopsis and its users. `since` tells from which point on an accumulator has been kept."""

    id: int
    keys: tuple[Key, ...]
    schedule: CutSchedule
    queries: tuple[tuple[str, Finalise], ...]

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return tuple(dict.fromkeys(a for _, plan in self.queries for a in plan.input.accumulators))

    @property
    def qualifies(self) -> str | None:
        """The tuples that some query takes; None where one takes all."""
        predicates = dict.fromkeys(plan.input.input.predicate for _, plan in self.queries)
        if not predicates or None in predicates:
            return None
        return " OR ".join(f"({p})" for p in predicates)


def wanted_cuts(plans: Iterable[Finalise]) -> Cuts | None:
    """The union of the window edges of these queries."""
    cuts: Cuts | None = None
    for plan in plans:
        mine = Cuts.for_window(plan.window)
        cuts = mine if cuts is None else cuts.union(mine)
    return cuts


def choose_synopsis(plan: Finalise, candidates: Sequence[SynopsisPlan], cut_factor: int) -> SynopsisPlan | None:
    """The synopsis that a new query joins (SS1), or None where it needs one of its own."""
    mine = Cuts.for_window(plan.window)
    for candidate in candidates:
        if candidate.keys == plan.input.keys and may_share(candidate.schedule.current, mine, cut_factor):
            return candidate
    return None
