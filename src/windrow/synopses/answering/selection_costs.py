"""What it costs to select holistic aggregates from sorted base intervals (`selecting.py`), and to roll them up from
counters (`roll_up.py`). The answers are the same.

Rolling up takes every value of every window's groups; selecting sorts the tuples of all panes once, and then takes each
window of a group alone, whatever its values. So selection pays where windows are many that have many values in common,
be they of one query or of several (`benchmarks/quantiles.py`: 5 to 33 times faster over 1,000 values a group, even at
100, up to 8 times slower at 10).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from windrow.synopses.answering import costs


@dataclass(frozen=True)
class SortWork:
    """What must be sorted first: so many tuples and cells, in all panes that are read; `lines` by what they count."""

    between: int
    widest: int
    groups: int
    cells: int
    tuples: int
    lines: frozenset[tuple[object, ...]]

    @property
    def levels(self) -> int:
        return max(1, self.widest.bit_length())

    @property
    def ns(self) -> float:
        sorting = len(self.lines) * self.tuples * (costs.SORTED_NS + costs.LEVEL_NS * self.levels)
        return costs.SELECTING_NS + costs.READ_NS * self.cells + sorting

    @property
    def nbytes(self) -> int:
        """The sorted levels, what sorting them takes besides, and where every pane of a group begins."""
        return len(self.lines) * (self.tuples * (4 * self.levels + 32) + 16 * self.groups * self.between)


@dataclass(frozen=True)
class SelectionWork:
    """What one query asks: `windows` of `panes` panes on average, of groups that have so many `values` in all.

    `calls`: its holistic aggregates, of which `selections` elements are to be selected, and `distincts` count distinct
    values; `merged`: states of other aggregates.
    """

    sorting: SortWork
    windows: int
    panes: float
    values: int
    selections: float
    distincts: int
    calls: int
    merged: int

    @property
    def share(self) -> float:
        """Of what is read in all, what a window has."""
        return min(1.0, self.panes / max(self.sorting.between, 1))

    def _there(self, possible: int) -> float:
        """How many of some groups or values a window has, if its cells fell at random."""
        return possible * -math.expm1(-self.sorting.cells * self.share / max(possible, 1))

    @property
    def rolled_ns(self) -> float:
        each = costs.ROLLED_NS * self.calls + costs.MERGED_NS * self.merged
        return self.windows * (self.values * costs.LOOKED_NS + self._there(self.values) * each)

    @property
    def looked_ns(self) -> float:
        """Selecting, once all is sorted."""
        rows = self.windows * self._there(self.sorting.groups)
        held = self.sorting.tuples * self.share / max(self._there(self.sorting.groups), 1.0)
        arrays = 2 * self.sorting.levels * max(1.0, math.log2(held + 1))
        looking = arrays * (costs.SELECT_NS * self.selections + costs.BELOW_NS * self.distincts)
        return rows * (looking + costs.MERGED_NS * (1 + self.merged))


@dataclass(frozen=True)
class SelectionBatch:
    """Queries that are asked together, and what is sorted once for all of them."""

    sorting: SortWork
    works: tuple[SelectionWork, ...]

    @classmethod
    def alone(cls, work: SelectionWork) -> SelectionBatch:
        return cls(work.sorting, (work,))

    @property
    def selected_ns(self) -> float:
        return self.sorting.ns + sum(work.looked_ns for work in self.works)

    @property
    def rolled_ns(self) -> float:
        return sum(work.rolled_ns for work in self.works)

    @property
    def pays(self) -> bool:
        return self.sorting.nbytes <= costs.MOST_SORTED_BYTES and self.selected_ns < self.rolled_ns
