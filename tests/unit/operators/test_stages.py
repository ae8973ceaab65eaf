"""Plans cut into stages: where rows are, where they are exchanged, and that it changes nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.continuous import DOUBLE, INT, STRING, Builder, plan_of, rows_of, run, viewed
from support.plan_builder import COLUMNS, plans, streams
from support.staged import run_staged

from windrow.operators.changes import stored
from windrow.operators.stages.cutting import staged
from windrow.operators.stages.ranges import ranges_of
from windrow.operators.view import live_view
from windrow.plan.algebra.nodes import Distinct, Lifetime, OutputRows, OutputWindow, Streaming, ToStream

KX = {"k": STRING, "x": INT}


def b_join(b: Builder, *names: str) -> Any:
    return b.join(b.window(10, KX), b.window(10, KX), on=names)


def exchanges(node: Any) -> dict[str, tuple[str, ...]]:
    return {stage.path: stage.sends_by for stage in staged(plan_of(node)).stages if stage.sends_by is not None}


def test_join_reads_stores_by_its_key():
    b = Builder()
    node = b_join(b, "k")
    found = staged(plan_of(node))
    left, right = (one.schema[0].sql for one in node.inputs)
    assert found.window_keys == ((left,), (right,))
    assert found.levels == 1 and not found.is_single


def test_join_without_keys_is_in_one_place():
    b = Builder()
    found = staged(plan_of(b_join(b)))
    assert found.is_single and found.window_keys == ((), ())


def test_group_by_the_join_key_is_in_place():
    b = Builder()
    node = b_join(b, "k")
    assert exchanges(b.group_by(node, ["k"], ("COUNT", None))) == {}


def test_group_by_another_column_is_exchanged():
    b = Builder()
    node = b_join(b, "k")
    assert exchanges(b.group_by(node, ["x"], ("COUNT", None))) == {"0.0": (node.schema[1].sql,)}


def test_join_is_placed_by_the_key_that_the_group_by_needs():
    b = Builder()
    node = b_join(b, "k", "x")
    assert exchanges(b.group_by(node, ["x"], ("COUNT", None))) == {}
    assert staged(plan_of(node)).window_keys == (("c1", "c2"), ("c3", "c4"))


def test_ungrouped_aggregate_over_a_join():
    b = Builder()
    found = staged(plan_of(b.group_by(b_join(b, "k"), [], ("COUNT", None))))
    assert [(stage.single, stage.sends_by, stage.level) for stage in found.stages] == [
        (False, (), 0),
        (True, None, 1),
    ]


def test_strict_root_without_its_key_is_exchanged_by_value():
    b = Builder()
    node = b.group_by(b.window(10, KX), ["k"], ("COUNT", None))
    shown = b.project(node, n=("$.COUNT_None", node.schema[1].type))
    assert exchanges(shown) == {"0": (shown.schema[0].sql,)}


def test_plain_selection_is_read_anywhere():
    b = Builder()
    assert staged(plan_of(b.filter(b.window(10, KX), "$.x > 1"))).window_keys == (None,)


def test_state_of_an_exchanged_input_is_the_join_s():
    b = Builder()
    inner = b_join(b, "k")
    outer = b.join(b.project(inner, x=("$.x", INT), k=("$.k", STRING)), b.window(10, {"x": INT}), on=["x"])
    found = staged(plan_of(outer))
    assert exchanges(outer) == {"0.0": (outer.inputs[0].schema[0].sql,)}
    assert found.tables["0.0/old"].sends_by is None and found.cuts["0.0/old"] == (outer.inputs[0].schema[0].sql,)


def test_ranges_cover_all_buckets():
    assert ranges_of(3) == ((0, 85), (85, 170), (170, 256))


HISTORY = [[(i, (f"k{i % 5}", i % 3)) for i in range(40)], [(i, (f"k{i % 7}", i % 4)) for i in range(0, 40, 2)]]


def _story(name: str) -> tuple[Any, list[Any]]:
    b = Builder()
    one = b.window(10, KX)
    if name in ("distinct", "istream", "dstream", "rstream", "offset"):
        kinds = {"istream": Streaming.ISTREAM, "dstream": Streaming.DSTREAM, "rstream": Streaming.RSTREAM}
        if name == "offset":
            return OutputWindow(b.window(None, KX), Lifetime(5, 3)), HISTORY[:1]
        return Distinct(one) if name == "distinct" else ToStream(one, kinds[name]), HISTORY[:1]
    if name == "last results":
        return OutputRows(b.join(one, b.window(6, KX, internal=True), on=["k"]), 5), HISTORY
    if name in ("came between", "there between"):
        kind = Streaming.ISTREAM if name == "came between" else Streaming.RSTREAM
        counts = b.group_by(b.join(one, b.window(3, KX), on=["k"]), ["x"], ("COUNT", None))
        return ToStream(b.project(counts, n=("$.COUNT_None", counts.schema[1].type)), kind, restores=True), HISTORY
    if name == "groups":
        return b.group_by(one, ["k"], ("SUM", "x"), ("MAX", "x"), ("MEDIAN", "x")), HISTORY[:1]
    if name == "union":
        return b.group_by(b.union(one, b.window(4, KX)), ["x"], ("COUNT", None)), HISTORY
    joined = b.join(one, b.window(6, KX), on=["k"])
    if name == "other key":
        return b.group_by(joined, ["x"], ("COUNT", None), ("MIN", "k")), HISTORY
    if name == "all":
        return b.group_by(joined, [], ("COUNT", None), ("SUM", "x")), HISTORY
    if name == "limit":
        return b.top(joined, "$.x", 3), HISTORY
    if name == "three":
        return b.group_by(b.join(joined, b.window(8, {"x": INT}), on=["x"]), ["x"], ("COUNT", None)), [
            *HISTORY,
            [(i, (i % 4,)) for i in range(0, 40, 3)],
        ]
    if name == "count of counts":
        inner = b.group_by(joined, ["k"], ("COUNT", None))
        return b.project(inner, n=("$.COUNT_None", inner.schema[1].type)), HISTORY
    if name in STRICT_STORIES:
        return _strict_story(b, name, one), HISTORY
    return joined, HISTORY


STRICT_STORIES = (
    "join of groups",
    "distinct of groups",
    "distinct of a join",
    "groups of groups",
    "count of a limit",
    "groups of a join",
    "union of groups",
    "came to a join",
)


def _strict_story(b: Builder, name: str, one: Any) -> Any:
    """Operators over input that withdraws rows: with ends that are predicted, and without."""
    other = b.window(6, KX)
    groups = b.group_by(one, ["k"], ("MAX", "x"))
    named = b.project(groups, k=("$.k", STRING), x=("$.MAX_x", INT))
    if name == "count of a limit":
        return b.group_by(b.join(b.top(one, "$.x", 7), other, on=["k"]), [], ("COUNT", None), ("MAX", "k"))
    if name == "union of groups":
        return b.group_by(b.union(named, other), ["x"], ("COUNT", None), ("MAX", "k"))
    if name == "distinct of groups":
        return Distinct(b.project(b.union(named, other), x=("$.x", INT)))
    if name == "groups of groups":
        return b.group_by(
            b.union(named, b.project(named, k=("$.k", STRING), x=("$.x + 1", INT))), ["x"], ("COUNT", None)
        )
    joined = b.join(other, named, on=["k"])
    if name == "distinct of a join":
        return Distinct(b.project(joined, x=(joined.schema[3].sql, INT)))
    if name == "groups of a join":
        return b.group_by(b.project(joined, k=("$.k", STRING), x=(joined.schema[3].sql, INT)), ["x"], ("MIN", "k"))
    return ToStream(joined, Streaming.ISTREAM) if name == "came to a join" else joined


STORIES = ("join", "three", "other key", "all", "limit", "distinct", "istream", "dstream", "rstream", "groups", "union")
BETWEEN = ("came between", "there between", "last results")


@pytest.mark.parametrize("explicit_expiry", [False, True])
@pytest.mark.parametrize("name", [*STORIES, *BETWEEN, "offset", "count of counts", *STRICT_STORIES])
def test_stages_change_nothing(tmp_path: Path, name: str, explicit_expiry: bool) -> None:
    root, history = _story(name)
    plan, ticks = plan_of(root, 2), [0, 4, 6, 8, 20, 22, 30, 36, 60]
    expected = run(plan, history, ticks, explicit_expiry=explicit_expiry)
    found, done = run_staged(
        tmp_path,
        plan,
        history,
        ticks,
        ranges=lambda i: (2, 2, 2, 3, 3, 1, 2, 2)[i],
        merging=lambda i: i == 1,
        lose=lambda i: i in (2, 4),
        explicit_expiry=explicit_expiry,
    )
    assert [rows_of(one) for one in found] == [rows_of(one) for one in expected.changes]
    shown = live_view(done.view(), ticks[-1])
    assert viewed(shown, ticks[-1]) == viewed(live_view([stored(expected.all_changes)], ticks[-1]), ticks[-1])


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(plans(), streams(), st.lists(st.integers(1, 4), min_size=4, max_size=4), st.randoms(use_true_random=False))
def test_random_plans(plan: Any, rows: Any, ranges: list[int], chance: Any) -> None:
    history = [[(t, tuple(row[name] for name in COLUMNS)) for t, row in rows[w.stream]] for w in plan.windows]
    ticks = [-plan.step, *(plan.step * n for n in (2, 3, 6, 20))]
    expected = run(plan, history, ticks)
    with tempfile.TemporaryDirectory() as directory:
        found, _ = run_staged(
            Path(directory),
            plan,
            history,
            ticks,
            ranges=lambda i: ranges[i],
            merging=lambda i: chance.random() < 0.3,
            lose=lambda i: chance.random() < 0.5,
        )
    assert [rows_of(one) for one in found] == [rows_of(one) for one in expected.changes]


def test_double_keys() -> None:
    """−0.0 and 0.0, and all NaN, are one key in every place."""
    b = Builder()
    node = b.group_by(b.window(10, {"d": DOUBLE}), ["d"], ("COUNT", None))
    plan = plan_of(node)
    history = [[(0, (0.0,)), (1, (-0.0,)), (2, (float("nan"),)), (3, (float("nan"),)), (4, (None,))]]
    with tempfile.TemporaryDirectory() as directory:
        found, _ = run_staged(Path(directory), plan, history, [0, 5, 30], ranges=lambda i: 4)
    expected = run(plan, history, [0, 5, 30])
    assert [str(rows_of(one)) for one in found] == [str(rows_of(one)) for one in expected.changes]
