"""The place of join synopses (001_3bbbc8a20ffc7252.txt, 8.3.2): what one will have to do. Continuous plans bring them.

A window join is weak non-monotonic: its results do not expire in the order in which they come, so an interval is one
of *expiration times*. With b intervals of length s, at time t the i-th holds the results that expire in
(t + i·s, t + (i+1)·s]. Results over windows of n·s each are those of the n youngest intervals; a generalized synopsis
keeps of its g oldest intervals also what remains without the oldest part of the first window, and of the second, for
joins of windows whose lengths differ. Which queries may share one is decided on its `shape` alone (SS3, CS4 and CS5 in
`optimizer/sharing.py`).
"""

from __future__ import annotations

from typing import Protocol

from windrow.optimizer.shapes import Shape
from windrow.synopses.cells.chunks import States
from windrow.windows import Points


class JoinSynopsis(Protocol):
    """RJ, IJ or BIJ, by the kind in its shape."""

    @property
    def shape(self) -> Shape: ...

    def update(self, now: int, expire: Points, parts: tuple[Points, Points], states: States) -> None:
        """Take new join results: when each expires, and in which interval of either window its tuple lies (which
        decides whether it is flagged). Intervals that have expired by `now` are dropped."""
        ...

    def lookup(self, windows: tuple[int, int]) -> States:
        """The merged states over a join of windows of these lengths; only of such as its shape reaches."""
        ...
