"""How the holistic aggregates of a synopsis's queries are answered, selected or rolled up: decided anew whenever
windows are asked for, remembered for EXPLAIN."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from windrow.plan.nodes import WindowAggregate
from windrow.synopses import BasicIntervalSynopsis
from windrow.synopses.holistic.selection_choice import (
    HolisticDecision,
    HolisticWay,
    SelectionWork,
    Together,
    decide,
    unfit_for_selection,
)
from windrow.windows import Points


@dataclass(frozen=True)
class HolisticRequest:
    """Windows of a query with holistic aggregates, at least one. `hindered`: why they cannot be selected."""

    query: str
    aggregate: WindowAggregate
    starts: Points
    ends: Points
    hindered: str | None

    def __post_init__(self) -> None:
        if not self.starts.size or not self.aggregate.is_holistic:
            raise ValueError("nothing to be decided about")


class HolisticChoice:
    """`asked` is the setting `holistic`; `decisions` are by query."""

    def __init__(self) -> None:
        self.asked = "auto"
        self.decisions: dict[str, HolisticDecision] = {}

    def selects(self, synopsis: BasicIntervalSynopsis, asked: Sequence[HolisticRequest]) -> list[bool]:
        """Whether the windows of each of these queries, which are asked together, are answered by selection."""
        free = [one for one in asked if one.hindered is None]
        decided = decide(synopsis, [(one.aggregate, one.starts, one.ends) for one in free], self.asked)
        made = {one.query: HolisticDecision(HolisticWay.ROLL_UP, str(one.hindered)) for one in asked}
        made |= {one.query: decision for one, decision in zip(free, decided, strict=True)}
        self.decisions |= made
        return [made[one.query].way is HolisticWay.SELECTION for one in asked]

    def keep(self, queries: Collection[str]) -> None:
        """Forget what was decided about others."""
        self.decisions = {query: made for query, made in self.decisions.items() if query in queries}


def hindrance(aggregate: WindowAggregate, revises: bool, derived: bool, promised: bool) -> str | None:
    """What keeps a query from being answered by selection, whatever it would cost; None where nothing does."""
    if derived:
        return "some of its counters are derived from others' cells"
    if promised and aggregate.keys:
        return "groups may be answered before their window"
    return unfit_for_selection(aggregate, revises)


def holistic_line(aggregate: WindowAggregate, made: HolisticDecision | None) -> str | None:
    """For EXPLAIN; None for a query without holistic aggregates."""
    if not aggregate.is_holistic:
        return None
    if made is None:
        return "        holistic aggregates: decided when windows are due"
    told = f"        holistic aggregates: {made.way.value} ({made.why})"
    return told if made.work is None or made.together is None else f"{told}; {_estimated(made.work, made.together)}"


def _estimated(work: SelectionWork, whole: Together) -> str:
    groups, others = work.sorting.groups, len(whole.works) - 1
    windows = f"{sum(one.windows for one in whole.works):,} windows"
    if others:
        windows += f" of this and {others} other quer{'y' if others == 1 else 'ies'}"
    return (
        f"for {windows}, {work.values:,} values in {groups:,} group{'' if groups == 1 else 's'}, estimated: "
        f"selection {whole.selected_ns / 1e6:.3g} ms, rolled up {whole.rolled_ns / 1e6:.3g} ms"
    )
