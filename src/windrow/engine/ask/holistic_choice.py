"""How the holistic aggregates of a synopsis's queries are answered, selected or rolled up: decided anew whenever
windows are asked for, remembered for EXPLAIN."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from windrow.plan.nodes import WindowAggregate
from windrow.synopses import BasicIntervalSynopsis
from windrow.synopses.answering.planner import HolisticDecision, HolisticWay, rolled_up
from windrow.synopses.holistic.selection_sizes import decide
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
    """`setting` is the setting `holistic`; `decisions` are by query."""

    def __init__(self) -> None:
        self.setting = "auto"
        self.decisions: dict[str, HolisticDecision] = {}

    def selects(self, synopsis: BasicIntervalSynopsis, asked: Sequence[HolisticRequest]) -> list[bool]:
        """Whether the windows of each of these queries, which are asked together, are answered by selection."""
        free = [one for one in asked if one.hindered is None]
        decided = decide(synopsis, [(one.aggregate, one.starts, one.ends) for one in free], self.setting)
        made = {one.query: rolled_up(str(one.hindered)) for one in asked}
        made |= {one.query: decision for one, decision in zip(free, decided, strict=True)}
        self.decisions |= made
        return [made[one.query].chosen is HolisticWay.SELECTION for one in asked]

    def keep(self, queries: Collection[str]) -> None:
        """Forget what was decided about others."""
        self.decisions = {query: made for query, made in self.decisions.items() if query in queries}
