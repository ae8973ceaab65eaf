"""Operators over input that withdraws rows: small stories whose changes are worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from support.continuous import DOUBLE, INT, STRING, Builder, plan_of, rows_of, run

from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.keyed import Keyed
from windrow.operators.state import empty_tables
from windrow.plan.algebra.nodes import ContinuousPlan, Distinct, Lifetime, Node, OutputWindow, Streaming, ToStream

KX = {"k": STRING, "x": INT}


def changes(node: Node, history: list[Any], ticks: list[int], step: int = 1, **how: Any) -> list[tuple[Any, ...]]:
    return rows_of(run(plan_of(node, step), history, ticks, **how).all_changes)


def of_most(b: Builder, range_: int = 4) -> Node:
    """The greatest x by k."""
    made = b.group_by(b.window(range_, KX), ["k"], ("MAX", "x"))
    return b.project(made, k=("$.k", STRING), x=("$.MAX_x", INT))


@pytest.mark.parametrize("ticks", [[0, 20], list(range(21)), [0, 3, 4, 7, 20]])
def test_a_join_result_is_withdrawn_with_its_part(ticks: list[int]) -> None:
    b = Builder()
    node = b.join(b.window(6, {"k": STRING}), of_most(b), on=["k"])
    # The tuple of the first window is there at ticks 3 to 8; the maximum is 1 at ticks 2 to 3 and 5 at ticks 4 to 7.
    assert changes(node, [[(2, ("p",))], [(1, ("p", 1)), (3, ("p", 5))]], ticks) == [
        ("+", 3, 2, 8, "p", "p", 1),
        ("-", 4, 3, 8, "p", "p", 1),
        ("+", 4, 3, 8, "p", "p", 5),
        ("-", 8, 7, 8, "p", "p", 5),
    ]


def test_a_result_that_ends_with_its_part_needs_no_withdrawal() -> None:
    b = Builder()
    node = b.join(b.window(2, {"k": STRING}), of_most(b, 2), on=["k"])
    # Both tuples leave at the same tick: the group is withdrawn, but the result reaches its exp.
    assert changes(node, [[(1, ("p",))], [(1, ("p", 1))]], [0, 20]) == [("+", 2, 1, 3, "p", "p", 1)]


def test_what_cancels_is_not_shown() -> None:
    b = Builder()
    joined = b.join(b.window(6, {"k": STRING}), of_most(b), on=["k"])
    node = b.project(joined, k=(joined.schema[0].sql, STRING))
    assert changes(node, [[(2, ("p",))], [(1, ("p", 1)), (3, ("p", 5))]], [0, 20]) == [
        ("+", 3, 2, 8, "p"),
        ("-", 8, 7, 8, "p"),
    ]


def test_equal_rows_are_counted_in_a_join() -> None:
    b = Builder()
    top = b.top(b.window(4, KX), "$.x", 2)
    node = b.join(top, b.window(9, {"x": INT}), on=["x"])
    history = [[(0, ("p", 1)), (0, ("p", 1)), (1, ("p", 0))], [(0, (1,))]]
    # The first two rows by x: twice 1 at tick 1, 0 and 1 from tick 2 on, until all are gone at tick 6.
    assert changes(node, history, [0, 20]) == [
        ("+", 1, 0, 9, "p", 1, 1),
        ("+", 1, 0, 9, "p", 1, 1),
        ("-", 2, 1, 9, "p", 1, 1),
        ("-", 5, 4, 9, "p", 1, 1),
    ]


def test_explicit_expiry_over_strict_input() -> None:
    b = Builder()
    node = b.join(b.window(4, {"k": STRING}), of_most(b, 9), on=["k"])
    history = [[(1, ("p",)), (4, ("p",))], [(0, ("p", 1)), (5, ("p", 7))]]
    assert changes(node, history, [0, 4, 6, 20], explicit_expiry=True) == [
        ("+", 2, 1, 5, "p", "p", 1),
        ("+", 5, 4, 8, "p", "p", 1),
        ("-", 6, 5, 5, "p", "p", 1),  # by its end
        ("-", 6, 5, 8, "p", "p", 1),  # withdrawn
        ("+", 6, 5, 8, "p", "p", 7),
        ("-", 9, 8, 8, "p", "p", 7),
    ]


def test_distinct_counts_over_strict_input() -> None:
    b = Builder()
    node = Distinct(b.project(of_most(b), x=("$.x", INT)))
    history = [[(1, ("p", 1)), (2, ("q", 1)), (3, ("p", 5))]]
    # 1 of p at ticks 2 to 3, 5 of p at 4 to 7, 1 of q at 3 to 6.
    assert changes(node, history, [0, 20]) == [
        ("+", 2, 1, None, 1),
        ("+", 4, 3, None, 5),
        ("-", 7, 6, None, 1),
        ("-", 8, 7, None, 5),
    ]


def test_groups_of_a_join_that_is_withdrawn() -> None:
    """Sums take away what is withdrawn, extremes and medians are computed from what is alive."""
    b = Builder()
    joined = b.join(b.window(6, {"k": STRING, "y": INT}), of_most(b), on=["k"])
    node = b.group_by(joined, [], ("SUM", "y"), ("MAX", "x"), ("MEDIAN", "x"))
    history = [[(2, ("p", 10)), (3, ("p", 20))], [(1, ("p", 1)), (3, ("p", 5))]]
    assert changes(node, history, [0, 6, 20]) == [
        ("+", 1, 0, None, None, None, None),
        ("-", 3, 2, None, None, None, None),
        ("+", 3, 2, None, 10, 1, 1.0),
        ("-", 4, 3, None, 10, 1, 1.0),
        ("+", 4, 3, None, 30, 5, 5.0),
        ("-", 8, 7, None, 30, 5, 5.0),
        ("+", 8, 7, None, None, None, None),
    ]


def test_streams_of_a_join_that_is_withdrawn() -> None:
    b = Builder()
    node = b.join(b.window(3, {"k": STRING}), of_most(b, 9), on=["k"])
    history = [[(1, ("p",)), (4, ("p",))], [(0, ("p", 1)), (5, ("p", 7))]]
    # The first tuple goes by its end at tick 5, when the second one comes: the value stays.
    shown = [("+", 2, 1, None, "p", "p", 1), ("+", 6, 5, None, "p", "p", 7)]
    assert changes(ToStream(node, Streaming.ISTREAM), history, [0, 20]) == shown
    gone = [("+", 6, 5, None, "p", "p", 1), ("+", 8, 7, None, "p", "p", 7)]
    assert changes(ToStream(node, Streaming.DSTREAM), history, [0, 3, 20]) == gone


def test_a_window_on_what_is_withdrawn_is_a_broken_plan() -> None:
    b = Builder()
    with pytest.raises(AssertionError):
        changes(OutputWindow(of_most(b), Lifetime(3)), [[(1, ("p", 1))]], [0, 5])


def test_sums_of_doubles_do_not_depend_on_when_rows_came() -> None:
    b = Builder()
    top = b.top(b.window(9, {"k": STRING, "d": DOUBLE}), "$.d", 4)
    node = b.group_by(top, [], ("SUM", "d"), ("STDDEV", "d"))
    rows = [(i % 7, ("p", 0.1 * (i * 7 % 11))) for i in range(30)]
    history = [sorted(rows, key=lambda row: row[0])]
    every = [changes(node, history, ticks) for ticks in ([0, 30], list(range(31)), [0, 2, 5, 9, 30])]
    assert every[0] == every[1] == every[2] and len(every[0]) > 4


def plan_tables(node: Node) -> dict[str, Any]:
    plan: ContinuousPlan = plan_of(node)
    return dict(empty_tables(plan))


def test_layouts_follow_the_ends() -> None:
    """Rows without a predicted end lie in a table by value, others in a calendar."""
    b = Builder()
    joined = b.join(b.window(6, {"k": STRING}), of_most(b), on=["k"])
    found = plan_tables(b.group_by(b.join(joined, of_most(b), on=["x"]), ["k"], ("MAX", "x")))
    assert isinstance(found["0.0.0/old"], Calendar) and isinstance(found["0.0.1/old"], Keyed)
    assert isinstance(found["0/rows"], Calendar) and "0/cells" not in found
    counted = plan_tables(b.group_by(of_most(b), ["k"], ("COUNT", None)))
    assert "0/cells" in counted and "0/rows" not in counted
    assert "0" not in plan_tables(ToStream(of_most(b), Streaming.ISTREAM))
    assert isinstance(plan_tables(ToStream(of_most(b), Streaming.RSTREAM))["0"], Keyed)


def test_the_state_of_a_strict_join_is_what_is_alive() -> None:
    b = Builder()
    node = b.join(b.window(4, KX), of_most(b, 5), on=["k"])
    history = [[(i, ("p", i)) for i in range(0, 90, 2)], [(i, ("p", i % 7)) for i in range(90)]]
    most = 0

    def each(made: Any, tick: int) -> None:
        nonlocal most
        kept = made.state.tables.get("0.1/old")
        most = max(most, 0 if kept is None else kept.count)

    done = run(plan_of(node), history, list(range(0, 120, 3)), each=each)
    assert most == 1 and done.state.nbytes == 0
