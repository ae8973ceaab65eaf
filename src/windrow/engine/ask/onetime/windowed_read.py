"""What all one-time queries over windows have in common: their windows, and the versions that they pin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from windrow.dataplane.stores import WindowSource
from windrow.engine.ask.onetime.pinning import AskedWindows, Pinning, bounds_at, read_window
from windrow.engine.ask.onetime.reading import last_rows, may_lack_rows
from windrow.engine.ask.onetime.sources import AskedSources
from windrow.engine.isolation.interface import DRIVER_ROWS, PaneRange, Partial, PinnedVersion, ReadWindow
from windrow.engine.plans.query import kept_columns
from windrow.errors import ResultLimitError, SpanError
from windrow.operators.tables.kernel import Kernel
from windrow.plan.algebra.nodes import RowsWindow


class WindowedRead:
    """A one-time query (an `OneTimeRead`), without its evaluation. `text` is its text, in which errors show their
    place."""

    read_rows = DRIVER_ROWS
    answered_from = ""
    """What `Result.answered_from` says of its answer."""

    def __init__(
        self,
        asked: AskedWindows,
        sources: AskedSources,
        text: str,
        pinning: Pinning,
        kernel: Kernel,
    ):
        self.asked = asked
        self.sources = sources
        self.text = text
        self.pinning = pinning
        self.kernel = kernel
        self.wishes = tuple(pinning.wish(window, *kept_columns(window)) for window in asked.windows)

    @property
    def windows(self) -> tuple[ReadWindow, ...]:
        return tuple(read_window(window) for window in self.asked.windows)

    @property
    def tick(self) -> int:
        return self.asked.step

    @property
    def views(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.sources.ready.values() if one.is_view)

    @property
    def keeps_partials(self) -> bool:
        return False

    def pin(self, at_most: int | None = None) -> PinnedVersion:
        return self.pinning.pin(self.asked, self.wishes, self.sources, self.text, at_most)

    @property
    def partial_rows(self) -> int:
        return self.read_rows

    def partials(self, runs: Sequence[PaneRange], at: PinnedVersion) -> Iterator[Partial]:
        raise ValueError("this query keeps no partial results")

    def answer(self, partials: Sequence[Partial], at: PinnedVersion) -> pa.Table:
        raise NotImplementedError

    def held(self, i: int, at: PinnedVersion) -> pa.Table:
        """The tuples that a window holds: POINT, then its columns, named by their ids."""
        window, source = self.asked.windows[i], at.reading[i]
        assert isinstance(source, WindowSource)
        rows = source.rows(at.files[source.store], *bounds_at(window, at.instant), self.kernel)
        return self._last(window, rows, at) if isinstance(window, RowsWindow) else rows

    def _last(self, window: RowsWindow, rows: pa.Table, at: PinnedVersion) -> pa.Table:
        """The last tuples by arrival. Raises SpanError if some of them may not be kept any more."""
        known = {
            column.column.sql: kept.id for column, kept in zip(window.columns, kept_columns(window)[0][1:], strict=True)
        }
        partition = [known[column.sql] for column in window.partition]
        came = at.numbered[window.stream.lower()]
        found, first = last_rows(rows, came, window.size, partition)
        if not may_lack_rows(found, first, came, window.size, partition):
            return found
        if partition:
            raise SpanError(
                f"tuples of stream '{window.stream}' are kept from number {first:,} on, and from there some partition "
                f"has fewer than {window.size:,}",
                remedy="Ask for fewer ROWS, or create the stream with a longer RETAIN.",
            )
        raise SpanError(
            f"of the last {window.size:,} tuples of stream '{window.stream}' only {found.num_rows:,} are kept, "
            f"from number {first:,} on",
            remedy=f"Ask for [ROWS {max(found.num_rows, 1)}], or create the stream with a longer RETAIN.",
        )


def too_many_rows(most: int) -> ResultLimitError:
    """The error of an answer that has more rows than it may."""
    return ResultLimitError(
        f"the answer has more than {most:,} rows, which is max_result_rows",
        remedy="Ask for less (LIMIT, WHERE, an aggregate), or SET max_result_rows.",
    )
