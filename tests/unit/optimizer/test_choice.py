"""The choice of a synopsis by costs: 8.3.1's rule, what subtracts, memory, and that it does not flutter."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.optimizer import choice
from windrow.optimizer.choice import (
    Rates,
    Workload,
    basic_interval,
    candidates,
    choose,
    forced,
    gains,
    interval,
    landmark,
    running,
)
from windrow.optimizer.synopsis_kinds import SynopsisKind

BASIC, INTERVAL, RUNNING = SynopsisKind.BASIC_INTERVAL, SynopsisKind.INTERVAL, SynopsisKind.RUNNING
LANDMARK = SynopsisKind.LANDMARK
MUCH = 1 << 60
OFTEN = 1e9
LOAD = Workload(panes=4096, groups=1000, subtractable=0, merged=1, together=1, width=4096, probings=1.0)


@given(st.integers(4, 16), st.integers(1, 4000), st.integers(1, 100_000))
def test_from_b_over_log_b_windows_together_on_a_basic_interval_synopsis_is_as_good(
    log_b: int, together: int, groups: int
) -> None:
    """Of equal merges, which is 8.3.1's count; those of an index being cheaper in fact only moves the turn."""
    b = 1 << log_b
    load = Workload(b, groups, 0, 2, together, b, OFTEN)
    turn = b / math.log2(b)
    assert together >= turn or interval(load).lookup < basic_interval(load).lookup
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "INDEX_CALL_NS", choice.CALL_NS)
        patch.setattr(choice, "INDEX_SLOT_NS", choice.SLOT_NS)
        assert (basic_interval(load).lookup <= interval(load).lookup) == (together >= turn)
        assert choose(load, BASIC, MUCH).kind is BASIC or together < turn


def test_sums_that_subtract_are_kept_running_and_others_in_base_intervals() -> None:
    assert choose(replace(LOAD, subtractable=1, merged=0, probings=OFTEN), BASIC, MUCH).kind is RUNNING
    assert choose(replace(LOAD, probings=OFTEN), BASIC, MUCH).kind is INTERVAL
    assert RUNNING not in {one.kind for one in candidates(LOAD)}
    assert forced(RUNNING, LOAD) is INTERVAL and forced(RUNNING, replace(LOAD, subtractable=1)) is RUNNING
    assert forced(BASIC, LOAD) is BASIC


def test_landmark_intervals_are_for_windows_of_few_widths_that_are_asked_for_often() -> None:
    few = replace(LOAD, written=2, kept=3 * 4096)
    assert LANDMARK in {one.kind for one in candidates(few)} and LANDMARK not in {one.kind for one in candidates(LOAD)}
    assert choose(replace(few, probings=1.0), BASIC, MUCH).kind is INTERVAL
    assert choose(replace(few, probings=OFTEN), BASIC, MUCH).kind is LANDMARK
    assert choose(replace(few, probings=OFTEN), BASIC, landmark(few).nbytes - 1).kind is INTERVAL
    assert forced(LANDMARK, few) is LANDMARK and forced(LANDMARK, LOAD) is INTERVAL
    assert forced(LANDMARK, replace(few, merged=0, subtractable=1)) is RUNNING


def test_who_is_hardly_ever_probed_keeps_no_index_and_none_beyond_the_bound() -> None:
    assert choose(replace(LOAD, probings=0.00001), BASIC, MUCH).kind is BASIC
    often = replace(LOAD, subtractable=1, probings=OFTEN)
    assert choose(often, BASIC, running(often).nbytes - 1).kind is BASIC
    assert running(often).nbytes < interval(often).nbytes


@given(st.floats(0.0001, 1000), st.integers(1, 5000))
def test_a_choice_once_made_is_stable_under_the_same_load(probings: float, together: int) -> None:
    load = replace(LOAD, subtractable=2, probings=probings, together=together)
    first = choose(load, BASIC, MUCH).kind
    assert choose(load, first, MUCH).kind is first


def test_what_is_there_is_left_only_for_what_is_clearly_cheaper() -> None:
    loads = [replace(LOAD, probings=p / 10_000_000) for p in range(1, 10_000)]
    turn = next(load.probings for load in loads if choose(load, BASIC, MUCH).kind is INTERVAL)
    assert choose(replace(LOAD, probings=0.9 * turn), BASIC, MUCH).kind is BASIC
    assert choose(replace(LOAD, probings=0.9 * turn), INTERVAL, MUCH).kind is INTERVAL


def test_a_batch_beside_single_lookups_does_not_hide_what_these_would_gain() -> None:
    single, batch = replace(LOAD, merged=3, at_once=50), replace(LOAD, merged=3, together=2000, at_once=50)
    assert gains(single) and not gains(batch)
    rates = Rates()
    for _ in range(100):
        rates.probe(windows=1, walked=4096)
    rates.walk()
    assert choose(rates.load(4096, 1000, (0, 3), 50, (0, 0)), BASIC, MUCH).kind is INTERVAL
    only_batches = Rates()
    only_batches.walk()
    assert choose(only_batches.load(4096, 1000, (0, 3), 1, (0, 0)), BASIC, MUCH).kind is BASIC


def test_rates_fade_and_follow_the_workload() -> None:
    rates = Rates()
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
