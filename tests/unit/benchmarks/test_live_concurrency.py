"""The packets of the live part of `benchmarks/concurrency.py`, and what its answers must be."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from isolating.live import LiveRun, told
from isolating.live_packets import CHOSEN, NAMES, LivePackets, text_of
from isolating.live_test import AbortingScheduler, LiveOutcome
from isolating.simulation import SOURCE, Answered, Outcome
from isolating.workload import KINDS, ONE_TIME, PERCENTILES, TOP_K, Asked, Setting, Workload

from windrow.schedulers.panes import Pane, WindowUpdate
from windrow.schedulers.transactions import (
    AbortQuery,
    QueryBegins,
    ReadFinished,
    ReadTransaction,
    SourceOpens,
    UpdateReady,
)

PACKETS = LivePackets([400, 300, 500], 100)
INPUT = pa.concat_tables([PACKETS.update(pane) for pane in range(7)])


def test_updates_have_every_packet_once_and_complete_their_pane() -> None:
    assert INPUT.num_rows == 2 * 1_200 + 400 + 1
    assert INPUT.column("t").to_pylist() == sorted(INPUT.column("t").to_pylist())
    for pane in range(7):
        assert pc.max(PACKETS.update(pane).column("t")).as_py() == (pane + 1) * 100


def test_panes_come_again() -> None:
    for kind in KINDS:
        assert PACKETS.expected(Asked(kind, 2), 300) == PACKETS.expected(Asked(kind, 2), 600)


@pytest.mark.parametrize("panes", [1, 2, 3])
def test_expected_answers_are_those_of_the_input(panes: int) -> None:
    at = INPUT.column("t")
    rows = INPUT.filter(pc.and_(pc.greater_equal(at, 600 - panes * 100), pc.less(at, 600)))
    groups = rows.group_by("src").aggregate([("src", "count"), ("length", "sum")]).to_pylist()
    best = sorted(groups, key=lambda one: (-one["src_count"], one["src"]))[:10]
    chosen = [one for one in groups if one["src"] in {NAMES[i] for i in CHOSEN}]
    total = {"n": sum(one["src_count"] for one in chosen), "bytes": sum(one["length_sum"] for one in chosen)}
    sums = [{"src": one["src"], "bytes": one["length_sum"]} for one in sorted(groups, key=lambda one: one["src"])]
    assert PACKETS.expected(Asked(TOP_K, panes), 600) == [{"src": one["src"], "n": one["src_count"]} for one in best]
    assert PACKETS.expected(Asked(PERCENTILES, panes), 600) == sums
    assert PACKETS.expected(Asked(ONE_TIME, panes), 600) == [total]


def test_an_instant_within_a_pane_is_refused() -> None:
    with pytest.raises(ValueError, match="no pane ends at 350"):
        PACKETS.expected(Asked(TOP_K, 1), 350)


def test_windows_are_of_whole_panes() -> None:
    assert "[RANGE 300]" in text_of(Asked(TOP_K, 3), "s", 100)


def test_a_conflict_aborts_though_partial_results_are_kept() -> None:
    scheduler = AbortingScheduler()
    scheduler.on(SourceOpens(SOURCE, (Pane(SOURCE, 0, 1), Pane(SOURCE, 1, 2)), 2))
    (read,) = scheduler.on(QueryBegins(ReadTransaction("Q", {SOURCE: 2}, keeps_partials=True)))
    scheduler.on(ReadFinished(read.read))
    decided = scheduler.on(UpdateReady(WindowUpdate("T", SOURCE, (Pane(SOURCE, 2, 3),), 3)))
    assert [one.query for one in decided if isinstance(one, AbortQuery)] == ["Q"]


def test_what_a_run_tells() -> None:
    workload = Workload(Setting(0.5, 2, 5, 10.0), (5,) * 4, (Asked(TOP_K, 2),), ())
    outcome = Outcome(workload, [Answered(workload.groups[0], 0, 0.0, 0.5, 0.0, 0.0)], aborts=1)
    run = LiveRun({"TTU": [LiveOutcome(outcome, 0.25, 2.0, (0.1, 0.3), ("wrong one",))]})
    assert told(run)["TTU"] == {"answers": 1, "aborts": 1, "panes_read": 2.0, "stale_by_s": 0.25, "update_s": 0.2}
    assert run.wrong == ["TTU: wrong one"]
    assert run.trials["TTU"][0].aborted_share == 0.5
