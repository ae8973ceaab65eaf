"""The group of each cell of a holistic query, and the codes of its values in their order.

The key of a cell is the key of its group followed by its values. Both results depend only on the synopsis's `Groups`,
which cache them until a group is added (`Groups.worked_out`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.synopses.cells.distinct import distinct_below
from windrow.synopses.cells.groups import AnyIds, Groups, Ids

NULL = -1
"""The code of NULL, below all others."""


@dataclass(frozen=True)
class CellGroups:
    """`of`: the group of each cell, from 0; `first`: one cell of each group."""

    of: Ids
    first: Ids

    @cached_property
    def count(self) -> int:
        """The number of groups without nobody; nobody may share the group of NULL or have one of its own."""
        return max(1, self.first.size - int(not (self.of[1:] == self.of[0]).any()))


@dataclass(frozen=True)
class CodedValues:
    """Values as dense codes in Spark's order (NaN greatest, strings by bytes): value i is values[codes[i]]."""

    codes: Ids
    values: pa.Array


def cell_groups_of(groups: Groups, width: int) -> CellGroups:
    """The groups that the first `width` keys of the cells make."""
    return groups.worked_out(("outer", width), lambda: _outer(groups, width))


def codes_of(groups: Groups, key: int) -> CodedValues:
    """The codes of one key of every cell."""
    return groups.worked_out(("codes", key), lambda: coded(groups.keys[key]))


def codes_together(groups: Groups, keys: Sequence[int], cells: AnyIds) -> tuple[Ids, int]:
    """One code for the combination of several keys in each of the cells, and an upper bound of the codes.

    The code is NULL where one of the keys is NULL. The codes of a single key are in the order of its values.
    """
    first = codes_of(groups, keys[0])
    codes, bound = first.codes[cells], len(first.values)
    for key in keys[1:]:
        other = codes_of(groups, key)
        more = other.codes[cells]
        valid = (codes >= 0) & (more >= 0)
        # Renumbering keeps the codes small, so that many keys cannot overflow.
        found, codes = distinct_below(
            np.where(valid, codes * len(other.values) + more, 0), max(bound * len(other.values), 1)
        )
        codes, bound = np.where(valid, codes, NULL), found.size
    return codes, bound


def _outer(groups: Groups, width: int) -> CellGroups:
    if width == len(groups.keys):
        every = np.arange(groups.count)
        return CellGroups(every, every)
    if not width:
        return CellGroups(np.zeros(groups.count, np.int64), np.zeros(1, np.int64))
    keys = groups.keys[:width]
    of = Groups([key.type for key in keys]).ids(keys) - 1
    return CellGroups(of, np.unique(of, return_index=True)[1])


def coded(column: pa.Array) -> CodedValues:
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    codes = np.full(order.size + 1, NULL, np.int64)
    codes[order] = np.arange(order.size)
    at = pc.fill_null(encoded.indices, order.size).to_numpy(zero_copy_only=False)
    return CodedValues(codes[at], encoded.dictionary.take(pa.array(order)))
