"""A query as it runs: the panes of its windows that it has read, is reading and has still to read.

When its windows slide, panes arrive and leave. One that leaves after it was read is a *conflict*: part of what the
query has seen is no longer in its window. Each slide costs the panes that move, not those that stay.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from windrow.schedulers.history import Isolation
from windrow.schedulers.panes import Pane, SourceKind, SourcePanes, WindowUpdate, bounds_of, instant_of
from windrow.schedulers.transactions.interface import ReadTransaction


@dataclass
class ScannedSource:
    """A query's window over one source. `read` is a heap by start; `top` is where the panes of `unread` ended last."""

    source: SourcePanes
    length: int | None
    instant: int = 0
    top: int = 0
    unread: deque[Pane] = field(default_factory=deque)
    read: list[Pane] = field(default_factory=list)

    def begin(self, instant: int) -> None:
        """All panes of the window as of an instant are to be read."""
        self.instant = instant
        low, high = self._bounds()
        self.unread = deque(self.source.between(low, high))
        self.read = []
        self.top = self.source.last if high is None else high

    def slide(self, instant: int, in_flight: list[Pane]) -> list[Pane]:
        """Move to an instant: the panes that were read, or are being read, and are no longer wholly in the window."""
        self.instant = instant
        low, high = self._bounds()
        top = self.source.last if high is None else high
        if top > self.top:
            self.unread += self.source.between(self.top, high)
            self.top = top
        if low is None:
            return []
        return self._leave(low, in_flight)

    def replaced(self, in_flight: list[Pane]) -> list[Pane]:
        """All parts of the source are new: everything that was read, or is being read."""
        stale = sorted((*self.read, *self._own(in_flight)))
        in_flight[:] = [pane for pane in in_flight if pane.source != self.source.source]
        self.begin(self.instant)
        return stale

    def inserted(self, update: WindowUpdate, in_flight: list[Pane]) -> list[Pane]:
        """The panes that were read, or are being read, and that the update inserts into."""
        seen = sorted((*self.read, *self._own(in_flight)))
        return [pane for pane in seen if any(pane.overlaps(written) for written in update.panes)]

    def ttu(self, pane: Pane) -> float:
        """How far the source may move until the pane leaves: its time to update (section 7.4.2)."""
        if self.source.kind is SourceKind.STRICT:
            return 0
        if self.source.kind is SourceKind.RESULT:
            return pane.start - self.source.upto
        return float("inf") if self.length is None else pane.start + self.length - self.instant

    def _bounds(self) -> tuple[int | None, int | None]:
        return bounds_of(self.source.kind, self.length, self.instant, self.source.upto)

    def _own(self, panes: list[Pane]) -> list[Pane]:
        return [pane for pane in panes if pane.source == self.source.source]

    def _leave(self, low: int, in_flight: list[Pane]) -> list[Pane]:
        while self.unread and self.unread[0].end <= low:
            self.unread.popleft()
        stale = []
        while self.read and self.read[0].start < low:
            stale.append(heapq.heappop(self.read))
        reading = [pane for pane in self._own(in_flight) if pane.start < low]
        for pane in reading:
            in_flight.remove(pane)
        stale += reading
        # At most one pane lies across the edge; the part of it that stays is the oldest in the window.
        across = [self.unread.popleft()] if self.unread and self.unread[0].start < low else stale
        self.unread.extendleft(part for pane in across if (part := pane.within(low, None)) is not None)
        return stale


class RunningQuery:
    """One query from its beginning to its end, over all its attempts."""

    def __init__(self, transaction: ReadTransaction, arrival: int, isolation: Isolation):
        self.transaction = transaction
        self.arrival = arrival
        self.isolation = isolation
        self.attempt = 1
        self.aborts = 0
        self.rescans = 0
        self.size = 1
        self.taken = 0
        self.instant = 0
        self.is_started = False
        self.reading: int | None = None
        self.in_flight: list[Pane] = []
        self.scanned: dict[str, ScannedSource] = {}

    @property
    def name(self) -> str:
        return self.transaction.name

    @property
    def attempt_name(self) -> str:
        """The name of this attempt in histories."""
        return self.name if self.attempt == 1 else f"{self.name}.{self.attempt}"

    @property
    def is_complete(self) -> bool:
        return self.is_started and self.reading is None and not any(one.unread for one in self.scanned.values())

    @property
    def wants_read(self) -> bool:
        return self.reading is None and not self.is_complete

    @property
    def holds_updates(self) -> bool:
        return self.is_started and self.isolation is Isolation.SERIAL

    def reads_from(self, source: str) -> bool:
        return source in self.transaction.lengths

    def start(self, sources: Mapping[str, SourcePanes]) -> None:
        """Begin an attempt on the windows as they are now."""
        self.instant = self._instant(sources)
        self.scanned = {name: ScannedSource(sources[name], length) for name, length in self.transaction.lengths.items()}
        for one in self.scanned.values():
            one.begin(self.instant)
        self.size = max(1, sum(len(one.unread) for one in self.scanned.values()))
        self.taken = 0
        self.is_started = True

    def restart(self) -> None:
        """Give the attempt up; a read in progress goes on, for nothing."""
        self.attempt += 1
        self.aborts += 1
        self.is_started = False
        self.in_flight = []
        self.scanned = {}

    def follow(self, update: WindowUpdate, sources: Mapping[str, SourcePanes]) -> tuple[list[Pane], list[Pane]]:
        """Slide with an update that was applied: the panes in conflict, and those read that it inserted into."""
        self.instant = self._instant(sources)
        stale: list[Pane] = []
        passed: list[Pane] = []
        for name, one in self.scanned.items():
            if one.source.kind is SourceKind.WINDOW:
                stale += one.slide(self.instant, self.in_flight)
            elif name == update.source and one.source.kind is SourceKind.STRICT:
                stale += one.replaced(self.in_flight)
            elif name == update.source:
                stale += one.slide(self.instant, self.in_flight)
                passed += one.inserted(update, self.in_flight)
        return stale, passed

    def unread(self) -> Iterator[tuple[ScannedSource, deque[Pane]]]:
        """What is still to be read, oldest first in each source that has any."""
        return ((one, one.unread) for one in self.scanned.values() if one.unread)

    def take(self, pane: Pane, read: int) -> None:
        """Begin to read a pane that is unread."""
        unread = self.scanned[pane.source].unread
        if unread[-1] == pane:
            unread.pop()
        elif unread[0] == pane:
            unread.popleft()
        else:
            unread.remove(pane)
        self.in_flight.append(pane)
        self.reading = read

    def finish(self) -> None:
        """The read in progress is over: its panes count as read, except those that were dropped, or their attempt."""
        self.reading = None
        for pane in self.in_flight:
            heapq.heappush(self.scanned[pane.source].read, pane)
        self.in_flight = []

    def _instant(self, sources: Mapping[str, SourcePanes]) -> int:
        return instant_of((sources[name].upto for name in self.transaction.lengths), self.transaction.tick)
