"""Blocks: immutable Arrow files that hold the rows of one partition of state."""

from windrow.dataplane.blocks.bucketed import BucketedBlock, counts_in, cut, panes_in, write_bucketed
from windrow.dataplane.blocks.store import (
    BlockRef,
    BlockRow,
    BlockStore,
    BlockWriter,
    MappedBlocks,
    UnsyncedBlock,
    read_block,
    read_block_part,
)

__all__ = [
    "BlockRef",
    "BlockRow",
    "BlockStore",
    "BlockWriter",
    "BucketedBlock",
    "MappedBlocks",
    "UnsyncedBlock",
    "counts_in",
    "cut",
    "panes_in",
    "read_block",
    "read_block_part",
    "write_bucketed",
]
