"""Runs Windrow over files that appear tick by tick, and tells how long each tick took."""

from __future__ import annotations

import logging
import sys
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from common import empty_batches

import windrow
from joining.data import COLUMNS, START_S, Folder, Load

WAIT_S = 300


@dataclass(frozen=True)
class Timed:
    """Of one tick: seconds from the commit of the last frontier to that of the last change (`commit_s`), and from when
    the files became visible (`whole_s`)."""

    commit_s: float
    whole_s: float


class Events(logging.Handler):
    """When deposits and ticks were committed, from the log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.changed = threading.Condition()
        self.deposited_s = 0.0
        self.ticked: dict[str, tuple[str, float]] = {}
        logger = logging.getLogger("windrow")
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        now, event = time.perf_counter(), getattr(record, "event", "")
        if record.levelno >= logging.WARNING:
            told(f"  {record.getMessage()}")
        fields = getattr(record, "fields", {})
        with self.changed:
            if event == "deposit_commit":
                self.deposited_s = now
            elif event == "plan_tick":
                self.ticked[fields["query"]] = (fields["tick"], now)
                self.changed.notify_all()


class Run:
    """A state directory with streams a, b, … of one load; `step` shows a tick's files and waits for the answers."""

    def __init__(self, base: Path, load: Load, streams: str = "ab", **settings: Any):
        self.load = load
        self.events = Events()
        self._base = base
        self._empty_s: list[float] = []
        self._folders = {name: Folder(base / name) for name in streams}
        self._shown: list[int] = []
        self.wr = windrow.open(base / "state", settings={"retained_changes": 10**9, **settings})
        for name, folder in self._folders.items():
            self.wr.sql(
                f"CREATE STREAM {name} ({COLUMNS}) FROM files OPTIONS (path '{folder.path}', format 'parquet',"
                " maxFilesPerTrigger '1') TIMESTAMP BY ts PUNCTUATE ORDERED"
            )
        self.names: list[str] = []

    def query(self, text: str) -> Any:
        """A continuous query; {w} stands for the window."""
        self.names.append(f"q{len(self.names)}")
        return self.wr.query(self.names[-1], text.format(w=f"[RANGE {self.load.span} SECONDS]"))

    def hide(self, ticks: range) -> None:
        """Write the files of some ticks, as one file a stream, named by the first."""
        for i, folder in enumerate(self._folders.values()):
            folder.hide(ticks.start, self.load.table(i, ticks))

    def show(self, name: int) -> None:
        for folder in self._folders.values():
            folder.show(name)
        self._shown.append(name)

    def wait(self, tick: int) -> float:
        """Wait until all queries have committed a tick. Return when the last did."""
        text = datetime.fromtimestamp(START_S + tick, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        events = self.events
        with events.changed:
            done = events.changed.wait_for(
                lambda: all(events.ticked.get(name, ("",))[0] >= text for name in self.names), WAIT_S
            )
        assert done, f"tick {tick} has not come: {self.wr.metrics()}"
        return max(events.ticked[name][1] for name in self.names)

    def step(self, tick: int) -> Timed:
        """Show the files of a tick, which close the one before it."""
        self.hide(range(tick, tick + 1))
        begin = time.perf_counter()
        self.show(tick)
        end = self.wait(tick)
        self._tidy()
        return Timed(end - self.events.deposited_s, end - begin)

    def steps(self, ticks: range) -> list[Timed]:
        return [self.step(tick) for tick in ticks]

    def fill(self, ticks: range, per_file: int) -> None:
        """Take in the tuples of many ticks, several a file."""
        for first in range(ticks.start, ticks.stop, per_file):
            some = range(first, min(first + per_file, ticks.stop))
            self.hide(some)
            self.show(first)
            if some.stop > 1:  # the very first tick is closed by the tuples of the second
                self.wait(some.stop - 1)
                self._tidy()

    def backlog(self, ticks: range) -> float:
        """Show the files of many ticks at once. Return the seconds until the last is committed."""
        for tick in ticks:
            self.hide(range(tick, tick + 1))
        begin = time.perf_counter()
        for tick in ticks:
            self.show(tick)
        seconds = self.wait(ticks.stop - 1) - begin
        self._tidy()
        return seconds

    def _tidy(self) -> None:
        """Remove files that are read, so that a long run lists no more files than a short one."""
        for name in self._shown:
            for folder in self._folders.values():
                folder.remove(name)
        self._shown.clear()

    def measure_empty(self) -> None:
        """Measure empty micro-batches of this session; call it before and after the ticks."""
        self._empty_s += empty_batches(self.wr.spark, self._base / f"empty{len(self._empty_s)}")

    @property
    def empty_s(self) -> float:
        return float(np.median(self._empty_s))

    def home(self, query: Any) -> str:
        return str(self.wr._engine.plans.query(query.name).home)

    def close(self) -> None:
        self.wr.close()
        logging.getLogger("windrow").removeHandler(self.events)


def median(timed: list[Timed], what: str = "commit_s") -> float:
    return float(np.median([getattr(one, what) for one in timed]))


def told(line: str) -> None:
    """Show progress; standard output is for the result."""
    print(line, file=sys.stderr, flush=True)
