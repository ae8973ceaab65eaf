"""What one-time queries read, as the transaction scheduler knows it: sources that are open while a query reads them.

A window of a stream is a source per stream, axis and offset. Its points are shifted by the offset, so that all windows
end at the instant of their query. Its panes are the intervals by which commits moved the stream; those from before it
was opened are cut by the number of rows. A view is a source of one part, which every tick replaces, and so are the last
rows of a stream. What reads none of these has a source that never changes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from windrow.engine.isolation.instants import NOTHING, committed_upto
from windrow.engine.isolation.interface import DRIVER_ROWS, OneTimeRead, PinnedVersion, ReadWindow
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.state import StreamState
from windrow.plan.nodes import ROW_NUM
from windrow.schedulers.panes import Pane, SourceKind, WindowUpdate
from windrow.schedulers.transactions.interface import SourceOpens

EVERYTHING = 1 << 40
"""More panes than any window has: all that is to be read is read at once."""

STILL = "nothing that moves"
"""The source of queries that read neither windows nor views."""


class OpenSource(Protocol):
    """A source that queries read. The coordinator's lock guards it."""

    name: str
    upto: int
    """Up to where it was complete when it was looked at last."""

    @property
    def owner(self) -> object:
        """The stream or query that it is of."""

    @property
    def watchers(self) -> dict[str, Callable[[], None]]:
        """Callbacks by source name, called after every commit that may move that source."""

    def opens(self) -> SourceOpens:
        """What the scheduler is told first."""

    def update(self, new_name: Callable[[], str], kept_from: int | None = None) -> WindowUpdate | None:
        """What was committed since the last call, as a window update; None: nothing that moves the source. No query
        reads panes below `kept_from`."""

    def panes_in(self, length: int | None) -> int:
        """How many panes a window of a length has."""


@dataclass
class StreamSource:
    """The windows of one offset over one axis of a stream. `cuts` are points between old panes."""

    name: str
    stream: StreamState
    axis: str
    offset: int
    cuts: Sequence[int] = ()
    upto: int = NOTHING
    ends: list[int] = field(default_factory=list)
    """Where its panes end."""

    @property
    def owner(self) -> object:
        return self.stream

    @property
    def watchers(self) -> dict[str, Callable[[], None]]:
        return self.stream.watchers

    def opens(self) -> SourceOpens:
        self.upto = self._committed()
        if self.upto == NOTHING:
            return SourceOpens(self.name, (), NOTHING)
        inner = [cut + self.offset for cut in self.cuts]
        edges = [NOTHING, *sorted({cut for cut in inner if NOTHING < cut < self.upto}), self.upto]
        self.ends = edges[1:]
        panes = tuple(Pane(self.name, lo, hi) for lo, hi in zip(edges, self.ends, strict=False))
        return SourceOpens(self.name, panes, self.upto)

    def update(self, new_name: Callable[[], str], kept_from: int | None = None) -> WindowUpdate | None:
        before, self.upto = self.upto, max(self.upto, self._committed())
        if self.upto == before:
            return None
        self.ends.append(self.upto)
        if kept_from is not None:
            del self.ends[: bisect_right(self.ends, kept_from)]
        return WindowUpdate(new_name(), self.name, (Pane(self.name, before, self.upto),), self.upto, kept_from)

    def panes_in(self, length: int | None) -> int:
        return len(self.ends) if length is None else len(self.ends) - bisect_right(self.ends, self.upto - length)

    def _committed(self) -> int:
        found = committed_upto(self.stream, self.axis)
        return NOTHING if found is None else found


@dataclass
class ViewSource:
    """The view of a continuous query, as of its last tick."""

    name: str
    query: ContinuousQuery
    upto: int = NOTHING

    @property
    def owner(self) -> object:
        return self.query

    def opens(self) -> SourceOpens:
        self.upto = self._ticked()
        return SourceOpens(self.name, (self._part,), self.upto, SourceKind.STRICT)

    def update(self, new_name: Callable[[], str], kept_from: int | None = None) -> WindowUpdate | None:
        before, self.upto = self.upto, max(self.upto, self._ticked())
        return None if self.upto == before else WindowUpdate(new_name(), self.name, (self._part,), self.upto)

    @property
    def watchers(self) -> dict[str, Callable[[], None]]:
        return self.query.watchers

    def panes_in(self, length: int | None) -> int:
        return 1

    @property
    def _part(self) -> Pane:
        return Pane(self.name, 0, 1)

    def _ticked(self) -> int:
        ticked = self.query.progress.ticked
        return NOTHING if ticked is None else ticked


@dataclass
class RowsSource:
    """The last rows of a stream by arrival: every row that comes replaces them. It holds no window back."""

    name: str
    stream: StreamState
    upto: int = -NOTHING
    numbered: int = 0

    @property
    def owner(self) -> object:
        return self.stream

    def opens(self) -> SourceOpens:
        self.numbered = self.stream.numbered
        return SourceOpens(self.name, (self._part,), self.upto, SourceKind.STRICT)

    def update(self, new_name: Callable[[], str], kept_from: int | None = None) -> WindowUpdate | None:
        before, self.numbered = self.numbered, self.stream.numbered
        return None if self.numbered == before else WindowUpdate(new_name(), self.name, (self._part,), self.upto)

    @property
    def _part(self) -> Pane:
        return Pane(self.name, 0, 1)

    @property
    def watchers(self) -> dict[str, Callable[[], None]]:
        return self.stream.watchers

    def panes_in(self, length: int | None) -> int:
        return 1


@dataclass
class StillSource:
    """What does not move: tables, retained answers and dead letters are read as they are."""

    name: str = STILL
    upto: int = -NOTHING
    owner: object = None
    watchers: dict[str, Callable[[], None]] = field(default_factory=dict)

    def opens(self) -> SourceOpens:
        return SourceOpens(self.name, (Pane(self.name, 0, 1),), self.upto, SourceKind.STRICT)

    def update(self, new_name: Callable[[], str], kept_from: int | None = None) -> WindowUpdate | None:
        return None

    def panes_in(self, length: int | None) -> int:
        return 1


def source_name(window: ReadWindow) -> str:
    """The name of a source in histories: the stream, its axis, and the offset of the windows if there is one."""
    stream = window.stream.lower()
    if window.axis == ROW_NUM:
        return f"rows of {stream}"
    return f"{stream}.{window.axis}" + (f" offset {window.offset}" if window.offset else "")


def lengths_of(
    read: OneTimeRead,
    stream_of: Callable[[str], StreamState],
    name_of: Callable[[ReadWindow], str],
    view_name: Callable[[str], str],
) -> dict[str, int | None]:
    """The length of a query's window over each of its sources, by the names of these; of several windows over one, the
    longest.

    A stream whose input has ended moves no more and holds no other back: it is left out, unless all have ended. Then
    the one that reaches farthest stands for them.
    """
    by_time = [window for window in read.windows if window.axis != ROW_NUM]
    live = [window for window in by_time if not stream_of(window.stream).progress.input_ended]
    if not live and by_time:
        live = [max(by_time, key=lambda window: committed_upto(stream_of(window.stream), window.axis) or NOTHING)]
    found: dict[str, int | None] = {}
    for window in live:
        name = name_of(window)
        known = found.get(name, 0)
        found[name] = None if known is None or window.length is None else max(known, window.length)
    found |= dict.fromkeys((name_of(window) for window in read.windows if window.axis == ROW_NUM), None)
    found |= dict.fromkeys((view_name(view) for view in read.views), None)
    return found or {STILL: None}


def rows_in(version: PinnedVersion) -> list[tuple[int, int, int]]:
    """(least point, greatest point, rows) of every pinned file, by the least point."""
    return sorted((one.lo, one.hi, one.rows) for pinned in version.files.values() for one in pinned.files)


def cuts_of(version: PinnedVersion, most: int = DRIVER_ROWS) -> list[int]:
    """Points between which about `most` rows lie, by the points of the files. A large file is cut evenly."""
    cuts, rows = list[int](), 0
    for lo, hi, count in rows_in(version):
        pieces = max(1, count // most)
        if pieces > 1 and hi - lo >= pieces:
            cuts += [lo + (hi - lo) * i // pieces for i in range(pieces)]
            rows = count // pieces
            continue
        if rows + count > most and rows:
            cuts.append(lo)
            rows = 0
        rows += count
    return cuts


def run_of(panes: int, rows: int, most: int) -> int:
    """How many of the panes of a window are read at once, so that it is about `most` rows. A window that has no more
    is read at once, with all panes that arrive meanwhile."""
    return EVERYTHING if rows <= most else max(1, panes * most // rows)
