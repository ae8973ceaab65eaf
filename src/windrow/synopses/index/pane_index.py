"""An index over the closed panes of a basic interval synopsis, for all groups at once.

Accumulators with equal folds stand side by side in one synopsis over the sequence of occupied panes: running sums
(`running.py`) where they subtract exactly, else base intervals (`interval.py`), or landmark intervals (`landmark.py`)
for the widths that are asked for. A window is then O(1) or O(log b) instead of a walk over its panes. Panes are
appended as they close and forgotten as they expire; whatever else changes the cells (late ones, groups renumbered or
let go of) makes it stale, and it is built anew.
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
"""Up to so many windows are looked up one after another, which is quicker."""

SPARE_GROUPS = 1.1
"""Room for groups that are still to come, so that not each makes the index stale."""

FEW_PANES = 60
"""An index has room for at least so many."""


def can_be_indexed(fold: Fold) -> bool:
    """Objects (texts, sketches) are merged by Python, value by value: walking merges fewer of them."""
    return not any(dtype.hasobject for dtype in fold.dtypes)


def columns_of(accumulators: Iterable[Accumulator]) -> tuple[int, int]:
    """How many values per cell subtract exactly, and how many can only be merged."""
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
    """What a part of an index is, and how many values it keeps of a group."""

    kind: SynopsisKind
    values: int


class PaneIndex:
    """The occupied closed panes by their place among those held; group 0 (nobody) is left out.

    `kind`: running and landmark ones subtract where that is exact; landmark ones serve the windows of some `partitions`
    alone. A part's cells are counted since it was made, so pane i of the `held` ones is its cell length − held + i.
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
        """Whether all groups that are known by now have a place: those of open panes are numbered already."""
        return groups <= self._room

    def holds(self, accumulators: Iterable[Accumulator]) -> bool:
        return all(a in self._where for a in accumulators)

    def serves(self, lows: Ids, highs: Ids) -> bool:
        """Whether all windows over these places can be found."""
        ready = [part.cells for part in self._parts if isinstance(part.cells, LandmarkSynopsis)]
        firsts = (cells.length - self._held for cells in ready)
        return all(cells.serves(lows + first, highs + first) for cells, first in zip(ready, firsts, strict=True))

    def bytes_with(self, accumulators: Iterable[Accumulator]) -> int:
        """What it would take with these as well."""
        folds = [fold_of(a) for a in accumulators if a not in self._where]
        return self.nbytes + sum(8 * self._room * len(fold.dtypes) * self._kept(fold) for fold in folds)

    def _kept(self, fold: Fold) -> int:
        """Values of one group that are kept of a column."""
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
        """Index more accumulators, over all chunks. `same`: each one's first equal, which is kept once."""
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
        """Take newly closed panes; False where it cannot: it is stale then."""
        held = self._held + sum(chunk.panes.size for chunk in chunks)
        if not self.has_room_for(groups) or held > self._span or not all(self._fits(chunk) for chunk in chunks):
            return False
        for part in self._parts:
            for chunk in chunks:
                part.cells.update(_spread(part.strand, chunk, self._room))
        self._held = held
        return True

    def _fits(self, chunk: Chunk) -> bool:
        """Whether what was equal so far is equal here too."""
        return all(chunk.states.get(a) is chunk.states.get(first) for a, first in self._same.items())

    def forget(self, panes: int) -> None:
        """The oldest panes have expired."""
        self._held -= panes

    def parts_of(self, accumulators: Iterable[Accumulator]) -> list[PartSize]:
        """The parts that a lookup of these reads."""
        read = [self._parts[at] for at in {self._where[a][0] for a in accumulators}]
        return [
            PartSize(_KINDS[type(one.cells)], len(one.strand.members) * len(one.strand.fold.dtypes)) for one in read
        ]

    def find(self, lows: Ids, highs: Ids) -> Found:
        """The windows over the panes [low, high), by their places."""
        return Found(self._parts, self._where, self._held, lows, highs)


class Found:
    """The merged states of some windows; each part is looked up when it is first asked for."""

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
    """A chunk's panes, (panes × members × groups)."""
    into = strand.fold.identity((len(strand.members), chunk.panes.size, room))
    chunk.spread_into(strand, into, 0)
    return tuple(column.swapaxes(0, 1) for column in into)
