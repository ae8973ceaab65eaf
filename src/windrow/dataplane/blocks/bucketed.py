"""Blocks cut into buckets: one record batch per bucket in a file, and the block's panes in its schema.

A task reads only the batches of its own buckets from every block. Read whole, the file is a table like any other block.
There is one file per task and micro-batch, however many buckets, since a sync costs more than a batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from windrow.dataplane.blocks.store import BlockRef, BlockWriter, readable

_PANES = b"windrow.panes"

Points = npt.NDArray[np.int64]


def write_bucketed(writer: BlockWriter, owner: str, tables: Sequence[pa.Table | None], panes: Points) -> BlockRef:
    """Write one block of these tables, one per bucket (None: empty). They have the same columns."""
    held = next(table for table in tables if table is not None)
    schema = held.schema.with_metadata({_PANES: np.unique(panes).astype("<i8").tobytes()})
    batches = [_batch(held.slice(0, 0) if table is None else table, schema) for table in tables]
    return writer.write_batches(owner, schema, batches, compress=True)


def _batch(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    whole = table.select(schema.names).combine_chunks()
    columns = [c.chunk(0) if c.num_chunks else pa.array([], c.type) for c in whole.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def cut(table: pa.Table, bucket_of: Points, buckets: int) -> list[pa.Table | None]:
    """The rows of each bucket, in their order; None for an empty bucket."""
    order = np.argsort(bucket_of, kind="stable")
    table = table.take(pa.array(order)).combine_chunks()
    bounds = np.searchsorted(bucket_of[order], np.arange(buckets + 1)).tolist()
    return [table.slice(a, b - a) if b > a else None for a, b in zip(bounds, bounds[1:], strict=False)]


def panes_in(file: Path) -> Points:
    """The panes of a block, ascending, without reading its rows."""
    with readable(file), pa.memory_map(os.fspath(file)) as source:
        metadata = pa.ipc.open_file(source).schema.metadata
    return np.frombuffer(metadata[_PANES], "<i8").astype(np.int64)


def counts_in(file: Path, name: str) -> Iterator[tuple[Points, Points]]:
    """The panes and the counts named `name` of a block's cells, by bucket; nothing if the block has no such counts."""
    block = BucketedBlock(file, ("pane", name))
    for number in range(block.buckets if name in block.columns else 0):
        table = block.bucket(number)
        if table.num_rows:
            yield table.column("pane").to_numpy(), table.column(name).to_numpy()


class BucketedBlock:
    """A block opened for reading buckets, with those of the wanted columns that it has."""

    def __init__(self, file: Path, wanted: Sequence[str]):
        self._file = file
        with readable(file):
            source, asked = pa.memory_map(os.fspath(file)), set(wanted)
            names = pa.ipc.open_file(source).schema.names
            chosen = [i for i, name in enumerate(names) if name in asked]
            self.columns = tuple(names[i] for i in chosen)
            self._reader = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=chosen))

    @property
    def buckets(self) -> int:
        return int(self._reader.num_record_batches)

    def bucket(self, number: int) -> pa.Table:
        with readable(self._file):
            return pa.Table.from_batches([self._reader.get_batch(number)]).replace_schema_metadata(None)
