"""One-time queries without Spark: a stream that moves by command, and queries that count its rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pyarrow as pa

from windrow.catalog.definitions import define_stream
from windrow.cql import parse_one
from windrow.cql.statements import CreateStream
from windrow.dataplane.stores import PinnedFiles
from windrow.engine.isolation.coordinator import Coordinator
from windrow.engine.isolation.instants import committed_upto
from windrow.engine.isolation.interface import DRIVER_ROWS, PaneRange, PinnedVersion, ReadWindow
from windrow.engine.isolation.open_sources import OpenSources
from windrow.engine.plans.query import ContinuousQuery, PlanProgress
from windrow.engine.progress import start_of
from windrow.engine.state import CommittedState, StreamState
from windrow.plan.nodes import ROW_NUM
from windrow.schedulers.history import Entry
from windrow.windows import RowFrontier
from windrow.windows.promises import Announcement


class ScriptedStream:
    """A stream of one row per point, that is complete up to where it was moved. Counts the pins on it."""

    def __init__(self, name: str, tick: int = 1):
        text = f"CREATE STREAM {name} (t BIGINT) FROM memory TIMESTAMP BY t TICK {tick} PUNCTUATE ORDERED"
        definition = define_stream(cast(CreateStream, parse_one(text)))
        self.state = StreamState(1, definition, Path("nowhere"), start_of(definition))
        self.points: list[int] = []
        self.pins = 0
        self._lock = threading.Lock()

    def move(self, upto: int) -> None:
        """One commit: the rows below `upto`, and that no more come."""
        before = self.upto or 0
        with self.state.lock:
            self.points = [*self.points, *range(before, upto)]
            moved = self.state.progress.after_punctuation(Announcement({"t": upto}))
            self.state.install(CommittedState(moved, ()))

    def arrive(self, rows: int = 1) -> None:
        """One commit: so many rows come, and the stream is complete no farther than before."""
        with self.state.lock:
            before = self.state.progress
            counted = RowFrontier(self.state.numbered + rows)
            self.state.install(CommittedState(replace(before, frontiers={**before.frontiers, ROW_NUM: counted}), ()))

    @property
    def upto(self) -> int | None:
        return self.state.frontiers["t"].value

    def pinned(self, by: int) -> None:
        with self._lock:
            self.pins += by


class ScriptedView:
    """The view of a continuous query, which ticks by command."""

    def __init__(self, name: str):
        self.name = name
        self.progress = PlanProgress()
        self.watchers: dict[str, Callable[[], None]] = {}

    def tick(self, ticked: int) -> None:
        """One batch of ticks."""
        self.progress = replace(self.progress, ticked=ticked)
        for tell in list(self.watchers.values()):
            tell()


class CountingRead:
    """Counts the rows of its windows. `before` is called at each read, and `ahead` at each answer, of any thread.

    The answer has `n`, the count, and `instant`.
    """

    views: tuple[str, ...] = ()
    read_rows = DRIVER_ROWS

    def __init__(
        self,
        streams: Sequence[ScriptedStream],
        length: int | None,
        keeps_partials: bool = True,
        offset: int = 0,
        tick: int = 1,
    ):
        self.streams = streams
        self.windows = tuple(ReadWindow(one.state.name, "t", length, offset) for one in streams)
        self.keeps_partials = keeps_partials
        self.tick = tick
        self.files: dict[int, PinnedFiles] = {}
        self.read_panes: list[tuple[int | None, int]] = []
        self.before: Callable[[], None] = lambda: None
        self.ahead: Callable[[], None] = lambda: None

    def pin(self, at_most: int | None = None) -> PinnedVersion:
        uptos = [committed_upto(one.state, "t") for one in self.streams]
        known = [upto for upto in uptos if upto is not None]
        instant = min(known) if len(known) == len(uptos) else None
        instant = instant if instant is None or at_most is None else min(instant, at_most)
        for one in self.streams:
            one.pinned(1)
        is_held = threading.Lock()

        def release() -> None:
            if is_held.acquire(blocking=False):
                for one in self.streams:
                    one.pinned(-1)

        return PinnedVersion(None if instant is None else instant - instant % self.tick, self.files, release=release)

    @property
    def partial_rows(self) -> int:
        return self.read_rows

    def partials(self, runs: Sequence[PaneRange], at: PinnedVersion) -> Iterator[int]:
        for run in runs:
            self.before()
            assert at.instant is not None and run.hi <= at.instant
            self.read_panes.append((run.lo, run.hi))
            yield self._count(0, run.lo, run.hi)

    def answer(self, partials: Sequence[int], at: PinnedVersion) -> pa.Table:
        self.ahead()
        n = sum(partials)
        if not self.keeps_partials and at.instant is not None:
            n = sum(self._count(i, *window.bounds(at.instant)) for i, window in enumerate(self.windows))
        return pa.table({"n": [n], "instant": pa.array([at.instant], pa.int64())})

    def _count(self, i: int, lo: int | None, hi: int) -> int:
        return sum((lo is None or lo <= point) and point < hi for point in self.streams[i].points)


class PartsRead(CountingRead):
    """Reads what may change while the instant stays: how many rows of the streams `rows` have come, and the ticks of
    views. `streams` are read by windows as well. The answer also has `came` and `ticks`, of the version."""

    def __init__(
        self,
        streams: Sequence[ScriptedStream] = (),
        length: int | None = None,
        rows: Sequence[ScriptedStream] = (),
        views: Sequence[ScriptedView] = (),
    ):
        super().__init__(streams, length, keeps_partials=False)
        self.windows += tuple(ReadWindow(one.state.name, ROW_NUM, None) for one in rows)
        self.rows = rows
        self.shown = views
        self.views = tuple(view.name for view in views)

    def pin(self, at_most: int | None = None) -> PinnedVersion:
        found = super().pin(at_most) if self.streams else PinnedVersion(None)
        came = {one.state.name: one.state.numbered for one in self.rows}
        return replace(found, numbered=came, reading=tuple(view.progress.ticked for view in self.shown))

    def answer(self, partials: Sequence[int], at: PinnedVersion) -> pa.Table:
        self.ahead()
        instant = pa.array([at.instant], pa.int64())
        return pa.table({"instant": instant, "came": [sum(at.numbered.values())], "ticks": [list(at.reading)]})


class StillRead(CountingRead):
    """Reads no stream."""

    def __init__(self) -> None:
        super().__init__((), None, keeps_partials=False)

    def pin(self, at_most: int | None = None) -> PinnedVersion:
        return PinnedVersion(None)


class Laboratory:
    """A coordinator over scripted streams, and the history of all that it does."""

    def __init__(
        self, *streams: ScriptedStream, hold_s: float = 5.0, slots: int = 1, views: Sequence[ScriptedView] = ()
    ):
        self.streams = {one.state.name: one.state for one in streams}
        self.views = {one.name: one for one in views}
        self.history: list[Entry] = []
        self.coordinator = Coordinator(
            OpenSources(self.streams.__getitem__, lambda name: cast(ContinuousQuery, self.views[name])),
            lambda: hold_s,
            slots,
        )

    def close(self) -> None:
        self.coordinator.close()


@contextmanager
def laboratory(
    *streams: ScriptedStream, hold_s: float = 5.0, slots: int = 1, views: Sequence[ScriptedView] = ()
) -> Iterator[Laboratory]:
    """A laboratory that records its history; afterwards nothing may be pinned or watched."""
    lab = Laboratory(*streams, hold_s=hold_s, slots=slots, views=views)
    try:
        with lab.coordinator.recording(lab.history.append):
            yield lab
            lab.coordinator.cancel()
            lab.coordinator._readers.shutdown()
    finally:
        lab.close()
    assert [one.pins for one in streams] == [0] * len(streams)
    assert all(not one.state.watchers for one in streams)
    assert all(not one.watchers for one in views)
