"""What a one-time query is to the transactions that read its panes: windows, partial results, and versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from windrow.dataplane.stores import PinnedFiles


@dataclass(frozen=True)
class ReadWindow:
    """A window of a one-time query over a stream: [instant - length - offset, instant - offset); length None: all that
    is kept."""

    stream: str
    axis: str
    length: int | None
    offset: int = 0

    def __post_init__(self) -> None:
        if self.offset < 0 or (self.length is not None and self.length <= 0):
            raise ValueError("a window has a length above 0 and an offset from 0 on")

    def bounds(self, instant: int) -> tuple[int | None, int]:
        """The points of the window at an instant: from the first (None: all that are kept) to below the second."""
        end = instant - self.offset
        return (None if self.length is None else end - self.length), end


@dataclass(frozen=True)
class PaneRange:
    """A run of panes of one window of a query: the points from `lo` (None: all that are kept) to below `hi`."""

    window: int
    lo: int | None
    hi: int

    def __post_init__(self) -> None:
        if self.lo is not None and self.lo >= self.hi:
            raise ValueError(f"a run of panes is [lo, hi) with lo < hi, not [{self.lo}, {self.hi})")


Partial = Any
"""The partial result of a run of panes. Only the query that made it reads it."""


@dataclass(frozen=True)
class PinnedVersion:
    """One consistent version of everything that a one-time query reads, as of `instant` (None: it reads no window).

    `files` has the committed files of window stores, by the number of the store; `tables` what it reads of tables,
    views, answers, changes and dead letters, by the name that its text has for it. Files stay until `release` is
    called; a second call does nothing. `complete_from`: by window, the point from which tuples are there, if that is
    inside the window. `numbered`: by stream, in lower case, how many tuples had come. `reading`: how the query that
    pinned it reads each of its windows; only this query looks at it.
    """

    instant: int | None
    files: Mapping[int, PinnedFiles] = field(default_factory=dict)
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    complete_from: Mapping[int, int] = field(default_factory=dict)
    numbered: Mapping[str, int] = field(default_factory=dict)
    reading: tuple[Any, ...] = ()
    release: Callable[[], None] = lambda: None


DRIVER_ROWS = 500_000
"""So many rows are a short read in the driver."""


class OneTimeRead(Protocol):
    """A one-time query, bound. It owns no thread and no lock."""

    @property
    def windows(self) -> tuple[ReadWindow, ...]:
        """Its windows over streams."""

    @property
    def tick(self) -> int:
        """Its instant is a multiple of this: the largest TICK of its streams."""

    @property
    def views(self) -> tuple[str, ...]:
        """The continuous queries whose views it reads. If one has ticked, the query must begin again."""

    @property
    def keeps_partials(self) -> bool:
        """Whether partial results of runs of panes can be merged: it reads one window, and selects or aggregates."""

    @property
    def read_rows(self) -> int:
        """About so many rows are read at once, if partial results are kept: then a read is short."""

    @property
    def partial_rows(self) -> int:
        """About so many rows have a partial result of their own, at most `read_rows`. One that leaves the window in
        part is read again."""

    def pin(self, at_most: int | None = None) -> PinnedVersion:
        """The newest committed version of what it reads, with an instant not above `at_most` (None: any)."""

    def partials(self, runs: Sequence[PaneRange], at: PinnedVersion) -> Iterator[Partial]:
        """The partial result of each run of panes, in their order: a function of the committed rows alone. Runs that
        nobody asks the iterator for need not be read."""

    def answer(self, partials: Sequence[Partial], at: PinnedVersion) -> pa.Table:
        """The answer from partial results, in any order. A query that keeps none evaluates everything here."""
