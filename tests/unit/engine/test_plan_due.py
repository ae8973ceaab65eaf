"""When plans are due, which windows of periodic plans hold a tuple, and from when on answers are complete."""

from dataclasses import replace

import numpy as np
import pytest
from support.bound_plans import bind
from support.continuous import INT, Builder, plan_of

from windrow.engine.plans.due import (
    LONG_GAP,
    InputProgress,
    TickGrid,
    begins_at,
    complete_from,
    due_upto,
    lingering,
    occupied,
    without_gaps,
)
from windrow.engine.plans.query import counts_ticks
from windrow.operators.ticks import DueTicks
from windrow.plan.algebra.nodes import (
    Lifetime,
    OutputRows,
    OutputWindow,
    PlanColumn,
    SemiJoin,
    Streaming,
    TableColumn,
    TableScan,
    ToStream,
)
from windrow.types import POINT_MAX

GRID = TickGrid(5)


@pytest.mark.parametrize(
    ("point", "floor", "ceil", "above"), [(0, 0, 0, 5), (4, 0, 5, 5), (5, 5, 5, 10), (-1, -5, 0, 0), (-5, -5, -5, 0)]
)
def test_grid(point: int, floor: int, ceil: int, above: int) -> None:
    assert (GRID.floor(point), GRID.ceil(point), GRID.above(point)) == (floor, ceil, above)


def test_grid_with_origin() -> None:
    grid = TickGrid(5, 2)
    assert (grid.floor(11), grid.ceil(11), grid.above(12)) == (7, 12, 17)


def test_least_frontier() -> None:
    assert due_upto([InputProgress(12, 0, 12), InputProgress(23, 0, 30)], GRID) == 10


def test_unknown_frontier() -> None:
    assert due_upto([InputProgress(12, 0, 12), InputProgress(None, None, None)], GRID) is None


def test_ended_stream_holds_nobody_back() -> None:
    assert due_upto([InputProgress(12, 0, 12, ended=True), InputProgress(23, 0, 30)], GRID) == 20
    assert due_upto([InputProgress(None, None, None, ended=True), InputProgress(23, 0, 30)], GRID) == 20


def test_all_ended() -> None:
    ended = [InputProgress(3, 0, 2, ended=True), InputProgress(12, 0, 11, ended=True)]
    assert due_upto(ended, GRID) == 15
    assert due_upto([InputProgress(None, None, None, ended=True)], GRID) is None


def test_all_ended_with_slide() -> None:
    assert due_upto([InputProgress(8, 0, 7, ended=True, lasts=10)], GRID, periodic=True) == 15
    assert due_upto([InputProgress(8, 0, 7, ended=True)], GRID, periodic=True) == 10


def test_beginning() -> None:
    assert begins_at([InputProgress(12, 7, 12), InputProgress(23, 4, 30)], GRID) == 0
    assert begins_at([InputProgress(12, None, None)], GRID) is None


def _points(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_occupied_runs() -> None:
    due = DueTicks(0, 100, 5)
    runs = occupied(due, [(_points(1, 2), _points(11, 12)), (_points(30), _points(35))], None)
    assert runs.starts.tolist() == [5, 35] and runs.stops.tolist() == [15, 40]
    assert runs.has(_points(0, 5, 10, 15, 35, 40)).tolist() == [False, True, True, False, True, False]


def test_occupied_by_earlier_tuples() -> None:
    runs = occupied(DueTicks(10, 30, 5), [(_points(), _points())], 25)
    assert runs.has(_points(15, 20, 25)).tolist() == [True, True, False] and runs.stop == 25


def test_nothing_occupied() -> None:
    runs = occupied(DueTicks(0, 10, 5), [], None)
    assert runs.stop is None and not runs.has(_points(5)).any()


def test_long_gap_is_skipped() -> None:
    far = 5 * LONG_GAP * 3
    due = DueTicks(0, far + 100, 5)
    runs = occupied(due, [(_points(1, far), _points(11, far + 10))], None)
    first = without_gaps(due, runs)
    assert first == DueTicks(0, 15, 5)
    rest = DueTicks(15, far + 100, 5)
    runs = occupied(rest, [(_points(far), _points(far + 10))], 15)
    assert without_gaps(rest, runs) == DueTicks(far, far + 100, 5)


def test_all_gap() -> None:
    due = DueTicks(0, 5 * (LONG_GAP + 1), 5)
    assert without_gaps(due, occupied(due, [], None)) is None


@pytest.mark.parametrize(
    ("select", "first"),
    [
        ("SELECT k FROM n [RANGE 10]", 110),
        ("SELECT ISTREAM(k) FROM n [RANGE 10]", 111),
        ("SELECT RSTREAM(k) FROM n [RANGE 10]", 110),
        ("SELECT COUNT(*) AS c FROM (SELECT ISTREAM(k) FROM n [RANGE 10]) [RANGE 20] AS x", 130),
        ("SELECT COUNT(*) AS c FROM (SELECT ISTREAM(k) FROM n [RANGE 10]) [RANGE 20 OFFSET 5] AS x", 135),
        ("SELECT COUNT(*) AS c FROM (SELECT k FROM n [RANGE 10 INTERNAL]) [RANGE 20] AS x", 120),
        ("SELECT COUNT(*) AS c FROM (SELECT ISTREAM(k) FROM n [RANGE 10]) [UNBOUNDED] AS x", None),
        ("SELECT k FROM n [UNBOUNDED]", None),
    ],
)
def test_complete_from(select: str, first: int | None) -> None:
    assert complete_from(bind(select), [100]) == first


def test_complete_from_beside_a_table() -> None:
    plan = bind("SELECT k FROM n [RANGE 10]")
    table = TableScan("t", (TableColumn(PlanColumn(99, "k", INT), "k"),))
    assert complete_from(replace(plan, root=SemiJoin(plan.root, table)), [100]) == 110
    assert complete_from(replace(plan, root=SemiJoin(plan.root, table)), [100], 120) == 120
    assert complete_from(replace(plan, root=SemiJoin(plan.root, table)), [None], 90) == 90


def test_complete_from_of_a_join() -> None:
    plan = bind("SELECT a.k FROM n [RANGE 10] AS a JOIN n [RANGE 30] AS b ON a.k = b.k")
    assert complete_from(plan, [None, 100]) == 130
    assert complete_from(plan, [150, 100]) == 160
    internal = "SELECT a.k FROM n [RANGE 10 INTERNAL] AS a JOIN n [RANGE 30 INTERNAL] AS b ON a.k = b.k"
    assert complete_from(bind(f"SELECT k FROM ({internal}) [RANGE 20] AS x"), [150, 100]) == 180


def test_run_without_end_below_zero() -> None:
    """Tuples of an UNBOUNDED window stay; the distance from a point below zero to their end exceeds an int64."""
    due = DueTicks(-9, -3, 3)
    assert without_gaps(due, occupied(due, [(np.array([-8]), np.array([POINT_MAX]))], None)) == due


def test_plans_of_which_no_tick_is_left_out() -> None:
    """A window on what an aggregate without GROUP BY gives counts the ticks without tuples, too."""
    b = Builder()
    total, by_key = (b.group_by(b.window(6, {"x": INT}), keys, ("SUM", "x")) for keys in ([], ["x"]))
    every = ToStream(total, Streaming.RSTREAM)
    assert counts_ticks(plan_of(OutputRows(every, 3), 6))
    assert counts_ticks(plan_of(OutputWindow(every, Lifetime(18)), 6))
    assert not counts_ticks(plan_of(OutputWindow(every, Lifetime(1)), 6))
    assert not counts_ticks(plan_of(OutputRows(ToStream(by_key, Streaming.RSTREAM), 3), 6))


def test_tuples_linger_until_restore_reports() -> None:
    b = Builder()
    restored = ToStream(b.window(6, {"x": INT}), Streaming.ISTREAM, restores=True)
    assert lingering(replace(plan_of(restored, 10), periodic=True)) == 9
    assert lingering(plan_of(restored, 10)) == 0
    assert lingering(replace(plan_of(b.window(6, {"x": INT}), 10), periodic=True)) == 0
