"""A one-time query over finished tables, as those see it who schedule reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from windrow.engine.ask.finished_tables import TakenTables
from windrow.engine.isolation.interface import DRIVER_ROWS, PaneRange, Partial, PinnedVersion, ReadWindow


class TablesRead:
    """Evaluates all at once (an `OneTimeRead`). `take` gives the tables as they are, and `evaluate` the rows of the
    query over tables that were taken. Retained answers of queries with SLIDE are read when it evaluates."""

    windows: tuple[ReadWindow, ...] = ()
    tick = 1
    keeps_partials = False
    read_rows = partial_rows = DRIVER_ROWS

    def __init__(
        self,
        take: Callable[[], TakenTables],
        evaluate: Callable[[TakenTables, PinnedVersion], pa.Table],
        views: tuple[str, ...],
    ):
        self._take = take
        self._evaluate = evaluate
        self.views = views

    def pin(self, at_most: int | None = None) -> PinnedVersion:
        """The tables as they are. No file is pinned: what is mapped stays valid."""
        taken = self._take()
        rows = {name: one.ready for name, one in taken.items() if one.query is None}
        return PinnedVersion(None, tables=rows, reading=(taken,))

    def partials(self, runs: Sequence[PaneRange], at: PinnedVersion) -> Iterator[Partial]:
        raise ValueError("this query keeps no partial results")

    def answer(self, partials: Sequence[Partial], at: PinnedVersion) -> pa.Table:
        (taken,) = at.reading
        return self._evaluate(taken, at)
