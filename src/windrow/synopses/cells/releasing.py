"""Drops the cells of complete groups before their panes expire."""

from __future__ import annotations

import numpy as np

from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.groups import NOBODY
from windrow.synopses.cells.merging import fold_cells
from windrow.windows import Points


def released(cells: Cells, needed: Points) -> Cells:
    """The cells without those below the point `needed` of their group.

    Nobody takes the place of the dropped cells: which windows hold a tuple must not depend on when memory is freed.
    """
    gone = (cells.panes < needed[cells.groups]) & (cells.groups != NOBODY)
    if not gone.any():
        return cells
    states = {}
    for accumulator, state in cells.states.items():
        nothing = fold_of(accumulator).identity(len(cells))
        states[accumulator] = tuple(np.where(gone, none, column) for none, column in zip(nothing, state, strict=True))
    return fold_cells([Cells(cells.panes, np.where(gone, NOBODY, cells.groups), states)], None)
