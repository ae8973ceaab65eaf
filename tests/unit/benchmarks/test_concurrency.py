"""The simulation of `benchmarks/concurrency.py`, on tiny numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from isolating.aims import checked
from isolating.aims import lines_of as aim_lines
from isolating.costs import Costs, Measurements, measured_scans, rate_for
from isolating.decisions import measured_events
from isolating.figures import FIGURES, lines_of, plot, values_of
from isolating.metrics import Metrics, mean_of, metrics_of
from isolating.simulated import Size, rates_for, trials_of
from isolating.simulation import MS, Outcome, Simulation, schedulers
from isolating.workload import KINDS, ONE_TIME, TOP_K, Asked, Setting, Workload
from support.matrix import is_full

from windrow.schedulers.check_history import check_history
from windrow.schedulers.history import Entry, History

NAMES = ("Serial", "WS", "LWS", "TTU", "LWS, oldest first")


def flat(seconds: float) -> Measurements:
    return Measurements((1, 1_000_000), (seconds, seconds))


COSTS = Costs({kind: flat(0.25 if kind == ONE_TIME else 0.375) for kind in KINDS}, flat(0.125), {})
LIGHT = Costs({kind: flat(0.05) for kind in KINDS}, flat(0.01), dict.fromkeys(NAMES, 0.0))
THREE = Setting(1.0, 3, 5, 1.0)
ONE_GROUP = Workload(THREE, (1,) * 6, (Asked(TOP_K, 3),), ())
MIXED = Setting(1.0, 8, 10, 100.0, 2.0)


def simulated(name: str, workload: Workload, event_s: float = 0.0) -> Outcome:
    make = schedulers(workload.setting.panes, round(workload.setting.pane_s * MS))[name]
    return Simulation(workload, make, COSTS if workload.setting is THREE else LIGHT, event_s).run()


@pytest.mark.parametrize(
    ("name", "answers", "aborts"),
    [
        ("Serial", [(1.125, 0), (2.375, 1), (3.625, 2)], 0),
        ("WS", [(1.125, 0), (2.5, 1), (3.75, 2)], 0),
        ("LWS", [(1.125, 0), (3.25, 2)], 1),
        ("TTU", [(1.125, 0), (2.5, 2), (3.75, 3)], 0),
    ],
)
def test_answers_worked_out_by_hand(name: str, answers: list[tuple[float, float]], aborts: int) -> None:
    """One group reads three panes of 0.375 s each; writes take 0.125 s, and are due at 1, 2 and 3 s."""
    outcome = simulated(name, ONE_GROUP)
    assert [(one.at_s, one.instant_s) for one in outcome.answers] == answers
    assert outcome.aborts == aborts


def test_times_of_updates_worked_out_by_hand() -> None:
    assert simulated("Serial", ONE_GROUP).updates == {0: 1.25, 1: 2.5, 2: 3.75}
    assert simulated("TTU", ONE_GROUP).updates == {0: 1.25, 1: 2.125, 2: 3.375}


@pytest.mark.parametrize(("name", "at_s"), [("Serial", 1.5), ("WS", 0.625), ("LWS", 0.625), ("TTU", 0.625)])
def test_one_time_query_waits_for_an_operation_or_for_a_query(name: str, at_s: float) -> None:
    workload = replace(ONE_GROUP, one_time=(Asked(ONE_TIME, 1, 0.125),))
    (one,) = (one for one in simulated(name, workload).answers if one.group is None)
    assert (one.asked_s, one.at_s) == (0.125, at_s)


def test_decisions_take_time() -> None:
    (first, *_) = simulated("TTU", ONE_GROUP, event_s=0.0625).answers
    assert first.at_s == 1.125 + 5 * 0.0625  # the query begins, three reads end, an update came meanwhile


@pytest.mark.parametrize("name", NAMES)
def test_everything_asked_is_answered_and_every_update_committed_once(name: str) -> None:
    workload = Workload.drawn(MIXED, 3)
    assert workload.one_time
    entries: list[Entry] = []
    make = schedulers(MIXED.panes, MS)[name]
    outcome = Simulation(workload, make, LIGHT, 0.0, entries.append).run()
    assert sorted(outcome.updates) == list(range(MIXED.panes))
    assert len(outcome.answers) == outcome.asked
    assert sorted(one.asked_s for one in outcome.answers if one.group is None) == [
        one.at_s for one in workload.one_time
    ]
    assert all(one.at_s >= one.committed_s >= one.instant_s and one.at_s > one.asked_s for one in outcome.answers)
    history = History.of(entries)
    assert len(history.committed_queries) == outcome.asked
    assert not check_history(history).violations_of(history.committed_queries)


def test_groups_take_turns() -> None:
    workload = Workload.drawn(replace(MIXED, one_time_every_s=None), 1)
    groups = [one.group for one in simulated("TTU", workload).answers]
    assert len(groups) > 2
    assert groups == [i % 2 for i in range(len(groups))]


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_run(name: str) -> None:
    first, again, other = (simulated(name, Workload.drawn(MIXED, seed)) for seed in (1, 1, 2))
    assert first == again
    assert first.answers != other.answers


def test_workload() -> None:
    setting = Setting(5.0, 50, 100, 1_000.0, 1.0)
    one = Workload.drawn(setting, 7)
    assert len(one.rows) == 100 and len(one.groups) == 20
    assert all(500 <= rows <= 50_000 for rows in one.rows)
    assert {rows < 5_000 for rows in one.rows} == {True, False}
    assert all(1 <= group.panes <= 50 for group in one.groups)
    assert 180 < len(one.one_time) < 320  # 250 s, one a second
    assert not Workload.drawn(replace(setting, one_time_every_s=None), 7).one_time


@pytest.mark.parametrize(
    "wrong", [{"panes": 0}, {"pane_s": 0.0}, {"queries": 7}, {"rate": 0.0}, {"one_time_every_s": 0.0}]
)
def test_illegal_settings(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        replace(MIXED, **wrong)  # type: ignore[arg-type]


def test_metrics() -> None:
    found = metrics_of(simulated("TTU", ONE_GROUP))
    assert found.aborted_share == 0
    assert found.staleness_s == pytest.approx((1.125 + 0.5 + 0.75) / 3)
    assert found.inter_execution_s == pytest.approx((1.375 + 1.25) / 2)
    assert found.throughput == pytest.approx(2 / 3)  # the third answer comes after the end
    assert found.response_s is None and found.one_time_staleness_s is None
    assert metrics_of(simulated("LWS", ONE_GROUP)).aborted_share == pytest.approx(1 / 3)
    workload = replace(ONE_GROUP, one_time=(Asked(ONE_TIME, 1, 1.125),))
    mixed = metrics_of(simulated("TTU", workload))  # the update is written from 1.125 to 1.25 s, the pane read then
    assert (mixed.response_s, mixed.one_time_staleness_s, mixed.one_time_since_commit_s) == (0.375, 0.5, 0.25)
    assert mean_of([found, replace(found, throughput=2.0, response_s=3.0)]) == replace(
        found, throughput=pytest.approx(4 / 3), response_s=3.0
    )


def test_measurements_are_joined_by_lines() -> None:
    one = Measurements((10, 20, 40), (1.0, 2.0, 3.0))
    assert [one.at(rows) for rows in (10, 15, 20, 30, 40, 80)] == [1.0, 1.5, 2.0, 2.5, 3.0, 6.0]
    assert one.at(1) == 1.0  # nothing is cheaper than what was measured
    assert Measurements.of((10, 20, 40), (1.0, 0.5, 3.0)).seconds == (1.0, 1.0, 3.0)
    assert rate_for(Measurements((1, 101), (1.0, 2.0)), 1.5, pane_s=5.0, mean_factor=1.0) == pytest.approx(10, rel=0.1)
    for sizes, seconds in (((1,), (1.0,)), ((2, 1), (1.0, 1.0)), ((1, 2), (0.0, 1.0)), ((1, 2), (2.0, 1.0))):
        with pytest.raises(ValueError):
            Measurements(sizes, seconds)


def test_rates_follow_the_costs() -> None:
    scans = {kind: Measurements((1, 1_000_000), (0.0001, 0.1)) for kind in KINDS}
    found, heavier = rates_for(scans, Size()), rates_for(scans, Size(load=0.6))
    # A group reads 83 panes of t = 1 in a second; one-time queries read 50.5 panes of t = 5 in 0.3 s. Bursts double panes.
    assert found["periodic"] == pytest.approx(1 / (250 / 3) / 1e-7 / 2.15, rel=0.1)
    assert found["mixed"] == pytest.approx(0.3 / 50.5 / 1e-7 / 5 / 2.15, rel=0.1)
    assert heavier["periodic"] == found["periodic"] and heavier["mixed"] == pytest.approx(2 * found["mixed"], rel=0.1)
    assert rates_for(scans, Size(rate=1_000)) == {"periodic": 1_000, "mixed": 1_000}


def test_costs_are_measured(tmp_path: Path) -> None:
    scans = measured_scans(tmp_path, sizes=(1, 1_000), repeats=1)
    assert set(scans) == {*KINDS, "write"}
    events = measured_events(ONE_GROUP, schedulers(3, MS), scans)
    assert set(events) == set(NAMES) and all(0 < one < 0.1 for one in events.values())


STALENESS = ("staleness_s", "one_time_staleness_s", "one_time_since_commit_s")


def trial(staleness_s: float, throughput: float = 1.0, response_s: float = 1.0, aborted_share: float = 0.0) -> Metrics:
    stale = dict.fromkeys(STALENESS, staleness_s)
    return Metrics(
        aborted_share=aborted_share, inter_execution_s=None, throughput=throughput, response_s=response_s, **stale
    )


def test_aims() -> None:
    runs = {MIXED: {"Serial": [trial(3, response_s=4)], "WS": [trial(3)], "LWS": [trial(2)], "TTU": [trial(1, 0.97)]}}
    assert all(one["reached"] for one in checked(runs).values())
    runs[MIXED]["TTU"] = [trial(2.5, 0.95, 3.0, 0.1)]
    found = checked(runs)
    assert not any(one["reached"] for one in found.values())
    assert [(one["measure"], one["than"], one["above_s"]) for one in found["ttu_is_freshest"]["exceptions"]] == [
        ("staleness_s", "LWS", 0.5),
        ("one_time_staleness_s", "LWS", 0.5),
    ]
    assert sum(line.startswith("MISSED") for line in aim_lines(found)) == 5


def test_figures(tmp_path: Path) -> None:
    runs = {setting: trials_of(setting, LIGHT, 2) for setting in (replace(MIXED, one_time_every_s=None), MIXED)}
    for figure in FIGURES:
        head, columns, row = lines_of(figure, runs)
        assert figure.number in head and "TTU" in columns and row.split()[:4] == ["1", "s", "8", "10"]
        assert set(values_of(figure, runs)["t=1"][8]) == set(figure.schedulers)
        plot(figure, runs, tmp_path)
    assert len(list(tmp_path.glob("concurrency_7_*_t1.svg"))) == len(FIGURES) == 8


@pytest.mark.slow
@pytest.mark.matrix
def test_program() -> None:
    program = Path(__file__).resolve().parents[3] / "benchmarks" / "concurrency.py"
    parts = ["i", "ii"] if is_full() else ["i"]
    command = [sys.executable, program, "--quick", "--parts", *parts]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *_, last = done.stdout.splitlines()
    found = json.loads(last.removeprefix("RESULT "))["i"]
    assert found["histories_ok"] and found["aims"]["ttu_aborts_nothing"]["reached"]
    assert set(found["figures"]) == {figure.number for figure in FIGURES}
