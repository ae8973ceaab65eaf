"""What EXPLAIN ANALYZE shows of operators: batches, rows, and the time of each without that of its inputs."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import pytest
from support.continuous import INT, KERNEL, Builder, inputs_of, plan_of, stored

from windrow.operators import advance as advancing
from windrow.operators.advance import advance
from windrow.operators.state import PlanState
from windrow.operators.tables.metering import OperatorCounts, PlanMeter
from windrow.operators.ticks import DueTicks
from windrow.plan.algebra.nodes import Distinct


def test_the_time_of_an_operator_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also above an exchange, whose rows are given: their time was never within that of the operator above."""
    b = Builder()
    joined = b.join(b.window(10, {"k": INT}), b.window(5, {"k": INT}), on=["k"])
    plan = plan_of(Distinct(joined))
    history = [[(1, (1,)), (2, (2,))], [(2, (1,)), (3, (2,))]]
    inputs = inputs_of(plan, stored(plan, history), DueTicks(0, 5, 1))
    meters = [PlanMeter(), PlanMeter()]
    ticking = count(1)
    monkeypatch.setattr(advancing, "time", SimpleNamespace(perf_counter=lambda: next(ticking)))
    whole = advance(plan, PlanState(), inputs, DueTicks(0, 5, 1), KERNEL, False, meters[0], {}, {}, ["0.0"])
    assert {path: one.seconds for path, one in meters[0].counts.items()} == {"0": 2, "0.0": 3, "0.0.0": 1, "0.0.1": 1}
    given = {"0.0": whole.edges["0.0"]}
    again = advance(plan, PlanState(), {}, DueTicks(0, 5, 1), KERNEL, False, meters[1], given)
    assert again.changes.equals(whole.changes) and again.changes.num_rows == 2
    assert {path: one.seconds for path, one in meters[1].counts.items()} == {"0": 1}


def test_a_batch_of_several_tasks_counts_once() -> None:
    meter = PlanMeter()
    for _ in range(2):
        meter.add_tasks([{"0": (3, 100, 0.5), "0.0": (7, 80, 1.0)}, {"0": (1, 10, 0.25)}])
    assert meter.of("0") == OperatorCounts(2, 8, 220, 1.5)
    assert meter.of("0.0") == OperatorCounts(2, 14, 160, 2.0)


def test_what_hands_on_the_rows_of_a_shared_join_takes_no_time() -> None:
    meter = PlanMeter()
    meter.add_upwards("0.0.1", 5, 40, 2.0)
    assert {path: one.seconds for path, one in meter.counts.items()} == {"0": 0.0, "0.0": 0.0, "0.0.1": 2.0}
    assert all(one.calls == 1 and one.rows == 5 for one in meter.counts.values())
