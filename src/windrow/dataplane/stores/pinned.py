"""The files of a window store as of one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from windrow.dataplane.stores.reading import MappedFiles, Selected, StoredRows, read_rows
from windrow.dataplane.stores.specs import ReadColumn


@dataclass(frozen=True)
class PinnedFiles:
    """Files that stay on disk as long as their version is pinned."""

    files: tuple[StoredRows, ...]
    mapped: MappedFiles

    def rows(self, columns: Sequence[ReadColumn], selected: Selected) -> pa.Table:
        """The selected rows: POINT, then the columns, named by their ids."""
        return read_rows(self.mapped, self.files, columns, selected)

    def count(self, lo: int, hi: int) -> int:
        """At least the number of rows with lo ≤ point < hi: the rows of all files that have one."""
        return sum(one.rows for one in self.files if one.hi >= lo and one.lo < hi)
