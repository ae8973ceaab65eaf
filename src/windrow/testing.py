"""Tools for testing an application of Windrow: a manual clock, a collecting sink, a scripted source, and the crash
points of the commit protocol.

    clock = ManualClock("2026-01-01 00:00:00")
    wr = windrow.open(clock=clock)
    Script("clicks", [[{"ts": …}], [{"ts": …}]]).feed(wr.feed)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

from windrow.crash import crash_plan, crash_point
from windrow.dataplane.sinks.base import AnswerBatch
from windrow.types import EPOCH, moment_of, rows_of

__all__ = [
    "AnswerBatch",
    "CollectingSink",
    "ManualClock",
    "Script",
    "crash_plan",
    "crash_point",
]

Row = Mapping[str, Any]


class ManualClock:
    """A `windrow.clock.Clock` that moves only on `advance` and `set`. Wall clock and monotonic time move together."""

    def __init__(self, now: datetime | str | int = 0):
        """`now` is a datetime (naive: UTC), its ISO text, or microseconds since the epoch."""
        self._now_us = _micros(now)
        self._monotonic_s = 0.0
        self._lock = threading.Lock()

    def now_us(self) -> int:
        with self._lock:
            return self._now_us

    def monotonic_s(self) -> float:
        with self._lock:
            return self._monotonic_s

    def advance(self, by: timedelta | float) -> None:
        """Move forward by a timedelta or a number of seconds."""
        step = by if isinstance(by, timedelta) else timedelta(seconds=by)
        if step < timedelta(0):
            raise ValueError("a clock advances; use set() to put the wall clock back")
        with self._lock:
            self._now_us += step // timedelta(microseconds=1)
            self._monotonic_s += step.total_seconds()

    def set(self, now: datetime | str | int) -> None:
        """Set the wall clock, possibly back; the monotonic time never goes back."""
        target = _micros(now)
        with self._lock:
            self._monotonic_s += max(0, target - self._now_us) / 1e6
            self._now_us = target


def _micros(moment: datetime | str | int) -> int:
    if isinstance(moment, int):
        return moment
    value = moment_of(moment) if isinstance(moment, str) else moment
    aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    return (aware - EPOCH) // timedelta(microseconds=1)


class CollectingSink:
    """Keeps every batch once, by its key, as an idempotent receiver of at-least-once deliveries does.

    `repetitions` counts the batches that came again.
    """

    def __init__(self) -> None:
        self._batches: dict[tuple[str, str], AnswerBatch] = {}
        self._lock = threading.Lock()
        self.repetitions = 0

    def write(self, batch: AnswerBatch) -> None:
        with self._lock:
            known = self._batches.setdefault((batch.query, batch.key), batch)
            if known is not batch:
                self.repetitions += 1
                if not known.table.equals(batch.table):
                    raise AssertionError(f"batch {batch.key!r} of {batch.query!r} came again with other rows")

    def batches(self, query: str | None = None) -> list[AnswerBatch]:
        with self._lock:
            return [b for b in self._batches.values() if query is None or b.query == query]

    def table(self, query: str) -> pa.Table:
        """All answers of one query, in the order they came."""
        tables = [batch.table for batch in self.batches(query)]
        if not tables:
            raise KeyError(f"no answers of {query!r} came")
        return pa.concat_tables(tables)

    def rows(self, query: str) -> list[dict[str, Any]]:
        return [row for batch in self.batches(query) for row in rows_of(batch.table)]

    def clear(self) -> None:
        with self._lock:
            self._batches.clear()
            self.repetitions = 0


@dataclass(frozen=True)
class Script:
    """A scripted source: the micro-batches of one stream, in order."""

    stream: str
    batches: Sequence[Sequence[Row]]

    def __iter__(self) -> Iterator[Sequence[Row]]:
        return iter(self.batches)

    def rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch]

    def recut(self, size: int | None) -> Script:
        """The same rows in the same order, in micro-batches of `size` rows. None: all in one."""
        rows = self.rows()
        if size is not None and size < 1:
            raise ValueError("a micro-batch has at least one row")
        step = size or max(1, len(rows))
        return Script(self.stream, [rows[i : i + step] for i in range(0, len(rows), step)])

    def feed(
        self, deposit: Callable[[str, Sequence[Row]], object], after_each: Callable[[], object] | None = None
    ) -> None:
        """Give each batch to `deposit(stream, rows)`, then call `after_each` (say, `wr.run_available`)."""
        for batch in self.batches:
            deposit(self.stream, batch)
            if after_each is not None:
                after_each()

    @classmethod
    def of(cls, stream: str, rows: Iterable[Row]) -> Script:
        """One micro-batch of these rows."""
        return cls(stream, [list(rows)])
