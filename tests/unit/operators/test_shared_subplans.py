"""Plans with the same sub-plan: the second takes from the first what it would have made itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.continuous import INT, KERNEL, STRING, Builder, batches_of, inputs_of, plan_of, rows_of, run, stored
from support.plan_builder import COLUMNS, Maker, join, plans, streams, tree

from windrow.operators.advance import advance
from windrow.operators.changes import in_order
from windrow.operators.layouts.parts import StatePart
from windrow.operators.sharing.subplans import CompactedOnce, SharedSubPlans, SubPlan
from windrow.operators.state import PlanState, has_internal, restore
from windrow.operators.ticks import DueTicks
from windrow.optimizer.common_subplan import numbered_in_order, sharable_subplans
from windrow.plan.algebra.invariants import check
from windrow.plan.algebra.nodes import Computed, ContinuousPlan, Distinct, Join, PlanColumn, Project, walk
from windrow.plan.algebra.rewriting import reference

HAPPENINGS = st.sampled_from(["", "restart", "merge"])

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
        SubPlan(".".join(map(str, (0, *one.place))), (one.key, has_internal(plan)), frozenset(one.windows))
        for one in found
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
        read = {i: rows for i, rows in inputs_of(self.plan, tables, due).items() if i not in taken.windows}
        paths = [one.path for one in asked]
        done = advance(self.plan, self.state, read, due, KERNEL, given=taken.edges, asked=paths)
        after, parts = taken.added_to(done.state, done.parts)
        shared.add(number, asked, self.state, after, parts, done.edges)
        self.state, self.took = after, self.took + len(taken.every)
        self.parts += parts
        self.changes.append(in_order([done.changes]))


@settings(max_examples=25, **ANY)
@given(plans(), streams(), st.lists(HAPPENINGS, min_size=4, max_size=4))
def test_changes_are_those_of_plans_alone(plan: Any, rows: Any, happens: list[str]) -> None:
    pair = [Query(numbered_in_order(one)) for one in (plan, above(plan))]
    in_turn(pair, rows, happens)
    assert pair[0].took == 0
    assert pair[1].took == (4 if sharable_subplans(plan) else 0)


def history_of(plan: ContinuousPlan, rows: Any) -> list[Any]:
    return [[(t, tuple(row[name] for name in COLUMNS)) for t, row in rows[w.stream]] for w in plan.windows]


def in_turn(pair: list[Query], rows: Any, happens: list[str]) -> None:
    """Run plans together, and compare each with itself alone."""
    step = pair[0].plan.step
    ticks = [-step, *(step * n for n in (2, 3, 6, 20))]
    tables = [stored(one.plan, history_of(one.plan, rows)) for one in pair]
    for due, happening in zip(batches_of(ticks, step), happens, strict=True):
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
        alone = run(query.plan, history_of(query.plan, rows), ticks)
        assert [rows_of(one) for one in query.changes] == [rows_of(one) for one in alone.changes]


def beside(plan: ContinuousPlan, *streams: str) -> ContinuousPlan:
    """A query that joins windows with the plan, which is its last input."""
    first = 1 + max(column.id for node in walk(plan.root) for column in node.schema)
    maker = Maker(first)
    windows = tuple(maker.window(stream, 4) for stream in streams)
    return replace(plan, root=Join((*windows, plan.root), (), tree(f"{windows[0].schema[0].sql} = 1")))


@settings(max_examples=25, **ANY)
@given(plans().filter(lambda one: not has_internal(one)), streams(), st.lists(HAPPENINGS, min_size=4, max_size=4))
def test_subplans_beside_the_first_input(plan: Any, rows: Any, happens: list[str]) -> None:
    """The plans that join it have other windows before it, and other numbers of columns."""
    pair = [Query(numbered_in_order(one)) for one in (beside(plan, "s"), beside(plan, "r", "q"))]
    in_turn(pair, rows, happens)
    keeps = [one for one in sharable_subplans(plan) if one.key]
    assert pair[0].took == 0
    assert pair[1].took >= (4 if keeps else 0)


def test_subplans_of_both_inputs_are_taken() -> None:
    m = Maker()
    below = [Distinct(m.project(m.window(stream), k="k")) for stream in "sr"]
    one, other = (replace(plan_of(join(*inputs)), step=1) for inputs in (below, (m.window("q"), *below)))
    found = [sharable_subplans(numbered_in_order(plan)) for plan in (one, other)]
    assert [subplan.place for subplan in found[0]] == [(), (0,), (1,)]
    assert [subplan.place for subplan in found[1]] == [(), (1,), (2,)]
    assert found[0][2].key == found[1][2].key
    assert found[0][1].key != found[1][1].key  # the first input of a plan is numbered from 0
    assert [subplan.windows for subplan in found[1][1:]] == [range(1, 2), range(2, 3)]


def test_a_subplan_twice_in_a_plan_has_two_numbers() -> None:
    m = Maker()
    below = [Distinct(m.project(m.window("s"), k="k")) for _ in range(2)]
    plan = numbered_in_order(plan_of(join(m.window("q"), *below)))
    check(plan)
    keys = [one.key for one in sharable_subplans(plan)]
    assert len(set(keys)) == 3
    alone = numbered_in_order(plan_of(join(m.window("r"), below[1])))
    assert sharable_subplans(alone)[1].key == keys[1]


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
        assert bool(shared.find(mine, other).every) is is_taken


def test_state_of_a_join_beside_a_subplan_is_not_its_own() -> None:
    one = SubPlan("0.0", "key", frozenset())
    assert [path for path in ("0", "0.0", "0.0/cells", "0.0.1/old", "0.0/old", "0.01", "out") if one.has(path)] == [
        "0.0",
        "0.0/cells",
        "0.0.1/old",
    ]
