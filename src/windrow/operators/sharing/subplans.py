"""Sub-plans that plans of one batch have in common run once: the first plan that has one processes it, and the others
take its output and its state.

    same node, same tuples, same state before  ⇒  same output, same state after

since an operator is a pure function. Every plan keeps the state of its own: it refers to the same tables as the others,
and so do its durable parts, so each of them can go on alone at any time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from windrow.operators.layouts.parts import StatePart
from windrow.operators.layouts.steps import StateTable
from windrow.operators.sharing.same_state import is_same
from windrow.operators.state import PlanState, relaid
from windrow.operators.tables.edges import Edge
from windrow.plan.algebra.nodes import ContinuousPlan

SMALL_STATE_ROWS = 1_000
"""State of at most so many rows is compared at every batch."""

T = TypeVar("T")


@dataclass(frozen=True)
class SubPlan:
    """A sub-plan that a plan may share in a batch: its path, what it is and what it reads (`key`: equal for those that
    are the same), and the numbers of its windows."""

    path: str
    key: Hashable
    windows: frozenset[int]

    def mine(self, tables: Mapping[str, T]) -> dict[str, T]:
        """Those of a plan's tables that are the sub-plan's, by path within it."""
        return {path[len(self.path) :]: table for path, table in tables.items() if self.has(path)}

    def has(self, path: str) -> bool:
        """Whether the state at a path is the sub-plan's. That of a join beside it is not."""
        rest = path[len(self.path) :] if path.startswith(self.path) else "?"
        return rest == "" or rest[0] == "." or (rest[0] == "/" and rest != "/old")


@dataclass(frozen=True)
class SubPlanResult:
    """What a sub-plan gave in a batch, by whom and at which path; the paths of its state are within it."""

    by: int
    path: str
    edge: Edge
    before: Mapping[str, StateTable]
    after: Mapping[str, StateTable]
    parts: tuple[StatePart, ...]


@dataclass(frozen=True)
class TakenSubPlan:
    """A sub-plan that a plan takes from another."""

    subplan: SubPlan
    result: SubPlanResult

    def added_to(self, state: PlanState, parts: tuple[StatePart, ...]) -> tuple[PlanState, tuple[StatePart, ...]]:
        """A plan's state with the sub-plan's, and what must be durable of both."""
        at, result = self.subplan.path, self.result
        own = {path: table for path, table in state.tables.items() if not self.subplan.has(path)}
        taken = {at + path: table for path, table in result.after.items()}
        more = tuple(replace(part, path=at + part.path) for part in result.parts)
        return replace(state, tables={**own, **taken}), (*parts, *more)


@dataclass(frozen=True)
class TakenSubPlans:
    """The sub-plans that a plan takes from others in a batch; none is in another."""

    every: tuple[TakenSubPlan, ...] = ()

    @property
    def edges(self) -> dict[str, Edge]:
        return {one.subplan.path: one.result.edge for one in self.every}

    @property
    def windows(self) -> frozenset[int]:
        return frozenset(i for one in self.every for i in one.subplan.windows)

    def added_to(self, state: PlanState, parts: tuple[StatePart, ...]) -> tuple[PlanState, tuple[StatePart, ...]]:
        """A plan's state with that of the sub-plans, and what must be durable of all."""
        for one in self.every:
            state, parts = one.added_to(state, parts)
        return state, parts

    def sources(self) -> list[tuple[str, int, str]]:
        """Of each its path, by whom it was processed, and its path there."""
        return [(one.subplan.path, one.result.by, one.result.path) for one in self.every]


@dataclass
class SharedSubPlans:
    """The results of sub-plans in one batch that more than one plan has. `comparing`: state that is not the same object
    is compared, however large it is."""

    counts: Mapping[Hashable, int]
    ticked: int
    comparing: bool
    results: dict[Hashable, list[SubPlanResult]] = field(default_factory=dict)

    @classmethod
    def of(cls, plans: Iterable[Sequence[SubPlan]], ticked: int, comparing: bool) -> SharedSubPlans:
        return cls(Counter(one.key for mine in plans for one in mine), ticked, comparing)

    def wanted(self, subplans: Sequence[SubPlan]) -> list[SubPlan]:
        """Those that another plan has, too."""
        return [one for one in subplans if self.counts[one.key] > 1]

    def find(self, subplans: Sequence[SubPlan], state: PlanState) -> TakenSubPlans:
        """The sub-plans that were processed from the same state, without those that are in others. `subplans`: each
        comes before those that are in it."""
        found = list[TakenSubPlan]()
        for one in subplans:
            if not any(other.subplan.has(one.path) for other in found):
                results = self.results.get(one.key, ())
                same = next((r for r in results if self._is_same(one.mine(state.tables), r.before)), None)
                found += [] if same is None else [TakenSubPlan(one, same)]
        return TakenSubPlans(tuple(found))

    def _is_same(self, mine: Mapping[str, StateTable], theirs: Mapping[str, StateTable]) -> bool:
        is_small = sum(table.count for table in mine.values()) <= SMALL_STATE_ROWS
        paths, comparing = {*mine, *theirs}, self.comparing or is_small
        return all(is_same(mine.get(path), theirs.get(path), self.ticked, comparing) for path in paths)

    def add(
        self,
        by: int,
        subplans: Sequence[SubPlan],
        before: PlanState,
        after: PlanState,
        parts: Sequence[StatePart],
        edges: Mapping[str, Edge],
    ) -> None:
        """Keep what a plan's sub-plans gave, for those that follow."""
        for one in subplans:
            if one.path in edges:
                made = tuple(replace(p, path=p.path[len(one.path) :]) for p in parts if one.has(p.path))
                tables = (one.mine(before.tables), one.mine(after.tables))
                self.results.setdefault(one.key, []).append(SubPlanResult(by, one.path, edges[one.path], *tables, made))


class CompactedOnce:
    """State as parts that replace all earlier ones; a table that several plans have gives the same parts to all."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[StateTable, list[StatePart]]] = {}
        self._relaid: dict[int, tuple[StateTable, StateTable]] = {}

    def relaid(self, plan: ContinuousPlan, state: PlanState) -> PlanState:
        """The state with its tables in the layouts that suit what leaves them. Its parts must be written anew."""
        if state.ticked is None:
            return state
        for path, table in state.tables.items():
            if id(table) not in self._relaid:
                self._relaid[id(table)] = (table, relaid(plan, path, table, state.ticked))
        return replace(state, tables={path: self._relaid[id(table)][1] for path, table in state.tables.items()})

    def parts(self, state: PlanState) -> list[StatePart]:
        if state.ticked is None:
            return []
        found = list[StatePart]()
        for path, table in state.tables.items():
            if id(table) not in self._made:
                self._made[id(table)] = (table, table.parts(path, state.ticked))
            found += [replace(part, path=path) for part in self._made[id(table)][1]]
        return found
