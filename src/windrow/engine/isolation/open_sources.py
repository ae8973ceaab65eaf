"""Which sources are open: opened when a query first reads them, closed when nobody does. A stream and a view that
nobody reads are told nothing, and pay nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from windrow.engine.isolation.asked import AskedQuery
from windrow.engine.isolation.interface import DRIVER_ROWS, PinnedVersion, ReadWindow
from windrow.engine.isolation.sources import (
    STILL,
    OpenSource,
    RowsSource,
    StillSource,
    StreamSource,
    ViewSource,
    cuts_of,
    lengths_of,
    source_name,
)
from windrow.engine.plans.query import ContinuousQuery
from windrow.engine.state import StreamState
from windrow.plan.nodes import ROW_NUM
from windrow.schedulers.panes import WindowUpdate, instant_of
from windrow.schedulers.transactions.interface import SourceCloses, SourceOpens


class OpenSources:
    """Owns the open sources. The coordinator's lock guards it; `told` is called by the threads that commit."""

    def __init__(self, stream_of: Callable[[str], StreamState], view_of: Callable[[str], ContinuousQuery]):
        self._stream_of = stream_of
        self._view_of = view_of
        self._open: dict[str, OpenSource] = {}
        self._published: dict[str, int] = {}
        self._readers: dict[str, dict[int, AskedQuery]] = {}
        self.told: Callable[[], None] = lambda: None

    def open_for(self, asked: AskedQuery, version: PinnedVersion) -> list[SourceOpens]:
        """Open the sources that a query reads and that are not open yet; the caller tells the scheduler. If one cannot
        be opened, none is."""
        if not asked.opened:
            asked.lengths = lengths_of(asked.read, self._stream_of, self._window_name, self._view_name)
        made, openings = dict[str, OpenSource](), list[SourceOpens]()
        try:
            for one in self._made(asked, version):
                if one.name not in made and one.name not in self._open:
                    made[one.name] = one
                    one.watchers[one.name] = self._tell  # before it looks at what is committed: so nothing is missed
                    openings.append(one.opens())
        except BaseException:
            for name, one in made.items():
                one.watchers.pop(name, None)
            raise
        self._open |= made
        self._published |= {opening.source: opening.upto for opening in openings}
        for name in asked.lengths:
            self._readers.setdefault(name, {})[asked.number] = asked
        asked.opened = frozenset(asked.lengths)
        return openings

    def _made(self, asked: AskedQuery, version: PinnedVersion) -> Iterator[OpenSource]:
        missing = {name for name in asked.lengths if name not in self._open}
        for window in asked.read.windows if missing else ():
            name, stream = self._window_name(window), self._stream_of(window.stream)
            if name in missing and window.axis == ROW_NUM:
                yield RowsSource(name, stream)
            elif name in missing:
                cuts = cuts_of(version, min(DRIVER_ROWS, asked.read.read_rows))
                yield StreamSource(name, stream, window.axis, window.offset, cuts)
        for view in asked.read.views if missing else ():
            yield ViewSource(self._view_name(view), self._view_of(view))
        if STILL in missing:
            yield StillSource()

    def _window_name(self, window: ReadWindow) -> str:
        return self._name(source_name(window), self._stream_of(window.stream))

    def _view_name(self, view: str) -> str:
        return self._name(f"view {view}", self._view_of(view))

    def _name(self, name: str, owner: object) -> str:
        """The name of the source of a stream or query: what was created again, or replaced, while its source is open
        gets another."""
        names = [name, *(f"{name} #{i}" for i in range(2, len(self._open) + 2))]
        known = (one for one in names if one in self._open and self._open[one].owner is owner)
        return next(known, None) or next(one for one in names if one not in self._open)

    def _tell(self) -> None:
        self.told()

    def published(self, name: str) -> int:
        """Up to where one-time queries see a source."""
        return self._published[name]

    def publish(self, update: WindowUpdate) -> None:
        """Queries see what an update has brought."""
        self._published[update.source] = update.upto

    def panes(self, name: str, length: int | None) -> int:
        """About how many panes a window has."""
        return self._open[name].panes_in(length)

    def updates(self, new_name: Callable[[], str], forgets: bool) -> Iterator[WindowUpdate]:
        """What was committed since the last call; whether panes are forgotten that nobody reads."""
        for name, source in list(self._open.items()):
            update = source.update(new_name, self._kept_from(name) if forgets else None)
            if update is not None:
                yield update

    def _kept_from(self, name: str) -> int | None:
        """The point from which on a query reads a source; None: all of it, or nobody does."""
        lows = list[int]()
        for asked in self._readers.get(name, {}).values():
            length = asked.lengths[name]
            if length is None:
                return None
            lows.append(instant_of((self._published[one] for one in asked.lengths), asked.read.tick) - length)
        return min(lows, default=None)

    def leave(self, asked: AskedQuery) -> None:
        """A query is over."""
        for name in asked.opened:
            del self._readers[name][asked.number]
        asked.opened = frozenset()

    def close_idle(self) -> Iterator[SourceCloses]:
        """Close the sources that nobody reads; the caller tells the scheduler."""
        idle = [name for name in self._open if not self._readers.get(name)]
        for name in idle:
            source = self._open.pop(name)
            source.watchers.pop(name, None)
            del self._published[name]
            self._readers.pop(name, None)
            yield SourceCloses(name)
