"""RESTORE and windows on results: worked examples (Golab's dissertation, sections 3.3.3 and 3.3.4)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.continuous import BIGINT, INT, STRING, Builder, counted, plan_of, replayed, rows_of, run

from windrow.operators.stages.cutting import is_at_instants, staged
from windrow.optimizer.common_subplan import sharable_subplans
from windrow.plan.algebra.nodes import Distinct, Lifetime, Node, OutputRows, OutputWindow, Streaming, ToStream
from windrow.reference.window_operators import WindowOperators

V = {"v": STRING}
ISTREAM, DSTREAM, RSTREAM = Streaming


def changes(node: Node, history: Any, ticks: list[int], step: int = 10) -> list[Any]:
    return [row[1:] for row in rows_of(run(plan_of(node, step), history, ticks).all_changes)]


def figure_3_4(b: Builder) -> tuple[Node, Any]:
    """t1 lives [5, 15), t2 [12, 22), t3 [13, 16); the query is evaluated at 10 and 20."""
    joined = b.join(b.window(10, V), b.window(18, V), on=["v"])
    named = b.project(joined, v=(joined.schema[0].sql, STRING))
    return named, [[(5, ("t1",)), (12, ("t2",)), (6, ("t3",))], [(-3, ("t1",)), (12, ("t2",)), (13, ("t3",))]]


def test_figure_3_4():
    b = Builder()
    node, history = figure_3_4(b)
    seen = changes(ToStream(node, ISTREAM), history, [-10, 30])
    assert seen == [(10, 9, None, "t1"), (20, 19, None, "t2")]
    every = changes(ToStream(node, ISTREAM, restores=True), history, [-10, 30])
    assert every == [(10, 5, None, "t1"), (20, 12, None, "t2"), (20, 13, None, "t3")]
    whole = changes(ToStream(node, RSTREAM, restores=True), history, [-10, 10, 30])
    assert whole == [(10, 9, None, "t1"), (20, 19, None, "t2"), (20, 19, None, "t3")]


EQUAL = [
    ([(-1, 98), (1, 6)], 2),  # one stays, another comes and goes
    ([(-1, 2), (1, 6)], 1),  # the one that was there goes, another comes and goes
    ([(-1, 2), (4, 98)], 1),  # gone, and there again
    ([(-1, 6), (1, 98)], 2),  # as values, the same as the first
    ([(-1, 98)], 1),
    ([(-1, 2)], 0),
    ([(1, 2), (3, 4), (5, 6)], 3),
]


@pytest.mark.parametrize("lives, reported", EQUAL)
def test_rstream_restore_of_equal_rows(lives: list[tuple[int, int]], reported: int) -> None:
    """How many of the rows that live [ts, exp) the tick 8 reports, after the tick 0."""
    b = Builder()
    windows = [b.window(exp - ts, V) for ts, exp in lives]
    node = b.union(*windows) if len(windows) > 1 else windows[0]
    history = [[(ts, ("a",))] for ts, _ in lives]
    found = changes(ToStream(node, RSTREAM, restores=True), history, [-8, 0, 8], step=8)
    assert [row[:3] for row in found if row[0] == 8] == [(8, 7, None)] * reported


def test_every_value_of_an_aggregate():
    b = Builder()
    count = b.group_by(b.window(3, V), [], ("COUNT", None))
    history = [[(1, ("a",)), (2, ("a",)), (7, ("a",))]]
    found = changes(ToStream(count, ISTREAM, restores=True), history, [0, 10])
    assert found == [(10, ts, None, n) for ts, n in ((0, 0), (1, 1), (2, 2), (4, 1), (5, 0), (7, 1))]


def test_a_stream_decides_for_what_is_below_it():
    """ISTREAM below RESTORE is of ticks; RESTORE below ISTREAM of instants."""
    b = Builder()
    node, history = figure_3_4(b)
    inner = OutputWindow(ToStream(node, ISTREAM), Lifetime(4))
    found = changes(ToStream(inner, ISTREAM, restores=True), history, [-10, 30])
    assert found == [(10, 9, None, "t1"), (20, 19, None, "t2")]
    inner = OutputWindow(ToStream(node, ISTREAM, restores=True), Lifetime(7))
    found = changes(ToStream(inner, ISTREAM), history, [-10, 30])
    assert found == [(10, 9, None, "t1"), (20, 19, None, "t3")]


def test_last_results():
    b = Builder()
    rows = [(1, ("a",)), (2, ("c",)), (2, ("b",)), (2, (None,)), (3, ("a",))]
    found = [
        (op, *rest)
        for op, *rest in rows_of(run(plan_of(OutputRows(b.window(None, V), 2)), [rows], [0, 2, 9]).all_changes)
    ]
    assert found == [
        ("+", 2, 1, None, "a"),
        ("-", 3, 2, None, "a"),
        ("+", 3, 2, None, "b"),
        ("+", 3, 2, None, "c"),
        ("-", 4, 3, None, "b"),
        ("+", 4, 3, None, "a"),
    ]


def test_last_results_keep_no_more():
    b = Builder()
    history = [[(i, (i,)) for i in range(100)]]
    made = run(plan_of(OutputRows(b.window(None, {"x": INT}), 3), 10), history, range(0, 101, 10))
    assert made.state.sizes["0"][0] == 3
    assert replayed(made.all_changes, 100) == Counter([(97,), (98,), (99,)])


def test_instants_far_apart():
    """A batch of many points costs by what happens in them."""
    b = Builder()
    far = 10**15
    node = Distinct(b.project(b.window(5, {"k": INT}), k=("$.k", INT)))
    found = changes(
        ToStream(node, ISTREAM, restores=True), [[(3, (1,)), (far + 3, (1,))]], [0, far + 10**6], step=10**6
    )
    assert found == [(10**6, 3, None, 1), (far + 10**6, far + 3, None, 1)]
    count = b.group_by(b.window(5, {"k": INT}), ["k"], ("COUNT", None))
    made = changes(
        ToStream(count, ISTREAM, restores=True), [[(3, (1,)), (far + 3, (1,))]], [0, far + 10**6], step=10**6
    )
    assert [row[1] for row in made] == [3, far + 3]


def test_stages_know_their_grid():
    b = Builder()
    joined = b.join(b.window(5, V), b.window(5, V), on=["v"])
    groups = b.group_by(b.project(joined, v=(joined.schema[0].sql, STRING)), [], ("COUNT", None))
    root = ToStream(OutputWindow(ToStream(groups, ISTREAM, restores=True), Lifetime(9)), ISTREAM)
    assert [is_at_instants(root, path) for path in ("0", "0.0", "0.0.0", "0.0.0.0")] == [False, False, False, True]
    stages = {stage.path: stage.at_instants for stage in staged(plan_of(root, 10)).stages}
    assert any(stages.values()) and not stages["0"]


def test_sub_plans_at_instants_are_others():
    b = Builder()
    count = b.group_by(b.window(5, {"k": BIGINT}), ["k"], ("COUNT", None))
    plain, restored = (sharable_subplans(plan_of(ToStream(count, ISTREAM, restores=how))) for how in (False, True))
    assert not {one.key for one in plain} & {one.key for one in restored}


def test_dstream_does_not_restore():
    with pytest.raises(ValueError, match="DSTREAM"):
        ToStream(Builder().window(3, V), DSTREAM, restores=True)


def test_reference_of_restore():
    """The plain version agrees with the example by hand."""
    b = Builder()
    node, history = figure_3_4(b)
    plan = plan_of(ToStream(node, RSTREAM, restores=True), 10)
    naive = WindowOperators(plan, history, 0)
    assert counted(naive.answer(20)) == Counter([("t1",), ("t2",), ("t3",)])
