"""The kernel of compaction in the Spark home: each task merges small blocks into one, with every cell once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from windrow.dataplane.answers.finishing import plain
from windrow.dataplane.blocks import BlockRef, BlockWriter, write_bucketed
from windrow.dataplane.kernels.loading import Buckets, StoredCells
from windrow.dataplane.kernels.worker_process import settle
from windrow.plan.accumulators import Accumulator
from windrow.synopses.cells.blocks import to_block
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.groups import Groups
from windrow.synopses.cells.merging import collapsed_panes, fold_cells
from windrow.windows import Points


@dataclass(frozen=True)
class Collapse:
    """For landmark windows: panes below a point are merged into one from each of the points `into` (ascending)."""

    below: int
    into: Points


def fold_buckets(
    stored: StoredCells, accumulators: Sequence[Accumulator], buckets: Sequence[int], collapse: Collapse | None = None
) -> tuple[BlockRef, int, int] | None:
    """Merge some buckets of the blocks into one block; return it with its first and last pane, or None if nothing is
    left.

    The block has a record batch for every bucket of the synopsis, so it is read like any other.
    """
    settle()
    blocks = Buckets(stored, accumulators)
    tables: list[pa.Table | None] = [None] * stored.buckets
    panes, known = [], blocks.known
    for bucket in buckets:
        groups = Groups(stored.key_types)
        cells = [_collapsed(part, collapse) for part in blocks.cells(bucket, groups)]
        if cells:
            folded = fold_cells(cells, stored.kept_from)
            states = {a: folded.states.get(a) or fold_of(a).identity(len(folded)) for a in known}
            tables[bucket] = plain(to_block(Cells(folded.panes, folded.groups, states), groups))
            panes.append(np.unique(folded.panes))
    if not panes:
        return None
    held = np.unique(np.concatenate(panes))
    ref = write_bucketed(BlockWriter(Path(stored.root)), stored.owner, tables, held)
    return ref, int(held[0]), int(held[-1])


def _collapsed(cells: Cells, collapse: Collapse | None) -> Cells:
    if collapse is None:
        return cells
    return Cells(collapsed_panes(cells.panes, collapse.below, collapse.into), cells.groups, cells.states)
