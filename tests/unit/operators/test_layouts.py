"""The layouts of state: what they hold, what they drop, and their durable parts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.continuous import INT, STRING, Builder, plan_of, rows_of, run

from windrow.operators.layouts.calendar import Calendar
from windrow.operators.layouts.keyed import Keyed, gone_rows
from windrow.operators.layouts.parts import Layout
from windrow.operators.layouts.queue import RowQueue
from windrow.operators.scan import needs_history, reach
from windrow.operators.state import empty_tables, interval
from windrow.operators.tables import rows as values
from windrow.operators.ticks import NEVER, TS
from windrow.plan.algebra.nodes import Distinct, Lifetime, OutputWindow, Streaming, ToStream
from windrow.reference.duplicate_elimination import delta_star
from windrow.reference.window_operators import WindowOperators

SCHEMA = pa.schema([("x", pa.int64()), ("v", pa.string())])


def table(*points):
    return pa.table({"x": pa.array(points, pa.int64()), "v": [str(p) for p in points]})


def test_calendar_drops_whole_intervals():
    calendar = Calendar("x", 10).appended(table(5, 9, 10, 25, NEVER)).appended(table(7, 12))
    assert sorted(calendar.rows(8, SCHEMA).column("x").to_pylist()) == [9, 10, 12, 25, NEVER]
    assert sorted(calendar.between(7, 10, SCHEMA).column("x").to_pylist()) == [9, 10]
    assert calendar.settled(8).count == 7
    assert calendar.settled(9).count == 4
    assert calendar.settled(29).rows(0, SCHEMA).column("x").to_pylist() == [NEVER]


def test_calendar_parts_span_one_interval():
    parts = Calendar("x", 10).cut("0", table(5, 25, 9))
    assert [(part.lo, part.hi, part.rows.num_rows) for part in parts] == [(0, 10, 2), (20, 30, 1)]
    assert [part.is_expired(9) for part in parts] == [True, False]
    assert {part.layout for part in parts} == {Layout.CALENDAR}


def test_calendar_merges_blocks():
    calendar = Calendar("x", 1000)
    for i in range(200):
        calendar = calendar.appended(table(i))
    assert calendar.count == 200
    assert max(map(len, calendar.intervals.values())) <= 8


def test_older_calendar_is_unchanged():
    before = Calendar("x", 10).appended(table(5))
    before.appended(table(6)).settled(100)
    assert before.count == 1


def test_queue_gives_rows_when_they_are_born():
    rows = pa.table({TS: pa.array([5, 7], pa.int64())})
    queue = RowQueue().appended(rows)
    assert queue.born(6, rows.schema).column(TS).to_pylist() == [5]
    assert queue.settled(6).count == 1
    assert queue.settled(8).nbytes == 0
    (part,) = queue.cut("0", rows)
    assert (part.lo, part.hi, part.is_expired(7), part.is_expired(8)) == (5, 8, False, True)


batches = st.lists(
    st.dictionaries(st.one_of(st.none(), st.integers(0, 5)), st.one_of(st.none(), st.integers(0, 9)), max_size=5),
    max_size=8,
)


@settings(max_examples=100, deadline=None)
@given(batches)
def test_keyed_is_a_dictionary(given_batches):
    """A batch puts values by key; None removes. The durable parts rebuild the same."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    keyed, restored, expected = Keyed(("k",)), Keyed(("k",)), {}
    for batch in given_batches:
        puts, gone = {k: v for k, v in batch.items() if v is not None}, [k for k, v in batch.items() if v is None]
        rows, removed = (_rows(items, schema) for items in (puts.items(), ((k, 0) for k in gone)))
        both = pa.concat_tables([rows, removed])
        at = keyed.find([both.column("k")], both.num_rows)
        keyed = keyed.put(rows, at)
        restored = restored.appended(gone_rows(rows, removed))
        expected = {k: v for k, v in {**expected, **puts}.items() if k not in gone}
        for one in (keyed, restored):
            assert dict(rows_of(one.rows(schema))) == expected
        found = keyed.find([pa.array(list(expected), pa.int64())], len(expected))
        assert rows_of(keyed.take(found, schema)) == list(expected.items())
    if not expected:
        assert keyed.nbytes == 0


def _rows(items, schema):
    columns = list(zip(*items, strict=True)) or [[], []]
    return pa.table([pa.array(column, pa.int64()) for column in columns], schema=schema)


def test_rows_with_one_hash_are_told_apart(monkeypatch):
    """With a hash that is always the same, nothing but the speed changes."""
    plain = pa.array(["a", "b", "a", None, "c"])
    numbers = pa.array([1, 1, 1, 1, 1])
    expected = values.numbered([plain, numbers], 5)[0].tolist()
    monkeypatch.setattr(values, "hashes_of", lambda columns, rows: np.zeros(rows, np.uint64))
    assert values.numbered([plain, numbers], 5)[0].tolist() == expected == [0, 1, 0, 2, 3]
    keyed = Keyed(("k",)).put(pa.table({"k": plain.slice(1)}), np.zeros(0, np.int64))
    assert (keyed.find([pa.array(["c", "x"])], 2) >= 0).tolist() == [True, False]


@pytest.mark.parametrize(
    "one, other, expected",
    [
        ([1.0, float("nan"), None, -0.0], [1.0, float("nan"), None, 0.0], [True] * 4),
        ([None, 1.0], [1.0, None], [False, False]),
        ([[1, None], [], None, [2]], [[1, None], None, None, [3]], [True, False, True, False]),
        ([{"a": 1, "b": "x"}, None], [{"a": 1, "b": "y"}, None], [False, True]),
        ([[{"a": float("nan")}]], [[{"a": float("nan")}]], [True]),
    ],
)
def test_equal_rows(one, other, expected):
    left, right = pa.array(one), pa.array(other)
    assert values.same([left], [right], len(one)).tolist() == expected
    equal_hashes = values.hashed([left], len(one)) == values.hashed([right], len(one))
    assert (equal_hashes | ~np.array(expected)).all()


def test_only_joins_read_history():
    b = Builder()
    one, other, third = (b.window(10, {"k": INT}, offset=3) for _ in range(3))
    joined = b.join(b.filter(one, "$.k > 0"), Distinct(other), on=["k"])
    plan = plan_of(b.join(joined, third, on=[]))
    assert needs_history(plan) == (True, False, True)
    assert needs_history(plan_of(Distinct(one))) == (False,)
    assert (reach(one), reach(one, history=False)) == (13, 3)
    assert reach(b.window(None, {"k": INT})) is None
    assert set(empty_tables(plan)) == {"out", "0.0.1", "0.0/old", "0.0.1/old"}


def test_intervals_are_a_twentieth_of_the_shortest_window():
    b = Builder()
    joined = b.join(b.window(1000, {"k": INT}), b.window(200, {"k": INT}), on=["k"])
    assert interval(joined) == 10
    assert interval(OutputWindow(ToStream(joined, Streaming.ISTREAM), Lifetime(100))) == 5


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.tuples(st.integers(0, 3))), max_size=30),
    st.integers(1, 12),
    st.sampled_from([1, 2, 5]),
    st.sets(st.integers(1, 12)),
)
def test_distinct_is_delta_star(tuples, length, step, cuts):
    """Not only the answers: every row and renewal, with its lifetime."""
    b = Builder()
    one, other = b.window(length, {"v": INT}), b.window(2 * length, {"v": INT})
    plan = plan_of(Distinct(b.union(one, other)), step)
    upto = 60
    done = run(plan, [tuples, tuples[::3]], [0, *sorted(c * step for c in cuts if c * step < upto), upto])
    both = [(t, t + length, v) for t, (v,) in tuples] + [(t, t + 2 * length, v) for t, (v,) in tuples[::3]]
    found = [(ts, exp, v) for _, _, ts, exp, v in rows_of(done.all_changes)]
    assert sorted(found) == sorted(delta_star(both, step, upto))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 20), st.tuples(st.one_of(st.none(), st.integers(0, 2)))), max_size=10),
        min_size=3,
        max_size=3,
    ),
    st.lists(st.integers(1, 9), min_size=3, max_size=3),
    st.sets(st.integers(1, 12)),
)
def test_join_lifetimes(history, lengths, cuts):
    """Every result once, with its own lifetime."""
    b = Builder()
    plan = plan_of(b.join(*(b.window(length, {"k": INT}) for length in lengths), on=["k"]))
    done = run(plan, history, [0, *sorted(cuts), 40])
    naive = WindowOperators(plan, history, 1).rows(plan.root, 40)
    found = [(ts, exp, *values_) for _, _, ts, exp, *values_ in rows_of(done.all_changes)]
    assert sorted(map(repr, found)) == sorted(repr((r.ts, r.exp, *r.values.values())) for r in naive)


def test_state_of_distinct_is_small():
    """2,000 tuples of 10 values: the state does not grow with the window."""
    b = Builder()
    plan = plan_of(Distinct(b.window(1000, {"v": STRING})))
    history = [[(t, (f"value {t % 10}",)) for t in range(2000)]]
    done = run(plan, history, [0, 500, 1500, 2000])
    assert done.state.tables["0"].count == 10
    assert done.state.nbytes < 2000


def test_group_by_keeps_cells_not_rows():
    """100 equal tuples per tick are one cell."""
    b = Builder()
    plan = plan_of(b.group_by(b.window(10, {"v": INT}), ["v"], ("COUNT", None), ("MAX", "v")), step=5)
    history = [[(t, (t % 2,)) for t in range(50) for _ in range(100)]]
    done = run(plan, history, [0, 25, 50])
    assert done.state.tables["0/cells"].count <= 2 * 5 * 4
