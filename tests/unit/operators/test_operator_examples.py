"""Examples of Golab's dissertation, and small cases of each operator with their changes in full."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.continuous import (
    BIGINT,
    DOUBLE,
    INT,
    KERNEL,
    STRING,
    Builder,
    inputs_of,
    plan_of,
    replayed,
    rows_of,
    run,
    stored,
)

from windrow.operators.advance import advance
from windrow.operators.changes import in_order
from windrow.operators.state import PlanState
from windrow.operators.ticks import NEVER, DueTicks
from windrow.operators.view import MOST_PIECES, by_expiration, lifespan
from windrow.plan.accumulators import Key
from windrow.plan.aggregates import decompose
from windrow.plan.algebra.nodes import Aggregated, Distinct, GroupBy, Lifetime, OutputWindow, Streaming, ToStream
from windrow.types import POINT_MIN

V = {"v": STRING}


def changes(plan, history, ticks, **settings):
    return rows_of(run(plan, history, ticks, **settings).all_changes)


def test_figure_3_1_c_renewal_by_the_youngest():
    """The result with value a expires; the youngest a of the window is appended and lives as long as it does."""
    b = Builder()
    plan = plan_of(Distinct(b.window(10, V)))
    history = [[(1, ("a",)), (2, ("b",)), (5, ("a",)), (8, ("a",)), (9, ("c",))]]
    assert changes(plan, history, range(25)) == [
        ("+", 2, 1, 11, "a"),
        ("+", 3, 2, 12, "b"),
        ("+", 10, 9, 19, "c"),
        ("+", 12, 11, 18, "a"),
    ]


def test_distinct_without_renewal():
    b = Builder()
    plan = plan_of(Distinct(b.window(3, V)))
    assert changes(plan, [[(1, ("a",)), (7, ("a",))]], [0, 5, 12]) == [("+", 2, 1, 4, "a"), ("+", 8, 7, 10, "a")]


def test_selection_keeps_lifetimes():
    b = Builder()
    w = b.window(5, {"x": INT})
    plan = plan_of(b.filter(w, "$.x > 1"))
    assert changes(plan, [[(0, (1,)), (1, (2,)), (2, (None,))]], [0, 10]) == [("+", 2, 1, 6, 2)]


def test_result_between_two_ticks_is_not_reported():
    b = Builder()
    plan = plan_of(b.window(3, {"x": INT}), step=10)
    assert changes(plan, [[(1, (1,)), (8, (2,)), (17, (3,))]], [0, 10, 30]) == [
        ("+", 10, 8, 11, 2),
        ("+", 20, 17, 20, 3),
    ]


def test_join_lives_from_the_latest_to_the_earliest():
    b = Builder()
    one, other = b.window(10, {"k": INT}), b.window(4, {"k": INT, "y": INT})
    plan = plan_of(b.join(one, other, on=["k"]))
    history = [[(0, (1,)), (1, (None,)), (12, (1,))], [(3, (1, 7)), (4, (None, 8)), (9, (1, 9)), (10, (1, 10))]]
    assert changes(plan, history, [0, 4, 20]) == [
        ("+", 4, 3, 7, 1, 1, 7),
        ("+", 10, 9, 10, 1, 1, 9),
        ("+", 13, 12, 13, 1, 1, 9),
        ("+", 13, 12, 14, 1, 1, 10),
    ]


def test_group_by_replaces_in_place():
    b = Builder()
    w = b.window(5, {"k": STRING, "x": INT})
    plan = plan_of(b.group_by(w, ["k"], ("COUNT", None), ("SUM", "x")))
    history = [[(0, ("a", 1)), (2, ("a", 2)), (2, ("b", None))]]
    assert changes(plan, history, [0, 1, 20]) == [
        ("+", 1, 0, None, "a", 1, 1),
        ("-", 3, 2, None, "a", 1, 1),
        ("+", 3, 2, None, "a", 2, 3),
        ("+", 3, 2, None, "b", 1, None),
        ("-", 6, 5, None, "a", 2, 3),
        ("+", 6, 5, None, "a", 1, 2),
        ("-", 8, 7, None, "a", 1, 2),
        ("-", 8, 7, None, "b", 1, None),
    ]


def test_unchanged_group_is_silent():
    b = Builder()
    plan = plan_of(b.group_by(b.window(5, {"x": INT}), [], ("MAX", "x")))
    history = [[(1, (3,)), (2, (2,)), (3, (3,))]]
    assert changes(plan, history, [0, 4, 20]) == [
        ("+", 1, 0, None, None),
        ("-", 2, 1, None, None),
        ("+", 2, 1, None, 3),
        ("-", 9, 8, None, 3),
        ("+", 9, 8, None, None),
    ]


def test_internal_group_by_only_adds():
    b = Builder()
    plan = plan_of(b.group_by(b.window(2, {"x": INT}, internal=True), [], ("SUM", "x")))
    found = changes(plan, [[(0, (1,)), (1, (2,))]], [0, 9])
    assert [(op, tick, exp, v) for op, tick, _, exp, v in found] == [
        ("+", 1, None, 1),
        ("+", 2, None, 3),
        ("+", 3, None, 2),
        ("+", 4, None, None),
    ]


def test_internal_join_never_expires():
    b = Builder()
    plan = plan_of(b.join(b.window(2, {"k": INT}, internal=True), b.window(3, {"k": INT}, internal=True), on=["k"]))
    assert changes(plan, [[(0, (1,))], [(1, (1,)), (5, (1,))]], [0, 3, 9]) == [("+", 2, 1, None, 1, 1)]


STREAMS = [
    (Streaming.ISTREAM, [("+", 2, 1, None, "a"), ("+", 2, 1, None, "b")]),
    (Streaming.DSTREAM, [("+", 5, 4, None, "b"), ("+", 8, 7, None, "a")]),
    (
        Streaming.RSTREAM,
        [
            ("+", t, t - 1, None, v)
            for t, there in ((2, "ab"), (3, "ab"), (4, "ab"), (5, "a"), (6, "a"), (7, "a"))
            for v in there
        ],
    ),
]


@pytest.mark.parametrize("kind, expected", STREAMS)
def test_relation_to_stream(kind, expected):
    """The second a comes at the tick at which the first one goes, so the value neither comes nor goes."""
    b = Builder()
    plan = plan_of(ToStream(b.window(3, V), kind))
    assert changes(plan, [[(1, ("a",)), (1, ("b",)), (4, ("a",))]], [0, 3, 12]) == expected


def test_rstream_counts_equal_rows():
    b = Builder()
    plan = plan_of(ToStream(b.window(2, V), Streaming.RSTREAM))
    found = changes(plan, [[(0, ("a",)), (0, ("a",))]], [0, 1, 9])
    assert [row[1] for row in found] == [1, 1, 2, 2]


def test_limit_withdraws_what_falls_out():
    b = Builder()
    plan = plan_of(b.top(b.window(4, {"x": INT}), "$.x", 2, descending=True))
    history = [[(0, (1,)), (0, (2,)), (1, (3,)), (2, (0,))]]
    assert changes(plan, history, [0, 2, 20]) == [
        ("+", 1, 0, None, 1),
        ("+", 1, 0, None, 2),
        ("-", 2, 1, None, 1),
        ("+", 2, 1, None, 3),
        ("-", 5, 4, None, 2),
        ("+", 5, 4, None, 0),
        ("-", 6, 5, None, 3),
        ("-", 7, 6, None, 0),
    ]


def test_having_above_group_by():
    b = Builder()
    grouped = b.group_by(b.window(3, {"k": STRING}), ["k"], ("COUNT", None))
    plan = plan_of(b.project(b.filter(grouped, "$.COUNT_None > 1"), k=("$.k", STRING)))
    history = [[(0, ("a",)), (1, ("a",)), (1, ("a",)), (2, ("b",))]]
    assert changes(plan, history, [0, 20]) == [("+", 2, 1, None, "a"), ("-", 5, 4, None, "a")]


def test_window_on_a_stream_of_results_with_offset():
    b = Builder()
    grouped = b.group_by(b.window(3, {"x": INT}), [], ("SUM", "x"))
    plan = plan_of(OutputWindow(ToStream(grouped, Streaming.ISTREAM), Lifetime(2, offset=3)))
    found = changes(plan, [[(1, (5,))]], [0, 3, 4, 30])
    assert found == [("+", 4, 3, 5, None), ("+", 5, 4, 6, 5), ("+", 8, 7, 9, None)]


def test_explicit_expiry():
    b = Builder()
    plan = plan_of(Distinct(b.window(3, V)))
    done = run(plan, [[(1, ("a",)), (3, ("a",))]], [0, 3, 10], explicit_expiry=True)
    assert rows_of(done.all_changes) == [
        ("+", 2, 1, 4, "a"),
        ("-", 5, 4, 4, "a"),
        ("+", 5, 4, 6, "a"),
        ("-", 7, 6, 6, "a"),
    ]
    assert [sum(replayed(done.all_changes, t).values()) for t in range(1, 9)] == [0, 1, 1, 1, 1, 1, 0, 0]


def test_sum_of_bigint_overflows_to_null_and_back():
    b = Builder()
    plan = plan_of(b.group_by(b.window(2, {"x": BIGINT}), [], ("SUM", "x")))
    big = (1 << 63) - 1
    found = changes(plan, [[(0, (big,)), (1, (1,))]], [0, 4])
    assert [(op, tick, v) for op, tick, _, _, v in found] == [
        ("+", 1, big),
        ("-", 2, big),
        ("+", 2, None),
        ("-", 3, None),
        ("+", 3, 1),
        ("-", 4, 1),
        ("+", 4, None),
    ]


@pytest.mark.parametrize("ticks", [[0, 4], [0, 1, 2, 3, 4]])
def test_overflows_count_once_per_row_shown(ticks):
    b = Builder()
    big = (1 << 63) - 1
    node = b.group_by(b.window(2, {"k": STRING, "x": BIGINT}), ["k"], ("SUM", "x"), ("COUNT", "x"))
    history = [(0, ("a", big)), (0, ("b", None)), (0, ("c", big)), (0, ("c", 1))]
    history += [(1, ("a", 1)), (2, ("a", big)), (2, ("a", big)), (2, ("b", 5)), (2, ("c", 1)), (2, ("c", big))]
    # Of 'a' at ticks 2, 3 and 4, which differ in COUNT; of 'c' once, since its row stays the same; of 'b' never.
    for root in (node, b.filter(node, "$.SUM_x > 0")):
        assert run(plan_of(root), [history], ticks).overflows == 4


def test_totals_of_top_k_overflow():
    b = Builder()
    window = b.window(2, {"k": STRING, "x": BIGINT})
    k, x = window.schema
    call = decompose("TOP_K", k.sql, k.type, None, (2,), (Key(x.sql, x.type),))
    node = GroupBy(window, (), (Aggregated(b.column("top", call.result), call),))
    done = run(plan_of(node), [[(0, ("a", 1 << 62)), (0, ("a", 1 << 62)), (0, ("b", 1))]], [0, 4])
    assert done.overflows == 1


def test_a_nan_does_not_outlive_its_window():
    b = Builder()
    plan = plan_of(b.group_by(b.window(2, {"x": DOUBLE}), [], ("SUM", "x"), ("MAX", "x"), ("VAR_POP", "x")))
    found = changes(plan, [[(0, (1.0,)), (0, (float("nan"),)), (1, (2.0,))]], [0, 3])
    assert [repr(row[4:]) for row in found if row[0] == "+"] == ["(nan, nan, nan)", "(nan, nan, nan)"][:1] + [
        "(2.0, 2.0, 0.0)"
    ]


def test_ticks_from_another_origin_and_below_zero():
    b = Builder()
    plan = plan_of(b.group_by(b.window(10, {"x": INT}), [], ("COUNT", None)), step=10)
    state, found = PlanState(), []
    for before in (-17, -7, 3, 13):
        due = DueTicks(before, before + 10, 10, origin=3)
        done = advance(
            plan, state, inputs_of(plan, stored(plan, [[(-9, (1,)), (-7, (1,)), (2, (1,))]]), due), due, KERNEL
        )
        state = done.state
        found += [(op, tick, n) for op, tick, _, _, n in rows_of(in_order([done.changes]))]
    assert found == [("+", -7, 1), ("-", 3, 1), ("+", 3, 2), ("-", 13, 2), ("+", 13, 0)]


def test_a_gap_between_batches_is_refused():
    b = Builder()
    plan = plan_of(b.window(3, V))
    state = advance(plan, PlanState(), {}, DueTicks(0, 2, 1), KERNEL).state
    with pytest.raises(ValueError, match="ticked at 2"):
        advance(plan, state, {}, DueTicks(3, 4, 1), KERNEL)


def test_view_by_expiration():
    b = Builder()
    plan = plan_of(b.window(10, V))
    made = run(plan, [[(1, ("a",)), (4, ("b",)), (5, ("c",)), (13, ("d",))]], [0, 6, 14])
    parts = by_expiration(made.changes, 14, 4)
    found = [(*lifespan(table), table.column(4).to_pylist()) for table in parts]
    assert found == [(14, 15, ["b", "c"]), (23, 23, ["d"])]
    empty = parts[0].slice(0, 0)
    assert by_expiration([empty], 14, 4) == [empty] and lifespan(empty) == (NEVER, POINT_MIN)


@given(st.lists(st.one_of(st.none(), st.integers(-20, 200)), max_size=30), st.integers(-20, 40), st.integers(1, 9))
def test_a_view_is_cut_into_few_parts(ends, ticked, width):
    """Each has the rows of one interval, but the last ones: those that end later, and those that do not."""
    rows = [("+", ticked, -30, end, i) for i, end in enumerate(ends)]
    schema = pa.schema([("op", pa.string()), *((name, pa.int64()) for name in ("tick", "ts", "exp", "v"))])
    made = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    found = [table.column("exp").to_pylist() for table in by_expiration([made], ticked, width)]
    alive = [end for end in ends if end is None or end >= ticked]
    assert sorted(map(str, sum(found, []))) == sorted(map(str, alive))
    far = (ticked // width + MOST_PIECES) * width
    for some in found:
        near = {end // width for end in some if end is not None and end < far}
        assert len(near) <= 1 and (not near or all(end is not None and end < far for end in some))
    assert len(found) <= MOST_PIECES + 2


def test_what_is_withdrawn_is_gone_before_its_end():
    rows = [("+", 1, 0, 20), ("-", 5, 0, 20), ("+", 6, 5, 9), ("+", 6, 5, None)]
    names = ("op", "tick", "ts", "exp")
    made = pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)})
    assert [lifespan(made.slice(at))[0] for at in range(4)] == [5, 5, 9, NEVER]
