"""Gaps in a stream: how many windows without tuples a tick would answer, and in which steps.

Landmark windows, and all windows of ungrouped queries under `empty_windows = 'emit'`, are answered whether or not they
hold tuples. After a long gap these may be more than anyone wants: the query is then suspended, and says how many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from windrow.engine.state import QueryState, StreamState, SynopsisState
from windrow.settings import Settings
from windrow.types import POINT_MIN, point_text
from windrow.windows import LandmarkWindow, SlidingWindow
from windrow.windows.ended import answered_upto

WINDOWS_PER_STEP = 1_000_000
"""The most such windows that one step lists; it bounds memory to about 100 MB for each query."""


@dataclass(frozen=True)
class Gap:
    """Windows of a query from one point to another, with or without tuples."""

    state: SynopsisState
    query: QueryState
    start: int
    upto: int
    slide: int

    @property
    def windows(self) -> int:
        return max(0, (self.upto - self.start) // self.slide)

    def empty(self, frontier: int) -> int:
        """At least how many of the windows hold no tuple. This closes the panes below the frontier."""
        window, synopsis = self.query.plan.window, self.state.synopsis
        if self.windows == 0:
            return 0
        synopsis.close(self.state.closed_at(frontier))
        each = -(-window.range // self.slide) if isinstance(window, SlidingWindow) else 1
        return max(0, self.windows - int(synopsis.closed_panes.size) * each)

    def why_refused(self, empty: int) -> str:
        kind = self.query.plan.scan.attribute.type
        start, upto = point_text(self.start, kind), point_text(self.upto, kind)
        skip = "SET empty_windows = 'skip'" if isinstance(self.query.plan.window, SlidingWindow) else "Use RANGE"
        return (
            f"{empty:,} windows without tuples lie between {start} and {upto}. {skip}, use a longer SLIDE, or raise "
            "max_empty_windows; then DROP QUERY, and create it again"
        )


def gaps(stream: StreamState, axis: str, frontier: int, settings: Settings) -> Iterator[Gap]:
    """By query on an axis, the windows that the frontier makes due even if they are empty."""
    ticked, least, ends = stream.ticked.get(axis), stream.least.get(axis), stream.ended.get(axis, ())
    if least is None:
        return
    emits = settings.text("empty_windows") == "emit"
    for state in stream.on_axis(axis):
        for name, plan in state.plan.queries:
            window, query = plan.window, stream.queries[name]
            if isinstance(window, LandmarkWindow):
                first = max(least, window.start)
            elif isinstance(window, SlidingWindow) and emits and not plan.input.keys:
                first = least
            else:
                continue
            after = POINT_MIN if ticked is None else answered_upto(ends, window, ticked)
            start = max(first, after, POINT_MIN if query.since is None else query.since)
            yield Gap(state, query, start, answered_upto(ends, window, frontier), window.slide)


def steps(stream: StreamState, axis: str, frontier: int, settings: Settings) -> list[int]:
    """The frontiers to tick to, one after the other: no step has more than WINDOWS_PER_STEP windows of a gap."""
    large = [gap for gap in gaps(stream, axis, frontier, settings) if gap.windows > WINDOWS_PER_STEP]
    if not large:
        return [frontier]
    width, start = WINDOWS_PER_STEP * min(gap.slide for gap in large), min(gap.start for gap in large)
    return [*range(start + width, frontier, width), frontier]
