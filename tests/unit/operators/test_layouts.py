"""The layouts of state: what they hold, what they drop, and their durable parts."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.continuous import INT, STRING, Builder, plan_of, rows_of, run

from windrow.operators.layouts import calendar as calendars
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
from windrow.synopses.cells.buckets import BUCKETS, buckets_of

SCHEMA = pa.schema([("x", pa.int64()), ("v", pa.string())])


def table(*points):
    return pa.table({"x": pa.array(points, pa.int64()), "v": [str(p) for p in points]})


def test_calendar_drops_whole_intervals(monkeypatch):
    calendar = Calendar("x", 10).appended(table(5, 9, 10, 25, NEVER)).appended(table(7, 12))
    assert sorted(calendar.rows(8, SCHEMA).column("x").to_pylist()) == [9, 10, 12, 25, NEVER]
    assert sorted(calendar.between(7, 10, SCHEMA).column("x").to_pylist()) == [9, 10]
    assert calendar.settled(9).count == 4
    assert calendar.settled(29).rows(0, SCHEMA).column("x").to_pylist() == [NEVER]
    monkeypatch.setattr(calendars, "FEW", 0)
    cut = calendar.settled(4)
    found = {interval: sum(map(len, blocks)) for interval, blocks in cut.intervals.items()}
    assert found == {0: 3, 1: 2, 2: 1, NEVER // 10: 1}
    assert cut.settled(8).count == 7
    assert cut.settled(9).count == 4


def test_calendar_parts_span_one_interval():
    parts = Calendar("x", 10).cut("0", table(5, 25, 9))
    assert [(part.lo, part.hi, part.rows.num_rows) for part in parts] == [(0, 10, 2), (20, 30, 1)]
    assert [part.is_expired(9) for part in parts] == [True, False]
    assert {part.layout for part in parts} == {Layout.CALENDAR}


def test_calendar_merges_blocks(monkeypatch):
    monkeypatch.setattr(calendars, "FEW", 0)
    calendar = Calendar("x", 1000)
    for i in range(200):
        calendar = calendar.appended(table(i))
    assert calendar.count == 200
    assert len(calendar.recent) <= 8
    for i in range(200, 400):
        calendar = calendar.appended(table(i)).settled(-1000 * i)  # another interval each time
    assert calendar.count == 400
    assert max(map(len, calendar.intervals.values())) <= 9


def test_calendar_cuts_rows_once_per_interval(monkeypatch):
    """Rows of an interval wait together; at its end they are cut, and what has expired is dropped with it."""
    monkeypatch.setattr(calendars, "FEW", 5)
    calendar = Calendar("x", 10).settled(9)
    for tick in range(10, 19):
        calendar = calendar.appended(table(tick + 1, tick + 30)).settled(tick)
        assert not calendar.intervals
        assert sorted(calendar.between(tick, tick + 1, SCHEMA).column("x").to_pylist()) == [tick + 1]
    assert calendar.count == 18
    parts = calendar.parts("0", 18)
    assert [(part.lo, part.rows.num_rows) for part in parts] == [(10, 1), (40, 9)]
    calendar = calendar.settled(19)
    assert (calendar.count, list(calendar.intervals), calendar.recent) == (9, [4], ())
    assert calendar.settled(49).count == 0


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.lists(st.integers(1, 60), max_size=6), st.integers(1, 15)), max_size=12),
    st.integers(1, 20),
    st.integers(0, 9),
)
def test_calendar_has_what_has_not_expired(batches, width, few):
    """In any batches: rows, sums and parts are of what expires later; nothing outlives its interval."""
    with mock.patch.object(calendars, "FEW", few):
        _has_what_has_not_expired(batches, width)


def _has_what_has_not_expired(batches, width):
    calendar, restored, every, ticked = Calendar("x", width), Calendar("x", width), [], 0
    for lives, step in batches:
        points = [ticked + life for life in lives]
        every += points
        rows = table(*points)
        for part in calendar.cut("0", rows):
            restored = restored.appended(part.rows)
        ticked += step
        calendar, restored = calendar.appended(rows).settled(ticked), restored.settled(ticked)
        alive = sorted(x for x in every if x > ticked)
        for one in (calendar, restored):
            assert sorted(one.rows(ticked, SCHEMA).column("x").to_pylist()) == alive
            assert one.sum_between("x", ticked, ticked + 7) == sum(x for x in alive if x <= ticked + 7)
            assert len(alive) <= one.count <= sum(x // width * width + width - 1 > ticked for x in every)
        assert sorted(x for part in calendar.parts("0", ticked) for x in part.rows.column("x").to_pylist()) == alive


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
    """A batch puts values by key; None removes. Overwritten in place or not, and rebuilt from its durable parts, it is
    the same."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    keyed, updated, restored, expected = Keyed(("k",)), Keyed(("k",)), Keyed(("k",)), {}
    for batch in given_batches:
        puts, gone = {k: v for k, v in batch.items() if v is not None}, [k for k, v in batch.items() if v is None]
        rows, removed = (_rows(items, schema) for items in (puts.items(), ((k, 0) for k in gone)))
        both = pa.concat_tables([rows, removed])
        at = keyed.find([both.column("k")], both.num_rows)
        before, keyed = keyed, keyed.put(rows, at)
        assert dict(rows_of(before.rows(schema))) == expected
        at = updated.find([both.column("k")], both.num_rows)
        before, updated = updated, updated.updated(rows, at[: len(puts)], at[len(puts) :])
        assert dict(rows_of(before.rows(schema))) == expected
        restored = restored.appended(gone_rows(rows, removed))
        expected = {k: v for k, v in {**expected, **puts}.items() if k not in gone}
        for one in (keyed, updated, restored, keyed.packed(), updated.packed()):
            assert dict(rows_of(one.rows(schema))) == expected
        assert sum(level.words.size for level in updated.packed().levels) == len(expected)
        over = Keyed.over(("k",), keyed.in_order(schema))
        for one in (keyed, keyed.packed(), over):
            found = one.find([pa.array(list(expected), pa.int64())], len(expected))
            assert rows_of(one.take(found, schema)) == list(expected.items())
        for buckets in ((0, 100), (100, 256)):
            within = [row for row in expected.items() if buckets[0] <= _bucket(row[0]) < buckets[1]]
            for one in (keyed, over):
                assert dict(rows_of(one.within(buckets).rows(schema))) == dict(within)
    if not expected:
        assert keyed.nbytes == 0


def _bucket(key):
    return buckets_of([pa.array([key], pa.int64())], np.zeros(1, bool), BUCKETS)[0]


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
    some = [0, *sorted(c * step for c in cuts if c * step < upto), upto]
    both = [(t, t + length, v) for t, (v,) in tuples] + [(t, t + 2 * length, v) for t, (v,) in tuples[::3]]
    for ends in (some, range(0, upto + 1, step)):
        done = run(plan, [tuples, tuples[::3]], ends)
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


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("lengths", [(3, 2), (1, 4), (5, 5)])
@pytest.mark.parametrize("is_kept", [False, True])
def test_join_at_every_boundary(lengths, step, is_kept):
    """A tuple of each stream at every point: pairs meet at every distance, in one batch and tick by tick.

    `is_kept`: the join keeps the rows of its inputs itself, because these are unions.
    """
    b = Builder()
    history = [[(t, (1,)) for t in range(12)]] * 2
    inputs = [b.window(length, {"k": INT}) for length in lengths]
    if is_kept:
        inputs = [b.union(one, b.window(1, {"k": INT})) for one in inputs]
        history = [history[0], [], history[1], []]
    plan = plan_of(b.join(*inputs, on=["k"]), step)
    last = 24
    naive = WindowOperators(plan, history, step).rows(plan.root, last)
    seen = sorted((r.ts, r.exp) for r in naive if r.ts // step < r.exp // step)
    for ticks in ([0, last], range(0, last + 1, step)):
        assert sorted((ts, exp) for _, _, ts, exp, *_ in rows_of(run(plan, history, ticks).all_changes)) == seen


@pytest.mark.parametrize("ticks", [[0, 15], [0, 10, 15], [0, 5, 10, 15]])
def test_renewal_by_a_tuple_born_after_the_last_tick(ticks):
    """At tick 10 the row is alive for the last time. The tuple that comes before tick 15 renews it, in any batches."""
    b = Builder()
    plan = plan_of(Distinct(b.window(10, {"v": INT})), step=5)
    found = rows_of(run(plan, [[(3, (1,)), (10, (1,))]], ticks).all_changes)
    assert found == [("+", 5, 3, 13, 1), ("+", 15, 13, 20, 1)]


@pytest.mark.parametrize("how", ["parts", "compacted"])
def test_restart_at_every_tick_of_a_limit(how):
    """Rows come, go, and come again among the first two."""
    b = Builder()
    plan = plan_of(
        b.top(b.group_by(b.window(4, {"k": INT}), ["k"], ("COUNT", None)), "$.COUNT_None", 2, descending=True)
    )
    history = [[(t, (t * t % 5,)) for t in range(20) for _ in range(t % 3)]]
    restarted, plain = (run(plan, history, range(30), restart=restart) for restart in (lambda t: how, lambda t: None))
    assert rows_of(restarted.all_changes) == rows_of(plain.all_changes)
    assert any(op == "-" for op, *_ in rows_of(plain.all_changes))
    assert restarted.state.nbytes == 0
