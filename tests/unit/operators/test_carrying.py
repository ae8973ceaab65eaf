"""A plan takes the place of another: from then on it gives what it would have given alone, and sub-plans that both have
are not read again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from sqlglot import exp
from support.continuous import KERNEL, counted, inputs_of, plain, replayed, rows_of, run, stored
from support.matrix import sized
from support.plan_builder import BIGINT, COLUMNS, INT, Maker, at, join, keep, over, plan, plans, streams

from windrow.operators.advance import advance
from windrow.operators.carrying.carrying import CarriedState, carry, rebuild
from windrow.operators.carrying.difference import difference
from windrow.operators.carrying.matching import same_subplans
from windrow.operators.changes import AT, changes_schema, in_order
from windrow.operators.changes import stored as stored_changes
from windrow.operators.state import PlanState, compacted, has_internal, restore
from windrow.operators.ticks import DueTicks
from windrow.operators.view import beginning
from windrow.optimizer.common_subplan import numbered_in_order
from windrow.plan.aggregates import decompose
from windrow.plan.algebra.nodes import (
    Aggregated,
    ContinuousPlan,
    Distinct,
    Filter,
    GroupBy,
    Join,
    Node,
    OutputRows,
    OutputWindow,
    Streaming,
    StreamWindow,
    TopRows,
    ToStream,
    walk,
)
from windrow.plan.nodes import Order
from windrow.reference.window_operators import WindowOperators

ANY: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}
TICKED, LAST = 8, 26


def history_of(one: ContinuousPlan, rows: Any) -> Any:
    return [[(t, tuple(row[name] for name in COLUMNS)) for t, row in rows[w.stream]] for w in one.windows]


def first_tick(one: ContinuousPlan, rows: Any) -> int:
    """The tick before all tuples, as a query begins."""
    points = [t for w in one.windows for t, _ in rows[w.stream]]
    return min(points) // one.step * one.step


def is_filtered_stream(one: ContinuousPlan) -> bool:
    """Whether a selection stands above ISTREAM, DSTREAM or RSTREAM: no text says that."""
    return isinstance(one.root, Filter) and isinstance(one.root.input, ToStream)


def others(node: Node) -> st.SearchStrategy[Node]:
    """Another plan over a node of the plan, whose columns get other numbers."""
    first = 1_000

    @st.composite
    def made(draw: st.DrawFn) -> Node:
        maker = Maker(first)
        below = draw(st.sampled_from([one for one in walk(node) if not isinstance(one, OutputWindow | ToStream)]))
        kind = draw(st.sampled_from(["same", "joined", "distinct", "group", "max", "top", "filter", "union"]))
        column = below.schema[0]
        event(kind)
        if kind == "distinct":
            return Distinct(below)
        if kind in ("group", "max"):
            name = "SUM" if kind == "group" else "MAX"
            call = decompose(name, column.sql, column.type, None)
            count = decompose("COUNT", None, None, None)
            aggregates = (
                Aggregated(maker.column("m", call.result), call),
                Aggregated(maker.column("n", BIGINT), count),
            )
            return GroupBy(below, (below.schema[-1],), aggregates)
        if kind == "top":
            return TopRows(below, (Order(exp.column(column.sql), True, False),), 2)
        if kind == "filter":
            return Filter(below, exp.column(column.sql).is_(exp.Null()).not_())
        if kind == "joined":
            window = maker.window("r", 4)
            key = next((c for c in below.schema if c.type == INT), None)
            keys = () if key is None else ((exp.column(at(window, "k").sql), exp.column(key.sql)),)
            return Join((window, below), keys)
        if kind == "union" and [c.type for c in below.schema] == [INT] * 3:
            return maker.union(maker.window("q", 5), below)
        return below

    return made()


def replaced(
    old: ContinuousPlan, new: ContinuousPlan, rows: Any, restart: bool
) -> tuple[CarriedState, Any, pa.Table | None]:
    """The new plan in place of the old one at TICKED, and what was reported up to then: all changes of the old plan and
    the difference of the answers if the columns are the same, else the new answer."""
    ran = run(old, history_of(old, rows), sorted({first_tick(old, rows), 4, TICKED}))
    state = ran.state
    if restart:
        state = restore(old, compacted(state), TICKED)
    answer = beginning(stored_changes(ran.all_changes), TICKED)
    carried = carry(old, state, new, TICKED, answer)
    tables = stored(new, history_of(new, rows))
    read = {i: table for i, table in enumerate(tables) if i not in carried.windows}
    made = rebuild(new, carried, read, TICKED, KERNEL)
    is_same = [one.type for one in old.schema] == [one.type for one in new.schema]
    if made.answer is None or not is_same or any(isinstance(one, ToStream) for one in walk(old.root)):
        return carried, made, made.answer
    news = difference(answer, made.answer, TICKED + new.step)
    return carried, made, pa.concat_tables([stored_changes(ran.all_changes), news])


def check_from(new: ContinuousPlan, rows: Any, state: PlanState, answer: pa.Table | None, start: int) -> None:
    """The plan goes on from a state and gives what it gives by definition; a stream what it gives alone."""
    tables, changes = stored(new, history_of(new, rows)), []
    for before, upto in ((TICKED, TICKED + 2), (TICKED + 2, LAST)):
        due = DueTicks(before, upto, new.step)
        done = advance(new, state, inputs_of(new, tables, due), due, KERNEL)
        state, changes = restore(new, compacted(done.state), upto), [*changes, in_order([done.changes])]
    made = pa.concat_tables(changes)
    if answer is None:
        alone = run(new, history_of(new, rows), [start, TICKED, LAST]).all_changes
        after = Counter(plain(row) for row in rows_of(alone) if row[AT] > TICKED)
        assert Counter(plain(row) for row in rows_of(made)) == after
        return
    every = pa.concat_tables([answer.rename_columns(made.column_names).cast(made.schema), made])
    by_definition = WindowOperators(new, history_of(new, rows), start + new.step)
    for tick in range(TICKED + new.step, LAST + 1, new.step):
        found, expected = replayed(every, tick), counted(by_definition.answer(tick))
        assert found == expected, f"at tick {tick}: {found - expected} instead of {expected - found}"


@pytest.mark.matrix
@settings(max_examples=sized(40, 200, 400), **ANY)
@given(st.data(), plans(), streams(), st.booleans(), st.booleans())
def test_the_new_plan_goes_on_as_if_alone(data: Any, one: Any, rows: Any, restart: bool, related: bool) -> None:
    old = numbered_in_order(one)
    new = replace(old, root=data.draw(others(old.root))) if related else data.draw(plans())
    new = numbered_in_order(new)
    if has_internal(old) or has_internal(new) or is_filtered_stream(old) or is_filtered_stream(new):
        return
    _, made, reported = replaced(old, new, rows, restart)
    start = min(first_tick(old, rows), first_tick(new, rows))
    assert (made.answer is None) == isinstance(new.root, ToStream)
    check_from(new, rows, made.state, reported, start)


# -- what is carried -------------------------------------------------------------------------------

ROWS = {
    "s": [(t, {"k": t % 2, "x": t, "y": 1}) for t in range(20)],
    "r": [(t, {"k": 1, "x": t, "y": 2}) for t in (1, 6)],
}


def grouped(maker: Maker, node: Node) -> GroupBy:
    return maker.group(node, ("k",), n="COUNT", total="SUM x", most="MAX x")


def carried_of(old: Node, new: Node) -> CarriedState:
    """What is carried, and the new plan goes on right."""
    plans = [numbered_in_order(plan(one)) for one in (old, new)]
    carried, made, reported = replaced(*plans, ROWS, restart=True)
    check_from(plans[1], ROWS, made.state, reported, 0)
    return carried


def test_filter_over_groups() -> None:
    maker = Maker()
    groups = grouped(maker, maker.window("s", 5))
    found = carried_of(groups, keep(groups, "n > 2"))
    assert (found.rebuilt, dict(found.windows), sorted(found.outputs)) == ((), {0: 0}, ["0.0"])


def test_limit_over_groups_reads_no_tuple() -> None:
    maker = Maker()
    groups = grouped(maker, maker.window("s", 5))
    found = carried_of(groups, TopRows(groups, (Order(over(groups, "n"), True, False),), 1))
    assert (found.rebuilt, dict(found.windows)) == (("0",), {0: 0})


def test_groups_whose_columns_get_other_numbers() -> None:
    maker, other = Maker(), Maker(50)
    groups = grouped(maker, maker.window("s", 5))
    again = grouped(other, other.window("s", 5))
    found = carried_of(groups, join(other.window("r", 9), again))
    assert found.rebuilt == ("0",) and dict(found.windows) == {1: 0}
    assert set(found.tables) == {"0.1", "0.1/cells"}


def test_other_window_is_read_again() -> None:
    maker = Maker()
    found = carried_of(grouped(maker, maker.window("s", 5)), grouped(maker, maker.window("s", 6)))
    assert found.rebuilt == ("0",) and not found.windows and not found.tables


def test_inputs_that_a_join_keeps() -> None:
    """The old rows of a join's input are all that is left of its output."""
    maker = Maker()
    inputs = [Distinct(maker.project(maker.window("s", 7), k="k")), maker.window("r", 9)]
    united = maker.union(maker.project(maker.window("s", 7), k="k"), maker.project(maker.window("r", 9), k="k"))
    found = carried_of(join(inputs[1], united), Distinct(united))
    assert dict(found.windows) == {0: 1, 1: 2}
    found = carried_of(join(*inputs), join(maker.window("r", 4), inputs[0]))
    assert dict(found.windows) == {1: 0}


def test_same_plan_keeps_all() -> None:
    maker, other = Maker(), Maker(70)
    old, new = (numbered_in_order(plan(grouped(one, one.window("s", 5)))) for one in (maker, other))
    carried, made, _ = replaced(old, new, ROWS, restart=False)
    assert carried.is_whole and not carried.rebuilt
    assert made.state.sizes == run(old, history_of(old, ROWS), [0, TICKED]).state.sizes


def test_other_ticks_carry_nothing() -> None:
    maker = Maker()
    groups = grouped(maker, maker.window("s", 5))
    assert same_subplans(plan(groups, 1), plan(groups, 2)) == {}
    assert set(same_subplans(plan(groups, 2), plan(groups, 2))) == {"0", "0.0"}


def test_answer_is_what_is_left_of_a_selection() -> None:
    """A window without a join keeps no tuple: the old answer has them."""
    maker = Maker()
    window = maker.window("s", 5)
    old, new = numbered_in_order(plan(window)), numbered_in_order(plan(grouped(maker, window)))
    carried, made, reported = replaced(old, new, ROWS, restart=False)
    assert dict(carried.windows) == {0: 0}
    check_from(new, ROWS, made.state, reported, 0)
    assert not carry(old, PlanState({}, TICKED), new, TICKED, None).windows


def test_answer_has_the_births_of_its_rows() -> None:
    maker = Maker()
    window = maker.window("s", 5)
    old, new = numbered_in_order(plan(window)), numbered_in_order(plan(keep(window, "k = 1")))
    _, made, _ = replaced(old, new, ROWS, restart=False)
    assert made.answer is not None and changes_schema(new.schema).names[:4] == ["op", "tick", "ts", "exp"]
    found = [(row[0], row[1], row[2], row[3]) for row in rows_of(made.answer)]
    assert found == [("+", 8, 3, 8), ("+", 8, 5, 10), ("+", 8, 7, 12)]
    assert isinstance(window, StreamWindow)


@pytest.mark.parametrize("kind", [Streaming.ISTREAM, Streaming.RSTREAM])
def test_restore_is_built_of_instants(kind: Streaming) -> None:
    """Below RESTORE state is of instants, not of ticks: nothing is carried into it or out of it."""
    maker = Maker()
    distinct = Distinct(maker.project(maker.window("s", 5), k="k"))
    pair = [numbered_in_order(plan(ToStream(distinct, kind, restores), 2)) for restores in (False, True)]
    for old, new in (pair, pair[::-1]):
        carried, made, _ = replaced(old, new, ROWS, restart=True)
        assert not carried.windows and made.answer is None
        check_from(new, ROWS, made.state, None, 0)


# -- count-based windows of another size -----------------------------------------------------------


@pytest.mark.parametrize("by", [(), ("k",)])
def test_fewer_rows_are_there_at_once(by: tuple[str, ...]) -> None:
    maker, other = Maker(), Maker(50)
    old, new = maker.rows_window("s", 5, by), other.rows_window("s", 3, by)
    found = carried_of(old, new)
    assert (dict(found.windows), found.lacking, found.rebuilt) == ({0: 0}, frozenset(), ())
    found = carried_of(grouped(maker, old), join(other.window("r", 9), new))
    assert (dict(found.windows), found.lacking, found.rebuilt) == ({1: 0}, frozenset(), ("0",))


def test_fewer_results_are_there_at_once() -> None:
    window = Maker().window("s", None)
    found = carried_of(OutputRows(window, 4), OutputRows(window, 2))
    assert (dict(found.windows), found.lacking, found.rebuilt) == ({0: 0}, frozenset(), ())


def test_a_window_that_was_not_full_has_all_rows() -> None:
    maker = Maker()
    found = carried_of(maker.rows_window("r", 4), maker.rows_window("r", 9))
    assert (dict(found.windows), found.lacking) == ({0: 0}, frozenset())


tuples = st.lists(st.tuples(st.integers(0, LAST - 2), st.integers(0, 2)), max_size=30)


@settings(max_examples=60, **ANY)
@given(tuples, st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_more_rows_fill_up(given_rows: Any, was: int, size: int, again: int, is_partitioned: bool) -> None:
    """What the old window had stays, and is not reported again. The window may be replaced while it fills up."""
    by, seen = ("k",) if is_partitioned else (), dict[int, list[int]]()
    rows = {"s": [(t, {"k": k, "x": i, "y": 0}) for i, (t, k) in enumerate(sorted([(0, 0), *given_rows]))], "r": []}
    old, new, last = (numbered_in_order(plan(Maker().rows_window("s", one, by))) for one in (was, size, again))
    for t, row in rows["s"]:
        if t < TICKED:
            seen.setdefault(row["k"] if by else 0, []).append(row["x"])
    carried, made, reported = replaced(old, new, rows, restart=True)
    assert bool(carried.lacking) == (size > was and any(len(some) > was for some in seen.values()))
    assert reported is not None and made.answer is not None
    kept = {k: some[-was:][-size:] for k, some in seen.items()}
    assert sorted(row[5] for row in rows_of(made.answer)) == sorted(x for some in kept.values() for x in some)
    gone = sum(len(some[-was:]) - len(kept[k]) for k, some in seen.items())
    news = [row[0] for row in rows_of(reported) if row[AT] == TICKED + 1]
    assert news == ["-"] * gone
    state = restore(new, compacted(made.state), TICKED)
    final = carry(new, state, last, TICKED, made.answer)
    state, changes = rebuild(last, final, {}, TICKED, KERNEL).state, []
    tables, kept = stored(last, history_of(last, rows)), {k: some[-again:] for k, some in kept.items()}
    shown = Counter(x for some in kept.values() for x in some)
    for tick in range(TICKED + 1, LAST + 1):
        due = DueTicks(tick - 1, tick, 1)
        done = advance(last, state, inputs_of(last, tables, due), due, KERNEL)
        state, changes = done.state, rows_of(done.changes)
        for op, *_, x, _ in changes:
            shown[x] += 1 if op == "+" else -1
        for t, row in rows["s"]:
            if t == tick - 1:
                kept.setdefault(row["k"] if by else 0, []).append(row["x"])
        assert +shown == Counter(x for some in kept.values() for x in some[-again:]), tick


# -- the difference of answers ---------------------------------------------------------------------


def answer(*rows: tuple[int, int | None, Any]) -> pa.Table:
    """Rows of (ts, exp, value) as stored changes."""
    columns = [["+"] * len(rows), [8] * len(rows), *(list(one) for one in zip(*rows, strict=True))]
    kinds = (pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.int32())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=False)]
    return pa.table(arrays, names=["op", "tick", "ts", "exp", "v0"])


def test_difference() -> None:
    old = answer((1, 12, 5), (2, 12, 5), (3, None, 7), (4, 9, None), (4, 8, 1))
    new = answer((7, 12, 5), (3, 11, 7), (5, 9, None), (5, 9, None), (5, 8, 2))
    found = rows_of(difference(old, new, 9))
    assert found == [
        ("-", 9, 8, 12, 5),
        ("-", 9, 8, None, 7),
        ("+", 9, 3, 11, 7),
        ("+", 9, 5, 9, None),
    ], "rows with equal values and the same end are in both; those that end before the tick are in neither"
    assert not difference(old, old, 9).num_rows
