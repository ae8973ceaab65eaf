"""Commits that replace the blocks of a synopsis: compactions, and moves between the homes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windrow.catalog.store import Catalog
from windrow.dataplane.blocks import BlockRef, BlockStore
from windrow.engine.state import SynopsisState
from windrow.synopses import StoredSynopsis


class BlockMoves:
    """Names blocks that hold what others held. No answer, and no progress, depends on it."""

    def __init__(self, catalog: Catalog, blocks: BlockStore):
        self._catalog = catalog
        self._blocks = blocks

    def replace_blocks(self, made: Sequence[tuple[BlockRef, int, int]], replaced: Sequence[int]) -> None:
        """Blocks that hold what others held; each with its first and last pane."""
        with self._catalog.transaction():
            self._exchange(made, replaced)

    def _exchange(self, made: Sequence[tuple[BlockRef, int, int]], replaced: Sequence[int]) -> None:
        for ref, lo, hi in made:
            self._blocks.add(ref, lo, hi)
        for block in replaced:
            self._blocks.release(block)

    def move(
        self,
        state: SynopsisState,
        home: StoredSynopsis | None,
        made: Sequence[tuple[BlockRef, int, int]],
        replaced: Sequence[int],
        enter: Callable[[], None],
    ) -> None:
        """A synopsis moves to the Spark home, or to the driver's (None); `enter` moves it in memory. That goes with the
        commit, whatever fails after it: else what is written next would be of the other home."""
        saved: tuple[float | None, ...] = (None,) * 4
        if home is not None:
            weight = (None, None) if home.left_with is None else (home.left_with.cell, home.left_with.group)
            saved = (home.buckets, *weight, home.groups_seen)
        with self._catalog.transaction() as tx:
            tx.on_commit(enter)
            self._exchange(made, replaced)
            tx.execute(
                "UPDATE synopses SET buckets = ?, cell_bytes = ?, group_bytes = ?, groups_seen = ? WHERE id = ?",
                (*saved, state.plan.id),
            )
