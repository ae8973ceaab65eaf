"""The buffer synopsis, for comparison: it keeps tuples and recomputes each window from them.

The Window-ID approach avoids this buffering (Li et al., SIGMOD 2005). `SET window_evaluation = 'buffer'` selects it. A
cell is a tuple; tuples with equal points and groups share one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from windrow.plan.accumulators import Accumulator
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import Cells, States
from windrow.synopses.cells.folds import Fold, State
from windrow.synopses.cells.merging import concatenate
from windrow.synopses.kinds.basic_interval import BasicIntervalSynopsis
from windrow.synopses.lookups import Lookup, LookupAnswer
from windrow.synopses.synopsis import Ability

_BUFFERED = "its tuples are buffered"


class BufferSynopsis(BasicIntervalSynopsis):
    """Tuples in the order of the window attribute; each window reads all of its own."""

    kind = "buffer"
    _cannot: ClassVar = dict.fromkeys((Ability.MOVE, Ability.NARROW, Ability.INDEX), _BUFFERED)

    def answer(self, lookups: Sequence[Lookup]) -> Iterator[LookupAnswer]:
        cells = concatenate([chunk.cells() for chunk in self._chunks]) if self._chunks else None
        if cells is not None:
            cells = cells.where(np.argsort(cells.panes, kind="stable"))
        for lookup in lookups:
            yield self._answer_one(lookup, cells)

    def _answer_one(self, lookup: Lookup, cells: Cells | None) -> LookupAnswer:
        needed = list(dict.fromkeys((lookup.presence, *lookup.reads)))
        size = max(self.groups.count, 2)
        windows, groups, parts = [], [], []
        for w, (start, end) in enumerate(zip(lookup.starts.tolist(), lookup.ends.tolist(), strict=True)):
            held = None if cells is None else _between(cells, start, end)
            states = {a: _recomputed(fold_of(a), a, held, size) for a in needed}
            alive = np.flatnonzero(lookup.present(states)[1:]) + 1 if not lookup.always else np.ones(1, np.int64)
            windows.append(np.full(alive.size, w, np.int64))
            groups.append(alive)
            parts.append({a: tuple(column[alive] for column in state) for a, state in states.items()})
        joined: States = {
            a: tuple(np.concatenate(columns) for columns in zip(*(part[a] for part in parts), strict=True))
            for a in needed
        }
        return LookupAnswer(lookup.query, len(parts), np.concatenate(windows), np.concatenate(groups), joined)


def _between(cells: Cells, start: int, end: int) -> Cells:
    first, last = np.searchsorted(cells.panes, (start, end))
    return cells.where(slice(int(first), int(last)))


def _recomputed(fold: Fold, accumulator: Accumulator, held: Cells | None, size: int) -> State:
    """The aggregate of an extent for all groups, from its tuples; one group needs no scattering."""
    state = None if held is None else held.states.get(accumulator)
    if held is None or state is None or not len(held):
        return fold.identity(size)
    out = fold.identity(size)
    if size == 2 and not (held.groups == 0).any():
        for target, column in zip(out, fold.reduce(state), strict=True):
            target[1] = column
        return out
    fold.scatter_into(out, held.groups, state)
    return out
