"""Plans with the same sub-plan: the second takes from the first what it would have made itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.continuous import INT, KERNEL, STRING, Builder, batches_of, inputs_of, plan_of, rows_of, run, stored
from support.plan_builder import COLUMNS, plans, streams

from windrow.operators.advance import advance
from windrow.operators.changes import in_order
from windrow.operators.layouts.parts import StatePart
from windrow.operators.sharing.subplans import CompactedOnce, SharedSubPlans, SubPlan
from windrow.operators.state import PlanState, has_internal, restore
from windrow.operators.ticks import DueTicks
from windrow.optimizer.common_subplan import numbered_in_order, sharable_subplans
from windrow.plan.algebra.invariants import check
from windrow.plan.algebra.nodes import Computed, ContinuousPlan, Distinct, PlanColumn, Project, walk
from windrow.plan.algebra.rewriting import reference

ANY: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def above(plan: ContinuousPlan) -> ContinuousPlan:
    """Another query over the plan's: a projection with names and ids of its own."""
    first = 1 + max(column.id for node in walk(plan.root) for column in node.schema)
    columns = tuple(
        Computed(PlanColumn(first + i, f"own{i}", column.type), reference(column))
        for i, column in enumerate(plan.root.schema)
    )
    return replace(plan, root=Project(plan.root, columns))


def subplans(plan: ContinuousPlan) -> list[SubPlan]:
    found = sharable_subplans(plan)
    return [
        SubPlan("0" + ".0" * one.depth, (one.key, has_internal(plan)), frozenset(range(one.windows))) for one in found
    ]


@dataclass
class Query:
    """A plan as it runs beside others."""

    plan: ContinuousPlan
    state: PlanState = field(default_factory=PlanState)
    parts: list[StatePart] = field(default_factory=list)
    changes: list[pa.Table] = field(default_factory=list)
    took: int = 0

    def batch(self, number: int, tables: list[pa.Table], due: DueTicks, shared: SharedSubPlans) -> None:
        mine = subplans(self.plan)
        taken, asked = shared.find(mine, self.state), shared.wanted(mine)
        edges = {} if taken is None else {taken.subplan.path: taken.result.edge}
        below = frozenset() if taken is None else taken.subplan.windows
        read = {i: rows for i, rows in inputs_of(self.plan, tables, due).items() if i not in below}
        paths = [one.path for one in asked]
        done = advance(self.plan, self.state, read, due, KERNEL, given=edges, asked=paths)
        after, parts = (done.state, done.parts) if taken is None else taken.added_to(done.state, done.parts)
        shared.add(number, asked, self.state, after, parts, done.edges)
        self.state, self.took = after, self.took + (taken is not None)
        self.parts += parts
        self.changes.append(in_order([done.changes]))


@settings(max_examples=25, **ANY)
@given(plans(), streams(), st.lists(st.sampled_from(["", "restart", "merge"]), min_size=4, max_size=4))
def test_changes_are_those_of_plans_alone(plan: Any, rows: Any, happens: list[str]) -> None:
    history = [[(t, tuple(row[name] for name in COLUMNS)) for t, row in rows[w.stream]] for w in plan.windows]
    ticks = [-plan.step, *(plan.step * n for n in (2, 3, 6, 20))]
    pair = [Query(numbered_in_order(one)) for one in (plan, above(plan))]
    tables = [stored(one.plan, history) for one in pair]
    for due, happening in zip(batches_of(ticks, plan.step), happens, strict=True):
        shared = SharedSubPlans.of([subplans(one.plan) for one in pair], due.before, happening == "merge")
        for number, query in enumerate(pair):
            query.batch(number, tables[number], due, shared)
        once = CompactedOnce()
        for query in pair:
            if happening == "merge":
                query.parts = once.parts(query.state)
            if happening == "restart":
                kept = [part for part in query.parts if not part.is_expired(due.upto)]
                query.state = restore(query.plan, kept, due.upto)
    for query in pair:
        alone = run(query.plan, history, ticks)
        assert [rows_of(one) for one in query.changes] == [rows_of(one) for one in alone.changes]
    assert pair[0].took == 0
    assert pair[1].took == (len(ticks) - 1 if sharable_subplans(plan) else 0)


@settings(max_examples=25, **ANY)
@given(plans(), streams())
def test_numbers_of_columns_change_nothing(plan: Any, rows: Any) -> None:
    history = [[(t, tuple(row[name] for name in COLUMNS)) for t, row in rows[w.stream]] for w in plan.windows]
    ticks = [-plan.step, plan.step * 3, plan.step * 20]
    other = numbered_in_order(plan)
    check(other)
    assert numbered_in_order(other) == other
    assert [column.name for column in other.schema] == [column.name for column in plan.schema]
    found, expected = run(other, history, ticks), run(plan, history, ticks)
    assert [rows_of(one) for one in found.changes] == [rows_of(one) for one in expected.changes]


def test_state_that_differs_is_not_taken() -> None:
    b = Builder()
    plan = plan_of(Distinct(b.window(10, {"k": STRING, "x": INT})))
    early, late = [(1, ("a", 1)), (5, ("a", 1))], [(5, ("a", 1))]
    states = [run(plan, [some], [0, 8]).state for some in (early, late)]
    mine = subplans(plan)
    for other, is_taken in ((states[0], True), (states[1], False)):
        shared = SharedSubPlans.of([mine, mine], 8, True)
        due = DueTicks(8, 9, 1)
        done = advance(plan, states[0], {}, due, KERNEL, asked=["0"])
        shared.add(0, mine, states[0], done.state, done.parts, done.edges)
        assert (shared.find(mine, other) is not None) is is_taken


def test_state_of_a_join_beside_a_subplan_is_not_its_own() -> None:
    one = SubPlan("0.0", "key", frozenset())
    assert [path for path in ("0", "0.0", "0.0/cells", "0.0.1/old", "0.0/old", "0.01", "out") if one.has(path)] == [
        "0.0",
        "0.0/cells",
        "0.0.1/old",
    ]
