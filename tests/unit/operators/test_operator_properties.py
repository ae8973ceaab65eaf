"""Random plans over random tuples: the changes, replayed at every tick, are the answers by definition; in any batches,
with restarts, and with state that goes when the streams fall silent."""

from __future__ import annotations

import os
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.continuous import (
    DOUBLE,
    INT,
    KERNEL,
    STRING,
    Builder,
    assert_by_definition,
    batch_ends,
    batches_of,
    counted,
    inputs_of,
    plan_of,
    run,
    shown,
    stored,
    viewed,
)

from windrow.errors import UnsupportedError
from windrow.operators.advance import advance
from windrow.operators.changes import changes_schema, in_order
from windrow.operators.distinct import distinct_schema
from windrow.operators.state import PlanState, is_strict
from windrow.operators.view import LiveView
from windrow.optimizer.execution import DIRECT, NEGATIVE, executed
from windrow.plan.algebra.nodes import (
    ContinuousPlan,
    Distinct,
    GroupBy,
    Join,
    Lifetime,
    Node,
    OutputRows,
    OutputWindow,
    Streaming,
    ToStream,
    walk,
)
from windrow.reference.window_operators import WindowOperators

LAST = 24
EXAMPLES = int(os.environ.get("WINDROW_OPERATOR_EXAMPLES", "25"))
COLUMNS = {"k": INT, "x": DOUBLE, "s": STRING}
AGGREGATES = [
    ("COUNT", None),
    ("COUNT", "x"),
    ("SUM", "k"),
    ("SUM", "x"),
    ("AVG", "x"),
    ("MIN", "s"),
    ("MAX", "x"),
    ("VARIANCE", "k"),
    ("MEDIAN", "x"),
    ("QUANTILE", "s", Decimal("0.5")),
    ("COUNT(DISTINCT)", "x"),
    ("TOP_K", "s", 2),
    ("FREQUENT_ITEMS", "s", 2),
]

GROUPED: list[tuple[list[str], list[tuple[Any, ...]], tuple[str, str, str]]] = [
    (["k"], [("MAX", "x"), ("MIN", "s")], ("$.k", "$.MAX_x", "$.MIN_s")),
    (["k", "s"], [("COUNT", None)], ("$.k", "CAST($.COUNT_None AS DOUBLE)", "$.s")),
    (["s"], [("SUM", "k"), ("COUNT", "x")], ("CAST($.COUNT_x AS INT)", "CAST($.SUM_k AS DOUBLE)", "$.s")),
    (["s"], [("SUM", "x"), ("COUNT(DISTINCT)", "k")], ("CAST($.COUNT(DISTINCT)_k AS INT)", "$.SUM_x", "$.s")),
    ([], [("SUM", "k"), ("AVG", "x"), ("MAX", "s")], ("CAST($.SUM_k AS INT)", "$.AVG_x", "$.MAX_s")),
    (["k"], [("MEDIAN", "x"), ("QUANTILE", "s", Decimal("0.5"))], ("$.k", "$.MEDIAN_x", "$.QUANTILE_s")),
]
"""Sub-queries with GROUP BY: keys, aggregates, and the columns k, x and s of them."""

keys = st.one_of(st.none(), st.integers(0, 2))
numbers = st.one_of(st.none(), st.sampled_from([-0.0, 0.0, 1.5, 2.0, float("nan")]))
texts = st.one_of(st.none(), st.sampled_from(["", "a", "b"]))
tuples = st.lists(st.tuples(st.integers(0, 15), st.tuples(keys, numbers, texts)), max_size=8)


@st.composite
def lifetimes(draw: Any, internal: bool | None) -> dict[str, Any]:
    internal = draw(st.booleans()) if internal is None else internal
    range_ = draw(st.one_of(st.integers(1, 9), st.integers(3, 6), st.none()))
    return {"range_": range_, "offset": draw(st.sampled_from([0, 0, 0, 2])), "internal": internal}


@st.composite
def relations(draw: Any, b: Builder, depth: int, internal: bool | None = False) -> Node:
    """A node with the columns k, x and s. `internal` None: some windows are INTERNAL; only over others may something
    be withdrawn."""
    kinds = ["window", "window"]
    if depth:
        kinds += ["filter", "project", "union", "join", "join"]
        strict = ["group", "group", "top"]
        kinds += ["distinct", "distinct", "stream", "appended", *strict] if internal is False else []
    kind = draw(st.sampled_from(kinds))
    if kind == "window":
        return b.window(columns=COLUMNS, **draw(lifetimes(internal)))
    if kind == "stream":
        one = draw(relations(b, depth - 1, draw(st.sampled_from([False, False, True, None]))))
        kind_of = draw(st.sampled_from([Streaming.ISTREAM, Streaming.DSTREAM]))
        stream = ToStream(one, kind_of, kind_of is Streaming.ISTREAM and draw(st.booleans()))
        if draw(st.integers(0, 3)) == 0:
            return OutputRows(stream, draw(st.integers(1, 4)))
        return OutputWindow(stream, Lifetime(draw(st.integers(1, 6)), draw(st.sampled_from([0, 1]))))
    if kind == "appended":
        return OutputWindow(draw(relations(b, depth - 1, True)), Lifetime(draw(st.integers(1, 6))))
    one = draw(relations(b, depth - 1, internal))
    if kind == "group":
        keys, calls, columns = draw(st.sampled_from(GROUPED))
        made = b.group_by(one, keys, *calls)
        return b.project(made, k=(columns[0], INT), x=(columns[1], DOUBLE), s=(columns[2], STRING))
    if kind == "top":
        return b.top(one, f"$.{draw(st.sampled_from(sorted(COLUMNS)))}", draw(st.integers(1, 3)), draw(st.booleans()))
    if kind == "filter":
        return b.filter(one, draw(st.sampled_from(["$.k > 0", "$.x < 2.0 OR $.s IS NULL", "NOT $.s = 'a'"])))
    if kind == "project":
        return b.project(one, k=("$.k + 1", INT), x=("$.x", DOUBLE), s=("$.s", STRING))
    if kind == "union":
        return b.union(one, draw(relations(b, depth - 1, internal)))
    if kind == "distinct":
        return Distinct(one)
    others = [draw(relations(b, depth - 1, internal)) for _ in range(draw(st.sampled_from([1, 1, 2])))]
    on = draw(st.sampled_from([["k"], ["x"], ["k", "s"], []]))
    condition = draw(st.sampled_from([None, "$0.k <= $1.k", "$0.x < $1.x OR $0.s = $1.s"]))
    joined = b.join(one, *others, on=on, condition=condition)
    first = joined.inputs[0].schema
    last = joined.inputs[-1].schema
    return b.project(joined, k=(first[0].sql, INT), x=(last[1].sql, DOUBLE), s=(last[2].sql, STRING))


@st.composite
def roots(draw: Any, b: Builder) -> Node:
    internal = draw(st.sampled_from([False, False, False, True, None]))
    node: Node = draw(relations(b, draw(st.sampled_from([1, 2, 3])), internal))
    grouped = [] if internal is None else ["group"] * 3
    kind = draw(st.sampled_from(["plain", *grouped, "top", "stream"]))
    if kind == "group":
        calls = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=4, unique=True))
        node = b.group_by(node, draw(st.sampled_from([[], ["k"], ["x"], ["k", "s"]])), *calls)
        if draw(st.booleans()) and node.keys:
            node = b.filter(node, f"$.{node.keys[0].name} >= 0")
        kind = draw(st.sampled_from(["plain", "plain", "top", "stream"])) if not internal else "plain"
    if kind == "top":
        return b.top(node, f"$.{node.schema[0].name}", draw(st.integers(0, 3)), draw(st.booleans()))
    if kind == "stream":
        made = draw(st.sampled_from(Streaming))
        return ToStream(node, made, made is not Streaming.DSTREAM and draw(st.booleans()))
    return node


@st.composite
def cases(draw: Any) -> tuple[ContinuousPlan, list[list[Any]]]:
    b = Builder()
    plan = plan_of(draw(roots(b)), draw(st.sampled_from([1, 1, 2, 5])))
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
@given(cases(), cuts, st.sampled_from([NEGATIVE, DIRECT]), st.data())
def test_strategies_give_the_same_answers(case, drawn, execution, data):
    plan, history = case
    try:
        ran = executed(plan, execution)
    except UnsupportedError:
        return
    ticks = batch_ends(plan, drawn, LAST)
    how = {tick: data.draw(st.sampled_from([None, None, "parts", "compacted"])) for tick in ticks}
    done = run(ran, history, ticks, restart=how.get)
    assert_by_definition(plan, history, done.all_changes, ticks[-1])


@several
@given(cases(), cuts, cuts)
def test_batches_do_not_matter(case, one, other):
    plan, history = case
    first, second = (run(plan, history, batch_ends(plan, drawn, LAST)) for drawn in (one, other))
    assert shown(first.all_changes) == shown(second.all_changes)


@several
@given(cases(), cuts, st.data())
def test_restored_state_continues(case, drawn, data):
    plan, history = case
    ticks = batch_ends(plan, drawn, LAST)
    how = {tick: data.draw(st.sampled_from([None, "parts", "compacted"])) for tick in ticks}
    restarted = run(plan, history, ticks, restart=how.get)
    assert shown(restarted.all_changes) == shown(run(plan, history, ticks).all_changes)


@several
@given(cases(), cuts, st.booleans())
def test_views_are_the_answers(case, drawn, explicit):
    plan, history = case
    ticks = batch_ends(plan, drawn, LAST)
    naive = WindowOperators(plan, history, plan.step)
    view = LiveView.empty(changes_schema(plan.schema))

    def check(made, tick):
        nonlocal view
        view = view.after(made.changes[-1], tick)
        assert viewed(view, tick) == counted(naive.answer(tick))
        assert viewed(LiveView.from_table(view.compacted()), tick) == viewed(view, tick)

    run(plan, history, ticks, each=check, explicit_expiry=explicit)


@several
@given(cases(), cuts)
def test_a_call_can_be_repeated(case, drawn):
    """Nothing is changed in place: every state continues as it did the first time."""
    plan, history = case
    ticks = batch_ends(plan, drawn, LAST)
    states: list[PlanState] = [PlanState()]
    done = run(plan, history, ticks, each=lambda made, tick: states.append(made.state))
    tables = stored(plan, history)
    for state, due, changes in zip(states, batches_of(ticks, plan.step), done.changes, strict=False):
        again = advance(plan, state, inputs_of(plan, tables, due), due, KERNEL)
        assert shown(in_order([again.changes])) == shown(changes)


def is_bounded(plan: ContinuousPlan) -> bool:
    """Whether nothing in the plan lives for ever."""
    for node in walk(plan.root):
        lifetime = getattr(node, "lifetime", None)
        if lifetime is not None and (lifetime.range is None or lifetime.internal):
            return False
    return not any(isinstance(node, ToStream) and node is not plan.root for node in walk(plan.root))


@several
@given(cases(), cuts)
def test_silence_empties_the_state(case, drawn):
    plan, history = case
    if not is_bounded(plan):
        return
    end = 200 * plan.step
    done = run(plan, history, [*batch_ends(plan, drawn, LAST), end, end + plan.step, 2 * end])
    # An ungrouped aggregate has a row for ever.
    forever = {node for node in walk(plan.root) if isinstance(node, GroupBy) and not node.keys}
    assert forever or done.state.nbytes == 0, done.state.sizes


@settings(max_examples=EXAMPLES, deadline=None)
@given(tuples, st.sampled_from([1, 2, 5]), cuts)
def test_distinct_keeps_at_most_its_output(rows, step, drawn):
    b = Builder()
    node = Distinct(b.window(6, COLUMNS))
    plan = plan_of(node, step)
    naive = WindowOperators(plan, [rows], step)

    def check(made, tick):
        state = made.state.tables.get("0")
        kept = 0 if state is None else state.count
        assert kept <= len(naive.answer(tick))
        assert len(distinct_schema(node)) == len(COLUMNS) + 2

    run(plan, [rows], batch_ends(plan, drawn, LAST), each=check)


def test_strict_plans_are_known():
    b = Builder()
    grouped = b.group_by(b.window(3, COLUMNS), ["k"], ("COUNT", None))
    assert is_strict(b.filter(grouped, "$.k > 0"))
    assert not is_strict(ToStream(grouped, Streaming.ISTREAM))
    assert not is_strict(b.group_by(b.window(3, COLUMNS, internal=True), ["k"], ("COUNT", None)))


def test_no_tuples_at_all():
    b = Builder()
    plan = plan_of(b.join(b.window(3, COLUMNS), b.window(3, COLUMNS), on=["k"]))
    done = run(plan, [[], []], [0, 5])
    assert done.all_changes.num_rows == 0 and isinstance(done.all_changes, pa.Table)
    assert isinstance(plan.root, Join)
