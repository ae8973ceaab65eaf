"""Commits that replace the blocks of a synopsis: compactions, and moves between homes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windrow.catalog.store import Catalog
from windrow.dataplane.blocks import BlockRef, BlockStore
from windrow.engine.state import SynopsisState
from windrow.synopses import StoredSynopsis


class BlockMoves:
    """Replaces blocks by others with the same cells. Answers and progress do not change."""

    def __init__(self, catalog: Catalog, blocks: BlockStore):
        self._catalog = catalog
        self._blocks = blocks

    def replace_blocks(self, made: Sequence[tuple[BlockRef, int, int]], replaced: Sequence[int]) -> None:
        """Replace blocks by `made` (block, first and last pane)."""
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
        """Move a synopsis to the Spark home, or to the driver (None). `enter` moves it in memory, as part of the
        commit: if it failed after the commit, the next blocks would be written for the wrong home."""
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
