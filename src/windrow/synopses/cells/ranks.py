"""Ranks: the place of each tuple among those of its partition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windrow.synopses.cells.arrays import place_in_run
from windrow.synopses.cells.groups import Groups, Ids
from windrow.windows import Points


class Ranks:
    """The number of tuples so far of each partition: the backward context of Li et al., SIGMOD 2005."""

    def __init__(self, partitions: Groups):
        self.partitions = partitions
        self.counts = np.zeros(1, np.int64)

    def number(self, keys: Sequence[pa.Array], rows: Points) -> Points:
        """The rank of each row in its partition, in the order of the row numbers. Leaves the counts as they are."""
        ids = self.partitions.ids(keys, np.zeros(rows.size, bool))
        self._grow()
        order = np.lexsort((rows, ids))
        sorted_ids = ids[order]
        out = np.empty(ids.size, np.int64)
        out[order] = place_in_run(sorted_ids) + 1 + self.counts[sorted_ids]
        return out

    @property
    def nbytes(self) -> int:
        """An upper bound of the bytes of `known()`."""
        return self.partitions.nbytes + self.partitions.count * self.counts.itemsize

    def known(self) -> pa.Table:
        """The partitions with a tuple: their values as `p0…`, and the `count`."""
        ids = np.flatnonzero(self.counts)
        keys = [
            k.dictionary_decode() if pa.types.is_dictionary(k.type) else k for k in self.partitions.key_columns(ids)
        ]
        return pa.table({**{f"p{i}": key for i, key in enumerate(keys)}, "count": self.counts[ids]})

    def _grow(self) -> None:
        missing = self.partitions.count - self.counts.size
        if missing > 0:
            self.counts = np.concatenate([self.counts, np.zeros(missing, np.int64)])

    def raise_to(self, ids: Ids, ranks: Points) -> None:
        """Raise the counts of these partitions to at least these ranks."""
        self._grow()
        np.maximum.at(self.counts, ids, ranks)
