"""What the coordinator is made of: partial results, cuts of panes, lags, staleness, alarms and recorded histories."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from support.scripted_reads import CountingRead, Laboratory, ScriptedStream

from windrow.catalog.definitions import define_stream
from windrow.cql import parse_one
from windrow.cql.statements import CreateStream
from windrow.dataplane.stores import MappedFiles, PinnedFiles, StoredRows
from windrow.engine.ask.as_of import ShownResult, least_window, worst_staleness
from windrow.engine.isolation.alarms import Alarms
from windrow.engine.isolation.instants import committed_upto, tick_of
from windrow.engine.isolation.interface import DRIVER_ROWS, PinnedVersion
from windrow.engine.isolation.partials import KeptPartials
from windrow.engine.isolation.recording import history_file
from windrow.engine.isolation.sources import EVERYTHING, cuts_of, run_of
from windrow.engine.isolation.staleness import staleness_of
from windrow.engine.lags import MINUTES, LagRing
from windrow.engine.progress import start_of
from windrow.engine.state import CommittedState, StreamState
from windrow.errors import StateError
from windrow.result import Staleness
from windrow.schedulers.check_history import check_history
from windrow.schedulers.notation import read_history
from windrow.types import SqlType
from windrow.windows import Seen
from windrow.windows.promises import Announcement

SECOND = 1_000_000


def stream_of(rest: str) -> StreamState:
    definition = define_stream(cast(CreateStream, parse_one(f"CREATE STREAM s {rest}")))
    return StreamState(1, definition, Path("nowhere"), start_of(definition))


def seen(stream: StreamState, axis: str, greatest: int) -> None:
    least = {axis: greatest}
    moved = stream.progress.after_deposit(0, {axis: Seen(greatest)}, least, Announcement(), {}, True)
    stream.install(CommittedState(moved, ()))


# -- partial results ---------------------------------------------------------------------------


def test_gaps_between_partials() -> None:
    kept = KeptPartials()
    assert kept.gaps([(0, 10), (10, 20), (30, 40)]) == [(0, 20), (30, 40)]
    kept.add(5, 12, "a")
    kept.add(15, 35, "b")
    assert kept.gaps([(0, 10), (10, 20), (30, 40)]) == [(0, 5), (12, 15), (35, 40)]


def test_a_run_that_leaves_in_part_is_dropped_whole() -> None:
    kept = KeptPartials()
    for lo in (20, 0, 10):
        kept.add(lo, lo + 10, lo)
    kept.leave(5)
    assert kept.values == [10, 20]
    assert kept.gaps([(5, 30)]) == [(5, 10)]


# -- panes -------------------------------------------------------------------------------------


def version_of(*files: tuple[int, int, int]) -> PinnedVersion:
    stored = tuple(StoredRows("", *one) for one in files)
    return PinnedVersion(0, {1: PinnedFiles(stored, MappedFiles())})


def test_cuts_bound_the_rows_of_a_read() -> None:
    half = DRIVER_ROWS // 2
    assert cuts_of(version_of((0, 9, half), (10, 19, half), (20, 29, half))) == [20]
    assert cuts_of(version_of((0, 400, 4 * DRIVER_ROWS))) == [0, 100, 200, 300]
    assert cuts_of(version_of((0, 1, 4 * DRIVER_ROWS))) == []  # a point is not cut


def test_few_rows_are_read_at_once() -> None:
    assert run_of(100, 5_000, DRIVER_ROWS) == EVERYTHING
    assert run_of(100, 10 * DRIVER_ROWS, DRIVER_ROWS) == 10
    assert run_of(4, 100 * DRIVER_ROWS, DRIVER_ROWS) == 1


# -- instants ----------------------------------------------------------------------------------


def test_ticks() -> None:
    ordered = "FROM memory TIMESTAMP BY ts PUNCTUATE ORDERED"
    assert tick_of(stream_of(f"(ts TIMESTAMP) {ordered}").definition, "ts") == SECOND
    assert tick_of(stream_of(f"(ts TIMESTAMP) {ordered} TICK 100 MILLISECONDS").definition, "ts") == 100_000
    assert tick_of(stream_of(f"(ts BIGINT) {ordered}").definition, "ts") == 1


def test_the_instant_is_the_frontier_floored_to_the_tick() -> None:
    stream = stream_of("(t BIGINT) FROM memory TIMESTAMP BY t TICK 10 PUNCTUATE WITH SLACK 5")
    assert committed_upto(stream, "t") is None
    seen(stream, "t", 47)
    assert committed_upto(stream, "t") == 40
    ended = stream.progress.after_punctuation(Announcement({"t": 48}), {"t": 47})
    stream.install(CommittedState(ended, ()))
    assert committed_upto(stream, "t") == 50


# -- lags and staleness ------------------------------------------------------------------------


def test_lags_of_the_last_hour() -> None:
    ring = LagRing()
    assert ring.summary(0) is None
    for minute in range(90):
        ring.note(minute * 60.0, minute)
    known = ring.summary(89 * 60.0)
    assert known is not None and (known.count, known.worst, known.mean) == (60, 89, 59.5)
    assert ring.summary(200 * 60.0) is None
    assert len(ring._minutes) == MINUTES


def test_a_stream_notes_its_slack() -> None:
    stream = stream_of("(t BIGINT) FROM memory TIMESTAMP BY t PUNCTUATE WITH SLACK 5")
    seen(stream, "t", 47)
    known = stream.lags.summary(1e9) or stream.lags._minutes[-1]
    assert (known.count, known.worst) == (1, 5)


def test_staleness_names_the_slack() -> None:
    stream = stream_of("(ts TIMESTAMP) FROM memory TIMESTAMP BY ts PUNCTUATE WITH SLACK 5 SECONDS")
    assert staleness_of(0, [(stream, "ts")]) is None
    seen(stream, "ts", 20 * SECOND + 300_000)
    found = staleness_of(15 * SECOND, [(stream, "ts")])
    assert found == Staleness("s", timedelta(seconds=5.3), timedelta(seconds=5), timedelta(seconds=0.3))
    assert str(found) == "0:00:05.300000 (0:00:05 slack and 0:00:00.300000 behind of stream s)"


def test_staleness_is_of_the_worst_stream() -> None:
    streams = [stream_of(f"(t BIGINT) FROM memory TIMESTAMP BY t PUNCTUATE WITH SLACK {slack}") for slack in (1, 7)]
    for one in streams:
        seen(one, "t", 100)
    found = staleness_of(93, [(one, "t") for one in streams])
    assert found is not None and (found.total, found.slack, found.behind) == (7, 1, 6)
    assert staleness_of(None, [(streams[0], "t")]) is None


def shown(upto: int | None, stream: StreamState, kind: str = "BIGINT", **more: Any) -> ShownResult:
    return ShownResult(upto, SqlType(kind), ((stream.name, "t"),), **more)


def test_results_are_as_of_the_least_and_behind_by_the_worst() -> None:
    stream = stream_of("(t BIGINT) FROM memory TIMESTAMP BY t PUNCTUATE WITH SLACK 5")
    seen(stream, "t", 100)
    streams = {"s": stream}
    both = [shown(95, stream), shown(80, stream)]
    assert least_window(both) == 80
    found = worst_staleness(both, streams)
    assert found is not None and (found.total, found.slack, found.behind) == (20, 5, 15)
    including = worst_staleness([shown(94, stream, includes_end=True)], streams)
    assert including is not None and including.behind == 0
    for unknown in ([], [shown(95, stream), shown(None, stream)], [shown(95, stream), shown(80, stream, "TIMESTAMP")]):
        assert (least_window(unknown), worst_staleness(unknown, streams)) == (None, None)
    assert worst_staleness([shown(95, stream)], {}) is None


# -- alarms and histories ----------------------------------------------------------------------


def test_alarms_come_in_order_and_not_after_closing() -> None:
    alarms, heard, all_heard = Alarms(), list[int](), threading.Event()
    alarms.after(0.2, lambda: (heard.append(2), all_heard.set()))  # type: ignore[func-returns-value, arg-type]
    alarms.after(0.1, lambda: heard.append(1))
    assert all_heard.wait(5)
    alarms.after(0.3, lambda: heard.append(3))
    alarms.close()
    alarms.after(0.0, lambda: heard.append(4))
    threading.Event().wait(0.4)
    assert heard == [1, 2]


def test_a_recorded_history_can_be_checked(tmp_path: Path) -> None:
    stream = ScriptedStream("s")
    stream.move(100)
    coordinator = Laboratory(stream).coordinator
    with history_file(coordinator, tmp_path / "history.jsonl"):
        for upto in (110, 120):
            coordinator.answer(coordinator.ask(CountingRead([stream], 30)))
            stream.move(upto)
    coordinator.answer(coordinator.ask(CountingRead([stream], 30)))  # not recorded
    coordinator.close()
    history = read_history((tmp_path / "history.jsonl").read_text())
    assert len(history.committed_queries) == 2
    assert check_history(history).latest_window_serializable == ()


def test_a_history_that_cannot_be_written(tmp_path: Path) -> None:
    nowhere: Any = tmp_path / "missing" / "history.jsonl"
    coordinator = Laboratory().coordinator
    with pytest.raises(StateError, match="cannot write the history"), history_file(coordinator, nowhere):
        pass
    coordinator.close()
