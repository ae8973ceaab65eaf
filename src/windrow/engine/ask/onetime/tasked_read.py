"""A one-time query over a large window whose partial results Spark tasks make, each of its share of the files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from windrow.dataplane.kernels.partial_results import PartialWork
from windrow.dataplane.kernels.window_rows import WindowRows, shares_of
from windrow.dataplane.window_frames import PartialJobs
from windrow.engine.ask.onetime.driver_read import DriverRead
from windrow.engine.ask.onetime.windowed_read import too_many_rows
from windrow.engine.isolation.interface import PaneRange, Partial, PinnedVersion
from windrow.operators.tables.permit import permit_of_thread

TASKS = 16
"""So many tasks that reduce their rows are one job, or more where there are more cores."""


class TaskedRead(DriverRead):
    """As the read that it is made of; what is read at once is one Spark job. Where partial results are no smaller than
    the rows, and for very many tasks, it is several, so that limits are seen while results come in."""

    answered_from = "spark"
    read_rows = 16_000_000
    """A job has its own costs: with fewer rows, they would count for more than the rows."""
    partial_rows = 1_000_000
    """A task of so many rows is short, so that others get the core soon."""

    def __init__(self, read: DriverRead, jobs: PartialJobs, max_value_bytes: int, max_rows: int):
        super().__init__(read.optimized, read.sources, read.text, read.pinning, read.kernel)
        self._jobs = jobs
        self._max_value_bytes = max_value_bytes
        self._max_rows = max_rows

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
        return self._collected(work, places)

    def _collected(self, work: PartialWork, places: Sequence[int]) -> Iterator[Partial]:
        """The partial result of each place, from those of its tasks. Raises ResultLimitError if they are too large."""
        assert self.partial is not None
        permit, waiting, nbytes, rows = permit_of_thread(), list[pa.Table](), 0, 0
        for first in range(0, len(places), self._tasks_at_once):
            permit.check()
            some = range(first, min(first + self._tasks_at_once, len(places)))
            for task, made in zip(some, self._jobs.run(work, some), strict=True):
                nbytes, rows = nbytes + made.nbytes, rows + made.num_rows
                permit.allow(nbytes)
                if self.partial.is_answer and rows > self._max_rows:
                    raise too_many_rows(self._max_rows)
                waiting.append(made)
                if task + 1 == len(places) or places[task + 1] != places[task]:
                    yield self.partial.merged(waiting, self.kernel)
                    waiting = []

    @property
    def _tasks_at_once(self) -> int:
        assert self.partial is not None
        cores = self._jobs.cores
        return max(TASKS, 4 * cores) if self.partial.reduces else 2 * cores
