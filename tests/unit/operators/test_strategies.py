"""Whole plans run one way: what they keep, what they send, what they refuse, and that answers stay the same."""

from __future__ import annotations

from typing import Any

import pytest
from support.continuous import INT, STRING, Builder, counted, plan_of, replayed, rows_of, run

from windrow.errors import UnsupportedError
from windrow.operators.layouts.parts import Layout
from windrow.operators.scan import needs_history
from windrow.operators.state import has_ends, is_strict
from windrow.operators.tables.metering import PlanMeter
from windrow.optimizer.execution import DIRECT, NEGATIVE, UPA, executed, execution_of
from windrow.plan.algebra.nodes import Distinct, Node, Streaming, ToStream, WindowExpiry, walk
from windrow.reference.window_operators import WindowOperators

KX = {"k": STRING, "x": INT}
HISTORY = [[(i, (f"k{i % 3}", i % 2)) for i in range(20)], [(i, (f"k{i % 2}", i % 3)) for i in range(0, 20, 2)]]


def one_of_each(name: str) -> tuple[Node, list[Any]]:
    b = Builder()
    one, other = b.window(6, KX), b.window(9, KX)
    if name == "join":
        return b.join(b.filter(one, "$.x = 0"), other, on=["k"]), HISTORY
    if name == "distinct":
        return Distinct(one), HISTORY[:1]
    if name == "distinct join":
        return b.join(Distinct(one), Distinct(other), on=["k"]), HISTORY
    if name == "stream":
        return ToStream(one, Streaming.DSTREAM), HISTORY[:1]
    return b.union(one, other), HISTORY


NAMES = ["join", "distinct", "distinct join", "stream", "union"]


@pytest.mark.parametrize("execution", [NEGATIVE, DIRECT])
@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_every_tick(name: str, execution: str) -> None:
    root, history = one_of_each(name)
    plan = plan_of(root)
    naive, ran = WindowOperators(plan, history, 1), executed(plan, execution)
    assert execution_of(ran) == execution and execution_of(plan) == UPA
    for ends in ([0, 40], [0, 3, 7, 8, 15, 40], list(range(41))):
        made = run(ran, history, ends, restart=lambda tick: "parts" if tick % 2 else "compacted")
        for tick in range(1, 41):
            assert replayed(made.all_changes, tick) == counted(naive.answer(tick)), (ends, tick)
        assert made.state.nbytes == 0


RESTORED = {
    "pairs": (lambda b, one, other: b.join(one, other, on=["k"]), HISTORY, (NEGATIVE, DIRECT)),
    "values": (lambda b, one, other: Distinct(one), HISTORY[:1], (NEGATIVE, DIRECT)),
    "filtered union": (lambda b, one, other: b.filter(b.union(one, other), "$.x = 0"), HISTORY, (NEGATIVE, DIRECT)),
    "counts": (lambda b, one, other: b.group_by(other, ["k"], ("COUNT", None)), HISTORY[:1], (NEGATIVE,)),
    "negation": (lambda b, one, other: b.semi_join(one, other, ["k"], is_anti=True), HISTORY, (NEGATIVE,)),
    "outer": (lambda b, one, other: b.outer_join(one, other, ["k"], keeps_left=True), HISTORY, (NEGATIVE,)),
}


@pytest.mark.parametrize("kind", [Streaming.ISTREAM, Streaming.RSTREAM])
@pytest.mark.parametrize("name", RESTORED)
def test_restore_reports_the_same_by_every_strategy(name: str, kind: Streaming) -> None:
    """The windows are shorter than two ticks, so that much comes and goes between them."""
    make, history, strategies = RESTORED[name]
    b = Builder()
    plan = plan_of(ToStream(make(b, b.window(3, KX), b.window(7, KX)), kind, restores=True), 5)
    naive = WindowOperators(plan, history, 5)
    plain = WindowOperators(plan_of(ToStream(plan.root.input, kind), 5), history, 5)
    assert counted(naive.answer(40)) != counted(plain.answer(40)), "some of it no tick sees"
    for execution in strategies:
        ran = executed(plan, execution)
        assert execution_of(ran) == execution
        for ends in ([0, 40], list(range(0, 41, 5))):
            made = run(ran, history, ends, restart=lambda tick: "parts" if tick % 2 else "compacted")
            for tick in range(5, 41, 5):
                assert replayed(made.all_changes, tick) == counted(naive.answer(tick)), (execution, ends, tick)
            assert made.state.nbytes == 0


def test_negative_tuples_are_sent_for_every_row_that_expires() -> None:
    plan = executed(plan_of(one_of_each("join")[0]), NEGATIVE)
    meter = PlanMeter()
    made = run(plan, HISTORY, [0, 12, 40], meter=meter)
    windows = [path for path, node in _paths(plan.root) if isinstance(node, WindowExpiry)]
    assert [meter.of(path).rows for path in windows] == [40, 20]  # each row comes and goes
    assert not needs_history(plan)[0] and not needs_history(plan)[1]
    ops = [row[0] for row in rows_of(made.all_changes)]
    assert ops.count("+") == ops.count("-") > 0 and all(row[3] is None for row in rows_of(made.all_changes))


def test_state_of_negative_plans_is_by_key() -> None:
    plan = executed(plan_of(one_of_each("distinct join")[0]), NEGATIVE)
    assert all(is_strict(node) and not has_ends(node) for node in walk(plan.root) if node.inputs)
    made = run(plan, HISTORY, [0, 12])
    layouts = {path: table.layout for path, table in made.state.tables.items()}
    windows = {path for path, node in _paths(plan.root) if isinstance(node, WindowExpiry)}
    assert layouts == {path: Layout.CALENDAR if path in windows else Layout.KEYED for path in layouts}
    assert windows < set(layouts)


def test_state_of_direct_plans_is_lists() -> None:
    plan = executed(plan_of(one_of_each("distinct join")[0]), DIRECT)
    made = run(plan, HISTORY, [0, 12])
    assert {table.layout for table in made.state.tables.values()} == {Layout.LIST}
    assert made.state.tables["0.0/came"].count == 6  # the whole window
    assert made.state.tables["0.0"].count == 3 * 2  # and the values shown
    assert {row[0] for row in rows_of(made.all_changes)} == {"+"}


def test_a_list_is_scanned_and_keeps_its_order() -> None:
    b = Builder()
    plan = executed(plan_of(b.join(b.window(6, {"k": INT}), b.window(2, {"k": INT}), on=["k"])), DIRECT)
    history = [[(t, (t % 2,)) for t in range(6)], [(t, (t % 2,)) for t in range(6)]]
    made = run(plan, history, [0, 3, 5])
    left, right = (made.state.tables[path] for path in ("0.0/old", "0.1/old"))
    assert [row[0] for row in rows_of(left.rows(5, None))] == [0, 1, 2, 3, 4]
    assert [row[0] for row in rows_of(right.rows(5, None))] == [4]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda b: b.group_by(b.window(5, KX), ["k"], ("COUNT", None)), "a group's row is replaced"),
        (lambda b: b.semi_join(b.window(5, KX), b.window(5, KX), ["k"], is_anti=True), "a matching row comes"),
        (lambda b: b.rows_window(3, KX), "a tuple leaves a count-based window"),
        (lambda b: b.top(b.window(5, KX), "$.x", 2), "a row leaves the first rows"),
    ],
)
def test_direct_is_refused_where_rows_may_be_withdrawn(make: Any, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=f"execution = 'direct' .*{reason}") as found:
        executed(plan_of(make(Builder())), DIRECT)
    assert found.value.code == "WR290" and "SET execution = 'upa'" in (found.value.remedy or "")


def test_negative_is_refused_over_internal_windows() -> None:
    with pytest.raises(UnsupportedError, match="results over an INTERNAL window stay"):
        executed(plan_of(Builder().window(5, KX, internal=True)), NEGATIVE)


def _paths(node: Node, path: str = "0") -> list[tuple[str, Node]]:
    return [(path, node), *(pair for i, one in enumerate(node.inputs) for pair in _paths(one, f"{path}.{i}"))]
