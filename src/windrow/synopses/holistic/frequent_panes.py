"""The synopsis of FREQUENT_ITEMS, which prunes panes to top-k lists as they close (Golab's dissertation, Algorithm 6).

In each closed pane and group only the k most frequent values keep their cells. The others merge into the group's cell
of NULL, which is on no list, so the totals of all other accumulators stay the same. A cell of a full list also keeps
δᵢ, the least count of that list. Counts and δᵢ add up over panes, and Σδᵢ of a window is a k-th of the sum over all its
cells. `reference/frequent_items.py` has the algorithm alone.

Blocks on disk hold the cells as deposited, and a pane closes once, as a whole. So after a restart the same panes have
the same lists.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windrow.plan.holistic import LEAST, ROWS
from windrow.plan.nodes import WindowAggregate
from windrow.synopses.cells.arrays import place_in_run
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.groups import Ids
from windrow.synopses.cells.merging import fold_cells
from windrow.synopses.cells.value_codes import cell_groups_of, codes_of
from windrow.synopses.kinds.basic_interval import BasicIntervalSynopsis


def synopsis_of(key_types: Sequence[pa.DataType], aggregate: WindowAggregate | None) -> BasicIntervalSynopsis:
    """An empty synopsis over panes; a FrequentSynopsis if `aggregate` is given, which has FREQUENT_ITEMS."""
    return BasicIntervalSynopsis(key_types) if aggregate is None else FrequentSynopsis(key_types, aggregate)


class FrequentSynopsis(BasicIntervalSynopsis):
    """All cells of open panes, and the lists of closed ones."""

    kind = "frequent items"

    def __init__(self, key_types: Sequence[pa.DataType], aggregate: WindowAggregate):
        super().__init__(key_types)
        call = aggregate.frequent
        assert call is not None
        self._width = len(aggregate.keys)
        self._value = aggregate.cell_keys.index(call.values[0])
        self._k = int(call.parameters[0])
        self._rows, self._least = call.part(ROWS), call.part(LEAST)

    def _closing(self, cells: Cells) -> Cells:
        whole = fold_cells([cells], None)
        counts = whole.states[self._rows][0]
        outer = cell_groups_of(self.groups, self._width)
        group, code = outer.of[whole.groups], codes_of(self.groups, self._value).codes[whole.groups]
        counted = np.flatnonzero((code >= 0) & (counts > 0))
        order = counted[np.lexsort((code[counted], -counts[counted], group[counted], whole.panes[counted]))]
        listed, least = self._lists(whole, group, counts, order)
        states = {**whole.states, self._least: (least,)}
        gone = np.setdiff1d(counted, listed)
        if not gone.size:
            return Cells(whole.panes, whole.groups, states)
        groups = whole.groups.copy()
        groups[gone] = self._rest_of(outer.first, group[gone])
        return fold_cells([Cells(whole.panes, groups, states)], None)

    def _lists(self, cells: Cells, group: Ids, counts: Ids, order: Ids) -> tuple[Ids, Ids]:
        """The indices of the cells on the lists, and δᵢ of each cell; `order` is by pane, group and falling count."""
        pane, mine = cells.panes[order], group[order]
        packed = np.concatenate(
            (np.zeros(min(order.size, 1), np.int64), (np.diff(pane) != 0) | (np.diff(mine) != 0))
        ).cumsum()
        place = place_in_run(packed)
        listed, last = place < self._k, np.flatnonzero(place == self._k - 1)
        of_list = np.zeros(int(packed.max(initial=-1)) + 1, np.int64)
        of_list[packed[last]] = counts[order[last]]
        least = np.zeros(counts.size, np.int64)
        least[order[listed]] = of_list[packed[listed]]
        return order[listed], least

    def _rest_of(self, first: Ids, group: Ids) -> Ids:
        """The id of each group's cell of NULL."""
        found, at = np.unique(group, return_inverse=True)
        firsts = pa.array(first[found])
        keys = [key.take(firsts) for key in self.groups.keys]
        keys[self._value] = pa.nulls(found.size, keys[self._value].type)
        return np.asarray(self.groups.ids(keys)[at])
