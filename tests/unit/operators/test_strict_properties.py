"""Random plans in which rows are withdrawn below other operators: the changes, replayed at every tick, are the answers by
definition; they are the same in any batches, after restarts, in the other layout of live rows or when it changes, and
in stages."""

from __future__ import annotations

import os
import tempfile
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.continuous import (
    DOUBLE,
    INT,
    STRING,
    Builder,
    assert_by_definition,
    counted,
    plan_of,
    rows_of,
    run,
    shown,
    viewed,
)
from support.staged import run_staged

from windrow.operators import state
from windrow.operators.changes import changes_schema, stored
from windrow.operators.layouts import choosing
from windrow.operators.layouts.keyed import Keyed
from windrow.operators.layouts.live import live_calendar, live_table
from windrow.operators.layouts.parts import Layout
from windrow.operators.state import live
from windrow.operators.view import LiveView
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Distinct,
    GroupBy,
    Lifetime,
    Node,
    OutputWindow,
    Streaming,
    ToStream,
    walk,
)
from windrow.reference.window_operators import WindowOperators

LAST = 24
EXAMPLES = int(os.environ.get("WINDROW_OPERATOR_EXAMPLES", "25"))
COLUMNS = {"k": INT, "x": DOUBLE, "s": STRING}
GROUPED: list[tuple[list[str], list[tuple[Any, ...]], tuple[str, str, str]]] = [
    (["k"], [("MAX", "x"), ("MIN", "s")], ("$.k", "$.MAX_x", "$.MIN_s")),
    (["k", "s"], [("COUNT", None)], ("$.k", "CAST($.COUNT_None AS DOUBLE)", "$.s")),
    (["s"], [("SUM", "k"), ("COUNT", "x")], ("CAST($.COUNT_x AS INT)", "CAST($.SUM_k AS DOUBLE)", "$.s")),
    (["s"], [("SUM", "x"), ("COUNT(DISTINCT)", "k")], ("CAST($.COUNT(DISTINCT)_k AS INT)", "$.SUM_x", "$.s")),
    ([], [("SUM", "k"), ("AVG", "x"), ("MAX", "s")], ("CAST($.SUM_k AS INT)", "$.AVG_x", "$.MAX_s")),
    (["k"], [("MEDIAN", "x"), ("QUANTILE", "s", Decimal("0.5"))], ("$.k", "$.MEDIAN_x", "$.QUANTILE_s")),
]
"""Sub-queries with GROUP BY: keys, aggregates, and the columns k, x and s of them."""

AGGREGATES = [
    ("COUNT", None),
    ("SUM", "k"),
    ("SUM", "x"),
    ("VARIANCE", "x"),
    ("MIN", "s"),
    ("MEDIAN", "x"),
    ("TOP_K", "s", 2),
    ("FREQUENT_ITEMS", "s", 2),
]

keys = st.one_of(st.none(), st.integers(0, 2))
numbers = st.one_of(st.none(), st.sampled_from([-0.0, 0.0, 1.5, 2.0, float("nan")]))
texts = st.one_of(st.none(), st.sampled_from(["", "a", "b"]))
tuples = st.lists(st.tuples(st.integers(0, 15), st.tuples(keys, numbers, texts)), max_size=9)


@st.composite
def windows(draw: Any, b: Builder) -> Node:
    return b.window(draw(st.sampled_from([2, 4, 6, 9, None])), COLUMNS, draw(st.sampled_from([0, 0, 2])))


@st.composite
def withdrawing(draw: Any, b: Builder, depth: int) -> Node:
    """A node with the columns k, x and s whose rows are withdrawn: without a predicted end, or with one."""
    one = draw(withdrawing(b, depth - 1) if depth and draw(st.booleans()) else windows(b))
    kind = draw(st.sampled_from(["group", "group", "top", *(["join", "join", "union", "distinct"] if depth else [])]))
    if kind == "group":
        keys, calls, columns = draw(st.sampled_from(GROUPED))
        made = b.group_by(one, keys, *calls)
        return b.project(made, k=(columns[0], INT), x=(columns[1], DOUBLE), s=(columns[2], STRING))
    if kind == "top":
        return b.top(one, f"$.{draw(st.sampled_from(sorted(COLUMNS)))}", draw(st.integers(1, 3)), draw(st.booleans()))
    other = draw(withdrawing(b, depth - 1))
    if kind == "distinct":
        return Distinct(b.filter(other, "$.k > 0 OR $.s IS NULL"))
    if kind == "union":
        return b.union(*draw(st.permutations([one, other])))
    more = [draw(windows(b))] if draw(st.integers(0, 3)) == 0 else []
    on = draw(st.sampled_from([["k"], ["s"], ["x"], ["k", "s"], []]))
    condition = draw(st.sampled_from([None, "$0.k <= $1.k", "$0.x < $1.x OR $0.s = $1.s"]))
    joined = b.join(*draw(st.permutations([one, other, *more])), on=on, condition=condition)
    first, last = joined.inputs[0].schema, joined.inputs[-1].schema
    return b.project(joined, k=(first[0].sql, INT), x=(last[1].sql, DOUBLE), s=(last[2].sql, STRING))


@st.composite
def cases(draw: Any) -> tuple[ContinuousPlan, list[list[Any]]]:
    b = Builder()
    node: Node = draw(withdrawing(b, draw(st.sampled_from([1, 2]))))
    kind = draw(st.sampled_from(["plain", "plain", "group", "group", "distinct", "top", "stream", "window"]))
    if kind == "group":
        calls = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3, unique=True))
        node = b.group_by(node, draw(st.sampled_from([[], ["k"], ["x"], ["k", "s"]])), *calls)
    elif kind == "distinct":
        node = Distinct(node)
    elif kind == "top":
        node = b.top(node, "$.x", draw(st.integers(0, 3)))
    elif kind in ("stream", "window"):
        made = draw(st.sampled_from(Streaming))
        node = ToStream(node, made, made is not Streaming.DSTREAM and draw(st.booleans()))
        node = OutputWindow(node, Lifetime(draw(st.integers(1, 4)))) if kind == "window" else node
    plan = plan_of(node, draw(st.sampled_from([1, 1, 2, 5])))
    return plan, [draw(tuples) for _ in plan.windows]


def ends_of(plan: ContinuousPlan, rng: Random) -> list[int]:
    """Where batches end: 0, some ticks, and the last one."""
    last = -(-LAST // plan.step) * plan.step
    every = range(plan.step, last, plan.step)
    return [0, *sorted(rng.sample(every, rng.choice([0, 2, len(every)]))), last]


def other_layout(node: Node, columns: Any = None) -> Any:
    """The layout of live rows that `live` does not choose."""
    columns = node.schema if columns is None else columns
    return live_calendar(columns, 3) if isinstance(live(node, columns), Keyed) else live_table(columns)


def any_layout(rng: Random) -> Layout:
    """A layout of live rows that may change, whatever has left."""
    return rng.choice([Layout.CALENDAR, Layout.KEYED])


several = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


@several
@given(cases(), st.integers(0, 1 << 30), st.booleans())
def test_changes_are_the_answers_however_they_are_made(case, seed, explicit):
    plan, history = case
    rng = Random(seed)
    naive = WindowOperators(plan, history, plan.step)
    view = LiveView.empty(changes_schema(plan.schema))

    def check(made, tick):
        nonlocal view
        view = view.after(made.changes[-1], tick)
        assert viewed(view, tick) == counted(naive.answer(tick)), tick

    made = run(plan, history, ends_of(plan, rng), each=check, explicit_expiry=explicit)
    assert_by_definition(plan, history, made.all_changes, LAST)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "wanted_layout", lambda layout, departures: any_layout(rng))
        again = run(
            plan,
            history,
            ends_of(plan, rng),
            restart=lambda tick: rng.choice([None, "parts", "compacted"]),
            explicit_expiry=explicit,
        )
        assert shown(again.all_changes) == shown(made.all_changes)
        patch.setattr(state, "live", other_layout)
        swapped = ContinuousPlan(plan.root, plan.point, plan.step)  # tables are remembered by plan
        other = run(swapped, history, ends_of(plan, rng), restart=lambda tick: "parts", explicit_expiry=explicit)
    assert shown(other.all_changes) == shown(made.all_changes)


@settings(max_examples=max(10, EXAMPLES // 4), deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.integers(0, 1 << 30))
def test_stages_change_nothing(case, seed):
    plan, history = case
    rng = Random(seed)
    every = ends_of(plan, rng)
    ends = sorted({every[0], *every[-6:]})
    made = run(plan, history, ends)
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "wanted_layout", lambda layout, departures: any_layout(rng))
        tables, _ = run_staged(
            Path(directory),
            plan,
            history,
            ends,
            ranges=lambda batch: rng.choice([1, 2, 2, 3]),
            merging=lambda batch: rng.random() < 0.3,
            lose=lambda batch: rng.random() < 0.4,
        )
    assert [repr(row) for table in tables for row in rows_of(table)] == [
        repr(row) for row in rows_of(stored(made.all_changes))
    ]


@several
@given(cases(), st.integers(0, 1 << 30))
def test_silence_empties_the_state(case, seed):
    plan, history = case
    lifetimes = [getattr(node, "lifetime", None) for node in walk(plan.root)]
    stays = any(one is not None and one.range is None for one in lifetimes)
    ungrouped = any(isinstance(node, GroupBy) and not node.keys for node in walk(plan.root))
    if stays or ungrouped:
        return
    end = 200 * plan.step
    done = run(plan, history, [*ends_of(plan, Random(seed)), end, end + plan.step, 2 * end])
    assert done.state.nbytes == 0, done.state.sizes
