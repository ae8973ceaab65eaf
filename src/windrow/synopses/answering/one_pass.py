"""One pass over the panes, youngest first, shared by all due queries (rule CS2 in Golab's dissertation, 8.3.1)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from windrow.synopses.cells.chunks import Chunk, ChunkView, Strand
from windrow.synopses.cells.folds import State


class PanePass:
    """The merged state of a range of panes, which grows from its end towards older panes."""

    def __init__(self, chunks: Sequence[Chunk], strands: Sequence[Strand], size: int):
        self.strands = strands
        self._chunks = chunks
        self._views: dict[int, ChunkView] = {}
        self._offsets = np.cumsum([0, *(chunk.panes.size for chunk in chunks)]).tolist()
        self._size = size
        self._reached = 0
        self.state: list[State] = []

    def begin(self, high: int) -> None:
        """Start an empty range that ends before pane index `high`."""
        self.state = [strand.identity(self._size) for strand in self.strands]
        self._reached = high

    def extend(self, low: int) -> None:
        """Extend the range down to pane index `low`."""
        at = bisect_left(self._offsets, self._reached) - 1
        while self._reached > low:
            base = self._offsets[at]
            first = max(low, base)
            if at not in self._views:
                self._views[at] = self._chunks[at].view(self.strands)
            self._views[at].merge_into(self.state, first - base, self._reached - base)
            self._reached = first
            at -= 1
