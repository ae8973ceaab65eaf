"""Compaction: it merges the small blocks of a synopsis between micro-batches, in the driver or by a Spark job."""

from __future__ import annotations

from windrow.crash import crash_point
from windrow.dataplane.blocks import BlockStore
from windrow.dataplane.blocks.store import BlockRow
from windrow.dataplane.kernels import Collapse
from windrow.dataplane.spark_home import SparkHome
from windrow.engine.state import StreamState, SynopsisState
from windrow.engine.store.closed_groups import without_released
from windrow.engine.store.journal import Journal
from windrow.engine.store.spark_synopsis import stored_of
from windrow.optimizer.sharing.synopsis_plans import LANDMARK
from windrow.settings import Settings
from windrow.synopses import Home
from windrow.synopses.cells.blocks import from_block, to_block
from windrow.synopses.cells.merging import fold_cells

LARGE_BLOCK_BYTES = 32 << 20
"""Blocks of the Spark home of at least this size are not merged again: more of them cost a task nothing."""

BLOCKS_PER_CORE = 8
"""Small blocks of the Spark home per core before they are merged; a micro-batch writes one per core."""


class Compactor:
    """Merges blocks. Answers do not change."""

    def __init__(self, journal: Journal, blocks: BlockStore, spark: SparkHome):
        self._journal = journal
        self._blocks = blocks
        self._spark = spark

    def compact(self, stream: StreamState, state: SynopsisState, settings: Settings) -> None:
        """Merge blocks of a synopsis if it has more than the setting `synopsis_blocks` allows."""
        limit, rows = settings.integer("synopsis_blocks"), self._blocks.named(state.owner)
        if len(rows) > limit:
            (self._in_spark if state.synopsis.home is Home.SPARK else self._in_driver)(stream, state, rows, limit)

    def _in_driver(self, stream: StreamState, state: SynopsisState, rows: list[BlockRow], _: int) -> None:
        """Merge the smaller half of the blocks into one."""
        ticked = stream.ticked.get(state.plan.axis)
        rows = [row for row in rows if state.synopsis.may_fold(row.hi, ticked)]
        small = sorted(rows, key=lambda row: row.rows)[: len(rows) // 2 + 1]
        if len(small) > 1:
            self._fold(stream, state, small)

    def _fold(self, stream: StreamState, state: SynopsisState, small: list[BlockRow]) -> None:
        accumulators, synopsis = state.plan.accumulators, state.synopsis
        parts = [from_block(self._blocks.read(row.path), accumulators, synopsis.groups) for row in small]
        cells = synopsis.kept(without_released(stream, state, fold_cells(parts, state.kept_from)))
        ticked = stream.ticked.get(state.plan.axis)
        horizon = None if ticked is None else stream.horizon(state.plan.axis, ticked)
        cells = state.collapsed(cells, horizon, stream.landmarks(state))
        made = []
        if len(cells):
            span = synopsis.span(cells, (min(row.lo or 0 for row in small), max(row.hi or 0 for row in small)))
            made.append((self._blocks.write(state.owner, to_block(cells, synopsis.groups)), *span))
        crash_point("compaction-written")
        self._journal.moves.replace_blocks(made, [row.id for row in small])
        stream.metrics.compactions += 1

    def _in_spark(self, stream: StreamState, state: SynopsisState, rows: list[BlockRow], limit: int) -> None:
        """Merge small blocks by a Spark job. For landmark windows merge all blocks: answered panes collapse to one cell
        per group, and would otherwise be read uncollapsed at every tick."""
        is_landmark = state.plan.style[0] == LANDMARK
        small = [row for row in rows if is_landmark or row.bytes < LARGE_BLOCK_BYTES]
        if len(small) <= max(limit, BLOCKS_PER_CORE * self._spark.cores):
            return
        collapse, most = _collapse(stream, state) if is_landmark else None, max(1, limit // 4)
        buckets = state.synopsis.buckets
        assert buckets is not None
        stored = stored_of(self._spark.root, state.owner, state.plan, buckets, state.kept_from, small)
        made = self._spark.fold(stored, state.plan.accumulators, sum(row.rows for row in small), most, collapse)
        crash_point("compaction-written")
        self._journal.moves.replace_blocks(made, [row.id for row in small])
        stream.metrics.compactions += 1


def _collapse(stream: StreamState, state: SynopsisState) -> Collapse | None:
    """How the past of landmark windows collapses: the panes that no tuple to come can fall into."""
    ticked = stream.ticked.get(state.plan.axis)
    horizon = None if ticked is None else stream.horizon(state.plan.axis, ticked)
    return None if horizon is None else Collapse(state.closed_at(horizon), stream.landmarks(state))
