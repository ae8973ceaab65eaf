"""The coordinator carries out what the transaction scheduler decides: reads follow updates, holds are bounded, urgent
queries go first, and nothing stays pinned."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from support.scripted_reads import (
    CountingRead,
    Laboratory,
    PartsRead,
    ScriptedStream,
    ScriptedView,
    StillRead,
    laboratory,
)

from windrow.dataplane.stores import PinnedFiles
from windrow.engine.isolation.asked import AskedQuery, IsolatedAnswer, Terms
from windrow.engine.isolation.coordinator import Coordinator
from windrow.engine.isolation.interface import PaneRange, PinnedVersion
from windrow.engine.isolation.loans import LONG_S, MOST_LENT
from windrow.engine.isolation.sources import StreamSource
from windrow.errors import ExecutionError, QueryCancelledError, QueryTimeoutError, ResultLimitError, StateError
from windrow.operators.tables.kernel import Kernel
from windrow.schedulers.check_history import check_history
from windrow.schedulers.history import Entry, History, Isolation
from windrow.schedulers.transactions import LatestScheduler, ReadTransaction
from windrow.schedulers.transactions.interface import QueryBegins, ReadFinished, UpdateReady

LATEST, WINDOW, SERIAL = Isolation.LATEST, Isolation.WINDOW, Isolation.SERIAL


class Gate:
    """Lets the reads of a query through one by one."""

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)
        self._open = threading.Semaphore(0)

    def __call__(self) -> None:
        self.reached.release()
        assert self._open.acquire(timeout=10)

    def arrive(self) -> None:
        """Wait until a read is at the gate."""
        assert self.reached.acquire(timeout=10)

    def let(self, count: int = 1) -> None:
        self._open.release(count)


def answered(coordinator: Coordinator, asked: AskedQuery) -> tuple[int, int | None, IsolatedAnswer]:
    found = coordinator.answer(asked)
    row = found.table.to_pylist()[0]
    assert row["instant"] == found.instant
    return row["n"], found.instant, found


def read_at_a_gate() -> tuple[ScriptedStream, Gate, Laboratory, CountingRead, AskedQuery]:
    """A query over a stream whose reads wait at a gate."""
    stream, gate = ScriptedStream("s"), Gate()
    stream.move(100)
    lab, read = Laboratory(stream), CountingRead([stream], 30)
    read.before = gate
    return stream, gate, lab, read, lab.coordinator.ask(read)


def is_lws(history: list[Entry]) -> bool:
    return check_history(History.of(history)).latest_window_serializable == ()


def is_ws(history: list[Entry]) -> bool:
    return check_history(History.of(history)).window_serializable == ()


def eventually(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_count_of_the_latest_window() -> None:
    stream = ScriptedStream("s")
    stream.move(100)
    with laboratory(stream) as lab:
        for isolation in Isolation:
            asked = lab.coordinator.ask(CountingRead([stream], 30), Terms(isolation))
            assert answered(lab.coordinator, asked)[:2] == (30, 100)
        assert lab.coordinator.answer(lab.coordinator.ask(CountingRead([stream], None))).table["n"][0].as_py() == 100


def test_a_stream_is_watched_only_while_a_query_reads_it() -> None:
    stream, gate = ScriptedStream("s"), Gate()
    stream.move(10)
    coordinator = Laboratory(stream).coordinator
    read = CountingRead([stream], 5)
    read.before = gate
    asked = coordinator.ask(read)
    gate.arrive()
    assert len(stream.state.watchers) == 1
    gate.let()
    coordinator.answer(asked)
    assert stream.state.watchers == {}
    coordinator.close()


def test_an_update_during_a_read_is_in_the_answer() -> None:
    stream, gate = ScriptedStream("s"), Gate()
    stream.move(100)
    with laboratory(stream) as lab:
        read = CountingRead([stream], 30)
        read.before = gate
        asked = lab.coordinator.ask(read)
        gate.arrive()
        stream.move(110)
        gate.let(10)
        n, instant, found = answered(lab.coordinator, asked)
        assert (n, instant, found.isolation, found.aborts) == (30, 110, LATEST, 0)
        assert found.rescans > 0
    assert is_lws(lab.history)


def test_an_update_while_the_answer_is_prepared_is_in_it() -> None:
    stream, gate = ScriptedStream("s"), Gate()
    stream.move(100)
    with laboratory(stream) as lab:
        read = CountingRead([stream], 30)
        read.ahead = gate
        asked = lab.coordinator.ask(read)
        gate.arrive()
        stream.move(101)
        gate.let(2)
        assert answered(lab.coordinator, asked)[:2] == (30, 101)
    assert is_lws(lab.history)


def test_window_isolation_keeps_its_version() -> None:
    stream, gate = ScriptedStream("s"), Gate()
    stream.move(100)
    with laboratory(stream) as lab:
        read = CountingRead([stream], 30)
        read.before = gate
        asked = lab.coordinator.ask(read, Terms(WINDOW))
        gate.arrive()
        stream.move(110)
        gate.let(10)
        n, instant, found = answered(lab.coordinator, asked)
        assert (n, instant, found.isolation) == (30, 100, WINDOW)
    assert not is_lws(lab.history)
    assert is_ws(lab.history)


def test_a_query_without_partials_restarts_three_times_and_then_holds_updates_back() -> None:
    stream, gate = ScriptedStream("s"), Gate()
    stream.move(100)
    with laboratory(stream) as lab:
        read = CountingRead([stream], 30, keeps_partials=False)
        read.ahead = gate
        asked = lab.coordinator.ask(read)
        for _ in range(4):
            gate.arrive()
            stream.move((stream.upto or 0) + 1)
            gate.let()
        gate.arrive()
        stream.move(200)  # waits: the query is serial now
        gate.let()
        n, instant, found = answered(lab.coordinator, asked)
        assert (n, instant, found.isolation, found.aborts) == (30, 104, SERIAL, 4)
        eventually(lambda: answered(lab.coordinator, lab.coordinator.ask(CountingRead([stream], 5)))[1] == 200)
    assert is_lws(lab.history)


class Aborting(LatestScheduler):
    """Algorithm 7 without re-scans."""

    def _begin(self, transaction: ReadTransaction) -> None:
        super()._begin(replace(transaction, keeps_partials=False))


def test_another_scheduler_decides_once_nothing_runs() -> None:
    stream, gate = ScriptedStream("s"), Gate()
    stream.move(100)
    with laboratory(stream) as lab:
        lab.coordinator.schedule_by(Aborting)
        read = CountingRead([stream], 30)
        read.before = gate
        asked = lab.coordinator.ask(read)
        gate.arrive()
        with pytest.raises(StateError, match="one-time queries run"):
            lab.coordinator.schedule_by(Aborting)
        stream.move(110)
        gate.let(10)
        n, instant, found = answered(lab.coordinator, asked)
        assert (n, instant, found.isolation, found.aborts, found.rescans) == (30, 110, LATEST, 1, 0)
    assert is_lws(lab.history)


def test_an_attempt_begins_without_what_another_has_read() -> None:
    asked = AskedQuery(1, "", CountingRead([], 30), Terms())
    asked.partials.add(0, 10, 10)
    asked.keep_partials_of(1)
    assert asked.partials.values == [10]
    asked.keep_partials_of(2)
    assert asked.partials.values == []


def test_a_query_over_all_that_is_kept_ends_though_updates_never_take_a_pane_away() -> None:
    stream, gate = ScriptedStream("s"), Gate()
    stream.move(100)
    with laboratory(stream) as lab:
        read = CountingRead([stream], None, keeps_partials=False)
        read.ahead = gate
        asked = lab.coordinator.ask(read)
        for _ in range(8):
            gate.arrive()
            stream.move((stream.upto or 0) + 1)
            gate.let()
            if asked.wait(0.05):
                break
        n, instant, found = answered(lab.coordinator, asked)
        assert (n, found.isolation) == (instant, SERIAL)
    assert is_lws(lab.history)


def test_a_hold_ends_after_its_time_and_the_answer_says_so() -> None:
    stream, gate = ScriptedStream("s"), Gate()
    stream.move(100)
    with laboratory(stream, hold_s=0.05) as lab:
        read = CountingRead([stream], 30, keeps_partials=False)
        read.ahead = gate
        asked = lab.coordinator.ask(read, Terms(SERIAL))
        gate.arrive()
        begun = time.monotonic()
        stream.move(110)
        assert time.monotonic() - begun < 0.04  # the commit itself never waits
        assert lab.coordinator.is_held("S") and not lab.coordinator.is_held("t")
        other = CountingRead([stream], 30)
        eventually(lambda: answered(lab.coordinator, lab.coordinator.ask(other))[1] == 110)
        assert not lab.coordinator.is_held("s")
        gate.let()
        n, instant, found = answered(lab.coordinator, asked)
        assert (n, instant, found.isolation) == (30, 100, WINDOW)
    assert is_ws(lab.history)


def test_windows_over_two_streams_are_of_the_least_instant() -> None:
    one, two = ScriptedStream("a"), ScriptedStream("b")
    one.move(100)
    two.move(47)
    with laboratory(one, two) as lab:
        read = CountingRead([one, two], 10, keeps_partials=False, tick=5)
        assert answered(lab.coordinator, lab.coordinator.ask(read))[:2] == (20, 45)
    assert is_lws(lab.history)


def test_an_offset_window() -> None:
    stream, gate = ScriptedStream("s"), Gate()
    stream.move(100)
    with laboratory(stream) as lab:
        read = CountingRead([stream], 10, offset=20)
        read.before = gate
        asked = lab.coordinator.ask(read)
        gate.arrive()
        stream.move(105)
        gate.let(10)
        assert answered(lab.coordinator, asked)[:2] == (10, 105)
        assert min(lo for lo, _ in read.read_panes if lo is not None) == 70
        assert max(hi for _, hi in read.read_panes) == 85
    assert is_lws(lab.history)


def test_a_stream_without_tuples_and_a_query_without_streams() -> None:
    stream = ScriptedStream("s")
    with laboratory(stream) as lab:
        empty = lab.coordinator.answer(lab.coordinator.ask(CountingRead([stream], 10)))
        assert (empty.table["n"][0].as_py(), empty.instant) == (0, None)
        still = lab.coordinator.answer(lab.coordinator.ask(StillRead()))
        assert (still.table.num_rows, still.instant) == (1, None)


def test_an_urgent_query_goes_before_those_that_wait() -> None:
    stream, gate, order = ScriptedStream("s"), Gate(), list[str]()
    stream.move(100)
    with laboratory(stream) as lab:
        first = CountingRead([stream], 30)
        first.ahead = gate
        lab.coordinator.ask(first)
        gate.arrive()
        for name, priority in (("usual", 0), ("urgent", 5)):
            read = CountingRead([stream], 30)
            read.before = lambda name=name: order.append(name)  # type: ignore[misc]
            lab.coordinator.ask(read, Terms(priority=priority))
        gate.let()
        eventually(lambda: len(order) == 2)
    assert order == ["urgent", "usual"]


def test_a_long_read_lends_its_slot() -> None:
    stream, gate = ScriptedStream("s"), Gate()
    stream.move(100)
    with laboratory(stream) as lab:
        slow = CountingRead([stream], 30, keeps_partials=False)
        slow.ahead = gate
        waiting = lab.coordinator.ask(slow)
        gate.arrive()
        assert answered(lab.coordinator, lab.coordinator.ask(CountingRead([stream], 30)))[0] == 30
        gate.let()
        assert answered(lab.coordinator, waiting)[0] == 30
        assert lab.coordinator._scheduler.slots == 1


def long_reads(lab: Laboratory, stream: ScriptedStream, count: int) -> list[tuple[AskedQuery, Gate]]:
    """So many queries whose reads are long, each at its gate."""
    found = []
    for _ in range(count):
        read, gate = CountingRead([stream], 30, keeps_partials=False), Gate()
        read.ahead = gate
        found.append((lab.coordinator.ask(read), gate))
        gate.arrive()
    return found


def test_a_long_read_that_was_refused_a_loan_lends_when_another_has_returned() -> None:
    stream = ScriptedStream("s")
    stream.move(100)
    with laboratory(stream) as lab:
        found = long_reads(lab, stream, MOST_LENT + 1)
        waiting = lab.coordinator.ask(CountingRead([stream], 30))
        assert not waiting.wait(3 * LONG_S)
        for asked, gate in found[:-1]:
            gate.let()
            lab.coordinator.answer(asked)
        assert waiting.wait(10)
        found[-1][1].let()
        lab.coordinator.answer(found[-1][0])
        assert lab.coordinator._scheduler.slots == 1


def test_an_urgent_query_gets_a_slot_beside_all_that_are_lent() -> None:
    stream = ScriptedStream("s")
    stream.move(100)
    with laboratory(stream) as lab:
        found = long_reads(lab, stream, MOST_LENT + 1)
        time.sleep(2 * LONG_S)
        for priority in (9, 9):
            urgent = lab.coordinator.ask(CountingRead([stream], 30), Terms(priority=priority))
            assert urgent.wait(5)
        for asked, gate in found:
            gate.let()
            lab.coordinator.answer(asked)
        assert lab.coordinator._scheduler.slots == 1


@pytest.mark.parametrize("isolation", list(Isolation))
def test_a_version_that_is_too_old_at_the_beginning_is_pinned_again(isolation: Isolation) -> None:
    stream = ScriptedStream("s")
    stream.move(100)
    with laboratory(stream) as lab:
        other, gate = CountingRead([stream], 5), Gate()
        other.before = gate
        lab.coordinator.ask(other)  # which keeps the source open
        gate.arrive()
        read = CountingRead([stream], 30, keeps_partials=False)

        def pin(at_most: int | None = None) -> PinnedVersion:
            found = CountingRead.pin(read, at_most)
            if lab.coordinator.running[-1].name not in lab.coordinator._by_name:
                stream.move((stream.upto or 0) + 1)
            return found

        read.pin = pin  # type: ignore[method-assign]
        asked = lab.coordinator.ask(read, Terms(isolation))
        gate.let(10)
        _, instant, found = answered(lab.coordinator, asked)
        expected = stream.upto - 1 if isolation is WINDOW else stream.upto  # type: ignore[operator]
        assert (instant, found.isolation) == (expected, isolation)


@pytest.mark.parametrize("given", [False, True])
def test_what_is_pinned_when_its_stream_is_dropped_is_released(given: bool) -> None:
    stream = ScriptedStream("s")
    stream.move(100)
    with laboratory(stream) as lab:
        read = CountingRead([stream], 30)
        version = read.pin() if given else None
        del lab.streams["s"]
        with pytest.raises(KeyError, match="'s'"):
            lab.coordinator.ask(read, version=version)
        assert stream.pins == 0 and lab.coordinator.running == []


def test_no_read_of_the_old_attempt_runs_beside_a_serial_one(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, active, torn = ScriptedStream("s"), list[int](), list[int]()
    stream.move(5)
    with laboratory(stream, hold_s=0.2) as lab:
        submit = lab.coordinator._readers.submit

        def at_once(*work: object) -> object:
            done = submit(*work)  # type: ignore[arg-type]
            time.sleep(0.03)  # it begins before the lock is free
            return done

        monkeypatch.setattr(lab.coordinator._readers, "submit", at_once)
        drop = AskedQuery.drop_version
        monkeypatch.setattr(AskedQuery, "drop_version", lambda one: (torn.extend(active), drop(one))[1])
        read = CountingRead([stream], None)

        def move() -> None:
            active.append(1)
            stream.move((stream.upto or 0) + 1)
            time.sleep(0.05)
            active.pop()

        read.before = move
        n, instant, _ = answered(lab.coordinator, lab.coordinator.ask(read))
        assert n == instant
    assert torn == []


@pytest.mark.parametrize("event", [ReadFinished, UpdateReady, QueryBegins])
def test_a_failing_scheduler_ends_all_queries_and_begins_anew(
    event: type, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stream, gate, lab, read, asked = read_at_a_gate()
    waiting = lab.coordinator.ask(CountingRead([stream], 30))
    gate.arrive()
    on = lab.coordinator._scheduler.on

    def fails(*events: object) -> object:
        if isinstance(events[0], event):
            raise ValueError("no such thing")
        return on(*events)  # type: ignore[arg-type]

    monkeypatch.setattr(lab.coordinator._scheduler, "on", fails)
    if event is QueryBegins:
        with pytest.raises(ExecutionError, match="no such thing"):
            lab.coordinator.ask(CountingRead([stream], 5))
    stream.move(110)  # the commit goes on
    gate.let(10)
    for one in (asked, waiting):
        assert one.wait(10)
        with pytest.raises(ExecutionError, match="no such thing"):
            lab.coordinator.answer(one)
    assert "given up" in caplog.text
    read.before = lambda: None
    assert answered(lab.coordinator, lab.coordinator.ask(read))[:2] == (30, 110)
    lab.close()
    assert (stream.pins, stream.state.watchers) == (0, {})


def test_an_update_that_cannot_be_looked_at_ends_the_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, gate, lab, read, asked = read_at_a_gate()
    gate.arrive()
    monkeypatch.setattr(StreamSource, "update", lambda *_: 1 // 0)
    stream.move(110)
    with pytest.raises(ExecutionError, match="division"):
        lab.coordinator.answer(asked)
    gate.let(10)
    lab.close()
    assert stream.pins == 0


def test_cancel_from_another_thread() -> None:
    stream, gate = ScriptedStream("s"), Gate()
    stream.move(100)
    with laboratory(stream) as lab:
        read = CountingRead([stream], 30)
        read.before = gate
        asked = lab.coordinator.ask(read)
        gate.arrive()
        assert [one.number for one in lab.coordinator.running] == [asked.number]
        assert lab.coordinator.cancel(asked.number) == 1
        with pytest.raises(QueryCancelledError, match=r"WR730"):
            lab.coordinator.answer(asked)
        assert lab.coordinator.cancel(asked.number) == 0
        gate.let()
        assert answered(lab.coordinator, lab.coordinator.ask(CountingRead([stream], 30)))[0] == 30


def test_timeout() -> None:
    stream, gate = ScriptedStream("s"), Gate()
    stream.move(100)
    with laboratory(stream) as lab:
        read = CountingRead([stream], 30)
        read.before = gate
        with pytest.raises(QueryTimeoutError, match=r"longer than 0\.05 s"):
            lab.coordinator.answer(lab.coordinator.ask(read, Terms(timeout_s=0.05)))
        gate.let()


def test_a_query_that_fails_does_not_stop_the_others() -> None:
    stream = ScriptedStream("s")
    stream.move(100)
    with laboratory(stream) as lab:
        read = CountingRead([stream], 30)
        read.before = lambda: 1 // 0  # type: ignore[assignment]
        with pytest.raises(ZeroDivisionError):
            lab.coordinator.answer(lab.coordinator.ask(read))
        assert answered(lab.coordinator, lab.coordinator.ask(CountingRead([stream], 30)))[0] == 30


def test_limits_of_results() -> None:
    stream = ScriptedStream("s")
    stream.move(100)
    with laboratory(stream) as lab:
        for terms, what in (
            (Terms(max_rows=0), "max_result_rows is 0"),
            (Terms(max_bytes=1), "max_result_bytes is 1 B"),
        ):
            with pytest.raises(ResultLimitError, match=what):
                lab.coordinator.answer(lab.coordinator.ask(CountingRead([stream], 30), terms))


@pytest.mark.parametrize("keeps_partials", [True, False])
def test_what_is_kept_of_panes_is_bounded(keeps_partials: bool) -> None:
    stream = ScriptedStream("s")
    stream.move(100)

    class Wide(CountingRead):
        """Its partial results take 100 bytes each."""

        def partials(self, runs: Sequence[PaneRange], at: PinnedVersion) -> Iterator[Any]:
            for n in super().partials(runs, at):
                yield SimpleNamespace(n=n, nbytes=100)

        def answer(self, partials: Sequence[Any], at: PinnedVersion) -> pa.Table:
            return super().answer([one.n for one in partials], at)

    with laboratory(stream) as lab:
        read = Wide([stream], 30, keeps_partials)
        read.read_rows = 1
        assert lab.coordinator.answer(lab.coordinator.ask(read)).table["n"][0].as_py() == 30
        asked = lab.coordinator.ask(read, Terms(max_partial_bytes=99))
        if keeps_partials:
            with pytest.raises(ResultLimitError, match="take 100 bytes, and max_partial_bytes is 99 B"):
                lab.coordinator.answer(asked)
        else:
            lab.coordinator.answer(asked)


@pytest.mark.parametrize("how", ["cancel", "timeout", "close"])
def test_an_evaluation_in_the_driver_ends_soon(how: str) -> None:
    stream, kernel = ScriptedStream("s"), Kernel()
    stream.move(100)
    ended, rows = threading.Event(), pa.table({"x": range(100_000)})

    def evaluate() -> None:
        try:
            kernel.query("SELECT count(*) FROM a, b WHERE (a.x * b.x) % 7 = 1", a=rows, b=rows)
        finally:
            ended.set()

    with laboratory(stream) as lab:
        read = CountingRead([stream], 30)
        read.ahead = evaluate
        asked = lab.coordinator.ask(read, Terms(timeout_s=0.2 if how == "timeout" else None))
        eventually(lambda: bool(asked.permit._interrupts))
        started = time.monotonic()
        if how == "close":
            lab.coordinator.close()
        elif how == "cancel":
            assert lab.coordinator.cancel() == 1
        with pytest.raises(QueryTimeoutError if how == "timeout" else QueryCancelledError):
            lab.coordinator.answer(asked)
        assert ended.wait(5) and time.monotonic() - started < 5


def test_closing_cancels() -> None:
    stream, gate = ScriptedStream("s"), Gate()
    stream.move(100)
    with laboratory(stream) as lab:
        read = CountingRead([stream], 30)
        read.before = gate
        asked = lab.coordinator.ask(read)
        gate.arrive()
        closing = threading.Thread(target=lab.coordinator.close)
        closing.start()
        with pytest.raises(QueryCancelledError):
            lab.coordinator.answer(asked)
        gate.let()
        closing.join(10)
        with pytest.raises(StateError, match="closed"):
            lab.coordinator.ask(CountingRead([stream], 30))


def test_a_history_begins_when_no_query_runs() -> None:
    stream = ScriptedStream("s")
    stream.move(100)
    with (
        laboratory(stream) as lab,
        pytest.raises(StateError, match="recorded already"),
        lab.coordinator.recording(lambda entry: None),
    ):
        pass


PARTS = pytest.mark.parametrize("reads", ["rows", "view", "rows and window", "view and window"])


def parts_read(reads: str, stream: ScriptedStream, view: ScriptedView) -> PartsRead:
    windows = [stream] if reads.endswith("window") else []
    return PartsRead(windows, 30, [stream] if "rows" in reads else [], [view] if "view" in reads else [])


def parts_of(reads: str, found: IsolatedAnswer) -> int:
    """How many rows had come, or the tick of the view."""
    row = found.table.to_pylist()[0]
    return int(row["came"] if "rows" in reads else row["ticks"][0])


def change(reads: str, stream: ScriptedStream, view: ScriptedView, to: int) -> None:
    """Rows come up to this number, or the view ticks; the instant stays."""
    if "rows" in reads:
        stream.arrive(to - stream.state.numbered)
    else:
        view.tick(to)


@PARTS
@pytest.mark.parametrize("isolation", [LATEST, SERIAL])
def test_what_came_while_a_query_waited_for_a_slot_is_in_its_answer(reads: str, isolation: Isolation) -> None:
    stream, view, gate = ScriptedStream("s"), ScriptedView("c"), Gate()
    stream.move(100)
    change(reads, stream, view, 1)
    with laboratory(stream, views=[view]) as lab:
        lab.coordinator._scheduler.slots = 0  # none is free
        read = parts_read(reads, stream, view)
        asked = lab.coordinator.ask(read, Terms(isolation), version=read.pin())
        change(reads, stream, view, 2)
        lab.coordinator._scheduler.slots = 1
        other = CountingRead([stream], 5)
        other.before = gate
        lab.coordinator.ask(other)
        found = lab.coordinator.answer(asked)
        assert (parts_of(reads, found), found.isolation, found.aborts) == (2, isolation, 0)
        gate.let(10)
    assert is_lws(lab.history)


@PARTS
def test_a_change_during_the_evaluation_is_in_the_answer(reads: str) -> None:
    stream, view, gate = ScriptedStream("s"), ScriptedView("c"), Gate()
    stream.move(100)
    change(reads, stream, view, 1)
    with laboratory(stream, views=[view]) as lab:
        read = parts_read(reads, stream, view)
        read.ahead = gate
        asked = lab.coordinator.ask(read)
        gate.arrive()
        change(reads, stream, view, 2)
        gate.let(2)
        found = lab.coordinator.answer(asked)
        assert (parts_of(reads, found), found.isolation, found.aborts) == (2, LATEST, 1)
    assert is_lws(lab.history)


@PARTS
def test_window_isolation_keeps_the_rows_and_views_of_its_beginning(reads: str) -> None:
    stream, view, gate = ScriptedStream("s"), ScriptedView("c"), Gate()
    stream.move(100)
    change(reads, stream, view, 1)
    with laboratory(stream, views=[view]) as lab:
        lab.coordinator._scheduler.slots = 0
        asked = lab.coordinator.ask(parts_read(reads, stream, view), Terms(WINDOW))
        change(reads, stream, view, 2)
        lab.coordinator._scheduler.slots = 1
        other = CountingRead([stream], 5)
        other.before = gate
        lab.coordinator.ask(other)
        found = lab.coordinator.answer(asked)
        assert (parts_of(reads, found), found.isolation) == (1, WINDOW)
        gate.let(10)
    assert is_ws(lab.history)


def test_a_query_of_which_one_source_cannot_be_opened_leaves_nothing_behind() -> None:
    stream, view = ScriptedStream("s"), ScriptedView("c")
    stream.move(100)
    with laboratory(stream) as lab:  # which has no view
        with pytest.raises(KeyError, match="'c'"):
            lab.coordinator.ask(PartsRead([stream], 30, views=[view]))
        assert stream.state.watchers == {} and lab.coordinator.running == []
        assert answered(lab.coordinator, lab.coordinator.ask(CountingRead([stream], 30)))[0] == 30


def test_what_is_created_again_while_it_is_read_has_a_source_of_its_own() -> None:
    old, old_view, gate = ScriptedStream("s"), ScriptedView("c"), Gate()
    old.move(100)
    old_view.tick(100)
    with laboratory(old, views=[old_view], slots=2) as lab:
        read = PartsRead([old], 30, views=[old_view])
        read.ahead = gate
        asked = lab.coordinator.ask(read, Terms(WINDOW))
        gate.arrive()
        new, new_view, ahead = ScriptedStream("s"), ScriptedView("c"), Gate()
        new.move(10)
        new_view.tick(10)
        lab.streams["s"], lab.views["c"] = new.state, new_view
        later = PartsRead([new], 30, views=[new_view])
        later.ahead = ahead
        waiting = lab.coordinator.ask(later)
        ahead.arrive()
        new_view.tick(20)
        ahead.let()
        ahead.arrive()
        new.move(20)
        ahead.let(3)
        gate.let()
        found = lab.coordinator.answer(waiting)
        assert (found.instant, found.version.reading) == (20, (20,))
        assert lab.coordinator.answer(asked).instant == 100
    assert new.state.watchers == {} and new_view.watchers == {}


@pytest.mark.parametrize("isolation", list(Isolation))
def test_a_query_that_something_else_holds_back_is_pinned_twice_at_most(isolation: Isolation) -> None:
    stream = ScriptedStream("s")
    stream.move(100)
    with laboratory(stream) as lab:
        read, pins = CountingRead([stream], 10, keeps_partials=False), list[int | None]()

        def pin(at_most: int | None = None) -> PinnedVersion:
            pins.append(at_most)
            return CountingRead.pin(read, min(40, at_most or 40))

        read.pin = pin  # type: ignore[method-assign]
        assert answered(lab.coordinator, lab.coordinator.ask(read, Terms(isolation)))[1] == 40
    assert pins == [None, 100]


def test_a_source_that_stays_open_forgets_the_panes_that_nobody_reads() -> None:
    stream, gate = ScriptedStream("s"), Gate()
    stream.move(100)
    coordinator = Laboratory(stream, slots=2).coordinator
    read = CountingRead([stream], 30)
    read.ahead = gate
    asked = coordinator.ask(read)
    gate.arrive()
    for upto in range(101, 301):
        stream.move(upto)
    assert len(coordinator._scheduler._sources["s.t"].panes) <= 32
    assert coordinator._sources.panes("s.t", None) <= 32
    everything = CountingRead([stream], None)
    assert answered(coordinator, coordinator.ask(everything))[:2] == (300, 300)
    gate.let(10)
    assert answered(coordinator, asked)[:2] == (30, 300)
    coordinator.close()
    assert stream.pins == 0


def test_a_long_window_is_read_in_pieces_though_a_short_one_opened_its_source() -> None:
    stream = ScriptedStream("s")
    stream.move(100)
    with laboratory(stream) as lab:
        lab.coordinator.answer(lab.coordinator.ask(CountingRead([stream], 5)))
        read = CountingRead([stream], None)
        read.read_rows = 10
        files = [SimpleNamespace(lo=lo, hi=lo + 9, rows=10) for lo in range(0, 100, 10)]
        read.files = {1: cast(PinnedFiles, SimpleNamespace(files=files))}
        assert answered(lab.coordinator, lab.coordinator.ask(read))[0] == 100
    assert read.read_panes == [*((lo, lo + 10) for lo in range(90, 0, -10)), (None, 10)]


@pytest.mark.parametrize("read_rows", [1, 1000])
def test_updates_that_come_with_every_read(read_rows: int) -> None:
    """Two updates come during each read of a window without a length, read at once or in pieces: the query ends."""
    stream = ScriptedStream("s")
    stream.move(5)
    with laboratory(stream, hold_s=0.2) as lab:
        read = CountingRead([stream], None)
        read.read_rows = read_rows
        read.files = {1: cast(PinnedFiles, SimpleNamespace(files=[SimpleNamespace(lo=0, hi=4, rows=5)]))}

        def move() -> None:
            for _ in range(2):
                stream.move((stream.upto or 0) + 1)

        read.before = move
        n, instant, _ = answered(lab.coordinator, lab.coordinator.ask(read))
        assert n == instant
        assert len(read.read_panes) < 50
    assert is_ws(lab.history)


@pytest.mark.parametrize("slots", [1, 3])
def test_many_readers_and_updates(slots: int) -> None:
    """Every answer has the count of the window that it claims, and the whole history is LWS."""
    stream = ScriptedStream("s", tick=5)
    stream.move(50)
    wrong: list[object] = []

    def ask(coordinator: Coordinator, seed: int) -> None:
        chosen = random.Random(seed)
        for _ in range(30):
            length = chosen.choice([5, 20, 37, None])
            read = CountingRead([stream], length, keeps_partials=chosen.random() < 0.7, tick=5)
            n, instant, found = answered(coordinator, coordinator.ask(read))
            assert instant is not None
            if n != (instant if length is None else min(length, instant)) or found.isolation is WINDOW:
                wrong.append((n, instant, length, found))

    with laboratory(stream, slots=slots) as lab:
        askers = [threading.Thread(target=ask, args=(lab.coordinator, seed)) for seed in range(8)]
        for one in askers:
            one.start()
        while any(one.is_alive() for one in askers):
            stream.move((stream.upto or 0) + random.randint(1, 9))
            time.sleep(0.001)
        for one in askers:
            one.join()
    assert wrong == []
    assert is_lws(lab.history)
