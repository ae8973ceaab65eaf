"""A one-time query that Spark SQL evaluates: the user's own text, each window replaced by a view of its tuples.

Tasks map the files of a pinned version, so no tuple passes the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pyarrow as pa
from sqlglot import exp

from windrow.dataplane.kernels.window_rows import WindowRows, shares_of
from windrow.dataplane.stores import ARRIVAL, POINT, WindowSource
from windrow.dataplane.window_frames import collected, question_frame
from windrow.engine.ask.finished_tables import FinishedTables, columns_named, named_tables, view_name
from windrow.engine.ask.onetime.pinning import AskedWindows, Pinning, bounds_at
from windrow.engine.ask.onetime.sources import AskedSources, is_window
from windrow.engine.ask.onetime.windowed_read import WindowedRead, too_many_rows
from windrow.engine.isolation.interface import Partial, PinnedVersion
from windrow.engine.kept.retention import plain_column
from windrow.operators.tables.kernel import Kernel
from windrow.plan.algebra.nodes import PlanColumn, RowsWindow, StreamColumn, StreamWindow, Window
from windrow.plan.continuous.clocks import PlanClock, SourceOf, clock_over, window_on

SHARES_PER_CORE = 2
"""Tasks of a read are short: what else runs waits for one of them at most."""


class SparkRead(WindowedRead):
    """A one-time query that Spark evaluates. `spark` gives the session. An answer with more than `max_rows` rows is an
    error; unless it is sorted, no more of it is collected."""

    answered_from = "spark"

    def __init__(
        self,
        select: exp.Expr,
        sources: AskedSources,
        text: str,
        pinning: Pinning,
        kernel: Kernel,
        finished: FinishedTables,
        source_of: SourceOf,
        is_stream: Callable[[str], bool],
        spark: Callable[[], Any],
        max_rows: int,
    ):
        clock = clock_over(sources.windows, text, source_of, once=True)
        windows = asked_windows(select, sources, text, source_of, clock)
        super().__init__(AskedWindows(windows, clock.point, clock.step), sources, text, pinning, kernel)
        self._spark = spark
        self._max_rows = max_rows
        # To keep the first rows of a sort, each task of Spark would make room for all of them at once.
        self._is_limited = select.args.get("order") is None
        self._tables = [None if is_window(node, is_stream) else sources.name_of(node) for node in named_tables(select)]
        known = iter(windows)
        names = [
            [column.name for column in next(known).schema] if name is None else sources.columns_of(name)
            for name in self._tables
        ]

        def sql_over(views: Sequence[str]) -> str:
            return finished.text_over(select, text, list(zip(views, names, strict=True)))

        self._sql_over = sql_over
        self._sql_over(self._new_views())  # refuses what one-time queries cannot use

    def answer(self, partials: Sequence[Partial], at: PinnedVersion) -> pa.Table:
        if not self._is_limited:
            return collected(self.frame(at))
        found = collected(self.frame(at), self._max_rows + 1)
        if found.num_rows > self._max_rows:
            raise too_many_rows(self._max_rows)
        return found

    def frame(self, at: PinnedVersion) -> Any:
        """A lazy DataFrame over a version, which must stay pinned as long as it is used."""
        windows, tables, number = dict[str, tuple[WindowRows, list[str]]](), dict[str, pa.Table](), count()
        views = self._new_views()
        for view, name in zip(views, self._tables, strict=True):
            if name is not None:
                tables[view] = at.tables[name]
                continue
            i = next(number)
            window = self.asked.windows[i]
            names = [column.name for column in window.schema]
            if isinstance(window, RowsWindow):
                tables[view] = self.held(i, at).drop_columns([POINT, ARRIVAL.id]).rename_columns(names)
            else:
                windows[view] = self._rows(window, at.reading[i], at), names
        return question_frame(self._spark(), self._sql_over(views), windows, tables)

    def _new_views(self) -> list[str]:
        """Names of views for one call of `frame`: others of this text may run beside it."""
        return [view_name() for _ in self._tables]

    def _rows(self, window: Window, source: WindowSource, at: PinnedVersion) -> WindowRows:
        cores = int(self._spark().sparkContext.defaultParallelism)
        lo, hi = bounds_at(window, at.instant)
        files = [one for one in at.files[source.store].files if one.hi >= lo and one.lo < hi]
        return WindowRows(source.read, source.selected(lo, hi), tuple(shares_of(files, SHARES_PER_CORE * cores)))


def asked_windows(
    select: exp.Expr, sources: AskedSources, text: str, source_of: SourceOf, clock: PlanClock
) -> tuple[Window, ...]:
    """The windows of a text, with the columns of their streams that it names."""
    named, ids = columns_named(select), count()
    found = list[Window]()
    for node in sources.windows:
        stream, bound = window_on(node, text, source_of, once=True)
        wanted = [
            one for one in stream.columns if named is None or one[0].lower() in named or one[0] in bound.partition
        ]
        columns = tuple(
            StreamColumn(PlanColumn(next(ids), name, kind), plain_column(name, kind).sql)
            for name, kind in wanted or stream.columns[:1]
        )
        alias = node.alias or None
        if bound.rows is None:
            found.append(StreamWindow(stream.name, bound.attribute, clock.lifetime(bound), columns, None, alias))
        else:
            partition = tuple(one.column for one in columns if one.column.name in bound.partition)
            found.append(RowsWindow(stream.name, bound.attribute, bound.rows, partition, columns, alias))
    return tuple(found)
