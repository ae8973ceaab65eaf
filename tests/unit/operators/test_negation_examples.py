"""Small cases of negation, outer joins, set operations and count-based windows, with their changes in full."""

from __future__ import annotations

import pytest
from support.continuous import BIGINT, INT, Builder, plan_of, rows_of, run

from windrow.operators.scan import needs_history
from windrow.operators.stages.cutting import staged
from windrow.plan.algebra.nodes import OuterJoin, RowsWindow, SemiJoin, SetKind, SetOperation
from windrow.plan.nodes import Attribute

K, KX = {"k": INT}, {"k": INT, "x": INT}


def changes(plan, history, ticks):
    return rows_of(run(plan, history, ticks).all_changes)


def test_anti_join_withdraws_and_shows_again():
    """A row goes when its first match comes, and comes back when the last one has expired."""
    b = Builder()
    plan = plan_of(b.semi_join(b.window(10, K), b.window(3, K), ["k"], is_anti=True))
    history = [[(0, (1,)), (0, (2,)), (1, (None,))], [(2, (1,)), (4, (1,)), (5, (None,))]]
    expected = [
        ("+", 1, 0, 10, 1),
        ("+", 1, 0, 10, 2),
        ("+", 2, 1, 11, None),
        ("-", 3, 2, 10, 1),
        ("+", 8, 7, 10, 1),
    ]
    assert changes(plan, history, range(15)) == changes(plan, history, [0, 15]) == expected


def test_semi_join_is_withdrawn_before_its_exp():
    b = Builder()
    plan = plan_of(b.semi_join(b.window(10, K), b.window(3, K), ["k"]))
    history = [[(0, (1,)), (4, (2,))], [(2, (1,)), (3, (1,)), (9, (2,)), (13, (2,))]]
    assert changes(plan, history, [0, 4, 20]) == [
        ("+", 3, 2, 10, 1),
        ("-", 7, 6, 10, 1),
        ("+", 10, 9, 14, 2),
        ("-", 13, 12, 14, 2),
        ("+", 14, 13, 14, 2),
    ]


def test_null_safe_key():
    b = Builder()
    history = [[(0, (None,))], [(0, (None,))]]
    for safe, found in ((True, 1), (False, 0)):
        plan = plan_of(b.semi_join(b.window(10, K), b.window(10, K), ["k"], null_safe=(safe,)))
        assert len(changes(plan, history, [0, 5])) == found


def test_left_outer_join():
    b = Builder()
    plan = plan_of(b.outer_join(b.window(10, KX), b.window(3, KX), ["k"], "$1.x > 0"))
    history = [[(0, (1, 7))], [(1, (1, 0)), (2, (1, 5))]]
    expected = [
        ("+", 1, 0, 10, 1, 7, None, None),
        ("-", 3, 2, 10, 1, 7, None, None),
        ("+", 3, 2, 5, 1, 7, 1, 5),
        ("+", 6, 5, 10, 1, 7, None, None),
    ]
    assert changes(plan, history, range(14)) == changes(plan, history, [0, 14]) == expected


@pytest.mark.parametrize(
    "kind, is_all, found",
    [
        (SetKind.EXCEPT, True, [2, 1, 2, 3, 1]),
        (SetKind.EXCEPT, False, [1, 0, 0, 1, 1]),
        (SetKind.INTERSECT, True, [0, 1, 1, 0, 0]),
        (SetKind.INTERSECT, False, [0, 1, 1, 0, 0]),
    ],
)
def test_multiplicities(kind, is_all, found):
    """At ticks 1 to 5 the left input has 2, 2, 3, 3 and 1 rows of the value, the right one 0, 1, 1, 0 and 0."""
    b = Builder()
    plan = plan_of(b.set_operation(b.window(4, K), b.window(2, K), kind, is_all))
    told = changes(plan, [[(0, (1,)), (0, (1,)), (2, (1,))], [(1, (1,))]], range(7))
    assert all(row[3] is None for row in told)
    assert [sum(1 if op == "+" else -1 for op, at, *_ in told if at <= tick) for tick in range(1, 6)] == found


def test_last_rows_by_point_and_arrival():
    """Ties go by arrival; a tuple that is pushed out at the tick at which it comes is never shown."""
    b = Builder()
    plan = plan_of(b.rows_window(2, K))
    history = [[(5, (1,)), (1, (2,)), (5, (3,)), (5, (4,)), (7, (5,))]]
    expected = [
        ("+", 2, 1, None, 2),
        ("-", 6, 5, None, 2),
        ("+", 6, 5, None, 3),
        ("+", 6, 5, None, 4),
        ("-", 8, 7, None, 3),
        ("+", 8, 7, None, 5),
    ]
    assert changes(plan, history, range(10)) == changes(plan, history, [0, 10]) == expected


def test_last_row_of_each_partition():
    b = Builder()
    plan = plan_of(b.rows_window(1, KX, by=["k"]))
    history = [[(0, (1, 10)), (1, (2, 20)), (2, (None, 30)), (3, (1, 11)), (4, (None, 31))]]
    assert changes(plan, history, [0, 2, 9]) == [
        ("+", 1, 0, None, 1, 10),
        ("+", 2, 1, None, 2, 20),
        ("+", 3, 2, None, None, 30),
        ("-", 4, 3, None, 1, 10),
        ("+", 4, 3, None, 1, 11),
        ("-", 5, 4, None, None, 30),
        ("+", 5, 4, None, None, 31),
    ]


def test_window_without_columns():
    b = Builder()
    plan = plan_of(b.group_by(b.rows_window(2, {}), [], ("COUNT", None)))
    counts = [row for row in changes(plan, [[(0, ()), (1, ()), (2, ())]], range(5)) if row[0] == "+"]
    assert [row[4] for row in counts] == [1, 2]


def test_where_rows_are_placed():
    b = Builder()
    left, right = b.window(10, KX), b.window(10, KX)
    for node in (b.semi_join(left, right, ["k"]), b.outer_join(left, right, ["k"])):
        found = staged(plan_of(node))
        assert found.window_keys == ((left.schema[0].sql,), (right.schema[0].sql,)) and not found.is_single
        assert needs_history(plan_of(node)) == (True, True)
    by_rows = staged(plan_of(b.rows_window(3, KX)))
    assert by_rows.is_single and by_rows.window_keys == ((),)
    parted = b.rows_window(3, KX, by=["k"])
    assert staged(plan_of(parted)).window_keys == ((parted.schema[0].sql,),)
    assert needs_history(plan_of(b.semi_join(parted, right, ["k"]))) == (False, True)


def test_nodes_refuse_what_makes_no_sense():
    b = Builder()
    one, other = b.window(3, K), b.window(3, {"k": BIGINT})
    with pytest.raises(ValueError, match="keeps a side"):
        OuterJoin(one, other, keeps_left=False)
    with pytest.raises(ValueError, match="every key"):
        SemiJoin(one, other, null_safe=(True,))
    with pytest.raises(ValueError, match="same types"):
        SetOperation((one, other), one.schema, SetKind.EXCEPT)
    with pytest.raises(ValueError, match="at least one row"):
        RowsWindow("s", Attribute("t", BIGINT), 0, (), one.columns)
    with pytest.raises(ValueError, match="its own columns"):
        RowsWindow("s", Attribute("t", BIGINT), 1, other.schema, one.columns)
