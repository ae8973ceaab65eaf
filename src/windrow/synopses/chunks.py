"""Chunks: the cells of a run of closed panes, immutable, in one of two shapes.

Dense: an array (panes × the groups present in the run) per column; sparse: one entry per cell. Which one
is a matter of how full the run is; both merge a range of panes into a vector over all groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from windrow.plan.accumulators import Accumulator
from windrow.synopses.cells import fold_of
from windrow.synopses.folds import Fold, State
from windrow.synopses.groups import Ids
from windrow.windows import Points

States = dict[Accumulator, State]

PANES_PER_CHUNK = 64
DENSE_FILL = 0.2
"""A dense slot costs about a fifth of a scattered cell when merged (measured: 0.7 ns and 4 ns)."""


@dataclass(frozen=True)
class Cells:
    """Cells in any order: pane start, group and one state per accumulator for each. Cells may repeat."""

    panes: Points
    groups: Ids
    states: Mapping[Accumulator, State]

    def where(self, mask: npt.NDArray[np.bool_] | Ids) -> Cells:
        """The cells that a mask marks, or that stand at these indices."""
        states = {a: tuple(column[mask] for column in state) for a, state in self.states.items()}
        return Cells(self.panes[mask], self.groups[mask], states)

    def __len__(self) -> int:
        return int(self.panes.size)


@dataclass
class Chunk:
    """`panes` are the starts of its occupied panes, ascending; `groups` the ids present.

    Dense: states are (panes × groups). Sparse: `cell_pane` (index into panes, ascending) and
    `cell_group` (group id) name each entry of one-dimensional states.
    """

    panes: Points
    groups: Ids
    states: States
    cell_pane: Ids | None = None
    cell_group: Ids | None = None

    @property
    def is_dense(self) -> bool:
        return self.cell_pane is None

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for state in self.states.values() for column in state)

    def view(self, accumulators: Sequence[Accumulator]) -> ChunkView:
        """The states of these accumulators by position, resolved once per pass."""
        return ChunkView(self, [self.states.get(a) for a in accumulators])

    def cells(self) -> Cells:
        """The cells that it was built of, each once. Of a dense slot that holds nothing there is none; but
        every pane has one, for a pane is occupied even where no query takes its tuples."""
        if self.cell_pane is not None and self.cell_group is not None:
            return Cells(self.panes[self.cell_pane], self.cell_group, self.states)
        held = np.zeros((self.panes.size, self.groups.size), bool)
        for accumulator, state in self.states.items():
            for column, nothing in zip(state, fold_of(accumulator).identity(1), strict=True):
                held |= column != nothing[0]
        held[:, 0] |= ~held.any(axis=1)
        pane, group = np.nonzero(held)
        states = {a: tuple(column[held] for column in state) for a, state in self.states.items()}
        return Cells(self.panes[pane], self.groups[group], states)

    def renumber(self, new_ids: Ids) -> None:
        """Groups have been given new ids; the order of the ids is kept."""
        self.groups = new_ids[self.groups]
        if self.cell_group is not None:
            self.cell_group = new_ids[self.cell_group]


class ChunkView:
    """A chunk as one pass over the synopsis sees it."""

    def __init__(self, chunk: Chunk, states: Sequence[State | None]):
        self._chunk = chunk
        self._states = states
        groups = chunk.groups
        first = int(groups[0])
        run = int(groups[-1]) - first + 1 == groups.size
        self._run = slice(first, first + groups.size) if run else None

    def merge_into(self, folds: Sequence[Fold], into: Sequence[State], lo: int, hi: int) -> None:
        """Merge the panes lo ≤ index < hi into vectors over all groups."""
        if self._chunk.cell_pane is not None:
            self._scatter_into(folds, into, lo, hi)
            return
        for fold, vector, state in zip(folds, into, self._states, strict=True):
            if state is None:
                continue
            rows = [c[lo] for c in state] if hi == lo + 1 else fold.reduce([c[lo:hi] for c in state])
            if self._run is not None:
                fold.merge_into([v[self._run] for v in vector], rows)
            else:
                fold.scatter_into(vector, self._chunk.groups, rows)

    def _scatter_into(self, folds: Sequence[Fold], into: Sequence[State], lo: int, hi: int) -> None:
        assert self._chunk.cell_pane is not None and self._chunk.cell_group is not None
        first, last = np.searchsorted(self._chunk.cell_pane, (lo, hi))
        at = self._chunk.cell_group[first:last]
        for fold, vector, state in zip(folds, into, self._states, strict=True):
            if state is not None:
                fold.scatter_into(vector, at, [column[first:last] for column in state])


def build_chunks(cells: Cells) -> list[Chunk]:
    """Cells of closed panes (which may repeat: several deposits) as chunks, panes ascending."""
    panes, pane_of = np.unique(cells.panes, return_inverse=True)
    if panes.size <= PANES_PER_CHUNK:
        return [_build(panes, pane_of, cells)] if panes.size else []
    out = []
    order = np.argsort(pane_of, kind="stable")
    bounds = np.searchsorted(pane_of[order], np.arange(0, panes.size + PANES_PER_CHUNK, PANES_PER_CHUNK))
    for i, start in enumerate(range(0, panes.size, PANES_PER_CHUNK)):
        rows = order[bounds[i] : bounds[i + 1]]
        out.append(_build(panes[start : start + PANES_PER_CHUNK], pane_of[rows] - start, cells.where(rows)))
    return out


def _build(panes: Points, pane_of: Ids, cells: Cells) -> Chunk:
    groups, group_of = np.unique(cells.groups, return_inverse=True)
    slot = pane_of * groups.size + group_of
    slots = panes.size * groups.size
    if len(cells) >= DENSE_FILL * slots:
        states = {a: _fold_cells(a, state, slot, slots) for a, state in cells.states.items()}
        shape = (panes.size, groups.size)
        return Chunk(panes, groups, {a: tuple(c.reshape(shape) for c in s) for a, s in states.items()})
    used, cell_of = np.unique(slot, return_inverse=True)
    states = {a: _fold_cells(a, state, cell_of, used.size) for a, state in cells.states.items()}
    return Chunk(panes, groups, states, used // groups.size, groups[used % groups.size])


def _fold_cells(accumulator: Accumulator, state: State, at: Ids, size: int) -> State:
    fold = fold_of(accumulator)
    out = fold.identity(size)
    fold.scatter_into(out, at, state)
    return out
