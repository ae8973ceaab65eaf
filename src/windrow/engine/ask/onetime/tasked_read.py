"""A one-time query over a large window whose partial results Spark tasks make, each of its share of the files."""

from __future__ import annotations

from windrow.dataplane.kernels.partial_results import PartialWork
from windrow.dataplane.kernels.window_rows import WindowRows, shares_of
from windrow.dataplane.stores import WindowSource
from windrow.dataplane.window_frames import PartialJobs
from windrow.engine.ask.onetime.driver_read import DriverRead
from windrow.engine.ask.onetime.spark_read import SHARES_PER_CORE
from windrow.engine.isolation.interface import PaneRange, Partial, PinnedVersion
from windrow.types import POINT_MIN


class TaskedRead(DriverRead):
    """As the read that it is made of; a run of panes is one Spark job."""

    answered_from = "spark"
    read_rows = 4_000_000
    """A job has its own costs: with fewer rows, they would count for more than the rows."""

    def __init__(self, read: DriverRead, jobs: PartialJobs, max_value_bytes: int):
        super().__init__(read.optimized, read.sources, read.text, read.pinning, read.kernel)
        self._jobs = jobs
        self._max_value_bytes = max_value_bytes

    def read(self, pane: PaneRange, at: PinnedVersion) -> Partial:
        assert self.partial is not None
        source, since = at.reading[0], self.partial.window.lifetime.since
        assert isinstance(source, WindowSource)
        lo, hi = POINT_MIN if pane.lo is None else pane.lo, pane.hi
        lo = lo if since is None else min(max(lo, since), hi)
        files = [one for one in at.files[source.store].files if one.hi >= lo and one.lo < hi]
        shares = shares_of(files, SHARES_PER_CORE * self._jobs.cores)
        rows = WindowRows(source.read, source.selected(lo, hi), tuple(shares))
        work = PartialWork(rows, source, self.partial, self._max_value_bytes)
        return self.partial.merged(self._jobs.run(work, len(shares)))
