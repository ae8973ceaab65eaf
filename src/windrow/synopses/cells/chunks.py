"""Chunks: the immutable cells of a run of closed panes, in one of two shapes.

A dense chunk has arrays (panes × accumulators of a kind × groups present in the run), a sparse one has an entry per
cell. The fill of the run decides. Both merge a range of panes into a vector over all groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from windrow.plan.accumulators import Accumulator, Kind
from windrow.synopses.cells.cells import fold_of
from windrow.synopses.cells.distinct import distinct_below, distinct_in_runs
from windrow.synopses.cells.folds import Array, Fold, State, UfuncFold
from windrow.synopses.cells.groups import Ids
from windrow.synopses.cells.sketches import held_bytes
from windrow.windows import Points

States = dict[Accumulator, State]

PANES_PER_CHUNK = (64, 4096)
"""The least and the most panes of a chunk. Between them a chunk gets about SLOTS_PER_CHUNK slots: with few groups,
small chunks would be all overhead (0.1 ms to build, measured)."""

SLOTS_PER_CHUNK = 65_536
MOST_TOTALS = 8
"""The most totals (one per set of accumulators) that a chunk caches."""

DENSE_FILL = 0.2
"""Merging a dense slot costs about a fifth of merging a sparse cell (measured: 0.7 ns and 4 ns)."""


@dataclass(frozen=True)
class Cells:
    """Cells in any order: the pane start, group and state per accumulator of each. Cells may repeat."""

    panes: Points
    groups: Ids
    states: Mapping[Accumulator, State]

    def where(self, mask: npt.NDArray[np.bool_] | Ids | slice) -> Cells:
        """The cells where a mask is true, or at these indices."""
        states = {a: tuple(column[mask] for column in state) for a, state in self.states.items()}
        return Cells(self.panes[mask], self.groups[mask], states)

    def __len__(self) -> int:
        return int(self.panes.size)


@dataclass(frozen=True)
class Strand:
    """Accumulators with equal folds, which one call merges together. A column is (…, members, groups)."""

    fold: Fold
    members: tuple[Accumulator, ...]

    def identity(self, *shape: int) -> State:
        """Empty states, (leading shape × members × groups)."""
        return self.fold.identity((*shape[:-1], len(self.members), shape[-1]))


def strands_of(accumulators: Iterable[Accumulator]) -> tuple[Strand, ...]:
    """The accumulators grouped by equal folds, in their order."""
    found: dict[Fold, list[Accumulator]] = {}
    for a in accumulators:
        found.setdefault(fold_of(a), []).append(a)
    return tuple(Strand(fold, tuple(members)) for fold, members in found.items())


Members = slice | list[int]
"""Which accumulators of a kept strand."""


@dataclass
class Chunk:
    """`panes` are the starts of its occupied panes, ascending; `groups` the ids present.

    Dense: states are (panes × groups), views of `strands`. Sparse: `cell_pane` (index into panes, ascending) and
    `cell_group` (group id) locate each entry of one-dimensional states. Equal counts (such as those of the rows and of
    a column without nulls) share one state object, so `is` detects them.
    """

    panes: Points
    groups: Ids
    states: States
    strands: dict[Strand, State] = field(default_factory=dict)
    cell_pane: Ids | None = None
    cell_group: Ids | None = None
    is_narrow: bool = False
    _totals: dict[Strand, State] = field(default_factory=dict)
    _by_group: Ids | None = None

    @property
    def is_dense(self) -> bool:
        return self.cell_pane is None

    @property
    def nbytes(self) -> int:
        return sum(
            held_bytes(column) for state in {id(s): s for s in self.states.values()}.values() for column in state
        )

    def view(self, strands: Sequence[Strand]) -> ChunkView:
        """A view for one pass over these strands."""
        return ChunkView(self, strands)

    def strand(self, strand: Strand) -> State | None:
        """(panes × members × groups), as kept or stacked from its members; None if it has none of them."""
        kept = self.strands.get(strand)
        if kept is not None or not any(a in self.states for a in strand.members):
            return kept
        nothing = strand.fold.identity((self.panes.size, self.groups.size))
        parts = [widened(strand.fold, self.states[a]) if a in self.states else nothing for a in strand.members]
        return tuple(np.stack(columns, axis=1) for columns in zip(*parts, strict=True))

    def located(self, strand: Strand) -> tuple[State, Members] | None:
        """(panes × accumulators × groups) and where the members are among the accumulators; None if it has none of
        them. Cells are copied only if the members are of several kept strands."""
        known = [self.states.get(a) for a in strand.members]
        for kept, state in self.strands.items():
            places = {id(self.states[a]): i for i, a in enumerate(kept.members)}
            if all(id(one) in places for one in known):
                return state, _members([places[id(one)] for one in known])
        stacked = self.strand(strand)
        return None if stacked is None else (stacked, slice(None))

    def narrow(self) -> None:
        """Keep the smallest integers from now on. Old chunks are mostly read through their total; young ones are merged
        faster at full width."""
        self.is_narrow = True
        kept: dict[int, State] = {}
        for strand, state in self.strands.items():
            small = self.strands[strand] = narrowed(strand.fold, state)
            for i, a in enumerate(strand.members):
                kept[id(self.states[a])] = tuple(c[:, i] for c in small)
        self.states = {a: kept.get(id(state), state) for a, state in self.states.items()}

    def total(self, strand: Strand) -> State:
        """All its panes merged; cached, because long windows take whole chunks at every tick."""
        if strand not in self._totals:
            if len(self._totals) >= MOST_TOTALS:  # queries of different periods keep asking for other sets
                self._totals.clear()
            kept, fold = self.strands.get(strand), strand.fold
            if kept is not None:
                self._totals[strand] = widened(fold, fold.reduce(kept))
            else:  # reduce members one by one: stacking them first would copy every cell
                nothing = fold.identity(self.groups.size)
                known = [self.states.get(a) for a in strand.members]
                each = [nothing if state is None else widened(fold, fold.reduce(state)) for state in known]
                self._totals[strand] = tuple(np.stack(columns) for columns in zip(*each, strict=True))
        return self._totals[strand]

    def cells(self, reads: Collection[Accumulator] | None = None) -> Cells:
        """Its cells, each once, with all accumulators or with `reads`.

        An empty dense slot gives no cell, but every pane gives one: it is occupied even if no query takes its tuples.
        """
        some = self.states if reads is None else {a: state for a, state in self.states.items() if a in reads}
        if self.cell_pane is not None and self.cell_group is not None:
            return Cells(self.panes[self.cell_pane], self.cell_group, some)
        states = {a: widened(fold_of(a), state) for a, state in some.items()}
        held = np.zeros((self.panes.size, self.groups.size), bool)
        for accumulator, state in states.items():
            for column, nothing in zip(state, fold_of(accumulator).identity(1), strict=True):
                held |= column != nothing[0]
        held[:, 0] |= ~held.any(axis=1)
        pane, group = np.nonzero(held)
        states = {a: tuple(column[held] for column in state) for a, state in states.items()}
        return Cells(self.panes[pane], self.groups[group], states)

    def spread_into(self, strand: Strand, into: Sequence[Array], first: int) -> None:
        """Write its panes from index `first` on into empty states (members × panes × all groups except nobody)."""
        last = first + into[0].shape[1]
        if self.cell_pane is None or self.cell_group is None:
            state = self.strand(strand)
            if state is not None:
                at = _run(self.groups[self.groups > 0] - 1)
                for target, column in zip(into, widened(strand.fold, state), strict=True):
                    some = column[first:last, :, 1:] if self.groups[0] == 0 else column[first:last]
                    target[:, :, at] = some.swapaxes(0, 1)
            return
        mine = (self.cell_pane >= first) & (self.cell_pane < last) & (self.cell_group > 0)
        pane, group = self.cell_pane[mine] - first, self.cell_group[mine] - 1
        for i, a in enumerate(strand.members):
            if a in self.states:
                for target, column in zip(into, self.states[a], strict=True):
                    target[i, pane, group] = column[mine]

    def by_group(self) -> Ids:
        """The indices of a sparse chunk's entries by group, then pane; cached."""
        assert self.cell_group is not None
        if self._by_group is None:
            self._by_group = np.argsort(self.cell_group, kind="stable")
        return self._by_group

    def renumber(self, new_ids: Ids) -> None:
        """Give the groups their new ids, which have the order of the old ones."""
        self.groups = new_ids[self.groups]
        if self.cell_group is not None:
            self.cell_group = new_ids[self.cell_group]


class ChunkView:
    """A chunk during one pass over the synopsis."""

    def __init__(self, chunk: Chunk, strands: Sequence[Strand]):
        self._chunk = chunk
        self._strands = strands
        self._located: dict[int, tuple[State, Members] | None] = {}
        at = _run(chunk.groups)
        self._run = at if isinstance(at, slice) else None

    def merge_into(self, into: Sequence[State], lo: int, hi: int) -> None:
        """Merge the panes lo ≤ index < hi into arrays (members × all groups), one state per strand."""
        if not self._chunk.is_dense:
            self._scatter_into(into, lo, hi)
            return
        for at, (strand, target) in enumerate(zip(self._strands, into, strict=True)):
            rows, fold = self._rows(at, lo, hi), strand.fold
            if rows is None:
                continue
            if self._run is not None:
                fold.merge_into([v[:, self._run] for v in target], rows)
                continue
            for i in range(len(strand.members)):
                fold.scatter_into([v[i] for v in target], self._chunk.groups, [row[i] for row in rows])

    def _rows(self, at: int, lo: int, hi: int) -> State | None:
        """The panes lo ≤ index < hi of one strand merged; None if the chunk has none of its members."""
        strand, chunk = self._strands[at], self._chunk
        if lo == 0 and hi == chunk.panes.size and any(a in chunk.states for a in strand.members):
            return chunk.total(strand)
        if at not in self._located:
            self._located[at] = chunk.located(strand)
        located = self._located[at]
        if located is None:
            return None
        state, members = located
        if hi == lo + 1:
            return widened(strand.fold, tuple(c[lo][members] for c in state))
        return widened(strand.fold, strand.fold.reduce([c[lo:hi, members] for c in state]))

    def _scatter_into(self, into: Sequence[State], lo: int, hi: int) -> None:
        assert self._chunk.cell_pane is not None and self._chunk.cell_group is not None
        first, last = np.searchsorted(self._chunk.cell_pane, (lo, hi))
        at = self._chunk.cell_group[first:last]
        for strand, target in zip(self._strands, into, strict=True):
            for i, a in enumerate(strand.members):
                state = self._chunk.states.get(a)
                if state is not None:
                    strand.fold.scatter_into([v[i] for v in target], at, [column[first:last] for column in state])


def _members(places: list[int]) -> Members:
    """Places as a slice if they are consecutive: it copies nothing."""
    first = places[0]
    return slice(first, first + len(places)) if places == list(range(first, first + len(places))) else places


def _run(groups: Ids) -> slice | Ids:
    """Ascending ids, as a slice if they have no gaps."""
    if groups.size and int(groups[-1]) - int(groups[0]) + 1 == groups.size:
        return slice(int(groups[0]), int(groups[-1]) + 1)
    return groups


_NARROW = (np.int8, np.int16, np.int32)
_NOTHING: dict[np.ufunc, int] = {np.minimum: int(np.iinfo(np.int64).max), np.maximum: int(np.iinfo(np.int64).min)}


def narrowed(fold: Fold, state: State) -> State:
    """The columns in the smallest integers that fit: most cells are small numbers, and chunks take most of the memory.

    The identity becomes the extreme of the smaller type, so values must lie strictly within its bounds.
    """
    return tuple(_narrow(fold, column) for column in state)


def _narrow(fold: Fold, column: Array) -> Array:
    if column.dtype != np.int64 or not isinstance(fold, UfuncFold):
        return column
    is_nothing = column == fold.neutral if fold.neutral else None
    real = column if is_nothing is None else column[~is_nothing]
    low, high = (int(real.min()), int(real.max())) if real.size else (0, 0)
    for dtype in _NARROW:
        bounds = np.iinfo(dtype)
        if bounds.min < low and high < bounds.max:
            small = column.astype(dtype)
            if is_nothing is not None:
                small[is_nothing] = _nothing(fold, dtype)
            return small
    return column


def _nothing(fold: UfuncFold, dtype: type[np.signedinteger]) -> int:
    return int(np.iinfo(dtype).max if fold.ufunc is np.minimum else np.iinfo(dtype).min)


def widened(fold: Fold, state: State) -> State:
    """The inverse of `narrowed`."""
    return tuple(_widen(fold, column) for column in state)


def _widen(fold: Fold, column: Array) -> Array:
    if column.dtype.type not in _NARROW or not isinstance(fold, UfuncFold):
        return column
    wide = column.astype(np.int64)
    if fold.neutral:
        wide[column == _nothing(fold, column.dtype.type)] = _NOTHING[fold.ufunc]
    return wide


def panes_per_chunk(groups: int) -> int:
    """Panes per chunk, given the groups per pane."""
    least, most = PANES_PER_CHUNK
    return max(least, min(most, SLOTS_PER_CHUNK // max(groups, 1)))


def build_chunks(cells: Cells) -> list[Chunk]:
    """Cells of closed panes as chunks, panes ascending. Cells may repeat."""
    panes, pane_of = distinct_in_runs(cells.panes)
    if not panes.size:
        return []
    size = panes_per_chunk(len(cells) // panes.size)
    if panes.size <= size:
        return [_build(panes, pane_of, cells)]
    out = []
    if (pane_of[1:] < pane_of[:-1]).any():
        order = np.argsort(pane_of, kind="stable")
        pane_of, cells = pane_of[order], cells.where(order)
    bounds = np.searchsorted(pane_of, np.arange(0, panes.size + size, size))
    for i, start in enumerate(range(0, panes.size, size)):
        rows = slice(bounds[i], bounds[i + 1])
        out.append(_build(panes[start : start + size], pane_of[rows] - start, cells.where(rows)))
    return out


def _build(panes: Points, pane_of: Ids, cells: Cells) -> Chunk:
    groups, group_of = distinct_below(cells.groups, int(cells.groups.max()) + 1)
    slot = pane_of * groups.size + group_of
    slots = panes.size * groups.size
    if len(cells) < DENSE_FILL * slots:
        used, cell_of = distinct_below(slot, slots)
        states = _folded(cells, cell_of, used.size)
        return Chunk(panes, groups, states, {}, used // groups.size, groups[used % groups.size])
    shape = (panes.size, groups.size)
    flat = _folded(cells, slot, slots)
    once = {id(state): a for a, state in reversed(flat.items())}
    strands: dict[Strand, State] = {}
    kept: States = {}
    for strand in strands_of(a for a, state in flat.items() if once[id(state)] is a):
        columns = zip(*(flat[a] for a in strand.members), strict=True)
        strands[strand] = tuple(np.stack([c.reshape(shape) for c in parts], axis=1) for parts in columns)
        kept |= {a: tuple(c[:, i] for c in strands[strand]) for i, a in enumerate(strand.members)}
    return Chunk(panes, groups, {a: kept[once[id(state)]] for a, state in flat.items()}, strands)


def _folded(cells: Cells, at: Ids, size: int) -> States:
    """One state per accumulator; cells merge where `at` repeats, and equal counts share one state object."""
    states: States = {}
    counts: dict[int, list[State]] = {}
    for a, state in cells.states.items():
        fold = fold_of(a)
        out = fold.identity(size)
        fold.scatter_into(out, at, state)
        if a.kind is Kind.COUNT:
            known = counts.setdefault(int(out[0].sum()), [])
            out = next((other for other in known if np.array_equal(other[0], out[0])), out)
            known.append(out)
        states[a] = out
    return states
