"""Answers that wait for a sink or subscriber that blocks: blocks of the state, named by the outbox."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import pyarrow as pa

from windrow.catalog.store import Catalog
from windrow.dataplane.blocks import BlockRef, BlockStore
from windrow.engine.state import CommittedState, StreamState, UnpublishedStage

OWNER = "undelivered"


@dataclass(frozen=True)
class WaitingEntry:
    """An entry of the outbox: where the answers and their windows stand in the block, and how they are delivered.

    `needs_sink`: they wait for the query's sink, so also across a restart. `early` is that of `QueryAnswers`.
    """

    key: str
    seq: int
    needs_sink: bool
    early: int | None
    table: tuple[int, int] = (0, 0)
    windows: tuple[int, int] = (0, 0)

    def text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def of(item: UnpublishedStage) -> WaitingEntry:
        found = json.loads(item.entry)
        return WaitingEntry(**{**found, "table": tuple(found["table"]), "windows": tuple(found["windows"])})


class WaitingAnswers:
    """Writes and reads waiting answers, and commits that they were handed over."""

    def __init__(self, catalog: Catalog, blocks: BlockStore):
        self._catalog = catalog
        self._blocks = blocks

    def write(
        self, waiting: Sequence[tuple[WaitingEntry, pa.Table, pa.Table]]
    ) -> tuple[BlockRef | None, list[WaitingEntry]]:
        """Write the answers and windows of each entry into one block, for the next commit to name."""
        if not waiting:
            return None, []
        block, places = self._blocks.write_many(OWNER, [table for _, *tables in waiting for table in tables])
        at = iter(places)
        return block, [replace(entry, table=next(at), windows=next(at)) for entry, _, _ in waiting]

    def read(self, item: UnpublishedStage) -> tuple[WaitingEntry, pa.Table, pa.Table]:
        """An entry with its answers and windows."""
        entry = WaitingEntry.of(item)
        path = self._catalog.value("SELECT path FROM blocks WHERE id = ?", (item.block,))
        return entry, self._blocks.read_part(path, *entry.table), self._blocks.read_part(path, *entry.windows)

    def staged(self, stream: StreamState, item: UnpublishedStage, stage: str) -> CommittedState:
        """Commit that a sink has staged waiting answers; `publish` follows."""
        assert item.block is not None
        with self._catalog.transaction() as tx:
            tx.execute("UPDATE outbox SET entry = ?, block = NULL WHERE id = ?", (stage, item.outbox))
            self._blocks.release(item.block)
        now = replace(item, entry=stage, block=None)
        return CommittedState(stream.progress, tuple(now if one is item else one for one in stream.unpublished))
