"""How the holistic aggregates of a synopsis's queries are answered, selected or rolled up: decided anew whenever
windows are asked for, remembered for EXPLAIN."""

from __future__ import annotations

from collections.abc import Collection

from windrow.plan.nodes import WindowAggregate
from windrow.synopses import BasicIntervalSynopsis
from windrow.synopses.selection_choice import (
    HolisticDecision,
    HolisticWay,
    SelectionWork,
    decide,
    unfit_for_selection,
)
from windrow.windows import Points


class HolisticChoice:
    """`asked` is the setting `holistic`; `decisions` are by query."""

    def __init__(self) -> None:
        self.asked = "auto"
        self.decisions: dict[str, HolisticDecision] = {}

    def selects(
        self,
        synopsis: BasicIntervalSynopsis,
        query: str,
        aggregate: WindowAggregate,
        windows: tuple[Points, Points],
        hindered: str | None,
    ) -> bool:
        """Whether these windows of a query are answered by selection. `hindered`: why they cannot be."""
        if not aggregate.is_holistic or not windows[0].size:
            return False
        if hindered is None:
            made = decide(synopsis, aggregate, *windows, self.asked)
        else:
            made = HolisticDecision(HolisticWay.ROLL_UP, hindered)
        self.decisions[query] = made
        return made.way is HolisticWay.SELECTION

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
    return told if made.work is None else f"{told}; {_estimated(made.work)}"


def _estimated(work: SelectionWork) -> str:
    values = f"{work.values:,} values in {work.groups:,} group{'' if work.groups == 1 else 's'}"
    return (
        f"for {work.windows:,} windows of {values} estimated: selection {work.selected_ns / 1e6:.3g} ms, "
        f"rolled up {work.rolled_ns / 1e6:.3g} ms"
    )
