"""Rows of windows in Spark tasks: each task maps its share of a store's files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from windrow.dataplane.kernels.worker_process import settle
from windrow.dataplane.stores import POINT, KeptColumn, MappedFiles, Selected, StoredRows

BATCH_ROWS = 1 << 16
"""The most rows of a batch that a task hands to Spark."""

LEAST_ROWS = 1 << 17
"""A task reads at least so many rows, as long as there are more."""

MOST_FILES = 1_024
"""So many files stay mapped in a worker process."""


@dataclass(frozen=True)
class FileSlice:
    """`count` rows of a file from row `first` on."""

    file: StoredRows
    first: int
    count: int


Share = tuple[FileSlice, ...]
"""What one task reads."""


def shares_of(files: Sequence[StoredRows], most: int) -> list[Share]:
    """The rows of files, in shares of like size: at most so many, and at least one. Large files are cut."""
    total = sum(file.rows for file in files)
    each = max(-(-total // max(1, most)), LEAST_ROWS)
    found, held, room = list[Share](), list[FileSlice](), each
    for file in files:
        first = 0
        while first < file.rows:
            count = min(file.rows - first, room)
            held.append(FileSlice(file, first, count))
            first, room = first + count, room - count
            if not room:
                found.append(tuple(held))
                held, room = [], each
    if held:
        found.append(tuple(held))
    return found or [()]


@dataclass(frozen=True)
class WindowRows:
    """The rows of a window: these columns of those that are selected, in shares."""

    columns: tuple[KeptColumn, ...]
    selected: Selected
    shares: tuple[Share, ...]

    def tables(self, share: int) -> Iterator[pa.Table]:
        """The rows of a share: POINT, then the columns, named by their ids."""
        settle()
        for one in self.shares[share]:
            yield self._rows(one)
        _forget()

    def _rows(self, one: FileSlice) -> pa.Table:
        selected, predicate = self.selected, self.selected.predicate
        file = _MAPPED.file(one.file.path)
        if predicate is not None and file.kept_if == (predicate.id,):
            predicate = None
        tests = [] if predicate is None else [predicate]
        table = file.columns([*self.columns, *tests]).slice(one.first, one.count)
        masks = []
        if one.file.lo < selected.lo:
            masks.append(pc.greater_equal(table.column(POINT), selected.lo))
        if one.file.hi >= selected.hi:
            masks.append(pc.less(table.column(POINT), selected.hi))
        if predicate is not None:
            masks.append(pc.fill_null(table.column(table.num_columns - 1), False))
            table = table.remove_column(table.num_columns - 1)
        for mask in masks[1:]:
            masks[0] = pc.and_(masks[0], mask)
        return table.filter(masks[0]) if masks else table

    def batches(self, share: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of a share, without POINT, under these names."""
        for table in self.tables(share):
            yield from table.drop_columns([POINT]).rename_columns(list(names)).to_batches(max_chunksize=BATCH_ROWS)


_MAPPED = MappedFiles()
"""The files that this process has mapped, in the driver or in a Spark worker."""


def _forget() -> None:
    paths = _MAPPED.paths
    if len(paths) > MOST_FILES:
        _MAPPED.forget(paths)
