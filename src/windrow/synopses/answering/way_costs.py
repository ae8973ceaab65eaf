"""Estimated costs of the four ways to answer the due windows of a synopsis. The answers are the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from windrow.optimizer.synopsis_kinds import SynopsisKind
from windrow.synopses.answering import costs
from windrow.synopses.cells.chunks import panes_per_chunk
from windrow.synopses.cells.distinct import distinct_in_runs
from windrow.synopses.cells.groups import Ids
from windrow.synopses.cells.sketches import is_sketch
from windrow.synopses.index.pane_index import PartSize
from windrow.synopses.lookups import Lookup

Spans = Sequence[tuple[Ids, Ids]]


class Way(Enum):
    """One pass over the panes suits few windows; tables over panes suit many; a tree suits many windows of few groups,
    or of groups that occur in few panes; the index serves where one is kept."""

    ONE_PASS = "one pass"
    TABLES = "tables"
    TREE = "tree"
    INDEX = "index"


@dataclass(frozen=True)
class WindowWork:
    """Sizes of the due windows.

    `walked`: panes that a pass walks. `between`: panes from the first start to the last end. `longest`: panes of the
    longest window. `columns`: accumulators read, `sketches` of which are sketches. `tabled`: tables can answer them.
    `in_order`: starts and ends ascend, which the tree needs.
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
        """NumPy calls over all groups, per window and per chunk walked."""
        slots = self.groups * self.columns
        chunks = self.walked / panes_per_chunk(self.groups)
        merged = self.walked * self.groups * self.sketches * costs.SKETCH_NS
        calls = (chunks + self.windows) * costs.WALK_CALL_NS
        return calls + (self.windows * costs.TAKEN_NS + chunks * costs.WALK_SLOT_NS) * slots + merged

    @property
    def tables(self) -> float:
        """Copies every pane between and merges it on each level; then reads twice per answer row."""
        slots = self.groups * self.columns
        built = self.between * slots * (costs.TABLE_COPIED_NS + self.levels * costs.TABLE_LEVEL_NS)
        return built + self.windows * slots * costs.TABLE_TAKEN_NS + self.lookups * costs.TABLE_LOOKUP_NS

    @property
    def tree(self) -> float:
        """Takes two steps per level and answer row."""
        built = self.panes * self.groups * (self.columns * costs.TREE_BUILT_NS + self.sketches * costs.SKETCH_NS)
        built += self.windows * self.groups * self.sketches * self.levels * costs.SKETCH_NS
        row = self.columns * 2 * self.levels * costs.TREE_STEP_NS + costs.TREE_ROW_NS
        return self.windows * self.groups * row + built

    @property
    def table_bytes(self) -> int:
        return 8 * self.between * self.groups * self.columns * (1 + self.levels)

    def by_index(self, parts: Iterable[PartSize]) -> float:
        """Looks up once every part of the index that is read."""
        total = 0.0
        for part in parts:
            merges = 2 if part.kind is SynopsisKind.LANDMARK else self.levels
            subtracts = part.kind is SynopsisKind.RUNNING
            each = costs.SUBTRACTED_NS if subtracts else costs.INDEX_MERGED_NS * merges
            total += costs.PART_NS + self.windows * self.groups * part.values * each
        return total

    def scans(self) -> dict[Way, float]:
        """The cost of each way that applies, without the index."""
        costs_of = {Way.ONE_PASS: self.one_pass}
        if self.in_order:
            costs_of[Way.TREE] = self.tree
        if self.tabled and self.table_bytes <= costs.TABLE_BYTES:
            costs_of[Way.TABLES] = self.tables
        return costs_of


def window_work(lookups: Sequence[Lookup], spans: Spans, groups: int, panes: int, tabled: bool) -> WindowWork:
    """The sizes of these lookups; `spans`: the pane indexes of their windows, of `panes` panes in all."""
    lows, highs = (np.concatenate(edges) for edges in zip(*spans, strict=True))
    lengths = highs - lows
    walked = int(lengths[0]) if lengths.size == 1 else 0
    if lengths.size > 1:
        ticks = distinct_in_runs(highs)[1]
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
