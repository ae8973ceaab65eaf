"""Reads and writes the buckets of a synopsis in its Spark home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from windrow.dataplane.answers.finishing import plain
from windrow.dataplane.blocks import BlockRef, BlockWriter, BucketedBlock, cut, write_bucketed
from windrow.plan.accumulators import Accumulator
from windrow.plan.nodes import WindowAggregate
from windrow.synopses import BasicIntervalSynopsis
from windrow.synopses.cells.blocks import from_block, to_block
from windrow.synopses.cells.buckets import buckets_of
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.groups import Groups
from windrow.synopses.holistic.frequent_panes import synopsis_of
from windrow.windows import Points


@dataclass(frozen=True)
class StoredCells:
    """The cells of a synopsis: its blocks, below a root that every task can read, and their layout.

    The first `bucketed_by` keys determine the bucket of a cell. Cells of panes below `kept_from` have expired.
    `frequent` is the aggregate with FREQUENT_ITEMS, if any; its panes are pruned to top-k lists once they are closed.
    """

    root: str
    owner: str
    paths: tuple[str, ...]
    key_types: tuple[pa.DataType, ...]
    bucketed_by: int
    buckets: int
    kept_from: int | None
    frequent: WindowAggregate | None = None

    def synopsis(self) -> BasicIntervalSynopsis:
        """An empty synopsis for the cells of a bucket."""
        return synopsis_of(self.key_types, self.frequent)


class Buckets:
    """The blocks of a synopsis, opened once for all buckets that a task reads."""

    def __init__(self, stored: StoredCells, accumulators: Sequence[Accumulator]):
        self._stored = stored
        self._accumulators = tuple(accumulators)
        states = [f"{a.id}_{i}" for a in accumulators for i in range(len(fold_of(a).dtypes))]
        keys = [f"k{i}" for i in range(len(stored.key_types))]
        wanted = ("pane", "nobody", *keys, *states)
        self._blocks = [BucketedBlock(Path(stored.root, path), wanted) for path in stored.paths]

    @property
    def known(self) -> list[Accumulator]:
        """The accumulators that at least one block has."""
        columns = {name for block in self._blocks for name in block.columns}
        return [a for a in self._accumulators if f"{a.id}_0" in columns]

    def cells(self, bucket: int, groups: Groups) -> list[Cells]:
        """The cells of a bucket. Blocks with the same columns are read together, so that their groups are looked up at
        once."""
        alike: dict[tuple[str, ...], list[pa.Table]] = {}
        for block in self._blocks:
            table = block.bucket(bucket)
            if table.num_rows:
                alike.setdefault(tuple(table.column_names), []).append(table)
        found = []
        for tables in alike.values():
            cells = from_block(pa.concat_tables(tables), self._accumulators, groups)
            kept = self._stored.kept_from
            if kept is not None and int(cells.panes.min()) < kept:
                cells = cells.where(cells.panes >= kept)
            found.append(cells)
        return [cells for cells in found if len(cells)]


def bucketed(cells: Cells, groups: Groups, bucketed_by: int, buckets: int) -> list[pa.Table | None]:
    """Cells as the tables of a block, one per bucket."""
    table = plain(to_block(cells, groups))
    keys = [table.column(f"k{i}").combine_chunks() for i in range(bucketed_by)]
    nobody = table.column("nobody").combine_chunks().to_numpy(zero_copy_only=False)
    return cut(table, buckets_of(keys, np.asarray(nobody, bool), buckets), buckets)


def write_cells(
    writer: BlockWriter, owner: str, cells: Cells, groups: Groups, bucketed_by: int, buckets: int
) -> tuple[BlockRef, Points]:
    """Write cells as a block cut into buckets. Return it and its panes."""
    panes = np.unique(cells.panes)
    return write_bucketed(writer, owner, bucketed(cells, groups, bucketed_by, buckets), panes), panes
