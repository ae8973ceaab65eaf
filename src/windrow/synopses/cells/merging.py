"""Several deposits as one, with or without merging equal cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windrow.plan.accumulators import Accumulator
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import Cells, States
from windrow.synopses.cells.distinct import distinct_below, distinct_in_runs
from windrow.synopses.cells.folds import State
from windrow.windows import Points


def concatenate(parts: Sequence[Cells]) -> Cells:
    """The deposits one after another; a missing accumulator has its identity."""
    if len(parts) == 1:
        return parts[0]
    accumulators = dict.fromkeys(a for part in parts for a in part.states)
    states: dict[Accumulator, State] = {}
    for a in accumulators:
        fold = fold_of(a)
        columns = [part.states.get(a) or fold.identity(len(part)) for part in parts]
        states[a] = tuple(np.concatenate(column) for column in zip(*columns, strict=True))
    return Cells(
        np.concatenate([part.panes for part in parts]),
        np.concatenate([part.groups for part in parts]),
        states,
    )


def fold_cells(parts: Sequence[Cells], kept_from: int | None) -> Cells:
    """The deposits merged, each cell once, without those below `kept_from`."""
    cells = concatenate(parts)
    if kept_from is not None:
        cells = cells.where(cells.panes >= kept_from)
    if not len(cells):
        return cells
    panes, pane_of = distinct_in_runs(cells.panes)
    width = int(cells.groups.max()) + 1
    slots, cell_of = distinct_below(pane_of * width + cells.groups, panes.size * width)
    states: States = {}
    for accumulator, state in cells.states.items():
        fold = fold_of(accumulator)
        states[accumulator] = fold.identity(slots.size)
        fold.scatter_into(states[accumulator], cell_of, state)
    return Cells(panes[slots // width], slots % width, states)


def collapsed_panes(panes: Points, below: int, into: Points) -> Points:
    """The panes; each below the point is replaced by the last of `into` (ascending) that is not above it, if any."""
    at = np.searchsorted(into, panes, side="right") - 1
    return np.where((at >= 0) & (panes < below), into[np.maximum(at, 0)], panes)
