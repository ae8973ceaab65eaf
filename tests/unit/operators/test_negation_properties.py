"""Random plans of negation, outer joins, set operations and count-based windows over random tuples: the changes,
replayed at every tick, are the answers by definition; in any batches, with restarts, and in stages."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.continuous import DOUBLE, INT, STRING, Builder, assert_by_definition, batch_ends, plan_of, run, shown
from support.staged import run_staged

from windrow.operators.changes import stored
from windrow.operators.negation.coverage import Intervals, gaps, united
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Distinct,
    Lifetime,
    Node,
    OutputWindow,
    SetKind,
    Streaming,
    ToStream,
)

LAST = 24
EXAMPLES = int(os.environ.get("WINDROW_OPERATOR_EXAMPLES", "30"))
COLUMNS = {"k": INT, "x": DOUBLE, "s": STRING}
CONDITIONS = [None, None, "$0.k <= $1.k", "$0.x < $1.x OR $0.s = $1.s", "$1.k > 0", "$0.s IS NULL OR $1.s IS NULL"]

keys = st.one_of(st.none(), st.integers(0, 2))
numbers = st.one_of(st.none(), st.sampled_from([-0.0, 0.0, 1.5, float("nan")]))
texts = st.one_of(st.none(), st.sampled_from(["", "a"]))
tuples = st.lists(st.tuples(st.integers(0, 15), st.tuples(keys, numbers, texts)), max_size=10)


@st.composite
def relations(draw: Any, b: Builder, depth: int) -> Node:
    """A node with the columns k, x and s."""
    kinds = ["window", "rows", "semi", "semi", "outer", "outer", "set", "set", "other", "other"]
    kind = draw(st.sampled_from(kinds if depth else ["window", "window", "rows"]))
    if kind == "window":
        range_ = draw(st.one_of(st.integers(1, 9), st.integers(3, 6), st.none()))
        return b.window(range_, COLUMNS, draw(st.sampled_from([0, 0, 0, 2])))
    if kind == "rows":
        return b.rows_window(draw(st.integers(1, 4)), COLUMNS, draw(st.sampled_from([(), (), ("k",), ("x", "s")])))
    one = draw(relations(b, depth - 1))
    if kind == "other":
        return draw(others(b, depth, one))
    other = draw(relations(b, depth - 1))
    if kind == "set":
        return b.set_operation(one, other, draw(st.sampled_from(SetKind)), draw(st.booleans()))
    on = draw(st.sampled_from([["k"], ["x"], ["k", "s"], []]))
    condition = draw(st.sampled_from(CONDITIONS))
    if kind == "semi":
        safe = tuple(draw(st.booleans()) for _ in on) if draw(st.booleans()) else ()
        return b.semi_join(one, other, on, condition, is_anti=draw(st.booleans()), null_safe=safe)
    keeps = draw(st.sampled_from([(True, False), (False, True), (True, True)]))
    joined = b.outer_join(one, other, on, condition, keeps_left=keeps[0], keeps_right=keeps[1])
    left, right = one.schema, other.schema
    return b.project(joined, k=(left[0].sql, INT), x=(right[1].sql, DOUBLE), s=(right[2].sql, STRING))


@st.composite
def others(draw: Any, b: Builder, depth: int, one: Node) -> Node:
    """An operator that is not negation, over a node."""
    kind = draw(st.sampled_from(["filter", "project", "stream", "join", "union", "distinct", "group", "top"]))
    if kind == "filter":
        return b.filter(one, draw(st.sampled_from(["$.k > 0", "$.x < 2.0 OR $.s IS NULL", "NOT $.s = 'a'"])))
    if kind == "project":
        return b.project(one, k=("$.k + 1", INT), x=("$.x", DOUBLE), s=("$.s", STRING))
    if kind == "stream":
        stream = ToStream(one, draw(st.sampled_from([Streaming.ISTREAM, Streaming.DSTREAM])))
        return OutputWindow(stream, Lifetime(draw(st.integers(1, 6))))
    if kind == "distinct":
        return Distinct(one)
    if kind == "group":
        grouped = b.group_by(one, ["s"], ("MAX", "k"), ("COUNT", None))
        s, k, n = grouped.schema
        return b.project(grouped, k=(k.sql, INT), x=(f"CAST({n.sql} AS DOUBLE)", DOUBLE), s=(s.sql, STRING))
    if kind == "top":
        return b.top(one, "$.k", draw(st.integers(1, 3)), draw(st.booleans()))
    other = draw(relations(b, depth - 1))
    if kind == "union":
        return b.union(one, other)
    joined = b.join(one, other, on=draw(st.sampled_from([["k"], ["k", "s"]])))
    return b.project(joined, k=("$.k", INT), x=(other.schema[1].sql, DOUBLE), s=("$.s", STRING))


@st.composite
def cases(draw: Any) -> tuple[ContinuousPlan, list[list[Any]]]:
    b = Builder()
    plan = plan_of(draw(relations(b, draw(st.sampled_from([1, 1, 2, 3])))), draw(st.sampled_from([1, 1, 2, 5])))
    return plan, [draw(tuples) for _ in plan.windows]


cuts = st.one_of(st.lists(st.integers(1, LAST), max_size=6), st.just(list(range(1, LAST))))
several = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


@several
@given(cases(), cuts)
def test_replayed_changes_are_the_answers(case, drawn):
    plan, history = case
    ticks = batch_ends(plan, drawn, LAST)
    assert_by_definition(plan, history, run(plan, history, ticks).all_changes, ticks[-1])


@several
@given(cases(), cuts, cuts, st.data())
def test_batches_and_restarts_do_not_matter(case, one, other, data):
    plan, history = case
    how = {tick: data.draw(st.sampled_from([None, "parts", "compacted"])) for tick in batch_ends(plan, one, LAST)}
    first = run(plan, history, batch_ends(plan, one, LAST), restart=how.get)
    second = run(plan, history, batch_ends(plan, other, LAST))
    assert shown(first.all_changes) == shown(second.all_changes)


@settings(max_examples=EXAMPLES // 2, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), cuts, st.integers(0, 1 << 20))
def test_stages_do_not_matter(case, drawn, seed):
    plan, history = case
    rng, ticks = Random(seed), batch_ends(plan, drawn, LAST)
    how: dict[str, Any] = {name: lambda batch: rng.random() < 0.3 for name in ("merging", "lose")}
    with tempfile.TemporaryDirectory() as directory:
        tables, _ = run_staged(Path(directory), plan, history, ticks, lambda batch: rng.choice([2, 2, 3]), **how)
    whole = shown(stored(run(plan, history, ticks).all_changes))
    assert [text for table in tables for text in shown(table)] == whole


intervals = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.integers(1, 6)), max_size=12)


@given(intervals)
def test_united_intervals_and_gaps(drawn):
    owner, start, length = (np.array([one[i] for one in drawn], np.int64) for i in range(3))
    found = united(Intervals(owner, start, start + length))
    low, high = np.zeros(4, np.int64), np.full(4, 20, np.int64)
    rest = gaps(found, low, high)
    for one in range(4):
        covered = {tick for o, s, n in drawn if o == one for tick in range(s, s + n)}
        runs = sorted((int(s), int(e)) for o, s, e in zip(found.owner, found.start, found.end, strict=True) if o == one)
        assert {tick for s, e in runs for tick in range(s, e)} == covered
        assert all(a[1] < b[0] for a, b in zip(runs, runs[1:], strict=False))
        left = [
            tick for o, s, e in zip(rest.owner, rest.start, rest.end, strict=True) if o == one for tick in range(s, e)
        ]
        assert sorted(left) == sorted(set(range(20)) - covered)
