"""Batches with many groups after a long gap, and with many ticks."""

from __future__ import annotations

from collections import Counter

import pytest
from support.continuous import BIGINT, INT, Builder, plan_of, replayed, run

from windrow.errors import ExecutionError
from windrow.plan.algebra.nodes import Distinct, Streaming, ToStream

GROUPS = 10_000
GAP = 10**15
"""Ticks times groups is more than an int64 holds."""


def after_a_gap(root, window):
    """R at the tick after a gap, of one tuple before it and two tuples of every second group behind it."""
    early = [(-3, (1, 1))]
    late = [(GAP, (i, i)) for i in range(GROUPS)] + [(GAP + 2, (i, 1)) for i in range(0, GROUPS, 2)]
    made = run(plan_of(root), [early + late], [-4, GAP + 3])
    assert replayed(made.all_changes, -2) == replayed(run(plan_of(root), [early], [-4, -2]).all_changes, -2)
    return replayed(made.all_changes, GAP + 3)


def test_distinct_after_a_long_gap():
    make = Builder()
    window = make.window(5, {"k": INT, "x": BIGINT})
    found = after_a_gap(Distinct(make.project(window, k=("$.k", INT))), window)
    assert found == Counter({(i,): 1 for i in range(GROUPS)})


def test_running_totals_after_a_long_gap():
    make = Builder()
    window = make.window(5, {"k": INT, "x": BIGINT})
    found = after_a_gap(make.group_by(window, ["k"], ("COUNT", None), ("SUM", "x")), window)
    assert found == Counter({(i, 1, i) if i % 2 else (i, 2, i + 1): 1 for i in range(GROUPS)})


def test_recomputed_totals_after_a_long_gap():
    make = Builder()
    window = make.window(5, {"k": INT, "x": BIGINT})
    found = after_a_gap(make.group_by(window, ["k"], ("MAX", "x")), window)
    assert found == Counter({(i, max(i, 1)): 1 for i in range(GROUPS)})


def test_limit_over_many_ticks():
    """A day of seconds at once: 311 million pairs of a tick and a live row."""
    ticks, length, limit = 86_400, 3_600, 3
    values = [i * 7919 % 100_003 for i in range(ticks)]
    make = Builder()
    window = make.window(length, {"x": BIGINT})
    made = run(plan_of(make.top(window, "$.x", limit)), [[(t, (x,)) for t, x in enumerate(values)]], [0, ticks])
    for tick in (1, 2, length, 40_000, ticks):
        first = sorted(values[max(0, tick - length) : tick])[:limit]
        assert replayed(made.all_changes, tick) == Counter((x,) for x in first)


def test_limit_counts_equal_rows():
    make = Builder()
    window = make.window(10, {"x": BIGINT})
    rows = [(0, (5,)), (0, (5,)), (0, (7,)), (1, (5,)), (2, (4,)), (2, (4,))]
    made = run(plan_of(make.top(window, "$.x", 3)), [rows], [0, 20])
    expected = {1: [5, 5, 7], 2: [5, 5, 5], 3: [4, 4, 5], 10: [4, 4, 5], 11: [4, 4, 5], 12: [4, 4], 13: []}
    for tick, first in expected.items():
        assert replayed(made.all_changes, tick) == Counter((x,) for x in first), tick


def test_rstream_over_a_leap_of_time_is_refused():
    make = Builder()
    count = make.group_by(make.window(5, {"k": INT}), [], ("COUNT", None))
    with pytest.raises(ExecutionError, match="time has leapt"):
        run(plan_of(ToStream(count, Streaming.RSTREAM)), [[(0, (1,)), (GAP, (1,))]], [0, GAP])
    rows = make.project(make.window(5, {"k": INT}), k=("$.k", INT))
    made = run(plan_of(ToStream(rows, Streaming.RSTREAM)), [[(0, (1,)), (GAP, (1,))]], [0, GAP + 1])
    assert made.all_changes.num_rows == 6
