"""Collects the answers of one lookup: a row per window over all groups, then the rows of groups that are present."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from windrow.plan.accumulators import Accumulator
from windrow.synopses.answering.pane_tables import PaneTables
from windrow.synopses.cells.chunks import States, Strand
from windrow.synopses.cells.folds import State
from windrow.synopses.cells.groups import AnyIds, Ids
from windrow.synopses.index.pane_index import WindowStates
from windrow.synopses.lookups import Lookup, LookupAnswer


@dataclass(frozen=True)
class _Part:
    """The members of one strand that a lookup reads (`which`: the same as a NumPy index), and their output rows."""

    strand: int
    members: list[int]
    which: slice | list[int]
    rows: State


@dataclass(frozen=True)
class ReadPlan:
    """What lookups read: `same` maps each accumulator to the first with equal states; `strands` hold those; `size`
    counts the groups, with nobody."""

    same: Mapping[Accumulator, Accumulator]
    strands: tuple[Strand, ...]
    size: int

    @cached_property
    def _places(self) -> dict[Accumulator, tuple[int, int]]:
        return {a: (s, i) for s, strand in enumerate(self.strands) for i, a in enumerate(strand.members)}

    def read_by(self, lookup: Lookup) -> dict[int, list[int]]:
        """The members that a lookup reads, by strand. The cost does not depend on the number of strands."""
        found: dict[int, list[int]] = {}
        for strand, member in sorted({self._places[self.same[a]] for a in (lookup.presence, *lookup.reads)}):
            found.setdefault(strand, []).append(member)
        return found


class AllSlots:
    """The window and group of every slot, for lookups in which all groups are present.

    Made once, on first use, for the lookup with the most windows.
    """

    def __init__(self, windows: int, groups: int):
        self._windows, self._groups = windows, groups

    def of(self, windows: int) -> tuple[Ids, AnyIds]:
        rows = windows * self._groups
        window, group = self._all
        return window[:rows], group[:rows]

    @cached_property
    def _all(self) -> tuple[Ids, AnyIds]:
        groups = np.tile(np.arange(1, self._groups + 1, dtype=np.int32), self._windows)
        return np.repeat(np.arange(self._windows), self._groups), groups


class LookupOutput:
    """The answers of one lookup: first a row per window over all groups but nobody, then masked (`rows`)."""

    def __init__(self, lookup: Lookup, plan: ReadPlan):
        self._lookup = lookup
        self._same, self._strands = plan.same, plan.strands
        self._states: States = {}
        self._parts: list[_Part] = []
        for at, members in plan.read_by(lookup).items():
            strand, size = plan.strands[at], plan.size
            shape = (len(members), lookup.ends.size, size - 1)
            rows = tuple(np.empty(shape, dtype) for dtype in strand.fold.dtypes)
            self._states |= {strand.members[i]: tuple(c[j] for c in rows) for j, i in enumerate(members)}
            whole = len(members) == len(strand.members)
            self._parts.append(_Part(at, members, slice(None) if whole else members, rows))

    def take(self, window: int, state: Sequence[State]) -> None:
        """Take one window's row from a state over all groups."""
        for part in self._parts:
            for row, column in zip(part.rows, state[part.strand], strict=True):
                row[:, window] = column[part.which, 1:]

    def take_all(self, tables: PaneTables, lows: Ids, highs: Ids) -> None:
        """Take all windows from tables; `lows` and `highs` are pane indexes."""
        for part in self._parts:
            for place, member in enumerate(part.members):
                tables.take(part.strand, member, lows, highs, [row[place] for row in part.rows])

    def take_found(self, found: WindowStates) -> None:
        """Take all windows from an index."""
        for part in self._parts:
            for place, member in enumerate(part.members):
                state = found.state(self._strands[part.strand].members[member], part.rows[0].shape[2])
                for row, column in zip(part.rows, state, strict=True):
                    row[place] = column

    def rows(self, slots: AllSlots) -> LookupAnswer:
        lookup = self._lookup
        count = lookup.present({a: self._states[self._same[a]] for a in (lookup.presence, *lookup.others)})
        windows, groups = count.shape
        if lookup.always or count.all():
            window, group = slots.of(windows)
            states = {a: tuple(c.reshape(-1) for c in state) for a, state in self._states.items()}
            return LookupAnswer(lookup.query, windows, window, group, self._read(states), groups)
        at = np.flatnonzero(count)
        window, group = np.divmod(at, groups)
        states = {a: tuple(c.reshape(-1)[at] for c in state) for a, state in self._states.items()}
        return LookupAnswer(lookup.query, windows, window, group + 1, self._read(states))

    def _read(self, states: States) -> States:
        return {a: states[self._same[a]] for a in dict.fromkeys((self._lookup.presence, *self._lookup.reads))}
