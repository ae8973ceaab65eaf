"""Cells to the table of a block and back. Its columns: pane, nobody, the keys, then those of each accumulator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windrow.plan.accumulators import Accumulator
from windrow.synopses.cells.cells import from_columns, to_columns
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.groups import NOBODY, Groups


def to_block(cells: Cells, groups: Groups) -> pa.Table:
    """The cells with key values instead of ids, sorted by pane."""
    order = np.argsort(cells.panes, kind="stable")
    if not np.array_equal(order, np.arange(order.size)):
        cells = cells.where(order)
    columns: dict[str, pa.Array] = {"pane": pa.array(cells.panes), "nobody": pa.array(cells.groups == NOBODY)}
    columns |= {f"k{i}": key for i, key in enumerate(groups.key_columns(cells.groups))}
    for accumulator, state in cells.states.items():
        columns |= to_columns(accumulator, state)
    return pa.table(columns)


def from_block(table: pa.Table, accumulators: Sequence[Accumulator], groups: Groups) -> Cells:
    """The cells of a block, with those of the accumulators that it has."""
    panes = table.column("pane").combine_chunks().to_numpy()
    nobody = table.column("nobody").combine_chunks().to_numpy(zero_copy_only=False)
    keys = [table.column(name).combine_chunks() for name in table.column_names if name[0] == "k" and name[1:].isdigit()]
    ids = groups.ids(keys, np.asarray(nobody, dtype=bool))
    found = {a: from_columns(a, table) for a in accumulators}
    return Cells(panes, ids, {a: state for a, state in found.items() if state is not None})
