"""An index over the closed panes of a basic interval synopsis, for all groups at once.

Accumulators with equal folds share one synopsis over the sequence of occupied panes: running sums (`running.py`) if
they subtract exactly, else base intervals (`interval.py`), or landmark intervals (`landmark.py`) for recent widths. A
window then costs O(1) or O(log b) instead of a walk over its panes. Panes are appended as they close and forgotten as
they expire. Any other change of the cells (late cells, groups renumbered or released) makes the index stale, and it is
rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from windrow.optimizer.synopsis_kinds import SynopsisKind
from windrow.plan.accumulators import Accumulator
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.chunks import Chunk, Strand, strands_of
from windrow.synopses.cells.folds import Fold, State
from windrow.synopses.cells.groups import Ids
from windrow.synopses.index.interval import IntervalSynopsis
from windrow.synopses.index.landmark import LandmarkSynopsis, Partition
from windrow.synopses.index.running import RunningSynopsis, is_subtractable
from windrow.synopses.index.sequence import power_of_two

ONE_BY_ONE = 4
"""Up to so many windows are looked up one by one, which is faster."""

SPARE_GROUPS = 1.1
"""Room for new groups, so that not each of them makes the index stale."""

FEW_PANES = 60
"""An index has room for at least so many panes."""


def can_be_indexed(fold: Fold) -> bool:
    """Not for objects (texts, sketches): Python merges them one by one, and a walk merges fewer."""
    return not any(dtype.hasobject for dtype in fold.dtypes)


def state_columns(accumulators: Iterable[Accumulator]) -> tuple[int, int]:
    """The number of values per cell that subtract exactly, and of those that can only be merged."""
    subtractable = merged = 0
    for a in accumulators:
        fold = fold_of(a)
        if is_subtractable(fold):
            subtractable += len(fold.dtypes)
        else:
            merged += len(fold.dtypes)
    return subtractable, merged


@dataclass(frozen=True)
class _Part:
    """Accumulators with equal folds, over the sequence of panes."""

    strand: Strand
    cells: RunningSynopsis | IntervalSynopsis | LandmarkSynopsis


_KINDS = {
    RunningSynopsis: SynopsisKind.RUNNING,
    IntervalSynopsis: SynopsisKind.INTERVAL,
    LandmarkSynopsis: SynopsisKind.LANDMARK,
}


class PartSize(NamedTuple):
    """The kind of a part of an index, and the number of values per group and cell."""

    kind: SynopsisKind
    values: int


class PaneIndex:
    """An index over the occupied closed panes, without group 0 (nobody). A window is a range of places among them.

    Running and landmark indexes subtract where that is exact; landmark indexes serve only windows of `partitions`. A
    part numbers cells from when it was made, so pane i of the `_held` ones is its cell length − _held + i.
    """

    def __init__(self, panes: int, groups: int, kind: SynopsisKind, partitions: tuple[Partition, ...] = ()):
        self.kind, self.partitions = kind, partitions if kind is SynopsisKind.LANDMARK else ()
        self._room = max(8, int(groups * SPARE_GROUPS))
        self._span = power_of_two(max(panes, FEW_PANES) + 2) - 1
        self._held = 0
        self._parts: list[_Part] = []
        self._where: dict[Accumulator, tuple[int, int]] = {}
        self._same: dict[Accumulator, Accumulator] = {}

    @property
    def nbytes(self) -> int:
        return sum(8 * part.cells.size for part in self._parts)

    def has_room_for(self, groups: int) -> bool:
        """Whether so many groups fit; those of open panes already have ids."""
        return groups <= self._room

    def holds(self, accumulators: Iterable[Accumulator]) -> bool:
        return all(a in self._where for a in accumulators)

    def serves(self, lows: Ids, highs: Ids) -> bool:
        """Whether it can look up all windows over these places."""
        ready = [part.cells for part in self._parts if isinstance(part.cells, LandmarkSynopsis)]
        firsts = (cells.length - self._held for cells in ready)
        return all(cells.serves(lows + first, highs + first) for cells, first in zip(ready, firsts, strict=True))

    def bytes_with(self, accumulators: Iterable[Accumulator]) -> int:
        """Its bytes if it also held these accumulators."""
        folds = [fold_of(a) for a in accumulators if a not in self._where]
        return self.nbytes + sum(8 * self._room * len(fold.dtypes) * self._kept(fold) for fold in folds)

    def _kept(self, fold: Fold) -> int:
        """The number of values per group in a column."""
        if self._subtracts(fold):
            return self._span + 1
        if self.partitions:
            return sum((1 + one.rights) * one.places for one in self.partitions)
        return 2 * (self._span + 1)

    def _subtracts(self, fold: Fold) -> bool:
        return self.kind is not SynopsisKind.INTERVAL and is_subtractable(fold)

    def _made(self, strand: Strand) -> RunningSynopsis | IntervalSynopsis | LandmarkSynopsis:
        shape = len(strand.members), self._room
        if self._subtracts(strand.fold):
            return RunningSynopsis(strand.fold, self._span, shape)
        if self.partitions:
            return LandmarkSynopsis(strand.fold, self.partitions, shape)
        return IntervalSynopsis(strand.fold, self._span, shape)

    def add(self, same: Mapping[Accumulator, Accumulator], chunks: Sequence[Chunk]) -> None:
        """Index more accumulators over all chunks. `same` maps each to the first equal one, which alone is kept."""
        missing = [a for a in same if a not in self._where]
        for strand in strands_of(a for a in dict.fromkeys(same[a] for a in missing) if a not in self._where):
            part = _Part(strand, self._made(strand))
            self._where |= {a: (len(self._parts), i) for i, a in enumerate(strand.members)}
            self._parts.append(part)
            for chunk in chunks:
                part.cells.update(_spread(strand, chunk, self._room))
        self._where |= {a: self._where[same[a]] for a in missing}
        self._same |= {a: same[a] for a in missing if same[a] != a}
        self._held = sum(chunk.panes.size for chunk in chunks)

    def append(self, chunks: Sequence[Chunk], groups: int) -> bool:
        """Take newly closed panes; returns False if it cannot and is now stale."""
        held = self._held + sum(chunk.panes.size for chunk in chunks)
        if not self.has_room_for(groups) or held > self._span or not all(self._fits(chunk) for chunk in chunks):
            return False
        for part in self._parts:
            for chunk in chunks:
                part.cells.update(_spread(part.strand, chunk, self._room))
        self._held = held
        return True

    def _fits(self, chunk: Chunk) -> bool:
        """Whether accumulators that were equal so far are equal in this chunk too."""
        return all(chunk.states.get(a) is chunk.states.get(first) for a, first in self._same.items())

    def forget(self, panes: int) -> None:
        """Drop the oldest panes."""
        self._held -= panes

    def parts_of(self, accumulators: Iterable[Accumulator]) -> list[PartSize]:
        """The sizes of the parts that a lookup of these accumulators reads."""
        read = [self._parts[at] for at in {self._where[a][0] for a in accumulators}]
        return [
            PartSize(_KINDS[type(one.cells)], len(one.strand.members) * len(one.strand.fold.dtypes)) for one in read
        ]

    def find(self, lows: Ids, highs: Ids) -> WindowStates:
        """The states of the windows over the places [low, high)."""
        return WindowStates(self._parts, self._where, self._held, lows, highs)


class WindowStates:
    """The merged states of some windows; each part is looked up when first needed."""

    def __init__(
        self, parts: Sequence[_Part], where: Mapping[Accumulator, tuple[int, int]], held: int, lows: Ids, highs: Ids
    ):
        self._parts, self._where, self._held = parts, where, held
        self._lows, self._highs = lows, highs
        self._looked: dict[int, State] = {}

    def state(self, accumulator: Accumulator, groups: int) -> State:
        """(windows × groups) of one accumulator."""
        at, member = self._where[accumulator]
        if at not in self._looked:
            self._looked[at] = self._look(self._parts[at])
        return tuple(column[:, member, :groups] for column in self._looked[at])

    def _look(self, part: _Part) -> State:
        cells, first = part.cells, part.cells.length - self._held
        if self._lows.size > ONE_BY_ONE:
            return cells.lookup(self._lows + first, self._highs + first)
        pairs = zip(self._lows.tolist(), self._highs.tolist(), strict=True)
        each = [cells.lookup_one(low + first, high + first) for low, high in pairs]
        return tuple(np.stack(columns) for columns in zip(*each, strict=True))


def _spread(strand: Strand, chunk: Chunk, room: int) -> State:
    """The panes of a chunk, (panes × members × groups)."""
    into = strand.fold.identity((len(strand.members), chunk.panes.size, room))
    chunk.spread_into(strand, into, 0)
    return tuple(column.swapaxes(0, 1) for column in into)
