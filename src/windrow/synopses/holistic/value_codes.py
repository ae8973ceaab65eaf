"""Cells of holistic queries taken apart: which group a cell is of, and the codes of its values, in their order.

A cell's key is that of its group and then its values. Both follow from the groups alone, so they are worked out once
for all the windows that are answered until a new one comes (`Groups.worked_out`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.synopses.cells import distinct
from windrow.synopses.cells.groups import AnyIds, Groups, Ids

NULL = -1
"""The code of NULL: below all others."""


@dataclass(frozen=True)
class CellGroups:
    """`of`: the group of each cell, from 0; `first`: of each group one of its cells."""

    of: Ids
    first: Ids

    @cached_property
    def count(self) -> int:
        """How many there are but nobody's, which may be that of NULL, or one of its own."""
        return max(1, self.first.size - int(not (self.of[1:] == self.of[0]).any()))


@dataclass(frozen=True)
class CodedValues:
    """Values as dense codes in their order (Spark's: NaN is greatest, strings by their bytes): values[codes[i]]."""

    codes: Ids
    values: pa.Array


def cell_groups_of(groups: Groups, width: int) -> CellGroups:
    """Cells by their first `width` keys."""
    return groups.worked_out(("outer", width), lambda: _outer(groups, width))


def codes_of(groups: Groups, key: int) -> CodedValues:
    """The values that are one of the keys, by cell."""
    return groups.worked_out(("codes", key), lambda: coded(groups.keys[key]))


def codes_together(groups: Groups, keys: Sequence[int], cells: AnyIds) -> tuple[Ids, int]:
    """One code for what several of the keys are in some cells, and a bound of these codes; NULL where one of them is.
    Of a single key the codes are in the order of its values."""
    first = codes_of(groups, keys[0])
    codes, bound = first.codes[cells], len(first.values)
    for key in keys[1:]:
        other = codes_of(groups, key)
        mine = other.codes[cells]
        valid = (codes >= 0) & (mine >= 0)
        # Renumbered, so that many keys cannot overflow.
        found, codes = distinct.below(
            np.where(valid, codes * len(other.values) + mine, 0), max(bound * len(other.values), 1)
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
