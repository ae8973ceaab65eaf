"""What each of four ways to answer the due windows of a synopsis costs. The answers are the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from windrow.optimizer.synopsis_kinds import SynopsisKind
from windrow.synopses.answering import costs
from windrow.synopses.cells import distinct
from windrow.synopses.cells.chunks import panes_per_chunk
from windrow.synopses.cells.groups import Ids
from windrow.synopses.cells.sketches import is_sketch
from windrow.synopses.index.pane_index import PartSize
from windrow.synopses.lookups import Lookup

Spans = Sequence[tuple[Ids, Ids]]


class Way(Enum):
    """One pass over the panes (few windows); tables over panes (many windows); a tree per group (many windows of
    few groups, or of groups that are in few panes); the index, where one is kept."""

    ONE_PASS = "one pass"
    TABLES = "tables"
    TREE = "tree"
    INDEX = "index"


@dataclass(frozen=True)
class WindowWork:
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

    @property
    def levels(self) -> int:
        return max(1, self.longest.bit_length())

    @property
    def one_pass(self) -> float:
        """Some NumPy calls per window and per chunk walked, each over every group."""
        slots = self.groups * self.columns
        chunks = self.walked / panes_per_chunk(self.groups)
        merged = self.walked * self.groups * self.sketches * costs.SKETCH_NS
        calls = (chunks + self.windows) * costs.WALK_CALL_NS
        return calls + (self.windows * costs.TAKEN_NS + chunks * costs.WALK_SLOT_NS) * slots + merged

    @property
    def tables(self) -> float:
        """Every pane between copied and merged level by level; then two looks per answer row."""
        slots = self.groups * self.columns
        built = self.between * slots * (costs.TABLE_COPIED_NS + self.levels * costs.TABLE_LEVEL_NS)
        return built + self.windows * slots * costs.TABLE_TAKEN_NS + self.lookups * costs.TABLE_LOOKUP_NS

    @property
    def tree(self) -> float:
        """Two steps per level and answer row."""
        built = self.panes * self.groups * (self.columns * costs.TREE_BUILT_NS + self.sketches * costs.SKETCH_NS)
        built += self.windows * self.groups * self.sketches * self.levels * costs.SKETCH_NS
        row = self.columns * 2 * self.levels * costs.TREE_STEP_NS + costs.TREE_ROW_NS
        return self.windows * self.groups * row + built

    @property
    def table_bytes(self) -> int:
        return 8 * self.between * self.groups * self.columns * (1 + self.levels)

    def by_index(self, parts: Iterable[PartSize]) -> float:
        """Every part of an index that is read, looked up once."""
        total = 0.0
        for part in parts:
            merges = 2 if part.kind is SynopsisKind.LANDMARK else self.levels
            subtracts = part.kind is SynopsisKind.RUNNING
            each = costs.SUBTRACTED_NS if subtracts else costs.INDEX_MERGED_NS * merges
            total += costs.PART_NS + self.windows * self.groups * part.values * each
        return total

    def scans(self) -> dict[Way, float]:
        """What each way that can be taken without an index costs."""
        found = {Way.ONE_PASS: self.one_pass}
        if self.in_order:
            found[Way.TREE] = self.tree
        if self.tabled and self.table_bytes <= costs.TABLE_BYTES:
            found[Way.TABLES] = self.tables
        return found


def window_work(lookups: Sequence[Lookup], spans: Spans, groups: int, panes: int, tabled: bool) -> WindowWork:
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
    return WindowWork(
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
