"""Decides for each lookup whether holistic aggregates are selected or rolled up, and remembers it for EXPLAIN."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from windrow.plan.nodes import WindowAggregate
from windrow.synopses import Synopsis
from windrow.synopses.answering.planner import HolisticDecision, HolisticWay, rolled_up
from windrow.synopses.holistic.selection_sizes import decide
from windrow.windows import Points


@dataclass(frozen=True)
class HolisticRequest:
    """The windows of a query with holistic aggregates, at least one. `hindered`: why they cannot be selected."""

    query: str
    aggregate: WindowAggregate
    starts: Points
    ends: Points
    hindered: str | None

    def __post_init__(self) -> None:
        if not self.starts.size or not self.aggregate.is_holistic:
            raise ValueError("the request has no windows or no holistic aggregates")


class HolisticChoice:
    """The decisions of one synopsis by query; `setting` is the value of the setting `holistic`."""

    def __init__(self) -> None:
        self.setting = "auto"
        self.decisions: dict[str, HolisticDecision] = {}

    def selects(self, synopsis: Synopsis, requests: Sequence[HolisticRequest]) -> list[bool]:
        """For each request whether it is answered by selection; all requests are answered together."""
        free = [one for one in requests if one.hindered is None]
        decided = decide(synopsis, [(one.aggregate, one.starts, one.ends) for one in free], self.setting)
        made = {one.query: rolled_up(str(one.hindered)) for one in requests}
        made |= {one.query: decision for one, decision in zip(free, decided, strict=True)}
        self.decisions |= made
        return [made[one.query].chosen is HolisticWay.SELECTION for one in requests]

    def keep(self, queries: Collection[str]) -> None:
        """Forget the decisions about all other queries."""
        self.decisions = {query: made for query, made in self.decisions.items() if query in queries}
