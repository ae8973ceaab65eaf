"""Pins what a one-time query reads: one instant, the files of its windows, and the rows of its tables.

Over several streams the instant is the least committed frontier, floored to the largest TICK; if views of continuous
queries are read, it is at most their tick. An update is committed before its frontier is seen, so the files that are
listed after the frontiers were read have all tuples below the instant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from windrow.cql.intervals import format_interval
from windrow.dataplane.stores import KeptColumn, WindowSource
from windrow.engine.ask.finished_tables import FinishedTable, FinishedTables
from windrow.engine.ask.onetime.reading import NoSource, WindowWish, window_source
from windrow.engine.ask.onetime.sources import AskedSources
from windrow.engine.isolation.interface import PinnedVersion, ReadWindow
from windrow.engine.kept.window_stores import WindowStores
from windrow.engine.plans.due import InputProgress, TickGrid, due_upto, input_progress, table_progress
from windrow.engine.state import StreamState
from windrow.engine.tables.manager import TableManager
from windrow.engine.tables.stored import StoredTable
from windrow.errors import SpanError, UnsupportedError
from windrow.operators.relations.changelog import FROM, rows_as_of
from windrow.operators.scan import reach
from windrow.operators.tables.edges import COUNT
from windrow.operators.tables.kernel import Kernel
from windrow.plan.algebra.nodes import RowsWindow, Window
from windrow.plan.nodes import ROW_NUM
from windrow.types import POINT_MAX, POINT_MIN, SqlType
from windrow.windows.frontier import max_or_none

ATTEMPTS = 3
"""How often a version is pinned anew because tuples of a window expired meanwhile."""


def read_window(window: Window) -> ReadWindow:
    """A window of a plan, as those see it who schedule reads."""
    if isinstance(window, RowsWindow):
        return ReadWindow(window.stream, ROW_NUM, None)
    return ReadWindow(window.stream, window.attribute.column, window.lifetime.range, window.lifetime.offset)


def bounds_at(window: Window, instant: int | None) -> tuple[int, int]:
    """The points that a window holds at an instant: from the first to below the second. A count-based window goes by
    arrival, so it may hold any."""
    if instant is None or isinstance(window, RowsWindow):
        return POINT_MIN, POINT_MAX
    lifetime, hi = window.lifetime, instant - window.lifetime.offset
    lo = POINT_MIN if lifetime.range is None else hi - lifetime.range
    return (lo if lifetime.since is None else min(max(lo, lifetime.since), hi)), hi


@dataclass(frozen=True)
class AskedWindows:
    """The windows of a query, and its instants: multiples of `step`, in points of type `point`."""

    windows: tuple[Window, ...]
    point: SqlType
    step: int


class Pinning:
    """Finds where windows are kept, and pins versions. `stores` gives the window stores, `stream_of` a stream by its
    name, `tables` the tables that users change."""

    def __init__(
        self,
        stores: Callable[[], WindowStores],
        stream_of: Callable[[str], StreamState],
        finished: FinishedTables,
        tables: Callable[[], TableManager],
        kernel: Kernel,
    ):
        self._stores = stores
        self._stream_of = stream_of
        self._finished = finished
        self._tables = tables
        self._kernel = kernel

    def wish(self, window: Window, columns: tuple[KeptColumn, ...], predicate: KeptColumn | None) -> WindowWish:
        """What a window needs of its stream."""
        length = None if isinstance(window, RowsWindow) else reach(window)
        stream = self._stream_of(window.stream)
        return WindowWish(stream, window.attribute.column, columns, predicate, length, window.called)

    def source(self, wish: WindowWish) -> WindowSource | NoSource:
        """Where a window is kept, as of now."""
        return window_source(self._stores(), wish, self._kernel)

    def size(self, version: PinnedVersion, windows: Sequence[Window]) -> int:
        """How much a query reads of a version, at most."""
        found = sum(int(table.nbytes) for table in version.tables.values())
        for source, window in zip(version.reading, windows, strict=True):
            lo, hi = bounds_at(window, version.instant)
            width = int(8 * (1 + len(source.read)))  # texts are longer, numbers shorter
            found += width * version.files[source.store].count(lo, hi)
        return found

    # -- versions ------------------------------------------------------------------------------

    def pin(
        self,
        asked: AskedWindows,
        wishes: Sequence[WindowWish],
        sources: AskedSources,
        text: str,
        at_most: int | None = None,
    ) -> PinnedVersion:
        """The newest committed version of what a query reads, with an instant not above `at_most`. Raises
        UnsupportedError if a window is not kept, and SpanError if no instant is complete yet."""
        for _ in range(ATTEMPTS - 1):
            found, has_expired = self._pin(asked, wishes, sources, text, at_most)
            if not has_expired:
                return found
            found.release()
        return self._pin(asked, wishes, sources, text, at_most)[0]

    def _pin(
        self,
        asked: AskedWindows,
        wishes: Sequence[WindowWish],
        sources: AskedSources,
        text: str,
        at_most: int | None,
    ) -> tuple[PinnedVersion, bool]:
        """A version, and whether a window lacks tuples that were there when it was begun: a newer instant has them."""
        ready = {name: self._finished.named(one.node.copy(), text) for name, one in sources.ready.items()}
        numbered = {wish.stream.name.lower(): wish.stream.numbered for wish in wishes}
        instant = self._instant(asked, ready)
        instant = instant if instant is None or at_most is None else min(instant, at_most)
        reading = [self._source(wish) for wish in wishes]
        bounds = [bounds_at(window, instant) for window in asked.windows]
        wanted = dict[int, tuple[int, int]]()
        for source, (lo, hi) in zip(reading, bounds, strict=True):
            known = wanted.get(source.store, (lo, hi))
            wanted[source.store] = min(lo, known[0]), max(hi, known[1])
        files, release = self._stores().pin(wanted)
        try:
            tables = {name: self._rows(one, instant) for name, one in ready.items()}
            # What had expired before the files were pinned is known only now.
            after = [self._source(wish) for wish in wishes]
        except BaseException:
            release()
            raise
        begun = [one.since for one in reading]
        reading = [
            replace(one, since=max_or_none(one.since, now.since)) for one, now in zip(reading, after, strict=True)
        ]
        complete = {
            i: source.since
            for i, (source, (lo, _)) in enumerate(zip(reading, bounds, strict=True))
            if source.since is not None and source.since > lo and not _is_checked(asked.windows[i])
        }
        has_expired = any(begun[i] != since for i, since in complete.items())
        version = PinnedVersion(instant, files, tables, complete, numbered, tuple(reading), release)
        return version, has_expired

    def _source(self, wish: WindowWish) -> WindowSource:
        found = self.source(wish)
        if isinstance(found, NoSource):
            raise not_kept(wish, found)
        return found

    def _instant(self, asked: AskedWindows, ready: Mapping[str, FinishedTable]) -> int | None:
        """The instant as of now; None if no window depends on one."""
        by_time = [window for window in asked.windows if not isinstance(window, RowsWindow)]
        if not by_time:
            return None
        inputs = [input_progress(window, self._stream_of(window.stream).progress) for window in by_time]
        inputs += [self._table_progress(table) for name in ready if (table := self._fed(ready[name])) is not None]
        found = due_upto(inputs, TickGrid(asked.step))
        if found is None:
            raise _no_instant(by_time, inputs)
        promised = [POINT_MIN if one.frontier is None else one.frontier for one in inputs]
        if POINT_MIN < min(promised) < POINT_MAX:  # the end of the input does not take back what was promised before
            found = max(found, min(promised))
        ticks = [
            one.plan.tick
            for one in ready.values()
            if one.plan is not None and one.plan.point is not None and _is_alike(one.plan.point, asked.point)
            if one.plan.tick is not None
        ]
        return TickGrid(asked.step).floor(min([found, *ticks]))

    def _table_progress(self, table: StoredTable) -> InputProgress:
        assert table.feed is not None
        return table_progress(table, self._stream_of(table.feed.stream).progress)

    def _fed(self, table: FinishedTable) -> StoredTable | None:
        """The table that a stream feeds, if it is one."""
        found = self._tables().find(table.name) if table.is_table else None
        return found if found is not None and found.feed is not None else None

    def _rows(self, table: FinishedTable, instant: int | None) -> pa.Table:
        """The rows of a table; those of one that a stream feeds as of the instant."""
        fed = None if instant is None else self._fed(table)
        if fed is None or instant is None:
            return self._finished.content(table)
        with fed.changing:
            log, rows = fed.log, fed.version.rows
        now = rows.rows(fed.definition.schema)
        return rows_as_of(now, log, instant).drop_columns([FROM, COUNT])


def _is_checked(window: Window) -> bool:
    """Whether a read fails if a tuple is missing. A partition that has expired whole is not missed."""
    return isinstance(window, RowsWindow) and not window.partition


def _is_alike(one: SqlType, other: SqlType) -> bool:
    return one.is_timestamp == other.is_timestamp


def _no_instant(windows: Sequence[Window], inputs: Sequence[InputProgress]) -> SpanError:
    waiting = [window.stream for window, one in zip(windows, inputs, strict=False) if one.frontier is None]
    name = waiting[0] if waiting else windows[0].stream
    return SpanError(
        f"no instant of stream '{name}' is complete yet: it has no tuple, and no punctuation",
        remedy="Ask again when tuples have come (with SLACK, when later ones have come, too), or punctuate it.",
    )


def not_kept(wish: WindowWish, found: NoSource) -> UnsupportedError:
    """The error for a window that no store has."""
    kind = wish.stream.definition.type_of(wish.axis)
    length = "d" if wish.reach is None else format_interval(wish.reach).upper() if kind.is_timestamp else wish.reach
    retain = f"Create the stream with RETAIN {length}, which keeps its tuples for questions; or create"
    return UnsupportedError(
        f"the window of '{wish.called}' cannot be read: {found.why}",
        remedy=f"{'Create' if wish.stream.definition.is_derived else retain} a standing query, CREATE QUERY name AS "
        "SELECT …, and ask for its view: SELECT * FROM name.",
    )
