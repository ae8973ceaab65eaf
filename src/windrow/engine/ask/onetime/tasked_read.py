"""A one-time query over a large window whose partial results Spark tasks make, each of its share of the files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from windrow.dataplane.kernels.partial_results import PartialWork
from windrow.dataplane.kernels.window_rows import WindowRows, shares_of
from windrow.dataplane.window_frames import PartialJobs
from windrow.engine.ask.onetime.driver_read import DriverRead
from windrow.engine.isolation.interface import PaneRange, Partial, PinnedVersion


class TaskedRead(DriverRead):
    """As the read that it is made of; all runs of panes that are read at once are one Spark job."""

    answered_from = "spark"
    read_rows = 16_000_000
    """A job has its own costs: with fewer rows, they would count for more than the rows."""
    partial_rows = 1_000_000
    """A task of so many rows is short, so that others get the core soon."""

    def __init__(self, read: DriverRead, jobs: PartialJobs, max_value_bytes: int):
        super().__init__(read.optimized, read.sources, read.text, read.pinning, read.kernel)
        self._jobs = jobs
        self._max_value_bytes = max_value_bytes

    def partials(self, runs: Sequence[PaneRange], at: PinnedVersion) -> Iterator[Partial]:
        assert self.partial is not None
        source = self.source(at)
        files = at.files[source.store].files
        tasks, places = list[WindowRows](), list[int]()
        for place, run in enumerate(runs):
            lo, hi = self.points(run)
            mine = [one for one in files if one.hi >= lo and one.lo < hi]
            # Files that cannot be told apart by their points are shared out by rows.
            shares = shares_of(mine, max(1, round(sum(one.rows for one in mine) / self.partial_rows)))
            tasks += [WindowRows(source.read, source.selected(lo, hi), (share,)) for share in shares]
            places += [place] * len(shares)
        work = PartialWork(tuple(tasks), source, self.partial, self._max_value_bytes)
        found: list[list[pa.Table]] = [[] for _ in runs]
        for place, made in zip(places, self._jobs.run(work, len(tasks)) if tasks else (), strict=True):
            found[place].append(made)
        return map(self.partial.merged, found)
