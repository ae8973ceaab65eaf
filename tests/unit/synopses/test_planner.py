"""The planner decides by cost, respects what is not allowed, and does not flutter."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.optimizer.synopsis_kinds import SynopsisKind
from windrow.synopses.answering import costs
from windrow.synopses.answering.filter_costs import FilterWork
from windrow.synopses.answering.index_costs import IndexWork, basic_interval, candidates, interval, landmark, running
from windrow.synopses.answering.indexing import ProbingRates
from windrow.synopses.answering.planner import HavingWay, gains_from_index, plan_filter, plan_index, plan_way
from windrow.synopses.answering.way_costs import Way, WindowWork

BASIC, INTERVAL, RUNNING = SynopsisKind.BASIC_INTERVAL, SynopsisKind.INTERVAL, SynopsisKind.RUNNING
LANDMARK = SynopsisKind.LANDMARK
MUCH = 1 << 60
OFTEN = 1e9
LOAD = IndexWork(panes=4096, groups=1000, subtractable=0, merged=1, together=1, width=4096, probings=1.0)


def chosen(work: IndexWork, present: SynopsisKind, most_bytes: int) -> SynopsisKind:
    return plan_index(work, present, most_bytes, None).chosen


def forced(kind: SynopsisKind, work: IndexWork) -> SynopsisKind:
    return plan_index(work, BASIC, MUCH, kind).chosen


@given(st.integers(4, 16), st.integers(1, 4000), st.integers(1, 100_000))
def test_walk_is_as_fast_from_b_over_log_b_windows_on(log_b: int, together: int, groups: int) -> None:
    """The count of Golab's dissertation, section 8.3.1, assumes equal merges; cheaper merges in an index move the turn."""
    b = 1 << log_b
    load = IndexWork(b, groups, 0, 2, together, b, OFTEN)
    turn = b / math.log2(b)
    assert together >= turn or interval(load).lookup < basic_interval(load).lookup
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "INDEX_CALL_NS", costs.WALK_CALL_NS)
        patch.setattr(costs, "INDEX_SLOT_NS", costs.WALK_SLOT_NS)
        assert (basic_interval(load).lookup <= interval(load).lookup) == (together >= turn)
        assert chosen(load, BASIC, MUCH) is BASIC or together < turn


def test_running_for_subtractable_sums() -> None:
    assert chosen(replace(LOAD, subtractable=1, merged=0, probings=OFTEN), BASIC, MUCH) is RUNNING
    assert chosen(replace(LOAD, probings=OFTEN), BASIC, MUCH) is INTERVAL
    assert RUNNING not in {one.kind for one in candidates(LOAD)}
    assert forced(RUNNING, LOAD) is INTERVAL and forced(RUNNING, replace(LOAD, subtractable=1)) is RUNNING
    assert forced(BASIC, LOAD) is BASIC


def test_landmark_for_few_widths_and_many_lookups() -> None:
    few = replace(LOAD, written=2, kept=3 * 4096)
    assert LANDMARK in {one.kind for one in candidates(few)} and LANDMARK not in {one.kind for one in candidates(LOAD)}
    assert chosen(replace(few, probings=1.0), BASIC, MUCH) is INTERVAL
    assert chosen(replace(few, probings=OFTEN), BASIC, MUCH) is LANDMARK
    assert chosen(replace(few, probings=OFTEN), BASIC, landmark(few).nbytes - 1) is INTERVAL
    assert forced(LANDMARK, few) is LANDMARK and forced(LANDMARK, LOAD) is INTERVAL
    assert forced(LANDMARK, replace(few, merged=0, subtractable=1)) is RUNNING


def test_no_index_for_rare_probings_or_without_room() -> None:
    assert chosen(replace(LOAD, probings=0.00001), BASIC, MUCH) is BASIC
    often = replace(LOAD, subtractable=1, probings=OFTEN)
    assert chosen(often, BASIC, running(often).nbytes - 1) is BASIC
    assert running(often).nbytes < interval(often).nbytes


@given(st.floats(0.0001, 1000), st.integers(1, 5000))
def test_index_choice_is_stable(probings: float, together: int) -> None:
    load = replace(LOAD, subtractable=2, probings=probings, together=together)
    first = chosen(load, BASIC, MUCH)
    assert chosen(load, first, MUCH) is first


def test_index_changes_only_for_a_clear_gain() -> None:
    loads = [replace(LOAD, probings=p / 10_000_000) for p in range(1, 10_000)]
    turn = next(load.probings for load in loads if chosen(load, BASIC, MUCH) is INTERVAL)
    assert chosen(replace(LOAD, probings=0.9 * turn), BASIC, MUCH) is BASIC
    assert chosen(replace(LOAD, probings=0.9 * turn), INTERVAL, MUCH) is INTERVAL


def test_a_batch_does_not_hide_single_lookups() -> None:
    single, batch = replace(LOAD, merged=3, at_once=50), replace(LOAD, merged=3, together=2000, at_once=50)
    assert gains_from_index(single) and not gains_from_index(batch)
    rates = ProbingRates()
    for _ in range(100):
        rates.probe(windows=1, walked=4096)
    rates.walk()
    assert chosen(rates.load(4096, 1000, (0, 3), 50, (0, 0)), BASIC, MUCH) is INTERVAL
    only_batches = ProbingRates()
    only_batches.walk()
    assert chosen(only_batches.load(4096, 1000, (0, 3), 1, (0, 0)), BASIC, MUCH) is BASIC


def test_rates_fade() -> None:
    rates = ProbingRates()
    for _ in range(30):
        rates.probe(windows=3, walked=50)
        rates.close(panes=10)
    load = rates.load(1000, 10, (1, 0), 64, (0, 0))
    assert abs(load.together - 3) < 1e-6 and abs(load.width - 50) < 1e-6 and 0.07 < load.probings < 0.11
    for _ in range(1000):
        rates.probe(windows=1, walked=1000)
    assert rates.load(1000, 10, (1, 0), 64, (0, 0)).probings > 10
    for _ in range(40):
        rates.close(panes=10)
    assert rates.load(1000, 10, (1, 0), 64, (0, 0)).probings < 0.02


WINDOWS = WindowWork(
    windows=1,
    lookups=1,
    walked=1000,
    between=1000,
    longest=1000,
    columns=2,
    groups=100,
    panes=1000,
    tabled=True,
    in_order=True,
)


@pytest.mark.parametrize(
    ("work", "indexed", "way"),
    [
        (WINDOWS, None, Way.ONE_PASS),
        (replace(WINDOWS, windows=1000, walked=500_000), None, Way.TABLES),
        (replace(WINDOWS, windows=1000, walked=500_000, groups=1, tabled=False), None, Way.TREE),
        (replace(WINDOWS, windows=1000, walked=500_000, groups=1, tabled=False, in_order=False), None, Way.ONE_PASS),
        (WINDOWS, 1.0, Way.INDEX),
        (WINDOWS, 1e12, Way.ONE_PASS),
    ],
    ids=["one window", "many windows", "many windows of one group", "in no order", "an index", "a slow index"],
)
def test_cheapest_way(work: WindowWork, indexed: float | None, way: Way) -> None:
    made = plan_way(work, indexed)
    assert made.chosen is way and made.sizes is work
    assert dict(made.costs)[way] == min(ns for _, ns in made.costs)
    assert (Way.INDEX in dict(made.costs)) is (indexed is not None)


def test_no_tables_beyond_the_limit() -> None:
    assert Way.TABLES not in dict(plan_way(replace(WINDOWS, between=1 << 24), None).costs)


FEW_PASS = FilterWork(
    aggregate="COUNT",
    p=3,
    fine=False,
    groups=1_000_000,
    cells=10_000,
    windows=10,
    intervals=10,
    looks=10,
    panes=6.0,
    longest=6,
    columns=2,
    share=0.0001,
)


def test_filter_where_few_groups_pass() -> None:
    assert plan_filter(FEW_PASS, False, False, None).chosen is HavingWay.FILTER
    all_pass = plan_filter(replace(FEW_PASS, share=1.0), True, False, None)
    assert all_pass.chosen is HavingWay.PASS and dict(all_pass.costs)[HavingWay.FILTER] > 1e9
    unknown = plan_filter(None, False, False, None)
    assert (unknown.chosen, unknown.why, unknown.costs) == (HavingWay.PASS, "not measured yet", ())
    assert plan_filter(None, False, True, None).chosen is HavingWay.FILTER
    refused = plan_filter(FEW_PASS, True, False, "no room")
    assert (refused.chosen, refused.why) == (HavingWay.PASS, "no room")


def test_filter_changes_only_for_a_clear_gain() -> None:
    works = [replace(FEW_PASS, share=share / 10_000) for share in range(1, 10_000)]
    between = [work for work in works if costs.STAY < work.filter_ns / work.pass_ns < 1 / costs.STAY]
    assert between
    for work in between:
        assert plan_filter(work, False, False, None).chosen is HavingWay.PASS
        assert plan_filter(work, True, False, None).chosen is HavingWay.FILTER


def test_costs_have_unit_and_command() -> None:
    table = costs.measured_costs()
    assert len(table) > 30 and {name.partition("[")[0] for name in table} <= set(vars(costs))
    for cost in table.values():
        assert cost > 0 and cost.unit == "ns" and cost.what and "benchmarks/constants.py" in cost.command
