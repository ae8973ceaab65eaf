"""Estimated costs of holistic aggregates: selected from sorted base intervals (`holistic/selecting.py`), or rolled up
from counters (`holistic/roll_up.py`). The answers are the same.

A roll-up reads every value in every window of every group. Selection sorts the tuples of all panes once; then each
window of a group is cheap for any number of values. So selection pays where many windows, of one query or of several,
share many values (`benchmarks/quantiles.py`: 5 to 33 times faster with 1,000 values a group, equal with 100, up to 8
times slower with 10).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from windrow.synopses.answering import costs


@dataclass(frozen=True)
class SortWork:
    """What selection sorts first: the cells and tuples of `between` panes, for windows of at most `widest` panes.

    `lines`: one sorted order for each value and set of counted tuples.
    """

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
        """The bytes of the sorted levels, of the sort itself, and of the positions of each group's panes."""
        return len(self.lines) * (self.tuples * (4 * self.levels + 32) + 16 * self.groups * self.between)


@dataclass(frozen=True)
class SelectionWork:
    """The work of one query: `windows` windows of `panes` panes on average, over `values` values in all groups.

    `calls`: holistic aggregates; they select `selections` elements a row, and `distincts` of them count distinct
    values. `merged`: states of other aggregates.
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
        """The fraction of the panes read that one window covers."""
        return min(1.0, self.panes / max(self.sorting.between, 1))

    def _present(self, possible: int) -> float:
        """The expected number of `possible` groups or values in a window, if cells fell at random."""
        return possible * -math.expm1(-self.sorting.cells * self.share / max(possible, 1))

    @property
    def rolled_ns(self) -> float:
        each = costs.ROLLED_NS * self.calls + costs.MERGED_NS * self.merged
        return self.windows * (self.values * costs.LOOKED_NS + self._present(self.values) * each)

    @property
    def looked_ns(self) -> float:
        """The cost of selection without the sorting."""
        rows = self.windows * self._present(self.sorting.groups)
        held = self.sorting.tuples * self.share / max(self._present(self.sorting.groups), 1.0)
        arrays = 2 * self.sorting.levels * max(1.0, math.log2(held + 1))
        looking = arrays * (costs.SELECT_NS * self.selections + costs.BELOW_NS * self.distincts)
        return rows * (looking + costs.MERGED_NS * (1 + self.merged))


@dataclass(frozen=True)
class SelectionBatch:
    """Queries that are answered together, and the sorting they share."""

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
