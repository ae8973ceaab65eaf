"""Which of four ways answers the due windows of a synopsis at least cost. The answers are the same.

The figures are nanoseconds, measured; they matter only where two ways differ by much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from windrow.synopses.cells import distinct
from windrow.synopses.cells.chunks import panes_per_chunk
from windrow.synopses.cells.groups import Ids
from windrow.synopses.cells.sketches import is_sketch
from windrow.synopses.lookups import Lookup

Spans = Sequence[tuple[Ids, Ids]]

TABLE_BYTES = 128 << 20
"""The most that tables over panes may take."""


class Way(Enum):
    """One pass over the panes (few windows); tables over panes (many windows); a tree per group (many windows of
    few groups, or of groups that are in few panes); the index, where one is kept."""

    ONE_PASS = "one pass"
    TABLES = "tables"
    TREE = "tree"
    INDEX = "index"


SKETCH_NS = 5_000
"""Two sketches merged (measured: 3 µs for KLL, 3 to 15 for HLL, 30 for full ones of frequent items)."""


@dataclass(frozen=True)
class Work:
    """What is asked: windows in all, the panes that a pass would walk, the panes between the first and the last.

    `sketches` of the columns are such.
    """

    windows: int
    lookups: int
    walked: int
    between: int
    longest: int
    columns: int
    groups: int
    panes: int
    tabled: bool
    in_order: bool
    sketches: int = 0
    indexed: float | None = None
    """What an index takes; None where none has it all."""

    @property
    def levels(self) -> int:
        return max(1, self.longest.bit_length())

    @property
    def one_pass(self) -> float:
        """Some NumPy calls per window and per chunk walked, each over every group."""
        slots = self.groups * self.columns
        chunks = self.walked / panes_per_chunk(self.groups)
        merged = self.walked * self.groups * self.sketches * SKETCH_NS
        return (chunks + self.windows) * 12_000 + (self.windows * 2.0 + chunks * 1.2) * slots + merged

    @property
    def tables(self) -> float:
        """Every pane between copied and merged level by level; then two looks per answer row."""
        slots = self.groups * self.columns
        return self.between * slots * (2.0 + self.levels) + self.windows * slots * 1.5 + self.lookups * 40_000

    @property
    def tree(self) -> float:
        """Two steps per level and answer row."""
        built = self.panes * self.groups * (self.columns * 20 + self.sketches * SKETCH_NS)
        built += self.windows * self.groups * self.sketches * self.levels * SKETCH_NS
        return self.windows * self.groups * (self.columns * 2 * self.levels * 8 + 100) + built

    @property
    def table_bytes(self) -> int:
        return 8 * self.between * self.groups * self.columns * (1 + self.levels)

    @property
    def least(self) -> float:
        """The least that it takes without an index."""
        return min(cost for way, cost in self._costs().items() if way is not Way.INDEX)

    def way(self) -> Way:
        costs = self._costs()
        return min(costs, key=lambda way: costs[way])

    def _costs(self) -> dict[Way, float]:
        costs = {Way.ONE_PASS: self.one_pass}
        if self.in_order:
            costs[Way.TREE] = self.tree
        if self.tabled and self.table_bytes <= TABLE_BYTES:
            costs[Way.TABLES] = self.tables
        if self.indexed is not None:
            costs[Way.INDEX] = self.indexed
        return costs


def work_of(lookups: Sequence[Lookup], spans: Spans, groups: int, panes: int, tabled: bool) -> Work:
    """What these lookups ask for, of panes by index."""
    lows, highs = (np.concatenate(edges) for edges in zip(*spans, strict=True))
    lengths = highs - lows
    walked = 0
    if lengths.size:
        ticks = distinct.of_runs(highs)[1]
        farthest = np.zeros(int(ticks.max()) + 1, np.int64)
        np.maximum.at(farthest, ticks, lengths)
        walked = int(farthest.sum())
    in_order = not any((edge[1:] < edge[:-1]).any() for lookup in lookups for edge in (lookup.starts, lookup.ends))
    return Work(
        windows=int(lengths.size),
        lookups=len(lookups),
        walked=walked,
        between=int(highs.max() - lows.min()) if lengths.size else 0,
        longest=int(lengths.max()) if lengths.size else 0,
        columns=len({a for lookup in lookups for a in (lookup.presence, *lookup.reads)}),
        groups=max(groups - 1, 1),
        panes=panes,
        tabled=tabled,
        in_order=in_order,
        sketches=len({a for lookup in lookups for a in lookup.reads if is_sketch(a)}),
    )
