"""Merges the cells of many intervals at once, level by level in a NumPy tree of base intervals.

The base intervals are those of B-INT (`base_intervals.py`), over the cells in order of group and pane. They all lie
inside the interval. So a fold need be neither invertible nor idempotent, cells outside do not disturb sums of doubles,
and no group's interval uses a node that spans two groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from windrow.plan.accumulators import Accumulator
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import Cells
from windrow.synopses.cells.distinct import distinct_in_runs
from windrow.synopses.cells.folds import Fold, State
from windrow.synopses.cells.groups import NOBODY, Ids
from windrow.synopses.index.base_intervals import base_intervals_of
from windrow.windows import Points, joined_ranges

AT_ONCE = 1 << 15
"""Intervals that climb the tree together: few enough for their data to stay in the processor's cache."""


class FlatIntervals:
    """A tree over cells, which come in any order. Cells with the same pane and group are merged."""

    def __init__(self, cells: Cells):
        self._panes, rank = distinct_in_runs(cells.panes)
        keys = cells.groups * self._panes.size + rank
        if (keys[1:] <= keys[:-1]).any():
            keys, cells = _folded(keys, cells)
        self._keys = keys
        self._groups = cells.groups
        self._trees = {a: _Tree(fold_of(a), state) for a, state in cells.states.items()}

    def __len__(self) -> int:
        """The number of distinct cells."""
        return int(self._keys.size)

    def answer(
        self, groups: Ids, starts: Points, ends: Points, accumulators: Sequence[Accumulator]
    ) -> dict[Accumulator, State]:
        """For each i the merged states of the cells of groups[i] with starts[i] ≤ pane < ends[i].

        The identity where there are no such cells, or where they do not have the accumulator.
        """
        out = {a: fold_of(a).identity(groups.size) for a in accumulators}
        known = [(self._trees[a], state) for a, state in out.items() if a in self._trees]
        lows, highs = self._at(groups, starts), self._at(groups, ends)
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, groups.size, AT_ONCE):
                batch = slice(first, first + AT_ONCE)
                into = [(tree, tuple(c[batch] for c in state)) for tree, state in known]
                for level, _, at, nodes in base_intervals_of(lows[batch], highs[batch]):
                    for tree, state in into:
                        tree.merge_into(state, at, level, nodes)
        return out

    def alive(self, starts: Points, ends: Points) -> tuple[Ids, Ids]:
        """Every (window index, group) where the group has a cell in [starts[w], ends[w]), by window, then group.

        Starts and ends ascend, so a cell lies in a run of windows, and later cells of its group in later runs. The
        pseudo-group nobody is left out. The cost grows with the cells and the answer, not with windows times groups.
        """
        first_of, last_of = np.searchsorted(ends, self._panes, "right"), np.searchsorted(starts, self._panes, "right")
        somebody = int(np.searchsorted(self._groups, NOBODY, "right"))
        rank = self._keys[somebody:] - self._groups[somebody:] * self._panes.size
        first, last = first_of[rank], last_of[rank]
        held = np.flatnonzero(first < last)
        first, last, group = first[held], last[held], self._groups[somebody:][held]
        if not held.size:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        begins = np.concatenate(([True], (group[1:] != group[:-1]) | (first[1:] > last[:-1])))
        run_first, run_last = first[begins], last[np.append(begins[1:], True)]
        return _by_window(run_first, run_last - run_first, group[begins], starts.size)

    def _at(self, groups: Ids, points: Points) -> Ids:
        """The position of each group's first cell whose pane starts at or after the point."""
        heads, of_head = distinct_in_runs(points)
        keys = groups * self._panes.size + np.searchsorted(self._panes, heads)[of_head]
        return np.searchsorted(self._keys, keys)


class _Tree:
    """The levels of one accumulator's tree, each built on first use. Level 0 is the cells."""

    def __init__(self, fold: Fold, state: State):
        self._fold = fold
        self._levels = [state]

    def merge_into(self, into: State, at: Ids, level: int, nodes: Ids) -> None:
        """into[at[i]] ← merge(into[at[i]], nodes[i] of the level); no index repeats."""
        while len(self._levels) <= level:
            self._levels.append(self._pairs(self._levels[-1]))
        merged = [column[at] for column in into]
        self._fold.merge_into(merged, [column[nodes] for column in self._levels[level]])
        for target, column in zip(into, merged, strict=True):
            target[at] = column

    def _pairs(self, state: State) -> State:
        """The next level up. A last node without a neighbour has no parent."""
        even = state[0].size // 2 * 2
        merged = tuple(column[0:even:2].copy() for column in state)
        self._fold.merge_into(merged, [column[1:even:2] for column in state])
        return merged


def _folded(keys: Ids, cells: Cells) -> tuple[Ids, Cells]:
    """The cells in key order; cells with equal keys are merged."""
    order = np.argsort(keys, kind="stable")
    keys, cells = keys[order], cells.where(order)
    heads = np.concatenate(([True], keys[1:] != keys[:-1]))
    if heads.all():
        return keys, cells
    cell_of, states = np.cumsum(heads) - 1, {}
    for a, state in cells.states.items():
        fold = fold_of(a)
        states[a] = fold.identity(int(cell_of[-1]) + 1)
        fold.scatter_into(states[a], cell_of, state)
    return keys[heads], Cells(cells.panes[heads], cells.groups[heads], states)


def _by_window(first: Ids, lengths: Ids, groups: Ids, windows: int) -> tuple[Ids, Ids]:
    """The (window, group) pairs of runs of windows, by window, then group; runs of one group are disjoint."""
    window, group = joined_ranges(first, lengths), np.repeat(groups, lengths)
    if groups[0] == groups[-1]:
        return window, group
    width = int(groups[-1]) + 1
    packed = window * width + group
    if windows * width <= 8 * packed.size:
        marks: npt.NDArray[np.bool_] = np.zeros(windows * width, bool)
        marks[packed] = True
        packed = np.flatnonzero(marks)
    else:
        packed = np.sort(packed, kind="stable")  # a stable sort is fast on runs
    window = packed // width
    return window, packed - window * width
